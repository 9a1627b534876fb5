//! Simulates a system that was admitted, with the engine of `hanok sched simulate`.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use hanok_analysis::Placement;
use hanok_simulator::{Execution, Options, Slack, Timeline, What, simulate};
use hanok_task_model::{Model, Nanos};

use crate::check::Checked;
use crate::random::Random;

/// How many times tasks arrive at random.
const ARRIVALS: usize = 3;
/// The simulated time, in the longest period of all tasks.
const PERIODS: u64 = 6;

/// What the simulations of a system came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// How many there were.
    pub runs: u64,
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that were late.
    pub misses: u64,
}

/// Simulates it as described, with tasks that arrive at random, with jobs that are shorter than they
/// may be, and where that costs nothing with `slack` that others use.
///
/// # Errors
/// There is no simulation: a fault of these programs.
pub fn outcome(checked: &Checked, random: &mut Random) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let free = checked.model.cost.per_period().is_zero();
    let mut run = |model: &Model, execution, slack| -> Result<()> {
        let timeline = timeline(checked, model, execution, slack, None)?;
        outcome.runs += 1;
        outcome.jobs += timeline.jobs.len() as u64;
        outcome.misses += timeline.misses().len() as u64;
        Ok(())
    };
    run(&checked.model, Execution::Worst, Slack::Idle)?;
    for _ in 0..ARRIVALS {
        let mut model = checked.model.clone();
        for task in &mut model.tasks {
            task.offset = Nanos::from_micros(random.below(task.period.get() / 1_000));
        }
        run(&model, Execution::Worst, Slack::Idle)?;
        let seed = random.below(1 << 60);
        run(&model, Execution::Random(seed), Slack::Idle)?;
        if free {
            run(&model, Execution::Worst, Slack::Share)?;
        }
    }
    Ok(outcome)
}

/// What happens to `model`, which differs in its tasks from what was checked, up to `horizon`
/// nanoseconds.
///
/// # Errors
/// There is no simulation.
pub fn timeline(
    checked: &Checked,
    model: &Model,
    execution: Execution,
    slack: Slack,
    horizon: Option<u64>,
) -> Result<Timeline> {
    let longest = model.tasks.iter().map(|task| task.period.get()).max();
    let latest = model.tasks.iter().map(|task| task.offset.get()).max();
    let enough = PERIODS * longest.unwrap_or(1) + latest.unwrap_or(0);
    let mut options = Options::new(What::System, horizon.unwrap_or(enough));
    let interfaces = model.ids();
    options.interfaces = interfaces
        .filter_map(|(id, _)| Some((id, checked.analysis.interface(id)?)))
        .collect();
    let mut placement = BTreeMap::new();
    for pool in &checked.analysis.pools {
        let Placement::Placed(proofs) = pool else {
            continue;
        };
        for proof in proofs {
            if let [core] = proof.cores[..] {
                let here = proof.vcpus.iter();
                placement.extend(here.map(|vcpu| ((vcpu.component, vcpu.cpu), core)));
            }
        }
    }
    options.placement = placement;
    options.execution = execution;
    options.slack = slack;
    options.events = 50_000_000;
    simulate(model, &options).map_err(|error| anyhow!("{error}"))
}
