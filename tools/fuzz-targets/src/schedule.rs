//! Targets for schedules: descriptions of tasks and of what VMs are promised, and the analysis of
//! them.

use crate::system::{boards, refused};
use hanok_system::{Schedule, parse_schedule};
use hanok_task_model::{Model, Nanos, Periods, Plan};
use std::path::Path;

/// The limits of a description that is analysed here, where an answer must come at once.
const MOST_MEMBERS: usize = 12;
const MOST_TICKS: u64 = 100_000;

/// An accepted description has a meaning and a line for each of its parts, and the checker accepts
/// the certificate of a positive answer; a refusal has a place and a text.
pub fn schedule(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse_schedule(Path::new("fuzz.toml"), &text, &boards()) {
        Ok(schedule) => {
            sound(&schedule, text.lines().count());
            if is_small(&schedule.model) {
                answered(&schedule.model);
            }
        }
        Err(found) => refused(&found, &text),
    }
}

fn sound(schedule: &Schedule, lines: usize) {
    let model = &schedule.model;
    assert_eq!(model.validate(), Ok(()));
    for (id, _) in model.ids() {
        assert!(schedule.line_of(id).is_some_and(|line| line <= lines));
    }
    for id in (0..).take(model.tasks.len()).map(hanok_task_model::TaskId) {
        assert!(schedule.line_of_task(id).is_some_and(|line| line <= lines));
    }
    for task in &model.tasks {
        assert!(task.execution > Nanos::ZERO && task.period <= Nanos::MAX);
    }
}

/// Returns whether all times are short multiples of the tick, so that the schedule soon repeats.
fn is_small(model: &Model) -> bool {
    let tick = model.tick.get().max(1);
    let short = |time: Nanos| time.get() / tick <= MOST_TICKS;
    let periods = model
        .components
        .iter()
        .all(|component| match component.plan {
            Plan::Given(interface) => short(interface.period),
            Plan::Longest { period, .. } => short(period),
            Plan::Find { periods, .. } => match periods {
                Periods::One(period) => short(period),
                Periods::Range { most, .. } => short(most),
            },
        });
    let members = model.tasks.len() + model.components.len();
    members <= MOST_MEMBERS && periods && model.tasks.iter().all(|task| short(task.period))
}

fn answered(model: &Model) {
    let analysis = hanok_analysis::analyse(model).expect("a sound model");
    if let Some(certificate) = analysis.certificate() {
        assert_eq!(
            hanok_certificate_checker::check(model, &certificate),
            Ok(())
        );
    }
    for refutation in &analysis.refutations {
        assert!(refutation.shortfall() > 0, "{refutation:?}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let groups = "board = \"qemu-virt\"\ncores = 2\n[schedule]\ntick = \"10us\"\n\
        switch = \"10us\"\n[[schedule.pool]]\nname = \"all\"\ncores = [0, 1]\nmode = \"global\"\n\
        [[schedule.group]]\nname = \"g\"\npool = \"all\"\npolicy = \"fixed\"\n\
        period = [\"1ms\", \"3ms\"]\nwindow = \"longest\"\n\
        [[schedule.group.task]]\nname = \"t\"\nperiod = \"20ms\"\nexecution = \"1500us\"\n\
        priority = 1\njitter = \"100us\"\n\
        [[schedule.group]]\nname = \"h\"\ngroup = \"g\"\nperiod = \"6ms\"\npriority = 0\n\
        [[schedule.group.task]]\nname = \"u\"\nperiod = \"9ms\"\nexecution = \"500us\"\n\
        deadline = \"8ms\"\noffset = \"1ms\"\n\
        [[schedule.group]]\nname = \"i\"\npool = \"all\"\npolicy = \"rm\"\n\
        period = \"2ms\"\nbudget = \"1ms\"\ndeadline = \"1500us\"\n";
    let system = include_str!("../../../systems/schedule.toml");
    [groups, system].map(|text| text.as_bytes().to_vec()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the fuzzer would never reach the analysis.
    #[test]
    fn the_seeds_are_accepted_and_one_is_answered() {
        let models: Vec<_> = seeds()
            .iter()
            .map(|seed| {
                let text = String::from_utf8_lossy(seed);
                parse_schedule(Path::new("seed.toml"), &text, &boards()).map(|found| found.model)
            })
            .collect::<Result<_, _>>()
            .unwrap();
        assert!(models.iter().any(is_small));
        let analysed: Vec<_> = models.iter().map(hanok_analysis::analyse).collect();
        assert!(
            analysed
                .iter()
                .flatten()
                .all(|found| found.certificate().is_some())
        );
    }
}
