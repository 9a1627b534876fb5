//! What AArch32 code finds when it is given an exception: its status in the handler, and the
//! fault status registers (DDI 0406C, B1.8.3 and B3.13; DDI 0487, G1.16 and G5.11).
//!
//! Both backends that have such guests use this; they differ in where the registers are.

use crate::abort::Fault;
use crate::psr::Psr;
use bitfield_struct::bitfield;

/// Offsets in the vector table (DDI 0406C, B1.8.1).
pub mod offset {
    /// Undefined instruction.
    pub const UNDEFINED: u64 = 0x04;
    /// Prefetch abort.
    pub const PREFETCH_ABORT: u64 = 0x0c;
    /// Data abort.
    pub const DATA_ABORT: u64 = 0x10;
}

/// SCTLR, what of it bears on exceptions (DDI 0406C, B4.1.130; DDI 0487, G8.2.126).
#[bitfield(u32)]
pub struct Control {
    #[bits(13)]
    __: u16,
    /// V: the vectors are at 0xffff0000.
    pub high_vectors: bool,
    #[bits(9)]
    __: u16,
    /// SPAN: PSTATE.PAN is left as it is. Armv8 alone.
    pub keeps_pan: bool,
    __: bool,
    /// EE: data is big-endian in handlers.
    pub big_endian: bool,
    #[bits(4)]
    __: u8,
    /// TE: handlers are Thumb code.
    pub thumb: bool,
    /// DSSBS: what PSTATE.SSBS is in handlers. Armv8 alone.
    pub ssbs: bool,
}

impl Control {
    /// Where the vectors are, VBAR being as given.
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
    /// The status in a handler that is entered in mode `to`, with what is the same since Armv7.
    pub const fn in_handler(self, to: u8, control: Control) -> Self {
        self.with_mode(to)
            .with_irq_masked(true)
            .with_thumb(control.thumb())
            .with_big_endian(control.big_endian())
            .with_it_high(0)
            .with_it_low(0)
    }

    /// This status of SPSR_EL2 as AArch32 has it in an SPSR of its own, where DIT is bit 21, and
    /// neither IL nor SS is (DDI 0487, G8.2.124).
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

/// DFSR and IFSR with short descriptors (DDI 0406C, B4.1.52).
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

/// The same with long ones.
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

/// DFSR or IFSR of a fault, as the translation regime has it whose TTBCR is as given.
pub fn fault_status(fault: Fault, write: bool, ttbcr: u64) -> u64 {
    /// EAE: long descriptors.
    const LONG: u64 = 1 << 31;
    if ttbcr & LONG != 0 {
        let status = LongStatus::new()
            .with_code(fault.code())
            .with_long(true)
            .with_write(write);
        return status.into_bits().into();
    }
    // Synchronous external aborts, and the first implementation-defined code for what has none.
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
        // DIT at 24 goes to 21; SS, IL are gone, PAN and SSBS stay.
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
