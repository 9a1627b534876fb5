use crate::begin_all;
use crate::fake::FakeBoard;
use crate::sleep::tests::{settings, write_word};
use hanok_hal::fake::Settings;
use hanok_types::{GicVersion, Ipa, platform};
use hanok_vm::Ending;
use std::cell::Cell;
use std::vec;

const CHANNEL: u64 = platform::CHANNEL.get();
const STATE: Ipa = Ipa::new(CHANNEL + 0x10);
const RING: Ipa = Ipa::new(CHANNEL + 0x14);
const ENABLE: Ipa = Ipa::new(CHANNEL + 0x1c);

std::thread_local! {
    /// The CPU that the test is on.
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// The VM of CPU `cpu` stores a word.
fn write(fake: &mut FakeBoard, cpu: usize, at: Ipa, value: u32) {
    CPU.set(cpu);
    write_word(&mut fake.pcpus[cpu], at, value);
}

/// Two VMs on a channel, each on a CPU of its own, whose vCPUs run. The second one's interrupt is enabled.
fn two() -> FakeBoard {
    let settings = Settings {
        cpus: 2,
        this_cpu: || CPU.get(),
        ..settings()
    };
    let mut fake = FakeBoard::with_channel(settings, &[vec![0], vec![1]], GicVersion::V3);
    begin_all(fake.board);
    for (cpu, pcpu) in fake.pcpus.iter_mut().enumerate() {
        CPU.set(cpu);
        pcpu.schedule();
    }
    let line = platform::CHANNEL_IRQ.get();
    let enables = platform::GIC_DIST.get() + 0x100 + u64::from(line / 32) * 4;
    // GICD_CTLR: group 1 (IHI 0069, 12.9.4).
    write(&mut fake, 1, platform::GIC_DIST, 2);
    let group = platform::GIC_DIST.get() + 0x80 + u64::from(line / 32) * 4;
    write(&mut fake, 1, Ipa::new(group), u32::MAX);
    write(&mut fake, 1, Ipa::new(enables), 1 << (line % 32));
    write(&mut fake, 1, ENABLE, u32::MAX);
    fake
}

/// How often the second CPU was kicked since the last call.
fn kicks(fake: &FakeBoard) -> bool {
    fake.board.vms[1]
        .vm
        .requests(hanok_types::VcpuId::new(0))
        .take_interrupts()
}

#[test]
fn a_peer_is_told_once_however_often_it_is_rung() {
    let mut fake = two();
    kicks(&fake);
    write(&mut fake, 0, RING, 2);
    assert!(kicks(&fake), "the first ring");
    for _ in 0..100 {
        write(&mut fake, 0, RING, u32::MAX);
        write(&mut fake, 0, RING, 2);
    }
    assert!(!kicks(&fake), "it is pending already");
}

#[test]
fn a_peer_that_does_not_run_is_not_rung() {
    let mut fake = two();
    kicks(&fake);
    assert!(fake.board.vms[1].vm.lifecycle().begin_end(Ending::Off) != hanok_vm::Wish::Refused);
    write(&mut fake, 0, RING, 2);
    assert!(!kicks(&fake));
}

#[test]
fn the_end_of_a_vm_is_told() {
    let mut fake = two();
    write(&mut fake, 0, STATE, 5);
    kicks(&fake);
    // Its peer has acknowledged that.
    write(&mut fake, 1, Ipa::new(CHANNEL + 0x18), u32::MAX);
    kicks(&fake);
    fake.board.vms[0].vm.leave_channels(fake.board);
    assert!(kicks(&fake));
}
