//! Instructions of one halfword (DDI 0406C A6.2).

use crate::Refused;
use crate::aarch32::{
    ALWAYS, Found, Meaning, PC, SP, THUMB, bit, call_register, field, same, with,
};
use hanok_decode::aarch32::Encoding;

/// What the instruction `half` means, for this value of the PC.
pub(super) fn decode(half: u32, pc: u32) -> Found {
    let aligned = pc & !3;
    let low = field(half, 8, 3);
    match half >> 8 {
        0x44 => add(half, pc),
        0x45 => same(field(half, 3, 4) != PC && high(half) != PC),
        0x46 => move_register(half, pc),
        0x47 => exchange(half, pc),
        0x48..=0x4f => {
            let load = 0x6800 | low << 3 | low; // ldr rt, [rt]
            let place = aligned.wrapping_add(field(half, 0, 8) * 4);
            with(low, place, Encoding::Narrow(load as u16))
        }
        0xa0..=0xa7 => {
            let place = aligned.wrapping_add(field(half, 0, 8) * 4);
            Ok(Meaning::Constant {
                register: low,
                value: place,
            })
        }
        0xb0..=0xbf => miscellaneous(half, pc),
        0xc0..=0xcf => same(half & 0xff != 0),
        0xde | 0xdf => Err(Refused::Exception),
        0xd0..=0xdd => {
            let offset = i32::from(half as i8) * 2;
            let target = pc.wrapping_add_signed(offset) | THUMB;
            let condition = field(half, 8, 4);
            Ok(Meaning::Jump { condition, target })
        }
        0xe0..=0xe7 => {
            let offset = (half << 21) as i32 >> 20;
            let target = pc.wrapping_add_signed(offset) | THUMB;
            let condition = ALWAYS;
            Ok(Meaning::Jump { condition, target })
        }
        0x00..=0x43 | 0x50..=0x9f | 0xa8..=0xaf => Ok(Meaning::Same),
        _ => Err(Refused::Unknown),
    }
}

/// The first register of the instructions that reach the upper eight ones.
const fn high(half: u32) -> u32 {
    half >> 4 & 8 | half & 7
}

/// ADD of two registers, which sets no flags.
fn add(half: u32, pc: u32) -> Found {
    let (rd, rm) = (high(half), field(half, 3, 4));
    match (rd, rm) {
        (PC, PC) => Err(Refused::Unknown),
        (PC, _) | (SP, PC) => Err(Refused::NeedsRegister),
        (_, PC) => Ok(Meaning::Add {
            register: rd,
            value: pc,
        }),
        _ => Ok(Meaning::Same),
    }
}

/// MOV, which sets no flags.
fn move_register(half: u32, pc: u32) -> Found {
    let (rd, rm) = (high(half), field(half, 3, 4));
    match (rd, rm) {
        (SP | PC, PC) => Err(Refused::NeedsRegister),
        (_, PC) => Ok(Meaning::Constant {
            register: rd,
            value: pc,
        }),
        _ => Ok(Meaning::Same),
    }
}

/// BX and BLX. BX PC goes to A32 code; its address must be a multiple of four.
fn exchange(half: u32, pc: u32) -> Found {
    let rm = field(half, 3, 4);
    match (half & 7 == 0, bit(half, 7)) {
        (false, _) => Err(Refused::Unknown),
        (true, true) => call_register(rm),
        (true, false) if rm != PC => Ok(Meaning::Same),
        (true, false) if pc & 3 != 0 => Err(Refused::Unknown),
        (true, false) => Ok(Meaning::Jump {
            condition: ALWAYS,
            target: pc,
        }),
    }
}

/// "Miscellaneous 16-bit instructions" (A6.2.5).
fn miscellaneous(half: u32, pc: u32) -> Found {
    match half >> 8 {
        0xb1 | 0xb3 | 0xb9 | 0xbb => {
            let offset = field(half, 3, 5) << 1 | field(half, 9, 1) << 6;
            let inverse = (half & 0xfd07 ^ 0x0800) as u16;
            let target = pc.wrapping_add(offset) | THUMB;
            Ok(Meaning::Test { inverse, target })
        }
        0xb0 | 0xb2 => Ok(Meaning::Same),
        0xb4 | 0xb5 | 0xbc | 0xbd => same(half & 0x1ff != 0),
        0xb6 => {
            let endianness = half & 0xfff7 == 0xb650;
            let state = half & 0xffe8 == 0xb660;
            same(endianness || state)
        }
        0xba => same(field(half, 6, 2) != 2),
        0xbe => Err(Refused::Exception),
        0xbf if half & 0xf != 0 => Err(Refused::OpensItBlock),
        0xbf => Ok(Meaning::Same),
        _ => Err(Refused::Unknown),
    }
}
