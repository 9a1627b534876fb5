//! Physical interrupts, and the hypervisor's timer, which is set to the next instant at which anything is
//! due on a pCPU.

use crate::devices::Deactivation;
use crate::report::Reporting;
use crate::{Board, Host, Local, Pcpu, Vcpu};
use hanok_hal::{Backend, Context, Taken};
use hanok_types::Deadline;
use hanok_vm::{Clock, Guest};

/// The core's handler for this vCPU, on whose CPU the list registers `lists` are.
#[inline(always)]
pub fn guest<'a, B: Backend, L>(
    vcpu: &'a mut Vcpu<B>,
    board: &'static Board<B>,
    lists: &'a mut L,
) -> Guest<'a, Board<B>, L> {
    Guest {
        vm: &vcpu.unit.vm,
        vcpu: &mut vcpu.core,
        regs: vcpu.context.regs_mut(),
        machine: board,
        lists,
    }
}

impl<B: Host> Pcpu<B> {
    /// Serves one physical interrupt other than a running vCPU's timer, and deactivates it.
    pub(crate) fn serve(&mut self, taken: Taken) {
        let interrupt = taken.id();
        let board = self.local.board;
        let lines = &board.interrupts;
        if interrupt == lines.virtual_timer {
            match self.resident() {
                // The guest deactivates it, through the list register.
                Some(vcpu) => {
                    guest(vcpu, board, &mut board.machine.lists()).virtual_timer(interrupt);
                    return self.note_resident();
                }
                // No vCPU in this CPU can be its owner: it was pending before its vCPU left.
                None => board.machine.stop_virtual_timer(),
            }
        } else if interrupt == lines.hyp_timer {
            self.timer_has_come();
        } else if interrupt == lines.maintenance {
            if let Some(vcpu) = self.resident() {
                guest(vcpu, board, &mut board.machine.lists()).maintenance();
            }
        } else if Some(interrupt) == lines.uart {
            self.local.serve_console();
        } else if self.hand_on(interrupt) == Deactivation::ByGuest {
            return;
        }
        // `switch_to` refreshes the vCPU that goes on. If several share the CPU, that may be another one,
        // and work for this one would be undone at once.
        let shared = self.local.is_shared();
        if let (Some(vcpu), local) = self.resident_and_local() {
            // Whose deadline the timer was set to has another one now.
            vcpu.core.rearm |= interrupt == lines.hyp_timer;
            if vcpu.waiting || !shared {
                vcpu.refresh(local);
            }
            if vcpu.waiting {
                local.note_update(vcpu);
            }
        }
        board.machine.end(taken);
    }

    /// Notes an update of the resident vCPU, if it waits: the interrupt that was served may wake it.
    fn note_resident(&mut self) {
        if let (Some(vcpu), local) = self.resident_and_local()
            && vcpu.waiting
        {
            local.note_update(vcpu);
        }
    }

    /// Serves the interrupt of the hypervisor's own timer.
    fn timer_has_come(&mut self) {
        let local = &mut self.local;
        local.board.machine.set_timer(Deadline::NEVER);
        local.timer = Deadline::NEVER;
        #[cfg(feature = "selftest")]
        local.board.move_pages();
        // The deadline has come; the scheduler, which is asked next, sets another one. A pCPU that is not shared does not
        // ask it, and may have been interrupted for its guest's timer.
        local.deadline = local.seldom_at;
        let reporting = if local.seldom_at.has_come(local.board.counter()) {
            self.seldom_has_come()
        } else {
            Reporting::Done
        };
        let local = &mut self.local;
        if reporting == Reporting::GoesOn {
            if local.is_shared() {
                local.note_report();
            } else {
                local.serve_console();
            }
        }
    }

    /// Does what is due of that of which [`Local::seldom_at`] is the instant, but for a person's wish, which the next decision takes. The answer
    /// is whether a report goes on.
    #[cold]
    #[inline(never)]
    fn seldom_has_come(&mut self) -> Reporting {
        if self.local.watch_at.has_come(self.local.board.counter()) {
            self.watch();
        }
        let local = &mut self.local;
        let reporting = local.let_through();
        local.seldom_at = local.next_seldom();
        // Not the wish's instant: where it has come, the timer would interrupt each decision before it takes the wish.
        local.deadline = local.restrained.until.or(local.watch_at);
        reporting
    }

    /// Sets the hypervisor's timer to the earliest of the resident vCPU's timers, another vCPU's timers,
    /// and the end of a turn.
    pub(crate) fn program_timer(&mut self) {
        let (vcpu, local) = self.resident_and_local();
        local.set_timer(vcpu.map(|vcpu| &*vcpu));
    }
}

impl<B: Host> Local<B> {
    /// Serves the serial line. It belongs to the board, so its time is charged to no vCPU.
    #[inline(never)]
    pub(crate) fn serve_console(&mut self) {
        let board = self.board;
        let mut reporting = Reporting::Done;
        if let Some(seat) = self.seat() {
            reporting = seat.without_charge(|| board.serve_console());
        } else {
            self.policy
                .without_charge(board, || reporting = board.serve_console());
        }
        if reporting == Reporting::GoesOn {
            self.report_later();
        }
    }

    /// Sets the hypervisor's timer to the earliest of the timers of `vcpu`, which is the resident one,
    /// another vCPU's timers, and the end of a turn. Kept out of line, as many exits may need it and few do.
    #[inline(never)]
    pub fn set_timer(&mut self, vcpu: Option<&Vcpu<B>>) {
        self.set_timer_here(vcpu);
    }

    #[inline(always)]
    fn set_timer_here(&mut self, vcpu: Option<&Vcpu<B>>) {
        let own = vcpu.map_or(Deadline::NEVER, |vcpu| vcpu.unit.vm.deadline(&vcpu.core));
        let due = own.or(self.deadline);
        #[cfg(feature = "selftest")]
        let due = due.or(self.board.page_moves.due());
        if core::mem::replace(&mut self.timer, due) != due {
            self.board.machine.set_timer(due);
        }
    }
}

impl<B: Host> Vcpu<B> {
    /// Brings the interrupts and timers of the vCPU, which is in this CPU, up to date.
    pub(crate) fn refresh(&mut self, local: &mut Local<B>) {
        let board = local.board;
        if self.unit.vm.is_up_to_date(board, &self.core) {
            self.core.rearm = false;
            return local.set_timer_here(Some(self));
        }
        self.refresh_slowly(local);
    }

    /// [`Self::refresh`] where something has changed.
    #[inline(never)]
    fn refresh_slowly(&mut self, local: &mut Local<B>) {
        let board = local.board;
        guest(self, board, &mut board.machine.lists()).refresh();
        self.rearm(local);
    }

    /// Sets the hypervisor's timer anew if the next deadline of the vCPU, which is in this CPU, may have
    /// changed.
    #[inline(always)]
    pub fn rearm(&mut self, local: &mut Local<B>) {
        if core::mem::take(&mut self.core.rearm) {
            local.set_timer(Some(self));
        }
    }

    /// Keeps an SError, or asynchronous abort, that the vCPU caused and that came as it left this CPU. The
    /// vCPU takes it when it comes back.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_late_error(&mut self, board: &Board<B>) {
        self.context.pend_error();
        let error = B::Context::ERROR;
        board.notice(
            self.unit,
            format_args!("late {error} of what it did, as it left its core: handed to it"),
        );
    }
}

#[cfg(test)]
mod tests {
    use crate::begin_all;
    use crate::fake::FakeBoard;
    use crate::sleep::tests::settings;
    use hanok_hal::Backend;
    use hanok_sched::Entity;
    use hanok_types::{Deadline, GicVersion};
    use std::vec;

    /// The interrupt may be served in a loop that ends when there is none, before the decision that takes the wish.
    #[test]
    fn a_wish_that_is_due_does_not_set_the_timer_again() {
        let mut fake = FakeBoard::new(settings(), &[vec![0], vec![0]], GicVersion::V3);
        begin_all(fake.board);
        let pcpu = &mut fake.pcpus[0];
        pcpu.schedule();
        let machine = &fake.board.machine;
        let (first, at) = (Entity::FIRST, machine.counter() + 10);
        pcpu.local.go_on_asking(first, Deadline::at(at));
        machine.advance(10);
        pcpu.timer_has_come();
        assert!(!pcpu.local.deadline.has_come(machine.counter()));
        assert!(
            pcpu.local.seldom_at.has_come(machine.counter()),
            "the decision takes it"
        );
    }
}
