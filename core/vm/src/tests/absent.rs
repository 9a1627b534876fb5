//! Interrupts of vCPUs that share a pCPU, come to it and go, and the fast paths of those that
//! are there, which a backend takes at an interrupt of its own.

use super::requests::{get, post, private, put, running, settle, sgi};
use super::{load, store, write};
use crate::fake::{FIRST_CPU, FREQUENCY, Fixture};
use crate::{Action, Attempt, PostedSgis, TimerInterrupt};
use hanok_decode::SysReg;
use hanok_types::{CpuId, Deadline, IntId, VcpuId, Width, platform};
use std::vec::Vec;

const GICD: u64 = platform::GIC_DIST.get();
const RTC: u64 = platform::RTC.get();
const FIRST: VcpuId = VcpuId::new(0);
const SECOND: VcpuId = VcpuId::new(1);
const TIMER: u32 = platform::TIMER_VIRTUAL_IRQ.get();
const PHYSICAL_TIMER: u32 = platform::TIMER_PHYSICAL_IRQ.get();
/// The virtual timer's interrupt on the board, and one of a device's.
const TIMER_PHYSICAL: IntId = IntId::new(27);
const DEVICE: IntId = IntId::new(72);
/// The device's interrupt in the VM.
const SPI: IntId = IntId::new(40);

/// What was deactivated since the last call.
fn deactivated(vm: &Fixture) -> Vec<IntId> {
    vm.machine.deactivated.take()
}

fn switch_out(vm: &mut Fixture, n: usize) -> bool {
    let id = VcpuId::new(n as u8);
    vm.vm.switch_out(&vm.machine, id, &mut vm.lists[n]) == TimerInterrupt::Held
}

/// The list register of vCPU `n` in which `id` stands or stood.
fn slot(vm: &Fixture, n: usize, id: u32) -> Option<usize> {
    vm.lists[n].lr.iter().position(|lr| *lr as u32 == id)
}

/// The guest acknowledges what stands there, or ends it.
fn acknowledge(vm: &mut Fixture, n: usize, slot: usize) {
    vm.lists[n].lr[slot] ^= 3 << 62;
}

fn end(vm: &mut Fixture, n: usize, slot: usize) {
    vm.lists[n].lr[slot] &= !(3 << 62);
}

#[test]
fn a_switch_tells_whether_the_vcpu_holds_the_virtual_timer() {
    for (timer, other) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut vm = running(2);
        if timer {
            vm.guest(0).virtual_timer(TIMER_PHYSICAL);
        }
        if other {
            sgi(&mut vm, 0, 5 << 24 | 1);
        }
        let shown = vm.shown(0).len();
        assert_eq!(switch_out(&mut vm, 0), timer);
        assert!(vm.lists[0].lr.iter().all(|lr| *lr == 0));
        assert_eq!(vm.vm.holds_virtual_timer(FIRST), timer);
        let waits = vm.vm.interrupt_waits_absent(&vm.machine, FIRST);
        assert_eq!(waits, timer || other);
        assert!(!vm.vm.requests(FIRST).take_interrupts());
        // As it comes back, it is to look where there is something.
        assert_eq!(vm.vm.switch_in(FIRST) == TimerInterrupt::Held, timer);
        vm.guest(0).refresh();
        assert_eq!(vm.shown(0).len(), shown);
        assert!(deactivated(&vm).is_empty() && vm.machine.kicked().is_empty());
    }
}

#[test]
fn an_spi_of_one_that_goes_is_the_next_one_s() {
    let mut vm = running(3);
    let pend = GICD + 0x204;
    put(&mut vm, 0, pend, 1 << 8);
    settle(&mut vm);
    assert_eq!(vm.shown(0), [40]);
    // Another one routes it to a third meanwhile; the first goes before it looked.
    vm.regs[1].x[9] = 2;
    let route = store(GICD + 0x6000 + 8 * 40, Width::Double, 9);
    assert_eq!(vm.handle(1, route), Action::Next);
    vm.machine.kicked();
    assert!(!switch_out(&mut vm, 0));
    assert_eq!(vm.machine.kicked(), [2]);
    vm.guest(2).refresh();
    assert_eq!(vm.shown(2), [40]);
}

/// As above, where the virtual timer's interrupt is what the first one notices it by.
#[test]
fn an_spi_that_went_elsewhere_is_told_at_a_timer_s_interrupt() {
    let mut vm = running(3);
    put(&mut vm, 0, GICD + 0x204, 1 << 8);
    settle(&mut vm);
    vm.regs[1].x[9] = 2;
    let route = store(GICD + 0x6000 + 8 * 40, Width::Double, 9);
    assert_eq!(vm.handle(1, route), Action::Next);
    vm.machine.kicked();
    vm.guest(0).virtual_timer(TIMER_PHYSICAL);
    assert_eq!(vm.shown(0), [TIMER]);
    assert_eq!(vm.machine.kicked(), [2]);
}

/// The fast path is taken if the guest has ended the last one, and does what the slow path does; where it
/// is not, nothing is changed.
#[test]
fn a_timer_that_fires_again_is_shown_again() {
    type Prepare = fn(&mut Fixture);
    let before: [(&str, Prepare); 6] = [
        ("never yet", |_| {}),
        ("ended", |vm| {
            vm.guest(0).virtual_timer(TIMER_PHYSICAL);
            let at = slot(vm, 0, TIMER).unwrap();
            end(vm, 0, at);
        }),
        ("pending", |vm| vm.guest(0).virtual_timer(TIMER_PHYSICAL)),
        ("active", |vm| {
            vm.guest(0).virtual_timer(TIMER_PHYSICAL);
            let at = slot(vm, 0, TIMER).unwrap();
            acknowledge(vm, 0, at);
        }),
        ("ended, and an SGI is new", |vm| {
            vm.guest(0).virtual_timer(TIMER_PHYSICAL);
            let at = slot(vm, 0, TIMER).unwrap();
            end(vm, 0, at);
            sgi(vm, 1, 1 << 40);
        }),
        ("disabled", |vm| put(vm, 0, private(0, 0x180), 1 << TIMER)),
    ];
    for (what, prepare) in before {
        let [mut short, mut long] = [running(2), running(2)];
        prepare(&mut short);
        prepare(&mut long);
        let untouched = short.lists[0].clone();
        let attempt = short
            .vm
            .virtual_timer_fast(FIRST, TIMER_PHYSICAL, &mut short.lists[0]);
        if attempt == Attempt::Done {
            long.guest(0).virtual_timer(TIMER_PHYSICAL);
            assert_eq!(short.lists[0].lr, long.lists[0].lr, "{what}");
            let lr = short.lists[0].lr[slot(&short, 0, TIMER).unwrap()];
            assert_eq!((lr >> 61, lr >> 32 & 0x3ff), (0b011, 27), "{what}");
        } else {
            assert_eq!(short.lists[0].lr, untouched.lr, "{what}");
        }
        match what {
            "ended" => assert_eq!(attempt, Attempt::Done, "the most frequent case"),
            "pending" | "active" | "disabled" => {
                assert_eq!(attempt, Attempt::Untouched, "{what}");
            }
            _ => {}
        }
        assert!(deactivated(&short).is_empty());
    }
}

#[test]
fn an_end_that_is_reported_deactivates_what_is_behind() {
    let mut vm = running(2);
    assert_eq!(
        vm.guest(0).maintenance_fast(),
        Attempt::Untouched,
        "there is none"
    );
    vm.guest(0).virtual_timer(TIMER_PHYSICAL);
    let at = slot(&vm, 0, TIMER).unwrap();
    assert_eq!(
        vm.guest(0).maintenance_fast(),
        Attempt::Untouched,
        "it is pending"
    );
    acknowledge(&mut vm, 0, at);
    vm.guest(0).virtual_timer(TIMER_PHYSICAL);
    assert_eq!(vm.lists[0].lr[at] >> 61 & 1, 0, "its end is reported");
    assert_eq!(
        vm.guest(0).maintenance_fast(),
        Attempt::Untouched,
        "it is active and pending"
    );
    end(&mut vm, 0, at);
    // Another one is newly pending: the slow path must list it.
    let mut other = running(2);
    other.guest(0).virtual_timer(TIMER_PHYSICAL);
    acknowledge(&mut other, 0, at);
    other.guest(0).virtual_timer(TIMER_PHYSICAL);
    end(&mut other, 0, at);
    sgi(&mut other, 1, 1 << 40);
    assert_eq!(other.guest(0).maintenance_fast(), Attempt::Untouched);
    assert!(deactivated(&other).is_empty());

    assert_eq!(vm.guest(0).maintenance_fast(), Attempt::Done);
    assert_eq!(deactivated(&vm), [TIMER_PHYSICAL]);
    assert_eq!(vm.lists[0].lr[at], 0);
    assert_eq!(vm.guest(0).maintenance_fast(), Attempt::Untouched, "once");
    assert!(deactivated(&vm).is_empty());
}

#[test]
fn a_device_s_interrupt_goes_where_the_guest_has_routed_it() {
    for target in 0..3 {
        let mut vm = running(3);
        vm.regs[0].x[9] = target;
        let route = store(GICD + 0x6000 + 8 * 40, Width::Double, 9);
        assert_eq!(vm.handle(0, route), Action::Next);
        settle(&mut vm);
        vm.vm.device_interrupt(&vm.machine, SPI, DEVICE);
        let n = target as usize;
        assert_eq!(vm.machine.kicked(), [n]);
        let id = VcpuId::new(n as u8);
        assert!(vm.vm.interrupt_waits_absent(&vm.machine, id));
        vm.guest(n).refresh();
        let lr = vm.lists[n].lr[slot(&vm, n, 40).unwrap()];
        assert_eq!((lr >> 61, lr >> 32 & 0x3ff), (0b011, 72));
    }
}

#[test]
fn a_device_s_interrupt_for_the_vcpu_that_runs_is_listed_at_once() {
    for target in 0..2 {
        let mut vm = running(2);
        vm.regs[0].x[9] = target;
        let route = store(GICD + 0x6000 + 8 * 40, Width::Double, 9);
        assert_eq!(vm.handle(0, route), Action::Next);
        settle(&mut vm);
        vm.guest(0).device_interrupt(SPI, DEVICE);
        // Only a sibling has to be told.
        let others: &[usize] = if target == 0 { &[] } else { &[1] };
        assert_eq!(vm.machine.kicked(), others);
        vm.guest(1).refresh();
        let n = target as usize;
        let at = slot(&vm, n, 40).unwrap();
        assert_eq!(slot(&vm, 1 - n, 40), None);
        let lr = vm.lists[n].lr[at];
        assert_eq!((lr >> 61, lr >> 32 & 0x3ff), (0b011, 72));
        // The guest's end of it deactivates the physical one, so that it comes again.
        acknowledge(&mut vm, n, at);
        end(&mut vm, n, at);
        vm.guest(n).device_interrupt(SPI, DEVICE);
        assert!(slot(&vm, n, 40).is_some_and(|at| vm.lists[n].lr[at] >> 62 == 1));
        assert!(deactivated(&vm).is_empty());
    }
}

/// What a guest clears instead of ending it is let go on the board; while a vCPU of its is quiet, that
/// waits.
#[test]
fn a_device_s_interrupt_that_was_cleared_may_come_again() {
    for quiet in [None, Some(FIRST), Some(SECOND)] {
        let mut vm = running(2);
        vm.vm.device_interrupt(&vm.machine, SPI, DEVICE);
        vm.machine.kicked();
        // Somebody's quiet keeps what vCPU 1 does from letting it go itself.
        vm.vm.requests(SECOND).set_quiet(true);
        put(&mut vm, 1, GICD + 0x284, 1 << 8);
        assert!(deactivated(&vm).is_empty());
        vm.vm.requests(SECOND).set_quiet(false);
        if let Some(quiet) = quiet {
            vm.vm.requests(quiet).set_quiet(true);
        }
        assert!(!vm.vm.interrupt_waits_absent(&vm.machine, FIRST));
        let expected: &[IntId] = if quiet.is_none() { &[DEVICE] } else { &[] };
        assert_eq!(deactivated(&vm), expected, "{quiet:?}");
        vm.vm.interrupt_waits_absent(&vm.machine, FIRST);
        assert!(deactivated(&vm).is_empty(), "once");
        if let Some(quiet) = quiet {
            vm.vm.requests(quiet).set_quiet(false);
            vm.vm.interrupt_waits_absent(&vm.machine, FIRST);
            assert_eq!(deactivated(&vm), [DEVICE]);
        }
    }
}

/// Sets vCPU `n`'s physical timer to `at`.
fn set_timer(vm: &mut Fixture, n: usize, at: u64) {
    for (id, value) in [(SysReg::CNTP_CVAL_EL0, at), (SysReg::CNTP_CTL_EL0, 1)] {
        vm.regs[n].x[5] = value;
        assert_eq!(vm.handle(n, write(id)), Action::Next);
    }
}

#[test]
fn timers_of_an_absent_vcpu_come_to_their_time() {
    let mut vm = running(3);
    set_timer(&mut vm, 1, 5000);
    assert!(!switch_out(&mut vm, 1));
    for (now, due) in [(4999, false), (5000, true)] {
        vm.machine.now.set(now);
        vm.vm.timers_absent(&vm.machine, &mut vm.vcpus[1]);
        let waits = vm.vm.interrupt_waits_absent(&vm.machine, SECOND);
        assert_eq!(waits, due, "{now}");
    }
    assert!(vm.machine.kicked().is_empty(), "its own");
    assert_eq!(vm.vm.deadline(&vm.vcpus[1]), Deadline::NEVER);
    assert_eq!(vm.vm.switch_in(SECOND), TimerInterrupt::Free);
    vm.guest(1).refresh();
    assert_eq!(vm.shown(1), [PHYSICAL_TIMER]);
}

#[test]
fn the_clock_s_alarm_is_the_first_vcpu_s_where_that_is_absent() {
    let mut vm = running(3);
    vm.regs[0].x[9] = 2;
    let rtc = u64::from(platform::RTC_IRQ.get());
    let route = store(GICD + 0x6000 + 8 * rtc, Width::Double, 9);
    assert_eq!(vm.handle(0, route), Action::Next);
    put(&mut vm, 0, RTC + 0x10, 1);
    put(&mut vm, 0, RTC + 4, 2);
    settle(&mut vm);
    vm.machine.now.set(2 * FREQUENCY - 1);
    vm.vm.timers_absent(&vm.machine, &mut vm.vcpus[0]);
    vm.machine.now.set(2 * FREQUENCY);
    vm.vm.timers_absent(&vm.machine, &mut vm.vcpus[1]);
    vm.guest(1).refresh();
    assert!(vm.machine.kicked().is_empty(), "too early; not its affair");
    assert_eq!(vm.vm.alarm_deadline(), Deadline::at(2 * FREQUENCY));
    vm.vm.timers_absent(&vm.machine, &mut vm.vcpus[0]);
    assert_eq!(vm.machine.kicked(), [2]);
    vm.guest(2).refresh();
    assert_eq!(vm.shown(2), [platform::RTC_IRQ.get()]);
}

#[test]
fn the_alarm_has_come_for_the_first_vcpu_alone_and_if_there_is_one() {
    let vm = running(2);
    for (alarm, now) in [0, 1, 999, 1000, u64::MAX - 1, u64::MAX]
        .into_iter()
        .flat_map(|alarm| [0, 999, 1000, u64::MAX].map(|now| (alarm, now)))
    {
        vm.vm.alarms.set(0, Some(alarm));
        vm.machine.now.set(now);
        let due = alarm != u64::MAX && now >= alarm;
        let found = [FIRST, SECOND].map(|vcpu| vm.vm.alarm_has_come(&vm.machine, vcpu));
        assert_eq!(found, [due, false], "{alarm} {now}");
    }
}

#[test]
fn an_alarm_that_changes_is_told_to_the_first_vcpu() {
    let mut vm = running(3);
    for n in 0..3 {
        for (write, exit) in [
            (false, load(RTC + 4, Width::Word, 9)),
            (true, store(RTC + 4, Width::Word, 9)),
        ] {
            vm.vcpus[n].rearm = false;
            vm.regs[n].x[9] = 7;
            assert_eq!(vm.handle(n, exit), Action::Next);
            let told = vm.vm.requests(FIRST).take_timers();
            assert_eq!(told, write && n != 0, "vCPU {n}");
            assert_eq!(vm.machine.kicked().contains(&0), told);
            assert!(vm.vcpus[n].rearm);
            vm.vm.requests(FIRST).take_interrupts();
        }
    }
}

#[test]
fn what_nothing_answers_is_counted() {
    let mut vm = Fixture::new(1);
    assert_eq!(vm.vm.unhandled_accesses(), (0, 0));
    for _ in 0..3 {
        vm.handle(0, load(0x0c00_0000, Width::Word, 9));
    }
    assert_eq!(vm.vm.unhandled_accesses(), (3, 0));
    // GICD_TYPER2's neighbours that are reserved.
    get(&mut vm, 0, GICD + 0x30);
    put(&mut vm, 0, GICD + 0x30, 1);
    assert_eq!(vm.vm.unhandled_accesses(), (3, 2));
}

/// Three words of interrupts, which is much.
fn much(vm: &mut Fixture) {
    for word in 1..=3 {
        put(vm, 1, GICD + 0x200 + 4 * word, 1 << 20);
    }
}

/// What is done at a kick, of what was asked and what is left to an exit of its own.
#[test]
fn a_refresh_brings_the_lists_up_to_date_where_that_was_asked() {
    // Without a maintenance interrupt, an end makes no room yet.
    let mut vm = running(2);
    for id in 0..6 {
        post(&vm, 1, id << 24 | 1);
    }
    settle(&mut vm);
    settle(&mut vm);
    assert_eq!(vm.shown(0).len(), 4);
    let kept = (0..4).find(|at| vm.lists[0].lr[*at] != 0).unwrap();
    end(&mut vm, 0, kept);
    let (before, writes) = (vm.lists[0].lr.clone(), vm.lists[0].writes);
    vm.vcpus[0].rearm = false;
    vm.guest(0).refresh();
    assert_eq!(
        (vm.lists[0].lr.clone(), vm.lists[0].writes),
        (before, writes)
    );
    assert!(vm.vcpus[0].rearm);
    let _ = vm.vm.requests(FIRST).ask_interrupts();
    vm.guest(0).maintenance();
    assert_eq!(vm.shown(0).len(), 4);

    // What is long is left to the next exit, which does it.
    let mut vm = running(2);
    much(&mut vm);
    assert!(vm.machine.kicked() == [0] && !vm.vcpus[0].entry_due);
    vm.guest(0).refresh();
    assert!(vm.vcpus[0].entry_due && vm.shown(0).is_empty());
    assert_eq!(vm.machine.kicked(), [0]);
    vm.guest(0).refresh();
    assert!(!vm.vcpus[0].entry_due && vm.shown(0).len() == 3);
    assert!(vm.machine.kicked().is_empty());

    // The timer's line leaves it to the next exit, and so this one does no more of it.
    let mut vm = running(2);
    set_timer(&mut vm, 0, 5000);
    much(&mut vm);
    vm.machine.kicked();
    vm.machine.now.set(5000);
    vm.guest(0).refresh();
    assert!(vm.vcpus[0].entry_due && vm.shown(0).is_empty());
    assert_eq!(vm.machine.kicked(), [0]);
    vm.guest(0).refresh();
    assert!(!vm.vcpus[0].entry_due && vm.shown(0).len() == 4);
}

/// Much is left to an exit of its own, as is what is not brief beside something else in this one.
#[test]
fn what_is_long_is_done_in_an_exit_of_its_own() {
    for (sgis, words, busy) in [0, 1, 2, 3, 6].into_iter().flat_map(|sgis| {
        [
            (sgis, false, false),
            (sgis, false, true),
            (sgis, true, false),
            (sgis, true, true),
        ]
    }) {
        let mut vm = running(2);
        for id in 0..sgis {
            post(&vm, 1, id << 24 | 1);
        }
        if words {
            much(&mut vm);
        }
        vm.machine.kicked();
        vm.vm.requests(FIRST).take_interrupts();
        vm.vcpus[0].busy = busy;
        vm.guest(0).interrupts_changed(PostedSgis::default());
        let left = words || busy && sgis > 2;
        let what = (sgis, words, busy);
        assert_eq!(vm.vcpus[0].entry_due, left, "{what:?}");
        assert!(!vm.vcpus[0].busy);
        let kicks: &[CpuId] = if left { &[CpuId::new(FIRST_CPU)] } else { &[] };
        assert_eq!(vm.machine.kicks.take(), kicks, "{what:?}");
        let all = 4.min(sgis as usize + if words { 3 } else { 0 });
        assert_eq!(vm.shown(0).len(), if left { 0 } else { all }, "{what:?}");
        // The next one does it, whatever it is beside.
        vm.vcpus[0].busy = busy;
        vm.guest(0).interrupts_changed(PostedSgis::default());
        assert!(
            !vm.vcpus[0].entry_due && vm.shown(0).len() == all,
            "{what:?}"
        );
    }
}
