//! How interrupts get into list registers and out of them, case by case.

use crate::{Frame, Lr, LrState, SgiRegister, Vgic};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, VcpuSet, Width};

const V0: VcpuId = VcpuId::new(0);
const V1: VcpuId = VcpuId::new(1);
const UART: IntId = IntId::new(33);
const TIMER: IntId = IntId::new(27);

/// A controller whose interrupts are all enabled, of group 1 and priority 0xa0; SPIs 48 to 63 are
/// edge-triggered.
fn ready(vcpus: usize) -> Vgic {
    let mut vgic = Vgic::new(GicVersion::V3, vcpus, 5);
    let word = |vgic: &mut Vgic, frame, offset, value| {
        vgic.write(frame, offset, Width::Word, value);
    };
    word(&mut vgic, Frame::Dist, 0, 2);
    for n in 1..=8 {
        word(&mut vgic, Frame::Dist, 0x80 + 4 * n, u64::MAX);
        word(&mut vgic, Frame::Dist, 0x100 + 4 * n, u64::MAX);
    }
    word(&mut vgic, Frame::Dist, 0xc0c, u64::MAX);
    for cpu in 0..vcpus as u8 {
        let frame = Frame::Redist(VcpuId::new(cpu));
        word(&mut vgic, frame, 0x1_0080, u64::MAX);
        word(&mut vgic, frame, 0x1_0100, u64::MAX);
        (0..8).for_each(|n| word(&mut vgic, frame, 0x1_0400 + 4 * n, 0xa0a0_a0a0));
    }
    (8..72).for_each(|n| word(&mut vgic, Frame::Dist, 0x400 + 4 * n, 0xa0a0_a0a0));
    vgic
}

fn lr(lrs: &FakeListRegisters, slot: usize) -> Lr {
    Lr::from_bits(lrs.read(slot))
}

/// Gives the interrupt of a list register the state that the guest's access brings about.
fn becomes(lrs: &mut FakeListRegisters, slot: usize, state: LrState) {
    lrs.lr[slot] = lr(lrs, slot).with_state(state).into_bits();
}

fn shown(lrs: &FakeListRegisters) -> std::vec::Vec<(u32, LrState)> {
    let valid = lrs
        .lr
        .iter()
        .map(|raw| Lr::from_bits(*raw))
        .filter(|lr| lr.is_valid());
    valid.map(|lr| (lr.virtual_id(), lr.state())).collect()
}

fn write(vgic: &mut Vgic, offset: u64, value: u64) -> VcpuSet {
    vgic.write(Frame::Dist, offset, Width::Word, value)
}

#[test]
fn the_first_entry_clears_what_others_left() {
    for count in [1, 4, 16] {
        let mut vgic = ready(1);
        let mut lrs = FakeListRegisters::new(count);
        lrs.lr.fill(u64::MAX);
        vgic.pulse(None, UART);
        vgic.enter(V0, &mut lrs);
        assert_eq!(shown(&lrs), [(33, LrState::Pending)]);
        assert!(!vgic.needs_entry(V0));
    }
}

#[test]
fn a_level_that_falls_in_the_handler_costs_no_maintenance() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    assert_eq!(vgic.set_level(None, UART, true), VcpuSet::only(V0));
    vgic.enter(V0, &mut lrs);
    assert!(lr(&lrs, 0).eoi(), "high at its end unless it falls");
    becomes(&mut lrs, 0, LrState::Active);
    vgic.set_level(None, UART, false);
    vgic.enter(V0, &mut lrs);
    assert_eq!(lr(&lrs, 0).state(), LrState::Active);
    assert!(!lr(&lrs, 0).eoi());
    vgic.set_level(None, UART, true);
    vgic.enter(V0, &mut lrs);
    assert!(lr(&lrs, 0).eoi(), "high again while active");
    becomes(&mut lrs, 0, LrState::Invalid);
    vgic.maintenance(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(33, LrState::Pending)]);
}

#[test]
fn a_level_that_falls_before_it_is_taken_is_taken_back() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.set_level(None, UART, true);
    vgic.enter(V0, &mut lrs);
    vgic.set_level(None, UART, false);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), []);
    assert!(!vgic.has_pending(V0));
}

#[test]
fn a_level_masked_while_active_ends_without_maintenance() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.set_level(None, UART, true);
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Active);
    // A threaded handler masks and ends the interrupt, and serves its device later.
    write(&mut vgic, 0x184, 0b10);
    vgic.enter(V0, &mut lrs);
    assert!(!lr(&lrs, 0).eoi());
    becomes(&mut lrs, 0, LrState::Invalid);
    write(&mut vgic, 0x104, 0b10);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(33, LrState::Pending)]);
}

#[test]
fn an_edge_while_active_comes_again() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    let id = IntId::new(48);
    vgic.set_level(None, id, true);
    vgic.set_level(None, id, false);
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Active);
    vgic.set_level(None, id, true);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(48, LrState::PendingActive)]);
}

#[test]
fn an_ended_edge_comes_again_without_a_refill() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.send_sgi(V0, 1, SgiRegister::Sgi1);
    vgic.enter(V0, &mut lrs);
    let writes = lrs.writes;
    for round in 1..5 {
        becomes(&mut lrs, 0, LrState::Invalid);
        vgic.send_sgi(V0, 1, SgiRegister::Sgi1);
        vgic.enter(V0, &mut lrs);
        assert_eq!(shown(&lrs), [(0, LrState::Pending)]);
        assert_eq!(lrs.writes, writes + round);
    }
}

#[test]
fn the_timer_s_fast_path_writes_one_list_register() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    let first = lr(&lrs, 0);
    assert!(first.hardware() && first.physical_id() == 27 && first.group1());
    let writes = lrs.writes;
    becomes(&mut lrs, 0, LrState::Invalid);
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    assert_eq!((lr(&lrs, 0), lrs.writes), (first, writes + 1));
    vgic.fold(V0, &mut lrs);
    assert!(vgic.has_pending(V0));
    becomes(&mut lrs, 0, LrState::Invalid);
    vgic.fold(V0, &mut lrs);
    assert!(!vgic.has_pending(V0));
    assert_eq!(vgic.take_released(V0), None);
}

#[test]
fn the_fast_path_s_outcome_is_the_slow_path_s() {
    for states in [LrState::Invalid, LrState::Active] {
        let mut short = ready(1);
        let mut long = ready(1);
        let mut a = FakeListRegisters::new(4);
        let mut b = FakeListRegisters::new(4);
        for _ in 0..3 {
            short.inject_hardware_now(V0, TIMER, TIMER, &mut a);
            long.inject_hardware(V0, TIMER, TIMER);
            long.enter(V0, &mut b);
            assert_eq!(a.lr, b.lr);
            becomes(&mut a, 0, states);
            becomes(&mut b, 0, states);
        }
        assert!(short.snapshot().eq(long.snapshot()));
    }
}

#[test]
fn the_fast_path_heeds_a_disable_while_active() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(1);
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    becomes(&mut lrs, 0, LrState::Active);
    write(&mut vgic, 0, 0);
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Invalid);
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    assert_eq!(shown(&lrs), []);
}

#[test]
fn a_hardware_interrupt_that_the_guest_clears_is_released() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    for (register, state) in [(0x1_0280, LrState::Pending), (0x1_0380, LrState::Active)] {
        vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
        becomes(&mut lrs, 0, state);
        vgic.write(Frame::Redist(V0), register, Width::Word, 1 << 27);
        vgic.enter(V0, &mut lrs);
        assert_eq!(shown(&lrs), []);
        assert_eq!(vgic.take_released(V0), Some(TIMER));
        assert_eq!(vgic.take_released(V0), None);
    }
}

#[test]
fn a_disabled_hardware_interrupt_is_asked_again_when_enabled() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    vgic.write(Frame::Redist(V0), 0x1_0180, Width::Word, 1 << 27);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), []);
    assert_eq!(
        vgic.take_released(V0),
        None,
        "stays active, so does not storm"
    );
    vgic.write(Frame::Redist(V0), 0x1_0100, Width::Word, 1 << 27);
    vgic.enter(V0, &mut lrs);
    assert_eq!(vgic.take_released(V0), Some(TIMER));
    assert_eq!(shown(&lrs), []);
}

#[test]
fn a_more_urgent_one_evicts_and_the_last_acknowledge_is_reported_while_some_wait() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(2);
    for (id, priority) in [(48, 0x80), (49, 0x60), (50, 0x40)] {
        vgic.write(Frame::Dist, 0x400 + id, Width::Byte, priority);
        vgic.pulse(None, IntId::new(id as u32));
        vgic.enter(V0, &mut lrs);
    }
    let mut ids: std::vec::Vec<_> = shown(&lrs).iter().map(|(id, _)| *id).collect();
    ids.sort();
    assert_eq!(ids, [49, 50]);
    assert!(lrs.none_pending_interrupt);
    assert!(
        !lr(&lrs, 0).eoi() && !lr(&lrs, 1).eoi(),
        "no end is reported"
    );
    lrs.lr[0] = 0;
    vgic.maintenance(V0, &mut lrs);
    assert!(!lrs.none_pending_interrupt);
    assert_eq!(shown(&lrs).len(), 2);
}

#[test]
fn an_acknowledged_one_is_not_evicted_and_its_end_is_reported() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(1);
    vgic.pulse(None, IntId::new(48));
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Active);
    vgic.write(Frame::Dist, 0x400 + 49, Width::Byte, 0);
    vgic.pulse(None, IntId::new(49));
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(48, LrState::Active)]);
    assert!(lr(&lrs, 0).eoi() && !lrs.none_pending_interrupt);
    // A fold that empties the list register must not lose the report.
    becomes(&mut lrs, 0, LrState::Invalid);
    vgic.fold(V0, &mut lrs);
    assert!(vgic.needs_entry(V0));
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), [(49, LrState::Pending)]);
}

#[test]
fn another_vcpu_s_disable_kicks_the_holder_and_shows_in_rwp() {
    let mut vgic = ready(2);
    let mut lrs = FakeListRegisters::new(4);
    vgic.pulse(None, UART);
    vgic.enter(V0, &mut lrs);
    assert_eq!(write(&mut vgic, 0x184, 0b10), VcpuSet::only(V0));
    let rwp = |vgic: &mut Vgic| vgic.read(Frame::Dist, 0, Width::Word).value >> 31;
    assert_eq!(rwp(&mut vgic), 1);
    vgic.enter(V0, &mut lrs);
    assert_eq!(rwp(&mut vgic), 0);
    assert_eq!(shown(&lrs), []);
}

#[test]
fn a_rerouted_interrupt_moves_once_its_holder_lets_go() {
    let mut vgic = ready(2);
    let mut a = FakeListRegisters::new(4);
    let mut b = FakeListRegisters::new(4);
    vgic.pulse(None, UART);
    vgic.enter(V0, &mut a);
    let kicked = vgic.write(Frame::Dist, 0x6108, Width::Double, 1);
    assert_eq!(kicked, VcpuSet::only(V0));
    vgic.enter(V1, &mut b);
    assert_eq!(shown(&b), []);
    assert_eq!(vgic.enter(V0, &mut a), VcpuSet::only(V1));
    vgic.enter(V1, &mut b);
    assert_eq!(
        (shown(&a), shown(&b)),
        (std::vec![], std::vec![(33, LrState::Pending)])
    );
}

#[test]
fn any_vcpu_means_the_first_that_is_awake() {
    let mut vgic = ready(2);
    vgic.write(Frame::Dist, 0x6108, Width::Double, 1 << 31);
    assert_eq!(vgic.pulse(None, UART), VcpuSet::only(V0), "none is awake");
    assert_eq!(
        vgic.write(Frame::Redist(V1), 0x14, Width::Word, 0),
        VcpuSet::only(V1)
    );
    assert!(vgic.has_pending(V1) && !vgic.has_pending(V0));
}

#[test]
fn a_route_to_no_vcpu_keeps_the_interrupt_pending() {
    let mut vgic = ready(2);
    vgic.write(Frame::Dist, 0x6108, Width::Double, 7);
    assert!(vgic.pulse(None, UART).is_empty());
    assert!(!vgic.has_pending(V0) && !vgic.has_pending(V1));
    let kicked = vgic.write(Frame::Dist, 0x6108, Width::Double, 0);
    assert_eq!(kicked, VcpuSet::only(V0));
}

#[test]
fn leaving_keeps_everything_for_the_next_entry() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.pulse(None, IntId::new(48));
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    let before = shown(&lrs);
    let active = (0..2).find(|slot| lr(&lrs, *slot).hardware()).unwrap();
    becomes(&mut lrs, active, LrState::Active);
    vgic.leave(V0, &mut lrs);
    assert_eq!(shown(&lrs), []);
    assert_eq!(vgic.take_released(V0), None);
    let mut elsewhere = FakeListRegisters::new(4);
    assert!(vgic.needs_entry(V0));
    vgic.enter(V0, &mut elsewhere);
    assert_eq!(shown(&elsewhere).len(), before.len());
    assert!(shown(&elsewhere).contains(&(27, LrState::Active)));
    assert!(shown(&elsewhere).contains(&(48, LrState::Pending)));
}

#[test]
fn a_guest_that_polls_the_active_state_sees_its_end() {
    let mut vgic = ready(2);
    let mut lrs = FakeListRegisters::new(4);
    vgic.pulse(None, UART);
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Active);
    vgic.fold(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Invalid);
    let read = vgic.read(Frame::Dist, 0x304, Width::Word);
    assert_eq!((read.value, read.kick), (0b10, VcpuSet::only(V0)));
    vgic.enter(V0, &mut lrs);
    assert_eq!(vgic.read(Frame::Dist, 0x304, Width::Word).value, 0);
}

#[test]
fn groups_that_are_off_are_not_delivered() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.pulse(None, UART);
    vgic.enter(V0, &mut lrs);
    write(&mut vgic, 0, 1);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), []);
    assert!(!vgic.has_pending(V0));
    assert_eq!(write(&mut vgic, 0, 2), VcpuSet::only(V0));
    assert_eq!(vgic.most_urgent(V0), Some((0xa0, true)));
}

#[test]
fn an_interrupt_that_the_guest_declared_active_is_evicted() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(2);
    write(&mut vgic, 0x304, 0xff00);
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs).len(), 2);
    vgic.pulse(None, UART);
    vgic.enter(V0, &mut lrs);
    assert!(shown(&lrs).contains(&(33, LrState::Pending)));
    assert!(!lrs.none_pending_interrupt);
}

#[test]
fn a_reset_clears_the_list_registers_at_the_next_entry() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    vgic.reset();
    vgic.enter(V0, &mut lrs);
    assert_eq!(shown(&lrs), []);
    assert_eq!(vgic.take_released(V0), Some(TIMER));
}

#[test]
fn a_snapshot_names_what_is_not_idle() {
    let mut vgic = ready(2);
    vgic.set_level(None, UART, true);
    vgic.send_sgi(V0, 3 << 24 | 0b10, SgiRegister::Sgi1);
    let all: std::vec::Vec<_> = vgic.snapshot().map(|i| (i.id.get(), i.vcpu)).collect();
    assert_eq!(all, [(3, Some(V1)), (33, Some(V0))]);
}

#[test]
fn a_waiting_one_is_listed_while_an_acknowledged_one_of_before_stays_active() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(2);
    (48..51).for_each(|id| {
        vgic.pulse(None, IntId::new(id));
    });
    vgic.enter(V0, &mut lrs);
    becomes(&mut lrs, 0, LrState::Active);
    let (active, _) = shown(&lrs)[0];
    // The vCPU leaves and enters again: the interrupt that it has acknowledged is listed anew.
    let _ = vgic.leave(V0, &mut lrs);
    vgic.enter(V0, &mut lrs);
    let states = shown(&lrs);
    assert!(states.contains(&(active, LrState::Active)), "{states:?}");
    assert!(lrs.none_pending_interrupt && (0..2).all(|slot| !lr(&lrs, slot).eoi()));
    // Once the other one is acknowledged, too, only an end can make room.
    (0..2).for_each(|slot| becomes(&mut lrs, slot, LrState::Active));
    vgic.maintenance(V0, &mut lrs);
    assert!(!lrs.none_pending_interrupt && (0..2).all(|slot| lr(&lrs, slot).eoi()));
    becomes(&mut lrs, 1, LrState::Invalid);
    vgic.maintenance(V0, &mut lrs);
    assert_eq!(shown(&lrs)[1].1, LrState::Pending);
    assert!(!lrs.none_pending_interrupt);
}

#[test]
fn the_timer_s_fast_path_finds_its_list_register_wherever_it_is() {
    let mut vgic = ready(1);
    let mut lrs = FakeListRegisters::new(4);
    vgic.pulse(None, IntId::new(48));
    vgic.enter(V0, &mut lrs);
    vgic.inject_hardware_now(V0, TIMER, TIMER, &mut lrs);
    let slot = (0..4).find(|slot| lr(&lrs, *slot).hardware()).unwrap();
    assert_ne!(slot, 0);
    let first = lr(&lrs, slot);
    for _ in 0..3 {
        becomes(&mut lrs, slot, LrState::Invalid);
        let writes = lrs.writes;
        let shown = vgic.relist_hardware(V0, TIMER, TIMER, &mut lrs);
        assert_eq!((shown, lr(&lrs, slot)), (Some(()), first));
        assert_eq!(lrs.writes, writes + 1, "and no other is written");
    }
    // While the guest has not ended it, there is no fast path.
    assert_eq!(vgic.relist_hardware(V0, TIMER, TIMER, &mut lrs), None);
}

/// A guest's write to a listed interrupt lasts until its list register is written, however often that is read before:
/// a kick may come late, and each access to the interrupt controller before it folds.
#[test]
fn a_write_lasts_until_the_list_register_is_written() {
    use LrState::{Active, Pending, PendingActive};
    const SET_ACTIVE: u64 = 0x304;
    const CLEAR_ACTIVE: u64 = 0x384;
    const CLEAR_PENDING: u64 = 0x284;
    const SPI: u32 = 50;
    let bit = 1 << (SPI - 32);
    let cases: [(u64, LrState, Option<LrState>); 5] = [
        (CLEAR_ACTIVE, Active, None),
        (CLEAR_ACTIVE, PendingActive, Some(Pending)),
        (CLEAR_PENDING, Pending, None),
        (CLEAR_PENDING, PendingActive, Some(Active)),
        (SET_ACTIVE, Pending, Some(PendingActive)),
    ];
    for (register, state, expected) in cases {
        for folds in 0..4 {
            let mut vgic = ready(1);
            let mut lrs = FakeListRegisters::new(4);
            vgic.pulse(None, IntId::new(SPI));
            vgic.enter(V0, &mut lrs);
            becomes(&mut lrs, 0, state);
            vgic.fold(V0, &mut lrs);
            write(&mut vgic, register, bit);
            for _ in 0..folds {
                vgic.fold(V0, &mut lrs);
            }
            vgic.enter(V0, &mut lrs);
            let shown: std::vec::Vec<_> = shown(&lrs).into_iter().map(|(_, state)| state).collect();
            let expected: std::vec::Vec<_> = expected.into_iter().collect();
            assert_eq!(shown, expected, "{register:#x} of {state:?}, {folds} folds");
        }
    }
}
