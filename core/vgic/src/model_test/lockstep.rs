//! The software CPU interface against list registers in a CPU: both get the same events, and the guests get
//! the same answers.

use super::cpu::{Cpu, Taken};
use super::{CPUS, HARDWARE, config, ids, version};
use crate::{
    Frame, Group, GuestInterface, InterfaceRegister, Lr, MAX_LRS, SgiRegister, SoftwareInterface,
    SoftwareInterfaceState, Vgic,
};
use hanok_types::{GicVersion, IntId, VcpuId, Width};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

/// An event for both.
#[derive(Clone, Debug)]
enum LockstepEvent {
    Enable(usize, u32, bool),
    Pend(usize, u32, bool),
    Priority(usize, u32, u8),
    Line(usize, u32, bool),
    Fire(usize, u32),
    Sgi(usize, u16, u32),
    Route(u32, usize),
    Acknowledge(usize),
    End(usize),
    Deactivate(usize, usize),
    Leave(usize),
    /// Two vCPUs change places: each goes to the other's pCPU.
    Exchange(usize, usize),
}

fn step() -> impl Strategy<Value = LockstepEvent> {
    let cpu = || 0..CPUS;
    let id = || proptest::sample::select(ids());
    let spi = proptest::sample::select(super::SPIS.to_vec());
    let hardware = proptest::sample::select(HARDWARE.to_vec());
    prop_oneof![
        1 => (cpu(), id(), any::<bool>()).prop_map(|(c, i, on)| LockstepEvent::Enable(c, i, on)),
        3 => (cpu(), id(), any::<bool>()).prop_map(|(c, i, on)| LockstepEvent::Pend(c, i, on)),
        2 => (cpu(), id(), any::<u8>()).prop_map(|(c, i, p)| LockstepEvent::Priority(c, i, p & 0xf0)),
        4 => (cpu(), id(), any::<bool>()).prop_map(|(c, i, high)| LockstepEvent::Line(c, i, high)),
        2 => (cpu(), hardware).prop_map(|(c, i)| LockstepEvent::Fire(c, i)),
        4 => (cpu(), any::<u16>(), 1..3u32).prop_map(|(c, t, i)| LockstepEvent::Sgi(c, t, i)),
        1 => (spi, cpu()).prop_map(|(i, c)| LockstepEvent::Route(i, c)),
        8 => cpu().prop_map(LockstepEvent::Acknowledge),
        7 => cpu().prop_map(LockstepEvent::End),
        4 => (cpu(), any::<usize>()).prop_map(|(c, n)| LockstepEvent::Deactivate(c, n)),
        1 => cpu().prop_map(LockstepEvent::Leave),
        1 => (cpu(), 1..CPUS).prop_map(|(c, n)| LockstepEvent::Exchange(c, (c + n) % CPUS)),
    ]
}

fn vcpu(cpu: usize) -> VcpuId {
    VcpuId::new(cpu as u8)
}

/// A VM in the CPU's own list registers, and the same VM on interfaces in software.
struct Pair {
    version: GicVersion,
    split: bool,
    listed: Vgic,
    cpus: Vec<Cpu>,
    soft: Vgic,
    interfaces: Vec<SoftwareInterface>,
    /// By vCPU, the group of each acknowledged interrupt at its acknowledgement.
    groups: Vec<Vec<(u32, Group)>>,
}

impl Pair {
    fn new(version: GicVersion, split: bool) -> Self {
        let new = || Vgic::new(version, CPUS, 5);
        let mut pair = Self {
            version,
            split,
            listed: new(),
            cpus: (0..CPUS).map(|_| Cpu::new(MAX_LRS, version)).collect(),
            soft: new(),
            interfaces: (0..CPUS).map(|_| SoftwareInterface::new(version)).collect(),
            groups: vec![Vec::new(); CPUS],
        };
        pair.write(0, 32, 0, Width::Word, 3);
        for cpu in 0..CPUS {
            pair.turn_on(cpu);
            for id in ids() {
                let word = u64::from(id / 32) * 4;
                pair.write(cpu, id, 0x080 + word, Width::Word, 0xaaaa_aaaa);
                pair.write(cpu, id, 0x100 + word, Width::Word, 1 << (id % 32));
                let priority = u64::from(id % 7) << 5;
                pair.write(cpu, id, 0x400 + u64::from(id), Width::Byte, priority);
            }
        }
        (super::SPIS.into_iter()).for_each(|id| pair.route(id, id as usize % CPUS));
        pair.bring_up_to_date();
        pair
    }

    /// Enables all interrupts for a vCPU, as a guest does.
    fn turn_on(&mut self, cpu: usize) {
        use InterfaceRegister::*;
        let control = match self.version {
            GicVersion::V2 => 0b111 | u32::from(self.split) << 9,
            GicVersion::V3 => u32::from(self.split) << 1,
        };
        let (interface, vgic) = (&mut self.interfaces[cpu], &mut self.soft);
        for (register, value) in [
            (Control, control),
            (PriorityMask, 0xff),
            (BinaryPoint(Group::Zero), 0),
            (BinaryPoint(Group::One), 0),
            (GroupEnable(Group::Zero), 1),
            (GroupEnable(Group::One), 1),
        ] {
            let _ = interface
                .write_register(register, value, vgic, vcpu(cpu))
                .unwrap();
        }
    }

    /// A write to the register of the distributor, or of a redistributor, that has `id`.
    fn write(&mut self, cpu: usize, id: u32, offset: u64, width: Width, value: u64) {
        let (frame, base) = match self.version {
            GicVersion::V3 if id < 32 => (Frame::Redist(vcpu(cpu)), 0x1_0000),
            version => (Frame::distributor(version, vcpu(cpu)), 0),
        };
        let kicks = [&mut self.listed, &mut self.soft]
            .map(|vgic| vgic.write(frame, base + offset, width, value));
        assert_eq!(kicks[0], kicks[1]);
    }

    fn bit(&mut self, cpu: usize, id: u32, base: u64) {
        let offset = base + u64::from(id / 32) * 4;
        self.write(cpu, id, offset, Width::Word, 1 << (id % 32));
    }

    fn route(&mut self, id: u32, to: usize) {
        match self.version {
            GicVersion::V2 => self.write(0, id, 0x800 + u64::from(id), Width::Byte, 1 << to),
            GicVersion::V3 => {
                self.write(0, id, 0x6000 + u64::from(id) * 8, Width::Double, to as u64);
            }
        }
    }

    /// Does what a hypervisor does before a vCPU goes back to its guest.
    fn bring_up_to_date(&mut self) {
        for _ in 0..CPUS + 1 {
            for cpu in 0..CPUS {
                let lists = &mut self.cpus[cpu];
                let _ = self.listed.enter(vcpu(cpu), lists);
                for _ in 0..MAX_LRS {
                    if lists.maintenance() {
                        let _ = self.listed.maintenance(vcpu(cpu), lists);
                    }
                }
                let _ = self.interfaces[cpu].refresh(&mut self.soft, vcpu(cpu));
            }
        }
    }

    fn step(&mut self, step: LockstepEvent) {
        match step {
            LockstepEvent::Enable(cpu, id, on) => self.bit(cpu, id, if on { 0x100 } else { 0x180 }),
            LockstepEvent::Pend(cpu, id, on) => self.bit(cpu, id, if on { 0x200 } else { 0x280 }),
            LockstepEvent::Priority(cpu, id, priority) => {
                let offset = 0x400 + u64::from(id);
                self.write(cpu, id, offset, Width::Byte, priority.into());
            }
            LockstepEvent::Line(cpu, id, high) => self.both(|vgic| {
                let _ = vgic.set_level(Some(vcpu(cpu)), IntId::new(id), high);
            }),
            LockstepEvent::Fire(cpu, id) => {
                let id = IntId::new(id);
                if !self.listed.holds_hardware(vcpu(cpu), id) {
                    self.both(|vgic| {
                        let _ = vgic.inject_hardware(vcpu(cpu), id, id);
                    });
                }
            }
            LockstepEvent::Sgi(cpu, targets, id) => self.sgi(cpu, targets, id),
            LockstepEvent::Route(id, to) => self.route(id, to),
            LockstepEvent::Acknowledge(cpu) => self.acknowledge(cpu),
            LockstepEvent::End(cpu) => self.end(cpu),
            LockstepEvent::Deactivate(cpu, which) => self.deactivate(cpu, which),
            LockstepEvent::Leave(cpu) => self.leave(cpu),
            LockstepEvent::Exchange(cpu, other) => self.exchange(cpu, other),
        }
        self.bring_up_to_date();
        self.check();
    }

    fn leave(&mut self, cpu: usize) {
        let _ = self.listed.leave(vcpu(cpu), &mut self.cpus[cpu]);
        let _ = self.soft.leave(vcpu(cpu), &mut self.interfaces[cpu]);
    }

    /// Takes a vCPU out of its pCPU, and leaves nothing of it there.
    fn save(&mut self, cpu: usize) -> SoftwareInterfaceState {
        self.leave(cpu);
        let mut state = SoftwareInterfaceState::default();
        self.interfaces[cpu].save(&mut state);
        self.interfaces[cpu].check_is_vacant();
        state
    }

    fn exchange(&mut self, cpu: usize, other: usize) {
        let states = [cpu, other].map(|cpu| self.save(cpu));
        self.interfaces.swap(cpu, other);
        let listed = core::mem::take(&mut self.cpus[cpu].lr);
        self.cpus[cpu].lr = core::mem::replace(&mut self.cpus[other].lr, listed);
        for (cpu, state) in [cpu, other].into_iter().zip(&states) {
            self.interfaces[cpu].load(state);
        }
    }

    fn both(&mut self, change: impl Fn(&mut Vgic)) {
        change(&mut self.listed);
        change(&mut self.soft);
    }

    fn sgi(&mut self, cpu: usize, targets: u16, id: u32) {
        let targets = targets & ((1 << CPUS) - 1);
        match self.version {
            GicVersion::V2 => {
                let value = u64::from(targets) << 16 | u64::from(id);
                self.write(cpu, id, 0xf00, Width::Word, value);
            }
            GicVersion::V3 => self.both(|vgic| {
                let value = u64::from(id) << 24 | u64::from(targets);
                let _ = vgic.send_sgi(vcpu(cpu), value, SgiRegister::Sgi1);
            }),
        }
    }

    fn acknowledge(&mut self, cpu: usize) {
        let signals = self.interfaces[cpu].signals();
        let taken = self.cpus[cpu].acknowledge();
        let (interface, vgic) = (&mut self.interfaces[cpu], &mut self.soft);
        let mut read = |group| {
            let register = InterfaceRegister::Acknowledge(group);
            interface
                .read_register(register, vgic, vcpu(cpu))
                .unwrap()
                .value
        };
        assert_eq!(signals.is_some(), taken.is_some());
        let (Some(group), Some(taken)) = (signals, taken) else {
            assert_eq!((read(Group::Zero), read(Group::One)), (1023, 1023));
            return;
        };
        let value = match self.version {
            // AckCtl: one register for both groups.
            GicVersion::V2 => read(Group::Zero),
            GicVersion::V3 => read(group),
        };
        assert_eq!(value, self.iar_value(&taken));
        self.groups[cpu].push((taken.id, group));
    }

    fn iar_value(&self, taken: &Taken) -> u32 {
        let sent = self.version == GicVersion::V2 && taken.id < 16;
        taken.id
            | if sent {
                u32::from(taken.sender) << 10
            } else {
                0
            }
    }

    fn end(&mut self, cpu: usize) {
        let Some(taken) = self.cpus[cpu].running.pop() else {
            return;
        };
        let (_, group) = self.groups[cpu].pop().expect("as many were acknowledged");
        let register = InterfaceRegister::End(match self.version {
            GicVersion::V2 => Group::Zero,
            GicVersion::V3 => group,
        });
        self.finish(cpu, register, &taken, !self.split);
        if self.split {
            self.cpus[cpu].dropped.push(taken);
        }
    }

    fn deactivate(&mut self, cpu: usize, which: usize) {
        let count = self.cpus[cpu].dropped.len();
        if count != 0 {
            let taken = self.cpus[cpu].dropped.swap_remove(which % count);
            self.finish(cpu, InterfaceRegister::Deactivate, &taken, true);
        }
    }

    /// A write that ends an interrupt in some way. The answer says whether it also deactivates it.
    fn finish(&mut self, cpu: usize, register: InterfaceRegister, taken: &Taken, ends: bool) {
        let value = self.iar_value(taken);
        let sender = (self.version == GicVersion::V2 && taken.id < 16).then_some(taken.sender);
        if ends {
            self.cpus[cpu].deactivate(taken.id, sender);
        }
        let (interface, vgic) = (&mut self.interfaces[cpu], &mut self.soft);
        let access = interface
            .write_register(register, value, vgic, vcpu(cpu))
            .unwrap();
        let physical = core::mem::take(&mut self.cpus[cpu].deactivated);
        let deactivated: Vec<u32> = access.deactivated.iter().map(|id| id.get()).collect();
        assert_eq!(deactivated, physical);
    }

    /// The list registers of both are alike, and so are their running priorities.
    fn check(&mut self) {
        for cpu in 0..CPUS {
            let interface = &mut self.interfaces[cpu];
            let soft = (0..MAX_LRS)
                .map(|slot| Lr::from_bits(hanok_hal::ListRegisters::read(interface, slot)));
            let soft: Vec<Lr> = soft.collect();
            assert_eq!(soft, self.cpus[cpu].lr, "of vCPU {cpu}");
            let running = self.cpus[cpu].running_priority().min(0xff);
            let read = interface
                .read_register(
                    InterfaceRegister::RunningPriority,
                    &mut self.soft,
                    vcpu(cpu),
                )
                .unwrap();
            assert_eq!(read.value, u32::from(running));
        }
        while let Some(released) = self.listed.take_released(vcpu(0)) {
            assert_eq!(self.soft.take_released(vcpu(0)), Some(released));
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_interface_in_software_answers_as_one_in_a_cpu(
        version in version(),
        split in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut pair = Pair::new(version, split);
        for step in steps {
            pair.step(step);
        }
    }
}
