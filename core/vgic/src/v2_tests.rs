//! A GICv2: its distributor register by register, and SGIs that know their sender.

use crate::{Frame, Lr, LrState, Vgic};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};
use std::vec::Vec;

const V0: VcpuId = VcpuId::new(0);
const V1: VcpuId = VcpuId::new(1);
const V2: VcpuId = VcpuId::new(2);
const SPI: IntId = IntId::new(33);
const TIMER: IntId = IntId::new(27);

fn new(vcpus: usize) -> Vgic {
    Vgic::new(GicVersion::V2, vcpus, 5)
}

fn get(vgic: &mut Vgic, vcpu: VcpuId, offset: u64) -> u64 {
    vgic.read(Frame::V2(vcpu), offset, Width::Word).value
}

fn set(vgic: &mut Vgic, vcpu: VcpuId, offset: u64, value: u64) -> VcpuSet {
    vgic.write(Frame::V2(vcpu), offset, Width::Word, value)
}

fn set_byte(vgic: &mut Vgic, vcpu: VcpuId, offset: u64, value: u64) -> VcpuSet {
    vgic.write(Frame::V2(vcpu), offset, Width::Byte, value)
}

/// A controller that forwards, with SPI 33 enabled and routed to `targets`.
fn ready(vcpus: usize, targets: u64) -> Vgic {
    let mut vgic = new(vcpus);
    set(&mut vgic, V0, 0, 1);
    set(&mut vgic, V0, 0x104, 0b10);
    set(&mut vgic, V0, 0x100, 1 << 27);
    set_byte(&mut vgic, V0, 0x821, targets);
    vgic
}

fn lrs() -> FakeListRegisters {
    FakeListRegisters::new(4)
}

fn lr(lrs: &FakeListRegisters, slot: usize) -> Lr {
    Lr::from_bits(lrs.read(slot))
}

/// The list register that shows an interrupt.
fn slot_of(lrs: &FakeListRegisters, id: u32) -> usize {
    let shows = |slot: &usize| lr(lrs, *slot).is_valid() && lr(lrs, *slot).virtual_id() == id;
    (0..lrs.lr.len()).find(shows).unwrap()
}

fn becomes(lrs: &mut FakeListRegisters, slot: usize, state: LrState) {
    lrs.lr[slot] = lr(lrs, slot).with_state(state).into_bits();
}

/// The id, sender and state of each listed interrupt.
fn shown(lrs: &FakeListRegisters) -> Vec<(u32, u8, LrState)> {
    let all = lrs.lr.iter().map(|raw| Lr::from_bits(*raw));
    let valid = all.filter(|lr| lr.is_valid());
    valid
        .map(|lr| {
            let sender = if lr.hardware() { 0 } else { lr.sender() };
            (lr.virtual_id(), sender, lr.state())
        })
        .collect()
}

#[test]
fn the_distributor_says_what_qemu_s_says() {
    let mut vgic = new(2);
    let registers = [
        (0x000, 0),
        (0x004, 0x28),
        (0x008, 0x43b),
        (0x080, 0),
        (0x100, 0xffff),
        (0x104, 0),
        (0x820, 0),
        (0xc00, 0xaaaa_aaaa),
        (0xc04, 0),
        (0xf00, 0),
        (0xf10, 0),
        (0xf20, 0),
    ];
    for (offset, value) in registers {
        assert_eq!(get(&mut vgic, V0, offset), value, "{offset:#x}");
    }
    let ids = [4, 0, 0, 0, 0x90, 0xb4, 0x2b, 0, 0x0d, 0xf0, 0x05, 0xb1];
    for (offset, value) in (0xfd0..0x1000).step_by(4).zip(ids) {
        assert_eq!(get(&mut vgic, V0, offset), value, "{offset:#x}");
    }
    assert_eq!(vgic.unknown_accesses(), 0);
    assert_eq!(vgic.version(), GicVersion::V2);
}

#[test]
fn registers_keep_what_qemu_s_keep() {
    let mut vgic = new(2);
    let registers = [
        (0x000, 3),
        (0x080, 0xffff_ffff),
        (0x084, 0xffff_ffff),
        (0x400, 0xf8f8_f8f8),
        (0xc00, 0xaaaa_aaaa),
        (0xc04, 0xaaaa_aaaa),
        (0xc08, 0xaaaa_aaaa),
        (0x200, 0xffff_0000),
        (0x300, 0xffff_ffff),
        (0x820, 0x0303_0303),
        (0x800, 0x0101_0101),
        // Registers of interrupts that do not exist.
        (0x0a4, 0),
        (0x124, 0),
        (0x524, 0),
        (0x920, 0),
    ];
    for (offset, value) in registers {
        set(&mut vgic, V0, offset, u64::MAX);
        assert_eq!(get(&mut vgic, V0, offset), value, "{offset:#x}");
    }
    for (offset, seen_at, value) in [
        (0x180, 0x100, 0xffff),
        (0x280, 0x200, 0),
        (0x380, 0x300, 0),
        (0x004, 0x004, 0x28),
    ] {
        set(&mut vgic, V0, offset, u64::MAX);
        assert_eq!(get(&mut vgic, V0, seen_at), value, "{offset:#x}");
    }
    assert_eq!(vgic.unknown_accesses(), 0);
}

#[test]
fn private_registers_are_each_vcpu_s_own() {
    let mut vgic = new(3);
    for offset in [0x080, 0x100, 0x200, 0x300] {
        set(&mut vgic, V1, offset, 1 << 27);
        assert_ne!(get(&mut vgic, V1, offset) & 1 << 27, 0);
        assert_eq!(get(&mut vgic, V0, offset) & 1 << 27, 0);
    }
    assert_eq!(get(&mut vgic, V2, 0x81c), 0x0404_0404);
    assert_eq!(vgic.read(Frame::V2(V1), 0x803, Width::Byte).value, 2);
}

#[test]
fn with_one_vcpu_there_are_no_targets_and_it_gets_all() {
    let mut vgic = ready(1, 0);
    set(&mut vgic, V0, 0x820, u64::MAX);
    assert_eq!(get(&mut vgic, V0, 0x820), 0);
    assert_eq!(get(&mut vgic, V0, 0x800), 0);
    assert_eq!(vgic.pulse(None, SPI), VcpuSet::only(V0));
    vgic.reset();
    set(&mut vgic, V0, 0, 1);
    set(&mut vgic, V0, 0x104, 0b10);
    assert_eq!(vgic.pulse(None, SPI), VcpuSet::only(V0));
}

#[test]
fn what_is_not_there_is_counted() {
    let mut vgic = new(2);
    let odd = [
        (Frame::V2(V0), 0x00c, Width::Word),
        (Frame::V2(V0), 0x100, Width::Byte),
        (Frame::V2(V0), 0x820, Width::Half),
        (Frame::V2(V0), 0x820, Width::Double),
        (Frame::V2(V0), 0x7fc, Width::Word),
        (Frame::V2(V0), 0xd00, Width::Word),
        (Frame::V2(V0), 0xf00, Width::Byte),
        (Frame::V2(V0), 0xf30, Width::Word),
        (Frame::V2(V0), 0x1000, Width::Word),
        (Frame::V2(V2), 0x000, Width::Word),
        (Frame::Dist, 0x000, Width::Word),
        (Frame::Redist(V0), 0x008, Width::Double),
    ];
    for (frame, offset, width) in odd {
        assert_eq!(vgic.read(frame, offset, width).value, 0);
        assert!(vgic.write(frame, offset, width, u64::MAX).is_empty());
    }
    assert_eq!(vgic.unknown_accesses(), 2 * odd.len() as u64);
    let mut v3 = Vgic::new(GicVersion::V3, 2, 5);
    v3.read(Frame::V2(V0), 0, Width::Word);
    assert_eq!(v3.unknown_accesses(), 1);
}

#[test]
fn every_offset_in_every_width_is_safe() {
    let mut vgic = new(2);
    for value in [u64::MAX, 0x5555_5555_5555_5554] {
        for frame in [Frame::V2(V1), Frame::V2(VcpuId::new(255))] {
            for offset in (0..0x1010).chain(u64::MAX - 16..=u64::MAX) {
                for width in [Width::Byte, Width::Half, Width::Word, Width::Double] {
                    vgic.write(frame, offset, width, value);
                    let read = vgic.read(frame, offset, width).value;
                    assert_eq!(read & !width.mask(), 0);
                }
            }
        }
    }
}

#[test]
fn an_sgi_goes_where_its_filter_says_and_names_its_sender() {
    let mut vgic = new(3);
    let pending = |vgic: &mut Vgic| [V0, V1, V2].map(|vcpu| get(vgic, vcpu, 0xf10));
    set(&mut vgic, V0, 0xf00, 0x00fe_0000);
    assert_eq!(pending(&mut vgic), [0, 1, 1]);
    set(&mut vgic, V1, 0xf00, 0x0100_0000);
    assert_eq!(pending(&mut vgic), [2, 1, 3]);
    set(&mut vgic, V2, 0xf00, 0x02ff_0003);
    assert_eq!(pending(&mut vgic), [2, 1, 0x0400_0003]);
    set(&mut vgic, V0, 0xf00, 0x03ff_0001);
    assert_eq!(pending(&mut vgic), [2, 1, 0x0400_0003], "reserved");
    assert_eq!(get(&mut vgic, V2, 0x200), 0b1001);
    // ICPENDR does not change their pending state.
    set(&mut vgic, V2, 0x280, u64::MAX);
    assert_eq!(get(&mut vgic, V2, 0x200), 0b1001);
    set(&mut vgic, V2, 0xf10, 0x0400_0001);
    assert_eq!(get(&mut vgic, V2, 0xf20), 2);
    let senders = vgic.snapshot().map(|i| (i.vcpu, i.id.get(), i.senders));
    let all: Vec<_> = senders.collect();
    assert_eq!(all, [(Some(V0), 0, 2), (Some(V1), 0, 1), (Some(V2), 0, 2)]);
}

#[test]
fn the_senders_registers_take_bytes() {
    let mut vgic = new(2);
    set_byte(&mut vgic, V1, 0xf25, 0xff);
    assert_eq!(get(&mut vgic, V1, 0xf14), 0x0300, "of CPUs that are there");
    set_byte(&mut vgic, V1, 0xf15, 1);
    assert_eq!(vgic.read(Frame::V2(V1), 0xf15, Width::Byte).value, 2);
    assert_eq!(get(&mut vgic, V0, 0xf14), 0);
}

#[test]
fn one_sender_after_the_other_is_listed() {
    let mut vgic = ready(3, 1);
    let mut lrs = lrs();
    for sender in [V2, V0, V1] {
        let kick = set(&mut vgic, sender, 0xf00, 0x0001_0004);
        assert_eq!(kick, VcpuSet::only(V0));
    }
    assert!(vgic.has_pending(V0));
    vgic.enter(V0, &mut lrs);
    for sender in 0..3 {
        assert_eq!(shown(&lrs), [(4, sender, LrState::Pending)]);
        assert_eq!(lr(&lrs, 0).eoi(), sender < 2, "others wait");
        assert!(!lr(&lrs, 0).group1());
        becomes(&mut lrs, 0, LrState::Active);
        vgic.fold(V0, &mut lrs);
        assert!(!vgic.has_pending(V0), "until it has ended");
        assert_eq!(get(&mut vgic, V0, 0xf14), 0b110 & 0b110 << sender);
        becomes(&mut lrs, 0, LrState::Invalid);
        vgic.fold(V0, &mut lrs);
        assert_eq!(vgic.has_pending(V0), sender < 2);
        vgic.maintenance(V0, &mut lrs);
    }
    assert_eq!(shown(&lrs), []);
}

#[test]
fn an_active_sgi_is_pending_again_in_its_list_register_for_its_sender_alone() {
    let mut vgic = ready(3, 1);
    let mut lrs = lrs();
    set(&mut vgic, V1, 0xf00, 0x0001_0000);
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Active);
    set(&mut vgic, V0, 0xf00, 0x0001_0000);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(0, 1, LrState::Active)]);
    assert!(lr(&lrs, 0).eoi());
    set(&mut vgic, V1, 0xf00, 0x0001_0000);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(0, 1, LrState::PendingActive)]);
    assert!(lr(&lrs, 0).eoi(), "the other sender's");
    becomes(&mut lrs, 0, LrState::Invalid);
    vgic.maintenance(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(0, 0, LrState::Pending)]);
}

#[test]
fn a_listed_sgi_can_be_taken_back_sender_by_sender() {
    let mut vgic = ready(2, 1);
    let mut lrs = lrs();
    set_byte(&mut vgic, V0, 0xf20, 3);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(0, 0, LrState::Pending)]);
    assert_eq!(set_byte(&mut vgic, V0, 0xf10, 1), VcpuSet::only(V0));
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(0, 1, LrState::Pending)]);
    set_byte(&mut vgic, V0, 0xf10, 2);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), []);
}

#[test]
fn leaving_keeps_every_sender() {
    let mut vgic = ready(3, 1);
    let mut lrs = lrs();
    set_byte(&mut vgic, V0, 0xf21, 0b110);
    vgic.enter(V0, &mut lrs);
    vgic.leave(V0, &mut lrs);
    assert_eq!(shown(&lrs), []);
    assert_eq!(get(&mut vgic, V0, 0xf10), 0x600);
    assert!(vgic.has_pending(V0));
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(1, 1, LrState::Pending)]);
    becomes(&mut lrs, 0, LrState::Active);
    vgic.leave(V0, &mut lrs);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(1, 1, LrState::Active)]);
    assert!(lr(&lrs, 0).eoi());
}

#[test]
fn a_private_interrupt_s_physical_one_follows_its_vcpu() {
    for state in [LrState::Pending, LrState::Active] {
        let mut vgic = ready(2, 1);
        let (mut here, mut there) = (lrs(), lrs());
        vgic.inject_hardware_now(V0, TIMER, TIMER, &mut here);
        becomes(&mut here, 0, state);
        assert!(vgic.holds_hardware(V0, TIMER));
        assert!(!vgic.holds_hardware(V1, TIMER));
        vgic.leave(V0, &mut here);
        assert_eq!(vgic.take_released(V0), None);
        assert!(vgic.holds_hardware(V0, TIMER));
        vgic.enter(V0, &mut there);
        let lr = lr(&there, 0);
        assert!(lr.hardware() && lr.state() == state);
        becomes(&mut there, 0, LrState::Invalid);
        vgic.leave(V0, &mut there);
        assert!(!vgic.holds_hardware(V0, TIMER));
        assert_eq!(vgic.take_released(V0), None, "the CPU did it");
    }
}

#[test]
fn a_device_s_interrupt_goes_where_it_is_routed() {
    let mut vgic = ready(2, 0b10);
    let (mut a, mut b) = (lrs(), lrs());
    let physical = IntId::new(90);
    let kick = vgic.inject_hardware(V0, SPI, physical);
    assert_eq!(kick, VcpuSet::only(V1));
    vgic.enter(V0, &mut a);
    assert_eq!(shown(&a), []);
    vgic.enter(V1, &mut b);
    assert!(lr(&b, 0).hardware() && !b.reports);
    // It is routed elsewhere before it is acknowledged: it moves there, with its physical interrupt.
    assert_eq!(set_byte(&mut vgic, V0, 0x821, 1), VcpuSet::only(V1));
    assert_eq!(vgic.enter(V1, &mut b), VcpuSet::only(V0));
    vgic.enter(V0, &mut a);
    assert_eq!((shown(&a).len(), shown(&b).len()), (1, 0));
    assert!(lr(&a, 0).hardware() && !a.reports);
    assert!(vgic.holds_hardware(V0, SPI));
    // The guest's deactivation also deactivates the physical interrupt.
    becomes(&mut a, 0, LrState::Invalid);
    vgic.fold(V0, &mut a);
    assert!(!vgic.holds_hardware(V0, SPI));
    assert_eq!(vgic.take_released(V0), None);
}

#[test]
fn a_device_s_interrupt_sent_elsewhere_while_active_ends_where_it_is() {
    let mut vgic = ready(2, 1);
    let mut lrs = lrs();
    vgic.inject_hardware(V0, SPI, SPI);
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Active);
    set_byte(&mut vgic, V1, 0x821, 0b10);
    vgic.enter(V0, &mut lrs);
    assert!(lr(&lrs, 0).hardware() && lr(&lrs, 0).state() == LrState::Active);
    becomes(&mut lrs, 0, LrState::Invalid);
    vgic.fold(V0, &mut lrs);
    assert_eq!((shown(&lrs).len(), vgic.take_released(V0)), (0, None));
    assert_eq!(vgic.inject_hardware(V0, SPI, SPI), VcpuSet::only(V1));
    vgic.enter(V1, &mut lrs);
    assert!(lr(&lrs, 0).hardware() && lr(&lrs, 0).state() == LrState::Pending);
}

#[test]
fn a_device_s_interrupt_without_a_target_or_enable_waits() {
    let mut vgic = ready(2, 0);
    assert!(vgic.inject_hardware(V0, SPI, SPI).is_empty());
    assert!(vgic.holds_hardware(V0, SPI));
    assert_eq!(vgic.take_released(V0), None, "silent meanwhile");
    assert_eq!(set_byte(&mut vgic, V0, 0x821, 2), VcpuSet::only(V1));
    set(&mut vgic, V0, 0x184, 0b10);
    let mut lrs = lrs();
    vgic.enter(V1, &mut lrs);
    assert_eq!(shown(&lrs), []);
    // When it is enabled, a level's line is sampled again, and an edge is still pending.
    set(&mut vgic, V0, 0x104, 0b10);
    assert_eq!(vgic.take_released(V1), Some(SPI));
    set(&mut vgic, V0, 0x184, 0b10);
    set(&mut vgic, V0, 0xc08, 0b1000);
    vgic.inject_hardware(V0, SPI, SPI);
    set(&mut vgic, V0, 0x104, 0b10);
    assert_eq!(vgic.take_released(V1), None);
    vgic.enter(V1, &mut lrs);
    assert!(lr(&lrs, 0).hardware());
}

#[test]
fn a_physical_one_s_end_is_left_to_the_cpu_if_no_other_is_listed() {
    for state in [LrState::Pending, LrState::Active] {
        let mut vgic = ready(2, 1);
        let mut lrs = lrs();
        vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
        assert!(lr(&lrs, 0).hardware() && !lrs.reports);
        becomes(&mut lrs, 0, state);
        // While another interrupt is listed, its end is reported.
        set(&mut vgic, V1, 0xf00, 0x0001_0003);
        vgic.enter(V0, &mut lrs);
        let timer = slot_of(&lrs, 27);
        assert_eq!(shown(&lrs).len(), 2);
        assert!(lr(&lrs, timer).eoi() && lr(&lrs, timer).state() == state && lrs.reports);
        assert!(vgic.holds_hardware(V0, TIMER));
        becomes(&mut lrs, timer, LrState::Invalid);
        assert_eq!(vgic.end_of_hardware(V0, &mut lrs), Some(TIMER));
        // Another interrupt is listed beside it, and then ends.
        vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
        let timer = slot_of(&lrs, 27);
        assert!(lr(&lrs, timer).eoi() && lrs.reports);
        becomes(&mut lrs, timer, LrState::Invalid);
        becomes(&mut lrs, 1 - timer, LrState::Invalid);
        assert_eq!(vgic.end_of_hardware(V0, &mut lrs), Some(TIMER));
        vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
        let timer = slot_of(&lrs, 27);
        assert!(lr(&lrs, timer).hardware() && !lrs.reports);
    }
}

#[test]
fn no_end_stays_reported_after_a_vcpu_left() {
    let mut vgic = ready(2, 1);
    let mut lrs = lrs();
    vgic.set_level(None, SPI, true);
    vgic.enter(V0, &mut lrs);
    assert!(lr(&lrs, 0).eoi() && lrs.reports, "due again at its end");
    vgic.leave(V0, &mut lrs);
    let left = lrs.reports;
    vgic.enter(V0, &mut lrs);
    assert!(!left && lrs.reports);
    vgic.reset();
    vgic.enter(V0, &mut lrs);
    assert!(!lrs.reports);
}

#[test]
fn a_device_s_interrupt_that_the_guest_drops_is_released() {
    for (offset, state) in [(0x284, LrState::Pending), (0x384, LrState::Active)] {
        let mut vgic = ready(2, 0b10);
        let mut lrs = lrs();
        vgic.inject_hardware(V0, SPI, IntId::new(90));
        vgic.enter(V1, &mut lrs);
        becomes(&mut lrs, 0, state);
        assert_eq!(set(&mut vgic, V0, offset, 0b10), VcpuSet::only(V1));
        assert_eq!(vgic.take_released(V0), None, "not yet true at its vCPU");
        vgic.enter(V1, &mut lrs);
        assert_eq!(shown(&lrs), []);
        assert_eq!(vgic.take_released(V0), Some(IntId::new(90)));
    }
}

#[test]
fn several_targets_mean_the_first_of_them() {
    let mut vgic = ready(3, 0b110);
    assert_eq!(vgic.pulse(None, SPI), VcpuSet::only(V1));
    assert_eq!(get(&mut vgic, V0, 0x820), 0b110 << 8);
}

#[test]
fn an_interrupt_s_pending_state_can_be_dropped_whatever_the_version() {
    for version in [GicVersion::V2, GicVersion::V3] {
        let mut vgic = Vgic::new(version, 1, 5);
        vgic.pulse(Some(V0), TIMER);
        assert_eq!(vgic.snapshot().count(), 1);
        vgic.clear_pending(Some(V0), TIMER);
        assert_eq!(vgic.snapshot().count(), 0);
    }
}

#[test]
fn a_reset_forgets_senders_and_targets() {
    let mut vgic = ready(2, 1);
    let mut lrs = lrs();
    set_byte(&mut vgic, V0, 0xf20, 3);
    vgic.enter(V0, &mut lrs);
    vgic.set_level(None, SPI, true);
    vgic.reset();
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), []);
    assert_eq!(get(&mut vgic, V0, 0xf10), 0);
    assert_eq!(get(&mut vgic, V0, 0x100), 0xffff);
    assert_eq!(get(&mut vgic, V0, 0x820), 0);
    assert_eq!(get(&mut vgic, V0, 0x204), 0b10, "the line is as it was");
}
