//! The agent: answers requests, and looks after the tasks that the ledger has.
//!
//! Hanok lets a vCPU ask only so often. A question that comes too early waits, and so does whoever asked; what is
//! given back waits, too, and is asked once for all that has gone meanwhile.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::interface::share;
use crate::ledger::{Attempt, Ledger, NOBODY, Wish};
use crate::machine::{Kind, Machine, Thread};
use crate::request::{Declaration, Request};
use crate::settings::Settings;
use crate::task::{Admitted, Client};
use crate::time::show;
use crate::vcpu::{No, loads};
use hanok_schedule::{Interface, Task};

/// The largest number of declarations that wait.
pub const WAITING: usize = 64;
/// For how long a declaration is tried again while the core is busy with other changes.
const PATIENCE: u64 = 10_000_000_000;
/// How often the agent looks after threads that are gone, programs that have come, and what they use.
const ROUND: u64 = 1_000_000_000;
/// How often it looks whether a thread that slept has woken.
const LOOK: u64 = 2_000_000;

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process.
    pub process: i32,
    /// Its user.
    pub user: u32,
}

/// What a line is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// These lines.
    Now(String),
    /// Nothing yet: the answer comes by [`Agent::work`].
    Later,
}

/// The agent.
#[derive(Debug)]
pub struct Agent<M> {
    ledger: Ledger<M>,
    waiting: VecDeque<Wish>,
    /// Programs that the configuration's tasks were refused for.
    refused: Vec<(usize, Thread)>,
    round: u64,
}

impl<M: Machine> Agent<M> {
    /// An agent for all vCPUs of the machine; an error says which one cannot be looked at.
    pub fn new(machine: M, settings: Settings) -> Result<Self, String> {
        let mut ledger = Ledger::new(machine, settings)?;
        Ok(Self {
            round: ledger.machine.now(),
            ledger,
            waiting: VecDeque::new(),
            refused: Vec::new(),
        })
    }

    /// The machine.
    pub fn machine(&mut self) -> &mut M {
        &mut self.ledger.machine
    }

    /// A vCPU's interface, and the tasks on it.
    pub fn state(&self, cpu: usize) -> Option<(Interface, Vec<Task>)> {
        Some((
            self.ledger.vcpus.get(cpu)?.interface,
            self.ledger.on(cpu, None),
        ))
    }

    /// Answers a line.
    pub fn line(&mut self, client: Client, peer: Peer, line: &[u8]) -> Reply {
        let answer = match Request::parse(line) {
            Err(reason) => Err(No::new("invalid", reason)),
            Ok(Request::Declare(declaration)) => return self.declare(client, peer, declaration),
            Ok(Request::Revoke(id)) => self.revoke(peer, id),
            Ok(Request::Used(id, longest)) => self.told(peer, id, longest),
            Ok(Request::List) => Ok(self.list()),
            Ok(Request::Status) => Ok(self.status()),
        };
        Reply::Now(lines(answer))
    }

    /// Takes back all that belongs to a connection that is closed.
    pub fn closed(&mut self, client: Client) {
        self.waiting.retain(|wish| wish.client != client);
        let of_client =
            |(id, task): (&u32, &Admitted)| (task.client == Some(client)).then_some(*id);
        let gone: Vec<_> = self.ledger.tasks.iter().filter_map(of_client).collect();
        gone.into_iter().for_each(|id| self.ledger.end(id));
    }

    /// Does what is due: declarations that wait, interfaces that are given back, and every second a look at all
    /// threads. Answers for connections, and the instant at which there is more to do.
    pub fn work(&mut self) -> (Vec<(Client, String)>, u64) {
        let now = self.ledger.machine.now();
        if now >= self.round {
            self.round = now + ROUND;
            self.bury();
            self.measure(now);
            self.find_programs();
        }
        let answers = self.retry(now);
        (0..self.ledger.vcpus.len()).for_each(|cpu| self.ledger.shrink(cpu, now));
        let stale = self.ledger.vcpus.iter().filter(|vcpu| vcpu.stale);
        let wake = stale.map(|vcpu| vcpu.not_before);
        let sleeping = self.ledger.machine.catch_up().then_some(now + LOOK);
        let wake = wake.chain(sleeping);
        let wake = wake.chain(self.waiting.iter().map(|wish| wish.after));
        (
            answers,
            wake.chain([self.round]).min().unwrap_or(self.round),
        )
    }

    // Declarations.

    fn declare(&mut self, client: Client, peer: Peer, declaration: Declaration) -> Reply {
        let wish = match self.wish(client, peer, declaration) {
            Ok(wish) => wish,
            Err(no) => return Reply::Now(lines(Err(no))),
        };
        match self.ledger.attempt(&wish) {
            Attempt::Yes(id) => Reply::Now(self.yes(id)),
            Attempt::No(no) => Reply::Now(lines(Err(no))),
            Attempt::Later(_) if self.waiting.len() >= WAITING => {
                let reason = "too many declarations wait until Hanok takes questions again";
                Reply::Now(lines(Err(No::new("busy", reason))))
            }
            Attempt::Later(after) => {
                self.waiting.push_back(Wish { after, ..wish });
                Reply::Later
            }
        }
    }

    /// Checks who declares which thread.
    fn wish(&mut self, client: Client, peer: Peer, declaration: Declaration) -> Result<Wish, No> {
        let number = declaration.thread.unwrap_or(peer.process);
        let thread = self.ledger.machine.thread(number);
        let thread =
            thread.ok_or_else(|| No::new("gone", format!("there is no thread {number}")))?;
        if peer.user != 0
            && !(self.ledger.settings.users.contains(&peer.user) && thread.user == peer.user)
        {
            let reason =
                "only root, and the configuration's users for their own threads, may declare tasks";
            return Err(No::new("denied", reason));
        }
        Ok(Wish {
            client,
            user: peer.user,
            declaration,
            thread,
            after: 0,
            until: self.ledger.machine.now().saturating_add(PATIENCE),
        })
    }

    fn yes(&self, id: u32) -> String {
        match self.ledger.tasks.get(&id) {
            Some(task) => format!("yes id={id} cpu={} runtime={}\n", task.cpu, task.runtime),
            None => "no gone: the task is gone\n".to_string(),
        }
    }

    /// Tries what waits, the first ones first.
    fn retry(&mut self, now: u64) -> Vec<(Client, String)> {
        let mut answers = Vec::new();
        for _ in 0..self.waiting.len() {
            let Some(wish) = self.waiting.pop_front() else {
                break;
            };
            if wish.after > now {
                self.waiting.push_back(wish);
                continue;
            }
            match self.ledger.attempt(&wish) {
                Attempt::Yes(id) => answers.push((wish.client, self.yes(id))),
                Attempt::No(no) => answers.push((wish.client, lines(Err(no)))),
                Attempt::Later(_) if wish.until <= now => {
                    let no = No::new("busy", "the core was busy with other changes for too long");
                    answers.push((wish.client, lines(Err(no))));
                }
                Attempt::Later(after) => self.waiting.push_back(Wish { after, ..wish }),
            }
        }
        answers.retain(|(client, _)| *client != NOBODY);
        answers
    }

    /// Ends the tasks of threads that are gone.
    fn bury(&mut self) {
        let Ledger { machine, tasks, .. } = &mut self.ledger;
        let mut is_gone = |thread: &Thread| {
            machine.thread(thread.number).map(|found| found.start) != Some(thread.start)
        };
        let gone = tasks.iter().filter(|(_, task)| is_gone(&task.thread));
        let gone: Vec<_> = gone.map(|(id, _)| *id).collect();
        self.refused.retain(|(_, thread)| !is_gone(thread));
        gone.into_iter().for_each(|id| self.ledger.end(id));
    }

    /// Declares the configuration's tasks for programs that have come.
    fn find_programs(&mut self) {
        for number in 0..self.ledger.settings.rules.len() {
            let Some(rule) = self.ledger.settings.rules.get(number).cloned() else {
                continue;
            };
            for program in self.ledger.machine.programs(&rule.command) {
                self.found_program(number, program, &rule.declaration);
            }
        }
    }

    fn found_program(&mut self, rule: usize, program: i32, declaration: &Declaration) {
        let root = Peer {
            process: program,
            user: 0,
        };
        let Ok(wish) = self.wish(NOBODY, root, declaration.clone()) else {
            return;
        };
        let known = self
            .ledger
            .tasks
            .values()
            .any(|task| task.thread == wish.thread);
        let waits = self.waiting.iter().any(|other| other.thread == wish.thread);
        if known || waits || self.refused.contains(&(rule, wish.thread)) {
            return;
        }
        match self.ledger.attempt(&wish) {
            Attempt::Yes(_) => {}
            Attempt::Later(after) => self.waiting.push_back(Wish { after, ..wish }),
            Attempt::No(no) => {
                self.ledger
                    .machine
                    .say(&format!("{} ({program}): {}", declaration.name, no.reason));
                self.refused.push((rule, wish.thread));
            }
        }
    }

    // Measuring.

    fn measure(&mut self, now: u64) {
        let measured = self
            .ledger
            .tasks
            .iter()
            .filter(|(_, task)| task.measured.is_some());
        let measured: Vec<_> = measured.map(|(id, _)| *id).collect();
        for id in measured {
            if let Some(task) = self.ledger.tasks.get_mut(&id)
                && let Some(used) = self.ledger.machine.used(&task.thread)
            {
                task.sample(now, used);
            }
            self.ledger.follow(id);
        }
    }

    // Answers.

    /// The task, if the peer may change it.
    fn own(&mut self, peer: Peer, id: u32) -> Result<&mut Admitted, No> {
        let found = self
            .ledger
            .tasks
            .get_mut(&id)
            .filter(|task| peer.user == 0 || peer.user == task.user);
        found.ok_or_else(|| No::new("invalid", format!("there is no task {id} of yours")))
    }

    fn revoke(&mut self, peer: Peer, id: u32) -> Result<String, No> {
        self.own(peer, id)?;
        self.ledger.end(id);
        Ok(String::new())
    }

    fn told(&mut self, peer: Peer, id: u32, longest: u64) -> Result<String, No> {
        let task = self.own(peer, id)?;
        if let Some(measured) = &mut task.measured {
            measured.add(longest);
        }
        Ok(String::new())
    }

    fn list(&self) -> String {
        let lines = self.ledger.tasks.iter().map(|(id, task)| task.line(*id));
        lines.collect()
    }

    fn status(&mut self) -> String {
        let mut text = String::new();
        for (cpu, vcpu) in self.ledger.vcpus.iter().enumerate() {
            let kind = match vcpu.found.kind {
                Kind::Whole => "whole",
                Kind::Fixed => "fixed",
                Kind::Asks => "asks",
                Kind::Unpromised => "unpromised",
            };
            let on: Vec<_> = self
                .ledger
                .tasks
                .values()
                .filter(|task| task.cpu == cpu)
                .map(|task| task.task)
                .collect();
            let needed = if on.is_empty() {
                0
            } else {
                share(&loads(&on, &self.ledger.settings))
            };
            let [budget, period] = [vcpu.interface.budget, vcpu.interface.period].map(show);
            text += &format!(
                "vcpu number={cpu} kind={kind} budget={budget} period={period} tasks={}",
                on.len()
            );
            text += &format!(" needed={}.{}%", needed / 10, needed % 10);
            if let Some(usage) = self.ledger.machine.usage(cpu) {
                let [used, extra, stolen] = [usage.used, usage.extra, usage.stolen].map(show);
                text += &format!(
                    " used={used} extra={extra} throttled={} stolen={stolen}",
                    usage.throttled
                );
            }
            text.push('\n');
        }
        text
    }
}

/// An answer's lines: those before the last one, which begins with yes or no.
fn lines(answer: Result<String, No>) -> String {
    match answer {
        Ok(before) => before + "yes\n",
        Err(no) => format!("no {}: {}\n", no.kind, no.reason),
    }
}
