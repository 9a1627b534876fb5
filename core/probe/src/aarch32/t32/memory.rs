//! Loads and stores of two halfwords (DDI 0406C A6.3.5 to A6.3.10).

use crate::Refused;
use crate::aarch32::{Found, Meaning, PC, SP, bit, field, same, with};
use crate::exclusive::exclusive_t32;
use hanok_decode::aarch32::Encoding;

/// LDM and STM, RFE and SRS.
pub(super) fn block(both: u32) -> Found {
    let (rn, list) = (field(both, 16, 4), field(both, 0, 16));
    if bit(both, 24) == bit(both, 23) {
        let returns = both & 0xffff == 0xc000 && rn != PC && bit(both, 20);
        let stores = both & 0xffdf_ffe0 & !(0x180 << 16) == 0xe80d_c000;
        return same(returns || stores);
    }
    let many = list.count_ones() > 1 && list & 1 << SP == 0;
    let both_links = list >> 14 == 0b11;
    if !bit(both, 20) && bit(list, PC) {
        return Err(Refused::Unknown);
    }
    same(rn != PC && many && !both_links)
}

/// LDRD and STRD, the exclusive accesses, TBB and TBH.
pub(super) fn dual(both: u32, pc: u32) -> Found {
    if exclusive_t32(both).is_some() {
        return Err(Refused::Exclusive);
    }
    if both & 0xfff0_ffe0 == 0xe8d0_f000 {
        return Err(Refused::TableBranch);
    }
    let (before, up, write_back, load) =
        (bit(both, 24), bit(both, 23), bit(both, 21), bit(both, 20));
    let (rn, rt, rt2) = (field(both, 16, 4), field(both, 12, 4), field(both, 8, 4));
    let usual = |register| register != SP && register != PC;
    let sound = (before || write_back) && usual(rt) && usual(rt2) && !(load && rt == rt2);
    if rn != PC || !sound {
        return same(sound);
    }
    if write_back {
        return Err(Refused::Unknown);
    }
    if !load {
        return Err(Refused::NeedsRegister);
    }
    let place = offset(pc & !3, up, field(both, 0, 8) * 4);
    let then = 0xe9d0_0000 | rt << 16 | rt << 12 | rt2 << 8; // ldrd rt, rt2, [rt]
    with(rt, place, Encoding::Wide(then))
}

const fn offset(from: u32, up: bool, distance: u32) -> u32 {
    if up {
        from.wrapping_add(distance)
    } else {
        from.wrapping_sub(distance)
    }
}

/// Loads and stores of one register, and preloads.
pub(super) fn single(both: u32, pc: u32) -> Found {
    let (rn, rt, load) = (field(both, 16, 4), field(both, 12, 4), bit(both, 20));
    let (size, sign) = (field(both, 21, 2), bit(both, 24));
    if size == 3 || size == 2 && sign {
        return Err(Refused::Unknown);
    }
    match (load, rn) {
        (true, PC) => literal(both, pc),
        (false, _) => same(rn != PC && rt != PC && !sign && form(both).is_some()),
        (true, _) if rt == PC && size != 2 => {
            same(matches!(form(both), Some(Form::Register | Form::Offset)))
        }
        (true, _) => same(form(both).is_some_and(|form| rt != PC || form != Form::Unprivileged)),
    }
}

/// How an address is formed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Register,
    Offset,
    WriteBack,
    Unprivileged,
}

fn form(both: u32) -> Option<Form> {
    let rm = field(both, 0, 4);
    if bit(both, 23) {
        return Some(Form::Offset);
    }
    match field(both, 6, 6) {
        0 if rm != PC && rm != SP => Some(Form::Register),
        upper if upper & 0b10_0000 == 0 => None,
        _ => match field(both, 8, 3) {
            0b100 => Some(Form::Offset),
            0b110 => Some(Form::Unprivileged),
            0b001 | 0b011 | 0b101 | 0b111 => Some(Form::WriteBack),
            _ => None,
        },
    }
}

/// A load from a place relative to the PC; a preload from there (PLD, PLI) is left out.
fn literal(both: u32, pc: u32) -> Found {
    let rt = field(both, 12, 4);
    match field(both, 21, 2) {
        0 if rt == PC => return Ok(Meaning::Nothing),
        1 if rt == PC => return Err(Refused::Unknown),
        _ => {}
    }
    let place = offset(pc & !3, bit(both, 23), field(both, 0, 12));
    let then = both & 0xff70_f000 | 1 << 23 | rt << 16; // from [rt]
    with(rt, place, Encoding::Wide(then))
}
