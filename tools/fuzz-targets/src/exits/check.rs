//! What must hold whatever a guest does.

use super::{CPU, World, id};
use hanok_decode::{Data, LoadStore, decode_load_store};
use hanok_hal::{Backend, ListRegisters};
use hanok_pcpu::{Pcpu, guest};
use hanok_types::{GuestPage, Regs, VcpuId};
use hanok_vgic::Lr;
use hanok_vm::{Action, DataAbort, Exit, Instruction, Wait};
use std::collections::BTreeSet;

impl World {
    pub(super) fn check(&mut self, acted: Option<usize>) {
        let (vm, here) = (self.vm(), self.here());
        let life = vm.lifecycle();
        assert!(
            life.is_running() || here == 0,
            "the end was not told to all"
        );
        assert!(
            life.is_running() || life.is_ended(),
            "nobody carries it out"
        );
        assert!(!life.is_running() || here > 0, "a VM that nothing can wake");
        for n in 0..vm.vcpus() {
            let power = vm.power(id(n));
            assert!(
                !power.is_pending() || !life.is_running(),
                "vCPU {n} was not woken"
            );
        }
        for cpu in 0..self.cpus() {
            let resident = self.resident(cpu);
            for vcpu in self.pcpus[cpu].vcpus() {
                let id = vcpu.core.id;
                // Changes of its interrupts are checked when its turn comes.
                let told = if resident == Some(id) {
                    vm.may_run(id)
                } else {
                    vm.keeps_on(id)
                };
                let may = vcpu.is_on() && !vm.is_paused();
                assert_eq!(told, may, "vCPU {id} was not told of a request");
            }
            self.check_lists(cpu, acted == Some(cpu));
        }
    }

    /// The vCPU whose state is in a pCPU.
    fn resident(&mut self, cpu: usize) -> Option<VcpuId> {
        self.pcpus[cpu].resident().map(|vcpu| vcpu.core.id)
    }

    /// How many vCPUs are in the VM.
    fn here(&self) -> usize {
        let vcpus = self.pcpus[..self.cpus()].iter().flat_map(Pcpu::vcpus);
        vcpus.filter(|vcpu| vcpu.is_on()).count()
    }

    /// Each interrupt is in one list register of a pCPU; except for what the guest itself changed
    /// (`acted`), the list registers are up to date; and a sleeping vCPU is woken for one.
    fn check_lists(&mut self, cpu: usize, acted: bool) {
        CPU.set(cpu);
        let (vm, board) = (self.vm(), self.board);
        let mut lists = board.machine.lists();
        let resident = self.resident(cpu);
        let before = valid(&lists);
        let ids: BTreeSet<_> = before
            .iter()
            .map(|lr| Lr::from_bits(*lr).virtual_id())
            .collect();
        assert_eq!(ids.len(), before.len(), "twice: {before:x?}");
        let Some(resident) = resident else {
            assert!(before.is_empty(), "list registers of nobody's: {before:x?}");
            return;
        };
        let asleep = self.asleep[cpu] && !vm.is_paused();
        if asleep {
            let waits = vm.interrupt_waits(board, resident, &mut lists);
            assert!(!waits, "vCPU {resident} sleeps on");
        } else if let Some(vcpu) = self.pcpus[cpu].resident() {
            guest(vcpu, board, &mut lists).refresh();
        }
        let after = valid(&lists);
        assert!(before == after || acted, "{before:x?} -> {after:x?}");
        for vcpu in self.pcpus[cpu].vcpus() {
            let id = vcpu.core.id;
            let rests = vm.requests(id).is_quiet();
            if asleep && vcpu.is_on() && id != resident && !rests {
                let waits = vm.interrupt_waits_absent(board, id);
                assert!(!waits, "vCPU {id}, in no CPU, sleeps on");
            }
        }
    }
}

/// The interrupts that a guest sees in its list registers.
fn valid(lists: &impl ListRegisters) -> Vec<u64> {
    let all = (0..lists.count()).map(|index| lists.read(index));
    all.filter(|lr| Lr::from_bits(*lr).is_valid()).collect()
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

/// Returns whether an exit can lead to this action.
pub(super) fn fits(exit: Exit, action: Action) -> bool {
    match exit {
        Exit::Hypercall => matches!(
            action,
            Action::Resume
                | Action::Block(Wait::Interrupt)
                | Action::Reconsider
                | Action::Yield
                | Action::Schedule { .. }
        ),
        Exit::Data(DataAbort { ipa, .. }) => match action {
            Action::Block(Wait::Page(page)) => GuestPage::of(ipa) == Some(page),
            Action::Schedule { .. } => {
                let (start, len) = hanok_abi::schedule::DEVICE;
                ipa.get().wrapping_sub(start) < len
            }
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
