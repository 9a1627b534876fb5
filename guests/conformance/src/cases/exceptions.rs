//! Exceptions that a guest's own faults take: the hypervisor must leave them the guest's.

use crate::case::{Case, Failure, Outcome, case};
use crate::code;
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("exc-undefined", 1, undefined),
    case("exc-svc", 1, svc),
    case("exc-smc", 1, smc),
    case("exc-unmapped", 1, unmapped),
    case("exc-permission", 1, permission),
    case("exc-device-alignment", 1, device_alignment),
    case("exc-pc-alignment", 1, pc_alignment),
    case("exc-sp-alignment", 1, sp_alignment),
];

fn fault_of(result: Result<(), Fault>, what: &str) -> Result<Fault, Failure> {
    match result {
        Err(fault) => Ok(fault),
        Ok(()) => Err(Failure::wrong(format_args!("{what}: no exception"))),
    }
}

fn undefined(_: &Machine) -> Outcome {
    // UDF #0, and words that no extension has defined.
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

/// There is no EL3, so SMC is undefined.
fn smc(_: &Machine) -> Outcome {
    for word in [0xd400_0003, 0xd41f_ffe3] {
        // SAFETY: SMC changes X0 to X17 at most, had it anybody to go to.
        let result = unsafe { code::execute(&[word], 0x8400_0000) };
        let fault = fault_of(result.map(drop), "SMC")?;
        check_eq!(fault.class(), class::UNDEFINED, "class");
    }
    Ok(())
}

fn unmapped(_: &Machine) -> Outcome {
    let address = mmu::unmap(1);
    // SAFETY: nothing is there to change.
    let load = unsafe { probe!("ldr {value}, [{at}]"; value = out(reg) _, at = in(reg) address) };
    let fault = fault_of(load, "load")?;
    check_eq!(
        (fault.class(), fault.status()),
        (class::DATA, status::TRANSLATION + 3),
        "load"
    );
    // SAFETY: no instruction is there.
    let jump = unsafe { probe!("blr {at}"; at = in(reg) address, out("x30") _) };
    let fault = fault_of(jump, "jump")?;
    check_eq!(
        (fault.class(), fault.status()),
        (class::FETCH, status::TRANSLATION + 3),
        "jump"
    );
    check_eq!(fault.elr, address, "ELR");
    Ok(())
}

fn permission(_: &Machine) -> Outcome {
    let address = mmu::map(1, crate::boot::load_address(), Kind::ReadOnly);
    // SAFETY: the page cannot be written, nor run.
    let store = unsafe { probe!("str xzr, [{at}]"; at = in(reg) address) };
    let fault = fault_of(store, "store")?;
    check_eq!(
        (fault.class(), fault.status()),
        (class::DATA, status::PERMISSION_3),
        "store"
    );
    check!(fault.is_write(), "WnR");
    // SAFETY: as above.
    let jump = unsafe { probe!("blr {at}"; at = in(reg) address, out("x30") _) };
    let fault = fault_of(jump, "jump")?;
    check_eq!(
        (fault.class(), fault.status()),
        (class::FETCH, status::PERMISSION_3),
        "jump"
    );
    Ok(())
}

/// A misaligned access to Device memory faults in stage 1 and reaches no device. QEMU 10
/// forgets that check with one CPU, so no exception is right too; another one is not.
fn device_alignment(_: &Machine) -> Outcome {
    let address = platform::UART.get() + 0x19;
    // SAFETY: a load, of which nothing is used.
    let load = unsafe { probe!("ldr {value:w}, [{at}]"; value = out(reg) _, at = in(reg) address) };
    if let Err(fault) = load {
        check_eq!(
            (fault.class(), fault.status()),
            (class::DATA, status::ALIGNMENT),
            "load"
        );
        check_eq!(fault.far, address, "FAR");
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

/// On SP_EL0, so that the vector has a good stack of its own. QEMU does not check the
/// stack's alignment, so no exception is right too; another one is not.
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
