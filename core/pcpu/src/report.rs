//! Answers requests of a program at the other end of a framed line: what every vCPU and pCPU has
//! and had, for `hanok top`.
//!
//! A report is many lines. One exit makes a line of it (of a vCPU's half a line), or sends 32 bytes of one; the next piece follows [`PACE`] later,
//! so that what runs on the pCPU goes on in between, or when the line takes more. All that is said is read from accounts
//! that the pCPUs keep anyway: a report asks nothing of them.

use crate::{Board, Host, VmUnit};
use core::fmt::{self, Arguments, Display};
use hanok_config::kind_word;
use hanok_hal::Backend;
use hanok_sched::{Grant, Reservation, Share};
use hanok_trace::{Choice, Readiness, Turn};
use hanok_types::{CpuId, VcpuId};
use hanok_vm::{Clock, Home, ReportPiece, Request};

/// This often in a second a piece of a report follows where the line takes all that it is given at once.
pub(crate) const PACE: u64 = 10_000;

/// How many steps of a report without a line an exit takes: turns that were written over meanwhile, for instance.
const STEPS: usize = 8;

/// What is left to be said of a report.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    number: u32,
    /// How many turns of a pCPU it says, at most.
    turns: u32,
    next: Next,
}

/// Whether answers are left that the line's interrupt does not ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reporting {
    /// There are none.
    Done,
    /// The line is full: the next piece follows with its interrupt, which the caller lets come.
    Waits,
    /// The next piece is due in a while.
    GoesOn,
}

/// The next line of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Board,
    /// The VM at this place, and then its vCPUs.
    Vm(usize),
    /// A vCPU of a VM: the first half of its line.
    Vcpu(usize, usize),
    /// And the second one.
    Had(usize, usize),
    /// The VM's counts, as many as were looked at.
    Counts(usize, usize),
    /// A pCPU.
    Core(usize),
    /// The group at this place among those of a pCPU.
    Group(usize, usize),
    /// A pCPU's turn, by its number, up to another one.
    Turns(usize, u32, u32),
    End,
}

/// A number, or `-` where there is none.
struct OrNone<T>(Option<T>);

impl<T: Display> Display for OrNone<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// What a vCPU has of its pCPU: kind, period, budget, deadline and priority.
struct Terms<'a>(&'a Option<Grant>);

impl Display for Terms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("turn 0 0 0 0"),
            Some(Grant::Share(Share { weight, cap })) => {
                write!(f, "credit {weight} {} 0 0", cap.unwrap_or(0))
            }
            Some(Grant::Promise(_, reservation)) => promised(f, reservation),
        }
    }
}

fn promised(f: &mut fmt::Formatter<'_>, reservation: &Reservation) -> fmt::Result {
    f.write_str(kind_word(reservation.kind))?;
    let interface = reservation.interface;
    let (period, budget) = (interface.period(), interface.budget());
    let (deadline, priority) = (interface.deadline(), reservation.priority);
    Numbers(&[period, budget, deadline, priority]).fmt(f)
}

/// Numbers, each behind a space. A line of a vCPU has fourteen, and `core::fmt` takes some hundred instructions more for
/// each where the CPU has 32 bits.
struct Numbers<'a>(&'a [u64]);

/// What nine digits are less than: they fit into 32 bits.
const PART: u64 = 1_000_000_000;

impl Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|number| {
            let mut text = [b' '; 21];
            let mut places = text.iter_mut().rev();
            let (mut rest, mut length) = (*number, 1);
            loop {
                let (more, part) = match rest {
                    ..PART => (0, rest),
                    _ => (rest / PART, rest % PART),
                };
                let (mut part, mut digits) = (part as u32, 0);
                // All nine digits where more come before them; at least one.
                while part > 0 || digits == 0 || more > 0 && digits < 9 {
                    if let Some(place) = places.next() {
                        *place = b'0' + (part % 10) as u8;
                    }
                    part /= 10;
                    digits += 1;
                }
                length += digits;
                rest = more;
                if more == 0 {
                    break;
                }
            }
            let text = text.get(text.len().saturating_sub(length)..).unwrap_or(&[]);
            f.write_str(core::str::from_utf8(text).unwrap_or(""))
        })
    }
}

impl<B: Host> Board<B> {
    /// Begins to answer a request. A report is left to be said by [`Self::report`].
    pub(crate) fn answer(&'static self, request: Request, report: &mut Option<Report>) {
        match request {
            Request::Report { number, turns } => {
                let next = Next::Board;
                *report = Some(Report {
                    number,
                    turns,
                    next,
                });
            }
            Request::Change { vm, vcpu, times } => self.wish_interface(vm, vcpu, times),
            Request::Weight {
                vm,
                vcpu,
                weight,
                cap,
            } => self.wish_share(vm, vcpu, weight, cap),
            Request::TracePlace => self.tell_trace(Choice::default()),
            Request::Trace { classes, vms } => self.trace(Choice { classes, vms }),
            Request::Unknown => self.tell(format_args!("unknown request")),
        }
    }

    /// Queues a line that answers a request.
    #[inline(never)]
    pub(crate) fn tell(&self, line: Arguments<'_>) {
        self.lock_console().report(line);
    }

    /// Does a piece of what is left of answers: sends some bytes, or else makes the next line.
    #[inline(never)]
    pub(crate) fn go_on_reporting(&self, report: &mut Option<Report>) -> Reporting {
        let piece = self.lock_console().send_report();
        match piece {
            ReportPiece::Full => return Reporting::Waits,
            ReportPiece::Nothing => self.report(report),
            ReportPiece::Sent => {}
        }
        if report.is_some() || self.lock_console().has_report() {
            Reporting::GoesOn
        } else {
            Reporting::Done
        }
    }

    /// Says one line of a report, or none if [`STEPS`] have nothing to say.
    fn report(&self, left: &mut Option<Report>) {
        for _ in 0..STEPS {
            let Some(report) = left else { return };
            if report.next == Next::End {
                self.tell(format_args!("end {}", report.number));
                *left = None;
                return;
            }
            let (said, next) = self.step(report);
            report.next = next;
            if said {
                return;
            }
        }
    }

    /// A step of a report: whether a line was said, and what is next.
    fn step(&self, report: &Report) -> (bool, Next) {
        let number = report.number;
        match report.next {
            Next::Board => {
                self.tell_board(number);
                (true, Next::Vm(0))
            }
            Next::Vm(at) => match self.vms.get(at) {
                Some(unit) => {
                    let (vm, name) = (unit.vm.id(), &unit.vm.config().name);
                    self.tell(format_args!("vm {vm} {name} {number}"));
                    (true, Next::Vcpu(at, 0))
                }
                None => (false, self.first_core(0)),
            },
            Next::Vcpu(at, vcpu) => match self.vms.get(at).filter(|u| vcpu < u.vm.vcpus()) {
                Some(unit) => {
                    self.tell_vcpu(unit, VcpuId::new(vcpu as u8));
                    (true, Next::Had(at, vcpu))
                }
                None => (false, Next::Counts(at, 0)),
            },
            Next::Had(at, vcpu) => {
                let unit = self.vms.get(at);
                let said =
                    unit.is_none_or(|unit| self.tell_had(unit, VcpuId::new(vcpu as u8), number));
                // Another answer came between both halves: its line is made anew.
                (said, Next::Vcpu(at, vcpu + usize::from(said)))
            }
            Next::Counts(at, passed) => self.tell_count(at, passed, number),
            Next::Core(cpu) => (true, self.tell_core(cpu, number)),
            Next::Group(cpu, group) => self.tell_group(cpu, group, report),
            Next::Turns(cpu, turn, until) if turn != until => {
                let said = self.tell_turn(cpu, turn, number);
                (said, Next::Turns(cpu, turn.wrapping_add(1), until))
            }
            Next::Turns(cpu, ..) => (false, self.first_core(cpu + 1)),
            Next::End => (false, Next::End),
        }
    }

    /// The first pCPU from `from` on that has vCPUs.
    fn first_core(&self, from: usize) -> Next {
        let mut cores = from..self.accounts.len();
        match cores.find(|cpu| self.has_vcpus(*cpu)) {
            Some(cpu) => Next::Core(cpu),
            None => Next::End,
        }
    }

    fn has_vcpus(&self, cpu: usize) -> bool {
        self.inhabited >> (cpu % u64::BITS as usize) & 1 != 0
    }

    fn tell_board(&self, number: u32) {
        let (frequency, now) = (self.counter_frequency(), self.counter());
        let cores = self.inhabited.count_ones();
        let vcpus: usize = self.vms.iter().map(|unit| unit.vm.vcpus()).sum();
        self.tell(format_args!(
            "board {frequency} {now} {cores} {vcpus} {number}"
        ));
    }

    /// Says what a vCPU has: the first half of its line.
    fn tell_vcpu(&self, unit: &VmUnit<B>, id: VcpuId) {
        let vm = &unit.vm;
        let Some(Home { cpu, .. }) = vm.home_of(id) else {
            return;
        };
        let granted = vm.granted(id);
        let group = match granted.grant {
            Some(Grant::Promise(group, _)) => group.checked_sub(1),
            _ => None,
        };
        let on = vm.lifecycle().is_running() && vm.power(id).is_on();
        let state = match vm.account(id).readiness() {
            _ if self.turn_of(unit, id).is_some() => "runs",
            Readiness::Ready => "ready",
            Readiness::Waits if !on => "off",
            Readiness::Waits if vm.is_paused() => "paused",
            Readiness::Waits => "waits",
        };
        self.lock_console().report_half(format_args!(
            "vcpu {} {id} {cpu} {} {state} {} 0",
            vm.id(),
            OrNone(group),
            Terms(&granted.grant),
        ));
    }

    /// Says what a vCPU had: the second half of its line. Returns whether the first one was there.
    fn tell_had(&self, unit: &VmUnit<B>, id: VcpuId, number: u32) -> bool {
        let account = unit.vm.account(id);
        // With the turn that goes on.
        let lasts = self
            .turn_of(unit, id)
            .map_or(0, |turn| self.counter().saturating_sub(turn.since));
        let (used, extra) = (account.used().wrapping_add(lasts), account.extra());
        let (throttled, late) = (account.throttled(), account.late());
        let (switches, stolen) = (account.switches(), account.stolen());
        let numbers = Numbers(&[
            used,
            extra,
            throttled.into(),
            late.into(),
            switches.into(),
            stolen,
            number.into(),
        ]);
        self.lock_console().report_rest(format_args!("{numbers}"))
    }

    /// A vCPU's turn that goes on.
    #[inline(never)]
    fn turn_of(&self, unit: &VmUnit<B>, id: VcpuId) -> Option<Turn> {
        let Home { cpu, .. } = unit.vm.home_of(id)?;
        let own = who(unit, id);
        self.running(cpu).filter(|turn| turn.who == Some(own))
    }

    /// The turn that goes on on a pCPU.
    fn running(&self, cpu: CpuId) -> Option<Turn> {
        let account = self.account(cpu);
        account.kept(account.begun().wrapping_sub(1))
    }

    fn tell_count(&self, at: usize, passed: usize, number: u32) -> (bool, Next) {
        let Some(unit) = self.vms.get(at) else {
            return (false, Next::End);
        };
        let Some((passed, count)) = unit.vm.next_count(passed) else {
            return (false, Next::Vm(at + 1));
        };
        self.tell(format_args!(
            "exits {} {} {} {} {} {number}",
            unit.vm.id(),
            count.vcpu,
            count.cause.word(),
            count.exits,
            count.instructions
        ));
        (true, Next::Counts(at, passed))
    }

    fn tell_core(&self, cpu: usize, number: u32) -> Next {
        let id = CpuId::new(cpu as u8);
        let account = self.account(id);
        let policy = self.policies.get(cpu).copied().unwrap_or_default();
        let now = self.counter();
        let resting = self.running(id).filter(|turn| turn.who.is_none());
        let idle = account.idle() + resting.map_or(0, |turn| now.saturating_sub(turn.since));
        let (switches, ticks) = (account.switches(), account.switch_ticks());
        let (switches, begun) = (switches.into(), account.begun().into());
        self.tell(format_args!(
            "core {cpu} {policy}{}",
            Numbers(&[now, idle, switches, ticks, begun, number.into()])
        ));
        Next::Group(cpu, 0)
    }

    /// Says a group of a pCPU. What is left of its budget, and what it used, is not kept: that is what its members used.
    fn tell_group(&self, cpu: usize, at: usize, report: &Report) -> (bool, Next) {
        let mut own = self.groups.iter().filter(|group| group.cpu.index() == cpu);
        let Some(group) = own.nth(at) else {
            let begun = self.account(CpuId::new(cpu as u8)).begun();
            let first = begun.wrapping_sub(report.turns.min(begun));
            return (false, Next::Turns(cpu, first, begun));
        };
        let reservation = group.terms.reservation(self.counter_frequency());
        // It was found to be one at the start.
        if let Ok(reservation) = reservation {
            self.tell(format_args!(
                "group {cpu} {at} {} {} 0 0 {}",
                OrNone(group.home.checked_sub(1)),
                Terms(&Some(Grant::Promise(0, reservation))),
                report.number
            ));
        }
        (true, Next::Group(cpu, at + 1))
    }

    /// Says a turn, if it is still kept; the one that goes on ends now. Returns whether it was.
    fn tell_turn(&self, cpu: usize, turn: u32, number: u32) -> bool {
        let kept = self.account(CpuId::new(cpu as u8)).kept(turn);
        // It was written over meanwhile.
        let Some(turn) = kept else {
            return false;
        };
        let until = turn.until.unwrap_or_else(|| self.counter());
        let since = turn.since;
        match turn.who {
            Some(who) => self.tell(format_args!(
                "ran {cpu} {} {} {since} {until} {number}",
                who >> 8,
                who & 0xff
            )),
            None => self.tell(format_args!("ran {cpu} - - {since} {until} {number}")),
        }
        true
    }
}

/// The number by which a vCPU is known in accounts of turns.
pub(crate) fn who<B: Backend>(unit: &VmUnit<B>, vcpu: VcpuId) -> u16 {
    (unit.vm.id().index() << 8 | vcpu.index()) as u16
}

#[cfg(test)]
mod tests;
