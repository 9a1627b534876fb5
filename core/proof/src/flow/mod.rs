//! Where an instruction goes on and what it loads relative to the PC, for A32 and T32.
//!
//! No more is decoded than that. Whether operands are right is not asked, unless a wrong one decides
//! where the flow goes: behind a word that the architecture does not define, the flow ends, and
//! ending it too early is allowed.

mod a32;
mod control;
mod data;
mod extension;
mod media;
mod memory;
mod sensitive;
mod step;
mod t32;
mod wide;

pub use a32::step_a32;
pub use step::{Goes, Literal, Relative, Step};
pub use t32::step_t32;
