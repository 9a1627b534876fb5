//! Invariants that hold between any two calls, whatever the guests do. They are those of the fields'
//! documentation, and the random tests check them.

use crate::bank::SPI_BANKS;
use crate::bank::{Bank, bits};
use crate::state::{Cpu, InterruptPlace, MAX_LRS, Vgic};
use crate::urgency::Urgency;
use std::vec::Vec;

impl Bank {
    fn check(&self) {
        let within = |part: u32, whole: u32, what: &str| {
            assert_eq!(part & !whole, 0, "{what}: {self:?}");
        };
        within(self.forced, self.active, "forced ones are active");
        within(self.shown, self.listed, "a list register shows it");
        within(self.soft, self.shown, "soft ones are shown");
        within(self.hardware_listed, self.listed, "behind what is listed");
        let asked = self.unpend | self.deactivate | self.activate;
        within(asked, self.listed, "a list register is to change");
        within(self.activate, !self.deactivate, "one of both");
        let held = self.latch | self.active & !self.listed;
        within(self.hardware, held, "behind a latched or active one");
    }
}

impl Vgic {
    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        self.spis.iter().for_each(Bank::check);
        let mut listed = [0; SPI_BANKS];
        for (index, cpu) in self.cpus.iter().enumerate() {
            cpu.private.check();
            self.check_lists(index, cpu, &mut listed);
            self.check_marks(index, cpu);
            let sourced = cpu.private.sourced;
            for sgi in bits(sourced) {
                let waits = cpu.senders.waiting(sgi) != 0;
                assert_eq!(waits, cpu.private.latch >> sgi & 1 != 0, "{sgi}: {cpu:?}");
            }
        }
        for (spi, bank) in self.spis.iter().enumerate() {
            assert_eq!(bank.listed, listed[spi], "listed, and in no list register");
            let (mut routed, mut homed, mut targets) = (0, 0, 0);
            for bit in 0..32 {
                let place = InterruptPlace {
                    cpu: 0,
                    word: spi + 1,
                };
                let has = |own: u32| own >> bit & 1 != 0;
                let home = &self.cpus[self.home_of(place, bit)];
                assert!(has(home.homed[spi]), "its home knows of it");
                let target = self.target_of(place, bit).map(|target| &self.cpus[target]);
                assert!(
                    target.is_none_or(|target| has(target.routed[spi])),
                    "its target, too"
                );
                targets |= u32::from(target.is_some()) << bit;
            }
            for cpu in self.cpus.iter() {
                assert_eq!(routed & cpu.routed[spi], 0, "two targets");
                assert_eq!(homed & cpu.homed[spi], 0, "two homes");
                routed |= cpu.routed[spi];
                homed |= cpu.homed[spi];
            }
            assert_eq!(homed, u32::MAX, "no home");
            assert_eq!(routed, targets, "no target");
        }
    }

    /// The interrupt of each list register in use is marked as listed.
    fn check_lists(&self, index: usize, cpu: &Cpu, spis: &mut [u32; SPI_BANKS]) {
        let mut own = 0;
        for (_, lr) in cpu.slots() {
            let (id, mask) = (lr.virtual_id(), 1 << (lr.virtual_id() % 32));
            let word = id as usize / 32;
            let place = InterruptPlace { cpu: index, word };
            let bank = self.bank(place).expect("an interrupt that exists");
            let all = match word {
                0 => &mut own,
                _ => {
                    assert_eq!(self.home_of(place, id % 32), index, "{lr:?}");
                    &mut spis[word - 1]
                }
            };
            assert_eq!(*all & mask, 0, "twice: {lr:?}");
            *all |= mask;
            let is = |word: u32| word & mask != 0;
            // A write since the last entry may have been folded, and is then not in the list register yet.
            if !cpu.refold {
                assert_eq!(is(bank.shown), lr.is_pending(), "{lr:?}");
                assert_eq!(is(bank.active), lr.is_active(), "{lr:?}");
                assert!(is(bank.hardware_listed) || !lr.hardware(), "{lr:?}");
            }
        }
        assert_eq!(cpu.private.listed, own, "listed, and in no list register");
        assert_eq!(cpu.used >> MAX_LRS, 0);
    }

    /// Words in which interrupts wait are marked, and so is their vCPU, unless it has noted that more wait
    /// than fit.
    fn check_marks(&self, index: usize, cpu: &Cpu) {
        for word in 0..=SPI_BANKS {
            let place = InterruptPlace { cpu: index, word };
            let bank = self.bank(place).expect("a word that exists");
            let (routed, homed) = match word {
                0 => (u32::MAX, u32::MAX),
                _ => (cpu.routed[word - 1], cpu.homed[word - 1]),
            };
            let pending = bank.candidates(self.groups) & routed;
            let stranded = bank.stranded() & homed;
            let marked = cpu.words >> word & 1 != 0;
            let head = bank.head(word, pending);
            let known = cpu.heads.get(word) <= head;
            let known = known
                && (stranded & !bank.forced == 0 || cpu.acknowledged >> word & 1 != 0)
                && (stranded & bank.forced == 0 || cpu.forced >> word & 1 != 0);
            assert!(marked || known, "{word} of {index}: {cpu:?}");
            let best = cpu.attention || marked || !cpu.waits() || cpu.next <= head;
            assert!(
                best,
                "{word} of {index} is more urgent than what waits: {cpu:?}"
            );
            assert_eq!(cpu.overflow, cpu.next != Urgency::NONE);
            assert!(cpu.overflow || !cpu.npie && !cpu.stuck, "{cpu:?}");
            let must = pending | stranded & !bank.forced;
            assert!(cpu.attention || cpu.waits() || must == 0, "{cpu:?}");
        }
    }

    /// A snapshot has each interrupt that is not idle, and names the vCPU that has it.
    pub(crate) fn check_snapshot(&self) {
        let all: Vec<_> = self.snapshot().collect();
        for one in &all {
            assert!(
                one.pending || one.active || one.line || one.listed,
                "{one:?}"
            );
            assert!(
                one.senders == 0 || one.id.get() < 16 && one.pending,
                "{one:?}"
            );
        }
        let has = |id: u32, cpu: usize, private: bool| {
            let mut same = all.iter().filter(|one| one.id.get() == id);
            same.any(|one| !private || one.vcpu.is_some_and(|vcpu| vcpu.index() == cpu))
        };
        for (index, cpu) in self.cpus.iter().enumerate() {
            for word in 0..=SPI_BANKS {
                let bank = self
                    .bank(InterruptPlace { cpu: index, word })
                    .expect("a word");
                for bit in 0..32 {
                    let state = [bank.latch, bank.shown, bank.active, bank.line, bank.listed];
                    let busy = state.iter().any(|state| state >> bit & 1 != 0);
                    let id = word as u32 * 32 + bit;
                    assert_eq!(has(id, index, word == 0), busy, "{id} of {index}");
                }
            }
            for (_, lr) in cpu.slots() {
                assert!(has(lr.virtual_id(), index, true), "{lr:?} is another's");
            }
        }
    }
}
