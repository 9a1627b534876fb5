//! What the analysis finds of a schedule that the board enforces: budgets, periods and cores that
//! the description leaves open.
//!
//! They are used only with a proof for the whole schedule, which the certificate's checker has
//! confirmed. Who writes all budgets and cores gets what he wrote, and a note where it is not proven.

use super::model::Schedule;
use super::reasons::{Reasons, promise};
use crate::diagnostic::{Mark, Words};
use hanok_analysis::{Analysis, Placement, Refutation, analyse};
use hanok_certificate_checker as checker;
use hanok_task_model::{ComponentId, CoreId, Home, Member, Model, Plan, PoolId, ResourceInterface};
use std::fmt;

/// What a VM, a vCPU or a group has that its description leaves open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundInterface {
    /// Its name in the schedule: of a vCPU whose tasks name it, `VM.vCPU`.
    pub name: String,
    /// Its interface.
    pub interface: ResourceInterface,
    /// Its core.
    pub core: usize,
}

impl fmt::Display for FoundInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, core) = (&self.name, self.core);
        write!(f, "{name} has {} on core {core}", promise(&self.interface))
    }
}

/// The analysis of a schedule.
pub(super) struct Findings {
    /// The interface of each component, written or found.
    interfaces: Vec<Option<ResourceInterface>>,
    /// The core of each component in a partitioned pool, written or found.
    cores: Vec<Option<CoreId>>,
    /// Why it is not proven that all deadlines are kept, and the place in the file.
    pub(super) unproven: Option<(Mark, Words)>,
}

impl Findings {
    /// Analyses `schedule`, which is valid.
    pub(super) fn of(schedule: &Schedule) -> Self {
        let model = &schedule.model;
        let mut found = Self {
            interfaces: vec![None; model.components.len()],
            cores: vec![None; model.components.len()],
            unproven: None,
        };
        let analysis = match analyse(model) {
            Ok(analysis) => analysis,
            Err(faults) => {
                let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
                found.unproven = Some((Mark::default(), unproven(texts.join("; "), String::new())));
                return found;
            }
        };
        for (id, _) in model.ids() {
            let at = id.0 as usize;
            if let (Some(interface), Some(core)) =
                (found.interfaces.get_mut(at), found.cores.get_mut(at))
            {
                *interface = analysis.interface(id);
                *core = core_of(&analysis, outermost(model, id));
            }
        }
        found.unproven = match analysis.certificate() {
            None => Some(reason(schedule, &analysis)),
            Some(certificate) => checker::check(model, &certificate).err().map(|why| {
                let why = format!("the checker does not believe its certificate: {why}");
                let remedy = "that is a fault of Hanok: report it, or write the budgets and `cpus`";
                (Mark::default(), unproven(why, remedy.to_owned()))
            }),
        };
        found
    }

    /// The interface of the component `id`, written or found.
    pub(super) fn interface(&self, id: ComponentId) -> Option<ResourceInterface> {
        *self.interfaces.get(id.0 as usize)?
    }

    /// The core of the component `id`, written or found.
    pub(super) fn core(&self, id: ComponentId) -> Option<usize> {
        let core = *self.cores.get(id.0 as usize)?;
        core.map(|core| core.0.into())
    }
}

/// Whether the budget or the deadline of a component is left to the analysis.
pub(super) fn is_left_open(plan: &Plan) -> bool {
    !matches!(plan, Plan::Given(_))
}

/// The component around `id` that is in a pool.
fn outermost(model: &Model, mut id: ComponentId) -> ComponentId {
    // A valid model has no circles.
    while let Some(Home::Component(home)) = model.component(id).map(|component| component.home) {
        id = home;
    }
    id
}

/// The one core on which `root` was placed.
fn core_of(analysis: &Analysis, root: ComponentId) -> Option<CoreId> {
    let placed = analysis.pools.iter().filter_map(|pool| match pool {
        Placement::Placed(proofs) => Some(proofs),
        _ => None,
    });
    placed.flatten().find_map(|proof| match proof.cores[..] {
        [core] if proof.vcpus.iter().any(|vcpu| vcpu.component == root) => Some(core),
        _ => None,
    })
}

fn unproven(why: String, remedy: String) -> Words {
    let what = "it is not proven that all deadlines are kept";
    Words::new(what, why, remedy)
}

/// The first reason why not all is proven, and what would help.
fn reason(schedule: &Schedule, analysis: &Analysis) -> (Mark, Words) {
    let model = &schedule.model;
    let reasons = Reasons::new(model);
    if let Some(refuted) = analysis.refutations.first() {
        let changes = refuted.changes.iter().map(|change| reasons.change(*change));
        let changes: Vec<_> = changes.collect();
        let remedy = match changes.join("; or ") {
            none if none.is_empty() => "`hanok sched check` shows the whole".to_owned(),
            changes => format!("{changes} (`hanok sched check` shows the whole)"),
        };
        let words = unproven(reasons.sentence(refuted), remedy);
        return (place(schedule, refuted), words);
    }
    let components = model.ids().filter_map(|(id, component)| {
        let why = reasons.open(analysis, id)?;
        Some((
            schedule.marks.components.get(id.0 as usize),
            &component.name,
            why,
        ))
    });
    let pools = (0..)
        .map(PoolId)
        .zip(&model.pools)
        .filter_map(|(id, pool)| {
            let why = reasons.open_pool(analysis, id)?;
            Some((schedule.marks.pools.get(id.0 as usize), &pool.name, why))
        });
    // What waits for another one says less than that one.
    let mut open: Vec<_> = components.chain(pools).collect();
    open.sort_by_key(|(_, _, why)| why.starts_with("waits "));
    let (mark, why) = match open.into_iter().next() {
        Some((mark, name, why)) => (mark.copied(), format!("{name}: {why}")),
        None => (None, "the analysis gives no reason".to_owned()),
    };
    let remedy = "`hanok sched check` shows the whole".to_owned();
    (mark.unwrap_or_default(), unproven(why, remedy))
}

/// The place in the file that a refutation is about.
fn place(schedule: &Schedule, refuted: &Refutation) -> Mark {
    let marks = &schedule.marks;
    let component = |id: ComponentId| marks.components.get(id.0 as usize);
    let mark = match (refuted.vcpu, refuted.member) {
        (Some(vcpu), _) => component(vcpu.component),
        (None, Member::Task(id)) => marks.tasks.get(id.0 as usize),
        (None, Member::Component(id)) => component(id),
    };
    mark.copied().unwrap_or_default()
}
