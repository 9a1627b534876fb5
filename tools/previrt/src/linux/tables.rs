//! What Linux's tables say, and where its code is.

use crate::flow::Root;
use hanok_decode::aarch32::Encoding;
use std::ops::Range;

/// Behind `_einittext` comes `.exit.text`, which neither kallsyms nor the unwinder's index has.
pub const EXIT_TEXT: u32 = 0x1_0000;

/// Fewer entries are no table.
pub(super) const MIN_RUN: usize = 8;

/// Where code may be, as addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Pieces, each from and to.
    pub ranges: Vec<(u32, u32)>,
    /// Where `.text` ends, if that is known: tables are behind it.
    pub end: u32,
    /// Where kallsyms is: lists of addresses that grow, as some tables are, and none of those.
    pub kallsyms: Range<u32>,
}

impl Text {
    /// Whether `address` is in it.
    pub fn contains(&self, address: u32) -> bool {
        self.ranges
            .iter()
            .any(|(from, to)| (*from..*to).contains(&address))
    }
}

/// A table that was found: its name, where in the image it is, and how many entries it has.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Found {
    /// As Linux calls it.
    pub name: &'static str,
    /// Its address.
    pub address: u32,
    /// How many bytes.
    pub len: u32,
    /// How many entries.
    pub entries: usize,
}

/// What the tables said.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Those that were found.
    pub found: Vec<Found>,
    /// Where they say that code begins.
    pub roots: Vec<Root>,
    /// Where the unwinder has a function: code, but of the other instruction set for once.
    pub functions: Vec<Root>,
    /// Places whose instruction is exchanged on a uniprocessor.
    pub alternatives: Vec<Alternative>,
}

/// An instruction that is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// Where it is executed.
    pub place: u32,
    /// Where the table has the other instruction.
    pub entry: u32,
    /// The other instruction.
    pub other: Encoding,
}

/// Where the init code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init {
    /// The page from which on there are vectors, stubs and init code.
    pub from: u32,
    /// `_sinittext`, or the first function that the unwinder's index has.
    pub start: u32,
    /// `_einittext`, or the last place that the unwinder's index has.
    pub end: u32,
    /// `__mmap_switched`, where the code at the image's start goes once the MMU is on, if kallsyms does
    /// not name it.
    pub switched: Option<u32>,
    /// Whether kallsyms says so.
    pub named: bool,
}

impl Init {
    /// The piece of the image in which code may be.
    pub const fn range(&self) -> (u32, u32) {
        (self.from, self.end.saturating_add(EXIT_TEXT))
    }
}
