//! The exception vectors, which the kernel copies to where the processor wants them.
//!
//! They stand before `.init.text` (arch/arm/kernel/vmlinux.lds.S): one or three sets of eight
//! branches, linked to be a page before the stubs they go to, and then the stubs, the first
//! word of which is the address of `vector_swi`. So a branch's target is a page nearer in the
//! image than it says.

use crate::flow::memory::Memory;
use crate::flow::{Root, branch_target};
use crate::kallsyms::Symbol;
use hanok_decode::aarch32::Isa;
use std::ops::Range;

/// From the vectors to the stubs where they are executed.
const PAGE: u32 = 0x1000;
/// Eight words.
const SET: u32 = 32;
/// The region is smaller.
const MAX_REGION: u32 = 0x2000;

/// Where the stubs' code begins in the image.
pub fn roots(memory: Memory<'_>, symbols: &[Symbol], isa: Isa) -> Vec<Root> {
    let Some(Range {
        start: stubs,
        end: init,
    }) = stubs(memory, symbols)
    else {
        return Vec::new();
    };
    let mut roots = vec![Root {
        address: stubs.wrapping_add(4),
        isa,
    }];
    // Each set of vectors is linked as if it began on the page before the stubs.
    for set in (stubs.saturating_sub(3 * SET)..stubs).step_by(SET as usize) {
        let vectors = (0..8).map(|n| 4 * n);
        roots.extend(vectors.filter_map(|n| {
            let linked = stubs.wrapping_sub(PAGE).wrapping_add(n);
            let found = memory.fetch(set.wrapping_add(n), isa)?;
            let address = branch_target(found, linked)?;
            (stubs..init)
                .contains(&address)
                .then_some(Root { address, isa })
        }));
    }
    roots
}

/// From the word in front of the stubs' code to `.init.text`.
pub fn stubs(memory: Memory<'_>, symbols: &[Symbol]) -> Option<Range<u32>> {
    let named = |name: &str| symbols.iter().find(|symbol| symbol.name == name);
    let (init, call) = (named("_sinittext")?, named("vector_swi")?);
    let start = init.address & !(PAGE - 1);
    let mut words = (start.saturating_sub(MAX_REGION)..init.address).step_by(4);
    let is_call = |at: &u32| {
        let word = memory.word(*at);
        word.is_some_and(|word| word & !1 == call.address)
    };
    Some(words.find(is_call)?..init.address)
}

/// Where the vectors and their stubs are in the image.
pub fn region(memory: Memory<'_>, symbols: &[Symbol]) -> Option<Range<u32>> {
    let stubs = stubs(memory, symbols)?;
    Some(stubs.start.saturating_sub(3 * SET)..stubs.end)
}
