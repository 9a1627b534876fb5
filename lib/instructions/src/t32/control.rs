//! "Branches and miscellaneous control" (DDI 0406C A6.3.4).

use super::{Decoded, PIPELINE};
use crate::effects::Effects;
use crate::instruction::{Flow, Relative};
use crate::parts::Parts;
use bitfield_struct::bitfield;
use hanok_decode::aarch32::Condition;
use hanok_decode::aarch32::Isa;
use hanok_decode::aarch32::Register;

/// The fields of a branch. Its distance is in pieces, and the sign is mixed into `j1` and `j2`.
#[bitfield(u32)]
struct BranchWord {
    #[bits(11)]
    low: u16,
    j2: bool,
    bit12: bool,
    j1: bool,
    bit14: bool,
    __: bool,
    #[bits(10)]
    high: u16,
    sign: bool,
    #[bits(5)]
    __: u8,
}

impl BranchWord {
    /// imm11 and imm10 below S, I1 and I2, in bytes (A8.8.18, encoding T4).
    fn far(self) -> i32 {
        let bit = |j: bool| u32::from(j == self.sign());
        let top = u32::from(self.sign()) << 2 | bit(self.j1()) << 1 | bit(self.j2());
        let all = top << 22 | u32::from(self.high()) << 12 | u32::from(self.low()) << 1;
        (all << 7).cast_signed() >> 7
    }

    /// imm11 and imm6 below S, J2 and J1, in bytes (encoding T3).
    fn near(self) -> i32 {
        let top = u32::from(self.sign()) << 2 | u32::from(self.j2()) << 1 | u32::from(self.j1());
        let high = u32::from(self.high()) & 0x3f;
        let all = top << 18 | high << 12 | u32::from(self.low()) << 1;
        (all << 11).cast_signed() >> 11
    }
}

pub(super) fn decode(both: u32) -> Decoded {
    let word = BranchWord::from_bits(both);
    let parts = match (word.bit14(), word.bit12()) {
        (false, false) if both >> 23 & 0b111 == 0b111 => miscellaneous(both),
        (false, false) => {
            let condition = Condition::from_bits((both >> 22) as u8);
            return (jump(word.near()), Some(condition));
        }
        (false, true) => jump(word.far()),
        (true, true) => call(word.far(), Isa::T32),
        (true, false) if both & 1 != 0 => Parts::UNDEFINED,
        (true, false) => call(word.far(), Isa::A32),
    };
    (parts, None)
}

fn jump(distance: i32) -> Parts {
    let target = Relative {
        offset: distance + PIPELINE,
        aligned: false,
    };
    Parts::of(Effects::NONE).leaving(Flow::Jump {
        target,
        by_register: false,
    })
}

/// BL and BLX; BLX counts from an aligned PC.
fn call(distance: i32, isa: Isa) -> Parts {
    let target = Relative {
        offset: distance + PIPELINE,
        aligned: isa == Isa::A32,
    };
    Parts::of(Effects::NONE.setting(Register::LR.set())).leaving(Flow::Call { target, isa })
}

/// Hints, barriers, BXJ, UDF; all others are sensitive.
fn miscellaneous(both: u32) -> Parts {
    let none = Parts::of(Effects::NONE);
    match both >> 20 & 0x7f {
        // The hints that have no effect here.
        0b0111010 => none.provided(both & 0xf_2f00 == 0xf_0000),
        0b0111011 => barrier(both),
        0b0111100 => {
            let register = Register::from_bits((both >> 16) as u8);
            let parts = Parts::of(Effects::NONE.reading(register.set()));
            let general = register != Register::PC && register != Register::SP;
            parts
                .leaving(Flow::Register(register))
                .provided(both & 0x2fff == 0x0f00 && general)
        }
        _ => Parts::UNDEFINED,
    }
}

/// ENTERX and LEAVEX (ThumbEE), CLREX, DSB, DMB, ISB.
fn barrier(both: u32) -> Parts {
    let none = Parts::of(Effects::NONE);
    let fixed = both & 0xf_2f00 == 0xf_0f00;
    match both >> 4 & 0xf {
        0..=2 => none.provided(fixed && both & 0xf == 0xf),
        4..=6 => none.provided(fixed),
        _ => Parts::UNDEFINED,
    }
}
