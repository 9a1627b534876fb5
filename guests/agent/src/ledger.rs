//! The vCPUs with the tasks on them: which task is admitted where, and with which interface.
//!
//! A task is tried on the vCPUs in turn, those with most room first, and stays where it is admitted. On each the order
//! of things keeps what is true true: the interface is asked for, it takes effect, then the thread is scheduled. What
//! fails on the way leaves at most an interface that is larger than needed, which is given back later.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::interface::share;
use crate::machine::{Kind, Machine, Thread};
use crate::measure::Estimator;
use crate::request::Declaration;
use crate::settings::Settings;
use crate::task::{Admitted, Client, runtime, times};
use crate::time::show;
use crate::vcpu::{No, Vcpu};
use hanok_schedule::{Error, Interface, Task};

/// The largest number of tasks.
pub const TASKS: usize = 256;
/// A second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// A measured execution time is followed if it differs by more than this, in per cent.
const FOLLOWED: u64 = 5;

/// A declaration whose thread is known.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The connection.
    pub client: Client,
    /// The user who declares.
    pub user: u32,
    /// What is declared.
    pub declaration: Declaration,
    /// Its thread.
    pub thread: Thread,
    /// The instant from which on it is tried again.
    pub after: u64,
    /// The instant at which it is given up.
    pub until: u64,
}

/// How an attempt ended.
#[derive(Debug)]
#[must_use]
pub enum Attempt<T> {
    /// Done.
    Yes(T),
    /// It is refused.
    No(No),
    /// To be tried again from this instant on.
    Later(u64),
}

/// The client that stands for the configuration.
pub const NOBODY: Client = Client(u32::MAX);

/// The vCPUs with the tasks on them.
#[derive(Debug)]
pub struct Ledger<M> {
    /// What the tasks run on.
    pub machine: M,
    /// The configuration.
    pub settings: Settings,
    /// The vCPUs.
    pub vcpus: Vec<Vcpu>,
    /// The tasks, by their numbers.
    pub tasks: BTreeMap<u32, Admitted>,
    next: u32,
}

impl<M: Machine> Ledger<M> {
    /// The vCPUs of the machine, without tasks; an error says which one cannot be looked at.
    pub fn new(mut machine: M, settings: Settings) -> Result<Self, String> {
        let found: Result<Vec<_>, _> = (0..machine.cpus()).map(|cpu| machine.look(cpu)).collect();
        Ok(Self {
            vcpus: found?.into_iter().map(Vcpu::new).collect(),
            machine,
            settings,
            tasks: BTreeMap::new(),
            next: 1,
        })
    }

    /// Admits a task, if a vCPU gets an interface that does.
    pub fn attempt(&mut self, wish: &Wish) -> Attempt<u32> {
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
            Err(Error::Later(after)) => {
                vcpu.not_before = now.saturating_add(after.clamp(1, SECOND * 60));
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
    pub fn shrink(&mut self, cpu: usize, now: u64) {
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
                self.put_off(cpu, now + 10 * SECOND);
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

    /// The tasks on a vCPU, but one.
    pub fn on(&self, cpu: usize, but: Option<u32>) -> Vec<Task> {
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
    pub fn end(&mut self, id: u32) {
        if let Some(task) = self.tasks.remove(&id) {
            self.machine.release(&task.thread);
            self.mark_stale(task.cpu);
        }
    }

    /// Changes a task's execution time to what is measured, if it is admitted so.
    pub fn follow(&mut self, id: u32) {
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
}
