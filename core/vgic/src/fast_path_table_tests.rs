//! The fast paths in every combination of the states on which they depend: they are taken if the modules'
//! rules say so, change nothing if they are not taken, and have the outcome of the slow path.

use crate::urgency::Urgency;
use crate::{Frame, Lr, LrState, Vgic};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};
use std::format;
use std::string::String;
use std::vec::Vec;

const V0: VcpuId = VcpuId::new(0);
const V1: VcpuId = VcpuId::new(1);
const TIMER: IntId = IntId::new(27);
const VERSIONS: [GicVersion; 2] = [GicVersion::V2, GicVersion::V3];

/// A controller of two vCPUs, whose private interrupts are all enabled, of group 1 and forwarded. No entry
/// is due.
fn ready(version: GicVersion) -> (Vgic, FakeListRegisters) {
    let mut vgic = Vgic::new(version, 2, 5);
    let mut lrs = FakeListRegisters::new(4);
    vgic.write(Frame::distributor(version, V0), 0, Width::Word, 3);
    for cpu in [V0, V1] {
        private(&mut vgic, cpu, 0x080, u32::MAX);
        private(&mut vgic, cpu, 0x100, u32::MAX);
        vgic.enter(cpu, &mut FakeListRegisters::new(4));
    }
    vgic.enter(V0, &mut lrs);
    (vgic, lrs)
}

fn private(vgic: &mut Vgic, cpu: VcpuId, offset: u64, value: u32) -> VcpuSet {
    let (frame, base) = match vgic.version() {
        GicVersion::V2 => (Frame::V2(cpu), 0),
        GicVersion::V3 => (Frame::Redist(cpu), 0x1_0000),
    };
    vgic.write(frame, base + offset, Width::Word, value.into())
}

/// The second vCPU sends the SGI, or a device raises the other interrupt.
fn raise(vgic: &mut Vgic, id: u32) {
    if id < 16 {
        let _ = vgic.send_sgi_to(V1, id, V0);
    } else {
        vgic.pulse(Some(V0), IntId::new(id));
    }
}

fn slot_of(lrs: &FakeListRegisters, id: u32) -> usize {
    let is = |raw: &u64| Lr::from_bits(*raw).is_valid() && Lr::from_bits(*raw).virtual_id() == id;
    lrs.lr.iter().position(is).expect("it is listed")
}

fn becomes(lrs: &mut FakeListRegisters, id: u32, state: LrState) {
    let slot = slot_of(lrs, id);
    lrs.lr[slot] = Lr::from_bits(lrs.lr[slot]).with_state(state).into_bits();
}

/// The state that is compared: the private interrupts, and the listed ones without their places.
fn outcome(vgic: &Vgic, lrs: &FakeListRegisters) -> String {
    let cpu = &vgic.cpus[0];
    let mut noted: Vec<_> = cpu.slots().map(|(_, lr)| lr.into_bits()).collect();
    let mut listed: Vec<_> = lrs.lr.clone();
    listed.retain(|raw| Lr::from_bits(*raw).is_valid() || Lr::from_bits(*raw).eoi());
    noted.sort_unstable();
    listed.sort_unstable();
    let (bank, senders) = (&cpu.private, &cpu.senders);
    format!(
        "{bank:?} {senders:?} {noted:?} {listed:?} {}",
        cpu.attention
    )
}

/// Lists two other interrupts: one that is acknowledged, and one that the guest has declared active.
fn list_others(vgic: &mut Vgic, lrs: &mut FakeListRegisters) {
    raise(vgic, 1);
    private(vgic, V0, 0x300, 1 << 2);
    vgic.enter(V0, lrs);
    becomes(lrs, 1, LrState::Active);
    vgic.fold(V0, lrs);
    assert!(!vgic.needs_entry(V0));
}

/// Lists an interrupt, pending, acknowledged or declared active, and ends it there; not at all if `how` is 0.
fn list_and_end(vgic: &mut Vgic, lrs: &mut FakeListRegisters, id: u32, how: usize) {
    match how {
        0 => return,
        1 | 2 => raise(vgic, id),
        _ => {
            private(vgic, V0, 0x300, 1 << id);
        }
    }
    vgic.enter(V0, lrs);
    if how == 2 {
        becomes(lrs, id, LrState::Active);
        vgic.fold(V0, lrs);
    }
    becomes(lrs, id, LrState::Invalid);
}

#[test]
fn one_new_interrupt_is_listed_alike_by_both_paths() {
    let mut shown = 0;
    for case in 0..1024usize {
        let is = |bit: usize| case >> bit & 1 != 0;
        let version = VERSIONS[case & 1];
        let (id, how) = (if is(1) { 5 } else { 20 }, case >> 2 & 3);
        let (mut vgic, mut lrs) = ready(version);
        if is(4) {
            list_others(&mut vgic, &mut lrs);
        }
        list_and_end(&mut vgic, &mut lrs, id, how);
        raise(&mut vgic, id);
        let bank = &mut vgic.cpus[0].private;
        let mask = 1 << id;
        // The conditions that exclude the fast path, in all combinations: a level of this interrupt or of
        // another one, a physical interrupt, a disabled interrupt.
        let extra = case >> 5;
        bank.line |= if extra & 1 != 0 { mask } else { 0 };
        bank.edge |= if extra & 2 != 0 { mask } else { 0 };
        bank.line |= if extra & 4 != 0 { 1 << 21 } else { 0 };
        bank.hardware |= if extra & 8 != 0 { mask } else { 0 };
        bank.enabled &= !if extra & 16 != 0 { mask } else { 0 };
        let edge = extra & 2 != 0 || id < 16;
        let level = extra & 1 != 0 && !edge || extra & 4 != 0;
        let beside = is(4) && version == GicVersion::V2;
        let wanted = !level && extra & 24 == 0 && !beside;

        let (mut slow, mut slow_lrs) = (vgic.clone(), lrs.clone());
        let before = outcome(&vgic, &lrs);
        let taken = vgic.list_latched(V0, &mut lrs);
        assert_eq!(taken.is_some(), wanted, "{case:#x} {before}");
        if taken.is_none() {
            assert_eq!(outcome(&vgic, &lrs), before, "{case:#x}");
            continue;
        }
        slow.enter_slow_path(V0, &mut slow_lrs);
        assert_eq!(outcome(&vgic, &lrs), outcome(&slow, &slow_lrs), "{case:#x}");
        // The end of none of these is to be reported.
        assert!(!lrs.reports && !vgic.cpus[0].reports);
        vgic.check();
        shown += 1;
    }
    assert!(shown > 50, "{shown}");
}

/// On a GICv2 the end of an SGI is reported while another sender's instance waits; on a GICv3 there is only
/// one instance.
#[test]
fn an_end_is_reported_if_another_sender_waits() {
    for version in VERSIONS {
        let (mut vgic, mut lrs) = ready(version);
        let _ = vgic.send_sgi_to(V1, 5, V0);
        let _ = vgic.send_sgi_to(V0, 5, V0);
        assert!(vgic.list_latched(V0, &mut lrs).is_some());
        let reported = version == GicVersion::V2;
        let eoi = Lr::from_bits(lrs.read(0)).eoi();
        assert_eq!(
            (lrs.reports, vgic.cpus[0].reports, eoi),
            (reported, reported, reported)
        );
    }
}

/// The timer's interrupt, listed while others are, so that its end is reported: pending, acknowledged, or
/// declared active.
fn ended_timer(how: usize) -> (Vgic, FakeListRegisters) {
    let (mut vgic, mut lrs) = ready(GicVersion::V2);
    list_others(&mut vgic, &mut lrs);
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    match how {
        0 => {}
        1 => {
            becomes(&mut lrs, 27, LrState::Active);
            vgic.fold(V0, &mut lrs);
        }
        _ => {
            // The guest clears its pending state, and declares it active.
            private(&mut vgic, V0, 0x280, 1 << 27);
            private(&mut vgic, V0, 0x300, 1 << 27);
            vgic.enter(V0, &mut lrs);
        }
    }
    (vgic, lrs)
}

#[test]
fn the_end_of_a_physical_interrupt_is_alike_by_both_paths() {
    let mut taken = 0;
    for case in 0..192usize {
        let is = |bit: usize| case >> bit & 1 != 0;
        let (mut vgic, mut lrs) = ended_timer(case >> 6);
        becomes(&mut lrs, 27, LrState::Invalid);
        let held = vgic.cpus[0].private.hardware_listed >> 27 & 1 != 0;
        let bank = &mut vgic.cpus[0].private;
        let mask = |on: bool| if on { 1 << 27 } else { 0 };
        bank.latch |= mask(is(0));
        bank.hardware |= mask(is(1));
        bank.line |= mask(is(2));
        bank.edge |= mask(is(3));
        vgic.cpus[0].attention = is(4);
        vgic.cpus[0].stuck = is(5);
        let due = is(0) || is(1) || is(2) && !is(3);
        let wanted = held && !due && !is(4) && !is(5);

        let (mut slow, mut slow_lrs) = (vgic.clone(), lrs.clone());
        let before = format!("{vgic:?} {lrs:?}");
        let ended = vgic.end_of_hardware(V0, &mut lrs);
        assert_eq!(ended, wanted.then_some(TIMER), "{case:#x} {before}");
        if ended.is_none() {
            assert_eq!(format!("{vgic:?} {lrs:?}"), before, "{case:#x}");
            continue;
        }
        slow.maintenance(V0, &mut slow_lrs);
        assert_eq!(slow.take_released(V0), ended, "{case:#x}");
        assert_eq!(outcome(&vgic, &lrs), outcome(&slow, &slow_lrs), "{case:#x}");
        assert_eq!(vgic.take_released(V0), None, "it is deactivated already");
        vgic.check();
        taken += 1;
    }
    assert!(taken >= 4, "{taken}");
}

/// The end of an interrupt without a physical one behind it takes the slow path.
#[test]
fn an_end_has_a_fast_path_only_with_a_physical_interrupt() {
    let (mut vgic, mut lrs) = ready(GicVersion::V2);
    vgic.set_level(Some(V0), IntId::new(20), true);
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 20, LrState::Active);
    vgic.set_level(Some(V0), IntId::new(20), true);
    vgic.fold(V0, &mut lrs);
    becomes(&mut lrs, 20, LrState::Invalid);
    vgic.cpus[0].private.line = 0;
    assert_eq!(vgic.end_of_hardware(V0, &mut lrs), None);
}

/// A vCPU that has an entry to do, or for which more urgent interrupts wait, takes the slow path.
#[test]
fn an_interrupt_is_relisted_at_once_only_if_nothing_else_is_due() {
    for (version, flags) in VERSIONS
        .into_iter()
        .flat_map(|v| (0..4).map(move |f| (v, f)))
    {
        let (mut vgic, mut lrs) = ready(version);
        vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
        becomes(&mut lrs, 27, LrState::Invalid);
        vgic.cpus[0].attention = flags & 1 != 0;
        // The waiting interrupt is more urgent than any.
        vgic.cpus[0].overflow = flags & 2 != 0;
        vgic.cpus[0].next = if flags & 2 != 0 {
            Urgency::FIRST
        } else {
            Urgency::NONE
        };
        let before = format!("{vgic:?} {lrs:?}");
        let shown = vgic.relist_hardware(V0, TIMER, TIMER, &mut lrs);
        assert_eq!(shown.is_some(), flags == 0, "{version:?} {flags}");
        assert_eq!(format!("{vgic:?} {lrs:?}") == before, flags != 0);

        let (mut vgic, mut lrs) = ready(version);
        raise(&mut vgic, 5);
        vgic.enter(V0, &mut lrs);
        becomes(&mut lrs, 5, LrState::Invalid);
        vgic.cpus[0].attention = flags & 1 != 0;
        // The waiting interrupt is more urgent than any.
        vgic.cpus[0].overflow = flags & 2 != 0;
        vgic.cpus[0].next = if flags & 2 != 0 {
            Urgency::FIRST
        } else {
            Urgency::NONE
        };
        let before = format!("{vgic:?} {lrs:?}");
        let from = (version == GicVersion::V2).then_some(V1);
        let shown = vgic.relist_sgi(from, 1 << 5, V0, &mut lrs);
        assert_eq!(shown.is_some(), flags == 0, "{version:?} {flags}");
        assert_eq!(format!("{vgic:?} {lrs:?}") == before, flags != 0);
    }
}

/// The list register must be empty, and the last interrupt in it must have been this one.
#[test]
fn a_physical_interrupt_is_relisted_in_its_own_empty_list_register() {
    for version in VERSIONS {
        for state in [LrState::Pending, LrState::Active] {
            let (mut vgic, mut lrs) = ready(version);
            vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
            becomes(&mut lrs, 27, state);
            let before = lrs.lr.clone();
            assert_eq!(vgic.relist_hardware(V0, TIMER, TIMER, &mut lrs), None);
            assert_eq!(lrs.lr, before);
        }
        // The interrupt of another timer has ended there.
        let other = IntId::new(30);
        let (mut vgic, mut lrs) = ready(version);
        vgic.inject_hardware_now(V0, other, other, &mut lrs);
        becomes(&mut lrs, 30, LrState::Invalid);
        assert_eq!(vgic.relist_hardware(V0, TIMER, TIMER, &mut lrs), None);
        vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
        assert_eq!(Lr::from_bits(lrs.lr[slot_of(&lrs, 27)]).physical_id(), 27);
        // This interrupt was active when the list register was last read.
        becomes(&mut lrs, 27, LrState::Active);
        vgic.fold(V0, &mut lrs);
        becomes(&mut lrs, 27, LrState::Invalid);
        assert_eq!(vgic.relist_hardware(V0, TIMER, TIMER, &mut lrs), None);
    }
}

/// The vCPU on whose pCPU the interrupt is injected is not among those to be kicked.
#[test]
fn an_injection_kicks_only_other_vcpus() {
    for version in VERSIONS {
        let (mut vgic, mut lrs) = ready(version);
        raise(&mut vgic, 1);
        for vcpu in [V0, VcpuId::new(2), VcpuId::new(200)] {
            let kick = vgic.inject_hardware_now(vcpu, TIMER, TIMER, &mut lrs);
            assert_eq!(kick, VcpuSet::EMPTY, "{version:?} {vcpu:?}");
        }
        // An SPI that is routed to the other vCPU.
        let id = IntId::new(64);
        let dist = Frame::distributor(version, V0);
        vgic.write(dist, 0x108, Width::Word, 1);
        match version {
            GicVersion::V2 => vgic.write(dist, 0x840, Width::Byte, 2),
            GicVersion::V3 => vgic.write(dist, 0x6200, Width::Double, 1),
        };
        let kick = vgic.inject_hardware_now(V0, id, id, &mut lrs);
        assert_eq!(kick, VcpuSet::only(V1));
    }
}
