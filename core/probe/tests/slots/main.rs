//! Slots are executed, by small CPUs that are written by the manual's pseudocode alone.

// Bits are grouped as the manual's fields are.
#![allow(clippy::unusual_byte_groupings)]

mod a64;
mod arm;
mod arm_a32;
mod arm_t32;
mod classes;
mod memory;
mod refusals;
mod relocated_a64;
mod relocated_arm;
mod spaces;
mod texts;
mod trampolines;
