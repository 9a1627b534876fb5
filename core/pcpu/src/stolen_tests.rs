//! Stolen time, from the turns of two VMs to the page that the guest reads.

use crate::fake::FakeBoard;
use crate::{Pcpu, begin_all, guest};
use hanok_hal::Backend;
use hanok_hal::Context;
use hanok_hal::fake::{FakeBackend, Settings};
use hanok_types::{GicVersion, VcpuId, platform};
use hanok_vm::{Action, Cause, Clock, Exit, function, nanos};
use std::vec;

type Cpu = Pcpu<FakeBackend>;

/// Two VMs that take turns of 100 ticks, both in their VMs.
fn cpu() -> Cpu {
    let settings = Settings {
        cpus: 1,
        this_cpu: || 0,
        pause: || {},
        asleep: || {},
        lists: 4,
    };
    let FakeBoard {
        board, mut pcpus, ..
    } = FakeBoard::new(settings, &[vec![0], vec![0]], GicVersion::V2);
    begin_all(board);
    let mut cpu = pcpus.remove(0);
    cpu.schedule();
    while cpu.vcpus().any(|vcpu| !vcpu.is_on()) {
        pass(&mut cpu);
    }
    cpu
}

/// A tick passes in the guest.
fn pass(cpu: &mut Cpu) {
    let machine = &cpu.local.board.machine;
    machine.advance(1);
    if machine.interrupt_is_pending() {
        cpu.resident().expect("a vCPU runs").context.depart();
        cpu.local.taken = cpu.local.board.machine.acknowledge();
        let after = cpu.interrupted();
        cpu.finish(Cause::Interrupt, after);
    }
}

fn resident(cpu: &mut Cpu) -> usize {
    let vcpu = cpu.resident().expect("a vCPU runs");
    vcpu.unit.vm.id().index()
}

fn until(cpu: &mut Cpu, vm: usize) {
    while resident(cpu) != vm {
        pass(cpu);
    }
}

/// What the first vCPU of the VM reads, in nanoseconds.
fn told(cpu: &Cpu, vm: usize) -> u64 {
    let page = cpu.local.board.vms[vm].vm.stolen_page();
    page.expect("a page").stolen(VcpuId::new(0))
}

#[test]
fn a_guest_that_asked_is_told_of_its_neighbours_turns() {
    let mut cpu = cpu();
    until(&mut cpu, 1);
    until(&mut cpu, 0);
    let (Some(vcpu), local) = cpu.resident_and_local() else {
        panic!("no vCPU is resident");
    };
    vcpu.context.regs_mut().set(0, function::PV_TIME_ST.into());
    let mut lists = local.board.machine.lists();
    let action = guest(vcpu, local.board, &mut lists).handle(Exit::Hypercall);
    assert_eq!(action, Action::Resume);
    assert_eq!(vcpu.context.regs().get(0), platform::STOLEN.get());
    assert_eq!(told(&cpu, 0), 0, "what was before is not told");
    let frequency = cpu.local.board.counter_frequency();
    let began = cpu.local.board.counter();
    for turn in 1..=5 {
        until(&mut cpu, 1);
        until(&mut cpu, 0);
        let passed = nanos(cpu.local.board.counter() - began, frequency);
        let told = told(&cpu, 0);
        // Every second turn is the neighbour's.
        assert!(told >= nanos(turn * 100, frequency), "{told} in {passed}");
        assert!(told <= passed * 6 / 10, "{told} in {passed}");
    }
    assert_eq!(told(&cpu, 1), 0, "who has not asked is not told");
}
