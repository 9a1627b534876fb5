//! Giving a guest an exception: what the CPU does on taking one to PL1 (DDI 0406C, B1.8.3 and
//! the pseudocode TakeUndefInstrException, TakeDataAbortException, TakePrefetchAbortException).

use crate::traps::Hcr;
use crate::vcpu::Vcpu;
use crate::{read, write};
use bitfield_struct::bitfield;
use hanok_decode::{Fault, Psr, banked_register, mode};
use hanok_vm::GuestFault;

/// Offsets in the vector table (B1.8.1).
const UNDEFINED: u64 = 0x04;
const PREFETCH_ABORT: u64 = 0x0c;
const DATA_ABORT: u64 = 0x10;

/// SCTLR, what of it bears on exceptions (B4.1.130).
#[bitfield(u32)]
struct Control {
    #[bits(13)]
    __: u16,
    /// V: the vectors are at 0xffff0000.
    high_vectors: bool,
    #[bits(11)]
    __: u16,
    /// EE: data is big-endian in handlers.
    big_endian: bool,
    #[bits(4)]
    __: u8,
    /// TE: handlers are Thumb code.
    thumb: bool,
    __: bool,
}

fn control() -> Control {
    Control::from_bits(read!("sctlr_el1") as u32)
}

/// DFSR and IFSR with short descriptors (B4.1.52).
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

/// TTBCR.EAE.
const LONG: u64 = 1 << 31;

/// The status of a fault as the guest's translation regime has it.
fn status(fault: Fault, write: bool) -> u64 {
    if read!("tcr_el1") & LONG != 0 {
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

/// Where the guest's vectors are.
fn vectors() -> u64 {
    if control().high_vectors() {
        0xffff_0000
    } else {
        read!("vbar_el1")
    }
}

/// Where the guest's handler of a prefetch abort is.
pub fn prefetch_vector() -> u64 {
    vectors().wrapping_add(PREFETCH_ABORT) & u64::from(u32::MAX)
}

/// Gives the vCPU, which is in this CPU, the exception `fault`.
pub fn inject(vcpu: &mut Vcpu, fault: GuestFault) {
    match fault {
        GuestFault::SystemError => {
            vcpu.hcr.insert(Hcr::VSE);
            write!("hcr_el2", vcpu.hcr.bits());
        }
        GuestFault::Undefined => {
            let next = if vcpu.psr().thumb() { 2 } else { 4 };
            let before = vcpu.regs.pstate;
            take(vcpu, mode::UNDEFINED, UNDEFINED, next);
            write!("spsr_und", before);
        }
        GuestFault::ExternalData { write, walk } => data_abort(vcpu, external(walk), write),
        GuestFault::UnsupportedAtomic { write } => {
            data_abort(vcpu, Fault::ExclusiveOrAtomic, write);
        }
        GuestFault::ExternalFetch { walk } => {
            write!("ifsr32_el2", status(external(walk), false));
            write!("ifar_el1", read!("ifar_el2"));
            abort(vcpu, PREFETCH_ABORT, 4);
        }
    }
}

/// On a walk the last level is named, whichever table was not there.
fn external(walk: bool) -> Fault {
    match walk {
        true => Fault::ExternalOnWalk(3),
        false => Fault::External,
    }
}

fn data_abort(vcpu: &mut Vcpu, fault: Fault, write: bool) {
    write!("esr_el1", status(fault, write));
    write!("dfar_el1", read!("far_el2"));
    abort(vcpu, DATA_ABORT, 8);
}

fn abort(vcpu: &mut Vcpu, vector: u64, distance: u64) {
    let before = vcpu.regs.pstate;
    take(vcpu, mode::ABORT, vector, distance);
    let masked = vcpu.psr().with_abort_masked(true);
    vcpu.regs.pstate = masked.into_bits().into();
    write!("spsr_abt", before);
}

/// Enters a handler, whose return address is `distance` bytes from the instruction. The mode's
/// SPSR is the caller's to set.
fn take(vcpu: &mut Vcpu, to: u8, vector: u64, distance: u64) {
    let control = control();
    let psr = Psr::from_bits(vcpu.regs.pstate as u32)
        .with_mode(to)
        .with_irq_masked(true)
        .with_thumb(control.thumb())
        .with_big_endian(control.big_endian())
        .with_jazelle(false)
        .with_it_high(0)
        .with_it_low(0);
    let back = vcpu.regs.pc.wrapping_add(distance) & u64::from(u32::MAX);
    vcpu.regs.set(banked_register(14, to), back);
    vcpu.regs.pstate = psr.into_bits().into();
    vcpu.regs.pc = vectors().wrapping_add(vector) & u64::from(u32::MAX);
}
