//! The rules of 32 interrupts' state in one bank, against the same rules for a single interrupt. A change of
//! one interrupt does not change the others.

use crate::bank::{Bank, Groups};
use crate::frame::BitRegister;
use crate::lr::{Lr, LrState};
use crate::reports::Reports;
use hanok_types::{GicVersion, IntId};

/// Pseudo-random numbers, the same in each run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }
}

/// Every field that has a bit for each interrupt.
fn fields(bank: &Bank) -> [u32; 17] {
    [
        bank.enabled,
        bank.group1,
        bank.edge,
        bank.latch,
        bank.line,
        bank.active,
        bank.forced,
        bank.listed,
        bank.shown,
        bank.soft,
        bank.hardware,
        bank.hardware_listed,
        bank.unpend,
        bank.deactivate,
        bank.activate,
        bank.released,
        bank.sourced,
    ]
}

/// A bank with random fields, which need not fit each other.
fn any_bank(numbers: &mut Numbers) -> Bank {
    let mut bank = Bank::private(GicVersion::V3);
    let words = [
        &mut bank.enabled,
        &mut bank.group1,
        &mut bank.edge,
        &mut bank.latch,
        &mut bank.line,
        &mut bank.active,
        &mut bank.forced,
        &mut bank.listed,
        &mut bank.shown,
        &mut bank.soft,
        &mut bank.hardware,
        &mut bank.hardware_listed,
        &mut bank.unpend,
        &mut bank.deactivate,
        &mut bank.activate,
        &mut bank.released,
    ];
    words.into_iter().for_each(|word| *word = numbers.next());
    bank
}

/// The state of one interrupt.
struct One<'a>(&'a Bank, u32);

impl One<'_> {
    fn is(&self, field: fn(&Bank) -> u32) -> bool {
        field(self.0) >> self.1 & 1 != 0
    }

    /// Pending by line or latch.
    fn is_due(&self) -> bool {
        self.is(|bank| bank.latch) || self.is(|bank| bank.line) && !self.is(|bank| bank.edge)
    }
}

fn each(bank: &Bank) -> impl Iterator<Item = One<'_>> {
    (0..32).map(move |bit| One(bank, bit))
}

fn mask_of(bank: &Bank, rule: impl Fn(&One) -> bool) -> u32 {
    let all = each(bank).filter(rule);
    all.fold(0, |mask, one| mask | 1 << one.1)
}

fn same_but_for(mask: u32, before: &Bank, after: &Bank) {
    for (before, after) in fields(before).into_iter().zip(fields(after)) {
        assert_eq!((before ^ after) & !mask, 0, "of {mask:#x}");
    }
}

#[test]
fn every_state_but_idle_makes_an_interrupt_busy() {
    let mut numbers = Numbers(1);
    for _ in 0..50 {
        let bank = any_bank(&mut numbers);
        let busy = mask_of(&bank, |one| {
            let listed = one.is(|bank| bank.listed) || one.is(|bank| bank.shown);
            listed || one.is_due() || one.is(|bank| bank.line) || one.is(|bank| bank.active)
        });
        assert_eq!(bank.busy(), busy);
    }
}

/// Also if an interrupt fired again while the former one was still listed.
#[test]
fn a_reset_releases_each_physical_interrupt_that_is_held() {
    let mut numbers = Numbers(2);
    for _ in 0..50 {
        let before = any_bank(&mut numbers);
        let mut after = before.clone();
        after.reset(&Bank::spis());
        let released = mask_of(&before, |one| {
            let held = one.is(|bank| bank.hardware) || one.is(|bank| bank.hardware_listed);
            held || one.is(|bank| bank.released)
        });
        assert_eq!(after.released, released);
    }
}

/// A write of ones changes their interrupts alone, and its answer has at least those of them that are
/// listed.
#[test]
fn a_written_bit_concerns_its_own_interrupt() {
    use BitRegister::*;
    let mut numbers = Numbers(3);
    for _ in 0..200 {
        let (before, value) = (any_bank(&mut numbers), numbers.next());
        let registers = [
            (Group, before.group1 ^ value),
            (SetEnable, value & !before.enabled),
            (ClearEnable, value & before.enabled),
            (SetPending, value),
            (ClearPending, value),
            (SetActive, value),
            (ClearActive, value),
        ];
        for (register, concerned) in registers {
            let mut after = before.clone();
            let touched = after.write_bits(register, value);
            same_but_for(concerned, &before, &after);
            assert_eq!(touched & !concerned, 0, "{register:?}");
            let listed = concerned & before.listed;
            assert_eq!(listed & !touched, 0, "{register:?}");
        }
    }
}

/// The last write decides how a list register changes at its next fold.
#[test]
fn active_and_pending_states_are_as_last_written() {
    use BitRegister::*;
    let mut numbers = Numbers(4);
    for _ in 0..200 {
        let (before, value) = (any_bank(&mut numbers), numbers.next());
        let listed = value & before.listed;
        let mut bank = before.clone();
        bank.write_bits(SetActive, value);
        assert_eq!(bank.active & value, value);
        assert_eq!(
            (bank.activate & listed, bank.deactivate & value),
            (listed, 0)
        );
        let mut bank = before.clone();
        bank.write_bits(ClearActive, value);
        assert_eq!((bank.active | bank.forced | bank.activate) & value, 0);
        assert_eq!(bank.deactivate & listed, listed);
        let mut bank = before.clone();
        bank.write_bits(ClearPending, value);
        assert_eq!((bank.latch & value, bank.shown & listed), (0, 0));
        assert_eq!(bank.unpend & listed, listed);
        let mut bank = before.clone();
        bank.write_bits(SetPending, value);
        assert_eq!(bank.latch & value, value);
    }
}

/// A physical interrupt that waited while its virtual one was disabled is released when that is enabled, unless
/// it is edge-triggered. Any other is released when its virtual one ends.
#[test]
fn a_physical_interrupt_is_released_with_its_virtual_one() {
    use BitRegister::*;
    let mut numbers = Numbers(5);
    for _ in 0..200 {
        let (before, value) = (any_bank(&mut numbers), numbers.next());
        let written = |one: &One| value >> one.1 & 1 != 0;
        let held = |one: &One| written(one) && one.is(|bank| bank.hardware);
        let resampled = mask_of(&before, |one| {
            let wanted = held(one) && !one.is(|bank| bank.enabled);
            let waits = one.is(|bank| bank.latch) && !one.is(|bank| bank.edge);
            wanted && waits && !one.is(|bank| bank.listed) && !one.is(|bank| bank.active)
        });
        let cleared = mask_of(&before, |one| {
            held(one) && (!one.is(|bank| bank.active) || one.is(|bank| bank.listed))
        });
        let ended = mask_of(&before, |one| {
            let was = one.is(|bank| bank.active) || one.is(|bank| bank.listed);
            held(one) && was && !one.is(|bank| bank.latch)
        });
        for (register, released) in [
            (SetEnable, resampled),
            (ClearPending, cleared),
            (ClearActive, ended),
            (SetPending, 0),
        ] {
            let mut after = before.clone();
            after.write_bits(register, value);
            let all = before.released | released;
            assert_eq!(after.released, all, "{register:?}");
            assert_eq!(after.hardware, before.hardware & !released, "{register:?}");
        }
        let mut after = before.clone();
        after.write_bits(SetEnable, value);
        assert_eq!(after.latch, before.latch & !resampled);
    }
}

#[test]
fn the_fast_path_of_a_physical_interrupt_is_for_an_idle_one() {
    let mut numbers = Numbers(6);
    let mut shown = 0;
    for round in 0..2000 {
        let mut before = any_bank(&mut numbers);
        // Fewer bits, so that some interrupts are idle.
        for busy in [&mut before.listed, &mut before.active, &mut before.latch] {
            *busy &= numbers.next();
        }
        before.hardware &= numbers.next();
        let groups = Groups::new(round & 1 != 0, round & 2 != 0);
        let bit = numbers.next() % 32;
        let one = One(&before, bit);
        let forwarded = if one.is(|bank| bank.group1) {
            round & 2 != 0
        } else {
            round & 1 != 0
        };
        let listed = one.is(|bank| bank.listed) || one.is(|bank| bank.active);
        let idle = !listed && !one.is_due() && !one.is(|bank| bank.hardware);
        let mut after = before.clone();
        let lr = after.show_hardware(IntId::new(bit), IntId::new(40), groups);
        let wanted = idle && one.is(|bank| bank.enabled) && forwarded;
        assert_eq!(lr.is_some(), wanted, "{before:?}");
        same_but_for(if wanted { 1 << bit } else { 0 }, &before, &after);
        if wanted {
            let state = [after.listed, after.shown, after.hardware_listed];
            assert!(state.iter().all(|word| word >> bit & 1 != 0));
            shown += 1;
        }
    }
    assert!(shown > 50, "{shown}");
}

#[test]
fn a_folded_list_register_concerns_its_own_interrupt() {
    let mut numbers = Numbers(7);
    for state in 0..400 {
        let before = any_bank(&mut numbers);
        let bit = numbers.next() % 32;
        let mut after = before.clone();
        let read = Lr::new().with_state(LrState::from_bits(state as u8));
        after.fold(bit, read.with_eoi(state & 4 != 0));
        same_but_for(1 << bit, &before, &after);
        assert_eq!(
            after.soft & !after.shown & 1 << bit,
            0,
            "soft, and not pending"
        );
        let asked = after.unpend | after.activate | after.deactivate;
        assert_eq!(asked >> bit & 1, 0, "done by now");
        let mut listed = after.clone();
        listed.unlist(bit);
        same_but_for(1 << bit, &after, &listed);
        let mut shown = after.clone();
        let reports = Reports {
            all: state & 32 != 0,
            active: state & 64 != 0,
            hardware: false,
        };
        shown.show(bit, state & 8 != 0, state & 16 != 0, reports);
        same_but_for(1 << bit, &after, &shown);
    }
}

#[test]
fn a_priority_that_stays_is_no_change() {
    for old in 0..=u8::MAX {
        let others = [old, 0, u8::MAX, old ^ 1, old ^ 0x80, old.rotate_left(1)];
        for new in others {
            let mut bank = Bank::spis();
            bank.priorities.set(9, old);
            bank.priorities.set(10, !old);
            let changed = bank.priorities.set(9, new);
            assert_eq!(changed, u32::from(old != new) << 9, "{old} {new}");
            assert_eq!((bank.priority(9), bank.priority(10)), (new, !old));
        }
    }
}

/// The fast paths into a list register and out of it do what the slow paths do.
#[test]
fn the_fast_paths_of_a_bank_are_as_its_slow_paths() {
    let mut numbers = Numbers(8);
    let (mut listed, mut ended) = (0, 0);
    for _ in 0..4000 {
        let mut before = any_bank(&mut numbers);
        let bit = numbers.next() % 32;
        let mask = 1 << bit;
        // Make the fields fit each other: only a listed interrupt may be shown, and so on.
        before.shown &= before.listed;
        before.soft &= before.shown;
        before.hardware_listed &= before.listed;
        before.hardware &= before.latch;
        let groups = Groups::new(true, true);
        if before.candidates(groups) & mask != 0 {
            let (mut short, mut long) = (before.clone(), before.clone());
            let lr = short.list(bit, before.priority(bit));
            assert_eq!(lr, long.show(bit, true, true, Reports::NONE), "{before:?}");
            assert_eq!(fields(&short), fields(&long), "{before:?}");
            listed += 1;
        }
        let (mut short, mut long) = (before.clone(), before.clone());
        before.listed |= mask;
        for hardware in [false, true] {
            let read = Lr::new().with_hardware(hardware);
            let asked = (before.unpend | before.deactivate | before.activate) & mask != 0;
            assert_eq!(short.end(bit, hardware).is_none(), asked, "{before:?}");
            if asked {
                break;
            }
            long.fold(bit, read);
            long.unlist(bit);
            assert_eq!(fields(&short), fields(&long), "{before:?}");
            ended += 1;
        }
    }
    assert!(listed > 100 && ended > 100, "{listed} {ended}");
}
