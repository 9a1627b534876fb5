//! The words on the command line.

use crate::{DEMO, Description, EDF5, EDF20, OVERLOAD, Policy, RM5, RM20, Set};
use core::fmt;

/// The options from the command line.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `rtos.set` or `rtos.tasks`: the tasks to run; under the policy of `rtos.policy`, if given.
    pub set: Set,
    /// `rtos.expect`: the tasks that the schedule is compared with; `None` if it is not compared.
    pub expect: Option<Set>,
    /// `rtos.seconds` or `rtos.millis`: how many milliseconds the tasks run; 0 is for ever.
    pub millis: u64,
    /// `rtos.report`: the seconds from one report to the next; 0 is only the last report.
    pub report: u64,
    /// `rtos.trace`: the number of events that are printed at the end.
    pub trace: usize,
    /// `rtos.bound`: the largest allowed distance in microseconds of an event from the
    /// simulation's.
    pub bound: u64,
    /// `rtos.cores`: on an emulator that runs cores in turn, the number of busy cores; 1 where they
    /// run at the same time. Jobs do less by this factor, and the timer is never set far ahead.
    pub cores: u64,
    /// `rtos.ask`: the tasks are declared to the hypervisor before they begin, each job with so many microseconds more
    /// than its budget, for the kernel; `None`, or `no`, if they are not.
    pub ask: Option<u64>,
}

/// A word, or a task of `rtos.tasks`, that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistake<'a>(pub &'a str);

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot understand '{}'; ", self.0)?;
        f.write_str(
            "rtos.set and rtos.expect are one of rm20, edf20, rm5, edf5, demo, overload, ",
        )?;
        f.write_str("rtos.expect also none, rtos.policy is one of edf, rm, dm, fixed, ")?;
        f.write_str("rtos.tasks is a list, comma between, of at most 32 different ")?;
        f.write_str("NAME:PERIOD:EXECUTION[:DEADLINE[:OFFSET[:PRIORITY]]] in microseconds ")?;
        f.write_str("(period and deadline at least 100, execution 5), rtos.seconds, ")?;
        f.write_str(
            "rtos.millis, rtos.report, rtos.trace, rtos.bound, rtos.cores and rtos.ask are numbers",
        )
    }
}

/// What the set to run and the set to expect are made of, once all words are read.
#[derive(Default)]
struct Asked {
    policy: Option<Policy>,
    expect: Option<Option<Set>>,
}

impl Options {
    /// Reads the words that begin with `rtos.`. If one occurs twice, the last counts, and so does
    /// the last of two that say the same thing in different ways.
    ///
    /// # Errors
    ///
    /// The first word that is not understood; of `rtos.tasks`, the first wrong task.
    pub fn parse(words: &'static str) -> Result<Self, Mistake<'static>> {
        let mut options = Self {
            set: DEMO,
            expect: None,
            millis: 10_000,
            report: 0,
            trace: 0,
            bound: 5,
            cores: 1,
            ask: None,
        };
        let mut asked = Asked::default();
        for word in words.split_ascii_whitespace() {
            match word.strip_prefix("rtos.").map(|rest| rest.split_once('=')) {
                None => {}
                Some(Some(("tasks", list))) => options.set = described(word, list)?,
                Some(Some(pair)) => options.word(pair, &mut asked).ok_or(Mistake(word))?,
                Some(None) => return Err(Mistake(word)),
            }
        }
        options.set.policy = asked.policy.unwrap_or(options.set.policy);
        let set = options.set;
        options.expect = asked.expect.unwrap_or(set.independent.then_some(set));
        Ok(options)
    }

    fn word(&mut self, (name, value): (&str, &str), asked: &mut Asked) -> Option<()> {
        match name {
            "set" => self.set = set(value)?,
            "policy" => asked.policy = Some(policy(value)?),
            "expect" if value == "none" => asked.expect = Some(None),
            "expect" => asked.expect = Some(Some(set(value)?)),
            "seconds" => self.millis = value.parse::<u64>().ok()?.checked_mul(1_000)?,
            "millis" => self.millis = value.parse().ok()?,
            "report" => self.report = value.parse().ok()?,
            "trace" => self.trace = value.parse().ok()?,
            "bound" => self.bound = value.parse().ok()?,
            "cores" => self.cores = value.parse().ok().filter(|cores| *cores > 0)?,
            "ask" if value == "no" => self.ask = None,
            "ask" => self.ask = Some(value.parse().ok()?),
            _ => return None,
        }
        Some(())
    }
}

fn set(name: &str) -> Option<Set> {
    [RM20, EDF20, RM5, EDF5, DEMO, OVERLOAD]
        .into_iter()
        .find(|set| set.name == name)
}

/// The set of the `list` in this word. A task that is not there is named by the whole word.
fn described(word: &'static str, list: &'static str) -> Result<Set, Mistake<'static>> {
    let named = |task: &'static str| Mistake(if task.is_empty() { word } else { task });
    Description::parse(list).map(Set::described).map_err(named)
}

fn policy(name: &str) -> Option<Policy> {
    Some(match name {
        "edf" => Policy::EarliestDeadline,
        "rm" => Policy::RateMonotonic,
        "dm" => Policy::DeadlineMonotonic,
        "fixed" => Policy::Fixed,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let text = "quiet rtos.set=edf20 rtos.seconds=5 rtos.trace=7 rtos.seconds=2 rtos.ask=9";
        let options = Options::parse(text).unwrap();
        assert_eq!(options.set.name, "edf20");
        assert_eq!((options.millis, options.trace), (2_000, 7));
        assert_eq!(options.ask, Some(9));
        assert_eq!(options.expect.unwrap().name, "edf20");
        assert!(Options::parse("").unwrap().expect.is_none());
        let wrong = Options::parse("rtos.expect=rm20 rtos.set=edf20").unwrap();
        assert_eq!(wrong.expect.unwrap().name, "rm20");
        assert!(
            Options::parse("rtos.set=rm20 rtos.expect=none")
                .unwrap()
                .expect
                .is_none()
        );
    }

    #[test]
    fn tasks_are_described_under_a_policy() {
        let text = "rtos.policy=dm rtos.set=rm20 rtos.tasks=a:500:20,b:700:50:600 rtos.millis=40";
        let options = Options::parse(text).unwrap();
        let set = options.set;
        assert_eq!((set.name, options.millis), ("described", 40));
        assert!(set.entries().map(|entry| entry.name).eq(["a", "b"]));
        assert_eq!(set.policy, Policy::DeadlineMonotonic);
        assert_eq!(options.expect.unwrap().policy, Policy::DeadlineMonotonic);
        let plain = Options::parse("rtos.tasks=a:500:20").unwrap();
        assert_eq!(plain.set.policy, Policy::EarliestDeadline);
        let last = Options::parse("rtos.tasks=a:500:20 rtos.set=rm20 rtos.policy=edf").unwrap();
        assert_eq!(
            (last.set.name, last.set.policy),
            ("rm20", Policy::EarliestDeadline)
        );
    }

    #[test]
    fn mistakes_are_named() {
        for word in [
            "rtos.set=rm21",
            "rtos.secnds=1",
            "rtos.trace=-1",
            "rtos.bound",
            "rtos.cores=0",
            "rtos.ask=yes",
            "rtos.policy=llf",
            "rtos.tasks=",
            "rtos.tasks=a:500:20,",
            "rtos.seconds=99999999999999999",
        ] {
            let text = std::format!("a {word} rtos.seconds=1").leak();
            assert_eq!(Options::parse(text).unwrap_err(), Mistake(word));
        }
        let wrong = Options::parse("rtos.tasks=a:500:20,b:500");
        assert_eq!(wrong.unwrap_err(), Mistake("b:500"));
    }
}
