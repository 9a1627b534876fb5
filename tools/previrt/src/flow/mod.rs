//! Following the code of an image that has no mapping symbols.
//!
//! Kernel text holds literals and jump tables between the instructions. What the code loads by
//! the PC is data; what it branches to is code. Both are certain where they start from code
//! that is certain: functions' names, tables that the kernel itself uses. One thing is not: a
//! call may never come back, and what stands behind it may be a literal. So what follows a
//! call is looked at last, when the literals of the rest are known, and the whole is done
//! again with the literals that were found until nothing changes ([`follow`]).

mod engine;
pub mod marks;
pub mod memory;
mod step;

pub use engine::{Follow, follow};

use hanok_decode::aarch32::{Encoding, Isa, ItState};
use step::{Next, step};

pub use step::decode;

/// An address where code begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root {
    /// Where.
    pub address: u32,
    /// In which instruction set.
    pub isa: Isa,
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
