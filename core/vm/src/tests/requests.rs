//! The pCPUs that are kicked when a vCPU's interrupts change: its own, and no other.

use super::{load, received, store, write};
use crate::fake::{ENTRY, FIRST_CPU, Fixture};
use crate::{Action, Attempt, Entry, Exit, GuestFault, Wait, function};
use hanok_decode::SysReg;
use hanok_hal::LineFull;
use hanok_types::{CpuId, GicVersion, IntId, Ipa, VcpuId, Width, platform};

const GICD: u64 = platform::GIC_DIST.get();
const GICR: u64 = platform::GIC_REDIST.get();
const UART: u64 = platform::UART.get();
const SGI_BASE: u64 = 0x1_0000;
const VIRTUAL_TIMER: u32 = platform::TIMER_VIRTUAL_IRQ.get();

/// `vcpus` vCPUs that all run, their interrupts enabled: all private ones, and every SPI at
/// vCPU 0.
pub(super) fn running(vcpus: u8) -> Fixture {
    let mut vm = Fixture::new(vcpus);
    for n in 1..vcpus {
        vm.vm
            .power(VcpuId::new(n))
            .start(Entry {
                pc: ENTRY,
                argument: 0,
            })
            .unwrap();
        vm.come_in(n);
    }
    put(&mut vm, 0, GICD, 0x12);
    for word in 1..=8 {
        put(&mut vm, 0, GICD + 0x080 + 4 * word, u32::MAX);
        put(&mut vm, 0, GICD + 0x100 + 4 * word, u32::MAX);
    }
    for n in 0..u64::from(vcpus) {
        let frame = GICR + n * platform::GIC_REDIST_STRIDE + SGI_BASE;
        put(&mut vm, 0, frame + 0x080, u32::MAX);
        put(&mut vm, 0, frame + 0x100, u32::MAX);
    }
    settle(&mut vm);
    vm
}

/// Every vCPU that was kicked does what its pCPU does then.
pub(super) fn settle(vm: &mut Fixture) {
    loop {
        let kicked = vm.machine.kicked();
        if kicked.is_empty() {
            return;
        }
        for n in kicked {
            vm.guest(n).refresh();
        }
    }
}

pub(super) fn put(vm: &mut Fixture, n: usize, at: u64, value: u32) {
    vm.regs[n].x[9] = value.into();
    assert_eq!(vm.handle(n, store(at, Width::Word, 9)), Action::Next);
}

pub(super) fn get(vm: &mut Fixture, n: usize, at: u64) -> u64 {
    assert_eq!(vm.handle(n, load(at, Width::Word, 9)), Action::Next);
    vm.regs[n].x[9]
}

pub(super) fn sgi(vm: &mut Fixture, from: usize, value: u64) {
    vm.regs[from].x[5] = value;
    assert_eq!(vm.handle(from, write(SysReg::ICC_SGI1R_EL1)), Action::Next);
}

#[test]
fn an_sgi_kicks_its_targets_alone() {
    let mut vm = running(4);
    sgi(&mut vm, 1, 3 << 24 | 0b0100);
    assert_eq!(vm.machine.kicked(), [2]);
    assert_eq!(vm.shown(2), []);
    assert!(vm.vm.requests(VcpuId::new(2)).take_interrupts());
    let _ = vm.vm.requests(VcpuId::new(2)).ask_interrupts();
    vm.guest(2).refresh();
    assert_eq!(vm.shown(2), [3]);
    assert!(!vm.vm.requests(VcpuId::new(2)).take_interrupts(), "served");
    for n in [0, 1, 3] {
        assert!(!vm.vm.requests(VcpuId::new(n)).take_interrupts());
    }
}

#[test]
fn an_sgi_to_oneself_is_there_at_once() {
    let mut vm = running(2);
    sgi(&mut vm, 1, 7 << 24 | 0b10);
    assert!(vm.machine.kicked().is_empty());
    assert_eq!(vm.shown(1), [7]);
}

#[test]
fn an_sgi_to_all_others() {
    let mut vm = running(4);
    sgi(&mut vm, 2, 1 << 40);
    assert_eq!(vm.machine.kicked(), [0, 1, 3]);
}

#[test]
fn sgis_to_nobody_kick_nobody() {
    let mut vm = running(2);
    for value in [0, 0b1_0000, 1 << 16 | 1, 1 << 32 | 1, 1 << 44 | 1] {
        sgi(&mut vm, 0, value);
    }
    // The others of group 0's registers: all SGIs here are of group 1.
    for register in [SysReg::ICC_SGI0R_EL1, SysReg::ICC_ASGI1R_EL1] {
        vm.regs[0].x[5] = 0b10;
        assert_eq!(vm.handle(0, write(register)), Action::Next);
    }
    assert!(vm.machine.kicked().is_empty());
}

#[test]
fn a_received_byte_reaches_the_vcpu_that_the_interrupt_is_routed_to() {
    let mut vm = running(3);
    // Vcpu 2 gets the serial port's interrupt, and its receive interrupts are on.
    vm.regs[0].x[9] = 2;
    let route = GICD + 0x6000 + 8 * u64::from(platform::UART_IRQ.get());
    assert_eq!(vm.handle(0, store(route, Width::Double, 9)), Action::Next);
    put(&mut vm, 0, UART + 0x38, 0x50);
    settle(&mut vm);

    assert!(received(&vm, b'x'));
    assert_eq!(vm.machine.kicked(), [2]);
    vm.guest(2).refresh();
    assert_eq!(vm.shown(2), [platform::UART_IRQ.get()]);

    // Whoever reads it takes the interrupt back from there.
    assert_eq!(get(&mut vm, 0, UART), u64::from(b'x'));
    put(&mut vm, 0, UART + 0x44, 0x7ff);
    assert_eq!(vm.machine.kicked(), [2]);
    vm.guest(2).refresh();
    assert_eq!(vm.shown(2), []);
    assert_eq!(vm.machine.line_state.get(), Some((true, false)));
}

#[test]
fn a_full_line_holds_bytes_back_until_it_takes_them() {
    let mut vm = running(1);
    vm.machine.line.borrow_mut().room = 1;
    put(&mut vm, 0, UART, b'a'.into());
    assert_eq!(vm.machine.line_state.get(), Some((true, false)));
    put(&mut vm, 0, UART, b'b'.into());
    assert_eq!(vm.machine.line_state.get(), Some((true, true)), "one waits");
    assert_eq!(vm.vm.transmit(&vm.machine), Err(LineFull));
    vm.machine.line.borrow_mut().room = 10;
    assert_eq!(vm.vm.transmit(&vm.machine), Ok(()));
    assert_eq!(vm.machine.line.borrow().sent, b"ab");
}

#[test]
fn a_full_port_leaves_the_byte_with_the_caller() {
    let vm = running(1);
    let room = vm.vm.receive_room();
    assert!(room > 0);
    for _ in 0..room {
        assert!(received(&vm, b'.'));
    }
    assert!(!received(&vm, b'!'));
}

#[test]
fn the_virtual_timer_is_a_hardware_interrupt() {
    let mut vm = running(1);
    vm.guest(0).virtual_timer(IntId::new(27));
    assert_eq!(vm.shown(0), [VIRTUAL_TIMER]);
    let lr = vm.lists[0]
        .lr
        .iter()
        .find(|lr| **lr as u32 == VIRTUAL_TIMER)
        .copied()
        .unwrap();
    assert_eq!(
        (lr >> 61 & 1, lr >> 32 & 0x3ff),
        (1, 27),
        "HW, and the physical id"
    );
    // The guest clears it instead of acknowledging it: nothing else would deactivate it.
    put(&mut vm, 0, GICR + SGI_BASE + 0x280, 1 << VIRTUAL_TIMER);
    // It is gone at the next entry, which is an exit of its own.
    assert_eq!(vm.machine.kicked(), [0]);
    vm.guest(0).refresh();
    assert_eq!(vm.machine.deactivated.borrow()[..], [IntId::new(27)]);
    assert_eq!(vm.shown(0), []);
}

#[test]
fn an_interrupt_that_ends_by_itself_while_the_vcpu_sleeps_is_released() {
    let mut vm = running(1);
    vm.guest(0).virtual_timer(IntId::new(27));
    let slot = vm.lists[0]
        .lr
        .iter()
        .position(|lr| *lr as u32 == VIRTUAL_TIMER)
        .unwrap();
    // The guest has acknowledged it, and it fires again: no HW=1 for that.
    vm.lists[0].lr[slot] ^= 3 << 62;
    vm.guest(0).virtual_timer(IntId::new(27));
    assert_eq!(vm.lists[0].lr[slot] >> 61 & 1, 0);
    // It ends both, and sleeps before the maintenance interrupt comes.
    vm.lists[0].lr[slot] &= !(3 << 62);
    let Fixture {
        vm: inner,
        machine,
        lists,
        ..
    } = &mut vm;
    assert!(!inner.interrupt_waits(machine, VcpuId::new(0), &mut lists[0]));
    assert_eq!(machine.deactivated.borrow()[..], [IntId::new(27)]);
}

#[test]
fn more_than_the_list_registers_hold_come_by_maintenance() {
    let mut vm = running(1);
    // Six SGIs for four list registers.
    for id in 0..6 {
        sgi(&mut vm, 0, id << 24 | 1);
    }
    // The sixth's exit leaves it to another.
    settle(&mut vm);
    assert_eq!(vm.shown(0).len(), 4);
    assert!(vm.lists[0].none_pending_interrupt);
    // The guest takes and ends all that it sees.
    vm.lists[0].lr.fill(0);
    vm.guest(0).maintenance();
    assert_eq!(vm.shown(0).len(), 2);
    assert!(!vm.lists[0].none_pending_interrupt);
}

#[test]
fn room_for_what_waits_is_used_by_a_short_way() {
    let mut vm = running(1);
    assert_eq!(
        vm.guest(0).maintenance_fast(),
        Attempt::Untouched,
        "nothing waits"
    );
    for id in 0..6 {
        sgi(&mut vm, 0, id << 24 | 1);
    }
    settle(&mut vm);
    assert!(vm.lists[0].none_pending_interrupt);
    vm.lists[0].lr.fill(0);
    assert_eq!(vm.guest(0).maintenance_fast(), Attempt::Done);
    assert_eq!(vm.shown(0).len(), 2);
    assert!(!vm.lists[0].none_pending_interrupt);
    assert_eq!(vm.guest(0).maintenance_fast(), Attempt::Untouched, "once");
}

#[test]
fn a_sleeping_vcpu_wakes_for_what_is_pending() {
    let mut vm = running(2);
    let waits = |vm: &mut Fixture| {
        let Fixture {
            vm, machine, lists, ..
        } = vm;
        vm.interrupt_waits(machine, VcpuId::new(1), &mut lists[1])
    };
    assert!(!waits(&mut vm));
    sgi(&mut vm, 0, 0b10);
    assert!(waits(&mut vm));
    // Its list registers are filled as it goes on, once: another one may be in its pCPU first.
    assert_eq!(vm.shown(1), []);
    vm.guest(1).refresh();
    assert_eq!(vm.shown(1), [0]);
}

#[test]
fn a_vcpu_that_is_in_no_pcpu_wakes_for_what_was_sent_to_it() {
    let mut vm = running(2);
    let second = VcpuId::new(1);
    let waits = |vm: &Fixture| vm.vm.interrupt_waits_absent(&vm.machine, second);
    assert!(!waits(&vm));
    // To another one.
    sgi(&mut vm, 1, 0b1);
    assert!(!waits(&vm));
    sgi(&mut vm, 0, 0b10);
    assert!(waits(&vm));
    assert!(waits(&vm), "looking takes nothing away");
}

#[test]
fn a_guest_that_polls_rwp_is_not_kept_waiting() {
    let mut vm = running(3);
    const RWP: u64 = 1 << 31;
    // Interrupts in everybody's list registers; then one sleeps, one is off.
    for n in 0..3_u64 {
        sgi(&mut vm, 0, 5 << 24 | 1 << n);
    }
    settle(&mut vm);
    vm.call(2, [function::CPU_OFF.into(), 0, 0, 0]);
    let Fixture {
        vm: inner,
        machine,
        lists,
        ..
    } = &mut vm;
    inner.take_back_interrupts(machine, VcpuId::new(2), &mut lists[2]);
    inner.lifecycle().leave();

    for n in 0..3 {
        put(
            &mut vm,
            0,
            GICR + n * platform::GIC_REDIST_STRIDE + SGI_BASE + 0x180,
            1 << 5,
        );
    }
    put(&mut vm, 0, GICD, 0);
    // What is long is done in an exit of its own.
    assert!(vm.machine.kicks.borrow().contains(&CpuId::new(FIRST_CPU)));
    vm.guest(0).refresh();
    assert_ne!(
        get(&mut vm, 0, GICD) & RWP,
        0,
        "vCPU 1 shows the interrupt still"
    );
    // The sleeper is kicked, looks up and sleeps on; who is off has nothing to settle.
    assert!(vm.machine.kicked().contains(&1));
    vm.guest(1).refresh();
    settle(&mut vm);
    assert_eq!(get(&mut vm, 0, GICD) & RWP, 0);
    assert_eq!(vm.shown(1), []);
}

#[test]
fn an_alarm_is_kept_by_the_first_vcpu() {
    let mut vm = running(2);
    let rtc = platform::RTC.get();
    put(&mut vm, 0, rtc + 0x10, 1);
    vm.vcpus[0].rearm = false;
    // vCPU 1 sets the clock's match to two seconds.
    put(&mut vm, 1, rtc + 4, 2);
    assert_eq!(vm.machine.kicked(), [0]);
    let due = 2 * crate::fake::FREQUENCY;
    assert_eq!(
        (vm.guest(0).deadline(), vm.guest(1).deadline()),
        (Some(due), None)
    );
    vm.machine.now.set(due);
    vm.guest(0).refresh();
    assert_eq!(vm.shown(0), [platform::RTC_IRQ.get()]);
    assert_eq!(vm.guest(0).deadline(), None);
    put(&mut vm, 0, rtc + 0x1c, 1);
    assert_eq!(vm.shown(0), []);
}

#[test]
fn no_vcpu_kicks_its_own_pcpu() {
    let vm = running(2);
    let (first, second) = (VcpuId::new(0), VcpuId::new(1));
    vm.vm.wake(&vm.machine, second, second);
    assert!(vm.machine.kicked().is_empty());
    vm.vm.wake(&vm.machine, second, first);
    assert_eq!(vm.machine.kicked(), [1]);
}

#[test]
fn exits_without_state() {
    let mut vm = Fixture::new(1);
    let undefined = Action::Inject(GuestFault::Undefined);
    let ipa = Ipa::new(0);
    for (exit, action) in [
        (Exit::Wait, Action::NextThenBlock(Wait::Interrupt)),
        (Exit::MonitorCall, undefined),
        (Exit::Denied, undefined),
        (Exit::SystemError, Action::Inject(GuestFault::SystemError)),
        (
            Exit::Fetch { ipa, walk: false },
            Action::Inject(GuestFault::ExternalFetch { walk: false }),
        ),
        (
            Exit::Fetch { ipa, walk: true },
            Action::Inject(GuestFault::ExternalFetch { walk: true }),
        ),
    ] {
        let before = vm.regs[0];
        assert_eq!(vm.handle(0, exit), action);
        assert_eq!(vm.regs[0], before);
    }
}

#[test]
fn a_timer_that_fired_before_cpu_off_is_gone_after_cpu_on() {
    let mut vm = running(2);
    vm.guest(1).virtual_timer(IntId::new(VIRTUAL_TIMER));
    assert_eq!(vm.shown(1), [VIRTUAL_TIMER]);
    vm.call(1, [function::CPU_OFF.into(), 0, 0, 0]);
    let off = VcpuId::new(1);
    let Fixture {
        vm: inner,
        machine,
        lists,
        ..
    } = &mut vm;
    inner.take_back_interrupts(machine, off, &mut lists[1]);
    inner.lifecycle().leave();
    let entry = Entry {
        pc: ENTRY,
        argument: 0,
    };
    inner.power(off).start(entry).unwrap();
    let _ = inner.requests(off).ask_interrupts();
    vm.come_in(1);
    vm.guest(1).refresh();
    assert!(vm.shown(1).is_empty());
}

/// GICR_ISPENDR0 or another register of the private interrupts of vCPU `n`.
pub(super) fn private(n: u64, offset: u64) -> u64 {
    GICR + n * platform::GIC_REDIST_STRIDE + SGI_BASE + offset
}

/// As [`sgi`], by the fast path, which posts the SGI.
pub(super) fn post(vm: &Fixture, from: u8, value: u64) {
    let from = VcpuId::new(from);
    let posted = vm.vm.post_group1_sgi(&vm.machine, from, value);
    assert_eq!(posted, Attempt::Done);
}

#[test]
fn what_is_no_sgi_to_one_other_is_not_posted() {
    let vm = running(2);
    for value in [
        0,
        1,
        0b11,
        0b1_0000,
        1 << 16 | 0b10,
        1 << 32 | 0b10,
        1 << 40,
        1 << 44 | 0b10,
    ] {
        let posted = vm.vm.post_group1_sgi(&vm.machine, VcpuId::new(0), value);
        assert_eq!(posted, Attempt::Untouched, "{value:#x}");
    }
    assert!(vm.machine.kicked().is_empty());
}

#[test]
fn an_sgi_on_its_way_is_pending_to_whoever_looks() {
    let mut vm = running(3);
    post(&vm, 1, 5 << 24 | 0b100);
    for n in [0, 2, 1] {
        assert_eq!(get(&mut vm, n, private(2, 0x200)), 1 << 5, "vCPU {n}");
    }
    put(&mut vm, 0, private(2, 0x280), 1 << 5);
    vm.guest(2).refresh();
    assert_eq!(vm.shown(2), [], "it was cleared");
}

#[test]
fn an_sgi_is_for_the_group_that_its_target_had_when_it_was_sent() {
    let mut vm = running(2);
    post(&vm, 1, 5 << 24 | 1);
    put(&mut vm, 1, private(0, 0x080), 0);
    assert_eq!(get(&mut vm, 1, private(0, 0x200)), 1 << 5);
    post(&vm, 1, 6 << 24 | 1);
    put(&mut vm, 1, private(0, 0x080), u32::MAX);
    assert_eq!(get(&mut vm, 1, private(0, 0x200)), 1 << 5);
}

/// vCPU 1 is shown SGI 9, which was posted to it: in the list register in which the SGI stood before, if it
/// `stood` in one. That list register.
pub(super) fn show_posted(vm: &mut Fixture, stood: bool) -> &mut u64 {
    let to = VcpuId::new(1);
    let posted = vm.vm.requests(to).take_interrupts_alone().unwrap();
    let version = vm.vm.gic_version();
    let shown = vm
        .vm
        .show_posted_sgis(to, posted, version, &mut vm.lists[1]);
    assert_eq!(shown == Attempt::Done, stood);
    if !stood {
        vm.guest(1).interrupts_changed(posted);
    }
    assert_eq!(vm.shown(1), [9]);
    let lr = vm.lists[1].lr.iter_mut().find(|lr| **lr >> 62 != 0);
    lr.unwrap()
}

#[test]
fn a_kick_for_one_sgi_shows_it_where_it_stood_before() {
    let mut vm = running(2);
    for round in 0..3 {
        post(&vm, 0, 9 << 24 | 0b10);
        assert_eq!(vm.machine.kicked(), [1], "round {round}");
        let shown = show_posted(&mut vm, round > 0);
        // The guest takes and ends it.
        *shown &= !(3 << 62);
    }
}

#[test]
fn a_gicv2_tells_who_sent_an_sgi_that_was_on_its_way() {
    let mut vm = Fixture::with_gic(5, GicVersion::V2);
    put(&mut vm, 0, GICD, 3);
    for from in [1, 4, 2] {
        vm.regs[from].x[9] = 1 << 16 | 7;
        let sgir = store(GICD + 0xf00, Width::Word, 9);
        assert_eq!(vm.handle(from, sgir), Action::Next);
    }
    assert_eq!(get(&mut vm, 0, GICD + 0xf24), 0b1_0110 << 24);
}

#[test]
fn room_is_what_the_port_takes_before_it_is_full() {
    let mut vm = running(1);
    // LCR_H.FEN: the FIFO of 16 to 32 bytes is on; without, there is room for one.
    put(&mut vm, 0, UART + 0x2c, 0x70);
    let room = vm.vm.receive_room();
    assert!((16..=32).contains(&room), "{room}");
    for left in (0..room).rev() {
        assert!(received(&vm, b'.'));
        assert_eq!(vm.vm.receive_room(), left);
    }
    assert!(!received(&vm, b'!'));
    assert_eq!(get(&mut vm, 0, UART), u64::from(b'.'));
    assert_eq!(vm.vm.receive_room(), 1);
    put(&mut vm, 0, UART + 0x2c, 0x60);
    assert!(vm.vm.receive_room() <= 1);
}
