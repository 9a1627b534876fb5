//! Tables by which Linux patches its own code, and others that tell where code begins.
//!
//! In an image without symbols nothing outside names them, so each is found by its own form: the
//! longest run of entries that all fulfil that table's rule. Fewer than eight entries would be
//! accidents.

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

pub use tables::{FoundTable, LinuxTables, Text};

/// Finds all tables of an image of `isa` whose code is in `text`, and which has these `symbols`.
pub fn find(memory: Memory<'_>, text: &Text, symbols: &[Symbol], isa: Isa) -> LinuxTables {
    let mut tables = LinuxTables::default();
    exceptions::find(memory, text, isa, &mut tables);
    jump_labels::find(memory, text, isa, &mut tables);
    alternatives::find(memory, text, isa, &mut tables);
    unwind::find(memory, text, symbols, isa, &mut tables);
    tables
}
