//! The timer of a board whose CPUs have no generic timer, and its frequency.

use super::{Clock, Registers};
use crate::fatal::refuse;
use hanok_arm_common::{AllwinnerTimer, AllwinnerTimers, GlobalTimer, HostTimer};
use hanok_config::{BoardTree, Enable, Gic, HostTimer as Node, HostTimerKind};
use hanok_types::{Address, Hpa, Hva, IntId, PAGE_SIZE, Span};

/// No interrupt is the guests' timer's, which is emulated: this PPI is not there on these CPUs (DDI 0407, 3.1.2).
const NONE: IntId = IntId::new(16);

/// The clock of a board whose CPUs have no generic timer. Refuses a board whose timer's frequency nothing tells.
pub fn clock(tree: &BoardTree<'_>) -> Clock {
    let found = find(tree);
    let at = Hva::new(found.registers.start().get());
    // SAFETY: the board's timer, of the kind that its node says, mapped as a device with the final translation, and
    // driven by the hypervisor alone.
    let timer = unsafe {
        match found.kind {
            HostTimerKind::Global => GlobalTimer::start(at).map(HostTimer::Global),
            HostTimerKind::Allwinner => AllwinnerTimers::new(at)
                .map(|timers| HostTimer::Allwinner(AllwinnerTimer::start(timers))),
        }
    };
    let timer = match timer {
        Ok(timer) => timer,
        Err(error) => refuse(format_args!("the board's timer: {error}")),
    };
    let known = found.frequency.filter(|frequency| *frequency != 0);
    let frequency = match (known, tree.cpus.first().map(|cpu| cpu.enable)) {
        (Some(frequency), _) => frequency.into(),
        (None, Some(Enable::SystemFlags(registers))) => measure(&timer, registers),
        _ => refuse(format_args!(
            "the board's device tree does not say how fast its timer counts: the timer's node \
             needs a fixed clock"
        )),
    };
    Clock {
        registers: Registers { timer: Some(timer) },
        frequency,
        own: found.interrupt,
        guests: NONE,
    }
}

/// The board's timer. Refuses a board that has none which fits its interrupt controller.
fn find(tree: &BoardTree<'_>) -> Node {
    let Some(found) = tree.host_timer().filter(|timer| is_mapped(tree, timer)) else {
        refuse(format_args!(
            "the CPU has no generic timer, and the board's device tree has no other one that is known \
             beside the interrupt controller"
        ))
    };
    found
}

/// Whether the timer is in the page of the interrupt controller: of its CPU interface, as with each CPU that has a
/// global timer (DDI 0407, 1.5).
fn is_mapped(tree: &BoardTree<'_>, timer: &Node) -> bool {
    let page = |span: &Span<Hpa>| span.start().align_down(PAGE_SIZE);
    let beside = match (&tree.gic, timer.kind) {
        (Gic::V2 { cpu: beside, .. }, HostTimerKind::Global) => beside,
        (Gic::Allwinner(beside), HostTimerKind::Allwinner) => beside,
        _ => return false,
    };
    page(beside) == page(&timer.registers)
}

/// The frequency of the reference, SYS_24MHZ of a Versatile Express (DUI 0447).
const REFERENCE: u64 = 24_000_000;
/// How many of its ticks are measured: ten milliseconds.
const MEASURED: u32 = 240_000;
/// Ticks of the timer that take at least a second, and not minutes.
const TOO_MANY: u64 = 1 << 30;
/// To what the result is rounded: what the clocks of CPUs are multiples of, and more than a measurement
/// is wrong by.
const STEP: u64 = 100_000;

/// The timer's frequency, by the board's counter whose frequency is known.
fn measure(timer: &HostTimer, system_registers: Hpa) -> u64 {
    const SYS_24MHZ: u64 = 0x5c;
    let at = (system_registers.get() + SYS_24MHZ) as *const u32;
    // SAFETY: the board's system registers, mapped as a device by the layout; reading has no effect.
    let reference = || unsafe { at.read_volatile() };
    let begin = together(timer, reference);
    while reference().wrapping_sub(begin.1) < MEASURED {
        if timer.counter().wrapping_sub(begin.0) > TOO_MANY {
            refuse(format_args!(
                "the board's 24 MHz counter does not count, by which the timer's frequency is \
                 measured: give the timer's node a fixed clock"
            ));
        }
    }
    let end = together(timer, reference);
    let ticks = u64::from(end.1.wrapping_sub(begin.1)).max(1);
    let counted = end.0.wrapping_sub(begin.0);
    let frequency = counted.saturating_mul(REFERENCE) / ticks;
    ((frequency + STEP / 2) / STEP * STEP).max(STEP)
}

/// Values of both counters at one moment: of several attempts the shortest, as an emulator may be interrupted
/// between two reads.
fn together(timer: &HostTimer, reference: impl Fn() -> u32) -> (u64, u32) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = timer.counter();
        let at = reference();
        let took = timer.counter().wrapping_sub(before);
        if took < best.0 {
            best = (took, before.wrapping_add(took / 2), at);
        }
    }
    (best.1, best.2)
}
