//! The generic timer (DDI 0487, D12): the virtual and the physical timer of EL1.

use crate::case::{Case, Outcome, case};
use crate::machine::Machine;
use crate::timer::{ENABLE, IMASK, ISTATUS, microseconds, now, spin, wait_until};
use crate::tree::Host;
use crate::{cpu, gic, psci, smp};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("timer-frequency", 1, frequency),
    case("timer-counts", 1, counts),
    case("timer-virtual", 1, |_| fires(&VIRTUAL)),
    case("timer-physical", 1, |_| fires(&PHYSICAL)),
    case("timer-virtual-masked", 1, |machine| {
        masked(&VIRTUAL, lingers(machine))
    }),
    case("timer-physical-masked", 1, |_| masked(&PHYSICAL, false)),
    case("timer-virtual-level", 1, |machine| {
        level(&VIRTUAL, lingers(machine))
    }),
    case("timer-physical-level", 1, |_| level(&PHYSICAL, false)),
    case("timer-downcount", 1, downcount),
    case("timer-wfi", 1, wfi),
    case("timer-periodic", 1, periodic),
    case("timer-far", 1, far),
    case("timer-each-cpu", 2, each_cpu),
];

/// Takes long, and is useful beside another VM: it runs only when it is named.
pub const BESIDE_OTHERS: &[Case] = &[case("timer-held", 1, held)];

/// One of the two timers.
struct Timer {
    interrupt: u32,
    set_control: fn(u64),
    control: fn() -> u64,
    set_compare: fn(u64),
}

static VIRTUAL: Timer = Timer {
    interrupt: platform::TIMER_VIRTUAL_IRQ.get(),
    set_control: |value| write_sysreg!("cntv_ctl_el0", value),
    control: || read_sysreg!("cntv_ctl_el0"),
    set_compare: |value| write_sysreg!("cntv_cval_el0", value),
};

static PHYSICAL: Timer = Timer {
    interrupt: platform::TIMER_PHYSICAL_IRQ.get(),
    set_control: |value| write_sysreg!("cntp_ctl_el0", value),
    control: || read_sysreg!("cntp_ctl_el0"),
    // The value that the physical counter will have: its offset to the virtual one is constant.
    set_compare: |value| {
        let ahead = value.wrapping_sub(now());
        write_sysreg!(
            "cntp_cval_el0",
            read_sysreg!("cntpct_el0").wrapping_add(ahead)
        );
    },
};

/// Returns whether an interrupt of the virtual timer that was raised stays until it is taken,
/// though the guest moved the timer on: on Hanok, where the guest accesses the timer without an
/// exit, and the list register cannot know (docs/differences.md). Elsewhere the interrupt goes when
/// the line falls.
fn lingers(machine: &Machine) -> bool {
    machine.host == Host::Hanok
}

impl Timer {
    fn stop(&self) {
        (self.set_control)(0);
        gic::disable(self.interrupt);
    }
}

fn frequency(_: &Machine) -> Outcome {
    let frequency = read_sysreg!("cntfrq_el0");
    check!(
        (1_000_000..=1_000_000_000).contains(&frequency),
        "{frequency}"
    );
    Ok(())
}

fn counts(_: &Machine) -> Outcome {
    let mut last = now();
    for _ in 0..1000 {
        let next = now();
        check!(next >= last, "back from {last} to {next}");
        last = next;
    }
    check!(wait_until(|| now() > last), "stands still");
    let before = read_sysreg!("cntpct_el0");
    spin(100);
    let passed = read_sysreg!("cntpct_el0").wrapping_sub(before);
    check!(passed >= microseconds(100), "physical counter: {passed}");
    Ok(())
}

/// The interrupt comes at its time, not before.
fn fires(timer: &Timer) -> Outcome {
    gic::enable(timer.interrupt);
    for delay in [0, 50, 500, 5000] {
        let due = now() + microseconds(delay);
        (timer.set_compare)(due);
        (timer.set_control)(ENABLE);
        let came = gic::wait_signalled();
        let at = now();
        let id = gic::acknowledge();
        let control = (timer.control)();
        (timer.set_control)(0);
        gic::end(id);
        check!(came, "{delay} us: does not come");
        check_eq!(id, u64::from(timer.interrupt), "INTID");
        // The physical timer's compare value is a few ticks late, never early.
        check!(at >= due, "{delay} us: {} ticks early", due - at);
        check!(
            at - due < microseconds(5_000_000),
            "{delay} us: {} ticks late",
            at - due
        );
        check_eq!(control, ENABLE | ISTATUS, "CTL");
    }
    timer.stop();
    check!(wait_until(|| !gic::signalled()), "stays signalled");
    Ok(())
}

fn masked(timer: &Timer, lingers: bool) -> Outcome {
    gic::enable(timer.interrupt);
    (timer.set_compare)(now());
    (timer.set_control)(ENABLE | IMASK);
    spin(500);
    let (through, control) = (gic::signalled(), (timer.control)());
    (timer.set_control)(ENABLE);
    let later = gic::wait_signalled();
    (timer.set_control)(0);
    if lingers {
        gic::end(gic::acknowledge());
    }
    let gone = wait_until(|| !gic::signalled());
    timer.stop();
    check!(!through, "came through");
    check_eq!(control, ENABLE | IMASK | ISTATUS, "CTL");
    check!(later && gone, "unmasked {later}, disabled {gone}");
    Ok(())
}

/// The interrupt is pending as long as its condition holds, and no longer.
fn level(timer: &Timer, lingers: bool) -> Outcome {
    gic::enable(timer.interrupt);
    (timer.set_compare)(now());
    (timer.set_control)(ENABLE);
    for round in 0..3 {
        check!(gic::wait_signalled(), "round {round}: not there");
        let id = gic::acknowledge();
        gic::end(id);
        check_eq!(id, u64::from(timer.interrupt), "INTID");
    }
    (timer.set_compare)(now() + microseconds(60_000_000));
    if lingers {
        // The interrupt comes once.
        gic::end(gic::acknowledge());
    }
    let gone = wait_until(|| !gic::signalled());
    let id = gic::acknowledge();
    timer.stop();
    check!(gone, "stays after the compare value moved on");
    check_eq!(id, gic::SPURIOUS, "IAR");
    Ok(())
}

/// TVAL counts down through zero.
fn downcount(_: &Machine) -> Outcome {
    write_sysreg!("cntv_tval_el0", microseconds(1000));
    let left = read_sysreg!("cntv_tval_el0") as u32 as i32;
    check!(left <= microseconds(1000) as i32, "TVAL {left}");
    write_sysreg!("cntv_tval_el0", 0);
    spin(100);
    let left = read_sysreg!("cntv_tval_el0") as u32 as i32;
    check!(left < 0, "TVAL {left} after its time");
    let compare = read_sysreg!("cntv_cval_el0");
    check!(compare < now(), "CVAL {compare}");
    Ok(())
}

/// WFI ends with the interrupt, though PSTATE masks it.
fn wfi(machine: &Machine) -> Outcome {
    let timer = &VIRTUAL;
    gic::enable(timer.interrupt);
    for _ in 0..20 {
        let due = now() + microseconds(500);
        (timer.set_compare)(due);
        (timer.set_control)(ENABLE);
        // WFI may end without a reason.
        while !gic::signalled() {
            cpu::wait_for_interrupt();
        }
        let at = now();
        (timer.set_control)(0);
        if lingers(machine) {
            gic::end(gic::acknowledge());
        }
        check!(at >= due, "{} ticks early", due - at);
    }
    timer.stop();
    Ok(())
}

static TICKS: AtomicU32 = AtomicU32::new(0);

fn tick(id: u32) {
    if id == VIRTUAL.interrupt {
        TICKS.fetch_add(1, SeqCst);
        (VIRTUAL.set_compare)(now() + microseconds(200));
        (VIRTUAL.set_control)(ENABLE);
    }
}

/// Each interrupt sets the next, as an operating system's tick does.
fn periodic(_: &Machine) -> Outcome {
    let cpu = cpu::this();
    TICKS.store(0, SeqCst);
    gic::enable(VIRTUAL.interrupt);
    cpu.set_hook(Some(tick));
    (VIRTUAL.set_compare)(now());
    (VIRTUAL.set_control)(ENABLE);
    let came = cpu::with_interrupts(|| wait_until(|| TICKS.load(SeqCst) >= 100));
    cpu.set_hook(None);
    VIRTUAL.stop();
    check!(came, "{} ticks", TICKS.load(SeqCst));
    Ok(())
}

/// A compare value near the end of time does not wrap into the past.
fn far(_: &Machine) -> Outcome {
    for timer in [&VIRTUAL, &PHYSICAL] {
        gic::enable(timer.interrupt);
        (timer.set_compare)(now() | 1 << 62);
        (timer.set_control)(ENABLE);
        spin(500);
        let control = (timer.control)();
        let came = gic::signalled();
        timer.stop();
        check!(!came, "{}: came", timer.interrupt);
        check_eq!(control, ENABLE, "CTL");
    }
    Ok(())
}

static DONE: AtomicU32 = AtomicU32::new(0);

fn own_timer(index: usize) {
    if fires(&VIRTUAL).is_ok() && fires(&PHYSICAL).is_ok() {
        DONE.fetch_or(1 << index, SeqCst);
    }
}

fn each_cpu(machine: &Machine) -> Outcome {
    DONE.store(0, SeqCst);
    for index in 1..machine.cpus {
        check_eq!(
            smp::start(index, own_timer),
            psci::SUCCESS,
            "CPU_ON {index}"
        );
    }
    for index in 1..machine.cpus {
        check!(smp::wait_off(index), "vCPU {index} does not end");
    }
    let all = (1..machine.cpus).fold(0, |set, index| set | 1 << index);
    check_eq!(DONE.load(SeqCst), all, "vCPUs whose timers work");
    Ok(())
}

/// A timer interrupt whose handling takes long comes once, whatever the other VMs of its core do
/// meanwhile.
fn held(_: &Machine) -> Outcome {
    gic::enable(VIRTUAL.interrupt);
    for round in 0..40 {
        (VIRTUAL.set_compare)(now());
        (VIRTUAL.set_control)(ENABLE);
        check!(gic::wait_signalled(), "round {round}: not there");
        let id = gic::acknowledge();
        check_eq!(id, u64::from(VIRTUAL.interrupt), "INTID");
        // Its line is high all the time.
        spin(100_000);
        (VIRTUAL.set_control)(0);
        gic::end(id);
        check!(!gic::signalled(), "round {round}: once more");
    }
    VIRTUAL.stop();
    Ok(())
}
