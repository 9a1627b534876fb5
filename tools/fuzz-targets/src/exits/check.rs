//! What holds whatever a guest does.

use super::{World, id};
use hanok_decode::{Data, LoadStore, decode_load_store};
use hanok_hal::ListRegisters;
use hanok_hal::fake::FakeListRegisters;
use hanok_types::{GuestPage, Regs};
use hanok_vgic::{Lr, MAX_LRS};
use hanok_vm::fake::Fixture;
use hanok_vm::{Action, DataAbort, Exit, Instruction, Wait};
use std::collections::BTreeSet;

impl World {
    pub(super) fn check(&mut self, acted: Option<usize>) {
        let vm = &self.vm.vm;
        let (life, here) = (vm.life(), self.here());
        assert!(
            life.is_running() || here == 0,
            "the end was not told to all"
        );
        assert!(
            life.is_running() || life.is_ended(),
            "nobody carries it out"
        );
        assert!(!life.is_running() || here > 0, "a VM that nothing can wake");
        for n in 0..self.present.len() {
            let power = vm.power(id(n));
            assert!(
                !power.is_pending() || !life.is_running(),
                "vCPU {n} was not woken"
            );
            let may = self.present[n] && !vm.is_paused();
            assert_eq!(vm.may_run(id(n)), may, "vCPU {n} was not told of a request");
        }
        self.check_lists(acted);
    }

    /// Each interrupt stands in one list register; but for what the guest itself `acted`, they
    /// are up to date; and who sleeps is woken for one.
    fn check_lists(&mut self, acted: Option<usize>) {
        let mut seen = BTreeSet::new();
        for n in 0..self.present.len() {
            let lrs = self.vm.lists[n].lr.iter().map(|lr| Lr::from_bits(*lr));
            for lr in lrs.filter(|lr| lr.is_valid()) {
                assert!(self.present[n], "a list register of nobody's");
                let owner = if lr.virtual_id() < 32 { n } else { 0 };
                assert!(seen.insert((owner, lr.virtual_id())), "{lr:?} twice");
            }
        }
        for n in 0..self.present.len() {
            if !self.present[n] {
                continue;
            }
            let Fixture {
                vm, machine, lists, ..
            } = &mut self.vm;
            let before = valid(&lists[n]);
            let waits = vm.interrupt_waits(machine, id(n), &mut lists[n]);
            let after = valid(&lists[n]);
            assert!(
                before == after || acted == Some(n),
                "{before:x?} -> {after:x?}"
            );
            if waits {
                // It goes on; what is long has an exit of its own.
                self.vm.guest(n).refresh();
                self.vm.guest(n).refresh();
            }
            let lists = &self.vm.lists;
            let lrs = || lists[n].lr.iter().map(|lr| Lr::from_bits(*lr));
            let shown = lrs().any(|lr| lr.is_pending());
            let full = lrs().take(MAX_LRS).all(|lr| lr.is_active());
            assert!(!waits || shown || full, "vCPU {n} sleeps on");
            self.settle();
        }
    }
}

/// What a guest sees of its list registers.
fn valid(lists: &FakeListRegisters) -> Vec<u64> {
    let valid = |lr: &&u64| Lr::from_bits(**lr).is_valid();
    lists.lr.iter().filter(valid).copied().collect()
}

/// Nothing stands in the list registers, and no end is to be reported: what an ended
/// interrupt left behind means nothing (IHI 0069H 12.4.1, ICH_LR<n>_EL2.State).
pub(super) fn empty(lists: &FakeListRegisters) {
    assert_eq!(lists.empty(), (1 << lists.count()) - 1, "{lists:x?}");
}

/// The registers that the exit's instruction may change, as a set of bits.
pub(super) fn named(exit: Exit) -> u32 {
    match exit {
        // The widest answer is CALL_UID's.
        Exit::Hypercall => 0xf,
        Exit::SystemRegister(access) if !access.write => 1 << access.register,
        Exit::Data(DataAbort {
            access: Some(access),
            write: false,
            ..
        }) => 1 << access.register,
        Exit::Data(DataAbort {
            access: None,
            instruction: Instruction::Word(word),
            ..
        }) => by_word(word),
        _ => 0,
    }
}

fn by_word(word: u32) -> u32 {
    let Some(LoadStore::Transfer(transfer)) = decode_load_store(word) else {
        return 0;
    };
    let general = matches!(transfer.data, Data::General(_));
    let moved = [Some(transfer.register), transfer.second];
    let moved = moved.into_iter().filter(|_| transfer.load && general);
    let back = transfer.address.resolve(0, 0, 0).write_back;
    let back = back.map(|(register, _)| register);
    moved
        .chain([back])
        .flatten()
        .fold(0, |set, register| set | 1 << register)
}

pub(super) fn unchanged(before: &Regs, after: &Regs, may_change: u32) {
    assert_eq!(after.pc, before.pc, "the program counter is the backend's");
    assert_eq!(after.pstate, before.pstate);
    for (number, (old, new)) in before.x.iter().zip(&after.x).enumerate() {
        assert!(
            old == new || may_change >> number & 1 == 1,
            "X{number} changed"
        );
    }
}

/// Whether an exit can lead to this.
pub(super) fn fits(exit: Exit, action: Action) -> bool {
    match exit {
        Exit::Hypercall => matches!(
            action,
            Action::Resume | Action::Block(Wait::Interrupt) | Action::Reconsider | Action::Yield
        ),
        Exit::Data(DataAbort { ipa, .. }) => match action {
            Action::Block(Wait::Page(page)) => GuestPage::of(ipa) == Some(page),
            _ => matches!(action, Action::Next | Action::Inject(_)),
        },
        Exit::Fetch { ipa, .. } => match action {
            Action::Block(Wait::Page(page)) => GuestPage::of(ipa) == Some(page),
            _ => matches!(action, Action::Inject(_)),
        },
        Exit::SystemRegister(_) => {
            matches!(action, Action::Next | Action::Inject(_))
        }
        Exit::Wait => action == Action::NextThenBlock(Wait::Interrupt),
        _ => matches!(action, Action::Inject(_)),
    }
}
