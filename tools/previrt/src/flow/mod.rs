//! Follows the code of an image that has no mapping symbols.
//!
//! Kernel text holds literals and jump tables between the instructions. What the code loads by the
//! PC is data; where it branches is code. One thing is not known: a call may never return, and then
//! the word behind it may be a literal. So the word behind a call is a guess ([`Follower`]), as are
//! places that have a name or that something points to. A guess becomes a proof where nothing is
//! left that it could be mistaken for: where each word of a function is explained ([`closed`]), all
//! its code is known, all that this code loads is known, and none of that was taken for code.

pub mod closed;
mod engine;
mod jump;
pub mod marks;
pub mod memory;
mod pointer;
mod run;
mod step;
mod tables;
#[cfg(test)]
mod tests;

pub use engine::Follower;
pub(crate) use jump::Before;
pub use run::Run;

use hanok_decode::aarch32::{Encoding, Isa, ItState};
use std::collections::HashSet;
use std::ops::Range;
pub use step::{Next, step};

pub use step::{decode, plausible};

/// An address where code begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root {
    /// The address of the first instruction.
    pub address: u32,
    /// The instruction set.
    pub isa: Isa,
}

/// The roots from which an image's code is followed.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Roots that are certain.
    pub certain: Vec<Root>,
    /// Roots that are probable.
    pub likely: Vec<Root>,
    /// The addresses of functions, each of which is judged by itself.
    pub named: HashSet<u32>,
    /// The areas that hold trampolines: a branch into one returns behind itself.
    pub areas: Vec<Range<u32>>,
}

/// The target of the instruction `encoding` at `at`, if it calls a constant address.
pub fn call_target(encoding: Encoding, at: u32) -> Option<Root> {
    match step(encoding, at, ItState::NONE).next {
        Next::Call(Some((address, isa))) => Some(Root { address, isa }),
        _ => None,
    }
}

/// The target of the instruction `encoding` at `at`, if it branches to a constant address and is no
/// call.
pub fn branch_target(encoding: Encoding, at: u32) -> Option<u32> {
    match step(encoding, at, ItState::NONE).next {
        Next::Branch { to, .. } => Some(to),
        _ => None,
    }
}

/// Whether the instruction behind `encoding` at `at` is executed after it, always or by a
/// condition. After a call and after an unconditional branch it is not.
pub fn falls(encoding: Encoding, at: u32, it: ItState) -> bool {
    match step(encoding, at, it).next {
        Next::Falls => true,
        Next::Branch { conditional, .. } | Next::Away { conditional, .. } => conditional,
        Next::Call(_) | Next::Stops => false,
    }
}

/// The address near the PC that the instruction `encoding` at `at` loads from or puts into a
/// register.
pub fn literal(encoding: Encoding, at: u32) -> Option<u32> {
    let step = step(encoding, at, ItState::NONE);
    step.literal
        .or(step.address.map(|(_, place)| (place, 4)))
        .map(|(place, _)| place)
}
