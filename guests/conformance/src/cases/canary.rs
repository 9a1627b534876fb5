//! What a former life left in memory: nothing, in Hanok. QEMU's reset keeps RAM, so the
//! loop is for Hanok; the case itself holds on both, in a first life.

use crate::case::{Case, Outcome, case};
use crate::machine::Machine;
use crate::psci;

pub const CASES: &[Case] = &[case("canary", 1, clean)];

const PAGE: u64 = 4096;
const PATTERN: u64 = 0xfeed_face_cafe_f00d;

/// A page that neither the image nor the boot protocol uses: 64 KiB below the end of RAM
/// (of its first GiB).
fn page(machine: &Machine) -> &'static mut [u64] {
    let mapped = machine.ram_size.min(1 << 30);
    let address = machine.ram + mapped - 16 * PAGE;
    // SAFETY: RAM that is mapped (a VM's first GiB is) and that nothing else uses; one
    // caller at a time.
    unsafe { core::slice::from_raw_parts_mut(address as *mut u64, PAGE as usize / 8) }
}

fn clean(machine: &Machine) -> Outcome {
    let left = page(machine).iter().filter(|word| **word != 0).count();
    check!(left == 0, "left over: {left} words");
    Ok(())
}

/// Says whether memory is clean, marks it, and resets: each life prints once, and whoever
/// watches ends the run.
pub fn reset_loop(machine: &Machine) -> ! {
    match clean(machine) {
        Ok(()) => println!("canary: clean"),
        Err(_) => println!("FAIL canary: left over"),
    }
    page(machine).fill(PATTERN);
    psci::system_reset()
}
