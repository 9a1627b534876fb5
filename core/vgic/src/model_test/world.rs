//! The hypervisor, its guests, and the architecture's view of both.

use super::cpu::Cpu;
use super::{CPUS, HARDWARE, ModelEvent, SPIS, ids};
use crate::{Frame, Lr, Vgic};
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};
use std::vec;
use std::vec::Vec;

/// The architecture's view of one interrupt.
#[derive(Clone, Debug, Default)]
pub(super) struct Plain {
    pub(super) enabled: bool,
    pub(super) group1: bool,
    pub(super) edge: bool,
    pub(super) latch: bool,
    /// The senders of a GICv2's SGI.
    pub(super) senders: u8,
    /// The sender whose instance the guest has acknowledged.
    pub(super) active_sender: Option<u8>,
    pub(super) line: bool,
    pub(super) active: Option<usize>,
    pub(super) forced: bool,
    pub(super) priority: u8,
    pub(super) route: usize,
    pub(super) physical_line: bool,
    pub(super) physical_active: bool,
    /// ICACTIVER was written while kicks come late: an acknowledgement on the way may be
    /// undone by it.
    pub(super) loose: bool,
}

impl Plain {
    pub(super) fn pending(&self) -> bool {
        self.latch || self.senders != 0 || self.line && !self.edge
    }
}

pub(super) struct World {
    pub(super) version: GicVersion,
    pub(super) vgic: Vgic,
    pub(super) cpus: Vec<Cpu>,
    /// By id, and for private ones by vCPU.
    pub(super) plain: Vec<Vec<Plain>>,
    pub(super) group0: bool,
    pub(super) group1: bool,
    pub(super) split: bool,
    /// Bring everything up to date after each event, so that the plain model holds exactly.
    pub(super) exact: bool,
    pub(super) short_path: bool,
    /// Read all list registers after each event, before they are brought up to date.
    pub(super) folds: bool,
}

/// The vCPUs of a GICv3 that get events: of 64, the first, and one of either end of two clusters.
const SPREAD: [u8; CPUS] = [0, 15, 63];

/// Which vCPU the `cpu`th one is. A GICv2 has as many as there are here.
pub(super) fn vcpu(version: GicVersion, cpu: usize) -> VcpuId {
    match version {
        GicVersion::V2 => VcpuId::new(cpu as u8),
        GicVersion::V3 => VcpuId::new(SPREAD[cpu]),
    }
}

impl World {
    pub(super) fn new(
        version: GicVersion,
        count: usize,
        split: bool,
        exact: bool,
        short_path: bool,
    ) -> Self {
        let mut world = Self {
            version,
            vgic: match version {
                GicVersion::V2 => Vgic::new(version, CPUS, 5),
                GicVersion::V3 => Vgic::new(version, 64, 5),
            },
            cpus: (0..CPUS).map(|_| Cpu::new(count, version)).collect(),
            plain: vec![vec![Plain::default(); 288]; CPUS],
            group0: false,
            group1: false,
            split,
            exact: false,
            short_path,
            folds: false,
        };
        for cpu in 0..CPUS {
            for id in 0..16 {
                world.plain[cpu][id].edge = true;
            }
        }
        // Most of a guest's setup, so that events concern interrupts that are enabled.
        world.step(ModelEvent::Groups(true, true));
        for id in ids() {
            for cpu in 0..CPUS {
                world.step(ModelEvent::Enable(cpu, id, true));
                world.step(ModelEvent::Group(cpu, id, true));
                world.step(ModelEvent::Priority(cpu, id, (id as u8).wrapping_mul(40)));
            }
        }
        for id in SPIS {
            world.step(ModelEvent::Route(id, 1));
        }
        world.step(ModelEvent::Edge(48, true));
        world.step(ModelEvent::Edge(287, true));
        world.settle_all();
        world.exact = exact;
        world
    }

    pub(super) fn plain(&mut self, cpu: usize, id: u32) -> &mut Plain {
        let cpu = if id < 32 { cpu } else { 0 };
        &mut self.plain[cpu][id as usize]
    }

    pub(super) fn owner(&self, cpu: usize, id: u32) -> usize {
        if id < 32 { cpu } else { 0 }
    }

    /// A write by `cpu`'s guest to a register with a bit for each interrupt.
    pub(super) fn write_bit(&mut self, cpu: usize, base: u64, id: u32) {
        let word = u64::from(id / 32) * 4;
        self.write_word(cpu, id, base + word, 1 << (id % 32));
    }

    pub(super) fn frame(&self, cpu: usize, id: u32) -> (Frame, u64) {
        if id < 32 && self.version == GicVersion::V3 {
            (Frame::Redist(vcpu(self.version, cpu)), 0x1_0000)
        } else {
            (Frame::distributor(self.version, vcpu(self.version, cpu)), 0)
        }
    }

    /// Whether it knows its sender, is always enabled, and not pending by ISPENDR.
    pub(super) fn is_sourced(&self, id: u32) -> bool {
        self.version == GicVersion::V2 && id < 16
    }

    pub(super) fn write_word(&mut self, cpu: usize, id: u32, offset: u64, value: u64) {
        let (frame, base) = self.frame(cpu, id);
        let kick = self.vgic.write(frame, base + offset, Width::Word, value);
        self.after(cpu, kick);
    }

    pub(super) fn read_word(&mut self, cpu: usize, id: u32, offset: u64) -> u64 {
        let (frame, base) = self.frame(cpu, id);
        let read = self.vgic.read(frame, base + offset, Width::Word);
        self.after(cpu, read.kick);
        read.value
    }

    pub(super) fn after(&mut self, cpu: usize, kick: VcpuSet) {
        for other in kick.iter() {
            assert!(self.vgic.needs_entry(other), "{other} kicked for nothing");
        }
        for (other, lrs) in self.cpus.iter_mut().enumerate() {
            if self.folds && lrs.resident {
                self.vgic.fold(vcpu(self.version, other), lrs);
            }
        }
        if self.exact {
            self.settle_all();
        } else {
            self.bring_up_to_date(cpu);
        }
    }

    pub(super) fn settle_all(&mut self) {
        for _ in 0..20 {
            for cpu in 0..CPUS {
                self.bring_up_to_date(cpu);
            }
            let quiet = |cpu: usize| {
                let out = !self.cpus[cpu].resident;
                out || !self.vgic.needs_entry(vcpu(self.version, cpu))
                    && !self.cpus[cpu].maintenance()
            };
            if (0..CPUS).all(quiet) {
                return;
            }
        }
        panic!("the hypervisor does not come to rest");
    }

    /// Does what the hypervisor does before one pCPU goes back to its guest.
    pub(super) fn bring_up_to_date(&mut self, cpu: usize) {
        if !self.cpus[cpu].resident {
            return;
        }
        for _ in 0..20 {
            self.collect(cpu);
            if self.cpus[cpu].maintenance() {
                self.maintain(cpu);
            }
            self.vgic
                .enter(vcpu(self.version, cpu), &mut self.cpus[cpu]);
            assert!(!self.vgic.needs_entry(vcpu(self.version, cpu)));
            self.collect(cpu);
            let fired = self.fire(cpu);
            if !fired && !self.cpus[cpu].maintenance() {
                self.cpus[cpu].check_reports();
                return;
            }
        }
        panic!("storm of maintenance interrupts: {:?}", self.cpus[cpu]);
    }

    fn maintain(&mut self, cpu: usize) {
        let lrs = &mut self.cpus[cpu];
        if self.short_path
            && let Some(id) = self.vgic.end_of_hardware(vcpu(self.version, cpu), lrs)
        {
            let plain = self.plain(cpu, id.get());
            assert!(plain.physical_active, "{id} is deactivated twice");
            plain.physical_active = false;
            return;
        }
        self.vgic.maintenance(vcpu(self.version, cpu), lrs);
    }

    /// Deactivations of physical interrupts, by the CPU and by software.
    pub(super) fn collect(&mut self, cpu: usize) {
        for id in core::mem::take(&mut self.cpus[cpu].deactivated) {
            let plain = self.plain(cpu, id);
            assert!(plain.physical_active, "{id} deactivated twice");
            plain.physical_active = false;
        }
        while let Some(id) = self.vgic.take_released(vcpu(self.version, cpu)) {
            self.plain(cpu, id.get()).physical_active = false;
        }
    }

    /// Lets physical interrupts fire that are due. The answer says whether there was one.
    pub(super) fn fire(&mut self, cpu: usize) -> bool {
        let mut fired = false;
        for id in HARDWARE {
            let plain = self.plain(cpu, id);
            if !plain.physical_line || plain.physical_active {
                continue;
            }
            plain.physical_active = true;
            plain.latch = true;
            fired = true;
            let (id, lrs) = (IntId::new(id), &mut self.cpus[cpu]);
            if self.short_path {
                self.vgic
                    .inject_hardware_now(vcpu(self.version, cpu), id, id, lrs);
            } else {
                self.vgic.inject_hardware(vcpu(self.version, cpu), id, id);
            }
        }
        fired
    }

    pub(super) fn step(&mut self, step: ModelEvent) {
        match step {
            ModelEvent::Enable(cpu, id, on) => {
                let sourced = self.is_sourced(id);
                let plain = self.plain(cpu, id);
                let held = plain.physical_active && plain.active.is_none();
                if on && !plain.enabled && held && !plain.edge {
                    // The line is sampled again.
                    plain.latch = false;
                }
                plain.enabled = on || sourced;
                self.write_bit(cpu, if on { 0x100 } else { 0x180 }, id);
            }
            ModelEvent::Pend(cpu, id, on) => {
                if !self.is_sourced(id) {
                    self.plain(cpu, id).latch = on;
                }
                self.write_bit(cpu, if on { 0x200 } else { 0x280 }, id);
            }
            ModelEvent::Activate(cpu, id, on) => self.activate(cpu, id, on),
            ModelEvent::Priority(cpu, id, priority) => {
                self.plain(cpu, id).priority = priority & 0xf8;
                let (frame, base) = self.frame(cpu, id);
                let offset = base + 0x400 + u64::from(id);
                let kick = self.vgic.write(frame, offset, Width::Byte, priority.into());
                self.after(cpu, kick);
            }
            ModelEvent::Group(cpu, id, group1) => self.group(cpu, id, group1),
            ModelEvent::Edge(id, edge) => self.edge(id, edge),
            ModelEvent::Route(id, targets) => self.route(id, targets),
            ModelEvent::Groups(group0, group1) => {
                (self.group0, self.group1) = (group0, group1);
                self.write_word(0, 32, 0, u64::from(group0) | u64::from(group1) << 1);
            }
            ModelEvent::Line(cpu, id, high) => {
                let plain = self.plain(cpu, id);
                plain.latch |= high && !plain.line && plain.edge;
                plain.line = high;
                let kick = self
                    .vgic
                    .set_level(Some(vcpu(self.version, cpu)), IntId::new(id), high);
                self.after(cpu, kick);
            }
            ModelEvent::Pulse(cpu, id) => {
                self.plain(cpu, id).latch = true;
                let kick = self
                    .vgic
                    .pulse(Some(vcpu(self.version, cpu)), IntId::new(id));
                self.after(cpu, kick);
            }
            ModelEvent::PhysicalLine(cpu, id, high) => {
                self.plain(cpu, id).physical_line = high;
                self.after(cpu, VcpuSet::EMPTY);
            }
            ModelEvent::Sgi(cpu, targets, id) => self.sgi(cpu, targets, id),
            ModelEvent::Senders(cpu, id, senders, set) => self.senders(cpu, id, senders, set),
            ModelEvent::Acknowledge(cpu) if self.cpus[cpu].resident => self.acknowledge(cpu),
            ModelEvent::End(cpu) if self.cpus[cpu].resident => self.end(cpu),
            ModelEvent::Deactivate(cpu, which) if self.cpus[cpu].resident => {
                self.deactivate(cpu, which)
            }
            ModelEvent::Acknowledge(_) | ModelEvent::End(_) | ModelEvent::Deactivate(..) => {}
            ModelEvent::Out(cpu) => self.switch_out(cpu),
            ModelEvent::In(cpu) => self.switch_in(cpu),
            ModelEvent::Leave(cpu) => {
                self.vgic
                    .leave(vcpu(self.version, cpu), &mut self.cpus[cpu]);
                let empty = (1 << self.cpus[cpu].lr.len()) - 1;
                assert_eq!(self.cpus[cpu].empty(), empty);
                assert!(!self.cpus[cpu].none_pending);
                self.after(cpu, VcpuSet::EMPTY);
            }
            ModelEvent::BringUpToDate(cpu) => self.bring_up_to_date(cpu),
            ModelEvent::Fold(cpu) => {
                if !self.cpus[cpu].resident {
                    return;
                }
                self.vgic.fold(vcpu(self.version, cpu), &mut self.cpus[cpu]);
                self.after(cpu, VcpuSet::EMPTY);
            }
            ModelEvent::LookAhead(cpu) => self.prepare_entry(cpu),
            ModelEvent::ReadAll => self.read_all(),
        }
        self.check();
    }

    pub(super) fn activate(&mut self, cpu: usize, id: u32, on: bool) {
        let owner = if id < 32 {
            cpu
        } else {
            self.plain(0, id).route
        };
        let exact = self.exact;
        let plain = self.plain(cpu, id);
        if on && plain.active.is_none() {
            plain.active = Some(owner);
            plain.forced = true;
        }
        plain.active_sender = plain.active_sender.filter(|_| on);
        if !on {
            plain.loose |= !exact;
            plain.active = None;
            plain.forced = false;
        }
        self.write_bit(cpu, if on { 0x300 } else { 0x380 }, id);
    }

    pub(super) fn group(&mut self, cpu: usize, id: u32, group1: bool) {
        self.plain(cpu, id).group1 = group1;
        let offset = 0x80 + u64::from(id / 32) * 4;
        let old = self.read_word(cpu, id, offset);
        let bit = 1 << (id % 32);
        let new = if group1 { old | bit } else { old & !bit };
        self.write_word(cpu, id, offset, new);
    }

    pub(super) fn edge(&mut self, id: u32, edge: bool) {
        self.plain(0, id).edge = edge;
        let offset = 0xc00 + u64::from(id / 16) * 4;
        let old = self.read_word(0, id, offset);
        let bit = 2 << (id % 16 * 2);
        let new = if edge { old | bit } else { old & !bit };
        self.write_word(0, id, offset, new);
    }

    fn route(&mut self, id: u32, targets: u8) {
        let to = targets.trailing_zeros();
        self.plain(0, id).route = to as usize;
        let frame = Frame::distributor(self.version, vcpu(self.version, 0));
        let kick = match self.version {
            GicVersion::V2 => {
                let offset = 0x800 + u64::from(id);
                self.vgic.write(frame, offset, Width::Byte, targets.into())
            }
            GicVersion::V3 => {
                let offset = 0x6000 + u64::from(id) * 8;
                let to = vcpu(self.version, to as usize).affinity();
                self.vgic.write(frame, offset, Width::Double, to)
            }
        };
        self.after(0, kick);
    }

    fn senders(&mut self, cpu: usize, id: u32, senders: u8, set: bool) {
        if self.version != GicVersion::V2 {
            return;
        }
        let plain = self.plain(cpu, id);
        plain.senders = if set {
            plain.senders | senders
        } else {
            plain.senders & !senders
        };
        let offset = if set { 0xf20 } else { 0xf10 } + u64::from(id);
        let frame = Frame::V2(vcpu(self.version, cpu));
        let kick = self.vgic.write(frame, offset, Width::Byte, senders.into());
        self.after(cpu, kick);
    }

    fn switch_out(&mut self, cpu: usize) {
        self.vgic
            .leave(vcpu(self.version, cpu), &mut self.cpus[cpu]);
        self.collect(cpu);
        self.cpus[cpu].resident = false;
        // All private interrupts are in the model again; another vCPU may have an SPI.
        for id in HARDWARE.into_iter().filter(|id| *id < 32) {
            let held = self
                .vgic
                .holds_hardware(vcpu(self.version, cpu), IntId::new(id));
            assert_eq!(held, self.plain(cpu, id).physical_active, "{id} of {cpu}");
        }
        self.after(cpu, VcpuSet::EMPTY);
    }

    /// Does a part of the next entry, or all of it if no new interrupt has to be listed.
    fn prepare_entry(&mut self, cpu: usize) {
        if !self.cpus[cpu].resident {
            return;
        }
        let before = self.cpus[cpu].lr.clone();
        self.vgic.prepare_entry(vcpu(self.version, cpu));
        self.vgic.defer_less_urgent(vcpu(self.version, cpu));
        assert_eq!(self.cpus[cpu].lr, before);
        self.after(cpu, VcpuSet::EMPTY);
    }

    fn switch_in(&mut self, cpu: usize) {
        if core::mem::replace(&mut self.cpus[cpu].resident, true) {
            return self.after(cpu, VcpuSet::EMPTY);
        }
        let held = HARDWARE.map(|id| {
            self.vgic
                .holds_hardware(vcpu(self.version, cpu), IntId::new(id))
        });
        self.vgic
            .enter(vcpu(self.version, cpu), &mut self.cpus[cpu]);
        for (id, _) in HARDWARE.into_iter().zip(held).filter(|(_, held)| *held) {
            let listed = |lr: &&Lr| lr.is_valid() && lr.virtual_id() == id;
            let lr = self.cpus[cpu].lr.iter().find(listed).copied();
            // Otherwise its end is reported, where HW=1 is not possible.
            assert!(lr.is_none_or(|lr| lr.hardware() || lr.eoi()), "{lr:?}");
        }
        self.after(cpu, VcpuSet::EMPTY);
    }
}
