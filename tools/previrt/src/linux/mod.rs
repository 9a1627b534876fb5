//! Tables by which Linux patches its own code, and others that tell where code begins.
//!
//! None of them is named from outside in an image without symbols, so each is found by its own
//! form: the longest run of entries that all say what that table says. A run counts from
//! eight entries on; shorter ones would be accidents.

pub mod alternatives;
pub mod base;
pub mod end;
pub mod exceptions;
pub mod init;
pub mod jump_labels;
pub mod runs;
pub mod tables;
pub mod unwind;
pub mod vectors;

use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use hanok_decode::aarch32::Isa;

pub use tables::{Found, Tables, Text};

/// Finds all tables of an image whose code is in `text` and of `isa`, and has these `symbols`.
pub fn find(memory: Memory<'_>, text: &Text, symbols: &[Symbol], isa: Isa) -> Tables {
    let mut tables = Tables::default();
    exceptions::find(memory, text, isa, &mut tables);
    jump_labels::find(memory, text, isa, &mut tables);
    alternatives::find(memory, text, isa, &mut tables);
    unwind::find(memory, text, symbols, isa, &mut tables);
    tables
}
