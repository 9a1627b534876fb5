//! Slots are executed, by small CPUs that are written by the manual's pseudocode alone.

mod a64;
mod arm;
mod arm_a32;
mod arm_t32;
mod memory;
mod relocated_a64;
mod relocated_arm;
mod trampolines;
