//! Other interfaces for vCPUs while the board runs: those that guests ask for by calls, and those that a
//! person wants at the other end of the line.
//!
//! The pCPU of the vCPU answers, in steps (`hanok_sched::Budgets::ask`). A guest makes each step by a call, in its own
//! time. A person's wish is nobody's: a step of it is made each [`PACE`]th part of a second, so that it
//! takes little of anybody's time, and there is one at a time on the board.

use crate::{Board, Host, Local, Vcpu};
use core::fmt;
use hanok_abi::schedule::{self, feature, item, refusal, status};
use hanok_config::{MAX_PERIOD, in_ticks};
use hanok_hal::Context;
use hanok_sched::admission::{Refusal, Shortfall};
use hanok_sched::{Answer, Asker, Grant, Interface, Share};
use hanok_types::{Deadline, Regs, VcpuId, VmId};
use hanok_vm::{Call, Clock, Granted, Interrupts, nanos};

/// A step of a person's wish is made this often in a second.
const PACE: u64 = 5_000;
/// A question is accepted so often in a second from one vCPU.
const QUESTIONS: u64 = 100;
/// The part of a second for which a person's wish waits at most until earlier changes have taken effect. Whoever asks may
/// take the board for dead after a second.
const WAITS: u64 = 2;
/// The least budget that a guest may ask for, in nanoseconds. One with less, which is over before the guest has executed
/// an instruction, could not even ask for more.
const LEAST_BUDGET: u64 = 2_000;

/// What a person wants of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// This interface, in ticks.
    Interface(Interface),
    /// This share of what is left.
    Share(Share),
}

/// A person's wish.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    vm: VmId,
    vcpu: VcpuId,
    wanted: Wanted,
    /// How long it waits for earlier changes at most.
    waits_until: u64,
}

/// A refusal, as an answer to a request says it: a word, and where it is known at which instant how much is asked
/// for and how much there is.
struct Refused(Refusal);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, at) = match self.0 {
            Refusal::Late(Shortfall {
                instant,
                demand,
                supply,
            }) => ("late", [instant, demand, supply]),
            other => (word(reason(other)), [0; 3]),
        };
        let [instant, demand, supply] = at;
        write!(f, "{word} {instant} {demand} {supply}")
    }
}

/// The number of a refusal's reason, for guests.
fn reason(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::Overload | Refusal::Density => refusal::OVERLOAD,
        Refusal::Late(_) | Refusal::LongDeadline => refusal::LATE,
        Refusal::Hopeless | Refusal::Prepaid => refusal::HOPELESS,
        Refusal::Moving | Refusal::Soft | Refusal::Unbounded | Refusal::Switches => {
            refusal::UNPROVEN
        }
        Refusal::Transition => refusal::TRANSITION,
        _ => refusal::UNDECIDED,
    }
}

/// The word of a reason, for people.
fn word(reason: u32) -> &'static str {
    match reason {
        refusal::OVERLOAD => "overload",
        refusal::LATE => "late",
        refusal::HOPELESS => "hopeless",
        refusal::UNPROVEN => "unproven",
        refusal::TRANSITION => "transition",
        _ => "undecided",
    }
}

/// The interface of a period, a budget and a deadline (0: the period) in nanoseconds.
fn interface([period, budget, deadline]: [u64; 3], frequency: u64) -> Option<Interface> {
    let deadline = if deadline == 0 { period } else { deadline };
    let within = period <= MAX_PERIOD && budget <= MAX_PERIOD && deadline <= MAX_PERIOD;
    within.then(|| in_ticks([period, budget, deadline], frequency).ok())?
}

/// The call that is in the general registers, by HVC.
fn by_registers(regs: &Regs) -> Call {
    let narrow = regs.is_aarch32();
    let argument = |index| {
        let value = regs.get(index);
        if narrow { value & 0xffff_ffff } else { value }
    };
    Call {
        function: argument(0) as u32,
        arguments: [argument(1), argument(2), argument(3)],
    }
}

impl<B: Host> Board<B> {
    /// Takes a person's wish to the vCPU's pCPU, which answers.
    pub(crate) fn wish_interface(&self, vm: VmId, vcpu: VcpuId, times: [u64; 3]) {
        match interface(times, self.counter_frequency()) {
            Some(interface) => self.wish(vm, vcpu, Wanted::Interface(interface)),
            None => self.tell(format_args!("refused {vm} {vcpu} invalid 0 0 0")),
        }
    }

    /// The same for a share.
    pub(crate) fn wish_share(&self, vm: VmId, vcpu: VcpuId, weight: u16, cap: u8) {
        let cap = Some(cap).filter(|cap| *cap > 0);
        self.wish(vm, vcpu, Wanted::Share(Share { weight, cap }));
    }

    fn wish(&self, vm: VmId, vcpu: VcpuId, wanted: Wanted) {
        let unit = self
            .vms
            .get(vm.index())
            .filter(|u| vcpu.index() < u.vm.vcpus());
        let home = unit.and_then(|unit| Some((unit, unit.vm.home_of(vcpu)?)));
        let Some((unit, home)) = home.filter(|(_, home)| home.bit != 0) else {
            return self.tell(format_args!("refused {vm} {vcpu} not-allowed 0 0 0"));
        };
        let mut wish = self.wish.lock();
        if wish.is_some() {
            drop(wish);
            return self.tell(format_args!("refused {vm} {vcpu} busy 0 0 0"));
        }
        let waits_until = self
            .counter()
            .saturating_add(self.counter_frequency() / WAITS);
        *wish = Some(Wish {
            vm,
            vcpu,
            wanted,
            waits_until,
        });
        drop(wish);
        unit.vm.requests(vcpu).ask_change();
        self.kick(home);
    }
}

impl<B: Host> Vcpu<B> {
    /// Makes a step of what a person wants of this vCPU, on its own pCPU.
    #[cold]
    #[inline(never)]
    pub(crate) fn consider_wish(&mut self, local: &mut Local<B>, now: u64) {
        let board = local.board;
        let (vm, id) = (self.unit.vm.id(), self.core.id);
        let Some(wish) = (*board.wish.lock()).filter(|wish| (wish.vm, wish.vcpu) == (vm, id))
        else {
            return;
        };
        let answer = match wish.wanted {
            Wanted::Interface(interface) => self.ask(local, interface, Asker::Person, now),
            Wanted::Share(share) => {
                if !local.policy.change_share(self.entity, share) {
                    *board.wish.lock() = None;
                    board.tell(format_args!("refused {vm} {id} not-allowed 0 0 0"));
                    return local.report_later();
                }
                let grant = Some(Grant::Share(share));
                let granted = self.unit.vm.granted(id);
                self.unit.vm.set_granted(id, Granted { grant, ..granted });
                Answer::Yes(now)
            }
        };
        match answer {
            Answer::More => {
                let at = now.saturating_add(board.counter_frequency() / PACE);
                local.go_on_asking(self.entity, Deadline::at(at));
            }
            // It is asked again when what it waits for has come, unless that is far away.
            Answer::Later(at) if at <= wish.waits_until => {
                let least = now.saturating_add(board.counter_frequency() / PACE);
                local.go_on_asking(self.entity, Deadline::at(at.max(least)));
            }
            answered => {
                // The next wish may come as soon as this one is answered.
                *board.wish.lock() = None;
                self.tell_answer(board, answered, now);
                local.report_later();
            }
        }
    }

    /// Says what became of a person's wish about this vCPU.
    fn tell_answer(&self, board: &Board<B>, answer: Answer, now: u64) {
        let (vm, id) = (self.unit.vm.id(), self.core.id);
        match answer {
            Answer::More => {}
            Answer::Yes(from) => board.tell(format_args!("changed {vm} {id} {from}")),
            Answer::No(refusal) => {
                board.tell(format_args!("refused {vm} {id} {}", Refused(refusal)));
            }
            Answer::Later(at) => {
                let after = at.saturating_sub(now);
                board.tell(format_args!("refused {vm} {id} busy {after} 0 0"));
            }
        }
    }

    /// Makes a step of the question whether the vCPU may have `wanted`, and notes a yes.
    fn ask(&mut self, local: &mut Local<B>, wanted: Interface, asker: Asker, now: u64) -> Answer {
        // A question lasts for a second at most.
        let longest = local.board.counter_frequency();
        let answer = local.policy.ask(self.entity, wanted, asker, longest, now);
        let (vm, id) = (&self.unit.vm, self.core.id);
        let granted = vm.granted(id);
        if let (Answer::Yes(_), Some(Grant::Promise(group, old))) = (answer, granted.grant) {
            let grant = Some(Grant::Promise(
                group,
                hanok_sched::Reservation {
                    interface: wanted,
                    ..old
                },
            ));
            vm.set_granted(id, Granted { grant, ..granted });
        }
        answer
    }

    /// Carries out the call of `hanok_abi::schedule` that the vCPU has made. Returns whether the vCPU gives up its turn.
    #[inline(never)]
    pub(crate) fn schedule_call(&mut self, local: &mut Local<B>) -> bool {
        let by_device = self.core.schedule.take_call();
        let Call {
            function,
            arguments,
        } = by_device.unwrap_or_else(|| by_registers(self.context.regs()));
        let now = local.board.counter();
        let (status, value) = match function {
            schedule::FEATURES => (status::DONE, self.features()),
            schedule::READ => match self.item(local, arguments[0] as u32, now) {
                Some(value) => (status::DONE, value),
                None => (status::INVALID, 0),
            },
            schedule::ASK => self.ask_for(local, arguments, now),
            schedule::WAIT => (status::DONE, 0),
            _ => (status::NOT_SUPPORTED, 0),
        };
        if by_device.is_some() {
            self.core.schedule.answer(status, value);
            return function == schedule::WAIT;
        }
        let regs = self.context.regs_mut();
        regs.set(0, i64::from(status) as u64);
        regs.set(1, value & 0xffff_ffff);
        regs.set(2, value >> 32);
        function == schedule::WAIT
    }

    fn features(&self) -> u64 {
        let granted = self.unit.vm.granted(self.core.id);
        let promised = matches!(granted.grant, Some(Grant::Promise(..)));
        let mut features = 0;
        if promised {
            features |= feature::ENFORCED;
            if granted.ask.limit > 0 {
                features |= feature::ASKS;
            }
        }
        u64::from(schedule::VERSION) | u64::from(features) << 32
    }

    /// The value of an item; `None` if there is no such item, or the vCPU has none.
    fn item(&self, local: &mut Local<B>, item: u32, now: u64) -> Option<u64> {
        let frequency = local.board.counter_frequency();
        let (account, granted) = (self.account, self.unit.vm.granted(self.core.id));
        let time = |ticks| Some(nanos(ticks, frequency));
        // In a pool what it has does not change.
        let interface = match granted.grant {
            Some(Grant::Promise(_, reservation)) if local.seat().is_some() => {
                Some(reservation.interface)
            }
            _ => local.policy.interface(self.entity),
        };
        match item {
            item::PERIOD => time(interface?.period()),
            item::BUDGET => time(interface?.budget()),
            item::DEADLINE => time(interface?.deadline()),
            item::LEFT => time(match local.seat() {
                Some(seat) => seat.budget(self.entity)?,
                None => local.policy.budget(self.entity, now)?,
            }),
            item::USED => time(
                account
                    .used()
                    .wrapping_add(local.turn_until(self.entity, now)),
            ),
            item::EXTRA => time(account.extra()),
            item::THROTTLED => Some(local.served(self.entity)?.0.into()),
            item::STOLEN => time(account.stolen()),
            item::LIMIT => Some(granted.ask.limit.into()),
            item::SHORTEST_PERIOD => Some(granted.ask.shortest),
            _ => None,
        }
    }

    /// A guest's question.
    fn ask_for(&mut self, local: &mut Local<B>, times: [u64; 3], now: u64) -> (i32, u64) {
        let frequency = local.board.counter_frequency();
        let Some(wanted) = interface(times, frequency) else {
            return (status::INVALID, 0);
        };
        let ask = self.unit.vm.granted(self.core.id).ask;
        let [period, budget, _] = times;
        let share = u128::from(budget) << 16;
        if ask.limit == 0
            || period < ask.shortest
            || share > u128::from(ask.limit) * u128::from(period)
        {
            return (status::NOT_ALLOWED, 0);
        }
        if budget < LEAST_BUDGET {
            return (status::REFUSED, refusal::HOPELESS.into());
        }
        let before = self.asks_from;
        if !local.policy.is_asking(self.entity, wanted) {
            if now < before {
                return (status::LATER, nanos(before - now, frequency));
            }
            self.asks_from = now.saturating_add(frequency / QUESTIONS);
        }
        match self.ask(local, wanted, Asker::Guest, now) {
            Answer::More => (status::PENDING, 0),
            Answer::Yes(from) => (status::DONE, nanos(from, frequency)),
            Answer::No(refusal) => (status::REFUSED, reason(refusal).into()),
            Answer::Later(at) => {
                // What was not answered is none of the questions of which there may be so many.
                self.asks_from = before;
                (status::LATER, nanos(at.saturating_sub(now), frequency))
            }
        }
    }
}

#[cfg(test)]
mod tests;
