//! From a description to a board that can be started: the files that it names found or built, one
//! image made of them, and the command line of the QEMU that is the board.

#![forbid(unsafe_code)]

pub mod board;
pub mod form;
pub mod key;
pub mod machine;
pub mod native;
pub mod overrides;
pub mod run_image;
pub mod system;
