//! From a description to a board that can be started: finds or builds the files that it names,
//! makes one image of them, and makes the command line of the QEMU that is the board.

#![forbid(unsafe_code)]

pub mod board;
pub mod display;
pub mod form;
pub mod key;
pub mod machine;
pub mod memory;
pub mod native;
pub mod overrides;
pub mod run_image;
pub mod system;
pub mod variables;
