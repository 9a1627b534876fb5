//! From one boot of a VM to the next, and to its end.

use super::requests::put;
use super::{load, received, store, write};
use crate::fake::{ARGUMENT, ENTRY, FakeMachine, Fixture, config};
use crate::{Action, Ending, Entry, Exit, GuestFault, State, StopReason, TimerInterrupt};
use crate::{Transition, Vcpu, Vm, Wish, function};
use hanok_config::{Line, PassThrough};
use hanok_decode::SysReg;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width, platform};
use std::vec::Vec;

const UART: u64 = platform::UART.get();
const GICD: u64 = platform::GIC_DIST.get();
const SECOND: VcpuId = VcpuId::new(1);

fn second_comes_in(vm: &Fixture) {
    vm.vm
        .power(SECOND)
        .start(Entry {
            pc: ENTRY,
            argument: 0,
        })
        .unwrap();
    vm.come_in(1);
}

/// As the backend does, once memory is made.
fn begin(vm: &Vm, machine: &FakeMachine) -> Transition {
    let vcpus = VcpuSet::first(vm.vcpus());
    vcpus.iter().for_each(|vcpu| vm.reset_vcpu(vcpu));
    crate::fake::reset_devices(vm, machine);
    vm.begin()
}

/// Its only vCPU leaves, and the next boot begins.
fn next_boot(vm: &Vm, machine: &FakeMachine) {
    vm.lifecycle().begin_end(Ending::Reset);
    assert_eq!(vm.lifecycle().leave(), (0, Some(Ending::Reset)));
    assert!(vm.lifecycle().load_after_reset().is_made() && begin(vm, machine).is_made());
}

#[test]
fn a_life_begins_with_the_first_vcpu_alone() {
    let vm = Fixture::new(2);
    next_boot(&vm.vm, &vm.machine);
    let entry = Entry {
        pc: ENTRY,
        argument: ARGUMENT,
    };
    assert_eq!(vm.vm.power(VcpuId::new(0)).take_start(), Some(entry));
    assert!(vm.vm.power(SECOND).is_off());
    assert!(vm.vm.lifecycle().is_running());
    assert_eq!(Vcpu::new(SECOND).mpidr(), 0x8000_0001);
}

#[test]
fn a_reset_ends_the_former_life_s_interrupts() {
    let mut vm = Fixture::new(2);
    // The serial port's line is high, the physical timer's too.
    vm.regs[0].x[1] = 0x50;
    vm.handle(0, store(UART + 0x38, Width::Word, 1));
    assert!(received(&vm, b'a'));
    vm.regs[0].x[5] = 1;
    vm.handle(0, write(SysReg::CNTP_CTL_EL0));
    assert_eq!(
        vm.call(0, [function::SYSTEM_RESET.into(), 0, 0, 0]).1,
        Action::Reconsider
    );
    assert_eq!(vm.vm.lifecycle().leave(), (0, Some(Ending::Reset)));

    assert!(vm.vm.lifecycle().load_after_reset().is_made() && begin(&vm.vm, &vm.machine).is_made());
    vm.vcpus[0] = Vcpu::new(VcpuId::new(0));
    vm.come_in(0);
    let gic = vm.vm.gic.lock();
    assert_eq!(
        gic.snapshot().next(),
        None,
        "no line is high, nothing is pending"
    );
    drop(gic);
    vm.handle(0, load(GICD, Width::Word, 1));
    assert_eq!(vm.regs[0].x[1], 0x50, "GICD_CTLR: ARE and DS alone");
    assert!(vm.vm.receive_room() > 0);
}

#[test]
fn a_virtual_timer_of_the_former_life_is_released() {
    let mut vm = Fixture::new(1);
    vm.guest(0).virtual_timer(IntId::new(27));
    let Fixture {
        vm: inner,
        machine,
        lists,
        ..
    } = &mut vm;
    inner.take_back_interrupts(machine, VcpuId::new(0), &mut lists[0]);
    assert!(lists[0].lr.iter().all(|lr| *lr == 0));
    next_boot(inner, machine);
    vm.come_in(0);
    let _ = vm.vm.requests(VcpuId::new(0)).ask_interrupts();
    vm.guest(0).refresh();
    assert_eq!(vm.machine.deactivated.borrow()[..], [IntId::new(27)]);
}

/// Its timer came while it was in no pCPU, so that no physical interrupt is active on its behalf:
/// the one that its pCPU has active is of whoever is there now.
#[test]
fn the_end_of_an_absent_vcpu_leaves_its_pcpu_s_timer_alone() {
    let mut vm = Fixture::new(1);
    let (id, timer) = (VcpuId::new(0), IntId::new(27));
    let Fixture {
        vm: inner,
        machine,
        lists,
        ..
    } = &mut vm;
    let left = inner.switch_out(machine, id, &mut lists[0]);
    assert_eq!(left, TimerInterrupt::Free);
    inner.virtual_timer_absent(machine, id, timer);
    assert!(inner.holds_virtual_timer(id));
    inner.forget_interrupts(machine, id);
    assert!(!inner.holds_virtual_timer(id));
    assert_eq!(machine.deactivated.borrow()[..], []);
    // Nor is it deactivated in its next life.
    next_boot(inner, machine);
    vm.come_in(0);
    let _ = vm.vm.requests(id).ask_interrupts();
    vm.guest(0).refresh();
    assert_eq!(vm.machine.deactivated.borrow()[..], []);
}

/// A device's interrupt that the former boot had not ended, and one that came after it: their physical ones can come again.
#[test]
fn a_device_s_interrupts_of_the_former_life_are_released() {
    let mut vm = Fixture::new(1);
    let (irq, physical) = (IntId::new(146), IntId::new(64));
    let later = (IntId::new(147), IntId::new(65));
    vm.vm.device_interrupt(&vm.machine, irq, physical);
    let Fixture {
        vm: inner,
        machine,
        lists,
        ..
    } = &mut vm;
    inner.take_back_interrupts(machine, VcpuId::new(0), &mut lists[0]);
    inner.device_interrupt(machine, later.0, later.1);
    let vcpus = VcpuSet::first(inner.vcpus());
    inner.lifecycle().begin_end(Ending::Reset);
    assert_eq!(inner.lifecycle().leave(), (0, Some(Ending::Reset)));
    assert!(inner.lifecycle().load_after_reset().is_made());
    vcpus.iter().for_each(|vcpu| inner.reset_vcpu(vcpu));
    crate::fake::reset_devices(inner, machine);
    assert!(inner.begin().is_made());
    assert_eq!(machine.deactivated.borrow()[..], [physical, later.1]);
}

/// An edge that comes before the guest enables its interrupt is not lost, whatever the guest says of triggers: nothing; and a
/// level-sensitive device asks again.
#[test]
fn an_edge_waits_for_a_guest_that_sets_no_trigger() {
    let line = |guest, board, edge| Line {
        guest: IntId::new(guest),
        board: IntId::new(board),
        edge,
    };
    let lines = [line(146, 64, true), line(147, 65, false)];
    let mut config = config(1);
    let device = PassThrough {
        name: "device@0".try_into().unwrap(),
        registers: Default::default(),
        interrupts: lines.into_iter().collect(),
        trapped: false,
    };
    config.devices.push(device).unwrap();
    let mut vm = Fixture::of(config, GicVersion::V3);
    for line in lines {
        vm.vm.device_interrupt(&vm.machine, line.guest, line.board);
    }
    put(&mut vm, 0, GICD, 0x12);
    for register in [0x080, 0x100] {
        put(&mut vm, 0, GICD + register + 16, 3 << 18);
    }
    vm.guest(0).refresh();
    assert_eq!(vm.machine.deactivated.borrow()[..], [lines[1].board]);
    let listed = vm.lists[0].lr.iter().filter(|lr| **lr != 0);
    assert_eq!(listed.map(|lr| *lr as u32).collect::<Vec<_>>(), [146]);
}

#[test]
fn when_all_turn_off_the_vm_stops() {
    let mut vm = Fixture::new(2);
    second_comes_in(&vm);
    for n in [0, 1] {
        assert!(!vm.vm.stop_if_all_off().is_made(), "somebody is in it");
        assert_eq!(
            vm.call(n, [function::CPU_OFF.into(), 0, 0, 0]).1,
            Action::Reconsider
        );
        vm.vm.lifecycle().leave();
    }
    assert!(vm.vm.stop_if_all_off().is_made());
    assert_eq!(vm.vm.stop_reason(), Some(StopReason::AllOff));
    assert!(!vm.vm.stop_if_all_off().is_made(), "once");
    vm.vm.lifecycle().end();
    assert!(vm.vm.lifecycle().is_ended());
}

#[test]
fn who_is_about_to_come_keeps_the_vm_alive() {
    let mut vm = Fixture::new(2);
    let on = [function::CPU_ON.into(), 1, ENTRY, 0];
    assert_eq!(vm.call(0, on), (0, Action::Resume));
    vm.call(0, [function::CPU_OFF.into(), 0, 0, 0]);
    assert_eq!(vm.vm.lifecycle().leave(), (0, None));
    assert!(!vm.vm.stop_if_all_off().is_made());
    vm.come_in(1);
    assert!(vm.vm.lifecycle().is_running());
}

#[test]
fn an_impossible_exit_is_an_undefined_instruction() {
    let mut vm = Fixture::new(2);
    second_comes_in(&vm);
    let undefined = Action::Inject(GuestFault::Undefined);
    assert_eq!(vm.handle(1, Exit::Unexpected), undefined);
    assert_eq!(vm.machine.kicked(), []);
    assert!(vm.vm.lifecycle().is_running(), "the VM goes on");
}

#[test]
fn the_first_wish_for_an_end_counts() {
    let mut vm = Fixture::new(2);
    second_comes_in(&vm);
    let reason = StopReason::AllOff;
    let stop = |vm: &Fixture, reason| vm.vm.request_end(&vm.machine, Ending::Stopped, reason);
    assert_eq!(stop(&vm, Some(reason)), Wish::Taken, "a vCPU is in it");
    assert_eq!(vm.vm.stop_reason(), Some(reason));
    assert_eq!(vm.machine.kicked(), [0, 1]);
    // What is said later does not change it.
    assert_eq!(stop(&vm, None), Wish::Refused);
    assert_eq!(vm.vm.stop_reason(), Some(reason));
    assert_eq!(
        vm.call(0, [function::SYSTEM_RESET.into(), 0, 0, 0]).1,
        Action::Reconsider
    );
    assert_eq!(vm.vm.lifecycle().leave(), (1, Some(Ending::Stopped)));
}

#[test]
fn a_start_while_the_vm_ends_comes_to_nothing() {
    let mut vm = Fixture::new(2);
    vm.vm.request_end(&vm.machine, Ending::Reset, None);
    assert_eq!(vm.call(0, [function::CPU_ON.into(), 1, ENTRY, 0]).0, 0);
    assert!(!vm.vm.lifecycle().enter().is_made());
    vm.vm.lifecycle().leave();
    assert!(vm.vm.lifecycle().load_after_reset().is_made() && begin(&vm.vm, &vm.machine).is_made());
    assert!(
        vm.vm.power(SECOND).is_off(),
        "the new life knows nothing of it"
    );
}

/// A life has begun, and its first vCPU's pCPU has not looked yet.
fn without_vcpus() -> Fixture {
    let vm = Fixture::new(1);
    next_boot(&vm.vm, &vm.machine);
    vm
}

#[test]
fn a_vm_is_stopped_before_its_first_vcpu_came() {
    let vm = without_vcpus();
    let wish = vm.vm.stop(&vm.machine);
    assert_eq!(
        wish,
        Wish::Deserted,
        "the caller carries it out, as nobody else does"
    );
    assert!(!vm.vm.lifecycle().enter().is_made());
    vm.vm.lifecycle().end();
    assert_eq!(vm.vm.restart(&vm.machine), Wish::Deserted);
    assert!(vm.vm.lifecycle().is_loading());
}

#[test]
fn a_vm_is_restarted_before_its_first_vcpu_came() {
    let vm = without_vcpus();
    let number = vm.vm.lifecycle().number();
    assert_eq!(vm.vm.restart(&vm.machine), Wish::Deserted);
    assert!(vm.vm.lifecycle().is_loading());
    assert_eq!(vm.vm.lifecycle().number(), number + 1);
    assert_eq!(vm.machine.kicked(), [0]);
}

/// Who may want what of a VM that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    /// The guest resets.
    Reset,
    /// The guest powers off.
    Off,
    /// It is stopped for what it did.
    Fault,
    /// A person at the prompt turns it off.
    Stop,
    /// A person at the prompt restarts it.
    Restart,
}

use Want::{Fault, Off, Reset, Restart, Stop};
const WANTS: [Want; 5] = [Reset, Off, Fault, Stop, Restart];

impl Want {
    fn of(self, vm: &Fixture) -> Option<Wish> {
        let end = |ending, reason| {
            vm.vm.request_end(&vm.machine, ending, reason);
            None
        };
        match self {
            Reset => end(Ending::Reset, None),
            Off => end(Ending::Off, None),
            Fault => end(Ending::Stopped, Some(StopReason::AllOff)),
            Stop => Some(vm.vm.stop(&vm.machine)),
            Restart => Some(vm.vm.restart(&vm.machine)),
        }
    }
}

/// What the last vCPU's pCPU does once it knows the ending.
fn carried_out(vm: &Fixture, ending: Ending) -> State {
    if ending != Ending::Reset || !vm.vm.lifecycle().load_after_reset().is_made() {
        vm.vm.end();
    }
    vm.vm.state()
}

#[test]
fn of_two_wishes_for_an_end_the_right_one_counts_in_either_order() {
    for first in WANTS {
        for second in WANTS {
            let vm = Fixture::new(1);
            first.of(&vm);
            let wish = second.of(&vm);
            let wanted = match (first, second) {
                // What it did is not forgotten.
                (Fault, _) => State::Stopped,
                // A person's last word.
                (_, Stop) | (Stop, Reset | Off | Fault) => State::Off,
                (_, Restart) | (Restart, _) => State::Loading,
                // Among the guest's own the first counts.
                (Reset, _) => State::Loading,
                (Off, _) => State::Off,
            };
            let (left, ending) = vm.vm.lifecycle().leave();
            assert_eq!(left, 0);
            let state = carried_out(&vm, ending.unwrap());
            assert_eq!(state, wanted, "{first:?}, then {second:?}");
            // A person is told where nothing came of the wish.
            let nothing = matches!(
                (first, second),
                (Fault | Off | Stop, Stop) | (Fault, Restart)
            );
            let refused = wish.map(|wish| wish == Wish::Refused);
            let person = matches!(second, Stop | Restart);
            assert_eq!(
                refused,
                person.then_some(nothing),
                "{first:?}, then {second:?}"
            );
        }
    }
}

/// The last vCPU has left, and its pCPU has not carried the ending out yet.
#[test]
fn a_wish_that_meets_an_ending_half_carried_out_is_kept_or_refused() {
    for first in WANTS {
        for second in [Stop, Restart] {
            let vm = Fixture::new(1);
            first.of(&vm);
            let (_, ending) = vm.vm.lifecycle().leave();
            let wish = second.of(&vm).unwrap();
            let (wanted, told) = match (first, second) {
                (Reset | Restart, Stop) => (State::Off, Wish::Taken),
                (Reset | Restart, _) => (State::Loading, Wish::Taken),
                (Fault, _) => (State::Stopped, Wish::Refused),
                (Off | Stop, _) => (State::Off, Wish::Refused),
            };
            assert_eq!(wish, told, "{first:?}, then {second:?}");
            let state = carried_out(&vm, ending.unwrap());
            assert_eq!(state, wanted, "{first:?}, then {second:?}");
        }
    }
}

#[test]
fn a_vm_that_resets_is_stopped_all_the_same() {
    let mut vm = Fixture::new(1);
    vm.call(0, [function::SYSTEM_RESET.into(), 0, 0, 0]);
    assert_eq!(vm.vm.stop(&vm.machine), Wish::Taken, "its vCPU is in it");
    assert_eq!(vm.vm.lifecycle().leave(), (0, Some(Ending::Off)));
}
