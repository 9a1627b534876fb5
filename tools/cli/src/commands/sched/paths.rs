//! `hanok sched paths`: the hypervisor's longest paths, and in `hanok sched check` what follows from them.

use std::path::Path;

use hanok_explain::others::{Beside, beside};
use hanok_paths::latency::{self, InTurns, Latency, Wake};
use hanok_paths::{List, table as paths};

use super::found::{Found, time};
use super::table::aligned;
use crate::args::SchedPathsArgs;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::ui;
use hanok_boot::overrides::Overrides;
use hanok_boot::system;
use hanok_task_model::Nanos;

/// `hanok sched paths`.
pub fn run(args: &SchedPathsArgs) -> Outcome {
    let list = List::own().blame(Code::Refused)?;
    let lines = if args.markdown {
        paths::markdown(&list)
    } else {
        aligned(&paths::rows(&list))
    };
    for line in lines {
        ui::line(format_args!("{line}"));
    }
    Ok(Code::Success)
}

/// What follows from the paths.
#[derive(Debug, Default)]
pub struct Late {
    /// How late interrupts of the vCPUs with promises can be.
    pub interrupts: Vec<Latency>,
    /// How late each task can be released, by its name and the name of its vCPU.
    pub releases: Vec<(String, Latency)>,
    /// What a wake costs, where that is more than the proof of the deadlines reckons with.
    pub dear_wake: Option<Wake>,
    /// What happens for others in the turns of each vCPU with proven tasks, and what becomes of these.
    pub in_turns: Vec<(InTurns, Option<Beside>)>,
}

/// How late vCPUs with promises and their tasks can be, where the board enforces the promises and can boot the
/// description; nothing where it cannot. A release has no bound where it is not proven that all deadlines are kept.
pub fn late(root: &Path, file: &Path, found: &Found<'_>, speed: u64) -> Outcome<Late> {
    let Ok(system) = system::load(root, file, &Overrides::default()) else {
        return Ok(Late::default());
    };
    let list = List::own().blame(Code::Refused)?;
    let interrupts = latency::of(&list, &system, speed).blame(Code::Refused)?;
    let all = latency::releases(&list, &system, speed).blame(Code::Refused)?;
    let mut releases = Vec::new();
    for (_, task) in found.tasks() {
        let of = found.component(task.component);
        let vcpu = all.iter().find(|latency| latency.name == of);
        if let Some(latency) = vcpu.filter(|_| found.certificate.is_some()) {
            releases.push((task.name.clone(), latency.clone()));
        }
    }
    let wake = Wake::of(&list, &system, speed).blame(Code::Refused)?;
    let mut in_turns = Vec::new();
    for of in latency::in_turns(&list, &system, speed).blame(Code::Refused)? {
        if !releases.iter().any(|(_, latency)| latency.name == of.name) {
            continue;
        }
        let spent = of.bound.as_ref().ok();
        let tasks = spent.and_then(|spent| {
            let [period, job] = [spent.period, spent.job].map(Nanos::new);
            beside(found, &of.name, period, job)
        });
        in_turns.push((of, tasks));
    }
    Ok(Late {
        in_turns,
        interrupts,
        dear_wake: wake.filter(|wake| wake.given < wake.paths && !releases.is_empty()),
        releases,
    })
}

/// The tables of both, in instructions and in time, each behind an empty line.
pub fn lines(late: &Late, speed: u64) -> Vec<String> {
    let interrupts = late.interrupts.iter();
    let interrupts = interrupts.map(|latency| (latency.name.clone(), latency));
    let mut lines = table(
        "interrupt of",
        "interrupts",
        &interrupts.collect::<Vec<_>>(),
        speed,
    );
    let releases = late.releases.iter();
    let releases = releases.map(|(task, latency)| (format!("{task} of {}", latency.name), latency));
    lines.extend(table(
        "release of",
        "releases",
        &releases.collect::<Vec<_>>(),
        speed,
    ));
    lines.extend(others(&late.in_turns));
    lines.extend(late.dear_wake.map(dear));
    lines
}

/// The table of what happens for others, behind an empty line.
fn others(all: &[(InTurns, Option<Beside>)]) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let heading = [
        "for others in",
        "core",
        "of each budget",
        "with each job",
        "deadlines with that",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let mut unbounded = Vec::new();
    for (InTurns { name, core, bound }, tasks) in all {
        match bound {
            Ok(spent) => {
                let tasks = match tasks {
                    Some(Beside::Kept) => "kept".to_owned(),
                    Some(Beside::NotShown(Some(budget))) => {
                        format!(
                            "not proven: a budget of {} would do",
                            time(budget.get().into())
                        )
                    }
                    _ => "not proven".to_owned(),
                };
                rows.push(vec![
                    name.clone(),
                    core.to_string(),
                    micros(spent.period),
                    micros(spent.job),
                    tasks,
                ]);
            }
            Err(why) => unbounded.push(format!(
                "{name}: no bound of what happens for others: {why}"
            )),
        }
    }
    behind_an_empty_line(&rows, unbounded)
}

fn dear(wake: Wake) -> String {
    format!(
        "Proven for two switches of {} in each period; the longest paths of a wake come to {}: a `switch` of {} has them.",
        micros(wake.given),
        micros(wake.paths),
        micros(wake.paths.div_ceil(2)),
    )
}

fn table(what: &str, many: &str, all: &[(String, &Latency)], speed: u64) -> Vec<String> {
    if all.is_empty() {
        return Vec::new();
    }
    let heading = [
        what,
        "core",
        "at most",
        "instructions",
        "masked",
        "own",
        "wakes",
        "lives",
        "devices",
        "ahead",
        "budget",
        "a person more",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let mut unbounded = Vec::new();
    for (name, Latency { core, bound, .. }) in all {
        match bound {
            Ok(bound) => {
                let total = bound.total();
                let nanos = latency::nanos(total, speed);
                let mut row = vec![name.clone(), core.to_string(), micros(nanos)];
                let parts = [
                    total,
                    bound.blocked,
                    bound.own,
                    bound.wakes,
                    bound.lives,
                    bound.devices,
                    bound.ahead,
                    bound.budget,
                    bound.person,
                ];
                row.extend(parts.map(|part| part.to_string()));
                rows.push(row);
            }
            Err(why) => unbounded.push(format!("{name}: no bound of its {many}: {why}")),
        }
    }
    behind_an_empty_line(&rows, unbounded)
}

/// A table, unless it has a heading alone, and lines about those that are not in it.
fn behind_an_empty_line(rows: &[Vec<String>], others: Vec<String>) -> Vec<String> {
    let table = match rows.len() {
        1 => Vec::new(),
        _ => aligned(rows),
    };
    std::iter::once(String::new())
        .chain(table)
        .chain(others)
        .collect()
}

/// Microseconds with a tenth, rounded up.
fn micros(nanos: u64) -> String {
    let tenths = nanos.div_ceil(100);
    format!("{}.{}us", tenths / 10, tenths % 10)
}
