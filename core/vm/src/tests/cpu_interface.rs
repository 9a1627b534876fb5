//! A guest of a GICv2 on CPUs without a virtual CPU interface and without a virtual timer for guests.

use super::{load, store};
use crate::fake::{ENTRY, FakeMachine, Fixture};
use crate::{Action, Entry, Guest, GuestTimer, TimerRegister};
use hanok_types::{Deadline, GicVersion, IntId, VcpuId, Width, platform};
use hanok_vgic::{InterruptInput, SoftwareInterface, SoftwareInterfaceState};
use std::vec::Vec;

const GICD: u64 = platform::GIC_DIST.get();
const GICC: u64 = platform::GIC_V2_CPU.get();
const CTLR: u64 = 0x00;
const PMR: u64 = 0x04;
const IAR: u64 = 0x0c;
const EOIR: u64 = 0x10;
const RPR: u64 = 0x14;
const IIDR: u64 = 0xfc;
const VIRTUAL: u32 = platform::TIMER_VIRTUAL_IRQ.get();
const PHYSICAL: u32 = platform::TIMER_PHYSICAL_IRQ.get();
const NONE: u32 = 1023;

/// A VM whose vCPUs all run, each in an interface of its own, with both timers' interrupts, all SGIs and SPIs
/// enabled, the SPIs at vCPU 0.
struct Soft {
    vm: Fixture,
    interfaces: Vec<SoftwareInterface>,
}

impl Soft {
    fn new(vcpus: u8) -> Self {
        let vm = Fixture::with_gic(vcpus, GicVersion::V2).with_software_interface();
        let interface = |_| SoftwareInterface::new(GicVersion::V2);
        let interfaces = (0..vcpus).map(interface).collect();
        let mut soft = Self { vm, interfaces };
        for n in 1..vcpus {
            let entry = Entry {
                pc: ENTRY,
                argument: 0,
            };
            soft.vm.vm.power(VcpuId::new(n)).start(entry).unwrap();
            soft.vm.come_in(n);
        }
        soft.put(0, GICD, 1);
        for n in 0..usize::from(vcpus) {
            soft.put(n, GICD + 0x100, 1 << VIRTUAL | 1 << PHYSICAL);
            soft.put(n, GICC + PMR, 0xff);
            soft.put(n, GICC + CTLR, 1);
        }
        for spi in (32..64).step_by(4) {
            soft.put(0, GICD + 0x800 + spi, 0x0101_0101);
        }
        soft.put(0, GICD + 0x104, u32::MAX);
        soft.settle();
        soft
    }

    fn guest(&mut self, n: usize) -> Guest<'_, FakeMachine, SoftwareInterface> {
        Guest {
            vm: &self.vm.vm,
            vcpu: &mut self.vm.vcpus[n],
            regs: &mut self.vm.regs[n],
            machine: &self.vm.machine,
            lists: &mut self.interfaces[n],
        }
    }

    fn settle(&mut self) {
        loop {
            let kicked = self.vm.machine.kicked();
            if kicked.is_empty() {
                return;
            }
            for n in kicked {
                self.guest(n).refresh();
            }
        }
    }

    fn put(&mut self, n: usize, at: u64, value: u32) {
        self.vm.regs[n].x[9] = value.into();
        let action = self.guest(n).handle(store(at, Width::Word, 9));
        assert_eq!(action, Action::Next);
    }

    fn get(&mut self, n: usize, at: u64) -> u32 {
        let action = self.guest(n).handle(load(at, Width::Word, 9));
        assert_eq!(action, Action::Next);
        self.vm.regs[n].x[9] as u32
    }

    /// vCPU `n` sets one of its timers.
    fn arm(&mut self, n: usize, timer: GuestTimer, at: u64) {
        let mut guest = self.guest(n);
        guest.write_timer(TimerRegister::CompareValue(timer), at);
        guest.write_timer(TimerRegister::Control(timer), 1);
    }
}

#[test]
fn an_emulated_virtual_timer_interrupts_again_and_again() {
    for (timer, id) in [
        (GuestTimer::Virtual, VIRTUAL),
        (GuestTimer::Physical, PHYSICAL),
    ] {
        let mut soft = Soft::new(2);
        for at in [5000, 6000, 7000] {
            soft.arm(1, timer, at);
            assert!(core::mem::take(&mut soft.vm.vcpus[1].rearm));
            assert_eq!(soft.guest(1).deadline(), Some(at));
            assert_eq!(soft.interfaces[1].input(), None);
            soft.vm.machine.now.set(at);
            soft.guest(1).refresh();
            assert_eq!(soft.interfaces[1].input(), Some(InterruptInput::Irq));
            assert_eq!(soft.get(1, GICC + IAR), id);
            assert_eq!(soft.interfaces[1].input(), None);
            assert_eq!(soft.get(1, GICC + RPR), 0);
            // Its line is still high: it comes again at once.
            soft.put(1, GICC + EOIR, id);
            assert_eq!(soft.get(1, GICC + IAR), id);
            let control = TimerRegister::Control(timer);
            soft.guest(1).write_timer(control, 0);
            soft.put(1, GICC + EOIR, id);
            assert_eq!(soft.get(1, GICC + IAR), NONE);
            assert_eq!(soft.get(1, GICC + RPR), 0xff);
        }
        assert!(soft.vm.machine.kicked().is_empty(), "nobody else's affair");
        assert_eq!(soft.interfaces[0].input(), None);
    }
}

#[test]
fn both_timers_have_registers_and_lines_of_their_own() {
    use GuestTimer::{Physical, Virtual};
    let mut soft = Soft::new(1);
    soft.arm(0, Virtual, 9000);
    soft.arm(0, Physical, 8000);
    assert_eq!(soft.guest(0).deadline(), Some(8000));
    soft.vm.machine.now.set(8500);
    let registers = [
        (TimerRegister::Count, 8500),
        (TimerRegister::Frequency, crate::fake::FREQUENCY),
        (TimerRegister::TimerValue(Virtual), 500),
        (TimerRegister::TimerValue(Physical), 0xffff_fe0c),
        (TimerRegister::CompareValue(Virtual), 9000),
        (TimerRegister::Control(Virtual), 1),
        (TimerRegister::Control(Physical), 5),
    ];
    for (register, value) in registers {
        assert_eq!(soft.guest(0).read_timer(register), value, "{register:?}");
    }
    // The guest has read that it is due.
    assert_eq!(soft.get(0, GICC + IAR), PHYSICAL);
    assert_eq!(soft.guest(0).deadline(), Some(9000));
    soft.guest(0).write_timer(TimerRegister::Count, 0);
    soft.guest(0)
        .write_timer(TimerRegister::TimerValue(Virtual), 100);
    assert_eq!(soft.guest(0).deadline(), Some(8600));
}

#[test]
fn a_vcpu_that_is_off_leaves_no_line_high() {
    let mut soft = Soft::new(2);
    let vcpu = VcpuId::new(1);
    for timer in [GuestTimer::Virtual, GuestTimer::Physical] {
        soft.arm(1, timer, 2000);
    }
    soft.vm.machine.now.set(2000);
    soft.guest(1).refresh();
    let (vm, machine) = (&soft.vm.vm, &soft.vm.machine);
    vm.take_back_interrupts(machine, vcpu, &mut soft.interfaces[1]);
    soft.vm.vcpus[1] = crate::Vcpu::new(vcpu);
    assert!(!vm.interrupt_waits_absent(machine, vcpu));
}

#[test]
fn timers_wake_a_vcpu_that_waits() {
    let mut soft = Soft::new(2);
    let vcpu = VcpuId::new(1);
    soft.arm(1, GuestTimer::Virtual, 2000);
    let waits = |soft: &mut Soft| {
        let (vm, machine) = (&soft.vm.vm, &soft.vm.machine);
        vm.interrupt_waits(machine, vcpu, &mut soft.interfaces[1])
    };
    assert!(soft.vm.vm.nothing_is_pending(vcpu, &soft.interfaces[1]));
    assert!(!waits(&mut soft));
    // Masked by GICC_PMR, it wakes, too, as behind an interface in a CPU.
    soft.put(1, GICC + PMR, 0);
    soft.vm.machine.now.set(2000);
    soft.guest(1).refresh();
    assert_eq!(soft.interfaces[1].input(), None);
    assert!(!soft.vm.vm.nothing_is_pending(vcpu, &soft.interfaces[1]));
    assert!(waits(&mut soft));
    // The same for one in no pCPU.
    let mut soft = Soft::new(2);
    soft.arm(1, GuestTimer::Virtual, 2000);
    let (vm, machine) = (&soft.vm.vm, &soft.vm.machine);
    let _ = vm.switch_out(machine, vcpu, &mut soft.interfaces[1]);
    let mut state = SoftwareInterfaceState::default();
    soft.interfaces[1].save(&mut state);
    for (now, due) in [(1999, false), (2000, true)] {
        machine.now.set(now);
        vm.timers_absent(machine, &mut soft.vm.vcpus[1]);
        assert_eq!(vm.interrupt_waits_absent(machine, vcpu), due, "{now}");
    }
    assert_eq!(vm.deadline(&soft.vm.vcpus[1]), Deadline::NEVER);
    let _ = vm.switch_in(vcpu);
    soft.interfaces[1].load(&state);
    soft.guest(1).refresh();
    assert_eq!(soft.get(1, GICC + IAR), VIRTUAL);
}

/// An SGI that was posted is listed by any access to the interface, even before the kick that was sent with it.
#[test]
fn an_sgi_comes_with_its_sender() {
    let mut soft = Soft::new(2);
    soft.put(1, GICD + 0xf00, 1 << 16 | 3);
    assert_eq!(soft.vm.machine.kicked(), [0]);
    assert_eq!(soft.get(0, GICC + IAR), NONE);
    assert_eq!(soft.interfaces[0].input(), Some(InterruptInput::Irq));
    assert_eq!(soft.get(0, GICC + IAR), 1 << 10 | 3);
    soft.put(0, GICC + EOIR, 1 << 10 | 3);
    assert_eq!(soft.get(0, GICC + IAR), NONE);
}

/// The update of the list registers that a guest's access needs is left to an exit of its own, and the guest may make
/// further accesses before: what it wrote holds.
#[test]
fn what_a_guest_writes_holds_although_the_kick_comes_late() {
    let (bit, word) = (1 << 8, 4);
    let [set_pending, clear_pending] = [0x200, 0x280].map(|register| GICD + register + word);
    let [set_active, clear_active] = [0x300, 0x380].map(|register| GICD + register + word);
    for reads in 0..4 {
        let mut soft = Soft::new(1);
        soft.put(0, set_active, bit);
        soft.put(0, set_pending, bit);
        soft.settle();
        assert_eq!(soft.interfaces[0].input(), None, "it is active");
        soft.put(0, clear_active, bit);
        for _ in 0..reads {
            assert_eq!(soft.get(0, set_active) & bit, 0);
        }
        soft.settle();
        assert_eq!(soft.interfaces[0].input(), Some(InterruptInput::Irq));
        soft.put(0, clear_pending, bit);
        for _ in 0..reads {
            assert_eq!(soft.get(0, set_pending) & bit, 0);
        }
        soft.settle();
        assert_eq!(soft.interfaces[0].input(), None, "after {reads} reads");
    }
}

/// With the interrupt of a real device, its end deactivates the physical one, alone or among others.
#[test]
fn the_end_of_a_device_s_interrupt_is_one_on_the_board() {
    let (device, spi) = (IntId::new(72), IntId::new(40));
    for others in [0, 1, 20] {
        let mut soft = Soft::new(1);
        let ids: Vec<_> = (41..41 + others).collect();
        for id in &ids {
            soft.put(0, GICD + 0x204, 1 << (id - 32));
        }
        let (vm, machine) = (&soft.vm.vm, &soft.vm.machine);
        vm.device_interrupt(machine, spi, device);
        soft.guest(0).refresh();
        let mut taken = Vec::new();
        loop {
            soft.settle();
            let id = soft.get(0, GICC + IAR);
            if id == NONE {
                break;
            }
            assert!(soft.vm.machine.deactivated.borrow().is_empty() || taken.contains(&40));
            soft.put(0, GICC + EOIR, id);
            taken.push(id);
        }
        taken.sort_unstable();
        assert_eq!(taken, (40..41 + others).collect::<Vec<_>>());
        assert_eq!(soft.vm.machine.deactivated.take(), [device]);
    }
}

/// More SPIs than there are list registers come one after another, without a maintenance interrupt.
#[test]
fn many_interrupts_come_through() {
    let mut soft = Soft::new(1);
    for id in 33..64_u64 {
        soft.vm.regs[0].x[9] = (63 - id) << 3;
        let priority = store(GICD + 0x400 + id, Width::Byte, 9);
        assert_eq!(soft.guest(0).handle(priority), Action::Next);
    }
    soft.put(0, GICD + 0x204, !1);
    for id in (33..64).rev() {
        soft.settle();
        assert_eq!(soft.get(0, GICC + IAR), id);
        soft.put(0, GICC + EOIR, id);
    }
    assert_eq!(soft.get(0, GICC + IAR), NONE);
}

#[test]
fn what_the_frame_does_not_have_reads_as_zero_and_is_counted() {
    let mut soft = Soft::new(1);
    let (_, before) = soft.vm.vm.unhandled_accesses();
    assert_eq!(soft.get(0, GICC + IIDR), 0x0002_043b);
    assert_eq!(soft.get(0, GICC + EOIR), 0, "write-only");
    soft.put(0, GICC + RPR, 5);
    assert_eq!(soft.vm.vm.unhandled_accesses().1, before);
    for (at, width) in [
        (0x2c, Width::Word),
        (0x1ffc, Width::Word),
        (IIDR, Width::Byte),
        (IIDR, Width::Half),
        (PMR + 1, Width::Byte),
        (PMR, Width::Double),
    ] {
        soft.vm.regs[0].x[9] = 0x80;
        let written = soft.guest(0).handle(store(GICC + at, width, 9));
        let read = soft.guest(0).handle(load(GICC + at, width, 9));
        assert_eq!((written, read), (Action::Next, Action::Next));
        assert_eq!(soft.vm.regs[0].x[9], 0, "{at:#x}");
    }
    assert_eq!(soft.get(0, GICC + PMR), 0xf8);
    assert_eq!(soft.vm.vm.unhandled_accesses(), (0, before + 12));
}
