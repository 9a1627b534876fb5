//! How an exit ends: the core's decision is carried out, and a vCPU goes on.

use crate::{Board, Host, Local, Pcpu, Vcpu};
use hanok_decode::Esr;
use hanok_hal::{Context, FpGiven};
use hanok_vm::{Action, Cause, Exit, Wait};

/// How a vCPU goes on after its exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum After {
    /// At once.
    Resume,
    /// When an interrupt is pending for it.
    Sleep,
    /// When its turn comes, which may be now.
    Reconsider,
    /// After the others that are ready.
    Yield,
}

/// The outcome of a vCPU's first access to FP registers since it came into the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FpAccess {
    /// The vCPU has its FP registers now, and tries the instruction again.
    Given,
    /// The vCPU has them already, or the CPU has none: the exit has another cause.
    Refused,
}

impl<B: Host> Pcpu<B> {
    /// Ends an exit of the resident vCPU; the vCPU that is resident afterwards runs. The instructions since
    /// the last exit are charged to `cause`.
    #[inline(always)]
    pub fn finish(&mut self, cause: Cause, after: After) {
        let exited = self.local.resident;
        match after {
            After::Resume => {}
            After::Sleep => self.wait(),
            After::Reconsider => self.schedule(),
            After::Yield => self.yield_now(),
        }
        if let Some(exited) = exited
            && let (Some(vcpu), local) = self.vcpu_and_local(exited)
        {
            local.handled(vcpu, cause);
        }
    }

    /// Serves the physical interrupt that the fast path has acknowledged and not handled
    /// ([`Local::taken`]). If that is `None`, it was a kick, which has been ended.
    pub fn interrupted(&mut self) -> After {
        match self.local.taken.take() {
            Some(taken) => self.serve(taken),
            None => {
                self.local.take_choice();
                if let (Some(vcpu), local) = self.resident_and_local() {
                    vcpu.refresh(local);
                }
            }
        }
        // The vCPU that was kicked, or whose alarm has come, may be another one of this pCPU.
        let shared = self.local.is_shared();
        let stays = !shared && self.resident().is_some_and(|vcpu| vcpu.may_run());
        if stays {
            After::Resume
        } else {
            After::Reconsider
        }
    }

    /// Loads the FP registers of the resident vCPU, whose first access to one since it came exited.
    pub fn give_fp(&mut self) -> FpAccess {
        let (Some(next), owner) = (self.local.resident, self.local.fp_owner) else {
            return FpAccess::Refused;
        };
        if owner == Some(next) {
            return FpAccess::Refused;
        }
        let given = match owner {
            None => match self.resident() {
                Some(vcpu) => B::Context::hand_over_fp(None, &mut vcpu.context),
                None => return FpAccess::Refused,
            },
            Some(owner) => {
                let pair = [owner.index(), next.index()];
                let Ok([Some(owner), Some(next)]) = self.vcpus.get_disjoint_mut(pair) else {
                    return FpAccess::Refused;
                };
                B::Context::hand_over_fp(Some(&mut owner.context), &mut next.context)
            }
        };
        match given {
            FpGiven::Loaded => {
                self.local.fp_owner = Some(next);
                FpAccess::Given
            }
            FpGiven::Absent => FpAccess::Refused,
        }
    }
}

impl<B: Host> Vcpu<B> {
    /// Whether it may go on running.
    fn may_run(&self) -> bool {
        self.unit.vm.may_run(self.core.id)
    }

    /// How it goes on, as it waits.
    #[inline(always)]
    fn blocked(&mut self, local: &Local<B>, wait: Wait) -> After {
        match wait {
            Wait::Interrupt => After::Sleep,
            Wait::Page(page) => {
                self.page = Some(page);
                local.board.page_is_missed();
                After::Sleep
            }
            // The vCPU tries again after the others.
            Wait::Reply | Wait::Budget => After::Yield,
        }
    }

    /// Carries out what the core decided on an exit of the vCPU, which is in this CPU, with the
    /// syndrome `esr`.
    #[inline(always)]
    pub fn act(&mut self, local: &mut Local<B>, esr: u64, action: Action) -> After {
        self.rearm(local);
        match action {
            Action::Resume => After::Resume,
            Action::Next => {
                self.advance(esr);
                After::Resume
            }
            Action::Yield => After::Yield,
            other => self.act_seldom(local, esr, other),
        }
    }

    /// [`Self::act`] for actions that are rare.
    #[inline(never)]
    fn act_seldom(&mut self, local: &mut Local<B>, esr: u64, action: Action) -> After {
        match action {
            Action::Resume | Action::Next => {}
            Action::Inject(fault) => self.context.inject(fault, self.unit),
            Action::NextThenBlock(wait) => {
                self.advance(esr);
                return self.blocked(local, wait);
            }
            Action::Block(wait) => return self.blocked(local, wait),
            Action::Reconsider => {
                local.note_update(self);
                return After::Reconsider;
            }
            Action::Yield => return After::Yield,
            Action::Schedule { next } => {
                if next {
                    self.advance(esr);
                }
                if self.schedule_call(local) {
                    return After::Yield;
                }
            }
            Action::Serve { slot, next } => return self.served(local, esr, slot, next),
        }
        After::Resume
    }

    /// Advances the vCPU past the instruction that made the exit.
    pub fn advance(&mut self, esr: u64) {
        let length = Esr::from_bits(esr).instruction_length();
        self.context.regs_mut().advance(length);
    }

    /// Prints what a user should know of an exit, before it is handled.
    pub fn notice(&self, board: &Board<B>, exit: &Exit, esr: u64) {
        match exit {
            Exit::Unexpected => self.notice_unexpected(board, esr),
            Exit::SystemError => self.notice_error(board, esr),
            _ => {}
        }
    }

    /// Prints that an exit came for which no trap is set. The guest goes on.
    #[cold]
    #[inline(never)]
    fn notice_unexpected(&self, board: &Board<B>, esr: u64) {
        board.notice(
            self.unit,
            format_args!("an exit that cannot be (syndrome {esr:#x}): undefined for it"),
        );
    }

    #[cold]
    #[inline(never)]
    fn notice_error(&self, board: &Board<B>, esr: u64) {
        let (error, syndrome) = (B::Context::ERROR, B::Context::SYNDROME);
        board.notice(
            self.unit,
            format_args!("{error} while it ran ({syndrome} {esr:#x}), handed to it"),
        );
    }

    /// Prints, once in a boot, that a guest's exception vector cannot be fetched. Such a guest faults on it
    /// for ever, as on a board, and its user would not know why it does not go on. It must be called after
    /// `action` was decided on `exit`.
    pub fn notice_fault_loop(&mut self, board: &Board<B>, exit: &Exit, action: Action) {
        let (Exit::Fetch { ipa, .. }, Action::Inject(_)) = (exit, action) else {
            return;
        };
        let pc = self.context.regs().pc;
        if pc != self.context.fetch_vector()
            || core::mem::replace(&mut self.fault_loop_noticed, true)
        {
            return;
        }
        let id = self.core.id;
        board.notice(
            self.unit,
            format_args!(
                "vCPU {id} is stuck: its exception vector at {pc:#x} lies where nothing is ({ipa}); \
                 the first fault came before the guest had set its vector base, or that is wrong"
            ),
        );
    }
}
