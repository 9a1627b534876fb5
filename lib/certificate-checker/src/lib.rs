//! Verifies certificates of the analysis.
//!
//! Only the model's data is shared with the analysis. The analysis is fast and therefore intricate:
//! it has scaled integers, fixed-point rates and searches. This program is plain and slow: it has
//! demand and supply as the literature defines them, in rationals of any size, and compares each
//! claim with its definition. It searches for nothing, so that its work is bounded by the
//! certificate's length.
//!
//! Each type of a proof, in hanok-task-model, says what the proof must show. Where a proof could be
//! written in several ways, only one is accepted.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bounds;
mod cores;
#[cfg(test)]
mod counted;
mod descent;
#[cfg(test)]
mod forged;
mod global;
mod proofs;
mod servers;
#[cfg(test)]
mod small_global;
#[cfg(test)]
mod small_proofs;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bounds::{Job, R, Supply, Z, int, nanos, of_time};
use hanok_task_model::{
    Against, Certificate, Component, ComponentId, ComponentProof, Exact, Member, Model, Nanos,
    Plan, Policy, PoolId, Proof, ResourceInterface, Server, Window,
};
use num_integer::Integer;
use thiserror::Error;

/// Why a certificate is not believed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {fault}")]
pub struct Rejection {
    /// The part of the model that the rejection is about.
    pub place: CheckedPart,
    /// What is wrong with the certificate.
    pub fault: Fault,
}

/// The part of a model that a rejection is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CheckedPart {
    /// The certificate as a whole.
    #[error("the certificate")]
    Whole,
    /// A component.
    #[error("component {0:?}")]
    Component(ComponentId),
    /// The cores of a pool.
    #[error("pool {0:?}")]
    Pool(PoolId),
}

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The model itself is not valid.
    #[error("the model is not sound")]
    Model,
    /// A component or core is missing, occurs twice, or comes before something it depends on.
    #[error("components or cores are missing, twice or out of order")]
    Incomplete,
    /// An interface is not one that the model asks for.
    #[error("the interface is not what the model asks for")]
    Interface,
    /// The certificate says that the supply begins with the members' periods, and it does not, or
    /// the reverse.
    #[error("the supply's start is not the members'")]
    Aligned,
    /// The analysis of such a server in its place is not proven.
    #[error("nothing is known of a server of this kind where it is")]
    Server,
    /// A proof is not of the kind that the policy needs.
    #[error("the proof is of another kind")]
    Kind,
    /// A proof does not have one part for each member.
    #[error("the proof does not cover each member once")]
    Members,
    /// A descent's instants do not follow from each other.
    #[error("an instant does not follow from the one before")]
    Step,
    /// A descent's first instant is not valid, or is too early for its claim about the rest.
    #[error("what comes after the first instant is not shown")]
    Tail,
    /// A job is not complete when the proof says.
    #[error("a job is not complete when it is said to be")]
    Late,
    /// The proof that a smaller budget is too little does not hold.
    #[error("a smaller budget is not shown to be too small")]
    Least,
    /// A vCPU is on a core that it may not be on.
    #[error("a vCPU is where it may not be, twice or nowhere")]
    Placement,
}

/// Checks that `certificate` proves that every deadline of `model` is kept.
pub fn check(model: &Model, certificate: &Certificate) -> Result<(), Rejection> {
    let of_time = |fault| Rejection {
        place: CheckedPart::Whole,
        fault,
    };
    model.validate().map_err(|_| of_time(Fault::Model))?;
    let mut interfaces = BTreeMap::new();
    let members = model.members();
    for proof in &certificate.components {
        let id = proof.component;
        let place = CheckedPart::Component(id);
        let inside = members.get(id.0 as usize).map_or(&[][..], Vec::as_slice);
        component(model, proof, inside, &interfaces).map_err(|fault| Rejection { place, fault })?;
        if interfaces.insert(id, proof.interface).is_some() {
            let fault = Fault::Incomplete;
            return Err(Rejection { place, fault });
        }
    }
    if interfaces.len() != model.components.len() {
        return Err(of_time(Fault::Incomplete));
    }
    cores::check(model, &certificate.cores, &interfaces)
}

/// The interfaces of the components that were checked already.
type Interfaces = BTreeMap<ComponentId, ResourceInterface>;

fn component(
    model: &Model,
    proof: &ComponentProof,
    inside: &[Member],
    interfaces: &Interfaces,
) -> Result<(), Fault> {
    let component = model.component(proof.component).ok_or(Fault::Incomplete)?;
    let jobs = jobs(model, component, inside, interfaces)?;
    planned(model, component, &proof.interface)?;
    servers::known(model, component, &jobs, &proof.interface)?;
    let together = component.server == Server::Periodic && together(&jobs, &proof.interface);
    if proof.aligned != together || component.cpus > 1 && proof.aligned {
        return Err(Fault::Aligned);
    }
    let payment = servers::payment(model, component);
    let question = Question {
        model,
        component,
        for_wakes: servers::for_wakes(&payment, &jobs, &proof.interface),
        payment,
        jobs,
        aligned: proof.aligned,
    };
    question.proof(&proof.interface, &proof.proof)?;
    let Plan::Find { window, .. } = component.plan else {
        let longest = matches!(component.plan, Plan::Longest { .. });
        return match (&proof.least, &proof.exact) {
            (None, None) => Ok(()),
            (Some(against), None) if longest => question.longest(&proof.interface, against),
            _ => Err(Fault::Least),
        };
    };
    if component.cpus > 1 && (proof.least.is_some() || proof.exact.is_some()) {
        return Err(Fault::Least);
    }
    if let Some(against) = &proof.least {
        question.least(&proof.interface, window, against)?;
    }
    match &proof.exact {
        Some(exact) => question.exact(proof.interface, window, exact),
        None => Ok(()),
    }
}

/// The members of a component as jobs: tasks first, then components, sorted by rank if the policy
/// has ranks.
fn jobs(
    model: &Model,
    component: &Component,
    inside: &[Member],
    interfaces: &Interfaces,
) -> Result<Vec<Job>, Fault> {
    let mut jobs = Vec::new();
    for member in inside {
        match member {
            Member::Task(id) => {
                let task = model.task(*id).ok_or(Fault::Incomplete)?;
                jobs.push(Job::of_task(id.0, task));
            }
            Member::Component(id) => {
                let inner = model.component(*id).ok_or(Fault::Incomplete)?;
                let interface = interfaces.get(id).ok_or(Fault::Incomplete)?;
                let budget = interface.budget;
                let policy = component.policy;
                let inner = (*id, inner);
                jobs.push(Job::of_interface(model, inner, policy, interface, budget));
            }
        }
    }
    // Beside components, a job of a task costs a switch to it and back, as a component does.
    if jobs.iter().any(Job::is_component) {
        for job in jobs.iter_mut().filter(|job| !job.is_component()) {
            job.execution += nanos(model.cost.per_period());
        }
    }
    rank(&mut jobs, component.policy);
    Ok(jobs)
}

fn rank(jobs: &mut [Job], policy: Policy) {
    jobs.sort_by(|a, b| match policy {
        Policy::Edf => core::cmp::Ordering::Equal,
        Policy::RateMonotonic => a.period.cmp(&b.period),
        Policy::DeadlineMonotonic => a.deadline.cmp(&b.deadline),
        Policy::FixedPriority => a.priority.cmp(&b.priority),
    });
}

/// Whether all of a component's members are periodic servers, and each of their periods begins with
/// one of its own.
fn together(jobs: &[Job], interface: &ResourceInterface) -> bool {
    let of_time = |job: &Job| job.period.is_multiple_of(&nanos(interface.period));
    let inner = |job: &Job| job.periodic && of_time(job);
    !jobs.is_empty() && jobs.iter().all(inner)
}

/// Checks that an interface is one that the model asks for.
fn planned(
    model: &Model,
    component: &Component,
    interface: &ResourceInterface,
) -> Result<(), Fault> {
    let (period, budget, deadline) = (interface.period, interface.budget, interface.deadline);
    let (periods, window) = match component.plan {
        Plan::Given(given) if given == *interface => return Ok(()),
        Plan::Given(_) => return Err(Fault::Interface),
        Plan::Find { periods, window } => (periods, window),
        Plan::Longest {
            period: asked,
            budget: given,
        } => {
            let same = period == asked && budget == given;
            let fits = deadline >= budget && deadline <= period && deadline.is_whole(model.tick);
            return if same && fits && component.cpus == 1 {
                Ok(())
            } else {
                Err(Fault::Interface)
            };
        }
    };
    let (least, most) = match periods {
        hanok_task_model::Periods::One(period) => (period, period),
        hanok_task_model::Periods::Range { least, most } => (least, most),
    };
    let cpus = u128::from(component.cpus);
    let all = u128::from(period.get()) * cpus;
    let in_ticks = [period, budget, deadline]
        .iter()
        .all(|time| time.is_whole(model.tick) && !time.is_zero());
    let tight = budget.saturating_add(cost(model));
    let fits = match window {
        Window::Period => deadline == period,
        Window::Budget => deadline == tight,
        Window::Longest => deadline >= tight,
    };
    let sound = (least..=most).contains(&period)
        && in_ticks
        && u128::from(budget.get()) <= all
        && deadline <= period
        && fits;
    if sound { Ok(()) } else { Err(Fault::Interface) }
}

/// The cost of switching in a period, in whole ticks.
fn cost(model: &Model) -> Nanos {
    let (cost, tick) = (model.cost.per_period().get(), model.tick.get());
    Nanos::new(cost.div_ceil(tick).saturating_mul(tick))
}

/// A component's members, and what is asked about them.
struct Question<'a> {
    model: &'a Model,
    component: &'a Component,
    jobs: Vec<Job>,
    aligned: bool,
    /// What the component pays each time for the switches to it and back, and for the wakes of a period.
    payment: Z,
    for_wakes: Z,
}

impl Question<'_> {
    fn supply(&self, period: R, budget: R, deadline: R) -> Supply {
        Supply {
            period,
            budget: budget - R::from_integer(self.payment.clone()),
            deadline,
            cpus: int(self.component.cpus.into()),
            aligned: self.aligned,
            loses: self.component.server == Server::Polling,
            later: R::from_integer(self.for_wakes.clone()),
        }
    }

    /// Checks that `proof` shows that `interface` suffices.
    fn proof(&self, interface: &ResourceInterface, proof: &Proof) -> Result<(), Fault> {
        let supply = self.supply(
            of_time(interface.period),
            of_time(interface.budget),
            of_time(interface.deadline),
        );
        let cpus = self.component.cpus;
        proofs::check(&self.jobs, self.component.policy, cpus, &supply, proof)
    }

    /// Checks that `against` shows that one tick more than the deadline of `interface` is too late.
    fn longest(&self, interface: &ResourceInterface, against: &Against) -> Result<(), Fault> {
        let longer = of_time(interface.deadline) + of_time(self.model.tick);
        if longer > of_time(interface.period) {
            return Err(Fault::Least);
        }
        let supply = self.supply(of_time(interface.period), of_time(interface.budget), longer);
        proofs::against(&self.jobs, self.component.policy, &supply, false, against)
    }

    /// The deadline that belongs to `budget` in the search for the least one.
    fn deadline(&self, interface: &ResourceInterface, window: Window, budget: &R) -> R {
        match window {
            Window::Period => of_time(interface.period),
            Window::Budget | Window::Longest => budget + of_time(cost(self.model)),
        }
    }

    /// Checks that `against` shows that one tick less than the budget of `interface` is too little.
    fn least(
        &self,
        interface: &ResourceInterface,
        window: Window,
        against: &Against,
    ) -> Result<(), Fault> {
        if *against == Against::Nothing {
            // A tick less would be nothing, or all paid.
            let least = nanos(self.model.tick) + &self.payment;
            return if nanos(interface.budget) == least {
                Ok(())
            } else {
                Err(Fault::Least)
            };
        }
        let budget = of_time(interface.budget) - of_time(self.model.tick);
        if budget <= R::from_integer(self.payment.clone()) {
            return Err(Fault::Least);
        }
        let deadline = self.deadline(interface, window, &budget);
        let supply = self.supply(of_time(interface.period), budget, deadline);
        proofs::against(&self.jobs, self.component.policy, &supply, false, against)
    }

    /// Checks that `exact` is the least budget of all, and that the interface's budget is the next
    /// whole tick.
    fn exact(
        &self,
        interface: ResourceInterface,
        window: Window,
        exact: &Exact,
    ) -> Result<(), Fault> {
        let (numerator, denominator) = (exact.budget.numerator, exact.budget.denominator);
        if numerator == 0 || denominator == 0 || num_integer::gcd(numerator, denominator) != 1 {
            return Err(Fault::Least);
        }
        let budget = int(numerator.into()) / int(denominator.into());
        if budget <= R::from_integer(self.payment.clone()) {
            return Err(Fault::Least);
        }
        let ticks = (&budget / of_time(self.model.tick)).ceil();
        if ticks * of_time(self.model.tick) != of_time(interface.budget) {
            return Err(Fault::Least);
        }
        let deadline = self.deadline(&interface, window, &budget);
        let supply = self.supply(of_time(interface.period), budget, deadline);
        let policy = self.component.policy;
        proofs::check(&self.jobs, policy, 1, &supply, &exact.proof)?;
        proofs::against(&self.jobs, policy, &supply, true, &exact.against)
    }
}
