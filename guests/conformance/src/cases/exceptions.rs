//! Exceptions that a guest's own faults cause: the hypervisor must let the guest take them.

use crate::arch::access::{jump, load, store};
use crate::case::{Case, Failure, Outcome, case};
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("exc-unmapped", 1, unmapped),
    case("exc-permission", 1, permission),
    case("exc-device-alignment", 1, device_alignment),
];

/// The exception that the access must have caused.
pub fn fault_of(result: Result<(), Fault>, what: &str) -> Result<Fault, Failure> {
    match result {
        Err(fault) => Ok(fault),
        Ok(()) => Err(Failure::wrong(format_args!("{what}: no exception"))),
    }
}

fn unmapped(_: &Machine) -> Outcome {
    let address = mmu::unmap(1);
    // SAFETY: nothing is there.
    let load = unsafe { load(address, 4) };
    let fault = fault_of(load.map(drop), "load")?;
    check_eq!(
        (fault.class(), fault.status()),
        (class::DATA, status::TRANSLATION + 3),
        "load"
    );
    // SAFETY: no instruction is there.
    let jump = unsafe { jump(address) };
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
    let store = unsafe { store(address, 4, 0) };
    let fault = fault_of(store, "store")?;
    check_eq!(
        (fault.class(), fault.status()),
        (class::DATA, status::PERMISSION_3),
        "store"
    );
    check!(fault.is_write(), "WnR");
    // SAFETY: as above.
    let jump = unsafe { jump(address) };
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
    let load = unsafe { load(address, 4) };
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
