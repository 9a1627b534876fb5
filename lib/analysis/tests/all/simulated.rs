//! Runs what is admitted, instant by instant, on a scheduler that is simple enough to be read.
//!
//! It knows the model and the certificate's interfaces and placement, and nothing of the tests.
//! Servers have their whole budget from the start of each period and use it up whether or not there
//! is work, which is the worst for the others. Tasks arrive at random times, with random jitter,
//! never sooner than allowed. A deadline missed here would be a fault of the analysis.

use crate::common::{Random, random};
use hanok_analysis::analyse;
use hanok_task_model::{
    Certificate, ComponentId, Home, Member, Model, Nanos, Policy, ResourceInterface, Vcpu,
};
use std::collections::BTreeMap;

/// A released job.
struct Job {
    task: usize,
    left: u64,
    due: u64,
}

/// One CPU of a component's server.
struct Server {
    interface: ResourceInterface,
    budget: u64,
    left: u64,
}

impl Server {
    fn due(&self, now: u64) -> u64 {
        let period = self.interface.period.get();
        now / period * period + self.interface.deadline.get()
    }
}

struct Machine<'a> {
    model: &'a Model,
    certificate: &'a Certificate,
    members: Vec<Vec<Member>>,
    servers: BTreeMap<Vcpu, Server>,
    jobs: Vec<Job>,
    /// For each task, when the next job arrives, and when an arrived job is released.
    arrivals: Vec<u64>,
    releases: Vec<(u64, u64, usize)>,
}

fn first(component: ComponentId) -> Vcpu {
    Vcpu { component, cpu: 0 }
}

impl<'a> Machine<'a> {
    fn new(model: &'a Model, certificate: &'a Certificate, random: &mut Random) -> Self {
        let mut servers = BTreeMap::new();
        for proof in &certificate.components {
            let (component, interface) = (proof.component, proof.interface);
            let cpus = model.component(component).unwrap().cpus;
            for cpu in 0..cpus {
                let budget = interface.share(model.tick, cpu, cpus).get();
                let server = Server {
                    interface,
                    budget,
                    left: 0,
                };
                servers.insert(Vcpu { component, cpu }, server);
            }
        }
        let arrivals = model.tasks.iter().map(|_| random.below(500)).collect();
        Self {
            model,
            certificate,
            members: model.members(),
            servers,
            jobs: Vec::new(),
            arrivals,
            releases: Vec::new(),
        }
    }

    /// Runs the instant from `now` to `now + 1`; returns the task that missed its deadline, if one
    /// did.
    fn step(&mut self, now: u64, random: &mut Random) -> Option<usize> {
        self.arrive(now, random);
        for server in self.servers.values_mut() {
            if now.is_multiple_of(server.interface.period.get()) {
                server.left = server.budget;
            }
        }
        let mut parallel: BTreeMap<ComponentId, usize> = BTreeMap::new();
        for core in &self.certificate.cores {
            let policy = self.model.pool(core.pool).unwrap().policy;
            let mut ready: Vec<Vcpu> = core.vcpus.clone();
            ready.retain(|vcpu| self.servers[vcpu].left > 0);
            ready.sort_by_key(|vcpu| self.rank(policy, *vcpu, now));
            for vcpu in ready.into_iter().take(core.cores.len()) {
                self.servers.get_mut(&vcpu).unwrap().left -= 1;
                match self.model.component(vcpu.component).unwrap().cpus {
                    1 => self.run(vcpu.component, now),
                    _ => *parallel.entry(vcpu.component).or_default() += 1,
                }
            }
        }
        for (component, cpus) in parallel {
            self.spread(component, cpus);
        }
        self.jobs.retain(|job| job.left > 0);
        self.jobs
            .iter()
            .find(|job| job.due <= now + 1)
            .map(|job| job.task)
    }

    fn arrive(&mut self, now: u64, random: &mut Random) {
        for (index, task) in self.model.tasks.iter().enumerate() {
            if self.arrivals[index] == now {
                let held = random.pick(&[0, task.jitter.get()]);
                self.releases
                    .push((now + held, now + task.deadline.get(), index));
                let later = random.pick(&[0, 0, 0, random.0 % 50]);
                self.arrivals[index] = now + task.period.get() + later;
            }
        }
        let released = self.releases.iter().filter(|(at, _, _)| *at == now);
        self.jobs.extend(released.map(|(_, due, task)| Job {
            task: *task,
            left: self.model.tasks[*task].execution.get(),
            due: *due,
        }));
        self.releases.retain(|(at, _, _)| *at > now);
    }

    fn rank(&self, policy: Policy, vcpu: Vcpu, now: u64) -> u64 {
        let server = &self.servers[&vcpu];
        match policy {
            Policy::Edf => server.due(now),
            Policy::RateMonotonic => server.interface.period.get(),
            _ => server.interface.deadline.get(),
        }
    }

    /// Gives one instant to the first member of `component`, down the tree.
    fn run(&mut self, component: ComponentId, now: u64) {
        let policy = self.model.component(component).unwrap().policy;
        let key = |member: &Member| match member {
            Member::Component(id) => {
                let has = self.servers[&first(*id)].left > 0;
                has.then(|| self.rank(policy, first(*id), now))
            }
            Member::Task(id) => {
                let task = &self.model.tasks[id.0 as usize];
                let own = self
                    .jobs
                    .iter()
                    .filter(|job| job.task == id.0 as usize && job.left > 0);
                let due = own.map(|job| job.due).min()?;
                Some(match policy {
                    Policy::Edf => due,
                    Policy::RateMonotonic => task.period.get(),
                    _ => task.deadline.get(),
                })
            }
        };
        let members = &self.members[component.0 as usize];
        let ranked = members
            .iter()
            .filter_map(|member| Some((key(member)?, *member)));
        match ranked.min_by_key(|(rank, _)| *rank) {
            Some((_, Member::Component(inner))) => {
                self.servers.get_mut(&first(inner)).unwrap().left -= 1;
                self.run(inner, now);
            }
            Some((_, Member::Task(id))) => {
                let own = self
                    .jobs
                    .iter_mut()
                    .filter(|job| job.task == id.0 as usize && job.left > 0);
                own.min_by_key(|job| job.due).unwrap().left -= 1;
            }
            None => {}
        }
    }

    /// Gives one instant to as many jobs of `component` as it has CPUs now, the most urgent first.
    fn spread(&mut self, component: ComponentId, cpus: usize) {
        let model = self.model;
        let own = |job: &&mut Job| model.tasks[job.task].component == component;
        let mut jobs: Vec<&mut Job> = self.jobs.iter_mut().filter(own).collect();
        jobs.sort_by_key(|job| job.due);
        for job in jobs.into_iter().take(cpus) {
            job.left -= 1;
        }
    }
}

#[test]
fn nothing_admitted_is_missed() {
    let mut random_ = Random(0x51f0_17a7e);
    let (mut runs, mut grouped, mut aligned, mut parallel) = (0, 0, 0, 0);
    while runs < 250 {
        let mut model = random(&mut random_);
        // Ticks of one instant; the switching costs are not run, so that nothing is to spare.
        model.cost = Default::default();
        let load = random_.pick(&[1, 2, 3, 4]);
        for task in &mut model.tasks {
            task.execution = Nanos::new(task.execution.get() * load);
        }
        let Some(certificate) = analyse(&model).unwrap().certificate() else {
            continue;
        };
        runs += 1;
        grouped += usize::from(
            model
                .components
                .iter()
                .any(|c| matches!(c.home, Home::Component(_))),
        );
        aligned += usize::from(certificate.components.iter().any(|proof| proof.aligned));
        parallel += usize::from(model.components.iter().any(|c| c.cpus > 1));
        let mut machine = Machine::new(&model, &certificate, &mut random_);
        for now in 0..12_000 {
            if let Some(task) = machine.step(now, &mut random_) {
                panic!("task {task} misses at {now}: {model:#?} {certificate:#?}");
            }
        }
    }
    assert!(
        grouped > 30 && aligned > 20 && parallel > 20,
        "{grouped} {aligned} {parallel}"
    );
}

/// The simulation detects a miss: with a budget that the certificate does not have, it reports one.
#[test]
fn a_budget_below_the_least_is_missed() {
    let mut random_ = Random(0xdead);
    let (mut missed, mut runs) = (0, 0);
    while runs < 60 {
        let mut model = random(&mut random_);
        model.cost = Default::default();
        let Some(mut certificate) = analyse(&model).unwrap().certificate() else {
            continue;
        };
        runs += 1;
        for proof in &mut certificate.components {
            let budget = proof.interface.budget.get();
            proof.interface.budget = Nanos::new((budget / 2).max(1));
        }
        let mut machine = Machine::new(&model, &certificate, &mut random_);
        missed += usize::from((0..12_000).any(|now| machine.step(now, &mut random_).is_some()));
    }
    assert!(missed > 30, "{missed} of {runs}");
}
