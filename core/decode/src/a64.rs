//! A64 loads and stores (DDI 0487 C4.1, "Loads and Stores").
//!
//! Each encoding class has a bitfield, whose fields stand in the manual's order. The decoder
//! recognises the instructions that can reach a device and be finished there, and those that must
//! be told from them: exclusives, atomics, structures. It does not recognise these, although they
//! access memory: prefetches (which never abort), memory tags (FEAT_MTE), authenticated loads
//! (FEAT_PAuth), 64-byte accesses (FEAT_LS64), memory copies (FEAT_MOPS), and the forms of
//! FEAT_LRCPC3, FEAT_LSE128, FEAT_THE, FEAT_LSUI and FEAT_LSFE. For all of those the answer is
//! `None`.
//!
//! Combinations that the manual calls constrained unpredictable (write-back to a register
//! that is also transferred, a pair with one register twice) decode as written: the CPU that
//! trapped has already chosen to execute them.

use crate::loadstore::{Addressing, Atomic, Data, Exclusive, Extend, General, LoadStore, Transfer};
use crate::structures;
use bitfield_struct::bitfield;
use hanok_types::Width;

/// Decodes an A64 load or store. `None` for any other word, and for a load or store that this
/// decoder does not recognise.
pub fn decode_load_store(word: u32) -> Option<LoadStore> {
    let group = Group::from_bits(word);
    match (group.kind(), group.vector(), group.form()) {
        (0b001, false, 0b00) => ordered(ExclusiveWord::from_bits(word)),
        (0b001, true, _) => structures::decode(word).map(LoadStore::Structures),
        (0b011, false, 0b01) if !group.bit21() && group.mode() == 0b00 => {
            unscaled_ordered(ImmediateWord::from_bits(word))
        }
        (0b011, _, 0b00) => literal(LiteralWord::from_bits(word)),
        (0b101, _, 0b00 | 0b01) => pair(PairWord::from_bits(word)),
        (0b111, _, 0b01) => scaled(ScaledWord::from_bits(word)),
        (0b111, _, 0b00) => single(group, word),
        _ => None,
    }
}

/// The forms of "Load/store register" that have no scaled 12-bit offset.
fn single(group: Group, word: u32) -> Option<LoadStore> {
    match (group.bit21(), group.mode()) {
        (false, _) => immediate(ImmediateWord::from_bits(word)),
        (true, 0b00) if !group.vector() => atomic(AtomicWord::from_bits(word)),
        (true, 0b10) => register_offset(RegisterWord::from_bits(word)),
        _ => None,
    }
}

/// The fields by which the encoding classes differ.
#[bitfield(u32)]
struct Group {
    #[bits(10)]
    __: u16,
    #[bits(2)]
    mode: u8,
    #[bits(9)]
    __: u16,
    bit21: bool,
    #[bits(2)]
    __: u8,
    #[bits(2)]
    form: u8,
    vector: bool,
    #[bits(3)]
    kind: u8,
    #[bits(2)]
    __: u8,
}

/// "Load/store exclusive", "ordered", "compare and swap".
#[bitfield(u32)]
struct ExclusiveWord {
    #[bits(5)]
    rt: u8,
    #[bits(5)]
    rn: u8,
    #[bits(5)]
    rt2: u8,
    o0: bool,
    #[bits(5)]
    rs: u8,
    o1: bool,
    load: bool,
    o2: bool,
    #[bits(6)]
    __: u8,
    #[bits(2)]
    size: u8,
}

fn ordered(word: ExclusiveWord) -> Option<LoadStore> {
    match (word.o2(), word.o1()) {
        (false, false) => Some(exclusive(word, false)),
        (false, true) if word.size() >= 2 => Some(exclusive(word, true)),
        (false, true) => compare_and_swap(word, Width::from_log2(word.size() + 2), true),
        (true, false) => Some(acquire_release(word)),
        (true, true) => compare_and_swap(word, Width::from_log2(word.size()), false),
    }
}

fn exclusive(word: ExclusiveWord, pair: bool) -> LoadStore {
    LoadStore::Exclusive(Exclusive {
        load: word.load(),
        width: Width::from_log2(word.size()),
        register: word.rt(),
        second: pair.then(|| word.rt2()),
        status: (!word.load()).then(|| word.rs()),
        base: word.rn(),
    })
}

/// LDAR, STLR, LDLAR, STLLR.
fn acquire_release(word: ExclusiveWord) -> LoadStore {
    let base = word.rn();
    LoadStore::Transfer(Transfer {
        ordered: true,
        ..Transfer::plain(
            word.load(),
            plain(word.size()),
            word.rt(),
            Addressing::Offset { base, offset: 0 },
        )
    })
}

/// CAS and CASP. CASP takes only even registers, each together with its successor.
fn compare_and_swap(word: ExclusiveWord, width: Width, pair: bool) -> Option<LoadStore> {
    let odd = (word.rs() | word.rt()) & 1 == 1;
    if word.rt2() != 0b1_1111 || (pair && odd) {
        return None;
    }
    Some(LoadStore::Atomic(Atomic {
        width,
        operand: word.rs(),
        target: word.rt(),
        pair,
        base: word.rn(),
    }))
}

/// A general register that a load extends with zeros.
fn plain(size: u8) -> Data {
    let width = Width::from_log2(size);
    Data::General(General {
        width,
        sign_extend: false,
        wide: width == Width::Double,
    })
}

/// What `size`, V and `opc` of "Load/store register" mean: whether the instruction is a load, and
/// what it transfers. `None` for a prefetch (size 3, opc 2).
fn kind(size: u8, vector: bool, opc: u8) -> Option<(bool, Data)> {
    let signed = |wide| {
        Data::General(General {
            width: Width::from_log2(size),
            sign_extend: true,
            wide,
        })
    };
    match (vector, opc, size) {
        (false, 0b00 | 0b01, _) => Some((opc == 1, plain(size))),
        (false, 0b10, 0..=2) => Some((true, signed(true))),
        (false, 0b11, 0..=1) => Some((true, signed(false))),
        (true, 0b00 | 0b01, _) => Some((opc == 1, Data::Vector(size))),
        (true, 0b10 | 0b11, 0) => Some((opc == 3, Data::Vector(4))),
        _ => None,
    }
}

/// "Load/store register (unscaled immediate)", "(immediate pre- and post-indexed)",
/// "(unprivileged)", and LDAPUR and STLUR.
#[bitfield(u32)]
struct ImmediateWord {
    #[bits(5)]
    rt: u8,
    #[bits(5)]
    rn: u8,
    #[bits(2)]
    mode: u8,
    #[bits(9)]
    offset: i16,
    __: bool,
    #[bits(2)]
    opc: u8,
    #[bits(2)]
    __: u8,
    vector: bool,
    #[bits(3)]
    __: u8,
    #[bits(2)]
    size: u8,
}

fn immediate(word: ImmediateWord) -> Option<LoadStore> {
    let (load, data) = kind(word.size(), word.vector(), word.opc())?;
    let (base, offset) = (word.rn(), i64::from(word.offset()));
    let address = match word.mode() {
        0b00 => Addressing::Offset { base, offset },
        0b01 => Addressing::PostIndex { base, offset },
        0b10 if !word.vector() => Addressing::Offset { base, offset },
        0b11 => Addressing::PreIndex { base, offset },
        _ => return None,
    };
    Some(LoadStore::Transfer(Transfer {
        unprivileged: word.mode() == 0b10,
        ..Transfer::plain(load, data, word.rt(), address)
    }))
}

/// LDAPUR and STLUR (FEAT_LRCPC2).
fn unscaled_ordered(word: ImmediateWord) -> Option<LoadStore> {
    let (load, data) = kind(word.size(), false, word.opc())?;
    Some(LoadStore::Transfer(Transfer {
        ordered: true,
        ..Transfer::plain(
            load,
            data,
            word.rt(),
            Addressing::Offset {
                base: word.rn(),
                offset: i64::from(word.offset()),
            },
        )
    }))
}

/// "Load register (literal)".
#[bitfield(u32)]
struct LiteralWord {
    #[bits(5)]
    rt: u8,
    #[bits(19)]
    words: i32,
    #[bits(2)]
    __: u8,
    vector: bool,
    #[bits(3)]
    __: u8,
    #[bits(2)]
    opc: u8,
}

fn literal(word: LiteralWord) -> Option<LoadStore> {
    let data = match (word.vector(), word.opc()) {
        (false, opc @ 0b00..=0b01) => plain(opc + 2),
        (false, 0b10) => Data::General(General {
            width: Width::Word,
            sign_extend: true,
            wide: true,
        }),
        (true, opc @ 0b00..=0b10) => Data::Vector(opc + 2),
        _ => return None,
    };
    Some(LoadStore::Transfer(Transfer::plain(
        true,
        data,
        word.rt(),
        Addressing::Literal {
            offset: i64::from(word.words()) * 4,
        },
    )))
}

/// "Load/store register pair" and "no-allocate pair".
#[bitfield(u32)]
struct PairWord {
    #[bits(5)]
    rt: u8,
    #[bits(5)]
    rn: u8,
    #[bits(5)]
    rt2: u8,
    #[bits(7)]
    units: i8,
    load: bool,
    #[bits(2)]
    mode: u8,
    __: bool,
    vector: bool,
    #[bits(3)]
    __: u8,
    #[bits(2)]
    opc: u8,
}

fn pair(word: PairWord) -> Option<LoadStore> {
    let data = pair_data(word)?;
    let base = word.rn();
    let offset = i64::from(word.units()) * data.bytes() as i64;
    let address = match word.mode() {
        0b01 => Addressing::PostIndex { base, offset },
        0b11 => Addressing::PreIndex { base, offset },
        _ => Addressing::Offset { base, offset },
    };
    Some(LoadStore::Transfer(Transfer {
        second: Some(word.rt2()),
        ..Transfer::plain(word.load(), data, word.rt(), address)
    }))
}

/// With opc 1, a load is LDPSW, which has no no-allocate form, and a store is STGP.
fn pair_data(word: PairWord) -> Option<Data> {
    match (word.vector(), word.opc()) {
        (false, 0b00) => Some(plain(2)),
        (false, 0b10) => Some(plain(3)),
        (false, 0b01) if word.load() && word.mode() != 0b00 => Some(Data::General(General {
            width: Width::Word,
            sign_extend: true,
            wide: true,
        })),
        (true, opc @ 0b00..=0b10) => Some(Data::Vector(opc + 2)),
        _ => None,
    }
}

/// "Load/store register (unsigned immediate)".
#[bitfield(u32)]
struct ScaledWord {
    #[bits(5)]
    rt: u8,
    #[bits(5)]
    rn: u8,
    #[bits(12)]
    units: u16,
    #[bits(2)]
    opc: u8,
    #[bits(2)]
    __: u8,
    vector: bool,
    #[bits(3)]
    __: u8,
    #[bits(2)]
    size: u8,
}

fn scaled(word: ScaledWord) -> Option<LoadStore> {
    let (load, data) = kind(word.size(), word.vector(), word.opc())?;
    Some(LoadStore::Transfer(Transfer::plain(
        load,
        data,
        word.rt(),
        Addressing::Offset {
            base: word.rn(),
            offset: i64::from(word.units()) * data.bytes() as i64,
        },
    )))
}

/// "Load/store register (register offset)".
#[bitfield(u32)]
struct RegisterWord {
    #[bits(5)]
    rt: u8,
    #[bits(5)]
    rn: u8,
    #[bits(2)]
    __: u8,
    scale: bool,
    #[bits(3)]
    option: u8,
    #[bits(5)]
    rm: u8,
    __: bool,
    #[bits(2)]
    opc: u8,
    #[bits(2)]
    __: u8,
    vector: bool,
    #[bits(3)]
    __: u8,
    #[bits(2)]
    size: u8,
}

fn register_offset(word: RegisterWord) -> Option<LoadStore> {
    let (load, data) = kind(word.size(), word.vector(), word.opc())?;
    let extend = match word.option() {
        0b010 => Extend::Uxtw,
        0b011 => Extend::Lsl,
        0b110 => Extend::Sxtw,
        0b111 => Extend::Sxtx,
        _ => return None,
    };
    let log2 = data.bytes().trailing_zeros() as u8;
    Some(LoadStore::Transfer(Transfer::plain(
        load,
        data,
        word.rt(),
        Addressing::Register {
            base: word.rn(),
            index: word.rm(),
            extend,
            shift: if word.scale() { log2 } else { 0 },
        },
    )))
}

/// "Atomic memory operations".
#[bitfield(u32)]
struct AtomicWord {
    #[bits(5)]
    rt: u8,
    #[bits(5)]
    rn: u8,
    #[bits(2)]
    __: u8,
    #[bits(3)]
    opc: u8,
    o3: bool,
    #[bits(5)]
    rs: u8,
    __: bool,
    release: bool,
    acquire: bool,
    #[bits(6)]
    __: u8,
    #[bits(2)]
    size: u8,
}

fn atomic(word: AtomicWord) -> Option<LoadStore> {
    match (word.o3(), word.opc()) {
        (false, _) | (true, 0b000) => Some(LoadStore::Atomic(Atomic {
            width: Width::from_log2(word.size()),
            operand: word.rs(),
            target: word.rt(),
            pair: false,
            base: word.rn(),
        })),
        // LDAPR (FEAT_LRCPC). Its Rs should be 31, but the CPU does not check that.
        (true, 0b100) if word.acquire() && !word.release() => {
            let base = word.rn();
            Some(LoadStore::Transfer(Transfer {
                ordered: true,
                ..Transfer::plain(
                    true,
                    plain(word.size()),
                    word.rt(),
                    Addressing::Offset { base, offset: 0 },
                )
            }))
        }
        _ => None,
    }
}
