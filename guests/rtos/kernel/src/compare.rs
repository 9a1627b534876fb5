//! Whether what happened is what should have happened.

use crate::{Event, Ticks};

/// The schedule is the simulation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// How many events were compared.
    pub events: usize,
    /// The most by which one came before or after the simulation's.
    pub widest: Ticks,
}

/// The first event that is not the simulation's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How many events agreed before it.
    pub after: usize,
    /// What happened.
    pub happened: Event,
    /// What should have.
    pub expected: Option<Event>,
}

/// Compares a trace with a simulation: the same events of the same tasks in the same order,
/// each within `bound` of the simulation's. Misses and overruns are passed over.
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

/// How far an event is from the expected one, if it is that one.
fn away(happened: &Event, expected: &Event) -> Option<Ticks> {
    let same = happened.task == expected.task && happened.kind == expected.kind;
    same.then_some(happened.time.abs_diff(expected.time))
}
