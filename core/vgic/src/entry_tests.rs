//! Which list registers an entry reads and writes, by list registers that count, and which work it leaves out.

use crate::{Frame, Lr, LrState, Vgic};
use core::cell::Cell;
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, Width};
use std::vec;
use std::vec::Vec;

const V0: VcpuId = VcpuId::new(0);
const V1: VcpuId = VcpuId::new(1);

/// List registers that count their reads and writes.
#[derive(Clone)]
struct Lists {
    lr: Vec<Lr>,
    reads: Cell<usize>,
    writes: usize,
    none_pending: bool,
    /// On a GICv2: whether maintenance interrupts are enabled.
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
        assert!(
            !on || self.reports != Some(false),
            "no maintenance interrupt can come"
        );
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

    /// The number of reads and writes since the last call.
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

/// A controller whose SPIs 64 to 95 are enabled, edge-triggered and routed to the first of two vCPUs; 64 is
/// the most urgent. No entry is due.
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

/// An entry that lists a new interrupt reads no list register of those that have not ended. On a GICv2 it
/// reads one that has HW=1, because its end is to be reported from then on.
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
            // An entry after a needless kick reads and writes nothing, whatever is listed.
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

/// An interrupt that stays listed stays in its list register, in whatever order they came.
#[test]
fn what_is_listed_anew_is_not_moved() {
    for (first, second) in [(70, 80), (80, 70), (64, 95), (95, 64)] {
        let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
        for id in [first, second] {
            pulse(&mut vgic, &[id]);
            vgic.enter(V0, &mut lists);
        }
        let before = lists.shown();
        lists.work();
        for _ in 0..2 {
            vgic.mark_refold(0);
            vgic.enter(V0, &mut lists);
            let (reads, writes) = lists.work();
            assert_eq!((reads, writes), (2, 2), "{first} {second}");
            assert_eq!(lists.shown(), before, "{first} {second}");
        }
    }
}

/// [`Vgic::prepare_entry`] touches no list register, and the outcome of the entry is the same.
#[test]
fn a_prepared_entry_is_the_same_as_one_at_once() {
    for waiting in [0, 4, 6] {
        let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
        let ids: Vec<u32> = (70..70 + waiting).collect();
        pulse(&mut vgic, &ids);
        vgic.enter(V0, &mut lists);
        // More urgent interrupts become pending.
        pulse(&mut vgic, &[64, 65, 66]);
        lists.work();
        let mut plain = (vgic.clone(), lists.clone());
        vgic.prepare_entry(V0);
        assert_eq!(lists.work(), (0, 0));
        assert!(vgic.needs_entry(V0) && !vgic.entry_is_brief(V0));
        vgic.enter(V0, &mut lists);
        plain.0.enter(V0, &mut plain.1);
        assert_eq!(lists.shown(), plain.1.shown(), "{waiting}");
        vgic.check();
    }
    // A vCPU that does not exist has nothing to prepare.
    let (mut vgic, _) = ready(GicVersion::V3, 4);
    vgic.prepare_entry(VcpuId::new(7));
}

/// A new interrupt that is less urgent than others that wait joins them, and no list register is read.
#[test]
fn a_less_urgent_interrupt_is_deferred_without_an_entry() {
    let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
    pulse(&mut vgic, &[70, 71, 72, 73, 74]);
    vgic.enter(V0, &mut lists);
    let shown = lists.shown();
    lists.work();
    pulse(&mut vgic, &[90]);
    vgic.defer_less_urgent(V0);
    assert!(!vgic.needs_entry(V0));
    vgic.check();
    // It is more urgent than those that wait, and than the listed ones.
    pulse(&mut vgic, &[64]);
    vgic.defer_less_urgent(V0);
    assert!(vgic.needs_entry(V0));
    assert_eq!((lists.shown(), lists.work()), (shown, (0, 0)));
    vgic.enter(V0, &mut lists);
    assert!(lists.shown().contains(&(64, LrState::Pending)));
    vgic.check();
    // No interrupt waits.
    let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
    vgic.enter(V0, &mut lists);
    pulse(&mut vgic, &[90]);
    vgic.defer_less_urgent(V0);
    assert!(vgic.needs_entry(V0));
}

/// A fold empties the list register of an interrupt that has ended. If the end was to be reported, or others
/// wait for the list register, an entry is due.
#[test]
fn a_fold_that_finds_an_end_asks_for_what_its_report_would_have_brought() {
    // Other interrupts wait, and no end is reported.
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
    // No interrupt waits, and the end is reported, since the level is high.
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
    // No interrupt waits, and the end is not reported: no entry is due.
    let (mut vgic, mut lists) = ready(GicVersion::V3, 4);
    pulse(&mut vgic, &[70]);
    vgic.enter(V0, &mut lists);
    lists.becomes(70, LrState::Invalid);
    vgic.fold(V0, &mut lists);
    assert!(!vgic.needs_entry(V0));
}

/// A vCPU that left after it had ended all its listed interrupts still gets those that found no room.
#[test]
fn a_vcpu_that_leaves_has_an_entry_due_while_some_wait() {
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
        // A vCPU that had nothing listed, and that is marked already, stays marked.
        pulse(&mut vgic, &[90]);
        vgic.leave(V0, &mut lists);
        assert!(vgic.needs_entry(V0));
    }
}

/// On a GICv2, maintenance interrupts are enabled before the one for "no list register is pending", and not
/// longer than that: at other times the backend has a use of its own for the line
/// (`arch/arm-common/src/gich.rs`).
#[test]
fn npie_is_on_only_while_maintenance_interrupts_are_enabled() {
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
