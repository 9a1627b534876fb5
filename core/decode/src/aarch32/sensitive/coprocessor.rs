//! Coprocessor instructions, which in both instruction sets have the same lower 28 bits
//! (DDI 0406C A5.6 and A6.3.18), and what User mode may do with them (B3.15, B6.1, C6.4).

use super::user::UserMode;
use crate::aarch32::effects::{Effects, Flags};
use crate::aarch32::registers::{Register, Registers};
use bitfield_struct::bitfield;

/// A coprocessor instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Coprocessor {
    /// Which coprocessor, 0 to 15.
    pub number: u8,
    /// Whether it is of the second kind: CDP2, MCR2 and so on.
    pub second_kind: bool,
    /// What is asked of it.
    pub access: Access,
}

/// What is asked of a coprocessor.
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
        /// Whether it reads the coprocessor (MRC).
        read: bool,
        /// Opc1.
        opc1: u8,
        /// CRn.
        crn: u8,
        /// CRm.
        crm: u8,
        /// Opc2.
        opc2: u8,
        /// Rt. The PC stands for the flags in MRC.
        register: Register,
    },
    /// MRRC and MCRR.
    Pair {
        /// Whether it reads the coprocessor (MRRC).
        read: bool,
        /// Opc1.
        opc1: u8,
        /// CRm.
        crm: u8,
        /// Rt and Rt2.
        registers: [Register; 2],
    },
    /// LDC and STC.
    Memory(Transfer),
}

/// Where LDC and STC transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// Whether it writes the coprocessor (LDC).
    pub load: bool,
    /// D: the long form.
    pub long: bool,
    /// CRd.
    pub crd: u8,
    /// Rn.
    pub base: Register,
    /// P: the offset is a part of the address.
    pub before: bool,
    /// U: the offset is added.
    pub add: bool,
    /// W: the base is written back. With neither P nor W the eight bits are an option for the
    /// coprocessor and no offset.
    pub write_back: bool,
    /// The eight bits: words, or the option.
    pub words: u8,
}

/// To what a coprocessor instruction belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Facility {
    /// CP15 forms of the barriers.
    Barrier,
    /// CP15 c13: FCSE, CONTEXTIDR and the thread registers.
    ThreadRegister,
    /// CP15 c3: DACR.
    DomainAccess,
    /// CP15 c7: caches, branch predictors, address translation.
    Cache,
    /// CP15 c8: TLB maintenance.
    Tlb,
    /// CP15 c9: performance monitors.
    PerformanceMonitor,
    /// CP15 c14: the generic timer.
    Timer,
    /// CP15, all other registers that the architecture names.
    System,
    /// CP15 c9, c10, c11 and c15 where the CPU's own manual says what they are.
    Implementation,
    /// CP14: debug and trace.
    Debug,
    /// CP14: ThumbEE.
    ThumbEe,
    /// CP14: Jazelle.
    Jazelle,
    /// CP10 and CP11: system registers of VFP and Advanced SIMD.
    FloatingPoint,
    /// Another coprocessor; no Cortex-A has one.
    Vendor,
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

/// Of CDP.
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

/// Of MRRC and MCRR.
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

/// Of LDC and STC.
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

/// The sensitive coprocessor instruction with these lower 28 bits, and whether its operands
/// are as they should be. `None` where there is no such instruction, and of coprocessors 10
/// and 11 all but the system registers: those are instructions of VFP and Advanced SIMD, which
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

/// P, U and W clear are the pair's, or nothing's.
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
    /// Whether it is MRC or MCR of CP15 with these numbers.
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

    /// Whether a value comes from the coprocessor to a register or memory.
    pub const fn is_read(&self) -> bool {
        match self.access {
            Access::Operation { .. } => false,
            Access::Register { read, .. } | Access::Pair { read, .. } => read,
            Access::Memory(transfer) => !transfer.load,
        }
    }

    /// VMRS or VMSR of a system register, and whether of one that there is (DDI 0406C A7.8,
    /// B9.3.21). FPSCR belongs to programs.
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

    /// No operands that are UNPREDICTABLE in any mode (the instructions' own sections in
    /// DDI 0406C A8.8).
    fn is_defined(&self) -> bool {
        match self.access {
            Access::Operation { .. } => true,
            Access::Register { read, register, .. } => {
                // The flags can be read from CP14 alone (C6.4.1, A8.8.108).
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

    /// What T32 does not allow beyond that: the stack pointer, and a store by the PC.
    pub(super) fn is_defined_in_t32(&self) -> bool {
        let general = |register| register != Register::SP;
        match self.access {
            Access::Operation { .. } => true,
            Access::Register { register, .. } => general(register),
            Access::Pair { registers, .. } => registers.into_iter().all(general),
            Access::Memory(transfer) => transfer.load || transfer.base != Register::PC,
        }
    }

    /// To what it belongs.
    pub const fn facility(&self) -> Facility {
        match self.number {
            15 => self.facility_15(),
            14 => self.facility_14(),
            10 | 11 => Facility::FloatingPoint,
            _ => Facility::Vendor,
        }
    }

    const fn facility_15(&self) -> Facility {
        match self.access {
            Access::Register {
                crn,
                crm,
                opc1,
                opc2,
                ..
            } => match (crn, crm) {
                (3, _) => Facility::DomainAccess,
                (7, 5) if opc1 == 0 && opc2 == 4 => Facility::Barrier,
                (7, 10) if opc1 == 0 && (opc2 == 4 || opc2 == 5) => Facility::Barrier,
                (7, _) => Facility::Cache,
                (8, _) => Facility::Tlb,
                (9, 12..=14) if opc1 == 0 => Facility::PerformanceMonitor,
                (10, 2..=3) => Facility::System,
                (9..=11 | 15, _) => Facility::Implementation,
                (13, _) => Facility::ThreadRegister,
                (14, _) => Facility::Timer,
                _ => Facility::System,
            },
            Access::Pair { crm, .. } => match crm {
                7 => Facility::Cache,
                9 => Facility::PerformanceMonitor,
                14 => Facility::Timer,
                15 => Facility::Implementation,
                _ => Facility::System,
            },
            Access::Operation { .. } | Access::Memory(_) => Facility::System,
        }
    }

    const fn facility_14(&self) -> Facility {
        match self.access {
            Access::Register { opc1: 6, .. } => Facility::ThumbEe,
            Access::Register { opc1: 7, .. } => Facility::Jazelle,
            _ => Facility::Debug,
        }
    }

    /// What it does in User mode.
    pub(super) fn user(&self) -> UserMode {
        match self.number {
            // MCR, MRC, MCRR and MRRC are all that CP15 has (B3.15.2).
            14 | 15 if self.second_kind => UserMode::Undefined,
            15 => self.user_15(),
            14 => self.user_14(),
            _ => UserMode::Undefined,
        }
    }

    fn user_15(&self) -> UserMode {
        match self.access {
            Access::Register {
                read,
                opc1: 0,
                crn,
                crm,
                opc2,
                ..
            } => user_register(read, crn, crm, opc2),
            Access::Register { crn: 15, .. } => UserMode::Configured,
            // CNTPCT and CNTVCT; CNTP_CVAL and CNTV_CVAL (B8.1.2).
            Access::Pair {
                read: true,
                opc1: 0..=3,
                crm: 14,
                ..
            }
            | Access::Pair {
                read: false,
                opc1: 2..=3,
                crm: 14,
                ..
            } => UserMode::Configured,
            Access::Pair { crm: 11 | 15, .. } => UserMode::Configured,
            _ => UserMode::Undefined,
        }
    }

    /// The debug communications channel and the ID registers are open to User mode unless
    /// DBGDSCR.UDCCdis says otherwise (C6.4, C11.11.20); ThumbEE's handler base is unless
    /// TEECR.XED does (A2.10); Jazelle's registers, but JOSCR, unless JOSCR.CD does (A2.9).
    fn user_14(&self) -> UserMode {
        let open = match self.access {
            Access::Register {
                opc1: 0,
                crn: 0,
                crm: 5,
                opc2: 0,
                ..
            } => true,
            Access::Register {
                opc1: 0,
                crn,
                crm,
                opc2: 0,
                read: true,
                ..
            } => {
                matches!((crn, crm), (0, 0 | 1) | (1 | 2, 0))
            }
            Access::Register { opc1: 1, .. } => true,
            Access::Register {
                opc1: 6,
                crn: 0,
                crm: 0,
                opc2: 0,
                read,
                ..
            } => read,
            Access::Register {
                opc1: 6,
                crn: 1,
                crm: 0,
                opc2: 0,
                ..
            } => true,
            Access::Register {
                opc1: 7,
                crn,
                crm: 0,
                opc2: 0,
                ..
            } => crn != 1,
            Access::Pair {
                opc1: 0,
                crm: 1 | 2,
                read: true,
                ..
            } => true,
            Access::Memory(transfer) => transfer.crd == 5 && !transfer.long,
            _ => false,
        };
        if open {
            UserMode::Configured
        } else {
            UserMode::Undefined
        }
    }

    /// What it reads and writes of core registers and flags.
    pub(super) fn effects(&self) -> Effects {
        let none = Effects::NONE;
        match self.access {
            Access::Operation { .. } => none,
            Access::Register {
                read: true,
                register: Register::PC,
                ..
            } => none.setting_flags(Flags::NZCV),
            Access::Register {
                read: true,
                register,
                ..
            } => none.setting(register.set()),
            Access::Register {
                read: false,
                register,
                ..
            } => none.reading(register.set()),
            Access::Pair {
                read,
                registers: [first, second],
                ..
            } => {
                let both = first.set().with(second.set());
                if read {
                    none.setting(both)
                } else {
                    none.reading(both)
                }
            }
            Access::Memory(transfer) => {
                let base = transfer.base.set();
                let written = if transfer.write_back {
                    base
                } else {
                    Registers::NONE
                };
                none.reading(base).setting(written)
            }
        }
    }
}

/// MRC and MCR of CP15 with opc1 zero (DDI 0406C B3.17, B4.1).
fn user_register(read: bool, crn: u8, crm: u8, opc2: u8) -> UserMode {
    match (crn, crm, opc2) {
        // CP15ISB, CP15DSB, CP15DMB (B4.2.5).
        (7, 5, 4) | (7, 10, 4 | 5) if !read => UserMode::Legal,
        // TPIDRURW, and TPIDRURO to read (B4.1.150).
        (13, 0, 2) => UserMode::Legal,
        (13, 0, 3) if read => UserMode::Legal,
        // PMUSERENR can be read; it opens the others, of which none that concerns interrupts
        // (B4.1.123).
        (9, 14, 0) if read => UserMode::Legal,
        (9, 14, 0..=2) => UserMode::Undefined,
        (9, 12..=14, _) => UserMode::Configured,
        // CNTFRQ to read; the timers' TVAL and CTL, by CNTKCTL (B8.1.3).
        (14, 0, 0) if read => UserMode::Configured,
        (14, 2 | 3, 0 | 1) => UserMode::Configured,
        // Preload engines and what else the CPU's manual says.
        (11 | 15, _, _) => UserMode::Configured,
        _ => UserMode::Undefined,
    }
}
