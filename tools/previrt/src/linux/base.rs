//! Finds the address at which an image is linked, and its instruction set.
//!
//! Kallsyms has addresses; the image has none. What they share are the functions that are called:
//! the places that most calls in the image go to are functions with a name. So each pair of such a
//! place and a name is a vote for a base, and the right base gets most votes. Calls decoded in the
//! wrong instruction set go to arbitrary places, so that the same vote tells the instruction set.

use crate::flow::call_target;
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;
use crate::refusal::{Refusal, Result};
use crate::sweep::fetch;
use hanok_decode::aarch32::{Encoding, Isa};
use std::collections::HashMap;

/// The number of call targets that vote: the most frequent ones.
const VOTERS: usize = 48;
/// A base is a multiple of this: a page.
const ALIGNMENT: u32 = 0x1000;
/// The number of targets that have to agree.
const QUORUM: usize = VOTERS / 2;

/// The address at which the image's first byte is linked, and the instruction set of its functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The address of the image's first byte.
    pub address: u32,
    /// The instruction set of most functions.
    pub isa: Isa,
}

/// The base that the calls and names of an image agree on.
pub fn find(image: &[u8], symbols: &[Symbol]) -> Result<Base> {
    [Isa::A32, Isa::T32]
        .into_iter()
        .map(|isa| (vote(image, symbols, isa), isa))
        .max_by_key(|((votes, _), _)| *votes)
        .filter(|((votes, _), _)| *votes >= QUORUM)
        .map(|((_, address), isa)| Base { address, isa })
        .ok_or_else(unknown)
}

fn unknown() -> Refusal {
    Refusal::new(
        "this image's calls and names do not belong together",
        "the functions that are called most are not where kallsyms has functions",
        "give the image as it was built, or the vmlinux of the same build",
    )
}

/// The best base, and how many targets agree on it.
fn vote(image: &[u8], symbols: &[Symbol], isa: Isa) -> (usize, u32) {
    let mut votes: HashMap<u32, usize> = HashMap::new();
    let text: Vec<u32> = symbols
        .iter()
        .filter(|s| s.is_text())
        .map(|s| s.address)
        .collect();
    for target in called_most(image, isa) {
        let mut last = None;
        for address in &text {
            // Several names of one place give one vote.
            let base = address.wrapping_sub(target);
            if base % ALIGNMENT == 0 && base != 0 && last.replace(*address) != Some(*address) {
                *votes.entry(base).or_default() += 1;
            }
        }
    }
    let best = votes
        .into_iter()
        .max_by_key(|(base, votes)| (*votes, *base));
    best.map_or((0, 0), |(base, votes)| (votes, base))
}

/// Whether an instruction may be a BL. Most are not, and need no decoding.
const fn may_call(encoding: Encoding) -> bool {
    match encoding {
        Encoding::A32(word) => word >> 24 & 0xf == 0xb,
        Encoding::Wide(both) => both & 0xf800_d000 == 0xf000_d000,
        Encoding::Narrow(_) => false,
    }
}

/// The offsets of the most frequent call targets.
fn called_most(image: &[u8], isa: Isa) -> Vec<u32> {
    let memory = Memory {
        bytes: image,
        base: 0,
    };
    let mut calls: HashMap<u32, usize> = HashMap::new();
    for offset in (0..image.len()).step_by(isa.alignment() as usize) {
        let target = fetch(image, offset, isa)
            .filter(|found| may_call(*found))
            .and_then(|found| call_target(found, offset as u32))
            .filter(|root| root.isa == isa && memory.offset(root.address).is_some());
        if let Some(root) = target {
            *calls.entry(root.address).or_default() += 1;
        }
    }
    let mut targets: Vec<_> = calls.into_iter().collect();
    targets.sort_by_key(|(target, calls)| (std::cmp::Reverse(*calls), *target));
    targets
        .into_iter()
        .take(VOTERS)
        .map(|(target, _)| target)
        .collect()
}
