//! What the agent decides: which tasks are admitted, where, and with which interface.
//!
//! A task is tried on the vCPUs in turn, those with most room first, and stays where it is admitted. On each the order
//! of things keeps what is true true: the interface is asked for, it takes effect, then the thread is scheduled. What
//! fails on the way leaves at most an interface that is larger than needed, which is given back later.
//!
//! Hanok lets a vCPU ask only so often. A question that comes too early waits, and so does whoever asked; what is
//! given back waits, too, and is asked once for all that has gone meanwhile.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::interface::share;
use crate::machine::{Kind, Machine, Thread};
use crate::measure::Estimator;
use crate::request::{Declaration, Request};
use crate::settings::Settings;
pub use crate::task::Client;
use crate::task::{Admitted, runtime, times};
use crate::time::show;
use crate::vcpu::{No, Vcpu, loads};
use hanok_schedule::{Error, Interface, Refusal, Task};

/// The largest number of tasks.
pub const TASKS: usize = 256;
/// The largest number of declarations that wait.
pub const WAITING: usize = 64;
/// How often a declaration is tried again while the core is busy with other changes.
const TRIES: u32 = 10;
/// How often the agent looks after threads that are gone, programs that have come, and what they use.
const ROUND: u64 = 1_000_000_000;
/// How often it looks whether a thread that slept has woken.
const LOOK: u64 = 2_000_000;
/// A measured execution time is followed if it differs by more than this, in per cent.
const FOLLOWED: u64 = 5;

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

/// A declaration whose thread is known.
#[derive(Clone, Debug)]
struct Wish {
    client: Client,
    user: u32,
    declaration: Declaration,
    thread: Thread,
    after: u64,
    tries: u32,
}

/// How an attempt ended.
#[derive(Debug)]
#[must_use]
enum Attempt<T> {
    Yes(T),
    No(No),
    /// To be tried again from this instant on.
    Later(u64),
}

/// The agent.
#[derive(Debug)]
pub struct Agent<M> {
    machine: M,
    settings: Settings,
    vcpus: Vec<Vcpu>,
    tasks: BTreeMap<u32, Admitted>,
    next: u32,
    waiting: VecDeque<Wish>,
    /// Programs that the configuration's tasks were refused for.
    refused: Vec<(usize, Thread)>,
    round: u64,
}

/// The client that stands for the configuration.
const NOBODY: Client = Client(u32::MAX);

impl<M: Machine> Agent<M> {
    /// An agent for all vCPUs of the machine; an error says which one cannot be looked at.
    pub fn new(mut machine: M, settings: Settings) -> Result<Self, String> {
        let found: Result<Vec<_>, _> = (0..machine.cpus()).map(|cpu| machine.look(cpu)).collect();
        let mut agent = Self {
            vcpus: found?.into_iter().map(Vcpu::new).collect(),
            machine,
            settings,
            tasks: BTreeMap::new(),
            next: 1,
            waiting: VecDeque::new(),
            refused: Vec::new(),
            round: 0,
        };
        agent.round = agent.machine.now();
        Ok(agent)
    }

    /// The machine.
    pub fn machine(&mut self) -> &mut M {
        &mut self.machine
    }

    /// A vCPU's interface, and the tasks on it.
    pub fn state(&self, cpu: usize) -> Option<(Interface, Vec<Task>)> {
        Some((self.vcpus.get(cpu)?.interface, self.on(cpu, None)))
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
        let gone: Vec<_> = self.tasks.iter().filter_map(of_client).collect();
        gone.into_iter().for_each(|id| self.end(id));
    }

    /// Does what is due: declarations that wait, interfaces that are given back, and every second a look at all
    /// threads. Answers for connections, and the instant at which there is more to do.
    pub fn work(&mut self) -> (Vec<(Client, String)>, u64) {
        let now = self.machine.now();
        if now >= self.round {
            self.round = now + ROUND;
            self.bury();
            self.measure(now);
            self.find_programs();
        }
        let answers = self.retry(now);
        (0..self.vcpus.len()).for_each(|cpu| self.shrink(cpu, now));
        let stale = self.vcpus.iter().filter(|vcpu| vcpu.stale);
        let wake = stale.map(|vcpu| vcpu.not_before);
        let sleeping = self.machine.catch_up().then_some(now + LOOK);
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
        match self.attempt(&wish) {
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
        let thread = self.machine.thread(number);
        let thread =
            thread.ok_or_else(|| No::new("gone", format!("there is no thread {number}")))?;
        if peer.user != 0 && !(self.settings.users.contains(&peer.user) && thread.user == peer.user)
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
            tries: 0,
        })
    }

    fn attempt(&mut self, wish: &Wish) -> Attempt<u32> {
        if self.tasks.len() >= TASKS {
            return Attempt::No(No::new("limit", format!("there are {TASKS} tasks already")));
        }
        if self.tasks.values().any(|task| task.thread == wish.thread) {
            let reason = format!("thread {} is a task already", wish.thread.number);
            return Attempt::No(No::new("invalid", reason));
        }
        let mut later: Option<u64> = None;
        let mut no = None;
        for cpu in self.candidates(wish.declaration.cpu) {
            match self.attempt_on(cpu, wish) {
                Attempt::Yes(id) => return Attempt::Yes(id),
                Attempt::Later(at) => later = Some(later.map_or(at, |other| other.min(at))),
                Attempt::No(why) => no = no.or(Some(why)),
            }
        }
        match (later, no) {
            (Some(at), _) => Attempt::Later(at),
            (None, Some(no)) => Attempt::No(no),
            (None, None) => Attempt::No(No::new("invalid", "there is no such CPU")),
        }
    }

    /// The vCPUs in the order in which they are tried: the one that is left to the rest of Linux last, else those with
    /// most room first.
    fn candidates(&mut self, wanted: Option<usize>) -> Vec<usize> {
        let mut all: Vec<_> = (0..self.vcpus.len()).collect();
        all.retain(|cpu| wanted.is_none_or(|wanted| wanted == *cpu));
        let (machine, tasks) = (&mut self.machine, &self.tasks);
        let mut used = |cpu: usize| {
            let on = tasks.values().filter(|task| task.cpu == cpu);
            let on: Vec<_> = on.map(|task| task.task).collect();
            (machine.is_last(cpu), share(&on))
        };
        all.sort_by_cached_key(|cpu| used(*cpu));
        all
    }

    fn attempt_on(&mut self, cpu: usize, wish: &Wish) -> Attempt<u32> {
        let task = wish.declaration.task;
        let mut all = self.on(cpu, None);
        all.push(task);
        let Some(vcpu) = self.vcpus.get(cpu) else {
            return Attempt::No(No::new("invalid", "there is no such CPU"));
        };
        let wanted = match vcpu.interface_for(&all, &self.settings) {
            Ok(wanted) => wanted,
            Err(no) => return Attempt::No(no),
        };
        if let Err(reason) = self.prepare(cpu) {
            return Attempt::No(No::new("linux", reason));
        }
        match self.ask(cpu, &wanted) {
            Attempt::Yes(()) => {}
            Attempt::No(no) => {
                self.mark_stale(cpu);
                return Attempt::No(no);
            }
            Attempt::Later(at) => return Attempt::Later(at),
        }
        match self.enter(cpu, wish) {
            Ok(id) => Attempt::Yes(id),
            Err(reason) => {
                self.mark_stale(cpu);
                Attempt::No(No::new("linux", reason))
            }
        }
    }

    fn prepare(&mut self, cpu: usize) -> Result<(), String> {
        match self.vcpus.get_mut(cpu) {
            Some(vcpu) if !vcpu.prepared => {
                self.machine.prepare(cpu)?;
                vcpu.prepared = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Schedules the thread, whose interface is there.
    fn enter(&mut self, cpu: usize, wish: &Wish) -> Result<u32, String> {
        let Declaration { task, measured, .. } = wish.declaration;
        let runtime = self.runtime(cpu, &task);
        let times = times(&task, runtime);
        self.machine.schedule(&wish.thread, cpu, &times)?;
        let id = self.next;
        self.next = self.next.checked_add(1).unwrap_or(1);
        let admitted = Admitted {
            name: wish.declaration.name.clone(),
            thread: wish.thread,
            cpu,
            task,
            declared: task.execution,
            runtime,
            client: (!wish.declaration.stays && wish.client != NOBODY).then_some(wish.client),
            user: wish.user,
            measured: (measured || self.settings.measure).then(Estimator::default),
            seen: None,
        };
        self.tasks.insert(id, admitted);
        self.reschedule(cpu);
        Ok(id)
    }

    fn yes(&self, id: u32) -> String {
        match self.tasks.get(&id) {
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
            match self.attempt(&wish) {
                Attempt::Yes(id) => answers.push((wish.client, self.yes(id))),
                Attempt::No(no) => answers.push((wish.client, lines(Err(no)))),
                Attempt::Later(_) if wish.tries >= TRIES => {
                    let no = No::new(
                        "busy",
                        format!("{TRIES} tries were too early or met other changes"),
                    );
                    answers.push((wish.client, lines(Err(no))));
                }
                Attempt::Later(after) => {
                    let tries = wish.tries + 1;
                    self.waiting.push_back(Wish {
                        after,
                        tries,
                        ..wish
                    });
                }
            }
        }
        answers.retain(|(client, _)| *client != NOBODY);
        answers
    }

    // Interfaces.

    /// Asks for an interface, unless the vCPU has it.
    fn ask(&mut self, cpu: usize, wanted: &Interface) -> Attempt<()> {
        let now = self.machine.now();
        let Some(vcpu) = self.vcpus.get_mut(cpu) else {
            return Attempt::No(No::new("invalid", "there is no such CPU"));
        };
        if vcpu.interface == *wanted || vcpu.found.kind != Kind::Asks {
            return Attempt::Yes(());
        }
        if vcpu.not_before > now {
            return Attempt::Later(vcpu.not_before);
        }
        match self.machine.ask(cpu, wanted) {
            Ok(()) => {
                vcpu.interface = *wanted;
                Attempt::Yes(())
            }
            Err(Error::TooOften(after)) => {
                vcpu.not_before = now.saturating_add(after.clamp(1, ROUND * 60));
                Attempt::Later(vcpu.not_before)
            }
            Err(Error::Refused(Refusal::Busy)) => {
                vcpu.not_before = now.saturating_add(vcpu.interface.period.clamp(1, ROUND));
                Attempt::Later(vcpu.not_before)
            }
            Err(error) => {
                let reason = format!(
                    "Hanok says of {} in {}: {error}",
                    show(wanted.budget),
                    show(wanted.period)
                );
                Attempt::No(No::new("refused", reason))
            }
        }
    }

    /// Gives back what a vCPU's tasks do not need any longer.
    fn shrink(&mut self, cpu: usize, now: u64) {
        let all = self.on(cpu, None);
        let Some(vcpu) = self.vcpus.get_mut(cpu) else {
            return;
        };
        if !vcpu.stale || vcpu.not_before > now {
            return;
        }
        // The tasks are fewer than those that the interface was found for.
        let Ok(wanted) = vcpu.interface_for(&all, &self.settings) else {
            vcpu.stale = false;
            return;
        };
        self.reschedule_for(cpu, &wanted, true);
        match self.ask(cpu, &wanted) {
            Attempt::Yes(()) => self.settled(cpu),
            Attempt::Later(_) => {}
            Attempt::No(no) => {
                self.machine.say(&format!(
                    "vCPU {cpu} keeps more than it needs: {}",
                    no.reason
                ));
                self.put_off(cpu, now + 10 * ROUND);
            }
        }
    }

    fn settled(&mut self, cpu: usize) {
        self.reschedule(cpu);
        let empty = !self.tasks.values().any(|task| task.cpu == cpu);
        if let Some(vcpu) = self.vcpus.get_mut(cpu) {
            vcpu.stale = false;
            if empty && vcpu.prepared {
                vcpu.prepared = false;
                self.machine.give_back(cpu);
            }
        }
    }

    fn put_off(&mut self, cpu: usize, until: u64) {
        if let Some(vcpu) = self.vcpus.get_mut(cpu) {
            vcpu.not_before = until;
        }
    }

    fn mark_stale(&mut self, cpu: usize) {
        if let Some(vcpu) = self.vcpus.get_mut(cpu) {
            vcpu.stale = true;
        }
    }

    // Threads.

    /// The tasks on a vCPU, but one.
    fn on(&self, cpu: usize, but: Option<u32>) -> Vec<Task> {
        let all = self.tasks.iter();
        let on = all.filter(|(id, task)| task.cpu == cpu && Some(**id) != but);
        on.map(|(_, task)| task.task).collect()
    }

    fn runtime(&self, cpu: usize, task: &Task) -> u64 {
        let interface = self.vcpus.get(cpu).map(|vcpu| vcpu.interface);
        interface.map_or(task.execution, |interface| {
            runtime(task, &interface, &self.settings)
        })
    }

    /// Gives all threads of a vCPU the runtimes that they need with the interface that it has.
    fn reschedule(&mut self, cpu: usize) {
        if let Some(interface) = self.vcpus.get(cpu).map(|vcpu| vcpu.interface) {
            self.reschedule_for(cpu, &interface, false);
        }
    }

    /// Gives all threads of a vCPU the runtimes that they need with `interface`; or only those that need more.
    fn reschedule_for(&mut self, cpu: usize, interface: &Interface, only_more: bool) {
        for admitted in self.tasks.values_mut().filter(|task| task.cpu == cpu) {
            let wanted = runtime(&admitted.task, interface, &self.settings);
            if wanted == admitted.runtime || only_more && wanted < admitted.runtime {
                continue;
            }
            let times = times(&admitted.task, wanted);
            match self.machine.schedule(&admitted.thread, cpu, &times) {
                Ok(()) => admitted.runtime = wanted,
                Err(reason) => {
                    let number = admitted.thread.number;
                    self.machine
                        .say(&format!("thread {number} keeps its runtime: {reason}"));
                }
            }
        }
    }

    /// Ends a task: its thread is scheduled as usual, and what it needed is given back.
    fn end(&mut self, id: u32) {
        if let Some(task) = self.tasks.remove(&id) {
            self.machine.release(&task.thread);
            self.mark_stale(task.cpu);
        }
    }

    /// Ends the tasks of threads that are gone.
    fn bury(&mut self) {
        let Self {
            machine,
            tasks,
            refused,
            ..
        } = self;
        let mut is_gone = |thread: &Thread| {
            machine.thread(thread.number).map(|found| found.start) != Some(thread.start)
        };
        let gone = tasks.iter().filter(|(_, task)| is_gone(&task.thread));
        let gone: Vec<_> = gone.map(|(id, _)| *id).collect();
        refused.retain(|(_, thread)| !is_gone(thread));
        gone.into_iter().for_each(|id| self.end(id));
    }

    /// Declares the configuration's tasks for programs that have come.
    fn find_programs(&mut self) {
        for number in 0..self.settings.rules.len() {
            let Some(rule) = self.settings.rules.get(number).cloned() else {
                continue;
            };
            for program in self.machine.programs(&rule.command) {
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
        let known = self.tasks.values().any(|task| task.thread == wish.thread);
        let waits = self.waiting.iter().any(|other| other.thread == wish.thread);
        if known || waits || self.refused.contains(&(rule, wish.thread)) {
            return;
        }
        match self.attempt(&wish) {
            Attempt::Yes(_) => {}
            Attempt::Later(after) => self.waiting.push_back(Wish { after, ..wish }),
            Attempt::No(no) => {
                self.machine
                    .say(&format!("{} ({program}): {}", declaration.name, no.reason));
                self.refused.push((rule, wish.thread));
            }
        }
    }

    // Measuring.

    fn measure(&mut self, now: u64) {
        let measured = self
            .tasks
            .iter()
            .filter(|(_, task)| task.measured.is_some());
        let measured: Vec<_> = measured.map(|(id, _)| *id).collect();
        for id in measured {
            if let Some(task) = self.tasks.get_mut(&id)
                && let Some(used) = self.machine.used(&task.thread)
            {
                task.sample(now, used);
            }
            self.follow(id);
        }
    }

    /// Changes a task's execution time to what is measured, if it is admitted so.
    fn follow(&mut self, id: u32) {
        let Some(task) = self.tasks.get(&id) else {
            return;
        };
        let Some(measured) = &task.measured else {
            return;
        };
        let most = task.task.deadline;
        let wanted = measured
            .estimate(task.declared, self.settings.margin)
            .min(most);
        let has = task.task.execution;
        if wanted.abs_diff(has).saturating_mul(100) <= has.saturating_mul(FOLLOWED) {
            return;
        }
        let (cpu, changed) = (
            task.cpu,
            Task {
                execution: wanted,
                ..task.task
            },
        );
        if wanted < has || self.grow(id, cpu, changed) {
            if let Some(task) = self.tasks.get_mut(&id) {
                task.task = changed;
            }
            self.reschedule(cpu);
            self.mark_stale(cpu);
        }
    }

    /// Whether the vCPU has got the interface with which a task can be this one.
    fn grow(&mut self, id: u32, cpu: usize, changed: Task) -> bool {
        let mut all = self.on(cpu, Some(id));
        all.push(changed);
        let wanted = self
            .vcpus
            .get(cpu)
            .map(|vcpu| vcpu.interface_for(&all, &self.settings));
        match wanted {
            Some(Ok(wanted)) => matches!(self.ask(cpu, &wanted), Attempt::Yes(())),
            _ => false,
        }
    }

    // Answers.

    /// The task, if the peer may change it.
    fn own(&mut self, peer: Peer, id: u32) -> Result<&mut Admitted, No> {
        let found = self
            .tasks
            .get_mut(&id)
            .filter(|task| peer.user == 0 || peer.user == task.user);
        found.ok_or_else(|| No::new("invalid", format!("there is no task {id} of yours")))
    }

    fn revoke(&mut self, peer: Peer, id: u32) -> Result<String, No> {
        self.own(peer, id)?;
        self.end(id);
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
        let lines = self.tasks.iter().map(|(id, task)| task.line(*id));
        lines.collect()
    }

    fn status(&mut self) -> String {
        let mut text = String::new();
        for (cpu, vcpu) in self.vcpus.iter().enumerate() {
            let kind = match vcpu.found.kind {
                Kind::Whole => "whole",
                Kind::Fixed => "fixed",
                Kind::Asks => "asks",
                Kind::Unpromised => "unpromised",
            };
            let on: Vec<_> = self
                .tasks
                .values()
                .filter(|task| task.cpu == cpu)
                .map(|task| task.task)
                .collect();
            let needed = if on.is_empty() {
                0
            } else {
                share(&loads(&on, &self.settings))
            };
            let [budget, period] = [vcpu.interface.budget, vcpu.interface.period].map(show);
            text += &format!(
                "vcpu number={cpu} kind={kind} budget={budget} period={period} tasks={}",
                on.len()
            );
            text += &format!(" needed={}.{}%", needed / 10, needed % 10);
            if let Some(usage) = self.machine.usage(cpu) {
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
