//! Translation tables that lie in a device (DDI 0487, D8.2; HCR_EL2.PTW): a guest may write any
//! address into its own tables, and takes the fault of the walk; no other VM is affected.

use crate::arch::code::{LOAD_PAIR, call, prepare};
use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use hanok_types::{GicVersion, platform};

pub const CASES: &[Case] = &[
    case("walk-stale", 1, |machine| each(machine, stale)),
    hanok_case("walk-device", 1, |machine| each(machine, lead_there)),
];

/// Only for VMs that have a device of the board, which few have.
pub const PASS_THROUGH: &[Case] = &[hanok_case("walk-pass-through", 1, pass_through)];

/// Runs for each device that the VM may have behind its own second stage, and for one whose
/// accesses are exits.
fn each(machine: &Machine, look: fn(u64) -> Outcome) -> Outcome {
    if machine.gic == GicVersion::V2 {
        look(platform::GIC_V2_CPU.get())?;
    }
    look(platform::RTC.get())
}

fn pass_through(_: &Machine) -> Outcome {
    let device = platform::PASS_THROUGH.get();
    lead_there(device)?;
    stale(device)?;
    // Executes code in the device, by a translation that the tables no longer contain.
    let at = mmu::map(1, device, Kind::Code);
    let before = call_at(at, 0);
    mmu::lead_window_to(device);
    let after = call_at(at, 0);
    mmu::restore_window();
    for result in [before, after] {
        check!(is_external(result), "a fetch: {result:?}");
    }
    lead_there(device)
}

/// A walk that reaches the device ends as one that reaches an unmapped address.
fn lead_there(device: u64) -> Outcome {
    let address = mmu::map_table_at(device);
    // SAFETY: a load, of which nothing is used.
    let result = unsafe { crate::arch::access::load(address, 4) };
    mmu::map_table_at(platform::RTC.get());
    let Err(fault) = result else {
        return Err(Failure::wrong(format_args!("{device:#x}: no abort")));
    };
    check_eq!(
        (fault.class(), fault.status()),
        (class::DATA, status::EXTERNAL_WALK + 3),
        "{device:#x}"
    );
    Ok(())
}

/// An instruction that a hypervisor has to read to emulate a device, at an address which the CPU
/// still translates and the tables do not: a hypervisor that reads it by the tables reaches the
/// device.
fn stale(device: u64) -> Outcome {
    let at = mmu::map(2, prepare(&[LOAD_PAIR]), Kind::Code);
    let memory = [0_u64; 2];
    let there = core::ptr::from_ref(&memory).addr() as u64;
    check!(call_at(at, there).is_ok(), "before");
    mmu::lead_window_to(device);
    let result = call_at(at, platform::UART.get());
    mmu::restore_window();
    // The CPU may have dropped the translation, and the device may have accepted the load.
    check!(
        result.is_ok() || is_external(result),
        "{device:#x}: {result:?}"
    );
    check!(call_at(at, there).is_ok(), "afterwards");
    Ok(())
}

fn call_at(at: u64, argument: u64) -> Result<(), Fault> {
    // SAFETY: a pair is loaded from where reading changes nothing that matters, and a return
    // follows; or no instruction is there.
    unsafe { call(at, argument) }
}

fn is_external(result: Result<(), Fault>) -> bool {
    let Err(fault) = result else { return false };
    let external = fault.status() == status::EXTERNAL
        || (status::EXTERNAL_WALK..=status::EXTERNAL_WALK + 3).contains(&fault.status());
    matches!(fault.class(), class::DATA | class::FETCH) && external
}
