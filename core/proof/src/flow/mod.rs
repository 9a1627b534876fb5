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

use hanok_decode::aarch32::{Encoding, ItState};

pub use a32::step_a32;
pub use step::{Goes, Literal, Relative, Step};
pub use t32::step_t32;

/// The instruction as the flow sees it; `it` is the place of one of T32 in an IT block.
pub(crate) fn step(encoding: Encoding, it: ItState) -> Step {
    match encoding {
        Encoding::A32(word) => step_a32(word),
        Encoding::Narrow(half) => step_t32(half, 0, it),
        Encoding::Wide(both) => step_t32((both >> 16) as u16, both as u16, it),
    }
}
