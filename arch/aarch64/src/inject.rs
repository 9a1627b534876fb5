//! Gives a guest an exception, as the CPU does when it takes one to EL1 (DDI 0487, D1.3.1 and the
//! pseudocode AArch64.TakeException).

use crate::context::El2Context;
use crate::inject32::{self, has_pan};
use crate::{read, write, write_own};
use hanok_arm_common::controls::Hcr;
use hanok_decode::{Fault, Origin, data_abort, instruction_abort, undefined};
use hanok_hal::{GuestFault, GuestMemory};
use hanok_paging::GuestRegime;

/// PSTATE bits that an exception keeps: N, Z, C, V, DIT and PAN. An SPSR_ELx written from AArch32 has them
/// at the same places.
const KEPT: u64 = 0xf << 28 | 1 << 24 | PAN;
const PAN: u64 = 1 << 22;
const SSBS: u64 = 1 << 12;
/// D, A, I, F masked; EL1 with its own stack pointer.
const EL1H_MASKED: u64 = 0x3c0 | 5;
/// PSTATE.M[4]: AArch32.
const AARCH32: u64 = 1 << 4;
/// SCTLR_EL1.SPAN: PAN is left as it is.
const SPAN: u64 = 1 << 23;
/// SCTLR_EL1.DSSBS.
const DSSBS: u64 = 1 << 44;

/// The offset in the vector table of a synchronous exception, by the PSTATE at which it was taken.
fn vector_offset(pstate: u64) -> u64 {
    match pstate {
        _ if pstate & AARCH32 != 0 => 0x600,
        _ if pstate & 0xc == 0 => 0x400,
        _ if pstate & 1 != 0 => 0x200,
        _ => 0,
    }
}

/// The address of the handler of a failed fetch of the vCPU, which is in this CPU.
pub fn fetch_vector(vcpu: &El2Context) -> u64 {
    if vcpu.is_aarch32() {
        inject32::prefetch_vector()
    } else {
        vector(vcpu.regs.pstate)
    }
}

/// The address of the guest's handler of a synchronous exception, by the PSTATE at which it is taken.
fn vector(pstate: u64) -> u64 {
    read!("vbar_el1").wrapping_add(vector_offset(pstate))
}

fn origin(pstate: u64) -> Origin {
    if pstate & AARCH32 != 0 || pstate & 0xc == 0 {
        Origin::Lower
    } else {
        Origin::Current
    }
}

/// Gives the vCPU, which is in this CPU and whose VM has this RAM, the exception `fault`.
pub fn inject(vcpu: &mut El2Context, fault: GuestFault, memory: &impl GuestMemory) {
    if vcpu.is_aarch32() {
        return inject_aarch32(vcpu, fault);
    }
    let from = origin(vcpu.regs.pstate);
    match fault {
        GuestFault::SystemError => system_error(vcpu),
        GuestFault::Undefined => synchronous(vcpu, undefined().into_bits(), None),
        GuestFault::ExternalData { write, walk } => {
            let esr = data_abort(from, external(memory, walk), write).into_bits();
            synchronous(vcpu, esr, Some(read!("far_el2")));
        }
        GuestFault::UnsupportedAtomic { write } => {
            let esr = data_abort(from, Fault::ExclusiveOrAtomic, write).into_bits();
            synchronous(vcpu, esr, Some(read!("far_el2")));
        }
        GuestFault::ExternalFetch { walk } => {
            let esr = instruction_abort(from, external(memory, walk)).into_bits();
            synchronous(vcpu, esr, Some(read!("far_el2")));
        }
    }
}

fn inject_aarch32(vcpu: &mut El2Context, fault: GuestFault) {
    // For a fault on a walk the status names the last level, whichever table was missing.
    let external = |walk| {
        if walk {
            Fault::ExternalOnWalk(3)
        } else {
            Fault::External
        }
    };
    match fault {
        GuestFault::SystemError => system_error(vcpu),
        GuestFault::Undefined => inject32::undefined(vcpu),
        GuestFault::ExternalData { write, walk } => {
            inject32::data_abort(vcpu, external(walk), write);
        }
        GuestFault::UnsupportedAtomic { write } => {
            inject32::data_abort(vcpu, Fault::ExclusiveOrAtomic, write);
        }
        GuestFault::ExternalFetch { walk } => inject32::prefetch_abort(vcpu, external(walk)),
    }
}

fn system_error(vcpu: &mut El2Context) {
    vcpu.hcr.insert(Hcr::VSE);
    // SAFETY: what it was, with a virtual SError pending: stage 2 and all traps stay on.
    unsafe { write_own!("hcr_el2", vcpu.hcr.bits()) };
}

/// The status code of the fault; for one on a walk, with the level of the table that was missing.
fn external(memory: &impl GuestMemory, walk: bool) -> Fault {
    if !walk {
        return Fault::External;
    }
    let regime = GuestRegime {
        tcr: read!("tcr_el1"),
        ttbr0: read!("ttbr0_el1"),
        ttbr1: read!("ttbr1_el1"),
    };
    let word = |at| {
        let mut bytes = [0; 8];
        memory.read(at, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    };
    // The guest may have changed its tables meanwhile; then any level is right.
    Fault::ExternalOnWalk(
        regime
            .level_out_of_memory(read!("far_el2"), word)
            .unwrap_or(3),
    )
}

fn synchronous(vcpu: &mut El2Context, esr: u64, far: Option<u64>) {
    let pstate = vcpu.regs.pstate;
    let control = read!("sctlr_el1");
    write!("esr_el1", esr);
    write!("elr_el1", vcpu.regs.pc);
    write!("spsr_el1", pstate);
    if let Some(far) = far {
        write!("far_el1", far);
    }
    let mut new = pstate & KEPT | EL1H_MASKED;
    if has_pan() && control & SPAN == 0 {
        new |= PAN;
    }
    if control & DSSBS != 0 {
        new |= SSBS;
    }
    vcpu.regs.pstate = new;
    vcpu.regs.pc = vector(pstate);
}
