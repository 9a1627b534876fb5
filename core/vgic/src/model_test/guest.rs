//! The guests' accesses to their interrupts, and the effect of these by the architecture.

use super::CPUS;
use super::cpu::Taken;
use super::world::{World, vcpu};
use crate::SgiRegister;
use hanok_types::{GicVersion, VcpuSet};

impl World {
    pub(super) fn sgi(&mut self, cpu: usize, targets: u16, id: u32) {
        if self.version == GicVersion::V2 {
            for target in (0..CPUS).filter(|target| targets >> target & 1 != 0) {
                self.plain(target, id).senders |= 1 << cpu;
            }
            let value = u64::from(targets & 0xff) << 16 | u64::from(id);
            return self.write_word(cpu, id, 0xf00, value);
        }
        for target in (0..CPUS).filter(|target| targets >> target & 1 != 0) {
            let plain = self.plain(target, id);
            plain.latch |= plain.group1;
        }
        // One write for each cluster.
        for target in (0..CPUS).filter(|target| targets >> target & 1 != 0) {
            let affinity = vcpu(self.version, target).affinity();
            let (aff1, aff0) = (affinity >> 8, affinity & 0xff);
            let value = u64::from(id) << 24 | aff1 << 16 | 1 << aff0;
            let from = vcpu(self.version, cpu);
            let kick = self.vgic.send_sgi(from, value, SgiRegister::Sgi1);
            self.after(cpu, kick);
        }
    }

    pub(super) fn acknowledge(&mut self, cpu: usize) {
        let before = self.best(cpu);
        let Some(taken) = self.cpus[cpu].acknowledge() else {
            return self.after(cpu, VcpuSet::EMPTY);
        };
        let Taken { id, priority, .. } = taken;
        let owner = self.owner(cpu, id);
        if self.exact {
            let plain = &self.plain[owner][id as usize];
            assert!(self.deliverable(cpu, id, plain), "{id} spurious: {plain:?}");
            if !self.split {
                let before = before.map(|(priority, _)| priority);
                assert_eq!(Some(priority), before, "{id} out of order");
            }
        }
        let plain = self.plain(cpu, id);
        let elsewhere = plain.active.is_some_and(|other| other != cpu);
        let elsewhere = elsewhere && !plain.forced && !plain.loose;
        assert!(!elsewhere, "{id} active elsewhere: {plain:?}");
        plain.active = Some(cpu);
        self.taken(cpu, &taken);
        self.after(cpu, VcpuSet::EMPTY);
    }

    /// Ends the pending state.
    pub(super) fn taken(&mut self, cpu: usize, taken: &Taken) {
        let (sourced, exact) = (self.is_sourced(taken.id), self.exact);
        let plain = self.plain(cpu, taken.id);
        plain.latch = false;
        if sourced {
            let sent = plain.senders >> taken.sender & 1 != 0;
            assert!(sent || !exact, "no vCPU sent {}: {plain:?}", taken.id);
            plain.senders &= !(1 << taken.sender);
            plain.active_sender = Some(taken.sender);
        }
    }

    pub(super) fn end(&mut self, cpu: usize) {
        if let Some(taken) = self.cpus[cpu].running.pop() {
            if self.split {
                self.cpus[cpu].dropped.push(taken);
            } else {
                self.finish(cpu, &taken);
            }
        }
        self.after(cpu, VcpuSet::EMPTY);
    }

    pub(super) fn deactivate(&mut self, cpu: usize, which: usize) {
        let count = self.cpus[cpu].dropped.len();
        if count != 0 {
            let taken = self.cpus[cpu].dropped.swap_remove(which % count);
            self.finish(cpu, &taken);
        }
        self.after(cpu, VcpuSet::EMPTY);
    }

    pub(super) fn finish(&mut self, cpu: usize, taken: &Taken) {
        let id = taken.id;
        let sender = self.is_sourced(id).then_some(taken.sender);
        let found = self.cpus[cpu].deactivate(id, sender);
        let exact = self.exact;
        let plain = self.plain(cpu, id);
        let another = sender.is_some() && plain.active_sender != sender;
        if plain.active == Some(cpu) && !another {
            assert!(
                found || plain.forced || !exact,
                "{id} lost its deactivation"
            );
            if found {
                plain.active = None;
                plain.forced = false;
            }
        }
    }
}
