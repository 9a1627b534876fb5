//! Frames that tests put together.

use hanok_decode::aarch32::{Isa, ItState};
use hanok_proof::{AfterCall, Doubts, FrameProof, Looked, Place, Progress, WORDS, Words};

/// A word that is undefined in A32, and whose halves are so in T32.
pub const UNDEFINED: u32 = 0xde00_de00;

/// A frame of undefined words, but for `words` at `offset`.
pub fn frame(parts: &[(u32, &[u32])]) -> Words {
    let mut all = [UNDEFINED; WORDS];
    for (offset, words) in parts {
        let at = (*offset / 4) as usize;
        all[at..at + words.len()].copy_from_slice(words);
    }
    all
}

/// The words of T32 halfwords; the last one is filled with UDF.
pub fn halves(halves: &[u16]) -> Vec<u32> {
    let word =
        |two: &[u16]| u32::from(two[0]) | u32::from(two.get(1).copied().unwrap_or(0xde00)) << 16;
    halves.chunks(2).map(word).collect()
}

pub fn a32(offset: u32) -> Place {
    Place::new(offset, Isa::A32, ItState::NONE).expect("a place of A32")
}

pub fn t32(offset: u32) -> Place {
    Place::new(offset, Isa::T32, ItState::NONE).expect("a place of T32")
}

/// The proof from these places.
pub fn followed(words: &Words, entries: &[Place]) -> (FrameProof, Progress) {
    let mut proof = FrameProof::new(0xc000_0000, AfterCall::Follow);
    let mut progress = Progress::Finished;
    for entry in entries {
        progress = proof.follow(*entry, words, u32::MAX);
    }
    (proof, progress)
}

/// The offsets of all proven instructions of `isa`.
pub fn instructions(proof: &FrameProof, isa: Isa) -> Vec<u32> {
    (0..4096)
        .filter(|offset| offset % 2 == 0 && proof.instruction(*offset) == Some(isa))
        .collect()
}

/// The offsets of all halfwords that are data.
pub fn data(proof: &FrameProof) -> Vec<u32> {
    (0..4096)
        .step_by(2)
        .filter(|offset| proof.is_data(*offset))
        .collect()
}

/// The doubts of these words.
pub fn doubts(words: &Words) -> Doubts {
    let mut doubts = Doubts::new();
    assert_eq!(doubts.look(words, u32::MAX), Looked::Everywhere);
    doubts
}
