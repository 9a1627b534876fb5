//! The decision which vCPU a pCPU runs.
//!
//! Each pCPU decides about its own vCPUs alone. Other pCPUs make requests by the VM's atomics
//! (requests, power, lifecycle, paused) and a kick. A decision first brings those vCPUs up to date that were
//! kicked, are due, or did something themselves, and tells the policy what has changed; then the policy says
//! which vCPU runs. A vCPU that waits or has lost its turn stays in the CPU until another one needs it.

use crate::policy::AT_ONCE;
use crate::sleep::Slept;
use crate::{Host, Local, Pcpu, Vcpu};
use hanok_config::POOLS;
use hanok_hal::Context;
use hanok_sched::{Entity, EntitySet, Policy, Replenished};
use hanok_trace::Event;
use hanok_types::{Deadline, MAX_VCPUS};
use hanok_vm::{Clock, Relay};

/// The amount of work that it took to bring one vCPU up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Update {
    /// A few instructions.
    Brief,
    /// The interrupts and timers of a vCPU that is in no CPU were checked.
    Interrupts,
    /// The vCPU entered its VM, or left it.
    Moved,
}

impl Update {
    /// How much of a round's work it is ([`ROUND`]).
    #[inline(always)]
    fn work(self) -> u32 {
        match self {
            Self::Brief => 1,
            Self::Interrupts => ROUND / 2,
            Self::Moved => ROUND,
        }
    }
}

/// The work of a round, in brief updates. As many vCPUs as a pCPU can have may need one at the same time, as
/// when their VM is paused, and pending interrupts are served between two rounds.
const ROUND: u32 = 12;

/// What it takes of that to hand a kick on to the pCPU to which its vCPU has moved: the pool's lock, and a kick.
const HAND_ON: u32 = ROUND / 4;

/// The most wakes by [`is_woken_at_once`] in a round.
const WAKES: u32 = 6;

/// The largest number of pieces in which budgets are replenished before a decision, for that of the board.
pub(crate) const PIECES: usize = MAX_VCPUS.div_ceil(AT_ONCE);

/// Whether all vCPUs were brought up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Round {
    /// All were.
    Complete,
    /// Some were, which took long; the others still have to be brought up to date.
    Interrupted,
}

impl<B: Host> Pcpu<B> {
    /// Brings the vCPU that is to run next into the CPU; sleeps while there is none.
    pub fn schedule(&mut self) {
        let now = self.local.board.counter();
        self.schedule_from(now);
    }

    /// [`Self::schedule`], at `now`, of which the policy may have been told already.
    fn schedule_from(&mut self, mut now: u64) {
        let mut pieces = 0;
        while self.try_to_schedule(now, &mut pieces) == Round::Interrupted {
            now = self.local.board.counter();
        }
    }

    /// Brings the vCPU that is to run from `now` on into the CPU, unless something else had to be done first, which
    /// took time. In so many pieces budgets were replenished.
    #[inline(always)]
    pub(crate) fn try_to_schedule(&mut self, now: u64, pieces: &mut usize) -> Round {
        if let Some(seat) = self.local.seat()
            && self.has_exchanged(seat)
        {
            return Round::Interrupted;
        }
        if self.update_all(now) == Round::Interrupted {
            // Pending interrupts are served first, and then all updates that are pending by then.
            self.serve_pending();
            if let Some((unit, ending)) = self.local.ending.take() {
                self.local.board.carry_out_ending(unit, ending);
                self.serve_pending();
            }
            return Round::Interrupted;
        }
        let decision = match self.local.policy.pick_at_once(now) {
            Some(decision) => decision,
            // As many pieces as there can be budgets: with periods as short as a piece, one would be due again
            // each time.
            None if *pieces < PIECES && self.local.policy.settle_some(now) == Replenished::Some => {
                *pieces += 1;
                self.serve_pending();
                return Round::Interrupted;
            }
            None => self.local.policy.pick(now),
        };
        let (decision, now) = match self.local.seat() {
            Some(seat) if decision.run.is_none() => match self.decide_in_pool(seat, pieces) {
                Some(decided) => decided,
                None => return Round::Interrupted,
            },
            _ => (decision, now),
        };
        let local = &mut self.local;
        local.deadline = local
            .first_alarm()
            .or(decision.until.into())
            .or(local.seldom_at);
        self.note_turn(decision.run, now);
        let Some(entity) = decision.run else {
            self.idle();
            return Round::Interrupted;
        };
        let Some(Some(vcpu)) = self.vcpus.get(entity.index()) else {
            self.idle();
            return Round::Interrupted;
        };
        let until = decision.until.into();
        self.local
            .tell_sinks(Some(vcpu.source()), Event::Decision { until });
        if !vcpu.core.enters_at_once && self.before_entry(entity) == Round::Interrupted {
            return Round::Interrupted;
        }
        self.switch_to(entity);
        Round::Complete
    }

    /// Does what comes before the vCPU at `entity` enters its VM, whose turn has begun: its guest is told of stolen
    /// time, or its VM's memory is made, which is all of its turn.
    #[cold]
    #[inline(never)]
    fn before_entry(&mut self, entity: Entity) -> Round {
        if let (Some(vcpu), local) = self.vcpu_and_local(entity)
            && vcpu.on
        {
            vcpu.unit.vm.tell_stolen(&vcpu.core, local.board);
            return Round::Complete;
        }
        self.load(entity);
        self.local.uncounted();
        Round::Interrupted
    }

    /// Lets the resident vCPU wait for an interrupt from now on.
    pub(crate) fn wait(&mut self) {
        if self.sleep_in_turn() == Slept::Woken {
            return;
        }
        if let (Some(vcpu), local) = self.resident_and_local() {
            vcpu.waiting = true;
            local.note_update(vcpu);
        }
        self.schedule();
    }

    /// Executes a yield of the resident vCPU: it gives up the rest of its turn.
    #[inline(always)]
    pub(crate) fn yield_now(&mut self) {
        let local = &mut self.local;
        let now = local.board.counter();
        if let Some(entity) = local.resident {
            if !local.policy.holds_back()
                && let Some(seat) = local.seat()
            {
                seat.yield_now(entity);
            } else {
                local.policy.yield_now(entity, now);
            }
        }
        self.schedule_from(now);
    }

    /// Brings the vCPUs with pending updates up to date.
    #[inline(always)]
    fn update_all(&mut self, now: u64) -> Round {
        let updates = self.local.take_updates(now);
        if updates.is_empty() {
            return Round::Complete;
        }
        self.update_each(updates, now)
    }

    /// Brings the vCPUs of `updates` up to date, until the work of a round is done ([`ROUND`]): one came into
    /// its VM or left it, the interrupts of a second one were checked, or there were many brief updates.
    fn update_each(&mut self, mut updates: EntitySet, now: u64) -> Round {
        let Self { local, vcpus } = self;
        if local.take_due_report() {
            local.serve_console();
            local.put_back_updates(updates);
            return Round::Interrupted;
        }
        if let Some(asks) = local.take_due_wish()
            && let Some(Some(vcpu)) = vcpus.get_mut(asks.index())
        {
            vcpu.consider_wish(local, now);
            local.put_back_updates(updates);
            return Round::Interrupted;
        }
        let (mut left, mut wakes) = (ROUND, 0);
        while let Some(entity) = updates.take_first() {
            let Some(Some(vcpu)) = vcpus.get_mut(entity.index()) else {
                if POOLS {
                    local.hand_on_kick(entity);
                    left = left.saturating_sub(HAND_ON);
                    if left == 0 {
                        local.put_back_updates(updates);
                        return Round::Interrupted;
                    }
                }
                continue;
            };
            if is_woken_at_once(vcpu, local, now) {
                // Most often it is the only one.
                if updates.is_empty() {
                    break;
                }
                wakes += 1;
                if wakes < WAKES {
                    continue;
                }
                left = 0;
            } else if is_up_to_date(vcpu) {
                continue;
            } else {
                left = left.saturating_sub(update(vcpu, local, now).work());
            }
            if left == 0 || local.ending.is_some() {
                local.put_back_updates(updates);
                return Round::Interrupted;
            }
        }
        Round::Complete
    }

    /// Sleeps until a physical interrupt is pending, and serves all that are.
    #[inline(never)]
    fn idle(&mut self) {
        let spends = self.local.policy.spends();
        self.local
            .record(if spends { Event::Spends } else { Event::Idle });
        let keeps_awake = |vcpu: &mut Vcpu<B>| !vcpu.waiting || vcpu.page.is_some();
        if self.resident().is_some_and(keeps_awake) {
            // The vCPU is paused, or waits for a page: its pending virtual interrupts would not let the CPU
            // sleep.
            self.switch_away();
            // Its VM may end while it is away: see `go_out`.
            self.local.board.machine.enter_empty_space();
        }
        self.program_timer();
        self.local.board.machine.idle();
        self.serve_pending();
        if let (Some(vcpu), local) = self.resident_and_local() {
            local.note_update(vcpu);
        }
        self.local.uncounted();
    }

    /// Serves pending interrupts: all that are private to this pCPU, and one of a device. Further ones of
    /// devices cause exits of their own, as there may be many, and some fire again at once. Returns whether
    /// there was any.
    #[inline(never)]
    pub(crate) fn serve_pending(&mut self) -> bool {
        let machine = &self.local.board.machine;
        let mut any = false;
        while let Some(taken) = machine.acknowledge() {
            any = true;
            machine.drop_priority(taken);
            self.local.record(Event::Interrupt(taken.id()));
            self.serve(taken);
            if !taken.id().is_private() {
                break;
            }
        }
        any
    }
}

/// Whether `vcpu` is up to date: it had work, and has no request but those that its turn serves anyway; or
/// it is out of its VM, and has to stay out.
#[inline]
fn is_up_to_date<B: Host>(vcpu: &Vcpu<B>) -> bool {
    let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
    if vcpu.on & vcpu.ready & !vcpu.waiting {
        vm.keeps_on(id)
    } else {
        !(vcpu.on | vcpu.ready) && vm.is_left_alone(id)
    }
}

/// Lets `vcpu` enter or leave its VM, as its power state and the VM's lifecycle require, and tells the
/// policy whether it has work. Kept out of line: inlined into [`Pcpu::schedule`], which each exit to the
/// scheduler runs, it would save registers and compute addresses that most of these exits do not need.
#[inline(never)]
fn update<B: Host>(vcpu: &mut Vcpu<B>, local: &mut Local<B>, now: u64) -> Update {
    let mut done = Update::Brief;
    let vm = &vcpu.unit.vm;
    let id = vcpu.core.id;
    let requests = vm.requests(id);
    // One look for all that are seldom made.
    if requests.has_seldom_ones() {
        requests.take_attention();
        if vm.relay(local.board, id) == Relay::Done {
            done = Update::Interrupts;
        }
        // Lines of text are the work of a round, each.
        if requests.take_dump() {
            vcpu.dump(local);
            done = Update::Moved;
        }
        if requests.take_change() {
            vcpu.consider_wish(local, now);
            done = Update::Moved;
        }
        if requests.take_look() {
            vcpu.say_if_storm(local);
            done = Update::Moved;
        }
    }
    if vcpu.on && !(vm.lifecycle().is_running() && vm.power(id).is_on()) {
        done = Update::Moved;
        vcpu.go_out(local);
        local.leave(vcpu.unit);
    }
    if !vcpu.on && vm.power(id).is_pending() && vm.lifecycle().enter().is_made() {
        vcpu.come_in(local);
        if vcpu.on {
            done = Update::Moved;
        }
    }
    let ready = if !vcpu.on {
        id.index() == 0 && vm.lifecycle().is_loading()
    } else if vcpu.waiting {
        if update_waiting(vcpu, local, now) == Update::Interrupts && done == Update::Brief {
            done = Update::Interrupts;
        }
        !vcpu.waiting && !vm.is_paused()
    } else {
        !vm.is_paused()
    };
    if ready != core::mem::replace(&mut vcpu.ready, ready) {
        if ready {
            becomes_ready(vcpu, local, now);
        } else {
            vcpu.account.set_ready(false);
            local.tell_policy(vcpu.entity, false, now);
            local.emit(vcpu, Event::Block);
        }
    }
    local.set_alarm(vcpu);
    done
}

/// Tells the policy, and whoever looks, that `vcpu` has work. The 32-bit image has room for it once.
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[cfg_attr(target_pointer_width = "32", inline(never))]
fn becomes_ready<B: Host>(vcpu: &mut Vcpu<B>, local: &mut Local<B>, now: u64) {
    vcpu.ready = true;
    vcpu.account.set_ready(true);
    vcpu.waits_since = now;
    local.tell_policy(vcpu.entity, true, now);
    local.emit(vcpu, Event::Wake);
}

/// [`update`] in the most frequent case, which is that the virtual timer of a vCPU is due that waits for it in no
/// CPU: it goes on, and gets the interrupt when it comes into the CPU. Otherwise nothing is changed.
fn is_woken_at_once<B: Host>(vcpu: &mut Vcpu<B>, local: &mut Local<B>, now: u64) -> bool {
    if !(vcpu.on & vcpu.waiting & vcpu.timer_wakes) || !vcpu.wake_at.has_come(now) {
        return false;
    }
    if !vcpu.requests.is_empty() || vcpu.unit.vm.is_paused() {
        return false;
    }
    (vcpu.waiting, vcpu.timer_due) = (false, true);
    becomes_ready(vcpu, local, now);
    true
}

/// Finds out whether a vCPU that waits has to go on waiting. Returns [`Update::Interrupts`] if that took
/// long, because the vCPU is in no CPU and was kicked, or its alarm has come. The caller then serves
/// interrupts first: otherwise interrupts that others send to several vCPUs at once would all be checked in
/// one exit of the vCPU that is in this CPU.
fn update_waiting<B: Host>(vcpu: &mut Vcpu<B>, local: &Local<B>, now: u64) -> Update {
    if vcpu.page.is_some() {
        vcpu.update_page();
        return Update::Brief;
    }
    let (vm, board) = (&vcpu.unit.vm, local.board);
    let id = vcpu.core.id;
    // The request is taken before the interrupts are checked: a later request comes with a kick of its own.
    let requests = vm.requests(id);
    if requests.is_quiet() {
        if !vcpu.wake_at.has_come(now) {
            return Update::Brief;
        }
        requests.set_quiet(false);
    }
    let asked = requests.take_timers() | requests.take_interrupts();
    let resident = local.resident == Some(vcpu.entity);
    let look = !resident && (asked || vcpu.wake_at.has_come(now));
    let woken = if resident {
        vm.interrupt_waits(board, id, &mut board.machine.lists())
    } else {
        look && is_woken(vcpu, local, now)
    };
    vcpu.waiting = !(woken || vcpu.context.has_pending_error(resident));
    if look {
        Update::Interrupts
    } else {
        Update::Brief
    }
}

/// Whether an interrupt or timer wakes a vCPU that is in no CPU.
fn is_woken<B: Host>(vcpu: &mut Vcpu<B>, local: &Local<B>, now: u64) -> bool {
    let board = local.board;
    vcpu.raise_due_timers(board, now);
    let vm = &vcpu.unit.vm;
    let id = vcpu.core.id;
    if vm.interrupt_waits_absent(board, id) {
        return true;
    }
    // Most often this happens in another vCPU's turn, so checks have a budget.
    let end = vcpu.core.checks.spend(now, board.counter_frequency());
    if let Some(end) = end {
        vm.requests(id).set_quiet(true);
        vcpu.wake_at = vcpu.wake_at.or(Deadline::at(end));
    }
    false
}
