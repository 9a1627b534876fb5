//! What has to become a trap, and the traps.

use crate::anything::frames;
use crate::frames::{a32, followed, frame, halves, t32};
use hanok_decode::aarch32::{Encoding, ItState, indirect, sensitive};
use hanok_instructions::{Definition, Exception, Flow, decode_a32, decode_t32};
use hanok_proof::{
    AfterCall, Cause, Execution, FrameProof, Goes, Site, step_a32, step_t32, trap_for,
};
use proptest::prelude::*;

/// The offsets and causes of all sites.
fn found(sites: impl Iterator<Item = Site>) -> Vec<(u32, Cause)> {
    sites.map(|site| (site.offset, site.cause)).collect()
}

#[test]
fn a_confined_frame_has_more_sites() {
    use Cause::{IndirectBranch, Sensitive};
    // mrs r0, cpsr; bxeq lr; b .+8; a word; ldr pc, [r0]
    let words = frame(&[(0, &[0xe10f_0000, 0x012f_ff1e, 0xea00_0000, 0, 0xe590_f000])]);
    let (proof, _) = followed(&words, &[a32(0)]);
    assert_eq!(
        found(proof.sites(&words, Execution::Free)),
        [(0, Sensitive)]
    );
    let sites = found(proof.sites(&words, Execution::Confined));
    assert_eq!(
        sites,
        [(0, Sensitive), (4, IndirectBranch), (16, IndirectBranch)]
    );
    assert_eq!(proof.next_code(0), Some(0));
    assert_eq!(proof.next_code(9), Some(16));
    assert_eq!(proof.next_code(17), None);
    assert_eq!(proof.next_code(u32::MAX), None);
}

#[test]
fn blocks_are_told() {
    // itt eq; moveq r0, r0; popeq {pc}; bx lr
    let words = frame(&[(0, &halves(&[0xbf04, 0x4600, 0xbd00, 0x4770]))]);
    let (proof, _) = followed(&words, &[t32(0)]);
    let sites: Vec<Site> = proof.sites(&words, Execution::Confined).collect();
    assert_eq!(sites.len(), 2);
    assert!(sites[0].in_block && !sites[1].in_block);
    assert_eq!(sites[0].encoding, Encoding::Narrow(0xbd00));
    assert!(proof.it(4).is_last() && proof.it(2).is_inside() && !proof.it(0).is_inside());
    assert_eq!(proof.it(100), ItState::NONE);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 300, ..ProptestConfig::default() })]

    /// Instruction by instruction, as the definition says.
    #[test]
    fn sites_are_as_they_are_defined((words, entries) in frames()) {
        let mut proof = FrameProof::new(0, AfterCall::Follow);
        for entry in entries {
            let _ = proof.follow(entry, &words, u32::MAX);
        }
        let half = |offset: u32| (words[offset as usize / 4] >> (offset % 4 * 8)) as u16;
        let mut expected = Vec::new();
        for offset in (0..4096).step_by(2) {
            let Some(isa) = proof.instruction(offset) else {
                continue;
            };
            let encoding = match isa {
                hanok_decode::aarch32::Isa::A32 => Encoding::A32(words[offset as usize / 4]),
                _ if half(offset) < 0xe800 => Encoding::Narrow(half(offset)),
                _ => Encoding::t32(half(offset), half(offset + 2)),
            };
            let it = proof.it(offset);
            match (sensitive(encoding, it), indirect(encoding, it)) {
                (Some(found), _) if found.user.must_be_rewritten() => {
                    expected.push((offset, Cause::Sensitive));
                }
                (None, Some(_)) => expected.push((offset, Cause::IndirectBranch)),
                (None, None) if ends(encoding, it) => expected.push((offset, Cause::End)),
                _ => {}
            }
        }
        prop_assert_eq!(found(proof.sites(&words, Execution::Confined)), expected.clone());
        expected.retain(|(_, cause)| *cause == Cause::Sensitive);
        prop_assert_eq!(found(proof.sites(&words, Execution::Free)), expected);
    }
}

/// Whether nobody knows where a CPU goes on behind an instruction. UDF and BKPT raise exceptions.
fn ends(encoding: Encoding, it: ItState) -> bool {
    let raises = match encoding {
        Encoding::A32(word) => {
            word & 0xfff0_00f0 == 0xe7f0_00f0 || word & 0xfff0_00f0 == 0xe120_0070
        }
        Encoding::Narrow(half) => half >> 8 == 0xde || half >> 8 == 0xbe,
        Encoding::Wide(both) => both & 0xfff0_f000 == 0xf7f0_a000,
    };
    if raises {
        return false;
    }
    let goes = match encoding {
        Encoding::A32(word) => step_a32(word).goes,
        Encoding::Narrow(half) => step_t32(half, 0, it).goes,
        Encoding::Wide(both) => step_t32((both >> 16) as u16, both as u16, it).goes,
    };
    goes == Goes::Nowhere
}

/// Where the flow leaves for an unknown place, there is a site; and behind one it goes on only if
/// it has a condition.
fn flow_agrees(encoding: Encoding, goes: Goes, it: ItState) {
    let leaves = matches!(goes, Goes::Elsewhere | Goes::CallElsewhere);
    let sensitive = sensitive(encoding, it).is_some();
    let branch = indirect(encoding, it);
    assert!(!leaves || sensitive || branch.is_some(), "{encoding:x?}");
    if let Some(branch) = branch.filter(|branch| branch.as_it_should_be) {
        // ADD and SUB of the PC and a constant have a known target.
        let known = matches!(goes, Goes::Jump(_)) && encoding.isa() == a32(0).isa();
        assert!(leaves || known, "{encoding:x?} {branch:x?}");
    }
}

#[test]
fn the_flow_leaves_at_sites_only() {
    let places = [0, 0x04, 0x08, 0xe8].map(ItState::from_bits);
    for half in 0..0xe800 {
        for it in places {
            flow_agrees(Encoding::Narrow(half), step_t32(half, 0, it).goes, it);
        }
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..2_000_000 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (word, it) = (state as u32, places[(state >> 62) as usize]);
        for word in [word, word | 0xf000] {
            flow_agrees(Encoding::A32(word), step_a32(word).goes, ItState::NONE);
        }
        for first in [
            (state >> 32) as u16 | 0xe800,
            (state >> 32) as u16 & 0x1ff | 0xe800,
        ] {
            let goes = step_t32(first, word as u16, it).goes;
            flow_agrees(Encoding::t32(first, word as u16), goes, it);
        }
    }
}

#[test]
fn traps_are_undefined_and_as_long() {
    for encoding in [
        Encoding::A32(0x012f_ff1e),
        Encoding::Narrow(0x4770),
        Encoding::Wide(0xe8bd_8110),
    ] {
        let trap = trap_for(encoding);
        assert_eq!(
            (trap.bytes(), trap.isa()),
            (encoding.bytes(), encoding.isa())
        );
        let decoded = match trap {
            Encoding::A32(word) => decode_a32(word),
            Encoding::Narrow(half) => decode_t32(half, 0, ItState::NONE),
            Encoding::Wide(both) => decode_t32((both >> 16) as u16, both as u16, ItState::NONE),
        };
        assert_eq!(decoded.definition, Definition::Undefined);
        assert_eq!(decoded.flow, Flow::Exception(Exception::Undefined));
        assert!(sensitive(trap, ItState::NONE).is_none());
        assert!(indirect(trap, ItState::NONE).is_none());
    }
    // The space of UDF: cond 1110, 0111 1111, xxxx.. 1111; 1101 1110; 1111 0111 1111, 1010.
    assert_eq!(trap_for(Encoding::A32(0)).bits() & 0xfff0_00f0, 0xe7f0_00f0);
    assert_eq!(trap_for(Encoding::Narrow(0)).bits() & 0xff00, 0xde00);
    assert_eq!(
        trap_for(Encoding::Wide(0)).bits() & 0xfff0_f000,
        0xf7f0_a000
    );
}
