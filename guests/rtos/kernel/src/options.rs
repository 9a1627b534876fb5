//! The words on the command line.

use crate::{DEMO, EDF5, EDF20, OVERLOAD, RM5, RM20, Set};
use core::fmt;

/// The options from the command line.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `rtos.set`: the tasks to run.
    pub set: &'static Set,
    /// `rtos.expect`: the tasks that the schedule is compared with; `None` if it is not compared.
    pub expect: Option<&'static Set>,
    /// `rtos.seconds`: how long the tasks run; 0 is for ever.
    pub seconds: u64,
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
}

/// A word that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistake<'a>(pub &'a str);

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot understand '{}'; ", self.0)?;
        f.write_str(
            "rtos.set and rtos.expect are one of rm20, edf20, rm5, edf5, demo, overload, ",
        )?;
        f.write_str("rtos.seconds, rtos.report, rtos.trace, rtos.bound and rtos.cores are numbers")
    }
}

impl Options {
    /// Reads the words that begin with `rtos.`. If one occurs twice, the last counts.
    pub fn parse(words: &str) -> Result<Self, Mistake<'_>> {
        let mut options = Self {
            set: &DEMO,
            expect: None,
            seconds: 10,
            report: 0,
            trace: 0,
            bound: 5,
            cores: 1,
        };
        let mut expect = None;
        for word in words.split_ascii_whitespace() {
            if let Some(rest) = word.strip_prefix("rtos.") {
                options.word(rest, &mut expect).ok_or(Mistake(word))?;
            }
        }
        let set = options.set;
        options.expect = expect.or(set.independent.then_some(set));
        Ok(options)
    }

    fn word(&mut self, word: &str, expect: &mut Option<&'static Set>) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        match name {
            "set" => self.set = set(value)?,
            "expect" => *expect = Some(set(value)?),
            "seconds" => self.seconds = value.parse().ok()?,
            "report" => self.report = value.parse().ok()?,
            "trace" => self.trace = value.parse().ok()?,
            "bound" => self.bound = value.parse().ok()?,
            "cores" => self.cores = value.parse().ok().filter(|cores| *cores > 0)?,
            _ => return None,
        }
        Some(())
    }
}

fn set(name: &str) -> Option<&'static Set> {
    [&RM20, &EDF20, &RM5, &EDF5, &DEMO, &OVERLOAD]
        .into_iter()
        .find(|set| set.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read() {
        let text = "quiet rtos.set=edf20 rtos.seconds=5 rtos.trace=7 rtos.seconds=2";
        let options = Options::parse(text).unwrap();
        assert_eq!(options.set.name, "edf20");
        assert_eq!((options.seconds, options.trace), (2, 7));
        assert_eq!(options.expect.unwrap().name, "edf20");
        assert!(Options::parse("").unwrap().expect.is_none());
        let wrong = Options::parse("rtos.expect=rm20 rtos.set=edf20").unwrap();
        assert_eq!(wrong.expect.unwrap().name, "rm20");
    }

    #[test]
    fn mistakes_are_named() {
        for word in [
            "rtos.set=rm21",
            "rtos.secnds=1",
            "rtos.trace=-1",
            "rtos.bound",
            "rtos.cores=0",
        ] {
            let text = std::format!("a {word} rtos.seconds=1");
            assert_eq!(Options::parse(&text).unwrap_err(), Mistake(word));
        }
    }
}
