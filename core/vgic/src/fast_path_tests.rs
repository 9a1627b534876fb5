//! The fast paths of `fast_path.rs` have the outcome of the slow path: two controllers get the same
//! events, one of them on a fast path where there is one, the other always on the slow path.

use crate::{Frame, Lr, LrState, SgiRegister, Sgir, Snapshot, Vgic};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::vec;
use std::vec::Vec;

const CPUS: usize = 2;
const TIMER: IntId = IntId::new(27);
/// The interrupt of a device that the VM has for itself.
const DEVICE: IntId = IntId::new(72);

#[derive(Clone, Copy, Debug)]
enum ListingEvent {
    /// Enables private interrupts of one vCPU, a bit each.
    Enable(u8, u32),
    Disable(u8, u32),
    /// An SGI from one vCPU to another.
    Send(u8, u8, u32),
    /// The guest acknowledges the interrupt of a list register.
    Take(u8, usize),
    End(u8, usize),
    Enter(u8),
    Timer(u8),
    /// The device's interrupt fires on the pCPU on which this vCPU runs.
    Device(u8),
    /// A register of the device's word: enable, pending, active, priority, group.
    Shared(u64, u32),
    /// Routes the device's interrupt to this vCPU.
    Route(u8),
    /// An SGI that another vCPU posted, which is listed at once.
    PostedSgi(u8, u32),
    /// A register of a vCPU's private interrupts: pending, active, priority, group.
    Private(u8, u64, u32),
    /// A write of GICD_CTLR: the groups that are forwarded.
    Forward(u64),
    /// A fold of a vCPU's list registers.
    Fold(u8),
    /// A vCPU leaves its pCPU, its timer is due while it is away, and it comes back.
    Wake(u8),
}

fn step() -> impl Strategy<Value = ListingEvent> {
    let cpu = 0..CPUS as u8;
    let private = any::<u32>().prop_map(|mask| mask & 0x0800_ffff);
    prop_oneof![
        1 => (cpu.clone(), private.clone()).prop_map(|(cpu, mask)| ListingEvent::Enable(cpu, mask)),
        1 => (cpu.clone(), private).prop_map(|(cpu, mask)| ListingEvent::Disable(cpu, mask)),
        6 => (cpu.clone(), 0..CPUS as u8 + 1, 0..3u32).prop_map(|(from, to, id)| ListingEvent::Send(from, to, id)),
        4 => (cpu.clone(), 0..3usize).prop_map(|(cpu, slot)| ListingEvent::Take(cpu, slot)),
        4 => (cpu.clone(), 0..3usize).prop_map(|(cpu, slot)| ListingEvent::End(cpu, slot)),
        6 => cpu.clone().prop_map(ListingEvent::Enter),
        2 => cpu.clone().prop_map(ListingEvent::Timer),
        4 => cpu.clone().prop_map(ListingEvent::Device),
        1 => (shared_register(), any::<u32>()).prop_map(|(at, value)| ListingEvent::Shared(at, value)),
        1 => cpu.clone().prop_map(ListingEvent::Route),
        8 => (cpu.clone(), 0..3u32).prop_map(|(to, id)| ListingEvent::PostedSgi(to, id)),
        2 => (cpu.clone(), private_register(), any::<u32>()).prop_map(|(cpu, at, value)| ListingEvent::Private(cpu, at, value & 0x0800_0007)),
        1 => (0..4u64).prop_map(ListingEvent::Forward),
        1 => cpu.clone().prop_map(ListingEvent::Fold),
        2 => cpu.prop_map(ListingEvent::Wake),
    ]
}

/// Lists of random events, and between them the sequences that are most frequent in guests: an interrupt
/// fires, is acknowledged and ended, and fires again. Random events alone seldom make these.
fn events(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<ListingEvent>> {
    let one = (0..4u32, any::<bool>());
    let usual = (0..CPUS as u8, prop::collection::vec(one, 2..5)).prop_map(|(cpu, comes)| {
        let steps = comes.into_iter().flat_map(|(id, ends)| {
            let comes = match id {
                2 => ListingEvent::Device(cpu),
                3 => ListingEvent::Timer(cpu),
                _ => ListingEvent::PostedSgi(cpu, id),
            };
            let taken = ends.then_some([ListingEvent::Take(cpu, 0), ListingEvent::End(cpu, 0)]);
            [comes].into_iter().chain(taken.into_iter().flatten())
        });
        steps.collect()
    });
    let piece = prop_oneof![8 => step().prop_map(|step| vec![step]), 1 => usual];
    let steps = prop::collection::vec(piece, length).prop_map(|pieces| pieces.concat());
    (steps, any::<bool>()).prop_map(|(steps, has_device)| {
        let steps = steps.into_iter();
        steps.map(|step| step.of_four(has_device)).collect()
    })
}

impl ListingEvent {
    /// Limits the events to four interrupts. There are four list registers, and the two controllers are the
    /// same as long as all interrupts find room: besides the timer's and two SGIs there is a third SGI or
    /// the device's interrupt.
    fn of_four(self, has_device: bool) -> Self {
        match self {
            Self::Send(_, to, 2) if has_device => Self::Device(to % CPUS as u8),
            Self::PostedSgi(to, 2) if has_device => Self::Device(to),
            Self::Private(cpu, at, value) if has_device => Self::Private(cpu, at, value & !4),
            Self::Device(cpu) if !has_device => Self::PostedSgi(cpu, 2),
            Self::Shared(..) | Self::Route(_) if !has_device => Self::Enter(0),
            other => other,
        }
    }
}

/// ISPENDR0, ICPENDR0, ISACTIVER0, ICACTIVER0, IPRIORITYR0, IPRIORITYR6, IGROUPR0.
fn private_register() -> impl Strategy<Value = u64> {
    prop::sample::select(&[0x200, 0x280, 0x300, 0x380, 0x400, 0x418, 0x80][..])
}

/// ISENABLER2, ICENABLER2, ISPENDR2, ICPENDR2, ISACTIVER2, ICACTIVER2, IPRIORITYR18, IGROUPR2.
fn shared_register() -> impl Strategy<Value = u64> {
    prop::sample::select(&[0x108, 0x188, 0x208, 0x288, 0x308, 0x388, 0x448, 0x88][..])
}

struct World {
    vgic: Vgic,
    lists: [FakeListRegisters; CPUS],
    fast: bool,
    version: GicVersion,
    /// Whether the physical timer's interrupt is active on each pCPU.
    physical: [bool; CPUS],
    /// Whether the device's interrupt is active.
    device: bool,
    /// The vCPU to which it is routed.
    routed: u8,
    taken: Taken,
}

/// How often each fast path was taken. If one never is, both worlds take the slow path, and comparing
/// them shows nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    latched: usize,
    sent: usize,
    relisted: usize,
    ended: usize,
    timer: usize,
    device: usize,
    woken: usize,
}

impl Taken {
    fn each(self) -> [usize; 7] {
        let Self {
            latched,
            sent,
            relisted,
            ended,
            timer,
            device,
            woken,
        } = self;
        [latched, sent, relisted, ended, timer, device, woken]
    }
}

impl World {
    fn new(version: GicVersion, fast: bool) -> Self {
        Self::with_lists(version, fast, 4)
    }

    /// [`Self::new`] with `count` list registers.
    fn with_lists(version: GicVersion, fast: bool, count: usize) -> Self {
        let mut this = Self {
            vgic: Vgic::new(version, CPUS, 5),
            lists: [FakeListRegisters::new(count), FakeListRegisters::new(count)],
            fast,
            version,
            physical: [false; CPUS],
            device: false,
            routed: 0,
            taken: Taken::default(),
        };
        let dist = Frame::distributor(version, VcpuId::new(0));
        this.vgic.write(dist, 0, Width::Word, 3);
        this.shared(0x88, u32::MAX);
        this.shared(0x108, u32::MAX);
        this.route(0);
        for cpu in 0..CPUS as u8 {
            this.private(cpu, 0x80, 0xffff_fffe);
            this.private(cpu, 0x100, u64::MAX);
            this.enter(cpu);
        }
        this
    }

    fn private(&mut self, cpu: u8, offset: u64, value: u64) {
        let vcpu = VcpuId::new(cpu);
        let (frame, offset) = match self.version {
            GicVersion::V2 => (Frame::V2(vcpu), offset),
            GicVersion::V3 => (Frame::Redist(vcpu), 0x1_0000 + offset),
        };
        self.vgic.write(frame, offset, Width::Word, value);
    }

    /// Writes the device interrupt's part of a register of the distributor. The answer is the vCPUs to be
    /// kicked.
    fn shared(&mut self, offset: u64, value: u32) -> VcpuSet {
        let dist = Frame::distributor(self.version, VcpuId::new(0));
        // A priority is a byte, the lowest of its word; in all others the device has bit 8.
        let mask = if offset == 0x448 { 0xf8 } else { 1 << 8 };
        let value = u64::from(value & mask);
        self.vgic.write(dist, offset, Width::Word, value)
    }

    /// Routes the device's interrupt to this vCPU. The answer is the vCPUs to be kicked.
    fn route(&mut self, cpu: u8) -> VcpuSet {
        self.routed = cpu;
        let id = u64::from(DEVICE.get());
        let dist = Frame::distributor(self.version, VcpuId::new(0));
        match self.version {
            GicVersion::V2 => self.vgic.write(dist, 0x800 + id, Width::Byte, 1 << cpu),
            GicVersion::V3 => {
                let offset = 0x6000 + id * 8;
                self.vgic.write(dist, offset, Width::Double, cpu.into())
            }
        }
    }

    /// A physical interrupt fires while this vCPU is in its pCPU. The answer is the other vCPUs to be kicked.
    fn fire(&mut self, cpu: u8, id: IntId) -> VcpuSet {
        let (vcpu, index) = (VcpuId::new(cpu), usize::from(cpu));
        let active = match id {
            DEVICE => &mut self.device,
            _ => &mut self.physical[index],
        };
        if core::mem::replace(active, true) {
            return VcpuSet::EMPTY;
        }
        if !self.fast {
            let kicked = self.vgic.inject_hardware(vcpu, id, id);
            let mut kicked = kicked.union(self.enter(cpu));
            kicked.remove(vcpu);
            return kicked;
        }
        let lists = &mut self.lists[index];
        let mut copy = (self.vgic.clone(), lists.clone());
        copy.0.find_hardware_slot(vcpu, id, &copy.1);
        let relisted = copy.0.relist_hardware(vcpu, id, id, &mut copy.1).is_some();
        match id {
            DEVICE => self.taken.device += usize::from(relisted),
            _ => self.taken.timer += usize::from(relisted),
        }
        self.vgic.inject_hardware_now(vcpu, id, id, lists)
    }

    /// The vCPU is away while its timer is due, and comes back. The answer is the vCPUs to be kicked.
    fn wake(&mut self, cpu: u8) -> VcpuSet {
        let (vcpu, index) = (VcpuId::new(cpu), usize::from(cpu));
        let kicked = self.vgic.leave(vcpu, &mut self.lists[index]);
        self.release();
        if self.vgic.holds_hardware(vcpu, TIMER) {
            return kicked.union(self.enter(cpu));
        }
        let foreseen = self.vgic.will_list_hardware(vcpu, TIMER);
        let lists = &mut self.lists[index];
        let listed = self.fast
            && self
                .vgic
                .list_first_hardware(vcpu, TIMER, TIMER, lists)
                .is_some();
        self.physical[index] = true;
        if self.fast {
            assert_eq!(listed, foreseen);
        }
        if listed {
            assert!(self.vgic.has_pending(vcpu), "what wakes is pending");
            self.taken.woken += 1;
            return kicked;
        }
        let mut kicked = kicked.union(self.vgic.inject_hardware(vcpu, TIMER, TIMER));
        kicked = kicked.union(self.enter(cpu));
        kicked.remove(vcpu);
        kicked
    }

    /// Deactivates the physical interrupts that no virtual one holds any more.
    fn release(&mut self) {
        for cpu in 0..CPUS as u8 {
            let may = self.vgic.has_released();
            while let Some(id) = self.vgic.take_released(VcpuId::new(cpu)) {
                assert!(may, "`has_released` says so before");
                self.deactivate(cpu.into(), id);
            }
        }
    }

    fn enter(&mut self, cpu: u8) -> VcpuSet {
        let (vcpu, lists) = (VcpuId::new(cpu), &mut self.lists[usize::from(cpu)]);
        if self.fast {
            // A copy says whether the fast path is taken, so that the real call chooses by itself.
            let mut copy = (self.vgic.clone(), lists.clone());
            let latched =
                copy.0.needs_entry(vcpu) && copy.0.list_latched(vcpu, &mut copy.1).is_some();
            self.taken.latched += usize::from(latched);
            self.vgic.enter(vcpu, lists)
        } else {
            self.vgic.enter_slow_path(vcpu, lists)
        }
    }

    /// Whether the value of the SGI register names a single vCPU by the decoder.
    fn names_one(&self, id: u32, to: u8) -> bool {
        match self.version {
            GicVersion::V2 => Sgir::single_target(id | 1 << (16 + to)).is_some(),
            GicVersion::V3 => SgiRegister::single_target(u64::from(id) << 24 | 1 << to).is_some(),
        }
    }

    /// Sends an SGI. The answer is the vCPUs to be kicked.
    fn send(&mut self, from: u8, to: u8, id: u32) -> VcpuSet {
        let from = VcpuId::new(from);
        let fast = self.fast && usize::from(to) < CPUS;
        self.taken.sent += usize::from(fast && self.names_one(id, to));
        if self.version == GicVersion::V2 {
            let value = id | 1 << (16 + to);
            return match Sgir::single_target(value).filter(|_| fast) {
                Some((id, to)) => self.vgic.send_sgi_to(from, id, to),
                None => {
                    let (frame, offset) = (Frame::V2(from), Sgir::OFFSET);
                    self.vgic.write(frame, offset, Width::Word, value.into())
                }
            };
        }
        let value = u64::from(id) << 24 | 1 << to;
        match SgiRegister::single_target(value).filter(|_| fast) {
            Some((id, to)) => self.vgic.send_sgi_to(from, id, to),
            None => self.vgic.send_sgi(from, value, SgiRegister::Sgi1),
        }
    }

    /// Delivers a posted SGI as the vCPU's own pCPU does. The answer is the other vCPUs to be kicked.
    fn post_sgi(&mut self, to: u8, id: u32) -> VcpuSet {
        let (from, target) = (VcpuId::new(1 - to), VcpuId::new(to));
        let sender = (self.version == GicVersion::V2).then_some(from);
        let lists = &mut self.lists[usize::from(to)];
        let shown = self.fast
            && self
                .vgic
                .relist_sgi(sender, 1 << id, target, lists)
                .is_some();
        if shown {
            self.taken.relisted += 1;
            return VcpuSet::EMPTY;
        }
        let _ = self.vgic.send_sgi_to(from, id, target);
        self.enter(to)
    }

    /// The maintenance interrupt, if an end is to be reported.
    fn report(&mut self, cpu: u8) {
        let (vcpu, lists) = (VcpuId::new(cpu), &mut self.lists[usize::from(cpu)]);
        let due = |lr: &u64| {
            let lr = Lr::from_bits(*lr);
            lr.eoi() && !lr.is_valid()
        };
        if !lists.lr.iter().any(due) {
            return;
        }
        // While the device's interrupt is listed, too, the fast path leaves its list register as it is.
        // The slow path may set HW=1 there, which is another value for the same state.
        if self.fast
            && !self.device
            && let Some(id) = self.vgic.end_of_hardware(vcpu, lists)
        {
            assert_eq!(id, TIMER);
            self.taken.ended += 1;
            self.physical[usize::from(cpu)] = false;
            return;
        }
        self.vgic.mark_refold(vcpu.index());
        self.enter(cpu);
    }

    /// Executes an event. The answer is the vCPUs to be kicked, which are compared.
    fn go(&mut self, step: ListingEvent) -> VcpuSet {
        let mut kicked = VcpuSet::EMPTY;
        match step {
            ListingEvent::Enable(cpu, mask) => self.private(cpu, 0x100, mask.into()),
            ListingEvent::Disable(cpu, mask) => self.private(cpu, 0x180, mask.into()),
            ListingEvent::Send(from, to, id) => kicked = self.send(from, to, id),
            ListingEvent::Take(cpu, slot) => {
                self.becomes(cpu, slot, LrState::Pending, LrState::Active)
            }
            ListingEvent::End(cpu, slot) => {
                self.becomes(cpu, slot, LrState::Active, LrState::Invalid);
                self.report(cpu);
            }
            ListingEvent::Enter(cpu) => kicked = self.enter(cpu),
            ListingEvent::Timer(cpu) => kicked = self.fire(cpu, TIMER),
            ListingEvent::Device(cpu) if cpu == self.routed => kicked = self.fire(cpu, DEVICE),
            ListingEvent::Device(_) => {}
            ListingEvent::Shared(at, value) => kicked = self.shared(at, value),
            ListingEvent::Route(cpu) => {
                // The former vCPU unlists it.
                self.route(cpu);
                self.enter_all();
            }
            ListingEvent::PostedSgi(to, id) => kicked = self.post_sgi(to, id),
            ListingEvent::Private(cpu, at, value) => self.private(cpu, at, value.into()),
            ListingEvent::Forward(groups) => {
                let dist = Frame::distributor(self.version, VcpuId::new(0));
                self.vgic.write(dist, 0, Width::Word, groups);
            }
            ListingEvent::Fold(cpu) => {
                let lists = &mut self.lists[usize::from(cpu)];
                self.vgic.fold(VcpuId::new(cpu), lists);
            }
            ListingEvent::Wake(cpu) => kicked = self.wake(cpu),
        }
        self.release();
        kicked
    }

    /// The kicked vCPUs enter, and those that are kicked by that, until none has to be.
    fn enter_kicked(&mut self, mut kicked: VcpuSet) {
        for _ in 0..4 * CPUS {
            let Some(vcpu) = kicked.iter().next() else {
                return;
            };
            kicked.remove(vcpu);
            kicked = kicked.union(self.enter(vcpu.index() as u8));
        }
        panic!("kicks have no end");
    }

    /// The interrupts that list registers show as pending.
    fn shown_pending(&self, cpu: usize) -> Vec<u32> {
        let lrs = self.lists[cpu].lr.iter().map(|lr| Lr::from_bits(*lr));
        let mut ids: Vec<_> = lrs
            .filter(|lr| lr.is_pending())
            .map(|lr| lr.virtual_id())
            .collect();
        ids.sort_unstable();
        ids
    }

    /// The vCPUs at whose next entry something is to be done.
    fn attention(&self) -> Vec<bool> {
        self.vgic.cpus.iter().map(|cpu| cpu.attention).collect()
    }

    /// All vCPUs enter, with all ends known, until none has to be kicked.
    fn enter_all(&mut self) {
        for _ in 0..CPUS + 1 {
            let kicks = (0..CPUS as u8).map(|cpu| {
                self.vgic.mark_refold(cpu.into());
                self.enter(cpu)
            });
            if kicks.fold(VcpuSet::EMPTY, VcpuSet::union).is_empty() {
                return;
            }
        }
        panic!("kicks have no end");
    }

    /// The guest acknowledges or ends the `nth` interrupt in the order of their ids, if it is in
    /// state `from`. The two worlds may have it in different list registers.
    fn becomes(&mut self, cpu: u8, nth: usize, from: LrState, to: LrState) {
        let lists = &mut self.lists[usize::from(cpu)].lr;
        let mut valid: Vec<_> = (0..lists.len())
            .filter(|slot| Lr::from_bits(lists[*slot]).is_valid())
            .collect();
        valid.sort_by_key(|slot| Lr::from_bits(lists[*slot]).virtual_id());
        if let Some(slot) = valid.get(nth) {
            let lr = Lr::from_bits(lists[*slot]);
            if lr.state() == from {
                lists[*slot] = lr.with_state(to).into_bits();
                if to == LrState::Invalid && lr.hardware() {
                    self.deactivate(cpu.into(), lr.id());
                }
            }
        }
    }

    fn deactivate(&mut self, cpu: usize, id: IntId) {
        match id {
            DEVICE => self.device = false,
            _ => self.physical[cpu] = false,
        }
    }

    fn shown(&self, cpu: usize) -> Vec<u64> {
        let mut valid: Vec<_> = self.lists[cpu]
            .lr
            .iter()
            .copied()
            .filter(|lr| Lr::from_bits(*lr).is_valid())
            .collect();
        valid.sort_unstable();
        valid
    }

    /// The pending interrupts with their senders. Others are not compared: an end that was not folded yet
    /// may be known to one world and not yet to the other.
    fn pending(&self) -> Vec<(Option<VcpuId>, IntId, u8)> {
        let pending = self.vgic.snapshot().filter(|one: &Snapshot| one.pending);
        pending.map(|one| (one.vcpu, one.id, one.senders)).collect()
    }
}

/// Verifies that both worlds are alike after each of `steps`. The answer is how often fast paths were taken.
fn same(version: GicVersion, count: usize, steps: &[ListingEvent]) -> Taken {
    let mut worlds = [true, false].map(|fast| World::with_lists(version, fast, count));
    for step in steps {
        let [fast, slow] = &mut worlds;
        let (kicked, due) = (fast.go(*step), slow.go(*step));
        if kicked != due || fast.attention() != slow.attention() {
            // Either may kick a vCPU in vain: one with an ended interrupt in a list register that it has not read
            // since. Mostly that is the fast path. The vCPU passes on what it should have done.
            fast.enter_kicked(kicked);
            slow.enter_kicked(due);
            fast.vgic.check();
            let all = VcpuSet::first(CPUS);
            let compared = if kicked == due { all } else { due };
            for vcpu in compared.iter() {
                let pending = [&*fast, &*slow].map(|world| world.shown_pending(vcpu.index()));
                assert_eq!(pending[0], pending[1], "{step:?}: {kicked:?} {due:?}");
            }
            // What was known of ends when a list register was written differs, too.
            worlds.iter_mut().for_each(World::enter_all);
        }
        let [fast, slow] = &mut worlds;
        for cpu in 0..CPUS {
            assert_eq!(fast.shown(cpu), slow.shown(cpu), "{step:?} at vCPU {cpu}");
        }
        fast.vgic.check();
    }
    // All vCPUs enter once, so that all ends are known.
    let [fast, slow] = &mut worlds;
    for world in [&mut *fast, &mut *slow] {
        for cpu in 0..CPUS as u8 {
            world.vgic.mark_refold(cpu.into());
            world.enter(cpu);
        }
        world.go(ListingEvent::Enter(0));
    }
    assert_eq!(fast.pending(), slow.pending());
    assert_eq!((fast.physical, fast.device), (slow.physical, slow.device));
    for cpu in 0..CPUS {
        assert_eq!(fast.shown(cpu), slow.shown(cpu), "at the end");
    }
    worlds[0].taken
}

/// How often each fast path is taken in 800 lists of events, which are the same in each run.
fn taken(version: GicVersion) -> [usize; 7] {
    let mut runner = TestRunner::deterministic();
    let strategy = events(60..61);
    let mut sum = [0; 7];
    for _ in 0..800 {
        let steps = strategy
            .new_tree(&mut runner)
            .expect("a list of events")
            .current();
        let each = same(version, 4, &steps).each();
        sum = core::array::from_fn(|at| sum[at] + each[at]);
    }
    sum
}

#[test]
fn every_fast_path_is_taken() {
    for version in [GicVersion::V3, GicVersion::V2] {
        let sum = taken(version);
        std::println!("{version:?}: latched, sent, relisted, ended, timer, device, woken: {sum:?}");
        // A GICv3 ties the virtual interrupt to the physical one, and no end is reported.
        let reports_ends = version == GicVersion::V2;
        let often = |(at, &times): (usize, &usize)| times >= 20 || at == 3 && !reports_ends;
        assert!(sum.iter().enumerate().all(often), "{version:?}: {sum:?}");
    }
}

proptest! {
    #[test]
    fn several_sgis_sent_at_once_are_as_each_sent_alone(
        sent in prop::collection::vec((0..CPUS as u8, 0..CPUS as u8, any::<u16>()), 1..8),
        group1: u32,
        v2: bool,
    ) {
        let version = if v2 { GicVersion::V2 } else { GicVersion::V3 };
        let mut together = World::new(version, true).vgic;
        for cpu in together.cpus.iter_mut() {
            cpu.private.group1 = group1;
        }
        let mut each = together.clone();
        for (from, to, sgis) in sent {
            let (from, to) = (VcpuId::new(from), VcpuId::new(to));
            let ids = (0..16).filter(|id| sgis >> id & 1 != 0);
            let kick = ids.fold(VcpuSet::EMPTY, |kick, id| kick.union(each.send_sgi_to(from, id, to)));
            prop_assert_eq!(together.send_sgis_to(from, sgis, to), kick);
            prop_assert!(together.snapshot().eq(each.snapshot()));
        }
    }

    #[test]
    fn a_gicv3_is_the_same_by_both_paths(count in 4..6usize, steps in events(1..60)) {
        same(GicVersion::V3, count, &steps);
    }

    #[test]
    fn a_gicv2_is_the_same_by_both_paths(count in 4..6usize, steps in events(1..60)) {
        same(GicVersion::V2, count, &steps);
    }
}

/// An SGI that is not enabled, or whose group is not forwarded, stays pending, and its target is not kicked:
/// a kick for it would be work in another vCPU's turn.
#[test]
fn an_sgi_that_is_not_enabled_or_forwarded_needs_no_kick() {
    for version in [GicVersion::V2, GicVersion::V3] {
        for (enabled, forwarded) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut world = World::new(version, true);
            if !enabled {
                world.private(1, 0x180, 1 << 9);
            }
            // A GICv2's SGIs are always enabled.
            let enabled = enabled || version == GicVersion::V2;
            let groups = if forwarded { 3 } else { 0 };
            let dist = Frame::distributor(version, VcpuId::new(0));
            world.vgic.write(dist, 0, Width::Word, groups);
            world.enter(1);
            let (from, to) = (VcpuId::new(0), VcpuId::new(1));
            let kick = world.vgic.send_sgi_to(from, 9, to);
            assert_eq!(
                kick.contains(to),
                enabled && forwarded,
                "{version:?} {enabled} {forwarded}"
            );
            // Another pending SGI, which is enabled and forwarded, does not change that.
            if forwarded {
                let _ = world.vgic.send_sgi_to(from, 3, to);
                let kick = world.vgic.send_sgi_to(from, 9, to);
                assert_eq!(kick.contains(to), enabled, "{version:?}");
            }
            // It is listed as soon as it may be.
            world.vgic.write(dist, 0, Width::Word, 3);
            world.private(1, 0x100, 1 << 9);
            world.enter(1);
            let listed = |index| Lr::from_bits(world.lists[1].read(index)).id();
            let shown = (0..4).any(|index| listed(index) == IntId::new(9));
            assert!(shown, "{version:?} {enabled} {forwarded}");
        }
    }
}

/// The first of several listed SGIs is acknowledged, ended and sent again. It may be listed again at once,
/// but on a GICv2 only if no other is listed: none may be beside one whose end is left to the CPU.
#[test]
fn a_gicv2_relists_an_sgi_only_if_no_other_is_listed() {
    for version in [GicVersion::V2, GicVersion::V3] {
        for count in 1..=4 {
            let mut world = World::new(version, true);
            for id in 1..=count {
                world.send(0, 1, id);
            }
            world.enter(1);
            world.go(ListingEvent::Take(1, 0));
            world.go(ListingEvent::End(1, 0));
            let sender = (version == GicVersion::V2).then_some(VcpuId::new(0));
            let lists = &mut world.lists[1];
            let shown = world.vgic.relist_sgi(sender, 1 << 1, VcpuId::new(1), lists);
            let wanted = version == GicVersion::V3 || count == 1;
            assert_eq!(shown.is_some(), wanted, "{version:?} {count}");
        }
    }
}
