//! What AArch32 code finds when it takes an exception: its status in the handler, and the fault
//! status registers (DDI 0406C, B1.8.3 and B3.13; DDI 0487, G1.16 and G5.11).
//!
//! Both backends with AArch32 guests use this; they differ in where they keep the registers.

use crate::abort::Fault;
use crate::psr::Psr;
use bitfield_struct::bitfield;

/// Offsets of the vectors in the vector table (DDI 0406C, B1.8.1).
pub mod offset {
    /// Undefined instruction.
    pub const UNDEFINED: u64 = 0x04;
    /// Prefetch abort.
    pub const PREFETCH_ABORT: u64 = 0x0c;
    /// Data abort.
    pub const DATA_ABORT: u64 = 0x10;
}

/// The bits of SCTLR that concern exceptions (DDI 0406C, B4.1.130; DDI 0487, G8.2.126).
#[bitfield(u32)]
pub struct Control {
    #[bits(13)]
    __: u16,
    /// V: the vectors are at 0xffff0000.
    pub high_vectors: bool,
    #[bits(9)]
    __: u16,
    /// SPAN: an exception leaves PSTATE.PAN as it is. Armv8 only.
    pub keeps_pan: bool,
    __: bool,
    /// EE: data is big-endian in handlers.
    pub big_endian: bool,
    #[bits(4)]
    __: u8,
    /// TE: handlers are T32 code.
    pub thumb: bool,
    /// DSSBS: the value of PSTATE.SSBS in handlers. Armv8 only.
    pub ssbs: bool,
}

impl Control {
    /// The address of the vector table for this value of VBAR.
    pub const fn vectors(&self, vbar: u64) -> u64 {
        const HIGH: u64 = 0xffff_0000;
        if self.high_vectors() {
            HIGH
        } else {
            vbar & 0xffff_ffff
        }
    }
}

impl Psr {
    /// The status in a handler that is entered in mode `to`. It covers what has not changed since
    /// Armv7.
    pub const fn in_handler(self, to: u8, control: Control) -> Self {
        self.with_mode(to)
            .with_irq_masked(true)
            .with_thumb(control.thumb())
            .with_big_endian(control.big_endian())
            .with_it_high(0)
            .with_it_low(0)
    }

    /// This value of SPSR_EL2 in the format of AArch32's own SPSR, where DIT is bit 21, and IL and
    /// SS do not exist (DDI 0487, G8.2.124).
    pub const fn as_spsr(self) -> u64 {
        const DIT: u64 = 1 << 21;
        let kept = self
            .with_illegal(false)
            .with_software_step(false)
            .with_jazelle(false);
        let dit = if self.jazelle() { DIT } else { 0 };
        kept.into_bits() as u64 | dit
    }
}

/// DFSR and IFSR in the format for short descriptors (DDI 0406C, B4.1.52).
#[bitfield(u32)]
struct ShortStatus {
    #[bits(4)]
    low: u8,
    #[bits(6)]
    __: u8,
    high: bool,
    write: bool,
    #[bits(20)]
    __: u32,
}

/// DFSR and IFSR in the format for long descriptors.
#[bitfield(u32)]
struct LongStatus {
    #[bits(6)]
    code: u8,
    #[bits(3)]
    __: u8,
    long: bool,
    __: bool,
    write: bool,
    #[bits(20)]
    __: u32,
}

/// The value of DFSR or IFSR for this fault, in the format that this TTBCR selects.
pub fn fault_status(fault: Fault, write: bool, ttbcr: u64) -> u64 {
    /// EAE: the long-descriptor format.
    const LONG: u64 = 1 << 31;
    if ttbcr & LONG != 0 {
        let status = LongStatus::new()
            .with_code(fault.code())
            .with_long(true)
            .with_write(write);
        return status.into_bits().into();
    }
    // Synchronous external aborts have a code; faults without a code have the first
    // implementation-defined one.
    let code: u8 = match fault {
        Fault::ExternalOnWalk(..=1) => 0b0_1100,
        Fault::ExternalOnWalk(_) => 0b0_1110,
        Fault::ExclusiveOrAtomic => 0b1_0101,
        _ => 0b0_1000,
    };
    let status = ShortStatus::new()
        .with_low(code & 0xf)
        .with_high(code & 0x10 != 0)
        .with_write(write);
    status.into_bits().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode;

    #[test]
    fn a_handler_s_status_follows_sctlr() {
        // T32 in an IT block, big-endian, User mode, flags set.
        let before = Psr::from_bits(0xf600_fe30);
        let plain = before.in_handler(mode::UNDEFINED, Control::new());
        assert_eq!(plain.into_bits(), 0xf000_009b);
        let control = Control::from_bits(1 << 30 | 1 << 25);
        let other = before.in_handler(mode::ABORT, control);
        assert_eq!(other.into_bits(), 0xf000_02b7);
    }

    #[test]
    fn the_places_of_dit_and_step() {
        // DIT moves from bit 24 to 21; SS and IL are dropped; PAN and SSBS stay.
        let psr = Psr::from_bits(0x01f0_01d3);
        assert_eq!(psr.as_spsr(), 0x00e0_01d3);
        assert_eq!(Psr::from_bits(0x0030_0010).as_spsr(), 0x10);
    }

    #[test]
    fn faults_have_the_codes_of_their_format() {
        const LONG: u64 = 1 << 31;
        assert_eq!(fault_status(Fault::External, true, 0), 0x808);
        assert_eq!(fault_status(Fault::External, true, LONG), 0xa10);
        assert_eq!(fault_status(Fault::ExternalOnWalk(3), false, 0), 0xe);
        assert_eq!(fault_status(Fault::ExternalOnWalk(1), false, 0), 0xc);
        assert_eq!(fault_status(Fault::ExternalOnWalk(3), false, LONG), 0x217);
        assert_eq!(fault_status(Fault::ExclusiveOrAtomic, false, 0), 0x405);
    }

    #[test]
    fn vectors_are_low_or_high() {
        let high = Control::new().with_high_vectors(true);
        assert_eq!(high.into_bits(), 1 << 13);
        assert_eq!(high.vectors(0x4000), 0xffff_0000);
        assert_eq!(Control::new().vectors(0xff_4000_0000), 0x4000_0000);
    }
}
