//! T32 (DDI 0406C, A6): instructions of one halfword, and what an IT block does to all.

use super::step::{Found, Goes, Own, PC, Relative, Step, T32_PIPELINE, bit, place};
use super::{sensitive, wide};
use hanok_decode::aarch32::{Encoding, ItState, sensitive_t32};

/// The T32 instruction that begins with the halfword `first`, as the flow sees it. `second` is the
/// halfword behind, which matters only if the instruction has two; `it` is its place in an IT block.
/// Every input has an answer.
pub fn step_t32(first: u16, second: u16, it: ItState) -> Step {
    let encoding = Encoding::t32(first, second);
    let (found, own) = match (sensitive_t32(first, second, it), encoding) {
        (Some(found), _) => (sensitive::flow(&found, T32_PIPELINE), Own::None),
        (None, Encoding::Wide(both)) => wide::flow(both),
        (None, _) => narrow(u32::from(first)),
    };
    let opens = opens(first);
    let found = if may_stand(&found, own, opens, it) {
        found
    } else {
        Found::NOWHERE
    };
    Step {
        bytes: encoding.bytes(),
        goes: found.goes,
        conditional: own == Own::Condition || !it.condition().is_always(),
        loads: found.loads,
        opens,
    }
}

/// Whether the instruction may stand at this place of a block: a branch only at the end, a
/// conditional one and IT nowhere (A8.8.54). SVC and the like are no branches.
fn may_stand(found: &Found, own: Own, opens: ItState, it: ItState) -> bool {
    let stays = found.goes == Goes::Next;
    !it.is_inside() || own == Own::None && !opens.is_inside() && (stays || it.is_last())
}

/// The block that an IT opens (A8.8.54).
const fn opens(half: u16) -> ItState {
    if half >> 8 == 0xbf {
        ItState::from_bits(half as u8)
    } else {
        ItState::NONE
    }
}

fn narrow(half: u32) -> (Found, Own) {
    let found = match half >> 11 {
        0b01000 => special(half),
        0b01001 => Found::NEXT.loading(4, place(true, (half & 0xff) * 4, T32_PIPELINE, true)),
        0b10110 | 0b10111 => return miscellaneous(half),
        0b11010 | 0b11011 => return conditional(half),
        0b11100 => Found::to(Goes::Jump(signed(half, 11))),
        _ => Found::NEXT,
    };
    (found, Own::None)
}

/// The low `bits` bits as a signed number of halfwords behind the PC.
fn signed(half: u32, bits: u32) -> Relative {
    let unused = 32 - bits;
    let distance = (half << unused).cast_signed() >> (unused - 1);
    Relative {
        offset: distance + T32_PIPELINE,
        aligned: false,
    }
}

/// Data processing, ADD, CMP, MOV, BX, BLX (A6.2.2, A6.2.3).
fn special(half: u32) -> Found {
    let to = half & 0b111 | half >> 4 & 0b1000;
    match half >> 7 & 0b1111 {
        0b1000 | 0b1001 | 0b1100 | 0b1101 => Found::leaving(to == PC),
        0b1110 => Found::ELSEWHERE,
        0b1111 => Found::to(Goes::CallElsewhere),
        _ => Found::NEXT,
    }
}

/// A6.2.5.
fn miscellaneous(half: u32) -> (Found, Own) {
    let found = match half >> 8 & 0xf {
        0b0001 | 0b0011 | 0b1001 | 0b1011 => return (test(half), Own::Condition),
        0b0000 | 0b0010 | 0b0100 | 0b0101 => Found::NEXT,
        0b1010 => Found::defined(half >> 6 & 0b11 != 0b10),
        0b1100 | 0b1101 => Found::leaving(bit(half, 8)),
        0b1111 => Found::defined(is_hint_or_block(half)),
        _ => Found::NOWHERE,
    };
    (found, Own::None)
}

/// A hint, or IT: with the condition "always" only for one instruction.
fn is_hint_or_block(half: u32) -> bool {
    let (first, mask) = (half >> 4 & 0xf, half & 0xf);
    mask == 0 || first != 0xf && (first != 0xe || mask.count_ones() == 1)
}

/// CBZ, CBNZ.
fn test(half: u32) -> Found {
    let distance = half >> 2 & 0x3e | half >> 3 & 0x40;
    Found::to(Goes::Jump(place(true, distance, T32_PIPELINE, false)))
}

/// B with a condition, UDF, SVC.
fn conditional(half: u32) -> (Found, Own) {
    match half >> 8 & 0xf {
        0b1110 => (Found::NOWHERE, Own::None),
        0b1111 => (Found::NEXT, Own::None),
        _ => (Found::to(Goes::Jump(signed(half, 8))), Own::Condition),
    }
}
