//! Decodes all A32 words (DDI 0406C A5).

mod data;
mod media;
mod memory;
mod unconditional;

use crate::effects::{Effects, Flags};
use crate::instruction::{Exception, Flow, Instruction, Relative};
use crate::parts::Parts;
use crate::simd;
use bitfield_struct::bitfield;
use hanok_decode::aarch32::Register;
use hanok_decode::aarch32::sensitive_a32;
use hanok_decode::aarch32::{Condition, ItState};
use hanok_decode::aarch32::{Encoding, Isa};

/// The distance in bytes from an instruction to the PC that it reads (A2.3).
const PIPELINE: i32 = 8;

/// Decodes the A32 `word`. Every word has a result.
pub fn decode_a32(word: u32) -> Instruction {
    let group = Group::from_bits(word);
    let sensitive = sensitive_a32(word);
    let parts = match &sensitive {
        Some(found) => Parts::sensitive(found, PIPELINE),
        None if group.condition() == 0b1111 => unconditional::decode(word),
        None => conditional(group),
    };
    let condition = Condition::from_bits(group.condition());
    Instruction {
        encoding: Encoding::A32(word),
        condition,
        definition: parts.definition,
        flow: parts.flow,
        reference: parts.reference,
        effects: parts.effects.reading_flags(Flags::read_by(condition)),
        opens: ItState::NONE,
        sensitive,
    }
}

/// The fields by which the groups are told apart (A5.1).
#[bitfield(u32)]
struct Group {
    #[bits(4)]
    __: u8,
    bit4: bool,
    #[bits(19)]
    __: u32,
    bit24: bool,
    #[bits(3)]
    kind: u8,
    #[bits(4)]
    condition: u8,
}

fn conditional(group: Group) -> Parts {
    let word = group.into_bits();
    match (group.kind(), group.bit24()) {
        (0b000, _) => data::register(word),
        (0b001, _) => data::immediate(word),
        (0b011, _) if group.bit4() => media::decode(word),
        (0b010 | 0b011, _) => memory::single(word),
        (0b100, _) => memory::block(word),
        (0b101, link) => branch(word, link),
        (0b111, true) => {
            let number = word & 0xff_ffff;
            Parts::of(Effects::UNKNOWN).going(Flow::Exception(Exception::Supervisor(number)))
        }
        // Those of all other coprocessors are sensitive.
        _ => simd::extension(word, PIPELINE),
    }
}

/// The fields of B, BL and BLX with a constant.
#[bitfield(u32)]
struct BranchWord {
    #[bits(24)]
    words: i32,
    half: bool,
    #[bits(7)]
    __: u8,
}

fn branch(word: u32, link: bool) -> Parts {
    let offset = BranchWord::from_bits(word).words() * 4 + PIPELINE;
    let target = Relative {
        offset,
        aligned: false,
    };
    let parts = Parts::of(Effects::NONE);
    if link {
        called(Flow::Call {
            target,
            isa: Isa::A32,
        })
    } else {
        parts.leaving(Flow::Jump {
            target,
            by_register: false,
        })
    }
}

/// BLX with a constant goes to T32, which may be at any halfword.
fn exchange(word: u32) -> Parts {
    let word = BranchWord::from_bits(word);
    let offset = word.words() * 4 + i32::from(word.half()) * 2 + PIPELINE;
    let target = Relative {
        offset,
        aligned: false,
    };
    called(Flow::Call {
        target,
        isa: Isa::T32,
    })
}

/// The effects of a call: it writes LR and the PC. The callee's effects are not known here.
fn called(flow: Flow) -> Parts {
    Parts::of(Effects::NONE.setting(Register::LR.set())).leaving(flow)
}
