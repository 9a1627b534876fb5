//! Whether all deadlines are kept, before anything runs.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod edf;
pub mod fixed;
pub mod least;
pub mod load;
pub mod supply;
mod work;

pub use work::{Undecided, Work};
