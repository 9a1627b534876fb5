//! What a former life left behind: nothing on Hanok. QEMU's reset keeps RAM, so the loop is for
//! Hanok; the cases themselves hold on both, in a first life.

use crate::case::{Case, Outcome, case};
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::{gic, hostile, psci, smp, sweep, timer};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_types::{GicVersion, platform};

pub const CASES: &[Case] = &[
    case("canary", 1, clean),
    case("canary-interrupts", 1, |_| no_interrupts()),
];

const PAGE: u64 = 4096;
const PATTERN: u64 = 0xfeed_face_cafe_f00d;
const SPI: u32 = 32 + 203;

/// What was found before anything was set up: a register's address and its value.
static FOUND: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Checks whether an interrupt is enabled, pending or active, or a timer enabled, before anything
/// is set up; [`clean`] and the cases report what was found.
pub fn first_look(cpus: usize) {
    let timers = [read_sysreg!("cntv_ctl_el0"), read_sysreg!("cntp_ctl_el0")];
    for (name, control) in (1..).zip(timers) {
        note(name, control & timer::ENABLE);
    }
    let private = (0..cpus).map(|index| match gic::version() {
        GicVersion::V3 => gic::v3::private_frame(index),
        GicVersion::V2 => gic::DIST,
    });
    for row in [gic::ISENABLER, gic::ISPENDR, gic::ISACTIVER] {
        // A GICv2's SGIs may always be enabled (IHI 0048B, 4.3.5).
        let always = match gic::version() {
            GicVersion::V2 if row == gic::ISENABLER => 0xffff,
            _ => 0,
        };
        for frame in private.clone() {
            note(frame + row, u64::from(read32(frame + row) & !always));
        }
        for word in 1..9 {
            let register = gic::DIST + row + word * 4;
            note(register, read32(register).into());
        }
    }
}

fn note(register: u64, value: u64) {
    if value != 0 {
        FOUND[0].store(register, Relaxed);
        FOUND[1].store(value, Relaxed);
    }
}

fn no_interrupts() -> Outcome {
    let [register, value] = [&FOUND[0], &FOUND[1]].map(|found| found.load(Relaxed));
    check_eq!(value, 0, "left over at {register:#x}");
    Ok(())
}

/// A page that neither the image nor the boot protocol uses: 64 KiB below the end of RAM
/// (of its first GiB).
fn page(machine: &Machine) -> &'static mut [u64] {
    let mapped = machine.ram_size.min(1 << 30);
    let address = machine.ram + mapped - 16 * PAGE;
    // SAFETY: RAM that is mapped (a VM's first GiB is) and that nothing else uses; one
    // caller at a time.
    unsafe { core::slice::from_raw_parts_mut(address as usize as *mut u64, PAGE as usize / 8) }
}

/// The first word of each unused page.
fn first_words(machine: &Machine) -> impl Iterator<Item = &'static AtomicU64> + '_ {
    let mapped = sweep::free_pages(machine).filter(|page| page - machine.ram < 1 << 30);
    // SAFETY: a page of RAM that is mapped, and that neither the image nor the tree is in.
    mapped.map(|page| unsafe { &*(page as usize as *const AtomicU64) })
}

fn clean(machine: &Machine) -> Outcome {
    let left = page(machine).iter().filter(|word| **word != 0).count();
    check!(left == 0, "left over: {left} words");
    let left = first_words(machine).filter(|word| word.load(Relaxed) == PATTERN);
    let left = left.count();
    check!(left == 0, "left over: {left} pages");
    Ok(())
}

/// Reports whether all is clean, fills the state with values, and resets: each life prints one
/// line, and the scenario that watches ends the run.
pub fn reset_loop(machine: &Machine) -> ! {
    match clean(machine).and_then(|()| no_interrupts()) {
        Ok(()) => println!("canary: clean"),
        Err(crate::case::Failure::Wrong(what)) => println!("FAIL canary: {what}"),
    }
    page(machine).fill(PATTERN);
    first_words(machine).for_each(|word| word.store(PATTERN, Relaxed));
    make_a_mess(machine);
    psci::system_reset()
}

/// Enables interrupts of each kind and makes them pending and active; starts timers that fire; and
/// keeps the other vCPUs at work.
fn make_a_mess(machine: &Machine) {
    for index in 1..machine.cpus {
        // One storm is enough: an emulator spends most of its time on more.
        let job = if index == 1 {
            hostile::sgi_storm
        } else {
            hostile::mask
        };
        smp::start(index, job);
    }
    for id in [SPI, SPI + 1, gic::unused_private()] {
        gic::enable(id);
        gic::pend(id);
    }
    (0..16).for_each(gic::enable);
    (0..16).for_each(gic::send_self);
    gic::wait_signalled();
    gic::acknowledge();
    gic::enable(platform::TIMER_VIRTUAL_IRQ.get());
    gic::enable(platform::TIMER_PHYSICAL_IRQ.get());
    write_sysreg!("cntv_cval_el0", 0);
    write_sysreg!("cntv_ctl_el0", timer::ENABLE);
    write_sysreg!("cntp_cval_el0", 0);
    write_sysreg!("cntp_ctl_el0", timer::ENABLE);
    gic::enable(platform::UART_IRQ.get());
    write32(platform::UART.get() + 0x38, 0x7ff);
}
