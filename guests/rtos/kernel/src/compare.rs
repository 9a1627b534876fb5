//! Compares what happened with what should have happened.

use crate::{Event, Ticks};

/// The result if the schedule is the simulation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The number of events that were compared.
    pub events: usize,
    /// The largest distance in time between an event and the simulation's.
    pub widest: Ticks,
}

/// The first event that is not the simulation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of events that agreed before it.
    pub after: usize,
    /// The event that happened.
    pub happened: Event,
    /// The event that should have happened; `None` if the simulation has ended.
    pub expected: Option<Event>,
}

/// Compares a trace with a simulation: the same events of the same tasks in the same order, each
/// within `bound` of the simulation's. Misses and overruns are ignored.
pub fn compare(
    trace: &[Event],
    simulation: impl Iterator<Item = Event>,
    bound: Ticks,
) -> Result<Agreement, Difference> {
    let mut simulation = simulation;
    let mut agreement = Agreement {
        events: 0,
        widest: 0,
    };
    for happened in trace.iter().filter(|event| event.kind.is_schedule()) {
        let expected = simulation.next();
        let away = expected.and_then(|expected| away(happened, &expected));
        let Some(away) = away.filter(|away| *away <= bound) else {
            return Err(Difference {
                after: agreement.events,
                happened: *happened,
                expected,
            });
        };
        agreement.events += 1;
        agreement.widest = agreement.widest.max(away);
    }
    Ok(agreement)
}

/// The distance in time between an event and the expected one, if they are the same event.
fn away(happened: &Event, expected: &Event) -> Option<Ticks> {
    let same = happened.task == expected.task && happened.kind == expected.kind;
    same.then_some(happened.time.abs_diff(expected.time))
}
