//! A pCPU with as many vCPUs as it can have, and a board with as many VMs: what all of them need at the same
//! time is done in pieces, with interrupts served in between.

use crate::fake::FakeBoard;
use crate::{AdoptError, Pcpu, Vcpu, begin_all};
use hanok_hal::fake::{FakeBackend, FakeContext, Settings};
use hanok_hal::sync::atomic::Ordering;
use hanok_hal::{Backend, Context, Entry};
use hanok_sched::{EntitySet, MAX_ENTITIES};
use hanok_trace::{Event, recorded};
use hanok_types::{Deadline, GicVersion, MAX_VMS, VcpuId};
use hanok_vm::{Cause, Granted, PauseChange};
use std::boxed::Box;
use std::format;
use std::vec;
use std::vec::Vec;

/// An interrupt of a device that nobody has.
const DEVICE: u32 = 40;
/// More of anything than one piece of work has.
const MANY: usize = 16;

fn settings() -> Settings {
    Settings {
        cpus: 1,
        this_cpu: || 0,
        pause: || {},
        asleep: || {},
        lists: 4,
    }
}

fn interrupt(pcpu: &mut Pcpu<FakeBackend>) {
    pcpu.resident().expect("a vCPU runs").context.depart();
    pcpu.local.taken = pcpu.local.board.machine.acknowledge();
    let after = pcpu.interrupted();
    pcpu.finish(Cause::Interrupt, after);
}

fn count(mut set: EntitySet) -> usize {
    core::iter::from_fn(|| set.take_first()).count()
}

/// A VM of 63 vCPUs and one of a single one on a pCPU. All of them are on and have work.
fn crowded() -> FakeBoard {
    let vms = [vec![0; MAX_ENTITIES - 1], vec![0]];
    let mut fake = FakeBoard::new(settings(), &vms, GicVersion::V3);
    let (board, pcpu) = (fake.board, &mut fake.pcpus[0]);
    begin_all(board);
    pcpu.schedule();
    let vm = &board.vms[0].vm;
    while !vm.lifecycle().is_running() {
        run_a_tick(pcpu);
    }
    for vcpu in (1..MAX_ENTITIES as u8 - 1).map(VcpuId::new) {
        let entry = Entry {
            pc: 0x4000_0000,
            argument: 0,
        };
        vm.power(vcpu).start(entry).expect("it is off");
        vm.wake(board, vcpu, VcpuId::new(0));
    }
    while pcpu.vcpus().any(|vcpu| !vcpu.is_on()) {
        run_a_tick(pcpu);
    }
    fake
}

fn run_a_tick(pcpu: &mut Pcpu<FakeBackend>) {
    let machine = &pcpu.local.board.machine;
    machine.advance(1);
    if machine.interrupt_is_pending() {
        interrupt(pcpu);
    }
}

#[test]
fn interrupts_are_served_while_all_vcpus_of_a_vm_stop_for_a_pause() {
    let mut fake = crowded();
    let (board, pcpu) = (fake.board, &mut fake.pcpus[0]);
    recorded(&board.machine);
    assert_eq!(
        board.vms[0].vm.set_paused(board, true),
        PauseChange::Changed
    );
    board.machine.raise(0, DEVICE);
    interrupt(pcpu);
    let events = recorded(&board.machine);
    let events: Vec<_> = events.into_iter().map(|(_, _, event)| event).collect();
    let fired = |event: &Event| matches!(event, Event::Interrupt(id) if id.get() == DEVICE);
    let at = events.iter().position(fired).expect("it was served");
    let stopped = |events: &[Event]| events.iter().filter(|one| **one == Event::Block).count();
    assert_eq!(stopped(&events), MAX_ENTITIES - 1);
    assert!(
        stopped(&events[..at]) <= MANY,
        "{} before",
        stopped(&events[..at])
    );
}

#[test]
fn alarms_of_all_vcpus_at_one_moment_are_taken_in_pieces() {
    const MOMENT: u64 = 1_000_000;
    let vms = [vec![0; MAX_ENTITIES]];
    let mut fake = FakeBoard::new(settings(), &vms, GicVersion::V3);
    let Pcpu { local, vcpus } = &mut fake.pcpus[0];
    for vcpu in vcpus.iter_mut().flatten() {
        (vcpu.on, vcpu.waiting, vcpu.wake_at) = (true, true, Deadline::at(MOMENT));
        vcpu.core.enters_at_once = true;
        local.set_alarm(vcpu);
    }
    assert!(local.take_updates(MOMENT - 1).is_empty());
    let mut taken = EntitySet::EMPTY;
    while count(taken) < MAX_ENTITIES {
        assert!(
            local.first_alarm().has_come(MOMENT),
            "it ends the next turn at once"
        );
        let some = local.take_updates(MOMENT);
        assert!((1..=MANY).contains(&count(some)), "{} at once", count(some));
        taken = taken.union(some);
    }
    assert_eq!(local.first_alarm(), Deadline::NEVER);
}

/// Whatever the prompt is asked, each exit says one line of the answer, and all lines come.
#[test]
fn a_command_about_all_vms_is_done_a_line_at_a_time() {
    for (command, last) in [("list", "waiting"), ("stats", "interrupt controller")] {
        let vms = vec![vec![0]; MAX_VMS];
        let fake = FakeBoard::new(settings(), &vms, GicVersion::V3);
        let (board, wire) = (fake.board, fake.wire);
        for unit in board.vms {
            unit.vm.counters(VcpuId::new(0)).count(Cause::Hypercall);
        }
        wire.send(b"\x1d");
        wire.send(command.as_bytes());
        wire.send(b"\r");
        let lines = || wire.text().lines().count();
        let typed = || !wire.typed.lock().expect("nobody panicked").is_empty();
        while typed() || wire.called_when_writable.load(Ordering::SeqCst) {
            let before = lines();
            let _ = board.serve_console();
            // The typed line ends, too, or the next prompt comes.
            assert!(lines() <= before + 3, "{} lines at once", lines() - before);
        }
        let text = wire.text();
        for vm in 0..MAX_VMS {
            let name = format!("hanok: vm{vm}");
            let of_vm = |line: &str| {
                let rest = line.strip_prefix(&name);
                rest.is_some_and(|rest| rest.starts_with([' ', ':']) && rest.contains(last))
            };
            let said = text.lines().filter(|line| of_vm(line)).count();
            assert_eq!(said, 1, "{command}: {name}: {text}");
        }
        assert!(text.ends_with("hanok> "), "{command}: {text}");
    }
}

/// A line that takes a few bytes at a time: nothing is lost, and keys that wait make no interrupts.
#[test]
fn a_slow_line_paces_a_command_about_all_vms() {
    let vms = vec![vec![0]; MAX_VMS];
    let fake = FakeBoard::new(settings(), &vms, GicVersion::V3);
    let (board, wire) = (fake.board, fake.wire);
    wire.send(b"\x1dlist\rstats vm63\r");
    let (mut exits, mut with_keys) = (0, 0);
    loop {
        *wire.room.lock().expect("nobody panicked") = Some(8);
        let keys = !wire.typed.lock().expect("nobody panicked").is_empty();
        let heard = keys && !wire.deaf.load(Ordering::SeqCst);
        if !heard && !wire.called_when_writable.load(Ordering::SeqCst) {
            break;
        }
        let _ = board.serve_console();
        exits += 1;
        with_keys += usize::from(heard);
    }
    let text = wire.text();
    for vm in 0..MAX_VMS {
        assert!(text.contains(&format!("\nhanok: vm{vm} ")), "{vm}: {text}");
    }
    assert!(text.contains("vm63: 0 accesses"), "{text}");
    assert!(!text.contains("lost"), "{text}");
    assert!(with_keys < 5, "{with_keys} interrupts of keys");
    assert!(
        exits <= text.len() / 8 + 100,
        "{exits} interrupts, {} bytes",
        text.len()
    );
}

/// What is typed while a command's lines are said is not lost, and comes after them.
#[test]
fn a_command_that_is_typed_during_another_one_comes_after_it() {
    let vms = vec![vec![0]; MAX_VMS];
    let fake = FakeBoard::new(settings(), &vms, GicVersion::V3);
    let (board, wire) = (fake.board, fake.wire);
    wire.send(b"\x1dlist\rstats vm63\r");
    let typed = || !wire.typed.lock().expect("nobody panicked").is_empty();
    while typed() || wire.called_when_writable.load(Ordering::SeqCst) {
        let _ = board.serve_console();
    }
    let text = wire.text();
    let place = |what: &str| text.rfind(what).expect(what);
    assert!(place("hanok: vm63 ") < place("vm63: 0 accesses"), "{text}");
    assert!(text.ends_with("hanok> "), "{text}");
}

#[test]
fn a_pcpu_takes_64_vcpus_and_no_more() {
    let vms = [vec![0; MAX_ENTITIES]];
    let mut fake = FakeBoard::new(settings(), &vms, GicVersion::V3);
    let pcpu = &mut fake.pcpus[0];
    assert_eq!(pcpu.vcpus().last().expect("64").entity.index(), 63);
    let core = hanok_vm::Vcpu::new(VcpuId::new(63));
    let vcpu = Vcpu::new(&fake.board.vms[0], core, FakeContext::default());
    let refused = pcpu.adopt(Box::leak(Box::new(vcpu)), Granted::default());
    assert_eq!(refused, Err(AdoptError::NoRoom));
}

/// Input of the last VM, which does not read it, waits by a bit of its own and goes to no other VM.
#[test]
fn bytes_for_the_last_vm_wait_for_it_alone() {
    let vms = vec![vec![0]; MAX_VMS];
    let fake = FakeBoard::new(settings(), &vms, GicVersion::V3);
    let (board, wire) = (fake.board, fake.wire);
    wire.send(b"\x1dattach vm63\r");
    wire.send(&[b'x'; 100]);
    while !wire.typed.lock().expect("nobody panicked").is_empty() {
        let _ = board.serve_console();
    }
    assert_eq!(board.input_waits.load(Ordering::SeqCst), 1 << 63);
    let has_input = |vm| board.console.lock().has_input(hanok_types::VmId::new(vm));
    let waiting: Vec<u8> = (0..MAX_VMS as u8).filter(|vm| has_input(*vm)).collect();
    assert_eq!(waiting, [63]);
}
