//! The vCPU to which an SPI goes, the one that has it, and the pCPU that deactivates its physical interrupt.

use crate::bank_tests::Numbers;
use crate::{Frame, Lr, LrState, SgiRegister, Vgic};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};
use std::vec::Vec;

const CPUS: usize = 3;
const V0: VcpuId = VcpuId::new(0);
const V1: VcpuId = VcpuId::new(1);
const V2: VcpuId = VcpuId::new(2);
/// SPIs that share words, among these the first and the last word.
const SPIS: [u32; 8] = [32, 33, 63, 64, 65, 130, 256, 287];

fn vgic() -> Vgic {
    let mut vgic = Vgic::new(GicVersion::V3, CPUS, 5);
    set(&mut vgic, 0, 3);
    for n in 1..=8 {
        set(&mut vgic, 0x100 + 4 * n, u64::MAX);
        set(&mut vgic, 0xc00 + 8 * n, u64::MAX);
        set(&mut vgic, 0xc04 + 8 * n, u64::MAX);
    }
    vgic
}

fn set(vgic: &mut Vgic, offset: u64, value: u64) -> VcpuSet {
    vgic.write(Frame::Dist, offset, Width::Word, value)
}

fn route(vgic: &mut Vgic, id: u32, value: u64) -> VcpuSet {
    let offset = 0x6000 + 8 * u64::from(id);
    vgic.write(Frame::Dist, offset, Width::Double, value)
}

/// The vCPU that has an SPI which is not idle.
fn whose(vgic: &Vgic, id: u32) -> Option<VcpuId> {
    let mut all = vgic.snapshot().filter(|one| one.id.get() == id);
    all.next().expect("it is not idle").vcpu
}

/// IHI 0069H, GICD_IROUTER<n>: Aff3, IRM, Aff2, Aff1 and Aff0; vCPU n's affinity is 0.0.0.n.
fn target(route: u64, awake: [bool; CPUS]) -> Option<usize> {
    if route >> 31 & 1 != 0 {
        return Some((0..CPUS).find(|cpu| awake[*cpu]).unwrap_or(0));
    }
    (0..CPUS).find(|cpu| route & 0xff_00ff_ffff == *cpu as u64)
}

#[test]
fn an_spi_goes_to_its_affinity_or_to_the_first_that_is_awake() {
    let mut numbers = Numbers(1);
    let mut vgic = vgic();
    for id in SPIS {
        vgic.pulse(None, IntId::new(id));
    }
    let mut awake = [false; CPUS];
    let mut routes = [0u64; SPIS.len()];
    for _ in 0..2000 {
        let [number, value] = [numbers.next(), numbers.next()];
        if number % 4 == 0 {
            let cpu = value as usize % CPUS;
            awake[cpu] = value & 0x100 != 0;
            let sleep = u64::from(!awake[cpu]) << 1;
            let frame = Frame::Redist(VcpuId::new(cpu as u8));
            vgic.write(frame, 0x14, Width::Word, sleep);
        } else {
            // Mostly a vCPU that exists, at times the one after the last, or one of another cluster.
            let mut new = u64::from(value % 4);
            for (bit, odd) in [(8, 8), (16, 16), (32, 4)] {
                new |= u64::from(value >> odd & 7 == 0) << bit;
            }
            new |= u64::from(value >> 24 & 3 == 0) << 31;
            let which = number as usize / 4 % SPIS.len();
            routes[which] = new;
            let offset = 0x6000 + 8 * u64::from(SPIS[which]);
            match number >> 16 & 1 {
                0 => route(&mut vgic, SPIS[which], new),
                _ => {
                    set(&mut vgic, offset + 4, new >> 32);
                    set(&mut vgic, offset, new & 0xffff_ffff)
                }
            };
            let read = vgic.read(Frame::Dist, offset, Width::Double).value;
            assert_eq!(read, new);
        }
        for (id, route) in SPIS.into_iter().zip(routes) {
            let wanted = target(route, awake).map(|cpu| VcpuId::new(cpu as u8));
            assert_eq!(whose(&vgic, id), wanted, "{id} by {route:#x} {awake:?}");
        }
        vgic.check();
    }
}

/// A write to one half of a route does not change the other half.
#[test]
fn a_word_of_a_route_leaves_the_other_word() {
    let mut vgic = vgic();
    let mut numbers = Numbers(2);
    for _ in 0..100 {
        let [low, high, new] = [numbers.next(), numbers.next(), numbers.next()].map(u64::from);
        let writable = 0xff_80ff_ffff;
        let read = |vgic: &mut Vgic| vgic.read(Frame::Dist, 0x6400, Width::Double).value;
        route(&mut vgic, 128, high << 32 | low);
        set(&mut vgic, 0x6400, new);
        assert_eq!(read(&mut vgic), (high << 32 | new) & writable);
        set(&mut vgic, 0x6404, low);
        assert_eq!(read(&mut vgic), (low << 32 | new) & writable);
    }
}

/// ISACTIVER gives an idle SPI to its target; one that a vCPU has stays with that.
#[test]
fn what_is_declared_active_is_its_target_s() {
    let mut vgic = vgic();
    let mut numbers = Numbers(3);
    let mut owners: [Option<usize>; SPIS.len()] = [None; SPIS.len()];
    let mut routes = [0; SPIS.len()];
    for _ in 0..1000 {
        let number = numbers.next() as usize;
        let which = number / 8 % SPIS.len();
        let (id, bit) = (SPIS[which], 1 << (SPIS[which] % 32));
        let word = 4 * u64::from(id / 32);
        match number % 3 {
            0 => {
                // The last value names no vCPU.
                routes[which] = number / 256 % 4;
                route(&mut vgic, id, routes[which] as u64);
            }
            1 => {
                set(&mut vgic, 0x300 + word, bit);
                let no_vcpu = routes[which] == CPUS;
                let target = if no_vcpu { 0 } else { routes[which] };
                owners[which].get_or_insert(target);
            }
            _ => {
                set(&mut vgic, 0x380 + word, bit);
                owners[which] = None;
            }
        }
        let active = vgic.snapshot().map(|one| (one.id.get(), one.vcpu));
        let owned = SPIS.into_iter().zip(owners);
        let owned = owned.filter_map(|(id, cpu)| Some((id, cpu?)));
        let owned = owned.map(|(id, cpu)| (id, Some(VcpuId::new(cpu as u8))));
        assert!(active.eq(owned));
        vgic.check();
    }
}

/// One write declares several SPIs active, each of which has another target.
#[test]
fn one_write_declares_several_active_for_several() {
    let mut vgic = vgic();
    for (id, cpu) in [(64, 2), (65, 1), (66, 0), (67, 2)] {
        route(&mut vgic, id, cpu);
    }
    set(&mut vgic, 0x308, 0b1111);
    let owners: Vec<_> = (64..68).map(|id| whose(&vgic, id)).collect();
    assert_eq!(owners, [Some(V2), Some(V1), Some(V0), Some(V2)]);
    vgic.check();
}

/// An active SPI that is routed elsewhere stays with the vCPU whose list register has it.
#[test]
fn what_is_listed_is_no_other_vcpu_s() {
    let mut vgic = vgic();
    let mut lrs = FakeListRegisters::new(4);
    let id = IntId::new(64);
    vgic.enter(V1, &mut FakeListRegisters::new(4));
    vgic.pulse(None, id);
    vgic.enter(V0, &mut lrs);
    lrs.lr[0] = Lr::from_bits(lrs.read(0))
        .with_state(LrState::Active)
        .into_bits();
    vgic.fold(V0, &mut lrs);
    route(&mut vgic, 64, 1);
    assert_eq!(whose(&vgic, 64), Some(V0));
    set(&mut vgic, 0x308, 1);
    vgic.enter(V0, &mut lrs);
    assert_eq!(whose(&vgic, 64), Some(V0));
    vgic.check();
    // It ends, is due nowhere, and no vCPU is kicked.
    lrs.lr[0] = 0;
    set(&mut vgic, 0x388, 1);
    assert_eq!(vgic.enter(V0, &mut lrs), VcpuSet::EMPTY);
    assert!(!vgic.needs_entry(V1));
}

/// An SPI of the same word in another vCPU's list register is not pending for this vCPU.
#[test]
fn what_another_list_register_shows_is_not_pending_here() {
    let mut vgic = vgic();
    let (mut a, mut b) = (FakeListRegisters::new(4), FakeListRegisters::new(4));
    route(&mut vgic, 65, 1);
    vgic.pulse(None, IntId::new(64));
    vgic.pulse(None, IntId::new(65));
    vgic.enter(V0, &mut a);
    vgic.enter(V1, &mut b);
    a.lr[0] = Lr::from_bits(a.read(0))
        .with_state(LrState::Active)
        .into_bits();
    vgic.fold(V0, &mut a);
    assert!(!vgic.has_pending(V0) && vgic.has_pending(V1));
    assert_eq!(
        (vgic.most_urgent(V0), vgic.most_urgent(V1)),
        (None, Some((0, false)))
    );
}

/// An interrupt that the guest clears is not pending, although its list register shows it until the next entry.
#[test]
fn what_is_cleared_is_not_pending_any_more() {
    let mut vgic = vgic();
    let mut lrs = FakeListRegisters::new(4);
    vgic.pulse(None, IntId::new(64));
    vgic.pulse(None, IntId::new(65));
    vgic.enter(V0, &mut lrs);
    for (cleared, pending) in [(0b01, true), (0b10, false)] {
        assert!(vgic.has_pending(V0) && vgic.most_urgent(V0).is_some());
        set(&mut vgic, 0x288, cleared);
        assert_eq!(vgic.has_pending(V0), pending);
        assert_eq!(vgic.most_urgent(V0).is_some(), pending);
    }
}

/// An SPI that one vCPU has acknowledged is routed to another one, and due again: the new one gets it.
#[test]
fn what_is_due_again_after_it_was_sent_elsewhere_comes_there() {
    let mut vgic = vgic();
    let (mut a, mut b) = (FakeListRegisters::new(4), FakeListRegisters::new(4));
    vgic.pulse(None, IntId::new(64));
    vgic.enter(V0, &mut a);
    a.lr[0] = Lr::from_bits(a.read(0))
        .with_state(LrState::Active)
        .into_bits();
    route(&mut vgic, 64, 1);
    vgic.pulse(None, IntId::new(64));
    vgic.enter(V0, &mut a);
    let lr = Lr::from_bits(a.read(0));
    assert_eq!((lr.state(), lr.eoi()), (LrState::Active, true));
    a.lr[0] = lr.with_state(LrState::Invalid).into_bits();
    assert_eq!(vgic.maintenance(V0, &mut a), VcpuSet::only(V1));
    vgic.enter(V1, &mut b);
    assert_eq!(Lr::from_bits(b.read(0)).virtual_id(), 64);
}

/// A controller with physical interrupts behind two private interrupts of each vCPU, and behind two SPIs,
/// among them the last.
fn held() -> Vgic {
    let mut vgic = vgic();
    for cpu in [V0, V1] {
        for id in [20, 27] {
            let physical = IntId::new(100 + 10 * cpu.index() as u32 + id);
            vgic.inject_hardware(cpu, IntId::new(id), physical);
        }
    }
    for id in [64, 287] {
        vgic.inject_hardware(V2, IntId::new(id), IntId::new(600 + id));
    }
    vgic
}

fn drop_all(vgic: &mut Vgic) {
    for cpu in [V0, V1] {
        let kick = vgic.write(Frame::Redist(cpu), 0x1_0280, Width::Word, u64::MAX);
        assert_eq!(kick, VcpuSet::only(cpu), "its own pCPU deactivates it");
    }
    // Any pCPU may deactivate an SPI.
    assert_eq!(set(vgic, 0x288, u64::MAX), VcpuSet::EMPTY);
    assert_eq!(set(vgic, 0x2a0, u64::MAX), VcpuSet::EMPTY);
}

fn take(mut next: impl FnMut() -> Option<IntId>) -> Vec<u32> {
    core::iter::from_fn(&mut next).map(IntId::get).collect()
}

#[test]
fn what_is_released_is_found_once_on_its_own_pcpu() {
    let mut vgic = held();
    assert_eq!((vgic.has_released(), vgic.take_released(V0)), (false, None));
    drop_all(&mut vgic);
    assert!(vgic.has_released());
    let all = take(|| vgic.take_released(V1));
    assert_eq!(all, [130, 137, 664, 887]);
    assert!(vgic.has_released(), "the other's");
    assert_eq!(take(|| vgic.take_released(V0)), [120, 127]);
    assert!(!vgic.has_released());
}

#[test]
fn what_is_released_is_found_by_kind() {
    let mut vgic = held();
    drop_all(&mut vgic);
    assert_eq!(take(|| vgic.take_released_private(V0)), [120, 127]);
    assert_eq!(take(|| vgic.take_released_private(V2)), []);
    assert_eq!(take(|| vgic.take_released_private(VcpuId::new(9))), []);
    assert_eq!(take(|| vgic.take_released_spi()), [664, 887]);
    assert!(vgic.has_released(), "the second one's");
    assert_eq!(take(|| vgic.take_released(V1)), [130, 137]);
    assert!(!vgic.has_released());
}

/// A write that ends no interrupt releases none.
#[test]
fn a_write_that_releases_nothing_kicks_no_vcpu() {
    let mut vgic = held();
    let frame = Frame::Redist(V0);
    vgic.enter(V0, &mut FakeListRegisters::new(4));
    for offset in [0x180, 0x280, 0x380] {
        // SGIs, and idle PPIs.
        let kick = vgic.write(frame, 0x1_0000 + offset, Width::Word, 0x1_ffff);
        assert_eq!(kick, VcpuSet::EMPTY, "{offset:#x}");
    }
    assert!(!vgic.needs_entry(V0) && !vgic.has_released());
}

#[test]
fn a_physical_interrupt_that_fires_again_is_held() {
    let mut vgic = vgic();
    let mut lrs = FakeListRegisters::new(4);
    let id = IntId::new(64);
    vgic.inject_hardware(V0, id, id);
    vgic.enter(V0, &mut lrs);
    assert!(vgic.holds_hardware(V0, id));
    // The guest ends it, which the model does not know yet, and its device asks again.
    lrs.lr[0] = Lr::from_bits(lrs.read(0))
        .with_state(LrState::Invalid)
        .into_bits();
    vgic.inject_hardware(V0, id, id);
    assert!(vgic.holds_hardware(V0, id));
    vgic.enter(V0, &mut lrs);
    assert!(vgic.holds_hardware(V0, id));
    assert!(!vgic.holds_hardware(V0, IntId::new(65)));
}

/// An SPI may be raised with any vCPU, also with one that does not exist.
#[test]
fn a_device_s_line_needs_no_vcpu() {
    for cpu in [None, Some(V2), Some(VcpuId::new(7)), Some(VcpuId::new(200))] {
        let mut vgic = vgic();
        assert_eq!(vgic.set_level(cpu, IntId::new(64), true), VcpuSet::only(V0));
        assert_eq!(vgic.pulse(cpu, IntId::new(65)), VcpuSet::only(V0));
    }
}

/// QEMU's affinities: 16 to a cluster.
#[test]
fn routes_sgis_and_redistributors_name_all_of_64_vcpus_by_their_affinity() {
    let mut vgic = Vgic::new(GicVersion::V3, 64, 5);
    for index in 0..64u8 {
        let vcpu = VcpuId::new(index);
        let affinity = u64::from(index / 16) << 8 | u64::from(index % 16);
        let typer = vgic.read(Frame::Redist(vcpu), 8, Width::Double).value;
        assert_eq!(typer >> 32, affinity);
        assert_eq!(
            (typer >> 8 & 0xffff, typer >> 4 & 1),
            (index.into(), u64::from(index == 63))
        );
        route(&mut vgic, 40, affinity);
        vgic.pulse(None, IntId::new(40));
        assert_eq!(whose(&vgic, 40), Some(vcpu));
        let value = 3 << 24 | affinity >> 8 << 16 | 1 << (affinity & 0xf);
        vgic.send_sgi(vcpu, value, SgiRegister::Sgi0);
        let pending = vgic.snapshot().filter(|one| one.id.get() == 3);
        assert_eq!(pending.count(), usize::from(index) + 1);
        vgic.check();
    }
    route(&mut vgic, 40, 0x10);
    assert_eq!(whose(&vgic, 40), None, "no Aff0 is above 15");
}

/// All SPIs that any vCPU may take, listed by several vCPUs or waiting, go on to the next when the vCPU that
/// takes them sleeps.
#[test]
fn what_any_vcpu_may_take_moves_on_as_far_as_the_last() {
    let mut vgic = Vgic::new(GicVersion::V3, 64, 5);
    let wake = |vgic: &mut Vgic, index: u8, sleep: bool| {
        let frame = Frame::Redist(VcpuId::new(index));
        vgic.write(frame, 0x14, Width::Word, u64::from(sleep) << 1)
    };
    set(&mut vgic, 0, 3);
    set(&mut vgic, 0x104, u64::MAX);
    wake(&mut vgic, 33, false);
    for id in 32..64 {
        route(&mut vgic, id, 1 << 31);
        vgic.pulse(None, IntId::new(id));
    }
    let mut lrs = FakeListRegisters::new(4);
    vgic.enter(VcpuId::new(33), &mut lrs);
    wake(&mut vgic, 63, false);
    let moved = wake(&mut vgic, 33, true);
    assert!(
        moved.iter().map(VcpuId::index).eq([33, 63]),
        "listed there, and new here"
    );
    vgic.check();
    let kicks = vgic.enter(VcpuId::new(33), &mut lrs);
    assert!(kicks.iter().all(|vcpu| vcpu.index() == 63));
    vgic.enter(VcpuId::new(63), &mut FakeListRegisters::new(4));
    assert_eq!(whose(&vgic, 63), Some(VcpuId::new(63)));
    vgic.check();
}
