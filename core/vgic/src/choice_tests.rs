//! The choice of the interrupts in the list registers, against its definition: of all that are pending,
//! enabled, forwarded, routed to this vCPU and not active, those with the least priority value, and of these
//! those with the least id. The tests search all 288 interrupts one by one.

use crate::{Frame, Lr, LrState, MAX_LRS, Vgic};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GicVersion, IntId, VcpuId, Width};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const V0: VcpuId = VcpuId::new(0);
const VCPUS: usize = 2;

/// An event that changes interrupts.
#[derive(Clone, Debug)]
enum Change {
    Enable(u32, bool),
    Pend(u32, bool),
    Priority(u32, u8),
    Group(u32, bool),
    /// 32 of them become pending at once.
    Burst(u32, u32),
    Route(u32, bool),
    Groups(u8),
    /// The guest acknowledges the most urgent interrupt, and ends it.
    Take(u8),
    /// The guest acknowledges the most urgent interrupt, and does not end it.
    Keep,
    /// The guest ends the interrupt that has been active longest.
    End,
    Away,
}

fn change() -> impl Strategy<Value = Change> {
    // Most often of a few words, so that several events concern the same word.
    let id = || prop_oneof![3 => 30..100u32, 1 => 16..288u32];
    prop_oneof![
        2 => (id(), any::<bool>()).prop_map(|(id, on)| Change::Enable(id, on)),
        6 => (id(), any::<bool>()).prop_map(|(id, on)| Change::Pend(id, on)),
        3 => (id(), any::<u8>()).prop_map(|(id, priority)| Change::Priority(id, priority)),
        1 => (id(), any::<bool>()).prop_map(|(id, on)| Change::Group(id, on)),
        2 => (1..9u32, any::<u32>()).prop_map(|(word, mask)| Change::Burst(word, mask)),
        2 => (32..288u32, any::<bool>()).prop_map(|(id, here)| Change::Route(id, here)),
        1 => (1..4u8).prop_map(Change::Groups),
        6 => (1..6u8).prop_map(Change::Take),
        1 => Just(Change::Keep),
        2 => Just(Change::End),
        1 => Just(Change::Away),
    ]
}

/// A vCPU of a GICv3 and its list registers.
struct Guest {
    vgic: Vgic,
    lrs: FakeListRegisters,
    /// The interrupts that are acknowledged and not ended.
    kept: Vec<u32>,
}

impl Guest {
    /// A controller whose interrupts are all edge-triggered, enabled, of group 1 and routed to this vCPU.
    fn new() -> Self {
        let mut guest = Self {
            vgic: Vgic::new(GicVersion::V3, VCPUS, 5),
            lrs: FakeListRegisters::new(MAX_LRS),
            kept: Vec::new(),
        };
        guest.word(0, 3);
        for word in 0..9 {
            guest.bits(0x080, word, u32::MAX);
            guest.bits(0x100, word, u32::MAX);
            for half in 0..2 {
                guest.bits(0xc00, 2 * word + half, 0xaaaa_aaaa);
            }
        }
        guest
    }

    fn word(&mut self, offset: u64, value: u32) {
        let _ = self
            .vgic
            .write(Frame::Dist, offset, Width::Word, value.into());
    }

    /// A write to word `n` of the registers at `base`; word 0 has the private interrupts.
    fn bits(&mut self, base: u64, n: u32, value: u32) {
        let private = match base {
            0xc00 => n < 2,
            _ => n == 0,
        };
        let (frame, at) = if private {
            (Frame::Redist(V0), 0x1_0000)
        } else {
            (Frame::Dist, 0)
        };
        let offset = at + base + 4 * u64::from(n);
        let _ = self.vgic.write(frame, offset, Width::Word, value.into());
    }

    fn change(&mut self, change: Change) {
        let one = |id: u32| (id / 32, 1 << (id % 32));
        match change {
            Change::Enable(id, on) => {
                let (word, mask) = one(id);
                self.bits(if on { 0x100 } else { 0x180 }, word, mask);
            }
            Change::Pend(id, on) => {
                let (word, mask) = one(id);
                self.bits(if on { 0x200 } else { 0x280 }, word, mask);
            }
            Change::Burst(word, mask) => self.bits(0x200, word, mask),
            Change::Priority(id, priority) => {
                let (frame, at) = match id / 32 {
                    0 => (Frame::Redist(V0), 0x1_0000),
                    _ => (Frame::Dist, 0),
                };
                let offset = at + 0x400 + u64::from(id);
                let _ = self.vgic.write(frame, offset, Width::Byte, priority.into());
            }
            Change::Group(id, group1) => {
                let (word, mask) = one(id);
                let bank = self.vgic.cpus[0].bank(word as usize, &self.vgic.spis);
                let value = bank.group1 & !mask | if group1 { mask } else { 0 };
                self.bits(0x080, word, value);
            }
            Change::Route(id, here) => {
                let offset = 0x6000 + 8 * u64::from(id);
                let _ = self
                    .vgic
                    .write(Frame::Dist, offset, Width::Double, u64::from(!here));
            }
            Change::Groups(groups) => self.word(0, groups.into()),
            Change::Take(count) => (0..count).for_each(|_| {
                if let Some(id) = self.acknowledge() {
                    self.end(id);
                }
            }),
            Change::Keep => {
                if let Some(id) = self.acknowledge() {
                    self.kept.push(id);
                }
            }
            Change::End if self.kept.is_empty() => {}
            Change::End => {
                let id = self.kept.remove(0);
                self.end(id);
            }
            Change::Away => {
                let _ = self.vgic.leave(V0, &mut self.lrs);
            }
        }
    }

    fn listed(&self) -> impl Iterator<Item = (usize, Lr)> {
        let all = self.lrs.lr.iter().map(|lr| Lr::from_bits(*lr)).enumerate();
        all.filter(|(_, lr)| lr.is_valid())
    }

    /// The guest acknowledges the most urgent interrupt in a list register. The list registers must be up to
    /// date, so that no interrupt is acknowledged that was disabled since.
    fn acknowledge(&mut self) -> Option<u32> {
        self.bring_up_to_date();
        let pending = self
            .listed()
            .filter(|(_, lr)| lr.is_pending() && !lr.is_active());
        let (slot, lr) = pending.min_by_key(|(_, lr)| (lr.priority(), lr.virtual_id()))?;
        self.lrs.lr[slot] = lr.with_state(LrState::Active).into_bits();
        self.maintenance_interrupt();
        Some(lr.virtual_id())
    }

    fn end(&mut self, id: u32) {
        let found = self
            .listed()
            .find(|(_, lr)| lr.virtual_id() == id && lr.is_active());
        let (slot, lr) = found.expect("what is acknowledged stays");
        let ended = LrState::new(lr.is_pending(), false);
        self.lrs.lr[slot] = lr.with_state(ended).into_bits();
        self.maintenance_interrupt();
    }

    /// Handles the maintenance interrupt, if it is due.
    fn maintenance_interrupt(&mut self) {
        let all: Vec<Lr> = self.lrs.lr.iter().map(|lr| Lr::from_bits(*lr)).collect();
        let pending = all.iter().any(|lr| lr.state() == LrState::Pending);
        let reported = all.iter().any(|lr| !lr.is_valid() && lr.eoi());
        if reported || self.lrs.none_pending_interrupt && !pending {
            let _ = self.vgic.maintenance(V0, &mut self.lrs);
        }
    }

    fn bring_up_to_date(&mut self) {
        let _ = self.vgic.enter(V0, &mut self.lrs);
        self.maintenance_interrupt();
        let _ = self.vgic.fold(V0, &mut self.lrs);
        let _ = self.vgic.enter(V0, &mut self.lrs);
        self.vgic.check();
    }

    /// The interrupts to be signalled to this vCPU, the most urgent first, by the registers alone.
    fn due(&self) -> Vec<(u8, u32)> {
        let vgic = &self.vgic;
        let mut all: Vec<_> = (0..288u32)
            .filter_map(|id| {
                let (word, bit) = (id as usize / 32, id % 32);
                let bank = vgic.cpus[0].bank(word, &vgic.spis);
                let is = |word: u32| word >> bit & 1 != 0;
                let forwarded = if is(bank.group1) {
                    vgic.groups.group1 != 0
                } else {
                    vgic.groups.group0 != 0
                };
                let here = word == 0 || is(vgic.cpus[0].routed[word - 1]);
                let due = is(bank.latch | bank.shown) && is(bank.enabled) && forwarded && here;
                (due && !is(bank.active)).then(|| (bank.priority(bit), id))
            })
            .collect();
        all.sort_unstable();
        all
    }

    /// Every pending one in a list register is more urgent than every one in none, and as many are
    /// shown as there is room for; if some are left, a maintenance interrupt comes when there is room.
    fn check(&mut self) {
        self.bring_up_to_date();
        let due = self.due();
        let active = self.listed().filter(|(_, lr)| lr.is_active()).count();
        let shown: Vec<_> = self
            .listed()
            .filter(|(_, lr)| lr.state() == LrState::Pending)
            .map(|(_, lr)| (lr.priority(), lr.virtual_id()))
            .collect();
        let mut sorted = shown.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, due[..sorted.len()], "the most urgent ones");
        let room = MAX_LRS - active;
        let calls = self.lrs.none_pending_interrupt;
        if sorted.len() < due.len() {
            // A list register that an end has freed is used once no listed one is pending any more.
            assert!(room == 0 || !sorted.is_empty(), "{due:?}");
            let ends_tell = self.listed().all(|(_, lr)| lr.eoi());
            assert!(
                calls || room == 0 && ends_tell,
                "no maintenance interrupt will come: {due:?}"
            );
        } else {
            assert_eq!(sorted.len(), due.len());
        }
        let best = due.first().map(|(priority, _)| *priority);
        let urgent = self.vgic.most_urgent(V0).map(|(priority, _)| priority);
        assert_eq!(urgent, best);
        assert_eq!(self.vgic.has_pending(V0), best.is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_most_urgent_ones_by_definition_stand_in_the_list_registers(
        changes in proptest::collection::vec(change(), 1..120),
    ) {
        let mut guest = Guest::new();
        for change in changes {
            guest.change(change);
            guest.check();
        }
    }
}

/// Each interrupt of a burst is acknowledged once, the most urgent first, and none is left.
#[test]
fn a_burst_is_taken_in_order() {
    let mut guest = Guest::new();
    for id in 32..232u32 {
        guest.change(Change::Priority(id, (id * 56 % 256) as u8));
    }
    for word in 1..7 {
        guest.change(Change::Burst(word, u32::MAX));
    }
    guest.change(Change::Burst(7, 0xff));
    let due = guest.due();
    assert_eq!(due.len(), 200);
    for (_, id) in due {
        let taken = guest.acknowledge();
        assert_eq!(taken, Some(id));
        guest.end(id);
    }
    assert_eq!(guest.acknowledge(), None);
    assert!(!guest.lrs.none_pending_interrupt);
    assert_eq!(guest.lrs.count(), MAX_LRS);
    let line = guest.vgic.set_level(None, IntId::new(40), false);
    assert!(line.is_empty());
}
