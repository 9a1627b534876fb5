//! What would follow from a change, before it is made.
//!
//! The analysis is that of `hanok sched check`, and so are its words. It gets the system's description,
//! with the interfaces that the board has now in place of the described ones; where no description is
//! known, the interfaces alone. What it says holds as long as these stay as they are: a preview knows
//! them, and is of no use once somebody else has changed one.

mod live;

use hanok_analysis::analyse;
use hanok_certificate_checker as checker;
use hanok_explain::found::Found;
use hanok_system::Schedule;
use serde::Serialize;

use crate::change::{Change, Promised};
use crate::protocol::{Kind, VcpuId};
use crate::report::Report;
use crate::text::shown;
use crate::view::View;

use live::Live;

/// What the analysis says of all deadlines after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// All are kept, and a checker believes it.
    Kept,
    /// Not all are shown to be kept.
    NotShown,
    /// Nothing is promised that could be analysed.
    NotAnalysed,
}

/// When a task's jobs are complete, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Completion {
    /// After their arrival, at the latest.
    pub response: u64,
    /// Before their deadline, at least.
    pub slack: u64,
}

/// A task before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskRow {
    /// Its name.
    pub name: String,
    /// Its component's name.
    pub of: String,
    /// Its deadline in nanoseconds.
    pub deadline: u64,
    /// Now; `None` where nothing is proven.
    pub before: Option<Completion>,
    /// After the change.
    pub after: Option<Completion>,
}

/// A share before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareRow {
    /// Whose.
    pub name: String,
    /// Now.
    pub before: f64,
    /// After the change.
    pub after: f64,
}

/// What would follow from a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preview {
    /// The change.
    pub change: Change,
    /// The vCPU's name.
    pub name: String,
    /// What it is promised now.
    pub from: String,
    /// What it is to be promised.
    pub to: String,
    /// What the analysis says.
    pub answer: Answer,
    /// Whether it says the same, or less, of what there is now.
    pub no_worse: bool,
    /// The reasons of a no.
    pub reasons: Vec<String>,
    /// What would help.
    pub help: Vec<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// All tasks.
    pub tasks: Vec<TaskRow>,
    /// The shares of cores that are promised, and of the vCPUs that change.
    pub shares: Vec<ShareRow>,
    /// What everybody is promised now.
    #[serde(skip)]
    basis: Vec<(VcpuId, Option<Promised>)>,
}

impl Preview {
    /// Whether everybody is promised what this preview is about.
    pub fn is_current(&self, view: &View) -> bool {
        self.basis == basis(view)
    }
}

fn basis(view: &View) -> Vec<(VcpuId, Option<Promised>)> {
    let of = |vcpu: &crate::view::VcpuView| (vcpu.id, Promised::of(vcpu));
    view.vcpus.iter().map(of).collect()
}

/// What would follow from `change`.
///
/// # Errors
///
/// The change is one that no board can take.
pub fn preview(
    description: Option<&Schedule>,
    report: &Report,
    view: &View,
    change: Change,
) -> anyhow::Result<Preview> {
    change.check(view)?;
    let vcpu = view.vcpu(change.id);
    let mut preview = Preview {
        change,
        name: vcpu.map(|vcpu| vcpu.name.clone()).unwrap_or_default(),
        from: vcpu
            .and_then(Promised::of)
            .map_or_else(String::new, |now| now.words()),
        to: change.to.words(),
        answer: Answer::NotAnalysed,
        no_worse: true,
        reasons: Vec::new(),
        help: Vec::new(),
        notes: Vec::new(),
        tasks: Vec::new(),
        shares: shares(report, change),
        basis: basis(view),
    };
    match change.to {
        Promised::Share { .. } => preview.notes.push(
            "A share by weight is no promise: this is how what is free is divided while all have work."
                .to_owned(),
        ),
        Promised::Interface { .. } => analysed(description, report, change, &mut preview),
    }
    Ok(preview)
}

/// The shares of the core and of its vCPUs that the change makes others.
fn shares(report: &Report, change: Change) -> Vec<ShareRow> {
    let Some(own) = report.vcpus.get(&change.id) else {
        return Vec::new();
    };
    let cpu = own.cpu;
    let mut after = report.clone();
    if let Some(vcpu) = after.vcpus.get_mut(&change.id) {
        let ticks = |nanos: u64| {
            let ticks = u128::from(nanos) * u128::from(report.frequency) / 1_000_000_000;
            u64::try_from(ticks).unwrap_or(u64::MAX)
        };
        (vcpu.promise.period, vcpu.promise.budget) = match change.to {
            Promised::Interface { period, budget, .. } => (ticks(period), ticks(budget)),
            Promised::Share { weight, cap } => (weight, cap),
        };
    }
    let mut rows = vec![ShareRow {
        name: format!("core {cpu}, promised in all"),
        before: report.promised(cpu).min(99.0),
        after: after.promised(cpu).min(99.0),
    }];
    for (id, vcpu) in &report.vcpus {
        let before = report.share(vcpu);
        let after = after.vcpus.get(id).and_then(|vcpu| after.share(vcpu));
        if let (true, Some(before), Some(after)) = (vcpu.cpu == cpu, before, after)
            && (*id == change.id || before != after)
        {
            let name = shown(&report.name(*id));
            let [before, after] = [before, after].map(|share| share.min(99.0));
            rows.push(ShareRow {
                name,
                before,
                after,
            });
        }
    }
    rows
}

fn analysed(
    description: Option<&Schedule>,
    report: &Report,
    change: Change,
    preview: &mut Preview,
) {
    let now = Live::new(description, report);
    preview.notes.extend(now.notes.iter().cloned());
    let mut changed = now.clone();
    if let Err(why) = changed.set(change) {
        preview.notes.push(why);
        return;
    }
    let sides = [&now, &changed].map(|live| Side::of(&live.schedule));
    let [before, after] = &sides;
    preview.answer = if after.kept {
        Answer::Kept
    } else {
        Answer::NotShown
    };
    preview.no_worse = after.kept || !before.kept;
    preview.reasons.clone_from(&after.reasons);
    preview.help.clone_from(&after.help);
    if !after.kept && !before.kept {
        let note = "It is not shown of what there is now, either.";
        preview.notes.push(note.to_owned());
    }
    let tasks = now.schedule.model.tasks.iter().enumerate();
    preview.tasks = tasks
        .map(|(place, task)| TaskRow {
            name: task.name.clone(),
            of: now
                .schedule
                .model
                .component(task.component)
                .map_or_else(String::new, |component| component.name.clone()),
            deadline: task.deadline.get(),
            before: before.tasks.get(place).copied().flatten(),
            after: after.tasks.get(place).copied().flatten(),
        })
        .collect();
}

/// What the analysis says of a schedule.
struct Side {
    kept: bool,
    reasons: Vec<String>,
    help: Vec<String>,
    tasks: Vec<Option<Completion>>,
}

impl Side {
    fn of(schedule: &Schedule) -> Self {
        let mut side = Self {
            kept: false,
            reasons: Vec::new(),
            help: Vec::new(),
            tasks: Vec::new(),
        };
        let analysis = match analyse(&schedule.model) {
            Ok(analysis) => analysis,
            Err(faults) => {
                side.reasons.extend(faults.iter().map(ToString::to_string));
                return side;
            }
        };
        let found = Found::new(schedule, &analysis);
        side.tasks = found
            .tasks()
            .map(|(id, _)| {
                let (response, slack) = found.response(id)?;
                Some(Completion {
                    response: response.get(),
                    slack: slack.get(),
                })
            })
            .collect();
        if let Some(certificate) = &found.certificate {
            match checker::check(&schedule.model, certificate) {
                Ok(_) => side.kept = true,
                Err(why) => side.reasons.push(format!(
                    "the analysis made a certificate that its checker does not believe; that is a \
                     fault of Hanok, please report it: {why}"
                )),
            }
        }
        side.explain(&found);
        side
    }

    fn explain(&mut self, found: &Found<'_>) {
        for refuted in &found.analysis.refutations {
            self.reasons.push(found.sentence(refuted));
            let changes = refuted.changes.iter();
            self.help
                .extend(changes.map(|change| found.change(*change)));
        }
        for (id, component) in found.model().ids() {
            let open = found.open(id);
            self.reasons
                .extend(open.map(|why| format!("{}: {why}", component.name)));
        }
        for (place, pool) in found.model().pools.iter().enumerate() {
            let id = hanok_task_model::PoolId(u32::try_from(place).unwrap_or(u32::MAX));
            let open = found.open_pool(id);
            self.reasons
                .extend(open.map(|why| format!("pool {}: {why}", pool.name)));
        }
        self.help.dedup();
    }
}

/// The analysis's word for a kind of server; `None` of what is none.
const fn server(kind: Kind) -> Option<hanok_task_model::Server> {
    use hanok_task_model::Server;
    Some(match kind {
        Kind::Periodic => Server::Periodic,
        Kind::Polling => Server::Polling,
        Kind::Deferrable => Server::Deferrable,
        Kind::Bandwidth => Server::ConstantBandwidth,
        Kind::SoftBandwidth => Server::SoftBandwidth,
        Kind::Credit | Kind::Turn => return None,
    })
}

#[cfg(test)]
mod tests;
