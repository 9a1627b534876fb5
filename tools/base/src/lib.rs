//! The parts of the tool that deal with the developer's machine: messages to the user, programs
//! that are run, files that are written, temporary folders, signals, and exit codes.

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
