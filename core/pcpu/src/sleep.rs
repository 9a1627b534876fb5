//! How a vCPU sleeps that waits for an interrupt while no other vCPU of its pCPU has work.

use crate::{Host, Local, Pcpu};
use hanok_hal::Context;
use hanok_hal::sync::atomic::Ordering;
use hanok_sched::Policy;
use hanok_trace::Event;
use hanok_types::Deadline;
use hanok_vm::{Attempt, Clock};

/// The outcome of an attempt to let a vCPU sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Slept {
    /// Its virtual timer has woken it: it goes on, and is the only one that has work.
    Woken,
    /// It did not sleep, or another interrupt came meanwhile and was served: the policy has to be asked.
    Waits,
}

impl<B: Host> Local<B> {
    /// Whether no vCPU but the resident one has work or has to be brought up to date, and no server
    /// accounts for the time that it sleeps.
    fn resident_is_alone(&self) -> bool {
        let alone = self
            .resident
            .is_some_and(|entity| self.policy.has_only(entity));
        alone && self.updates.is_empty() && self.posted.load(Ordering::Relaxed) == 0
    }
}

impl<B: Host> Pcpu<B> {
    /// Lets the resident vCPU, which waits for an interrupt, sleep in its own turn, if no other vCPU has
    /// work and nothing is pending for it. If its virtual timer wakes it, which is the most frequent case,
    /// the policy is not asked, as it would choose the vCPU again, for a whole turn. Any other interrupt
    /// ends the turn as of its beginning.
    ///
    /// No event is lost between the checks and the sleep: interrupts are masked, and a pCPU that changes
    /// the checked state kicks this CPU afterwards.
    pub(crate) fn sleep_in_turn(&mut self) -> Slept {
        let (Some(vcpu), local) = self.resident_and_local() else {
            return Slept::Waits;
        };
        let board = local.board;
        let (machine, vm, id) = (&board.machine, &vcpu.unit.vm, vcpu.core.id);
        let mut lists = machine.lists();
        if vcpu.page.is_some()
            || !local.resident_is_alone()
            || !vm.nothing_is_pending(id, &lists)
            || vcpu.context.has_pending_error(true)
        {
            return Slept::Waits;
        }
        let since = board.counter();
        local.emit(vcpu, Event::Block);
        local.record(Event::Idle);
        machine.idle();
        let taken = machine.acknowledge();
        if let Some(taken) = taken {
            machine.drop_priority(taken);
            local.record(Event::Interrupt(taken.id()));
            if taken.id() == board.interrupts.virtual_timer
                && vm.virtual_timer_fast(id, taken.id(), &mut lists) == Attempt::Done
            {
                local.emit(vcpu, Event::Wake);
                vcpu.waits_since = board.counter();
                let until = Deadline::NEVER;
                local.emit(vcpu, Event::Decision { until });
                let now = board.counter();
                local.policy.begin_turn(vcpu.entity, now);
                local.slept(now.wrapping_sub(since));
                return Slept::Woken;
            }
        }
        (vcpu.waiting, vcpu.ready) = (true, false);
        vcpu.account.set_ready(false);
        local.policy.block(vcpu.entity, since);
        local.slept(board.counter().wrapping_sub(since));
        if let Some(taken) = taken {
            self.serve(taken);
            // Further interrupts of devices are exits of their own.
            if taken.id().is_private() {
                self.serve_pending();
            }
        }
        self.local.uncounted();
        Slept::Waits
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::fake::FakeBoard;
    use crate::{Pcpu, begin_all, guest};
    use hanok_hal::fake::{FakeBackend, Settings, VIRTUAL_TIMER};
    use hanok_hal::{Backend, Context};
    use hanok_trace::{Event, recorded};
    use hanok_types::{GicVersion, IntId, Ipa, PAGE_SIZE, Width, platform};
    use hanok_vm::{Action, Cause, DataAbort, Exit, Instruction, MmioAccess, Wait};
    use std::vec;

    pub(crate) fn settings() -> Settings {
        Settings {
            cpus: 1,
            this_cpu: || 0,
            pause: || {},
            asleep: || {},
            lists: 4,
        }
    }

    /// The resident vCPU enables its virtual timer's interrupt.
    pub(crate) fn let_timer_through(pcpu: &mut Pcpu<FakeBackend>) {
        // GICD_CTLR and GICD_ISENABLER0 (IHI 0048B, 4.3.1 and 4.3.5).
        for (offset, value) in [(0, 1), (0x100, 1 << VIRTUAL_TIMER)] {
            write_word(pcpu, Ipa::new(platform::GIC_DIST.get() + offset), value);
        }
    }

    /// The resident vCPU stores a word at `ipa`, which is a device's.
    pub(crate) fn write_word(pcpu: &mut Pcpu<FakeBackend>, ipa: Ipa, value: u32) {
        let (Some(vcpu), local) = pcpu.resident_and_local() else {
            panic!("no vCPU is resident");
        };
        vcpu.context.regs.x[1] = value.into();
        let exit = Exit::Data(DataAbort {
            ipa,
            write: true,
            walk: false,
            access: Some(MmioAccess {
                width: Width::Word,
                register: 1,
                sign_extend: false,
                wide: false,
            }),
            instruction: Instruction::Unknown,
            reach: PAGE_SIZE,
        });
        let mut lists = local.board.machine.lists();
        let action = guest(vcpu, local.board, &mut lists).handle(exit);
        assert_eq!(action, Action::Next);
    }

    /// The resident vCPU, which has ended its interrupts, waits for its virtual timer, set to `at`.
    pub(crate) fn wait_until(pcpu: &mut Pcpu<FakeBackend>, at: u64) {
        let mut here = pcpu.local.board.machine.here();
        here.end_all();
        here.set_virtual_timer(Some(at));
        drop(here);
        let (Some(vcpu), local) = pcpu.resident_and_local() else {
            panic!("no vCPU is resident");
        };
        let after = vcpu.act(local, 0, Action::NextThenBlock(Wait::Interrupt));
        pcpu.finish(Cause::Wait, after);
    }

    pub(crate) fn interrupt(pcpu: &mut Pcpu<FakeBackend>) {
        pcpu.resident().expect("a vCPU runs").context.depart();
        pcpu.local.taken = pcpu.local.board.machine.acknowledge();
        let after = pcpu.interrupted();
        pcpu.finish(Cause::Interrupt, after);
    }

    fn resident(pcpu: &mut Pcpu<FakeBackend>) -> usize {
        let vcpu = pcpu.resident().expect("a vCPU runs");
        vcpu.unit.vm.id().index()
    }

    /// Two VMs that share a pCPU by turns of 100 ticks, the first of which is resident and has its timer's
    /// interrupt enabled, while the second one waits until `alarm`.
    fn shared(alarm: u64) -> Pcpu<FakeBackend> {
        let FakeBoard {
            board, mut pcpus, ..
        } = FakeBoard::new(settings(), &[vec![0], vec![0]], GicVersion::V2);
        begin_all(board);
        let mut pcpu = pcpus.remove(0);
        pcpu.schedule();
        while pcpu.vcpus().any(|vcpu| !vcpu.is_on()) || resident(&mut pcpu) != 1 {
            board.machine.advance(1);
            if board.machine.interrupt_is_pending() {
                interrupt(&mut pcpu);
            }
        }
        let_timer_through(&mut pcpu);
        wait_until(&mut pcpu, alarm);
        assert_eq!(resident(&mut pcpu), 0, "it goes on");
        let_timer_through(&mut pcpu);
        pcpu
    }

    /// The time that a vCPU slept is not a part of its turn: another vCPU that wakes a moment after it has
    /// to wait for its turn.
    #[test]
    fn who_slept_in_its_turn_has_a_whole_turn_when_it_wakes() {
        const FIRST: u64 = 50_000;
        const SECOND: u64 = 60_000;
        let mut pcpu = shared(SECOND + 40);
        let machine = &pcpu.local.board.machine;
        wait_until(&mut pcpu, FIRST);
        assert!(machine.counter() < FIRST + 100);
        // The list register is known by now.
        wait_until(&mut pcpu, SECOND);
        assert!((SECOND..SECOND + 40).contains(&machine.counter()));
        machine.advance(SECOND + 45 - machine.counter());
        assert!(machine.interrupt_is_pending());
        interrupt(&mut pcpu);
        assert_eq!(resident(&mut pcpu), 0, "its turn has just begun");
        while resident(&mut pcpu) == 0 {
            machine.advance(1);
            if machine.interrupt_is_pending() {
                interrupt(&mut pcpu);
            }
        }
        let ended = machine.counter() - SECOND;
        assert!((80..160).contains(&ended), "after {ended} ticks");
    }

    /// As for any vCPU that sleeps, the time of an interrupt that is for another vCPU is charged to no
    /// vCPU.
    #[test]
    fn what_comes_while_it_sleeps_in_its_turn_is_not_charged_to_its_wait() {
        const ALARM: u64 = 60_000;
        let mut pcpu = shared(ALARM);
        wait_until(&mut pcpu, 50_000);
        pcpu.local.counts_instructions = 1;
        recorded(&pcpu.local.board.machine);
        wait_until(&mut pcpu, ALARM + 1000);
        assert_eq!(resident(&mut pcpu), 1, "its alarm has come");
        let events = recorded(&pcpu.local.board.machine);
        let spent = events.iter().find_map(|(_, _, event)| match event {
            Event::Spent { instructions, .. } => Some(*instructions),
            _ => None,
        });
        assert_eq!(spent, Some(0), "{events:?}");
    }

    /// Of many pending interrupts the first one is served, and the pCPU is asked to sleep again before the
    /// next one.
    #[test]
    fn one_interrupt_of_a_device_is_served_before_the_next_decision() {
        const DEVICES: [u32; 2] = [40, 41];
        let mut pcpu = shared(80_000);
        let machine = &pcpu.local.board.machine;
        wait_until(&mut pcpu, 50_000);
        recorded(machine);
        for device in DEVICES {
            machine.raise(0, device);
        }
        wait_until(&mut pcpu, 60_000);
        let events = recorded(machine);
        let slept = |event: &Event| *event == Event::Idle;
        let mut kinds = events.iter().map(|(_, _, event)| event);
        let fired = |id| Event::Interrupt(IntId::new(id));
        assert!(kinds.any(|event| *event == fired(DEVICES[0])), "{events:?}");
        let next = kinds.find(|event| slept(event) || **event == fired(DEVICES[1]));
        assert_eq!(next, Some(&Event::Idle), "{events:?}");
    }
}
