//! Instructions of one halfword (DDI 0406C A6.2).

use super::{Decoded, PIPELINE};
use crate::effects::Effects;
use crate::instruction::{Exception, Flow, Relative, Use};
use crate::parts::{Carry, Data, Memory, Parts, Source};
use bitfield_struct::bitfield;
use hanok_decode::aarch32::{Condition, ItState};
use hanok_decode::aarch32::{Register, Registers};

/// The three-bit fields that most of these have.
#[bitfield(u16)]
struct NarrowWord {
    #[bits(3)]
    low: u8,
    #[bits(3)]
    middle: u8,
    #[bits(3)]
    high: u8,
    #[bits(7)]
    __: u8,
}

impl NarrowWord {
    fn rd(self) -> Register {
        Register::from_bits(self.low())
    }

    fn rn(self) -> Register {
        Register::from_bits(self.middle())
    }

    fn rm(self) -> Register {
        Register::from_bits(self.high())
    }
}

pub(super) fn decode(half: u16, it: ItState) -> Decoded {
    let word = NarrowWord::from_bits(half);
    let sets = !it.is_inside();
    let parts = match half >> 11 {
        0b00000..=0b00010 => shift(word, sets),
        0b00011 => add_small(word, sets),
        0b00100..=0b00111 => constant(half, sets),
        0b01000 if half & 1 << 10 == 0 => process(half, sets),
        0b01000 => special(half, it),
        0b01001 => literal(half),
        0b01010..=0b10011 => memory(word),
        0b10100 | 0b10101 => address(half),
        0b10110 | 0b10111 => return miscellaneous(half, it),
        0b11000 | 0b11001 => multiple(half),
        0b11010 | 0b11011 => return conditional(half),
        0b11100 => jump(signed(half, 11), it),
        _ => Parts::UNDEFINED,
    };
    (parts, None)
}

/// The block that an IT opens: its low eight bits are ITSTATE, and the mask is not zero.
pub(super) const fn opens(half: u16) -> ItState {
    if half >> 8 == 0xbf {
        ItState::from_bits(half as u8)
    } else {
        ItState::NONE
    }
}

/// The low `bits` bits as a signed number of halfwords, in bytes.
fn signed(half: u16, bits: u32) -> i32 {
    let unused = 32 - bits;
    i32::from(half) << unused >> (unused - 1)
}

fn last(parts: Parts, it: ItState) -> Parts {
    parts.provided(!it.is_inside() || it.is_last())
}

fn data(to: Register, first: Option<Register>, second: Source, set_flags: bool) -> Data {
    Data {
        to: Some(to),
        first,
        second,
        arithmetic: false,
        carry_in: false,
        set_flags,
    }
}

fn plain(registers: Registers) -> Source {
    Source {
        reads: registers,
        carry: Carry::Stays,
        carry_in: false,
    }
}

/// LSL, LSR, ASR by a constant; LSL by zero is MOVS.
fn shift(word: NarrowWord, sets: bool) -> Parts {
    let moves = word.into_bits() >> 6 == 0;
    let carry = if moves { Carry::Stays } else { Carry::Written };
    let source = Source {
        carry,
        ..plain(word.rn().set())
    };
    let parts = Parts::of(data(word.rd(), None, source, sets).effects());
    parts.provided(sets || !moves)
}

/// ADD and SUB of three registers, or two and three bits.
fn add_small(word: NarrowWord, sets: bool) -> Parts {
    let by_register = word.into_bits() & 1 << 10 == 0;
    let second = if by_register {
        word.rm().set()
    } else {
        Registers::NONE
    };
    let all = Data {
        arithmetic: true,
        ..data(word.rd(), Some(word.rn()), plain(second), sets)
    };
    Parts::of(all.effects())
}

/// The register in bits 10 to 8.
fn upper(half: u16) -> Register {
    Register::from_bits((half >> 8) as u8 & 0b111)
}

/// MOV, CMP, ADD, SUB with eight bits.
fn constant(half: u16, sets: bool) -> Parts {
    let register = upper(half);
    let none = plain(Registers::NONE);
    let all = match half >> 11 & 0b11 {
        0b00 => data(register, None, none, sets),
        0b01 => Data {
            to: None,
            arithmetic: true,
            ..data(register, Some(register), none, true)
        },
        _ => Data {
            arithmetic: true,
            ..data(register, Some(register), none, sets)
        },
    };
    Parts::of(all.effects())
}

/// Data processing of two registers (A6.2.2).
fn process(half: u16, sets: bool) -> Parts {
    let word = NarrowWord::from_bits(half);
    let (rdn, rm) = (word.rd(), word.rn());
    let both = data(rdn, Some(rdn), plain(rm.set()), sets);
    let all = match half >> 6 & 0xf {
        // LSL, LSR, ASR, ROR by a register, which may be zero.
        0b0010..=0b0100 | 0b0111 => Data {
            second: Source {
                carry: Carry::Perhaps,
                ..plain(rm.set())
            },
            ..both
        },
        0b0101 | 0b0110 => Data {
            arithmetic: true,
            carry_in: true,
            ..both
        },
        0b1000 => Data {
            to: None,
            set_flags: true,
            ..both
        },
        // RSB from zero.
        0b1001 => Data {
            first: None,
            arithmetic: true,
            ..both
        },
        0b1010 | 0b1011 => Data {
            to: None,
            arithmetic: true,
            set_flags: true,
            ..both
        },
        0b1111 => Data {
            first: None,
            ..both
        },
        _ => both,
    };
    Parts::of(all.effects())
}

/// "Special data instructions and branch and exchange" (A6.2.3): all registers can be used.
fn special(half: u16, it: ItState) -> Parts {
    let rdn = Register::from_bits((half & 0b111 | half >> 4 & 0b1000) as u8);
    let rm = Register::from_bits((half >> 3) as u8);
    let second = plain(rm.set());
    match half >> 8 & 0b11 {
        0b00 => {
            let parts = Parts::of(data(rdn, Some(rdn), second, false).effects());
            let both = rdn == Register::PC && rm == Register::PC;
            written(parts, rdn, Flow::Computed, it).provided(!both)
        }
        0b01 => {
            let all = Data {
                to: None,
                arithmetic: true,
                ..data(rdn, Some(rdn), second, true)
            };
            let low = rdn.number() < 8 && rm.number() < 8;
            Parts::of(all.effects()).provided(!low && rdn != Register::PC && rm != Register::PC)
        }
        0b10 => {
            let parts = Parts::of(data(rdn, None, second, false).effects());
            written(parts, rdn, Flow::Register(rm), it)
        }
        _ => exchange(half, rm, it),
    }
}

fn written(parts: Parts, to: Register, flow: Flow, it: ItState) -> Parts {
    if to == Register::PC {
        last(parts.going(flow), it)
    } else {
        parts
    }
}

/// BX, BLX.
fn exchange(half: u16, rm: Register, it: ItState) -> Parts {
    let reading = Effects::NONE.reading(rm.set());
    let parts = match half & 1 << 7 {
        0 => Parts::of(reading).leaving(Flow::Register(rm)),
        _ => Parts::of(reading.setting(Register::LR.set()))
            .leaving(Flow::CallRegister(rm))
            .provided(rm != Register::PC),
    };
    last(parts.provided(half & 0b111 == 0), it)
}

/// LDR of a literal behind the code.
fn literal(half: u16) -> Parts {
    let offset = i32::from(half & 0xff) * 4 + PIPELINE;
    let access = Memory {
        load: true,
        registers: upper(half).set(),
        base: Register::PC,
        index: Registers::NONE,
        write_back: false,
    };
    access.parts().naming(
        Use::Load(4),
        Relative {
            offset,
            aligned: true,
        },
    )
}

/// "Load/store single data item" (A6.2.4).
fn memory(word: NarrowWord) -> Parts {
    let half = word.into_bits();
    let by_register = half >> 12 == 0b0101;
    let by_stack = half >> 12 == 0b1001;
    let load = if by_register {
        half >> 9 & 0b111 >= 0b011
    } else {
        half & 1 << 11 != 0
    };
    let access = Memory {
        load,
        registers: if by_stack {
            upper(half).set()
        } else {
            word.rd().set()
        },
        base: if by_stack { Register::SP } else { word.rn() },
        index: if by_register {
            word.rm().set()
        } else {
            Registers::NONE
        },
        write_back: false,
    };
    access.parts()
}

/// ADR, and ADD to the stack pointer.
fn address(half: u16) -> Parts {
    let to = upper(half);
    if half & 1 << 11 != 0 {
        return Parts::compute(to, Register::SP.set());
    }
    let offset = i32::from(half & 0xff) * 4 + PIPELINE;
    let parts = Parts::compute(to, Register::PC.set());
    parts.naming(
        Use::Address,
        Relative {
            offset,
            aligned: true,
        },
    )
}

/// A6.2.5.
fn miscellaneous(half: u16, it: ItState) -> Decoded {
    let word = NarrowWord::from_bits(half);
    let parts = match half >> 8 & 0xf {
        0b0000 => Parts::compute(Register::SP, Register::SP.set()),
        0b0001 | 0b0011 | 0b1001 | 0b1011 => {
            return (compare_and_branch(half).provided(!it.is_inside()), None);
        }
        // SXTH, SXTB, UXTH, UXTB.
        0b0010 => Parts::compute(word.rd(), word.rn().set()),
        // REV, REV16, REVSH.
        0b1010 if half >> 6 & 0b11 != 0b10 => Parts::compute(word.rd(), word.rn().set()),
        0b0100 | 0b0101 | 0b1100 | 0b1101 => stack(half),
        0b1110 => {
            let flow = Flow::Exception(Exception::Breakpoint(half & 0xff));
            // It is executed whatever an IT block says (A8.8.24).
            let parts = Parts::of(Effects::UNKNOWN).going(flow);
            return (parts, None);
        }
        // IT, which has no condition 0b1111, and "always" only for one instruction; NOP.
        0b1111 => {
            let (first, mask) = (half >> 4 & 0xf, half & 0xf);
            let known = mask == 0 || first != 0xf && (first != 0xe || mask.count_ones() == 1);
            Parts::of(Effects::NONE).provided(known)
        }
        _ => Parts::UNDEFINED,
    };
    (parts, None)
}

/// CBZ, CBNZ: they only go forwards, and cannot stand in an IT block.
fn compare_and_branch(half: u16) -> Parts {
    let distance = i32::from(half >> 2 & 0x3e | half >> 3 & 0x40);
    let register = Register::from_bits(half as u8 & 0b111);
    let target = Relative {
        offset: distance + PIPELINE,
        aligned: false,
    };
    let parts = Parts::of(Effects::NONE.reading(register.set()));
    parts.leaving(Flow::Jump {
        target,
        by_register: true,
    })
}

/// PUSH, POP.
fn stack(half: u16) -> Parts {
    let load = half & 1 << 11 != 0;
    let more = match (half & 1 << 8 != 0, load) {
        (false, _) => Registers::NONE,
        (true, true) => Register::PC.set(),
        (true, false) => Register::LR.set(),
    };
    let registers = Registers::from_bits(half & 0xff).with(more);
    let access = Memory {
        load,
        registers,
        base: Register::SP,
        index: Registers::NONE,
        write_back: true,
    };
    access.parts().provided(!registers.is_empty())
}

/// LDM, STM: a base that is loaded is not written back.
fn multiple(half: u16) -> Parts {
    let load = half & 1 << 11 != 0;
    let registers = Registers::from_bits(half & 0xff);
    let base = upper(half);
    let access = Memory {
        load,
        registers,
        base,
        index: Registers::NONE,
        write_back: !(load && registers.contains(base)),
    };
    access.parts().provided(!registers.is_empty())
}

fn jump(distance: i32, it: ItState) -> Parts {
    let target = Relative {
        offset: distance + PIPELINE,
        aligned: false,
    };
    last(
        Parts::of(Effects::NONE).leaving(Flow::Jump {
            target,
            by_register: false,
        }),
        it,
    )
}

/// B with a condition, UDF, SVC.
fn conditional(half: u16) -> Decoded {
    let exception = |exception| Parts::of(Effects::UNKNOWN).going(Flow::Exception(exception));
    match (half >> 8) as u8 & 0xf {
        0b1110 => (Parts::UNDEFINED, None),
        0b1111 => (
            exception(Exception::Supervisor(u32::from(half & 0xff))),
            None,
        ),
        condition => {
            let parts = jump(signed(half, 8), ItState::NONE);
            (parts, Some(Condition::from_bits(condition)))
        }
    }
}
