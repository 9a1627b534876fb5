//! The virtual CPU, held to the manual.
//!
//! `model` is DDI 0406C's pseudocode, written down as it stands there: banked registers by name, one
//! status register of 32 bits, exceptions one by one. `random` lets it and the virtual CPU do the
//! same things, at random. The other modules are cases of one class of instructions each.

mod anything;
mod blocks;
mod board;
mod branches;
mod exceptions;
mod floating_point;
mod identity;
mod maintenance;
mod memory;
mod model;
mod page;
mod random;
mod status;
mod steps;
mod system;
mod timer;
mod unprivileged;
