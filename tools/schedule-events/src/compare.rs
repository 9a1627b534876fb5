//! Two schedules beside one another, event by event. An event is that somebody else has the core from now on.

use crate::Span;

/// How far an event may be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Each event: how late the board may notice that it is due.
    pub each: u64,
    /// More for each event that it may depend on, itself included: by so much one may add to how far the next is away.
    pub carried: u64,
}

impl Bound {
    /// Of an event that depends on so many, itself included.
    pub fn allowed(self, events: u64) -> u64 {
        self.each + self.carried * events
    }
}

/// Somebody, or nobody, has the core from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The instant.
    pub at: u64,
    /// Who has it now; `None`: no server.
    pub who: Option<String>,
}

/// Schedules that agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// How many events were compared.
    pub events: usize,
    /// The most that one was away.
    pub widest: u64,
    /// How far that one might have been.
    pub allowed: u64,
    /// The most that was allowed anywhere.
    pub most_allowed: u64,
}

/// The first event that is not the same one, or not when it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How many events agreed.
    pub after: usize,
    /// What happened on the board.
    pub happened: Option<Event>,
    /// What was simulated.
    pub expected: Option<Event>,
    /// How far it might be away.
    pub allowed: u64,
}

/// Compares what happened on a core after `from`, at which no server has it, with what is expected until `until`.
/// An event at an instant depends on no event before what `depends` says for that instant.
///
/// # Errors
/// The first difference.
pub fn compare(
    happened: &[Span],
    expected: &[Span],
    (from, until): (u64, u64),
    bound: Bound,
    depends: impl Fn(u64) -> u64,
) -> Result<Agreement, Difference> {
    let (happened, expected) = (events(happened, from), events(expected, from));
    let mut agreement = Agreement::default();
    for at in 0.. {
        let pair = (happened.get(at), expected.get(at));
        let instants = [pair.0, pair.1].into_iter().flatten().map(|event| event.at);
        let (Some(first), Some(last)) = (instants.clone().min(), instants.max()) else {
            break;
        };
        let since = depends(first);
        let count = expected.iter().take(at).filter(|e| e.at >= since).count() as u64 + 1;
        let allowed = bound.allowed(count);
        let alone = pair.0.is_none() || pair.1.is_none();
        // On the other side it may come after the end.
        if first >= until || (alone || last >= until) && until - first <= allowed {
            break;
        }
        let away = match pair {
            (Some(one), Some(other)) if one.who == other.who => last - first,
            _ => u64::MAX,
        };
        if away > allowed {
            return Err(Difference {
                after: at,
                happened: pair.0.cloned(),
                expected: pair.1.cloned(),
                allowed,
            });
        }
        if away > agreement.widest {
            (agreement.widest, agreement.allowed) = (away, allowed);
        }
        agreement.most_allowed = agreement.most_allowed.max(allowed);
        agreement.events = at + 1;
    }
    Ok(agreement)
}

/// The events after `from`.
pub fn events(spans: &[Span], from: u64) -> Vec<Event> {
    let later = spans.iter().filter(|span| span.since > from);
    let each = later.map(|span| Event {
        at: span.since,
        who: span.who.clone(),
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: Bound = Bound {
        each: 2,
        carried: 1,
    };

    /// From 0 on nobody has the core; then each has it from its instant on.
    fn spans(all: &[(u64, &str)]) -> Vec<Span> {
        let mut spans = Vec::new();
        let (mut since, mut who) = (0, None);
        for (until, next) in all.iter().copied().chain([(1_000, "")]) {
            spans.push(Span { who, since, until });
            (since, who) = (until, Some(next.to_owned()).filter(|who| !who.is_empty()));
        }
        spans
    }

    const RIGHT: [(u64, &str); 5] = [(100, "a"), (150, "b"), (200, ""), (300, "b"), (340, "")];

    fn beside(happened: &[(u64, &str)]) -> Result<Agreement, Difference> {
        let (happened, expected) = (spans(happened), spans(&RIGHT));
        compare(&happened, &expected, (50, 900), BOUND, |at| at / 250 * 250)
    }

    #[test]
    fn what_is_late_by_as_much_as_may_be_agrees() {
        let late = [(103, "a"), (154, "b"), (205, ""), (303, "b"), (344, "")];
        let agreement = beside(&late).unwrap();
        assert_eq!((agreement.events, agreement.widest), (5, 5));
        assert_eq!((agreement.allowed, agreement.most_allowed), (5, 5));
        for at in 0..late.len() {
            let mut later = late;
            later[at].0 += 1;
            assert_eq!(beside(&later).unwrap_err().after, at);
            let mut early = RIGHT;
            early[at].0 = 2 * RIGHT[at].0 - late[at].0;
            assert!(beside(&early).is_ok());
            early[at].0 -= 1;
            assert_eq!(beside(&early).unwrap_err().after, at);
        }
    }

    #[test]
    fn another_one_or_one_less_or_one_more_differs() {
        for at in 0..RIGHT.len() {
            let mut other = RIGHT;
            other[at].1 = if RIGHT[at].1 == "c" { "d" } else { "c" };
            assert_eq!(beside(&other).unwrap_err().after, at);
            let less: Vec<_> = RIGHT[..at]
                .iter()
                .chain(&RIGHT[at + 1..])
                .copied()
                .collect();
            assert!(beside(&less).unwrap_err().after <= at);
        }
        let mut swapped = RIGHT;
        (swapped[0].1, swapped[1].1) = ("b", "a");
        assert_eq!(beside(&swapped).unwrap_err().after, 0);
        let more = [&RIGHT[..], &[(400, "a"), (401, "")]].concat();
        let difference = beside(&more).unwrap_err();
        assert_eq!((difference.after, difference.expected), (5, None));
        assert_eq!(beside(&[]).unwrap_err().happened, None);
    }

    #[test]
    fn what_is_due_at_the_end_may_come_after_it() {
        let (expected, late) = (spans(&RIGHT[..1]), spans(&[]));
        let beside = |until| compare(&late, &expected, (50, until), BOUND, |_| 0);
        assert!(beside(100).is_ok());
        assert!(beside(103).is_ok());
        assert!(beside(104).is_err());
    }
}
