//! Targets for the virtual interrupt controller under any accesses, lines and SGIs, with a guest
//! that acknowledges and ends the interrupts it is shown.

use crate::bytes::Bytes;
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::platform::{GIC_DIST_SIZE, GIC_REDIST_STRIDE, GIC_V2_DIST_SIZE, SPIS};
use hanok_types::{GICV2_CPUS, GicVersion, IntId, MAX_VCPUS, VcpuId, Width};
use hanok_vgic::{Frame, Lr, LrState, MAX_LRS, SgiRegister, Vgic};
use std::collections::BTreeSet;

/// A controller that is not at rest after so many turns is taken to be never at rest.
const TURNS: usize = 64;

/// A pCPU on which one vCPU is resident.
struct Cpu {
    lrs: FakeListRegisters,
}

impl Cpu {
    fn lr(&self, index: usize) -> Lr {
        Lr::from_bits(self.lrs.read(index))
    }

    fn all(&self) -> impl Iterator<Item = Lr> {
        self.lrs.lr.iter().map(|lr| Lr::from_bits(*lr))
    }

    /// Returns whether the maintenance interrupt is requested (IHI 0069H, 12.4.1).
    fn maintenance(&self) -> bool {
        let none_pending = !self.all().any(|lr| lr.state() == LrState::Pending);
        let ended = self.all().any(|lr| !lr.is_valid() && lr.eoi());
        ended || self.lrs.none_pending_interrupt && none_pending
    }

    /// The guest acknowledges the most urgent pending interrupt.
    fn acknowledge(&mut self) {
        let pending = (0..self.lrs.count()).filter(|at| self.lr(*at).state() == LrState::Pending);
        if let Some(at) = pending.min_by_key(|at| self.lr(*at).priority()) {
            self.lrs.lr[at] = self.lr(at).with_state(LrState::Active).into_bits();
        }
    }

    /// The guest ends and deactivates one of its active interrupts.
    fn end(&mut self, which: usize) {
        let active: Vec<usize> = (0..self.lrs.count())
            .filter(|at| self.lr(*at).is_active())
            .collect();
        if let Some(at) = active.get(which % active.len().max(1)) {
            let lr = self.lr(*at);
            let state = if lr.is_pending() {
                LrState::Pending
            } else {
                LrState::Invalid
            };
            self.lrs.lr[*at] = lr.with_state(state).into_bits();
        }
    }
}

struct World {
    version: GicVersion,
    vgic: Vgic,
    cpus: Vec<Cpu>,
}

/// The controller comes to rest after each step; an interrupt is shown to one vCPU alone and once
/// there; and a pending interrupt is shown to its vCPU if a list register is free.
pub fn vgic(data: &[u8]) {
    let mut input = Bytes(data);
    let wanted = usize::from(input.byte());
    let count = 1 + usize::from(input.byte()) % 16;
    let cpu = |_| Cpu {
        lrs: FakeListRegisters::new(count),
    };
    let version = input.gic_version();
    let vcpus = vcpus(version, wanted);
    let mut world = World {
        version,
        vgic: Vgic::new(version, vcpus, u32::from(input.byte() % 10)),
        cpus: (0..vcpus).map(cpu).collect(),
    };
    // Makes many of the settings that a guest makes first, so that steps meet live interrupts.
    if input.flag() {
        world.set_up();
    }
    for _ in 0..512 {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.check();
    }
    world.fold_all();
    world.settle_all();
    world.fold_all();
    world.check_shown();
}

/// How many vCPUs a VM has: mostly few, and of a GICv2 never more than that knows.
pub(crate) fn vcpus(version: GicVersion, wanted: usize) -> usize {
    match version {
        GicVersion::V3 if wanted >= 224 => 1 + wanted * 7 % MAX_VCPUS,
        _ => 1 + wanted % GICV2_CPUS,
    }
}

impl World {
    fn set_up(&mut self) {
        let shared = Frame::distributor(self.version, vcpu(0));
        self.vgic.write(shared, 0, Width::Word, 3);
        for word in 1..=u64::from(SPIS / 32) {
            self.vgic
                .write(shared, 0x80 + word * 4, Width::Word, u64::MAX);
            self.vgic
                .write(shared, 0x100 + word * 4, Width::Word, u64::MAX);
        }
        for cpu in 0..self.cpus.len() {
            let (frame, base) = match self.version {
                GicVersion::V2 => (Frame::V2(vcpu(cpu)), 0),
                GicVersion::V3 => (Frame::Redist(vcpu(cpu)), 0x1_0000),
            };
            self.vgic.write(frame, base + 0x80, Width::Word, u64::MAX);
            self.vgic.write(frame, base + 0x100, Width::Word, u64::MAX);
            match self.version {
                // SPIs with this number go to this vCPU, among others.
                GicVersion::V2 => {
                    for spi in (cpu as u64..SPIS.into()).step_by(self.cpus.len()) {
                        let targets = u64::from(1u8 << cpu | 0x80);
                        self.vgic.write(frame, 0x820 + spi, Width::Byte, targets);
                    }
                }
                GicVersion::V3 => drop(self.vgic.write(frame, 0x14, Width::Word, 0)),
            }
        }
    }

    fn step(&mut self, input: &mut Bytes<'_>) {
        let operation = input.byte() % 16;
        let number = input.byte();
        let cpu = usize::from(number) % self.cpus.len();
        // A vCPU that may not exist, where the interface takes any number.
        let any = VcpuId::new(number % 12);
        match operation {
            0 | 1 => self.read(any, input),
            2..=5 => self.write(any, input),
            6 | 7 => drop(self.vgic.set_level(Some(any), id(input), input.flag())),
            8 => drop(self.vgic.pulse(input.flag().then_some(any), id(input))),
            9 if self.version == GicVersion::V2 && input.flag() => {
                let frame = Frame::V2(any);
                let value = u64::from(input.word() & 0x03ff_000f);
                self.vgic.write(frame, 0xf00, Width::Word, value);
            }
            9 => {
                let registers = [SgiRegister::Sgi0, SgiRegister::Sgi1, SgiRegister::Asgi1];
                let register = registers[usize::from(input.byte() % 3)];
                let value = if input.flag() {
                    u64::from(input.byte() & 15) << 24 | u64::from(input.byte())
                } else {
                    input.double()
                };
                self.vgic.send_sgi(any, value, register);
            }
            10 | 11 => self.cpus[cpu].acknowledge(),
            12 => self.cpus[cpu].end(input.byte().into()),
            13 => self.settle(cpu),
            14 => {
                let id = IntId::new([27, 27, 64, 1][usize::from(input.byte() % 4)]);
                let lrs = &mut self.cpus[cpu].lrs;
                self.vgic.inject_hardware_now(vcpu(cpu), id, id, lrs);
                self.vgic.holds_hardware(any, id);
            }
            _ => match input.byte() % 5 {
                4 => drop(self.vgic.clear_pending(Some(any), id(input))),
                0 => drop(self.vgic.leave(vcpu(cpu), &mut self.cpus[cpu].lrs)),
                1 => drop(self.vgic.fold(vcpu(cpu), &mut self.cpus[cpu].lrs)),
                2 => self.settle_all(),
                _ if input.byte() < 16 => self.reset(),
                _ => {}
            },
        }
    }

    /// A VM's reboot: all vCPUs are stopped and started again.
    fn reset(&mut self) {
        self.vgic.reset();
        self.settle_all();
    }

    fn read(&mut self, any: VcpuId, input: &mut Bytes<'_>) {
        let (frame, offset, width) = place(self.version, any, input);
        let read = self.vgic.read(frame, offset, width);
        assert_eq!(read.value & !width.mask(), 0);
        assert!(read.kick.iter().all(|vcpu| self.vgic.needs_entry(vcpu)));
    }

    fn write(&mut self, any: VcpuId, input: &mut Bytes<'_>) {
        let (frame, offset, width) = place(self.version, any, input);
        let value = match input.byte() % 4 {
            0 => u64::MAX,
            1 => 1 << (input.byte() % 64),
            _ => input.double(),
        };
        let kick = self.vgic.write(frame, offset, width, value);
        assert!(kick.iter().all(|vcpu| self.vgic.needs_entry(vcpu)));
    }

    /// Does what the hypervisor does before a pCPU returns to its guest.
    fn settle(&mut self, cpu: usize) {
        for _ in 0..TURNS {
            let lrs = &mut self.cpus[cpu].lrs;
            self.vgic.enter(vcpu(cpu), lrs);
            assert!(!self.vgic.needs_entry(vcpu(cpu)));
            while self.vgic.take_released(vcpu(cpu)).is_some() {}
            if !self.cpus[cpu].maintenance() {
                return;
            }
            let lrs = &mut self.cpus[cpu].lrs;
            self.vgic.maintenance(vcpu(cpu), lrs);
        }
        panic!("storm of maintenance interrupts");
    }

    fn settle_all(&mut self) {
        for _ in 0..TURNS {
            (0..self.cpus.len()).for_each(|cpu| self.settle(cpu));
            if (0..self.cpus.len()).all(|cpu| !self.vgic.needs_entry(vcpu(cpu))) {
                return;
            }
        }
        panic!("the hypervisor does not come to rest");
    }

    fn fold_all(&mut self) {
        for (cpu, lrs) in self.cpus.iter_mut().enumerate() {
            self.vgic.fold(vcpu(cpu), &mut lrs.lrs);
        }
    }

    /// Each interrupt is in one list register.
    fn check(&self) {
        let mut seen = BTreeSet::new();
        for (cpu, lrs) in self.cpus.iter().enumerate() {
            for lr in lrs.all().filter(|lr| lr.is_valid()) {
                let id = lr.virtual_id();
                assert!(id < 32 + SPIS, "{lr:?}");
                assert!(
                    !(lr.hardware() && lr.state() == LrState::PendingActive),
                    "{lr:?}"
                );
                let sourced = self.version == GicVersion::V2 && id < 16;
                let sender = usize::from(lr.sender());
                assert!(
                    !sourced || !lr.hardware() && sender < self.cpus.len(),
                    "{lr:?}"
                );
                let owner = if id < 32 { cpu } else { 0 };
                assert!(seen.insert((owner, id)), "{id} is shown twice");
            }
        }
    }

    /// A vCPU that waits for an interrupt which is due finds one.
    fn check_shown(&self) {
        for cpu in 0..self.cpus.len() {
            if self.vgic.has_pending(vcpu(cpu)) {
                let lrs = &self.cpus[cpu];
                let full = lrs.all().take(MAX_LRS).all(|lr| lr.is_active());
                assert!(
                    full || lrs.all().any(|lr| lr.is_pending()),
                    "cpu {cpu} sleeps on"
                );
            }
        }
    }
}

fn vcpu(cpu: usize) -> VcpuId {
    VcpuId::new(cpu as u8)
}

/// Some are frequent, some do not exist.
fn id(input: &mut Bytes<'_>) -> IntId {
    match input.byte() {
        byte @ 0..=199 => IntId::new(u32::from(byte) % 64),
        200..=239 => IntId::new(u32::from(input.half()) % (34 + SPIS)),
        _ => IntId::new(input.word()),
    }
}

fn place(version: GicVersion, any: VcpuId, input: &mut Bytes<'_>) -> (Frame, u64, Width) {
    let (frame, size, base) = match (version, input.byte() % 16) {
        // A frame of the other version now and then.
        (GicVersion::V2, 1..) | (GicVersion::V3, 0) => (Frame::V2(any), GIC_V2_DIST_SIZE, 0),
        (_, 0..8) => (Frame::Dist, GIC_DIST_SIZE, 0),
        (_, 8..) => (Frame::Redist(any), GIC_REDIST_STRIDE, 0x1_0000),
    };
    let word = u64::from(input.byte() % 10) * 4;
    match input.byte() % 8 {
        0..=2 => {
            let register = [0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380, 0xc00];
            let register = register[usize::from(input.byte() % 8)];
            (frame, base + register + word, Width::Word)
        }
        3 => (frame, base + 0x400 + u64::from(input.byte()), Width::Byte),
        4 if matches!(frame, Frame::V2(_)) => {
            let targets = 0x800 + u64::from(input.half() % 320);
            let senders = 0xf10 + u64::from(input.byte() % 32);
            let offset = if input.flag() { targets } else { senders };
            (frame, offset, Width::Byte)
        }
        4 => (
            Frame::Dist,
            0x6000 + u64::from(input.half() % 320) * 8,
            Width::Double,
        ),
        5 => (Frame::distributor(version, any), 0, Width::Word),
        6 => (frame, u64::from(input.word()) % size, input.width()),
        _ => (frame, input.number(), input.width()),
    }
}
