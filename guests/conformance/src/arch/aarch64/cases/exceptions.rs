//! Exceptions that a guest's own instructions cause: the hypervisor must let the guest take them.

use crate::arch::code;
use crate::case::{Case, Outcome, case};
use crate::cases::exceptions::fault_of;
use crate::machine::Machine;
use crate::probe::class;

pub const CASES: &[Case] = &[
    case("exc-undefined", 1, undefined),
    case("exc-svc", 1, svc),
    case("exc-smc", 1, smc),
    case("exc-pc-alignment", 1, pc_alignment),
    case("exc-sp-alignment", 1, sp_alignment),
];

fn undefined(_: &Machine) -> Outcome {
    // UDF #0, and encodings that no extension defines.
    for word in [0, 0x0000_ffff, 0x0001_0000, 0xffff_ffff] {
        // SAFETY: an instruction that is none.
        let result = unsafe { code::execute(&[word], 0) };
        let fault = fault_of(result.map(drop), "undefined")?;
        check_eq!(fault.class(), class::UNDEFINED, "class of {word:#x}");
    }
    Ok(())
}

fn svc(_: &Machine) -> Outcome {
    // SAFETY: the vector catches it.
    let fault = fault_of(unsafe { probe!("svc #0x123"; ) }, "SVC")?;
    check_eq!(
        (fault.class(), fault.immediate()),
        (class::SVC, 0x123),
        "SVC"
    );
    Ok(())
}

/// The VM has no EL3, so SMC is undefined.
fn smc(_: &Machine) -> Outcome {
    for word in [0xd400_0003, 0xd41f_ffe3] {
        // SAFETY: SMC changes X0 to X17 at most, had it anybody to go to.
        let result = unsafe { code::execute(&[word], 0x8400_0000) };
        let fault = fault_of(result.map(drop), "SMC")?;
        check_eq!(fault.class(), class::UNDEFINED, "class");
    }
    Ok(())
}

fn pc_alignment(_: &Machine) -> Outcome {
    let address = crate::boot::load_address() + 2;
    // SAFETY: a jump to a misaligned address runs nothing.
    let jump = unsafe { probe!("blr {at}"; at = in(reg) address, out("x30") _) };
    let fault = fault_of(jump, "jump")?;
    check_eq!(fault.class(), class::PC_ALIGNMENT, "class");
    check_eq!((fault.far, fault.elr), (address, address), "FAR and ELR");
    Ok(())
}

/// The access runs on SP_EL0, so that the exception vector has a valid stack of its own. QEMU does
/// not check the stack's alignment, so "no exception" passes too; another exception does not.
fn sp_alignment(_: &Machine) -> Outcome {
    let stack = [0_u64; 4];
    let misaligned = stack.as_ptr() as u64 | 8;
    // SAFETY: the load is within `stack`, or faults; then the vector goes back to SP_EL1.
    let load = unsafe {
        probe!("msr spsel, #0", "mov sp, {at}", "ldr {value}, [sp]", "msr spsel, #1";
            at = in(reg) misaligned, value = out(reg) _)
    };
    if let Err(fault) = load {
        check_eq!(fault.class(), class::SP_ALIGNMENT, "class");
    }
    Ok(())
}
