//! Which instructions are indirect branches, beside what `lib/instructions` says of the flow.
//!
//! `HANOK_ALL_WORDS=1` tries all words of both instruction sets, which takes minutes.

use hanok_decode::aarch32::{Encoding, IndirectBranch, ItState, Target, indirect, sensitive};
use hanok_instructions::{Definition, Flow, Instruction, decode_a32, decode_t32};

fn all() -> bool {
    std::env::var_os("HANOK_ALL_WORDS").is_some()
}

/// Whether the instruction goes to a place that it does not name, and is no exception.
fn leaves(flow: Flow) -> bool {
    matches!(
        flow,
        Flow::CallRegister(_) | Flow::Register(_) | Flow::Loaded | Flow::Table(_) | Flow::Computed
    )
}

/// Whether the kind of target is that of the flow.
fn same_kind(target: Target, flow: Flow) -> bool {
    match target {
        Target::Exchange(register) => flow == Flow::Register(register),
        Target::Call(register) => flow == Flow::CallRegister(register),
        Target::Data { .. } => {
            let moved = matches!(flow, Flow::Register(_) | Flow::Jump { .. });
            moved || matches!(flow, Flow::Computed | Flow::Table(_))
        }
        Target::Load(_) => matches!(flow, Flow::Loaded | Flow::Table(_)),
        Target::Block(_) => flow == Flow::Loaded,
        Target::Table {
            base,
            index,
            halfwords,
        } => {
            let Flow::Table(table) = flow else {
                return false;
            };
            (table.base, table.index, table.shift) == (base, index, u8::from(halfwords))
        }
        Target::Forbidden => true,
    }
}

fn agree(found: &Instruction, it: ItState) {
    let bits = found.encoding;
    let branch = indirect(bits, it);
    let is_sensitive = sensitive(bits, it).is_some();
    let pc = found.effects.writes.into_bits() & 1 << 15 != 0;
    match branch {
        None if is_sensitive => {}
        None => {
            assert!(!leaves(found.flow), "{bits:x?}: {found:x?}");
            // What else writes the PC is a direct branch, an exception, or UNPREDICTABLE.
            let named = found.flow != Flow::Next || found.definition != Definition::Defined;
            assert!(!pc || named, "{bits:x?}: {found:x?}");
        }
        Some(branch) => {
            assert!(!is_sensitive, "{bits:x?}");
            as_the_oracle_says(&branch, found, it);
        }
    }
}

fn as_the_oracle_says(branch: &IndirectBranch, found: &Instruction, it: ItState) {
    let bits = found.encoding;
    assert_eq!(branch.condition, found.condition, "{bits:x?}");
    assert!(same_kind(branch.target, found.flow), "{bits:x?} {found:x?}");
    // The oracle does not check of all branches whether they stand in the middle of a block.
    let middle = it.is_inside() && !it.is_last();
    let defined = found.definition == Definition::Defined && !middle;
    assert_eq!(branch.as_it_should_be, defined, "{bits:x?} {found:x?}");
    let forbidden = branch.target == Target::Forbidden;
    assert!(!(forbidden && defined), "{bits:x?}");
}

fn a32(word: u32) {
    agree(&decode_a32(word), ItState::NONE);
}

fn t32(first: u16, second: u16, it: ItState) {
    agree(&decode_t32(first, second, it), it);
}

/// xorshift
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn every_narrow_instruction_agrees() {
    for half in 0..0xe800 {
        (0..=0xff).for_each(|it| t32(half, 0, ItState::from_bits(it)));
    }
}

/// Every first halfword, with a part of all second ones: another part for each.
#[test]
fn wide_instructions_agree() {
    let step = if all() { 1 } else { 17 };
    for first in 0xe800..=0xffff {
        for second in (first % step..=0xffff).step_by(step.into()) {
            t32(first, second, ItState::NONE);
        }
    }
    let mut state = 0x2545_f491_4f6c_dd1d;
    for _ in 0..2_000_000 {
        let bits = next(&mut state);
        let it = ItState::from_bits((bits >> 40) as u8);
        t32((bits >> 16) as u16 | 0xe800, bits as u16, it);
    }
}

/// Every value of bits 27 to 20 and 7 to 4, which tell groups apart, with all pairs of what may be
/// the destination and the base, and some lowest bits.
#[test]
fn every_group_of_a32_agrees() {
    if all() {
        return (0..=u32::MAX).for_each(a32);
    }
    for group in 0u32..1 << 12 {
        let bits = (group >> 4) << 20 | (group & 0xf) << 4;
        for registers in 0u32..1 << 8 {
            let (to, base) = (registers & 0xf, registers >> 4);
            for low in [0x000u32, 0x00f, 0xf0f, 0xf01, 0x103] {
                a32(0xe000_0000 | bits | base << 16 | to << 12 | low);
            }
        }
    }
}

#[test]
fn random_a32_words_agree() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    for _ in 0..3_000_000 {
        let word = next(&mut state) as u32;
        a32(word);
        // More of those that may write the PC.
        a32(word | 0xf000);
    }
}

/// Some by hand, since the oracle knows no operands but registers.
#[test]
fn operands_are_those_of_the_words() {
    let target = |encoding| indirect(encoding, ItState::NONE).map(|found| found.target);
    for encoding in [
        Encoding::A32(0xe12f_ff13), // bx r3
        Encoding::A32(0xe12f_ff23), // bxj r3
        Encoding::Narrow(0x4718),
        Encoding::Wide(0xf3c3_8f00), // bxj r3
    ] {
        let Some(Target::Exchange(register)) = target(encoding) else {
            panic!("{encoding:x?}");
        };
        assert_eq!(register.number(), 3);
    }
    for (encoding, list) in [
        (Encoding::A32(0xe8bd_8010), 0x8010),
        (Encoding::Narrow(0xbd10), 0x8010),
        (Encoding::Wide(0xe8bd_8110), 0x8110),
    ] {
        let Some(Target::Block(block)) = target(encoding) else {
            panic!("{encoding:x?}");
        };
        assert_eq!(block.registers.into_bits(), list);
        assert_eq!((block.base.number(), block.write_back), (13, true));
        assert!(block.load && block.direction.up && !block.direction.before);
    }
}
