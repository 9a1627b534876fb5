//! Coprocessor instructions. Their lower 28 bits are the same in both instruction sets (DDI 0406C
//! A5.6 and A6.3.18). [`super::rights`] says what they reach.

use crate::aarch32::registers::Register;
use bitfield_struct::bitfield;

/// A coprocessor instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coprocessor {
    /// The coprocessor's number, 0 to 15.
    pub number: u8,
    /// Whether the instruction is of the second kind: CDP2, MCR2 and so on.
    pub second_kind: bool,
    /// The operation, with its operands.
    pub access: Access,
}

/// An operation of a coprocessor, with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// CDP.
    Operation {
        /// Opc1.
        opc1: u8,
        /// CRn.
        crn: u8,
        /// CRm.
        crm: u8,
        /// Opc2.
        opc2: u8,
        /// CRd.
        crd: u8,
    },
    /// MRC and MCR.
    Register {
        /// Whether the instruction reads the coprocessor (MRC).
        read: bool,
        /// Opc1.
        opc1: u8,
        /// CRn.
        crn: u8,
        /// CRm.
        crm: u8,
        /// Opc2.
        opc2: u8,
        /// Rt. In an MRC, R15 means the flags.
        register: Register,
    },
    /// MRRC and MCRR.
    Pair {
        /// Whether the instruction reads the coprocessor (MRRC).
        read: bool,
        /// Opc1.
        opc1: u8,
        /// CRm.
        crm: u8,
        /// Rt and Rt2.
        registers: [Register; 2],
    },
    /// LDC and STC: a transfer between the coprocessor and memory.
    Memory(Transfer),
}

/// The operands of LDC and STC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Whether the instruction writes the coprocessor (LDC).
    pub load: bool,
    /// D: the long form.
    pub long: bool,
    /// CRd.
    pub crd: u8,
    /// Rn.
    pub base: Register,
    /// P: whether the offset is a part of the address.
    pub before: bool,
    /// U: whether the offset is added; else it is subtracted.
    pub add: bool,
    /// W: whether the base is written back. If P and W are both clear, the eight bits are no offset
    /// but an option for the coprocessor.
    pub write_back: bool,
    /// The eight bits: an offset in words, or the option.
    pub words: u8,
}

/// The lower 28 bits of MRC and MCR.
#[bitfield(u32)]
struct RegisterWord {
    #[bits(4)]
    crm: u8,
    one: bool,
    #[bits(3)]
    opc2: u8,
    #[bits(4)]
    number: u8,
    #[bits(4)]
    rt: Register,
    #[bits(4)]
    crn: u8,
    read: bool,
    #[bits(3)]
    opc1: u8,
    #[bits(4)]
    kind: u8,
    #[bits(4)]
    __: u8,
}

/// The lower 28 bits of CDP.
#[bitfield(u32)]
struct OperationWord {
    #[bits(4)]
    crm: u8,
    one: bool,
    #[bits(3)]
    opc2: u8,
    #[bits(4)]
    number: u8,
    #[bits(4)]
    crd: u8,
    #[bits(4)]
    crn: u8,
    #[bits(4)]
    opc1: u8,
    #[bits(8)]
    __: u8,
}

/// The lower 28 bits of MRRC and MCRR.
#[bitfield(u32)]
struct PairWord {
    #[bits(4)]
    crm: u8,
    #[bits(4)]
    opc1: u8,
    #[bits(4)]
    number: u8,
    #[bits(4)]
    rt: Register,
    #[bits(4)]
    rt2: Register,
    read: bool,
    #[bits(11)]
    __: u16,
}

/// The lower 28 bits of LDC and STC.
#[bitfield(u32)]
struct MemoryWord {
    #[bits(8)]
    words: u8,
    #[bits(4)]
    number: u8,
    #[bits(4)]
    crd: u8,
    #[bits(4)]
    rn: Register,
    load: bool,
    write_back: bool,
    long: bool,
    up: bool,
    before: bool,
    #[bits(7)]
    __: u8,
}

/// The sensitive coprocessor instruction with these lower 28 bits, and whether its operands are as
/// they should be. `None` if there is no such instruction. Of coprocessors 10 and 11 only accesses
/// to system registers are sensitive: the others are instructions of VFP and Advanced SIMD, which
/// do the same in every mode.
pub(super) fn decode(bits: u32, second_kind: bool) -> Option<(Coprocessor, bool)> {
    let word = RegisterWord::from_bits(bits);
    let access = match word.kind() {
        0b1110 if word.one() => register(word),
        0b1110 => operation(OperationWord::from_bits(bits)),
        0b1100 | 0b1101 => memory_or_pair(bits)?,
        _ => return None,
    };
    let found = Coprocessor {
        number: word.number(),
        second_kind,
        access,
    };
    match found.number {
        10 | 11 if second_kind => None,
        10 | 11 => found
            .floating_point_system()
            .map(|known| (found, known && bits & 0xef == 0)),
        _ => Some((found, found.is_defined())),
    }
}

fn register(word: RegisterWord) -> Access {
    Access::Register {
        read: word.read(),
        opc1: word.opc1(),
        crn: word.crn(),
        crm: word.crm(),
        opc2: word.opc2(),
        register: word.rt(),
    }
}

fn operation(word: OperationWord) -> Access {
    Access::Operation {
        opc1: word.opc1(),
        crn: word.crn(),
        crm: word.crm(),
        opc2: word.opc2(),
        crd: word.crd(),
    }
}

/// If P, U and W are clear, the word is MCRR or MRRC, or no instruction.
fn memory_or_pair(bits: u32) -> Option<Access> {
    let word = MemoryWord::from_bits(bits);
    match (word.before(), word.up(), word.write_back(), word.long()) {
        (false, false, false, false) => None,
        (false, false, false, true) => {
            let pair = PairWord::from_bits(bits);
            Some(Access::Pair {
                read: pair.read(),
                opc1: pair.opc1(),
                crm: pair.crm(),
                registers: [pair.rt(), pair.rt2()],
            })
        }
        (before, add, write_back, long) => Some(Access::Memory(Transfer {
            load: word.load(),
            long,
            crd: word.crd(),
            base: word.rn(),
            before,
            add,
            write_back,
            words: word.words(),
        })),
    }
}

impl Coprocessor {
    /// Whether this is an MRC or MCR of CP15 with these numbers.
    pub const fn is_cp15(&self, opc1: u8, crn: u8, crm: u8, opc2: u8) -> bool {
        self.number == 15
            && !self.second_kind
            && match self.access {
                Access::Register {
                    opc1: a,
                    crn: b,
                    crm: c,
                    opc2: d,
                    ..
                } => a == opc1 && b == crn && c == crm && d == opc2,
                _ => false,
            }
    }

    /// Whether the instruction moves a value from the coprocessor to a register or to memory.
    pub const fn is_read(&self) -> bool {
        match self.access {
            Access::Operation { .. } => false,
            Access::Register { read, .. } | Access::Pair { read, .. } => read,
            Access::Memory(transfer) => !transfer.load,
        }
    }

    /// For VMRS or VMSR of a system register: whether that register exists (DDI 0406C A7.8,
    /// B9.3.21). `None` for FPSCR, which belongs to programs, and for all other instructions.
    fn floating_point_system(&self) -> Option<bool> {
        match self.access {
            Access::Register {
                opc1: 0b111,
                crn,
                read,
                register: to,
                ..
            } if self.number == 10 && crn != 1 => {
                let known = matches!(crn, 0 | 8..=10) || read && matches!(crn, 6 | 7);
                Some(known && to != Register::PC)
            }
            _ => None,
        }
    }

    /// Whether the operands are none that are UNPREDICTABLE in every mode (the instructions' own
    /// sections in DDI 0406C A8.8).
    fn is_defined(&self) -> bool {
        match self.access {
            Access::Operation { .. } => true,
            Access::Register { read, register, .. } => {
                // The flags can be read only from CP14 (C6, and A8.8, MRC).
                register != Register::PC || read && self.number != 15
            }
            Access::Pair {
                read,
                registers: [first, second],
                ..
            } => first != Register::PC && second != Register::PC && !(read && first == second),
            Access::Memory(transfer) => transfer.base != Register::PC || !transfer.write_back,
        }
    }

    /// Whether T32 allows the operands: beyond A32's rules it forbids the stack pointer, and a
    /// store by the PC.
    pub(super) fn is_defined_in_t32(&self) -> bool {
        let general = |register| register != Register::SP;
        match self.access {
            Access::Operation { .. } => true,
            Access::Register { register, .. } => general(register),
            Access::Pair { registers, .. } => registers.into_iter().all(general),
            Access::Memory(transfer) => transfer.load || transfer.base != Register::PC,
        }
    }
}
