//! Where the hypervisor's instructions go.
//!
//! A plugin of QEMU's (`tools/plugin`) counts; this crate is all of it that needs no QEMU.
//! [`code`] knows the hypervisor's instructions and recognizes them in a guest's physical
//! memory, [`operations`] those whose cost an emulator does not show, [`record`] turns counters into stretches and exits, [`report`] is the file in
//! between, [`symbols`] names addresses, and [`profile`] and [`table`] are for people.
//!
//! Instructions are counted one by one, never sampled: a profile's total is the figure.

#![forbid(unsafe_code)]

pub mod code;
#[cfg(test)]
mod fake;
pub mod operations;
pub mod profile;
pub mod reason;
pub mod record;
pub mod report;
pub mod symbols;
pub mod table;
