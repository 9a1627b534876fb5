//! vCPUs that wait in no CPU and go on when their virtual timers are due.

use crate::fake::FakeBoard;
use crate::sleep::tests::{interrupt, settings, wait_until, write_word};
use crate::{Pcpu, begin_all};
use hanok_hal::fake::{FakeBackend, VIRTUAL_TIMER};
use hanok_hal::{Backend, Entry};
use hanok_types::{GicVersion, Ipa, VcpuId, platform};
use hanok_vm::PauseChange;
use std::vec;

const FIRST: VcpuId = VcpuId::new(0);
const SECOND: VcpuId = VcpuId::new(1);

/// A VM of two vCPUs that share a pCPU by turns of 100 ticks with another VM's, which always has work. The second one waits until `alarm`, its timer's
/// interrupt enabled; the first one runs.
fn two_vcpus(alarm: u64) -> FakeBoard {
    let mut fake = FakeBoard::new(settings(), &[vec![0, 0], vec![0]], GicVersion::V3);
    let (board, pcpu) = (fake.board, &mut fake.pcpus[0]);
    begin_all(board);
    pcpu.schedule();
    let vm = &board.vms[0].vm;
    while pcpu.vcpus().filter(|vcpu| vcpu.is_on()).count() < 2 {
        run_a_tick(pcpu);
    }
    let entry = Entry {
        pc: 0x4000_0000,
        argument: 0,
    };
    vm.power(SECOND).start(entry).expect("it is off");
    vm.wake(board, SECOND, FIRST);
    run_until(pcpu, SECOND);
    // GICD_CTLR and GICR_ISENABLER0 (IHI 0069H, 12.9.4 and 12.11.21).
    write_word(pcpu, platform::GIC_DIST, 2);
    write_word(pcpu, redistributor(SECOND, 0x80), u32::MAX);
    write_word(pcpu, redistributor(SECOND, 0x100), 1 << VIRTUAL_TIMER);
    wait_until(pcpu, alarm);
    assert_ne!(resident(pcpu), (0, SECOND));
    fake
}

/// A register of the SGI frame of a vCPU's redistributor.
fn redistributor(vcpu: VcpuId, offset: u64) -> Ipa {
    let frame = platform::GIC_REDIST.get() + vcpu.index() as u64 * platform::GIC_REDIST_STRIDE;
    Ipa::new(frame + 0x1_0000 + offset)
}

/// The VM and the number of the vCPU in the CPU.
fn resident(pcpu: &mut Pcpu<FakeBackend>) -> (usize, VcpuId) {
    let vcpu = pcpu.resident().expect("a vCPU runs");
    (vcpu.unit.vm.id().index(), vcpu.core.id)
}

fn run_a_tick(pcpu: &mut Pcpu<FakeBackend>) {
    let machine = &pcpu.local.board.machine;
    machine.advance(1);
    if machine.interrupt_is_pending() {
        interrupt(pcpu);
    }
}

/// Runs until this vCPU of the first VM is in the CPU.
fn run_until(pcpu: &mut Pcpu<FakeBackend>, vcpu: VcpuId) {
    for _ in 0..100_000 {
        if resident(pcpu) == (0, vcpu) {
            return;
        }
        run_a_tick(pcpu);
    }
    panic!("vCPU {vcpu} does not come");
}

/// Whether the timer's interrupt is pending in a list register, with the physical one behind it (ICH_LR_EL2: State, HW,
/// vINTID).
fn is_shown(pcpu: &Pcpu<FakeBackend>) -> bool {
    let here = pcpu.local.board.machine.here();
    let shows = |lr: &u64| lr >> 61 == 0b011 && *lr as u32 == VIRTUAL_TIMER;
    here.lists().iter().any(shows)
}

#[test]
fn who_comes_as_its_timer_was_due_finds_the_interrupt() {
    const ALARM: u64 = 50_000;
    let mut fake = two_vcpus(ALARM);
    let pcpu = &mut fake.pcpus[0];
    while pcpu.local.board.machine.counter() < ALARM - 10 {
        run_a_tick(pcpu);
        assert_ne!(resident(pcpu), (0, SECOND), "too early");
    }
    run_until(pcpu, SECOND);
    assert!(is_shown(pcpu));
    assert!(pcpu.local.board.machine.counter() < ALARM + 250);
}

#[test]
fn a_paused_vm_is_woken_by_no_timer() {
    const ALARM: u64 = 50_000;
    let mut fake = two_vcpus(ALARM);
    let (board, pcpu) = (fake.board, &mut fake.pcpus[0]);
    let vm = &board.vms[0].vm;
    assert_eq!(vm.set_paused(board, true), PauseChange::Changed);
    while board.machine.counter() < ALARM + 1_000 {
        run_a_tick(pcpu);
    }
    assert_eq!(resident(pcpu).0, 1);
    assert_eq!(pcpu.vcpus().filter(|vcpu| vcpu.ready).count(), 1);
    assert_eq!(vm.set_paused(board, false), PauseChange::Changed);
    run_until(pcpu, SECOND);
    assert!(is_shown(pcpu));
}

/// Another vCPU of the VM may disable the interrupt after its owner has gone to sleep. Its wait then ends in vain, once,
/// as that of a WFI may.
#[test]
fn a_timer_whose_interrupt_was_disabled_meanwhile_wakes_at_most_once() {
    const ALARM: u64 = 50_000;
    let mut fake = two_vcpus(ALARM);
    let pcpu = &mut fake.pcpus[0];
    run_until(pcpu, FIRST);
    write_word(pcpu, redistributor(SECOND, 0x180), 1 << VIRTUAL_TIMER);
    run_until(pcpu, SECOND);
    assert!(!is_shown(pcpu));
    let now = pcpu.local.board.machine.counter();
    wait_until(pcpu, ALARM);
    while pcpu.local.board.machine.counter() < now + 2_000 {
        run_a_tick(pcpu);
        assert_ne!(resident(pcpu), (0, SECOND), "it wakes again and again");
    }
    // It is pending, and wakes its vCPU once it is enabled.
    run_until(pcpu, FIRST);
    write_word(pcpu, redistributor(SECOND, 0x100), 1 << VIRTUAL_TIMER);
    run_until(pcpu, SECOND);
    assert!(is_shown(pcpu));
}
