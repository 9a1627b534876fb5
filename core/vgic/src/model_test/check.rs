//! The conditions that must hold after each event, and at the end of a sequence.

use super::world::{Plain, World, vcpu};
use super::{CPUS, HARDWARE, ModelEvent, ids};
use crate::lr::LrState;
use crate::{MAX_LRS, Snapshot};
use hanok_types::IntId;
use std::vec::Vec;

impl World {
    /// A guest that polls a state reads the true value in the end.
    pub(super) fn read_all(&mut self) {
        self.settle_all();
        for id in ids() {
            for cpu in 0..CPUS {
                let word = u64::from(id / 32) * 4;
                self.read_word(cpu, id, 0x300 + word);
                self.settle_all();
                let active = self.read_word(cpu, id, 0x300 + word) >> (id % 32) & 1 != 0;
                let pending = self.read_word(cpu, id, 0x200 + word) >> (id % 32) & 1 != 0;
                let exact = self.exact;
                let plain = self.plain(cpu, id);
                if exact {
                    assert_eq!(active, plain.active.is_some(), "{id} on {cpu}: {plain:?}");
                    assert_eq!(pending, plain.pending(), "{id} on {cpu}: {plain:?}");
                }
            }
        }
        self.settle_all();
        assert_eq!(self.read_word(0, 32, 0) >> 31, 0, "RWP");
        for cpu in 0..CPUS {
            if self.cpus[cpu].resident {
                self.vgic.fold(vcpu(self.version, cpu), &mut self.cpus[cpu]);
            }
            let urgent = self.vgic.most_urgent(vcpu(self.version, cpu));
            assert_eq!(
                self.vgic.has_pending(vcpu(self.version, cpu)),
                urgent.is_some()
            );
            if self.exact {
                assert_eq!(urgent, self.best(cpu));
            }
        }
        self.vgic.check_snapshot();
    }

    pub(super) fn deliverable(&self, cpu: usize, id: u32, plain: &Plain) -> bool {
        let group = if plain.group1 {
            self.group1
        } else {
            self.group0
        };
        let here = id < 32 || plain.route == cpu;
        plain.pending() && plain.enabled && group && plain.active.is_none() && here
    }

    /// The least priority value among the interrupts that the architecture would signal, and whether that one
    /// is of group 1; of several with this priority, it is the one with the least id.
    pub(super) fn best(&self, cpu: usize) -> Option<(u8, bool)> {
        ids()
            .into_iter()
            .map(|id| (id, &self.plain[self.owner(cpu, id)][id as usize]))
            .filter(|(id, plain)| self.deliverable(cpu, *id, plain))
            .min_by_key(|(id, plain)| (plain.priority, *id))
            .map(|(_, plain)| (plain.priority, plain.group1))
    }

    pub(super) fn check(&mut self) {
        self.check_unique();
        if !self.exact {
            self.vgic.check();
        } else {
            for cpu in (0..CPUS).filter(|cpu| self.cpus[*cpu].resident) {
                self.check_best(cpu);
                self.check_physical(cpu);
                self.check_shown(cpu);
                let drained = self
                    .vgic
                    .is_drained(vcpu(self.version, cpu), &self.cpus[cpu]);
                assert!(!drained || self.best(cpu).is_none(), "of vCPU {cpu}");
            }
            self.check_urgent();
        }
    }

    /// A list register shows what the architecture says of its interrupt, and every one that a vCPU
    /// has acknowledged stands in one.
    fn check_shown(&self, cpu: usize) {
        let lrs = &self.cpus[cpu].lr;
        for lr in lrs.iter().filter(|lr| lr.is_valid()) {
            let id = lr.virtual_id();
            let plain = &self.plain[self.owner(cpu, id)][id as usize];
            assert_eq!(lr.priority(), plain.priority, "{id}: {plain:?}");
            assert_eq!(lr.group1(), plain.group1, "{id}: {plain:?}");
            assert_eq!(
                lr.is_active(),
                plain.active == Some(cpu),
                "{lr:?} {plain:?}"
            );
            let waits = Plain {
                active: None,
                ..plain.clone()
            };
            let due = self.deliverable(cpu, id, &waits);
            assert!(due || !lr.is_pending(), "{lr:?} {plain:?}");
            if lr.is_pending() && self.is_sourced(id) {
                assert_ne!(plain.senders >> lr.sender() & 1, 0, "{lr:?} {plain:?}");
            }
        }
        for id in ids() {
            let plain = &self.plain[self.owner(cpu, id)][id as usize];
            let mut own = lrs.iter().filter(|lr| lr.is_active());
            let stands = own.any(|lr| lr.virtual_id() == id);
            let must = plain.active == Some(cpu) && !plain.forced;
            assert!(stands || !must, "{id} has left: {plain:?}");
        }
    }

    /// `has_pending` and `most_urgent` are right for each vCPU after a fold. A copy is folded, so that the check
    /// changes nothing.
    fn check_urgent(&self) {
        let mut vgic = self.vgic.clone();
        for cpu in 0..CPUS {
            if self.cpus[cpu].resident {
                vgic.fold(vcpu(self.version, cpu), &mut self.cpus[cpu].clone());
            }
        }
        vgic.check();
        for cpu in 0..CPUS {
            let best = self.best(cpu);
            assert_eq!(
                vgic.most_urgent(vcpu(self.version, cpu)),
                best,
                "of vCPU {cpu}"
            );
            assert_eq!(
                vgic.has_pending(vcpu(self.version, cpu)),
                best.is_some(),
                "of vCPU {cpu}"
            );
        }
    }

    pub(super) fn check_unique(&self) {
        let mut spis = Vec::new();
        for cpu in &self.cpus {
            let mut own = Vec::new();
            for lr in cpu.lr.iter().filter(|lr| lr.is_valid()) {
                let seen = if lr.id().is_private() {
                    &mut own
                } else {
                    &mut spis
                };
                assert!(!seen.contains(&lr.virtual_id()), "{lr:?} twice");
                seen.push(lr.virtual_id());
            }
        }
    }

    /// The most urgent interrupt is in a list register, unless all of them hold acknowledged ones.
    pub(super) fn check_best(&self, cpu: usize) {
        let lrs = &self.cpus[cpu].lr;
        let best = self.best(cpu).map(|(priority, _)| priority);
        let shown = lrs.iter().filter(|lr| lr.state() == LrState::Pending);
        let shown = shown.map(|lr| lr.priority()).min();
        // No more than these are used.
        let full = lrs.iter().take(MAX_LRS).all(|lr| lr.is_active());
        // With EOImode 1 the report that there is room may come later.
        if !full && !self.split {
            assert_eq!(shown, best, "of vCPU {cpu}: {lrs:?}");
        }
        let more_than_fits = self.cpus[cpu].none_pending;
        assert!(!more_than_fits || lrs.iter().any(|lr| lr.is_valid()));
    }

    pub(super) fn check_physical(&self, cpu: usize) {
        for id in HARDWARE {
            let plain = &self.plain[self.owner(cpu, id)][id as usize];
            let held = self
                .vgic
                .holds_hardware(vcpu(self.version, cpu), IntId::new(id));
            let idle = !plain.pending() && plain.active.is_none();
            assert!(!(idle && plain.physical_active), "{id} stuck: {plain:?}");
            // The CPU may have deactivated it since the last fold.
            assert!(held || !plain.physical_active, "{id} forgotten: {plain:?}");
        }
    }

    /// The guests acknowledge and end all interrupts; then none is left.
    pub(super) fn drain(&mut self) {
        let late = !self.exact;
        (0..CPUS).for_each(|cpu| self.step(ModelEvent::In(cpu)));
        self.step(ModelEvent::Groups(true, true));
        for id in HARDWARE {
            for cpu in 0..CPUS {
                self.step(ModelEvent::PhysicalLine(cpu, id, false));
            }
        }
        let owed = self.enable_everything();
        let mut got = Vec::new();
        self.deliver(&mut got);
        if late {
            // Late kicks may have made an interrupt active that has ended in the model.
            for id in ids() {
                (0..CPUS).for_each(|cpu| self.step(ModelEvent::Activate(cpu, id, false)));
            }
            self.deliver(&mut got);
        }
        for (owner, id) in owed {
            assert!(got.contains(&(owner, id)), "{id} of {owner} never came");
        }
        for id in ids().into_iter().filter(|id| !HARDWARE.contains(id)) {
            let waits = |plain: &Plain| plain.latch || plain.senders != 0;
            let lost = (0..CPUS).find(|cpu| waits(self.plain(*cpu, id)));
            assert_eq!(lost, None, "{id} was made pending and never came");
        }
        self.check_rest();
    }

    /// The guests acknowledge and end all their interrupts, and their devices then lower their lines.
    fn deliver(&mut self, got: &mut Vec<(usize, u32)>) {
        for cpu in (0..200).flat_map(|_| 0..CPUS) {
            self.settle_all();
            if let Some(taken) = self.cpus[cpu].acknowledge() {
                got.push((self.owner(cpu, taken.id), taken.id));
                self.taken(cpu, &taken);
                self.step(ModelEvent::Line(cpu, taken.id, false));
            }
            self.step(ModelEvent::End(cpu));
            self.step(ModelEvent::Deactivate(cpu, 0));
        }
        self.settle_all();
    }

    fn check_rest(&mut self) {
        for cpu in &self.cpus {
            assert!(cpu.lr.iter().all(|lr| !lr.is_valid()), "left: {cpu:?}");
            assert!(!cpu.none_pending);
        }
        for cpu in 0..CPUS {
            self.vgic.fold(vcpu(self.version, cpu), &mut self.cpus[cpu]);
            self.bring_up_to_date(cpu);
        }
        let busy = |i: &Snapshot| i.pending || i.active || i.listed;
        assert_eq!(self.vgic.snapshot().filter(busy).count(), 0);
        let plain = self.plain.iter().flatten();
        let held = plain.filter(|plain| plain.physical_active);
        assert_eq!(held.count(), 0, "a physical interrupt is left active");
    }

    /// The interrupts that are pending then.
    pub(super) fn enable_everything(&mut self) -> Vec<(usize, u32)> {
        // The plain model is not used any more, as lines now fall at an acknowledgement.
        self.exact = false;
        let mut owed = Vec::new();
        for id in ids() {
            for cpu in 0..CPUS {
                self.step(ModelEvent::Enable(cpu, id, true));
                if self.plain(cpu, id).forced {
                    self.step(ModelEvent::Activate(cpu, id, false));
                }
                if id >= 32 && cpu > 0 {
                    continue;
                }
                if self.plain(cpu, id).line {
                    owed.push((cpu, id));
                }
            }
        }
        owed.retain(|(cpu, id)| !self.plain[*cpu][*id as usize].edge);
        self.settle_all();
        owed
    }
}
