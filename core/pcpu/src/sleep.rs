//! How a vCPU sleeps that waits for an interrupt while nobody else of its pCPU has work.

use crate::{Host, Local, Pcpu};
use hanok_hal::Context;
use hanok_hal::sync::atomic::Ordering;
use hanok_sched::Policy;
use hanok_trace::Event;
use hanok_types::Deadline;
use hanok_vm::{Attempt, Clock};

/// What became of a vCPU that was to sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Slept {
    /// Its virtual timer has woken it: it goes on, and is the only one that has work.
    Woken,
    /// It did not sleep, or something else came meanwhile and was served: the policy is to be asked.
    Waits,
}

impl<B: Host> Local<B> {
    /// Whether no vCPU but the resident one has work or is to be brought up to date, and nobody keeps
    /// account of the time that it sleeps.
    fn resident_is_alone(&self) -> bool {
        let alone = self
            .resident
            .is_some_and(|entity| self.policy.has_only(entity));
        alone && self.updates.is_empty() && self.posted.load(Ordering::Relaxed) == 0
    }
}

impl<B: Host> Pcpu<B> {
    /// Lets the resident vCPU, which waits for an interrupt, sleep in its own turn, if no other vCPU has work
    /// and nothing is pending for it. Where its virtual timer wakes it, which is the most frequent case, the
    /// policy would choose it again: it is not asked. Whatever else comes ends the turn as of its beginning.
    ///
    /// Nothing is lost between the checks and the sleep: interrupts are masked, and whoever changes what
    /// they look at kicks this CPU afterwards.
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
                let until = Deadline::NEVER;
                local.emit(vcpu, Event::Decision { until });
                return Slept::Woken;
            }
        }
        (vcpu.waiting, vcpu.ready) = (true, false);
        local.policy.block(vcpu.entity, since);
        if let Some(taken) = taken {
            self.serve(taken);
            self.serve_pending();
        }
        Slept::Waits
    }
}
