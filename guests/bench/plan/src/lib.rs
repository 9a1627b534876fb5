//! What the bench payload is to measure, and how a figure comes out of counter readings: the
//! part of it that is tested on a PC.

#![no_std]
#![forbid(unsafe_code)]

mod cost;
mod figure;
mod options;

pub use cost::{Cost, Least};
pub use figure::{Figure, Figures};
pub use options::{DEFAULT_REPEAT, Device, Mistake, Options, Role, Waiting};
