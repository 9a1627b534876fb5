//! Giving a guest an exception: what the CPU does on taking one to EL1 (DDI 0487, D1.3.1
//! and the pseudocode AArch64.TakeException).

use crate::traps::Hcr;
use crate::vcpu::Vcpu;
use crate::{read, write};
use hanok_decode::{Fault, Origin, data_abort, instruction_abort, undefined};
use hanok_vm::GuestFault;

/// PSTATE bits that survive: N, Z, C, V, DIT and PAN.
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

/// Where in the vector table a synchronous exception goes, from where PSTATE was.
fn vector_offset(pstate: u64) -> u64 {
    match pstate {
        _ if pstate & AARCH32 != 0 => 0x600,
        _ if pstate & 0xc == 0 => 0x400,
        _ if pstate & 1 != 0 => 0x200,
        _ => 0,
    }
}

fn origin(pstate: u64) -> Origin {
    if pstate & AARCH32 != 0 || pstate & 0xc == 0 { Origin::Lower } else { Origin::Current }
}

/// Gives the vCPU, which is in this CPU, the exception `fault`.
pub fn inject(vcpu: &mut Vcpu, fault: GuestFault) {
    let from = origin(vcpu.regs.pstate);
    match fault {
        GuestFault::SystemError => {
            vcpu.hcr.insert(Hcr::VSE);
            write!("hcr_el2", vcpu.hcr.bits());
        }
        GuestFault::Undefined => synchronous(vcpu, undefined().into_bits(), None),
        GuestFault::ExternalData { write, walk } => {
            let esr = data_abort(from, external(walk), write).into_bits();
            synchronous(vcpu, esr, Some(read!("far_el2")));
        }
        GuestFault::ExternalFetch { walk } => {
            let esr = instruction_abort(from, external(walk)).into_bits();
            synchronous(vcpu, esr, Some(read!("far_el2")));
        }
    }
}

/// The status code: on a walk, the level whose table was not there.
fn external(walk: bool) -> Fault {
    if walk { Fault::ExternalOnWalk(walk_level()) } else { Fault::External }
}

/// The stage 1 level whose descriptor could not be read. The syndrome tells stage 2's level,
/// not this one, so the walk is asked for once more: PAR_EL1 holds no better answer, and the
/// level is for a person's eyes alone. Level 0's code would be wrong where walks start at 1.
fn walk_level() -> i8 {
    // TCR_EL1.T0SZ of a 4 KiB granule: more than 24 means that walks start at level 1.
    let sizes = read!("tcr_el1");
    let upper = read!("far_el2") >> 63 != 0;
    let size = if upper { sizes >> 16 & 0x3f } else { sizes & 0x3f };
    match size {
        0..=24 => 0,
        25..=33 => 1,
        _ => 2,
    }
}

fn synchronous(vcpu: &mut Vcpu, esr: u64, far: Option<u64>) {
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
    vcpu.regs.pc = read!("vbar_el1").wrapping_add(vector_offset(pstate));
}

/// FEAT_PAN.
fn has_pan() -> bool {
    read!("id_aa64mmfr1_el1") >> 20 & 0xf != 0
}
