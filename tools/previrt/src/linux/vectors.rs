//! Finds the exception vectors, which the kernel copies to where the processor expects them.
//!
//! They stand before `.init.text` (arch/arm/kernel/vmlinux.lds.S): one or three sets of eight
//! branches, linked as if they were a page before the stubs that they go to, and then the stubs.
//! The word in front of the stubs' code is the address of `vector_swi`. So in the image the target
//! of a branch is a page nearer than the branch says.

use super::tables::Init;
use crate::flow::memory::Memory;
use crate::flow::{Root, branch_target};
use crate::kallsyms::Symbol;
use hanok_decode::aarch32::Isa;
use std::ops::Range;

/// The distance from the vectors to the stubs where they are executed.
const PAGE: u32 = 0x1000;
/// The size of a set of vectors in bytes: eight words.
const SET: u32 = 32;
/// The largest size of the vectors and stubs in bytes.
const MAX_REGION: u32 = 0x2000;

/// The roots of the stubs' code in the image.
pub fn roots(memory: Memory<'_>, symbols: &[Symbol], init: &Init, isa: Isa) -> Vec<Root> {
    let Some(stubs) = stubs(memory, symbols, init) else {
        return Vec::new();
    };
    let first = Root {
        address: stubs.start.wrapping_add(4),
        isa,
    };
    std::iter::once(first)
        .chain(targets(memory, &stubs, isa))
        .collect()
}

/// The targets of the vectors that stand in front of `stubs`.
pub fn targets(memory: Memory<'_>, stubs: &Range<u32>, isa: Isa) -> impl Iterator<Item = Root> {
    let stubs = stubs.clone();
    // Each set of vectors is linked as if it began on the page before the stubs.
    let sets = (stubs.start.saturating_sub(3 * SET)..stubs.start).step_by(SET as usize);
    let vectors = sets.flat_map(|set| (0..8).map(move |n| (set, 4 * n)));
    vectors.filter_map(move |(set, n)| {
        let linked = stubs.start.wrapping_sub(PAGE).wrapping_add(n);
        let found = memory.fetch(set.wrapping_add(n), isa)?;
        let address = branch_target(found, linked)?;
        stubs.contains(&address).then_some(Root { address, isa })
    })
}

/// The range from the word in front of the stubs' code to the known init code.
pub fn stubs(memory: Memory<'_>, symbols: &[Symbol], init: &Init) -> Option<Range<u32>> {
    let call = symbols.iter().find(|symbol| symbol.name == "vector_swi")?;
    let start = init.start & !(PAGE - 1);
    let mut words = (start.saturating_sub(MAX_REGION)..init.start).step_by(4);
    let is_call = |at: &u32| {
        let word = memory.word(*at);
        word.is_some_and(|word| word & !1 == call.address)
    };
    Some(words.find(is_call)?..init.start)
}

/// The range of the vectors and their stubs in the image.
pub fn region(memory: Memory<'_>, symbols: &[Symbol], init: &Init) -> Option<Range<u32>> {
    let stubs = stubs(memory, symbols, init)?;
    Some(stubs.start.saturating_sub(3 * SET)..stubs.end)
}
