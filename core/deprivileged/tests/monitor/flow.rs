//! What may count as known in a page: what is reached from the places that were executed, as the
//! tools' decoder follows it.

use hanok_decode::aarch32::{Encoding, Isa, ItState};
use hanok_instructions::{Flow, Instruction, Use, decode_a32, decode_t32};
use std::collections::{BTreeMap, BTreeSet};

/// A place of a page: its offset, whether it is T32, and its ITSTATE.
pub type At = (u32, bool, u8);

/// The halfwords of a page that are code, and those that are loaded by it.
#[derive(Default)]
pub struct Known {
    /// With where the instructions begin that have the halfword, and whether they are T32.
    pub code: BTreeMap<u32, BTreeSet<(u32, bool)>>,
    pub data: BTreeSet<u32>,
}

fn decode(words: &[u32], (offset, thumb, it): At) -> Instruction {
    let half = |offset: u32| {
        let word = words.get((offset / 4) as usize).copied().unwrap_or(0);
        (word >> (offset % 4 * 8)) as u16
    };
    if thumb {
        decode_t32(half(offset), half(offset + 2), ItState::from_bits(it))
    } else {
        decode_a32(words[(offset / 4) as usize])
    }
}

fn goes_on(found: &Instruction) -> bool {
    match found.flow {
        Flow::Exception(_) => found.comes_back() || found.falls_through(),
        _ => found.falls_through(),
    }
}

impl Known {
    /// Whether the halfword is loaded, or part of an instruction other than that at `place`.
    pub fn is_other(&self, half: u32, place: At) -> bool {
        let starts = self.code.get(&half);
        let other = |start: &(u32, bool)| *start != (place.0, place.1);
        self.data.contains(&half) || starts.is_some_and(|starts| starts.iter().any(other))
    }
}

/// Follows the flow through the words of a page.
pub fn follow(words: &[u32], entries: &BTreeSet<At>) -> Known {
    let mut known = Known::default();
    let mut seen = BTreeSet::new();
    let mut open: Vec<At> = entries.iter().copied().collect();
    while let Some(place) = open.pop() {
        let (offset, thumb, it) = place;
        if offset >= 4096 || !seen.insert(place) {
            continue;
        }
        let found = decode(words, place);
        for half in halves(offset, found.encoding) {
            let starts = known.code.entry(half).or_default();
            starts.insert((offset, thumb));
        }
        if let Some(reference) = found.reference
            && let Use::Load(bytes) = reference.used
        {
            let at = reference.at.from(offset);
            let last = at.wrapping_add(bytes.into());
            known.data.extend((at & !1..last.min(4096)).step_by(2));
        }
        if let Some(target) = found.target(offset) {
            let isa = match found.flow {
                Flow::Call { isa, .. } => isa == Isa::T32,
                _ => thumb,
            };
            open.push((target, isa, 0));
        }
        if goes_on(&found) {
            let it = found.it_after(ItState::from_bits(it)).into_bits();
            open.push((offset + found.bytes(), thumb, if thumb { it } else { 0 }));
        }
    }
    known
}

/// The offsets of an instruction's halfwords.
pub fn halves(offset: u32, encoding: Encoding) -> impl Iterator<Item = u32> {
    (offset..offset + encoding.bytes()).step_by(2)
}
