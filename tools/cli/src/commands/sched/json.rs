//! The answer for programs. Times are whole nanoseconds, exact budgets are fractions of them.

use hanok_explain::others::Beside;
use hanok_paths::latency::{Bound, InTurns, Latency};
use hanok_task_model::{Certificate, Fraction, ResourceInterface};
use serde::Serialize;

use super::found::{Found, mode, policy, server};
use super::paths::Late;

/// The version of the output. It is raised when a field changes its meaning or is removed.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    file: String,
    admitted: bool,
    tick: u64,
    switch: u64,
    refill: u64,
    components: Vec<OfComponent<'a>>,
    tasks: Vec<OfTask<'a>>,
    cores: Vec<OfCore<'a>>,
    latencies: Vec<OfLatency<'a>>,
    releases: Vec<OfRelease<'a>>,
    for_others: Vec<OfOthers<'a>>,
    refutations: Vec<Refuted>,
    certificate: &'a Option<Certificate>,
}

#[derive(Serialize)]
struct OfComponent<'a> {
    name: &'a str,
    home: String,
    policy: &'static str,
    server: &'static str,
    cpus: u32,
    interface: Option<ResourceInterface>,
    exact_budget: Option<Fraction>,
    open: Option<String>,
}

#[derive(Serialize)]
struct OfTask<'a> {
    name: &'a str,
    of: &'a str,
    period: u64,
    execution: u64,
    deadline: u64,
    jitter: u64,
    response: Option<u64>,
    slack: Option<u64>,
}

#[derive(Serialize)]
struct OfCore<'a> {
    pool: &'a str,
    mode: &'static str,
    cores: Vec<u8>,
    vcpus: Vec<String>,
}

/// How late a task can be released.
#[derive(Serialize)]
struct OfRelease<'a> {
    task: &'a str,
    #[serde(flatten)]
    latency: OfLatency<'a>,
}

/// How late an interrupt of a vCPU can be, in instructions; `null` where there is no bound, with the reason.
#[derive(Serialize)]
struct OfLatency<'a> {
    vcpu: &'a str,
    core: usize,
    instructions: Option<u64>,
    open: Option<&'a str>,
}

/// What the hypervisor does for others in a vCPU's turns, in nanoseconds; `null` where there is no bound, with the reason.
#[derive(Serialize)]
struct OfOthers<'a> {
    vcpu: &'a str,
    core: usize,
    of_budget: Option<u64>,
    with_job: Option<u64>,
    /// Whether the tasks keep their deadlines with that.
    kept: bool,
    /// The budget with which they would, in nanoseconds.
    would_do: Option<u64>,
    open: Option<&'a str>,
}

#[derive(Serialize)]
struct Refuted {
    line: Option<usize>,
    text: String,
    member: String,
    at: u64,
    demand: String,
    supply: String,
    shortfall: String,
    certain: bool,
    changes: Vec<String>,
}

/// The answer as JSON.
pub fn text(found: &Found<'_>, late: &Late) -> serde_json::Result<String> {
    let model = found.model();
    let answer = Answer {
        version: VERSION,
        file: found.schedule.path.display().to_string(),
        admitted: found.certificate.is_some(),
        tick: model.tick.get(),
        switch: model.cost.switch.get(),
        refill: model.cost.refill.get(),
        components: components(found),
        tasks: tasks(found),
        cores: cores(found),
        latencies: late.interrupts.iter().map(of_latency).collect(),
        releases: late.releases.iter().map(of_release).collect(),
        for_others: late.in_turns.iter().map(of_others).collect(),
        refutations: refutations(found),
        certificate: &found.certificate,
    };
    serde_json::to_string_pretty(&answer)
}

fn of_release((task, latency): &(String, Latency)) -> OfRelease<'_> {
    OfRelease {
        task,
        latency: of_latency(latency),
    }
}

fn of_others((of, tasks): &(InTurns, Option<Beside>)) -> OfOthers<'_> {
    let spent = of.bound.as_ref();
    let budget = match tasks {
        Some(Beside::NotShown(budget)) => *budget,
        _ => None,
    };
    OfOthers {
        vcpu: &of.name,
        core: of.core,
        of_budget: spent.ok().map(|spent| spent.period),
        with_job: spent.ok().map(|spent| spent.job),
        kept: *tasks == Some(Beside::Kept),
        would_do: budget.map(|budget| budget.get()),
        open: spent.err().map(String::as_str),
    }
}

fn of_latency(latency: &Latency) -> OfLatency<'_> {
    let bound = latency.bound.as_ref();
    OfLatency {
        vcpu: &latency.name,
        core: latency.core,
        instructions: bound.ok().map(Bound::total),
        open: bound.err().map(String::as_str),
    }
}

fn components<'a>(found: &Found<'a>) -> Vec<OfComponent<'a>> {
    let of = |(id, component): (_, &'a hanok_task_model::Component)| {
        let proof = found.proof(id);
        OfComponent {
            name: &component.name,
            home: found.home(component),
            policy: policy(component.policy),
            server: server(component.server),
            cpus: component.cpus,
            interface: proof.map(|proof| proof.interface),
            exact_budget: proof.and_then(|proof| proof.exact.as_ref().map(|exact| exact.budget)),
            open: found.open(id),
        }
    };
    found.model().ids().map(of).collect()
}

fn tasks<'a>(found: &Found<'a>) -> Vec<OfTask<'a>> {
    let of = |(id, task): (_, &'a hanok_task_model::Task)| {
        let known = found.response(id);
        OfTask {
            name: &task.name,
            of: found.component(task.component),
            period: task.period.get(),
            execution: task.execution.get(),
            deadline: task.deadline.get(),
            jitter: task.jitter.get(),
            response: known.map(|(most, _)| most.get()),
            slack: known.map(|(_, slack)| slack.get()),
        }
    };
    found.tasks().map(of).collect()
}

fn cores<'a>(found: &Found<'a>) -> Vec<OfCore<'a>> {
    let of = |core: &hanok_task_model::CoreProof| OfCore {
        pool: found.pool(core.pool),
        mode: mode(
            found
                .model()
                .pool(core.pool)
                .map(|pool| pool.mode)
                .unwrap_or_default(),
        ),
        cores: core.cores.iter().map(|core| core.0).collect(),
        vcpus: core.vcpus.iter().map(|vcpu| found.vcpu(*vcpu)).collect(),
    };
    found.cores().map(of).collect()
}

fn refutations(found: &Found<'_>) -> Vec<Refuted> {
    let of = |refuted: &hanok_analysis::Refutation| Refuted {
        line: found.line(refuted),
        text: found.sentence(refuted),
        member: found.member(refuted.member),
        at: refuted.at.get(),
        // It may exceed 64 bits: as text, every reader of JSON keeps it exact.
        demand: refuted.demand.to_string(),
        supply: refuted.supply.to_string(),
        shortfall: refuted.shortfall().to_string(),
        certain: refuted.certain,
        changes: refuted
            .changes
            .iter()
            .map(|change| found.change(*change))
            .collect(),
    };
    found.analysis.refutations.iter().map(of).collect()
}
