//! Gives a guest an exception, as the CPU does when it takes one to PL1 (DDI 0406C, B1.8.3 and the
//! pseudocode TakeUndefInstrException, TakeDataAbortException, TakePrefetchAbortException).

use crate::context::HypContext;
use crate::{read, write, write_own};
use hanok_arm_common::controls::Hcr;
use hanok_decode::{Control, Fault, Psr, banked_register, fault_status, mode, offset};
use hanok_hal::GuestFault;

/// The bits of SCTLR that say how an exception is taken.
fn control() -> Control {
    Control::from_bits(read!("sctlr_el1") as u32)
}

/// The status of a fault as the guest's translation regime has it.
fn status(fault: Fault, write: bool) -> u64 {
    fault_status(fault, write, read!("tcr_el1"))
}

/// The address of the guest's vectors.
fn vectors() -> u64 {
    control().vectors(read!("vbar_el1"))
}

/// Where the guest's handler of a prefetch abort is.
pub fn fetch_vector() -> u64 {
    vectors().wrapping_add(offset::PREFETCH_ABORT) & u64::from(u32::MAX)
}

/// Gives the vCPU, which is in this CPU, the exception `fault`.
pub fn inject(vcpu: &mut HypContext, fault: GuestFault) {
    match fault {
        GuestFault::SystemError => {
            vcpu.hcr.insert(Hcr::VSE);
            // SAFETY: what it was, with a virtual abort pending: stage 2 and all traps stay on.
            unsafe { write_own!("hcr_el2", vcpu.hcr.bits()) };
        }
        GuestFault::Undefined => {
            let next = if vcpu.psr().thumb() { 2 } else { 4 };
            let before = vcpu.regs.pstate;
            take(vcpu, mode::UNDEFINED, offset::UNDEFINED, next);
            write!("spsr_und", before);
        }
        GuestFault::ExternalData { write, walk } => data_abort(vcpu, external(walk), write),
        GuestFault::UnsupportedAtomic { write } => {
            data_abort(vcpu, Fault::ExclusiveOrAtomic, write);
        }
        GuestFault::ExternalFetch { walk } => {
            write!("ifsr32_el2", status(external(walk), false));
            write!("ifar_el1", read!("ifar_el2"));
            abort(vcpu, offset::PREFETCH_ABORT, 4);
        }
    }
}

/// For a fault on a walk the status names the last level, whichever table was missing.
fn external(walk: bool) -> Fault {
    if walk {
        Fault::ExternalOnWalk(3)
    } else {
        Fault::External
    }
}

fn data_abort(vcpu: &mut HypContext, fault: Fault, write: bool) {
    write!("esr_el1", status(fault, write));
    write!("dfar_el1", read!("far_el2"));
    abort(vcpu, offset::DATA_ABORT, 8);
}

fn abort(vcpu: &mut HypContext, vector: u64, distance: u64) {
    let before = vcpu.regs.pstate;
    take(vcpu, mode::ABORT, vector, distance);
    let masked = vcpu.psr().with_abort_masked(true);
    vcpu.regs.pstate = masked.into_bits().into();
    write!("spsr_abt", before);
}

/// Enters a handler, whose return address is `distance` bytes from the instruction. The mode's
/// SPSR is the caller's to set.
fn take(vcpu: &mut HypContext, to: u8, vector: u64, distance: u64) {
    let psr = Psr::from_bits(vcpu.regs.pstate as u32)
        .in_handler(to, control())
        .with_jazelle(false);
    let back = vcpu.regs.pc.wrapping_add(distance) & u64::from(u32::MAX);
    vcpu.regs.set(banked_register(14, to), back);
    vcpu.regs.pstate = psr.into_bits().into();
    vcpu.regs.pc = vectors().wrapping_add(vector) & u64::from(u32::MAX);
}
