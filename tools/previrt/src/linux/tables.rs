//! The contents of Linux's tables, and the ranges of its code.

use crate::flow::Root;
use hanok_decode::aarch32::Encoding;
use std::ops::Range;

/// The largest size of `.exit.text` in bytes. It stands behind `_einittext`, and neither kallsyms
/// nor the unwinder's index has it.
pub const EXIT_TEXT: u32 = 0x1_0000;

/// The smallest number of entries of a table.
pub(super) const MIN_RUN: usize = 8;

/// Where code may be, as addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The ranges: start and end of each.
    pub ranges: Vec<(u32, u32)>,
    /// The end of `.text`, if it is known: tables are behind it.
    pub end: u32,
    /// The range of kallsyms. Its lists of growing addresses look like tables, and are none.
    pub kallsyms: Range<u32>,
}

impl Text {
    /// Whether `address` is in one of the ranges.
    pub fn contains(&self, address: u32) -> bool {
        self.ranges
            .iter()
            .any(|(from, to)| (*from..*to).contains(&address))
    }
}

/// A table that was found in the image.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct FoundTable {
    /// The table's name in Linux.
    pub name: &'static str,
    /// The table's address.
    pub address: u32,
    /// The table's size in bytes.
    pub len: u32,
    /// The number of its entries.
    pub entries: usize,
}

/// What the tables say.
#[derive(Clone, Debug, Default)]
pub struct LinuxTables {
    /// The tables that were found.
    pub found: Vec<FoundTable>,
    /// The places at which code begins, by these tables.
    pub roots: Vec<Root>,
    /// The functions that the unwinder's index has: code, a little of it in the other instruction
    /// set.
    pub functions: Vec<Root>,
    /// The places whose instruction is exchanged on a uniprocessor.
    pub alternatives: Vec<Alternative>,
    /// The addresses of instructions that may fault.
    pub faulting: Vec<u32>,
}

/// An instruction that is exchanged on a uniprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The address at which the other instruction is executed.
    pub place: u32,
    /// The address of the other instruction in the table.
    pub entry: u32,
    /// The other instruction.
    pub other: Encoding,
}

/// The place of the init code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// The first page of the vectors, the stubs and the init code.
    pub from: u32,
    /// `_sinittext`, or the first function that the unwinder's index has.
    pub start: u32,
    /// `_einittext`, or the last place that the unwinder's index has.
    pub end: u32,
    /// `__mmap_switched`, where the code at the image's start goes once the MMU is on, if kallsyms does
    /// not name it.
    pub switched: Option<u32>,
    /// Whether kallsyms names the init code.
    pub named: bool,
}

impl Init {
    /// The range of the image in which code may be.
    pub const fn range(&self) -> (u32, u32) {
        (self.from, self.end.saturating_add(EXIT_TEXT))
    }
}
