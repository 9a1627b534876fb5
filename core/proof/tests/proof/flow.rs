//! The decoder of `hanok-proof` beside that of `lib/instructions`, which tools use.

use hanok_decode::aarch32::{Facility, Isa, ItState, Operation, Sensitive};
use hanok_instructions::{
    Definition, Exception, Flow, Instruction, Relative as Place, Use, decode_a32, decode_t32,
};
use hanok_proof::{Goes, Literal, Relative, Step, step_a32, step_t32};

const RANDOM: u32 = 1 << 20;

/// The next of a fixed sequence of numbers (xorshift).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn relative(place: Place) -> Relative {
    Relative {
        offset: place.offset,
        aligned: place.aligned,
    }
}

fn goes(flow: Flow, isa: Isa) -> Goes {
    match flow {
        Flow::Next => Goes::Next,
        // Data processing may also choose the instruction set, which is not followed.
        Flow::Jump { target, .. } if isa == Isa::A32 && target.offset & 3 != 0 => Goes::Elsewhere,
        Flow::Jump { target, .. } => Goes::Jump(relative(target)),
        Flow::Call { target, isa } => Goes::Call(relative(target), isa),
        Flow::CallRegister(_) => Goes::CallElsewhere,
        Flow::Exception(Exception::Breakpoint(_) | Exception::Undefined) => Goes::Nowhere,
        Flow::Exception(_) => Goes::Next,
        _ => Goes::Elsewhere,
    }
}

fn literal(found: &Instruction) -> Option<Literal> {
    let named = found.reference?;
    match named.used {
        Use::Load(bytes) => Some(Literal {
            at: relative(named.at),
            bytes,
        }),
        _ => None,
    }
}

/// Whether no Cortex-A has the instruction, so that the flow ends there; the oracle does not ask.
fn is_of_no_cpu(found: Option<Sensitive>) -> bool {
    match found.map(|found| found.operation) {
        Some(Operation::Coprocessor(found)) => {
            found.second_kind || found.facility() == Facility::Vendor
        }
        _ => false,
    }
}

fn agree(step: &Step, found: &Instruction, isa: Isa, it: ItState) {
    let bits = found.encoding;
    assert_eq!(step.bytes, found.bytes(), "{bits:x?}");
    assert_eq!(step.opens, found.opens, "{bits:x?}");
    let ends = step.goes == Goes::Nowhere;
    // In the middle of a block the oracle does not check all branches.
    let may_end = found.definition != Definition::Defined
        || is_of_no_cpu(found.sensitive)
        || it.is_inside() && !it.is_last() && goes(found.flow, isa) != Goes::Next;
    if ends && may_end {
        return;
    }
    assert_eq!(step.goes, goes(found.flow, isa), "{bits:x?} {found:x?}");
    let wide_call = matches!(found.flow, Flow::Call { .. });
    if found.definition == Definition::Defined || wide_call {
        assert_eq!(step.loads, literal(found), "{bits:x?}");
    } else if let Some(loads) = step.loads {
        assert_eq!(Some(loads), literal(found), "{bits:x?}");
    }
    let falls = match step.goes {
        Goes::Next => true,
        Goes::Nowhere => return,
        _ => step.conditional,
    };
    let comes_back = matches!(found.flow, Flow::Exception(_));
    assert_eq!(falls, found.falls_through() || comes_back, "{bits:x?}");
}

fn a32(word: u32) {
    agree(&step_a32(word), &decode_a32(word), Isa::A32, ItState::NONE);
}

fn t32(first: u16, second: u16, it: ItState) {
    let (step, found) = (step_t32(first, second, it), decode_t32(first, second, it));
    agree(&step, &found, Isa::T32, it);
}

#[test]
fn random_a32_words_agree() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    (0..RANDOM).for_each(|_| a32(next(&mut state) as u32));
}

#[test]
fn random_t32_instructions_agree() {
    let mut state = 0x2545_f491_4f6c_dd1d;
    for _ in 0..RANDOM {
        let bits = next(&mut state);
        let it = if bits >> 63 == 0 {
            ItState::NONE
        } else {
            ItState::from_bits((bits >> 40) as u8)
        };
        t32((bits >> 16) as u16, bits as u16, it);
        t32((bits >> 16) as u16 | 0xe800, bits as u16, it);
    }
}

/// Every value of bits 27 to 20 and 7 to 4, which tell A32's groups apart, with the registers that
/// matter, under a condition, always and without one.
#[test]
fn every_group_of_a32_agrees() {
    let rest = [
        0, 0xf, 0xf000, 0xf_0000, 0xf_f000, 0xf_ff0f, 0xf_f80f, 0xe_e00e, 0xf_0a04, 0xf_fb08,
    ];
    for group in 0u32..1 << 12 {
        let bits = (group >> 4) << 20 | (group & 0xf) << 4;
        for fields in rest {
            for condition in [0x0u32, 0xd, 0xe, 0xf] {
                a32(condition << 28 | bits | fields);
            }
        }
    }
}

#[test]
fn every_narrow_t32_instruction_agrees() {
    let places = [0, 0x04, 0x08, 0x18, 0xe8].map(ItState::from_bits);
    for half in 0..=0xe7ff {
        places.into_iter().for_each(|it| t32(half, 0, it));
    }
}

/// Every first halfword, with second ones that tell the groups apart.
#[test]
fn every_first_halfword_agrees() {
    for first in 0xe800..=0xffff {
        for upper in 0..=0xff {
            for low in [0x00, 0x0f, 0x10, 0x40, 0x5f, 0x7f, 0x80, 0xf0] {
                t32(first, upper << 8 | low, ItState::NONE);
            }
        }
    }
}
