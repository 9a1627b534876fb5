//! What an entry reads and writes, and what is left to it: list registers that count.

use crate::{Frame, Lr, LrState, Vgic};
use core::cell::Cell;
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, Width};
use std::vec;
use std::vec::Vec;

const V0: VcpuId = VcpuId::new(0);
const V1: VcpuId = VcpuId::new(1);

/// List registers that know how often they were read and written.
#[derive(Clone)]
struct Lists {
    lr: Vec<Lr>,
    reads: Cell<usize>,
    writes: usize,
    none_pending: bool,
    /// Of a GICv2 whether maintenance interrupts are let through.
    reports: Option<bool>,
}

impl ListRegisters for Lists {
    fn count(&self) -> usize {
        self.lr.len()
    }
    fn read(&self, index: usize) -> u64 {
        self.reads.set(self.reads.get() + 1);
        self.lr[index].into_bits()
    }
    fn write(&mut self, index: usize, value: u64) {
        self.writes += 1;
        self.lr[index] = Lr::from_bits(value);
    }
    fn empty(&self) -> u32 {
        let empty = |slot: &usize| !self.lr[*slot].is_valid() && !self.lr[*slot].eoi();
        let slots = (0..self.lr.len()).filter(empty);
        slots.fold(0, |set, slot| set | 1 << slot)
    }
    fn set_none_pending_interrupt(&mut self, on: bool) {
        assert!(!on || self.reports != Some(false), "nobody hears of it");
        self.none_pending = on;
    }
    fn report_ends(&mut self, on: bool) {
        assert!(
            !(self.none_pending && self.reports.is_some()),
            "it is on already, or still"
        );
        self.reports = self.reports.map(|_| on);
    }
}

impl Lists {
    fn new(count: usize) -> Self {
        Self {
            lr: vec![Lr::new(); count],
            reads: Cell::new(0),
            writes: 0,
            none_pending: false,
            reports: None,
        }
    }

    /// Reads and writes since last asked.
    fn work(&mut self) -> (usize, usize) {
        (self.reads.take(), core::mem::take(&mut self.writes))
    }

    fn shown(&self) -> Vec<(u32, LrState)> {
        let valid = self.lr.iter().filter(|lr| lr.is_valid());
        let mut all: Vec<_> = valid.map(|lr| (lr.virtual_id(), lr.state())).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    fn becomes(&mut self, id: u32, state: LrState) {
        let mut its = self.lr.iter_mut().filter(|lr| lr.virtual_id() == id);
        its.next().expect("it is listed").set_state(state);
    }
}

/// SPIs 64 to 95 enabled, edge-triggered and sent to the first of two vCPUs, 64 being the most urgent;
/// nothing is to be done.
fn ready(version: GicVersion, count: usize) -> (Vgic, Lists) {
    let mut vgic = Vgic::new(version, 2, 5);
    let dist = Frame::distributor(version, V0);
    for (offset, value) in [
        (0, 3),
        (0x108, u64::MAX),
        (0xc10, u64::MAX),
        (0xc14, u64::MAX),
    ] {
        vgic.write(dist, offset, Width::Word, value);
    }
    for n in 0..32 {
        vgic.write(dist, 0x440 + n, Width::Byte, 8 * n);
        if version == GicVersion::V2 {
            vgic.write(dist, 0x840 + n, Width::Byte, 1);
        }
    }
    let mut lists = Lists::new(count);
    lists.reports = (version == GicVersion::V2).then_some(false);
    vgic.enter(V0, &mut lists);
    vgic.enter(V1, &mut Lists::new(count));
    lists.work();
    (vgic, lists)
}

fn pulse(vgic: &mut Vgic, ids: &[u32]) {
    for id in ids {
        vgic.pulse(None, IntId::new(*id));
    }
}

/// Beside what is listed and has not ended nothing is read: of a GICv2 but where one of them is tied
/// to a physical interrupt, whose end is to be reported from now on.
#[test]
fn what_is_new_is_put_beside_what_is_listed() {
    for version in [GicVersion::V2, GicVersion::V3] {
        for hardware in [false, true] {
            let (mut vgic, mut lists) = ready(version, 4);
            let first = IntId::new(70);
            if hardware {
                vgic.inject_hardware(V0, first, IntId::new(99))
            } else {
                vgic.pulse(None, first)
            };
            vgic.enter(V0, &mut lists);
            lists.work();
            pulse(&mut vgic, &[80]);
            vgic.enter(V0, &mut lists);
            let (reads, writes) = lists.work();
            let tied = hardware && version == GicVersion::V2;
            assert_eq!((reads != 0, writes), (tied, 1 + usize::from(tied)));
            // A kick for nothing does nothing, whatever is listed.
            vgic.mark_for_nothing();
            vgic.enter(V0, &mut lists);
            assert_eq!(lists.work(), (0, 0), "{version:?} {hardware}");
            assert_eq!(lists.shown().len(), 2);
        }
    }
}

impl Vgic {
    fn mark_for_nothing(&mut self) {
        self.cpus[0].attention = true;
    }
}

/// What stays listed stays where it is, in whatever order it came.
#[test]
fn what_is_listed_anew_is_not_moved() {
    for (first, second) in [(70, 80), (80, 70), (64, 95), (95, 64)] {
        let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
        for id in [first, second] {
            pulse(&mut vgic, &[id]);
            vgic.enter(V0, &mut lists);
        }
        lists.work();
        for _ in 0..2 {
            vgic.mark_refold(0);
            vgic.enter(V0, &mut lists);
            let (reads, writes) = lists.work();
            assert_eq!((reads, writes), (2, 0), "{first} {second}");
        }
    }
}

/// To look ahead touches no list register, and the entry comes to the same.
#[test]
fn a_look_ahead_is_a_part_of_the_entry() {
    for waiting in [0, 4, 6] {
        let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
        let ids: Vec<u32> = (70..70 + waiting).collect();
        pulse(&mut vgic, &ids);
        vgic.enter(V0, &mut lists);
        // More urgent ones.
        pulse(&mut vgic, &[64, 65, 66]);
        lists.work();
        let mut plain = (vgic.clone(), lists.clone());
        vgic.look_ahead(V0);
        assert_eq!(lists.work(), (0, 0));
        assert!(vgic.needs_entry(V0) && !vgic.entry_is_brief(V0));
        vgic.enter(V0, &mut lists);
        plain.0.enter(V0, &mut plain.1);
        assert_eq!(lists.shown(), plain.1.shown(), "{waiting}");
        vgic.check();
    }
    // Of a vCPU that is not there nothing is found.
    let (mut vgic, _) = ready(GicVersion::V3, 4);
    vgic.look_ahead(VcpuId::new(7));
}

/// What is less urgent than others that wait joins them, and no list register is looked at.
#[test]
fn what_is_new_joins_those_that_wait() {
    let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
    pulse(&mut vgic, &[70, 71, 72, 73, 74]);
    vgic.enter(V0, &mut lists);
    let shown = lists.shown();
    lists.work();
    pulse(&mut vgic, &[90]);
    vgic.join_those_that_wait(V0);
    assert!(!vgic.needs_entry(V0));
    vgic.check();
    // More urgent than what waits, and than what is listed.
    pulse(&mut vgic, &[64]);
    vgic.join_those_that_wait(V0);
    assert!(vgic.needs_entry(V0));
    assert_eq!((lists.shown(), lists.work()), (shown, (0, 0)));
    vgic.enter(V0, &mut lists);
    assert!(lists.shown().contains(&(64, LrState::Pending)));
    vgic.check();
    // Nobody waits.
    let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
    vgic.enter(V0, &mut lists);
    pulse(&mut vgic, &[90]);
    vgic.join_those_that_wait(V0);
    assert!(vgic.needs_entry(V0));
}

/// A fold empties what has ended: where that was to be reported, or others wait for the room, an
/// entry follows.
#[test]
fn a_fold_that_finds_an_end_asks_for_what_its_report_would_have_brought() {
    // Others wait, and no end is reported.
    let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
    pulse(&mut vgic, &[70, 71, 72, 73, 74]);
    vgic.enter(V0, &mut lists);
    assert!(lists.lr.iter().all(|lr| lr.is_valid() && !lr.eoi()));
    vgic.fold(V0, &mut lists);
    assert!(!vgic.needs_entry(V0), "all are there still");
    lists.becomes(70, LrState::Invalid);
    vgic.fold(V0, &mut lists);
    assert!(vgic.needs_entry(V0));
    vgic.enter(V0, &mut lists);
    assert_eq!(lists.shown().len(), 4);
    // Nobody waits, and the end is reported: of a level that is high.
    let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
    vgic.write(Frame::Dist, 0xc10, Width::Word, 0);
    vgic.set_level(None, IntId::new(64), true);
    vgic.enter(V0, &mut lists);
    assert!(lists.lr[0].eoi());
    lists.becomes(64, LrState::Active);
    vgic.fold(V0, &mut lists);
    assert!(!vgic.needs_entry(V0));
    lists.becomes(64, LrState::Invalid);
    vgic.cpus[0].routed = [0; 8];
    vgic.fold(V0, &mut lists);
    assert!(vgic.needs_entry(V0));
    // Neither: an end is nothing to act on.
    let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
    pulse(&mut vgic, &[70]);
    vgic.enter(V0, &mut lists);
    lists.becomes(70, LrState::Invalid);
    vgic.fold(V0, &mut lists);
    assert!(!vgic.needs_entry(V0));
}

/// Gone with all that it had ended, a vCPU still gets what found no room.
#[test]
fn who_leaves_has_an_entry_to_do_where_some_wait() {
    for (count, marked) in [(4, false), (5, false), (5, true)] {
        let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
        let ids: Vec<u32> = (70..70 + count).collect();
        pulse(&mut vgic, &ids);
        vgic.enter(V0, &mut lists);
        (70..74).for_each(|id| lists.becomes(id, LrState::Invalid));
        if marked {
            vgic.mark_for_nothing();
        }
        vgic.leave(V0, &mut lists);
        assert_eq!(vgic.needs_entry(V0), count > 4);
        vgic.check();
        vgic.enter(V0, &mut lists);
        assert_eq!(lists.shown().len(), count as usize - 4);
        // And one that had nothing listed and is marked already stays marked.
        pulse(&mut vgic, &[90]);
        vgic.leave(V0, &mut lists);
        assert!(vgic.needs_entry(V0));
    }
}

/// What a GICv2 reports is let through before the interrupt for what waits is on, and no longer than
/// it is: until then its backend has a use of its own for the line (`arch/arm-common/src/gich.rs`).
#[test]
fn what_waits_calls_back_while_that_is_let_through() {
    let (mut vgic, mut lists) = ready(GicVersion::V2, 4);
    for _ in 0..3 {
        pulse(&mut vgic, &[70, 71, 72, 73, 74]);
        vgic.enter(V0, &mut lists);
        assert_eq!((lists.none_pending, lists.reports), (true, Some(true)));
        assert!(lists.lr.iter().all(|lr| lr.is_valid() && !lr.eoi()));
        (70..74).for_each(|id| lists.becomes(id, LrState::Invalid));
        vgic.maintenance(V0, &mut lists);
        assert_eq!((lists.none_pending, lists.reports), (false, Some(false)));
        assert_eq!(lists.shown(), [(74, LrState::Pending)]);
        lists.becomes(74, LrState::Invalid);
    }
}
