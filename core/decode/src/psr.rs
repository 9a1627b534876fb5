//! What an exit of AArch32 code needs beyond its syndrome: whether its condition passes, which
//! register a banked name means, and to which AArch64 register a coprocessor register is mapped.
//!
//! The core knows only AArch64 registers. On a CPU that has only AArch32, the backend translates
//! with these functions, as an AArch64 CPU does by itself (DDI 0487, D1.20.1).

use crate::class::Condition;
use crate::coprocessor::{Coprocessor, CoprocessorPair};
use crate::sysreg::SysReg;
use bitfield_struct::bitfield;

/// CPSR, in the format of SPSR_hyp (DDI 0406C, B1.3.3) and, for the bits that Armv8 added, of
/// SPSR_EL2 (DDI 0487, C5.2.19 "When exception taken from AArch32 state").
#[bitfield(u32)]
#[derive(PartialEq, Eq)]
pub struct Psr {
    /// M: the mode. Bit 4 is always set.
    #[bits(5)]
    pub mode: u8,
    /// T: T32 code.
    pub thumb: bool,
    /// F: FIQs are masked.
    pub fiq_masked: bool,
    /// I: IRQs are masked.
    pub irq_masked: bool,
    /// A: asynchronous aborts are masked.
    pub abort_masked: bool,
    /// E: data is big-endian.
    pub big_endian: bool,
    /// IT\[7:2\].
    #[bits(6)]
    pub it_high: u8,
    /// GE.
    #[bits(4)]
    pub ge: u8,
    /// IL: the state is illegal. This field and the next ones, up to [`Self::ssbs`], exist in Armv8
    /// only.
    pub illegal: bool,
    /// SS: software step.
    pub software_step: bool,
    /// PAN: EL1 may not access what EL0 may access.
    pub pan: bool,
    /// SSBS: speculative store bypass is safe.
    pub ssbs: bool,
    /// J: Jazelle. In SPSR_EL2 this bit is DIT: timing does not depend on data.
    pub jazelle: bool,
    /// IT\[1:0\].
    #[bits(2)]
    pub it_low: u8,
    /// Q.
    pub q: bool,
    /// V.
    pub v: bool,
    /// C.
    pub c: bool,
    /// Z.
    pub z: bool,
    /// N.
    pub n: bool,
}

/// The modes of AArch32, as PSR.M encodes them (DDI 0406C, B1.3.1).
pub mod mode {
    /// User.
    pub const USER: u8 = 0x10;
    /// FIQ.
    pub const FIQ: u8 = 0x11;
    /// IRQ.
    pub const IRQ: u8 = 0x12;
    /// Supervisor.
    pub const SUPERVISOR: u8 = 0x13;
    /// Monitor.
    pub const MONITOR: u8 = 0x16;
    /// Abort.
    pub const ABORT: u8 = 0x17;
    /// Hyp.
    pub const HYP: u8 = 0x1a;
    /// Undefined.
    pub const UNDEFINED: u8 = 0x1b;
    /// System.
    pub const SYSTEM: u8 = 0x1f;
}

impl Psr {
    /// Whether `register`, from the syndrome of an instruction that executed in this mode, is the
    /// AArch64 register of the same number, so that [`syndrome_register`] need not be called.
    #[inline(always)]
    pub const fn is_unbanked(self, register: u8) -> bool {
        register <= 7 || register <= 12 && self.mode() != mode::FIQ
    }

    /// The eight bits of ITSTATE; zero outside an IT block.
    pub const fn it(&self) -> u8 {
        self.it_high() << 2 | self.it_low()
    }

    /// Whether an instruction with this condition executes (DDI 0406C, A8.3.1). If the syndrome
    /// tells no condition, ITSTATE decides, which only T32 code has.
    pub const fn passes(&self, condition: Condition) -> bool {
        let code = match condition {
            Condition::Code(code) => code & 0xf,
            Condition::Unknown if self.it() & 0xf != 0 => self.it() >> 4,
            Condition::Unknown => return true,
        };
        let base = match code >> 1 {
            0 => self.z(),
            1 => self.c(),
            2 => self.n(),
            3 => self.v(),
            4 => self.c() && !self.z(),
            5 => self.n() == self.v(),
            6 => self.n() == self.v() && !self.z(),
            _ => return true,
        };
        base != (code & 1 != 0)
    }
}

/// The AArch64 register to which AArch32's `register` (0 to 14) is mapped in `mode` (DDI 0487,
/// D1.20.1, "Mapping of the general-purpose registers between the Execution states"). 15, which is
/// the program counter or the flags, gives the zero register.
pub const fn banked_register(register: u8, mode: u8) -> u8 {
    match (register, mode) {
        (0..=7, _) => register,
        (8..=14, mode::FIQ) => register + 16,
        (8..=12, _) => register,
        (13, mode::IRQ) => 17,
        (14, mode::IRQ) => 16,
        (13, mode::SUPERVISOR) => 19,
        (14, mode::SUPERVISOR) => 18,
        (13, mode::ABORT) => 21,
        (14, mode::ABORT) => 20,
        (13, mode::UNDEFINED) => 23,
        (14, mode::UNDEFINED) => 22,
        (13, mode::HYP) => 15,
        (13 | 14, _) => register,
        _ => 31,
    }
}

/// The AArch64 register that `register` means in a syndrome at EL2, for an AArch32 instruction that
/// executed in `mode`.
///
/// The architecture requires the AArch64 register's number there (DDI 0487, D24.2, ESR_EL2, under
/// SRT and Rt). QEMU 10 leaves AArch32's number in the syndrome of a data abort. The two cannot be
/// confused: no number that one mode uses for its own registers is the number of another mode's
/// banked register.
pub const fn syndrome_register(register: u8, mode: u8) -> u8 {
    match register {
        0..=14 => banked_register(register, mode),
        _ => register,
    }
}

impl Coprocessor {
    /// The AArch64 register to which this register of coprocessor 15 is mapped (DDI 0487, D24,
    /// under "Configurations" of each), for the registers that a hypervisor's traps cover.
    pub const fn counterpart(&self) -> Option<SysReg> {
        Some(match (self.crn, self.opc1, self.crm, self.opc2) {
            (0, 0, 1..=2, _) => SysReg::from_fields(3, 0, 0, self.crm, self.opc2),
            (0, 0, 3, 4..=6) => SysReg::from_fields(3, 0, 0, 3, self.opc2),
            // ACTLR, and ACTLR2, which is the upper half of ACTLR_EL1.
            (1, 0, 0, 1 | 3) => SysReg::ACTLR_EL1,
            (14, 0, 2, 0) => SysReg::CNTP_TVAL_EL0,
            (14, 0, 2, 1) => SysReg::CNTP_CTL_EL0,
            _ => return None,
        })
    }

    /// The AArch64 register to which this register, read by VMRS, is mapped; `crn` is its number in
    /// VMRS.
    pub const fn vmrs_counterpart(&self) -> Option<SysReg> {
        Some(match self.crn {
            7 => SysReg::MVFR0_EL1,
            6 => SysReg::MVFR1_EL1,
            5 => SysReg::MVFR2_EL1,
            _ => return None,
        })
    }
}

impl CoprocessorPair {
    /// As [`Coprocessor::counterpart`], for a register of 64 bits.
    pub const fn counterpart(&self) -> Option<SysReg> {
        Some(match (self.opc1, self.crm) {
            (2, 14) => SysReg::CNTP_CVAL_EL0,
            (0, 12) => SysReg::ICC_SGI1R_EL1,
            (1, 12) => SysReg::ICC_ASGI1R_EL1,
            (2, 12) => SysReg::ICC_SGI0R_EL1,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modes that have an SP and an LR of their own.
    const BANKED: [u8; 6] = [
        mode::USER,
        mode::FIQ,
        mode::IRQ,
        mode::SUPERVISOR,
        mode::ABORT,
        mode::UNDEFINED,
    ];

    #[test]
    fn the_fields_are_where_the_manual_has_them() {
        let psr = Psr::from_bits(0x6000_01d3);
        assert_eq!(psr.mode(), mode::SUPERVISOR);
        assert!(psr.z() && psr.c() && !psr.n() && !psr.v());
        assert!(psr.abort_masked() && psr.irq_masked() && psr.fiq_masked());
        assert!(!psr.thumb() && psr.it() == 0);
        assert!(Psr::from_bits(1 << 5).thumb() && Psr::from_bits(1 << 9).big_endian());
        assert_eq!(Psr::from_bits(0x0600_fc00).it(), 0xff);
    }

    /// Every condition with every state of the flags, by the table of A8.3.1.
    #[test]
    fn conditions_hold_as_the_table_says() {
        for flags in 0..16u32 {
            let psr = Psr::from_bits(flags << 28 | 0x10);
            let [n, z, c, v] = [8, 4, 2, 1].map(|bit| flags & bit != 0);
            let table = [
                z,
                !z,
                c,
                !c,
                n,
                !n,
                v,
                !v,
                c && !z,
                !c || z,
                n == v,
                n != v,
                !z && n == v,
                z || n != v,
                true,
                true,
            ];
            for (code, holds) in (0..).zip(table) {
                let passes = psr.passes(Condition::Code(code));
                assert_eq!(passes, holds, "{code:#x} with flags {flags:#x}");
            }
        }
    }

    #[test]
    fn without_a_condition_the_it_block_decides() {
        // Outside an IT block the instruction executes. In one, the upper half of ITSTATE is the
        // condition: EQ (0b0000), NE (0b0001).
        let unknown = Condition::Unknown;
        let z = Psr::new().with_z(true).with_thumb(true);
        assert!(z.passes(unknown));
        assert!(Psr::new().with_thumb(true).passes(unknown));
        let within = |it: u8| z.with_it_high(it >> 2).with_it_low(it & 3);
        assert!(within(0x08).passes(unknown));
        assert!(!within(0x18).passes(unknown));
        // The lower half only tells whether there is a block.
        for lower in 1..16 {
            assert!(within(lower).passes(unknown) && !within(0x10 | lower).passes(unknown));
        }
    }

    #[test]
    fn banked_registers_have_their_places() {
        assert_eq!(banked_register(7, mode::FIQ), 7);
        assert_eq!(banked_register(8, mode::FIQ), 24);
        assert_eq!(banked_register(14, mode::FIQ), 30);
        assert_eq!(banked_register(12, mode::SUPERVISOR), 12);
        assert_eq!(banked_register(13, mode::SUPERVISOR), 19);
        assert_eq!(banked_register(14, mode::SUPERVISOR), 18);
        assert_eq!(banked_register(14, mode::USER), 14);
        assert_eq!(banked_register(13, mode::SYSTEM), 13);
        // The table of D1.20.1: SP and LR of each mode.
        for (mode, sp, lr) in [
            (mode::USER, 13, 14),
            (mode::HYP, 15, 14),
            (mode::IRQ, 17, 16),
            (mode::SUPERVISOR, 19, 18),
            (mode::ABORT, 21, 20),
            (mode::UNDEFINED, 23, 22),
            (mode::FIQ, 29, 30),
        ] {
            let found = [13, 14].map(|register| banked_register(register, mode));
            assert_eq!(found, [sp, lr], "{mode:#x}");
        }
        for register in 0..=255 {
            for mode in 0..32 {
                assert!(banked_register(register, mode) < 32);
            }
        }
    }

    #[test]
    fn a_syndrome_s_register_is_understood_in_both_forms() {
        for mode in BANKED.into_iter().chain([mode::SYSTEM]) {
            for register in 0..=14 {
                let meant = banked_register(register, mode);
                assert_eq!(syndrome_register(register, mode), meant);
                assert_eq!(syndrome_register(meant, mode), meant);
            }
            assert_eq!(syndrome_register(31, mode), 31);
            let psr = Psr::new().with_mode(mode);
            for register in 0..32 {
                let same = syndrome_register(register, mode) == register;
                assert!(same || !psr.is_unbanked(register));
            }
            assert!(psr.is_unbanked(7) && !psr.is_unbanked(13));
        }
    }

    #[test]
    fn two_modes_share_no_banked_register_but_the_user_s() {
        let mut seen = std::collections::BTreeSet::new();
        for mode in BANKED {
            for register in [13, 14] {
                assert!(seen.insert(banked_register(register, mode)));
            }
        }
    }

    #[test]
    fn counterparts_are_those_of_the_manual() {
        let of = |opc1, crn, crm, opc2| {
            Coprocessor {
                condition: Condition::Unknown,
                opc1,
                opc2,
                crn,
                crm,
                register: 0,
                read: true,
            }
            .counterpart()
        };
        assert_eq!(of(0, 0, 1, 1), Some(SysReg::ID_PFR1_EL1));
        assert_eq!(of(0, 0, 2, 5), Some(SysReg::ID_ISAR5_EL1));
        assert_eq!(of(0, 1, 0, 1), Some(SysReg::ACTLR_EL1));
        assert_eq!(of(0, 14, 2, 1), Some(SysReg::CNTP_CTL_EL0));
        assert_eq!(of(0, 9, 12, 0), None);
        // ID_PFR2, ID_DFR1, ID_MMFR5; the encodings beside them are no registers of AArch32.
        for op2 in 0..8 {
            let wanted = (4..7)
                .contains(&op2)
                .then(|| SysReg::from_fields(3, 0, 0, 3, op2));
            assert_eq!(of(0, 0, 3, op2), wanted, "{op2}");
        }
        assert_eq!(of(0, 14, 2, 0), Some(SysReg::CNTP_TVAL_EL0));
        assert_eq!(of(0, 14, 2, 2), None);
    }

    #[test]
    fn registers_of_vmrs_and_pairs_have_counterparts() {
        let vmrs = |crn| {
            Coprocessor {
                condition: Condition::Unknown,
                opc1: 7,
                opc2: 0,
                crn,
                crm: 0,
                register: 0,
                read: true,
            }
            .vmrs_counterpart()
        };
        // The numbers of VMRS fall as those of AArch64 rise (DDI 0406C, A7.8, VMRS).
        for crn in 0..16 {
            let wanted = match crn {
                7 => Some(SysReg::MVFR0_EL1),
                6 => Some(SysReg::MVFR1_EL1),
                5 => Some(SysReg::MVFR2_EL1),
                _ => None,
            };
            assert_eq!(vmrs(crn), wanted, "{crn}");
        }
        let pair = |opc1, crm| {
            CoprocessorPair {
                condition: Condition::Unknown,
                opc1,
                crm,
                registers: [0, 1],
                read: false,
            }
            .counterpart()
        };
        for (opc1, crm) in (0..16).flat_map(|opc1| (0..16).map(move |crm| (opc1, crm))) {
            let wanted = match (opc1, crm) {
                (2, 14) => Some(SysReg::CNTP_CVAL_EL0),
                (0, 12) => Some(SysReg::ICC_SGI1R_EL1),
                (1, 12) => Some(SysReg::ICC_ASGI1R_EL1),
                (2, 12) => Some(SysReg::ICC_SGI0R_EL1),
                _ => None,
            };
            assert_eq!(pair(opc1, crm), wanted, "{opc1} {crm}");
        }
    }
}
