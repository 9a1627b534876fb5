//! What the bench payload is to measure, and how a figure is computed from counter readings: the
//! part of the payload that is tested on a PC.

#![no_std]
#![forbid(unsafe_code)]

mod budget;
mod cost;
mod figure;
mod options;

pub use budget::{Periods, Said, Spread};
pub use cost::{Cost, Least};
pub use figure::{Figure, Figures};
pub use options::{DEFAULT_REPEAT, Device, Mistake, Options, Role, Waiting};
