//! Tables by which Linux patches its own code, and others that tell where code begins.
//!
//! None of them is named from outside in an image without symbols, so each is found by its own
//! form: the longest run of entries that all say what that table says. A run counts from
//! [`MIN_RUN`] entries on; shorter ones would be accidents.

pub mod alternatives;
pub mod base;
pub mod exceptions;
pub mod init;
pub mod jump_labels;
pub mod runs;
pub mod unwind;
pub mod vectors;

use crate::flow::Root;
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use hanok_decode::aarch32::Isa;
use std::ops::Range;

/// Fewer entries are no table.
const MIN_RUN: usize = 8;

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
    pub alternatives: Vec<alternatives::Alternative>,
}

/// Finds all tables of an image whose code is in `text` and of `isa`, and has these `symbols`.
pub fn find(memory: Memory<'_>, text: &Text, symbols: &[Symbol], isa: Isa) -> Tables {
    let mut tables = Tables::default();
    exceptions::find(memory, text, isa, &mut tables);
    jump_labels::find(memory, text, isa, &mut tables);
    alternatives::find(memory, text, isa, &mut tables);
    unwind::find(memory, text, symbols, isa, &mut tables);
    tables
}
