//! `hanok sched simulate`: who runs when.

pub mod args;
mod json;
mod page;
mod picture;
mod plan;
mod shown;
mod terminal;

use std::path::Path;

use hanok_simulator::{Timeline, simulate};
use hanok_system::load_schedule;
use hanok_task_model::{Model, TaskId};

use super::super::find;
use super::times::readable;
use args::SimulateArgs;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::outputs::{self, Outputs};
use hanok_base::ui;
use hanok_boot::system;
use shown::Shown;

/// `hanok sched simulate`.
pub fn run(root: &Path, args: &SimulateArgs) -> Outcome {
    let file = find(root, &args.file);
    outputs(&file, args)?;
    system::readable(&file)?;
    let schedule = load_schedule(&file, &system::boards_dir(root)).map_err(system::refused)?;
    let model = &schedule.model;
    let plan = plan::plan(model, args)?;
    let timeline = simulate(model, &plan.options).map_err(|error| plan::refused(&error))?;
    let (from, to) = window(args, model, &timeline)?;
    let shown = Shown {
        model,
        timeline: &timeline,
        cores: plan.cores,
        rows: rows(model, &timeline),
        from,
        to,
        title: plan.title,
    };
    show(args, &shown)?;
    if timeline.misses().is_empty() {
        Ok(Code::Success)
    } else {
        Ok(Code::TestsFailed)
    }
}

fn show(args: &SimulateArgs, shown: &Shown) -> Outcome<()> {
    if let Some(path) = &args.svg {
        outputs::write(path, picture::draw(shown).source())?;
    }
    if let Some(path) = &args.html {
        outputs::write(path, page::write(shown))?;
    }
    let text = if args.json {
        json::write(shown).blame(Code::Refused)?
    } else {
        terminal::write(shown)
    };
    ui::line(format_args!("{text}"));
    Ok(())
}

/// The outputs, checked.
fn outputs(file: &Path, args: &SimulateArgs) -> Outcome<()> {
    let mut outputs = Outputs::default().reads("the description", file);
    for (what, path) in [("--svg", &args.svg), ("--html", &args.html)] {
        if let Some(path) = path {
            outputs = outputs.writes(what, path);
        }
    }
    outputs.check()
}

/// The tasks with jobs, component by component.
fn rows(model: &Model, timeline: &Timeline) -> Vec<TaskId> {
    let summaries = timeline.summaries(model.tasks.len());
    let all = (0..).map(TaskId).zip(&model.tasks).zip(&summaries);
    let simulated = all.filter(|(_, summary)| summary.jobs > 0);
    let mut rows: Vec<_> = simulated
        .map(|((id, task), _)| (task.component, id))
        .collect();
    rows.sort();
    rows.into_iter().map(|(_, id)| id).collect()
}

/// The part that is drawn: what was asked for, else as much as lets jobs be told apart.
fn window(args: &SimulateArgs, model: &Model, timeline: &Timeline) -> Outcome<(u64, u64)> {
    let periods = model.tasks.iter().map(|task| task.period.get());
    let shortest = periods.clone().min().unwrap_or(1);
    let longest = periods.max().unwrap_or(1);
    let from = args.from.unwrap_or(0);
    let length = longest.saturating_mul(2).min(shortest.saturating_mul(20));
    let to = args.to.unwrap_or(from.saturating_add(length.max(1)));
    let to = to.min(timeline.horizon);
    if from < to {
        Ok((from, to))
    } else {
        Err(failure(
            Code::Usage,
            format!(
                "nothing can be shown from {} to {}",
                readable(from),
                readable(to)
            ),
        ))
    }
}

#[cfg(test)]
mod tests;
