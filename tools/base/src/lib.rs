//! What every part of the tool shares that touches the developer's machine: what the user sees,
//! programs that are run, files that are written, folders that go again, signals, and exit codes.

#![forbid(unsafe_code)]

pub mod cpu;
pub mod exit;
pub mod outputs;
pub mod process;
pub mod repo;
pub mod scratch;
pub mod signals;
pub mod ui;
pub mod values;
