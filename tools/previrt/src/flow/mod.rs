//! Following the code of an image that has no mapping symbols.
//!
//! Kernel text holds literals and jump tables between the instructions. What the code loads by
//! the PC is data; what it branches to is code. One thing is not known: a call may never come
//! back, and what stands behind it may be a literal. So that is a guess ([`Follower`]), as is what
//! has a name and what something points to. A guess becomes a proof where nothing is left that
//! it could be mistaken for: where each word of a function is explained ([`closed`]), all code
//! of it is known, with it all that it loads, and none of that was taken for code.

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
pub use run::Run;

use hanok_decode::aarch32::{Encoding, Isa, ItState};
use std::collections::HashSet;
use std::ops::Range;
use step::{Next, step};

pub use step::{decode, plausible};

/// An address where code begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root {
    /// Where.
    pub address: u32,
    /// In which instruction set.
    pub isa: Isa,
}

/// Where code begins.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// For certain.
    pub certain: Vec<Root>,
    /// As it seems.
    pub likely: Vec<Root>,
    /// Functions' addresses, each of which is judged for itself.
    pub named: HashSet<u32>,
    /// Rooms of trampolines: a branch into one comes back behind itself.
    pub rooms: Vec<Range<u32>>,
}

/// Where the instruction `encoding` at `at` calls, if it does so by a constant.
pub fn call_target(encoding: Encoding, at: u32) -> Option<Root> {
    match step(encoding, at, ItState::NONE).next {
        Next::Call(Some((address, isa))) => Some(Root { address, isa }),
        _ => None,
    }
}

/// Where the instruction `encoding` at `at` branches, if it does so by a constant and does
/// not call.
pub fn branch_target(encoding: Encoding, at: u32) -> Option<u32> {
    match step(encoding, at, ItState::NONE).next {
        Next::Branch { to, .. } => Some(to),
        _ => None,
    }
}

/// Whether after the instruction `encoding` at `at` the next one is executed for certain, or
/// may be by a condition; not if it is a call, or branches away for good.
pub fn falls(encoding: Encoding, at: u32, it: ItState) -> bool {
    match step(encoding, at, it).next {
        Next::Falls => true,
        Next::Branch { conditional, .. } | Next::Away { conditional, .. } => conditional,
        Next::Call(_) | Next::Stops => false,
    }
}

/// What the instruction `encoding` at `at` names by the PC to load it, or to take its address.
pub fn literal(encoding: Encoding, at: u32) -> Option<u32> {
    let step = step(encoding, at, ItState::NONE);
    step.literal
        .or(step.address.map(|(_, place)| (place, 4)))
        .map(|(place, _)| place)
}
