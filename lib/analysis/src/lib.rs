//! Finds out whether all deadlines are kept, before anything runs.
//!
//! [`analyse`] takes a model (hanok-task-model) and answers, for every component and every core,
//! with a proof or with a refutation. Proofs for all of them together are a [`Certificate`], which
//! hanok-certificate-checker verifies without any of this code. docs/scheduling.md has the
//! formulas, their sources, and the treatment of jitter, offsets and switches.
//!
//! What is kept true throughout:
//!
//! - **No floating point.** Budgets are rationals, all else integers of 128 bits. A value that
//!   would need more gives [`Undecided::TooLarge`], never a wrong answer.
//! - **A positive answer is right** for every arrival of jobs that the model allows. A negative
//!   answer is exact for components on one CPU. For several CPUs only sufficient tests are known,
//!   and a placement that was not found may exist. [`Refutation::certain`] tells the two apart.
//! - **Work is bounded**: [`Work::TEST`] steps for a component or a pool, [`Work::MODEL`] for a
//!   model, and [`Undecided::TooLong`] beyond, whatever periods a file holds.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod compose;
pub mod edf;
pub mod fixed;
pub mod global;
mod kinds;
pub mod least;
pub mod load;
mod period;
mod place;
mod refute;
pub mod response;
#[cfg(test)]
mod search_tests;
pub mod supply;
mod test;
mod ticks;
mod work;

pub use compose::{
    ComponentRefusal, Verdict, Workload, cost_beyond, of_interface, of_task, shape, upon,
};
pub use kinds::Unproven;
pub use period::{Price, price};
pub use place::{Placement, PoolRefusal};
pub use refute::{Change, Refutation, RefutedAt};
pub use response::Response;
pub use ticks::InterfaceRequest;
pub use work::{Undecided, Work};

use alloc::vec::Vec;
use hanok_task_model::{
    Certificate, ComponentId, ComponentProof, Member, Model, ModelError, Plan, PoolId,
    ResourceInterface,
};

/// The result of analysing a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Analysis {
    /// The answer about each component, in the order of the model.
    pub components: Vec<Verdict<ComponentProof>>,
    /// The answer about each pool, in the order of the model.
    pub pools: Vec<Placement>,
    /// The refutations in the order in which they were found: components from the inside out, then
    /// pools.
    pub refutations: Vec<Refutation>,
    order: Vec<ComponentId>,
}

/// Analyses `model`. A model without a meaning is refused with all its faults.
pub fn analyse(model: &Model) -> Result<Analysis, Vec<ModelError>> {
    analysed(model, Explain::Yes, &mut Work::new(Work::MODEL))
}

/// Analyses `model` as [`analyse`] does, with as many steps as `work` allows, and without
/// explaining refusals: for callers that ask about many models.
pub fn decide(model: &Model, work: &mut Work) -> Result<Analysis, Vec<ModelError>> {
    analysed(model, Explain::No, work)
}

/// Whether refusals are explained: what they mean, and what would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Explain {
    Yes,
    No,
}

fn analysed(model: &Model, explain: Explain, work: &mut Work) -> Result<Analysis, Vec<ModelError>> {
    model.validate()?;
    let members = model.members();
    let order = model.bottom_up();
    let mut known = Vec::new();
    known.resize_with(model.components.len(), || None);
    let mut refutations = Vec::new();
    for id in &order {
        let verdict = one(model, *id, &members, &known, work);
        if let (Verdict::Refuted(refused), Explain::Yes) = (&verdict, explain) {
            let found = refute::of_component(model, *id, refused, work);
            refutations.extend(found.ok());
        }
        if let Some(slot) = known.get_mut(id.0 as usize) {
            *slot = Some(verdict);
        }
    }
    let mut pools = Vec::with_capacity(model.pools.len());
    for (id, pool) in (0..).map(PoolId).zip(&model.pools) {
        let placement = place::pool(model, id, pool, &known, work);
        if let (Placement::Refused(refusal), Explain::Yes) = (&placement, explain) {
            refutations.extend(refute::of_pool(model, refusal, work).ok());
        }
        pools.push(placement);
    }
    // All components of a valid model are reached.
    let lost = || Verdict::Undecided(Undecided::TooLong);
    Ok(Analysis {
        components: known
            .into_iter()
            .map(|found| found.unwrap_or_else(lost))
            .collect(),
        pools,
        refutations,
        order,
    })
}

/// The answer about the component `id` once all components inside it have one.
fn one(
    model: &Model,
    id: ComponentId,
    members: &[Vec<Member>],
    known: &compose::KnownVerdicts,
    work: &mut Work,
) -> Verdict<ComponentProof> {
    let Some(component) = model.component(id) else {
        return Verdict::Undecided(Undecided::TooLong);
    };
    let inside = members.get(id.0 as usize).map(Vec::as_slice);
    match compose::workload(model, component, inside.unwrap_or_default(), known) {
        Ok(workload) => compose::component(model, id, component, workload, work),
        Err(inner) => Verdict::Waits(inner),
    }
}

impl Analysis {
    /// The certificate; `None` unless everything is proven.
    pub fn certificate(&self) -> Option<Certificate> {
        let proof = |id: &ComponentId| match self.components.get(id.0 as usize) {
            Some(Verdict::Proven(proof)) => Some(proof.clone()),
            _ => None,
        };
        let mut cores = Vec::new();
        for pool in &self.pools {
            match pool {
                Placement::Placed(proofs) => cores.extend(proofs.iter().cloned()),
                _ => return None,
            }
        }
        Some(Certificate {
            components: self.order.iter().map(proof).collect::<Option<_>>()?,
            cores,
        })
    }

    /// The interface of the component `id`, if it has one.
    pub fn interface(&self, id: ComponentId) -> Option<ResourceInterface> {
        match self.components.get(id.0 as usize)? {
            Verdict::Proven(proof) => Some(proof.interface),
            _ => None,
        }
    }

    /// The members of the component `id` as its test sees them; `None` where one of them has no
    /// interface.
    pub fn workload(&self, model: &Model, id: ComponentId) -> Option<Workload> {
        let members = model.members();
        let known = self.components.iter().cloned().map(Some).collect();
        let component = model.component(id)?;
        let inside = members.get(id.0 as usize)?;
        compose::workload(model, component, inside, &known).ok()
    }

    /// When the jobs of each task are complete at the latest, in the order of the model's tasks;
    /// `None` for tasks of a component that has no proof.
    pub fn responses(&self, model: &Model) -> Vec<Option<Response>> {
        let members = model.members();
        let known: compose::KnownVerdicts = self.components.iter().cloned().map(Some).collect();
        let mut all = Vec::new();
        all.resize(model.tasks.len(), None);
        let mut work = Work::new(Work::TEST);
        for (id, component) in model.ids() {
            let inside = members.get(id.0 as usize).map(Vec::as_slice);
            let inside = inside.unwrap_or_default();
            let any = inside
                .iter()
                .any(|member| matches!(member, Member::Task(_)));
            let (true, Some(interface)) = (any, self.interface(id)) else {
                continue;
            };
            let Ok(workload) = compose::workload(model, component, inside, &known) else {
                continue;
            };
            let Ok(supply) = compose::upon(&interface, &workload) else {
                continue;
            };
            for response in response::of(&workload, &supply, &mut work) {
                if let Member::Task(task) = response.member
                    && let Some(slot) = all.get_mut(task.0 as usize)
                {
                    *slot = Some(response);
                }
            }
        }
        all
    }

    /// The request for an interface of the component `id`, by which a report can ask for other
    /// periods; `None` where no interface is to be found.
    pub fn wanted<'a>(
        &self,
        model: &Model,
        id: ComponentId,
        workload: &'a Workload,
    ) -> Option<InterfaceRequest<'a>> {
        let component = model.component(id)?;
        let window = match component.plan {
            Plan::Find { window, .. } => window,
            Plan::Given(_) | Plan::Longest { .. } => hanok_task_model::Window::Period,
        };
        (component.cpus == 1).then(|| InterfaceRequest {
            loads: &workload.loads,
            policy: workload.policy,
            server: workload.server,
            window,
            tick: compose::wide(model.tick),
            cost: compose::ticks_beyond(model, component.server),
            prepaid: workload.prepaid,
        })
    }
}
