//! The record of a simulation for programs. Times are in nanoseconds.

use anyhow::Result;
use serde::Serialize;

use super::shown::Shown;

#[derive(Serialize)]
struct Run<'a> {
    title: &'a str,
    horizon: u64,
    events: u64,
    cores: Vec<Core<'a>>,
    tasks: Vec<Task>,
    segments: Vec<Segment>,
    jobs: Vec<Job>,
}

#[derive(Serialize)]
struct Core<'a> {
    name: &'a str,
    busy: u64,
}

#[derive(Serialize)]
struct Task {
    name: String,
    jobs: u64,
    complete: u64,
    missed: u64,
    longest_response: u64,
    deadline: u64,
}

#[derive(Serialize)]
struct Segment {
    core: usize,
    task: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    switching: bool,
    start: u64,
    end: u64,
}

#[derive(Serialize)]
struct Job {
    task: String,
    number: u64,
    arrival: u64,
    release: u64,
    deadline: u64,
    finish: Option<u64>,
    missed: bool,
}

/// As JSON.
pub fn write(shown: &Shown) -> Result<String> {
    let timeline = shown.timeline;
    let cores = shown.cores.iter().enumerate();
    let cores = cores.map(|(index, name)| Core {
        name,
        busy: timeline.busy(index),
    });
    let segments = timeline.segments.iter().map(|segment| Segment {
        core: segment.core,
        task: shown.name(segment.task),
        switching: segment.switching,
        start: segment.start,
        end: segment.end,
    });
    let jobs = timeline.jobs.iter().map(|job| Job {
        task: shown.name(job.task),
        number: job.number,
        arrival: job.arrival,
        release: job.release,
        deadline: job.deadline,
        finish: job.finish,
        missed: job.is_missed(timeline.horizon),
    });
    let run = Run {
        title: &shown.title,
        horizon: timeline.horizon,
        events: timeline.events,
        cores: cores.collect(),
        tasks: tasks(shown),
        segments: segments.collect(),
        jobs: jobs.collect(),
    };
    Ok(serde_json::to_string_pretty(&run)?)
}

fn tasks(shown: &Shown) -> Vec<Task> {
    let summaries = shown.timeline.summaries(shown.model.tasks.len());
    let each = shown.rows.iter().filter_map(|id| {
        let summary = summaries.get(id.0 as usize)?;
        Some(Task {
            name: shown.name(*id),
            jobs: summary.jobs,
            complete: summary.complete,
            missed: summary.missed,
            longest_response: summary.longest,
            deadline: shown.model.task(*id)?.deadline.get(),
        })
    });
    each.collect()
}
