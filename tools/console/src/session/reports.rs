//! Requests of attached terminals for the board's report channel (docs/top.md).
//!
//! The board answers one request at a time, and knows nobody but this run. So requests wait here,
//! changes before reports, and each report gets a number of the run's own, by which its lines find
//! back to who asked, also those that cores send after the report's end. No terminal can hold another
//! one up: each has a few requests here, and a board that does not answer is not waited for.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::report_lines::LONGEST_REQUEST;

/// The longest time that an answer is awaited.
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of requests of one terminal that may wait.
const MOST: usize = 4;
/// The number of reports that have ended and whose lines are still given on.
const EARLIER: usize = 8;

/// What a terminal asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Question {
    /// A report with this number of the terminal's.
    Report(String),
    /// A change of this vCPU or of what is traced, or what the board may know: its answer begins with the same two words.
    Other { line: String, of: [String; 2] },
}

impl Question {
    fn new(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().is_ok();
        if let ["report", own] = words.as_slice()
            && number(own)
        {
            return Self::Report((*own).to_owned());
        }
        let word = |place: usize| words.get(place).map_or("0", |word| *word).to_owned();
        Self::Other {
            line: line.to_owned(),
            of: [word(1), word(2)],
        }
    }

    fn is_report(&self) -> bool {
        matches!(self, Self::Report(_))
    }

    /// The answer in the board's place: that there is none, for `why`.
    fn refusal(&self, why: &str) -> String {
        match self {
            Self::Report(own) => format!("unanswered {own}"),
            Self::Other { of: [vm, vcpu], .. } => format!("refused {vm} {vcpu} {why} 0 0 0"),
        }
    }
}

#[derive(Debug)]
struct Asked {
    visitor: usize,
    question: Question,
}

/// The request that the board is answering.
#[derive(Debug)]
struct UnderWay {
    asked: Asked,
    number: u64,
    since: Instant,
    answered: bool,
    /// The numbers of lines of cores and of vCPUs that are still to come, once they are known.
    missing: Option<[u64; 2]>,
    ended: bool,
}

impl UnderWay {
    fn is_complete(&self) -> bool {
        self.ended && self.missing.is_none_or(|missing| missing == [0, 0])
    }
}

/// All requests of all terminals.
#[derive(Debug, Default)]
pub(super) struct Reports {
    waiting: VecDeque<Asked>,
    under_way: Option<UnderWay>,
    /// The numbers of ended reports: the run's, whose it is, and the terminal's own.
    earlier: VecDeque<(u64, usize, String)>,
    last: u64,
    answers: Vec<(usize, String)>,
}

impl Reports {
    /// Takes a request of a terminal.
    pub(super) fn ask(&mut self, visitor: usize, line: &str) {
        let question = Question::new(line);
        let own = self.waiting.iter().filter(|asked| asked.visitor == visitor);
        let is_request =
            line.len() <= LONGEST_REQUEST && line.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !is_request || own.count() >= MOST {
            let why = question.refusal("busy");
            return self.answers.push((visitor, why));
        }
        let asked = Asked { visitor, question };
        // A change goes before all reports, and after the changes that came before it.
        let place = self
            .waiting
            .iter()
            .position(|other| other.question.is_report() && !asked.question.is_report());
        let place = place.unwrap_or(self.waiting.len());
        self.waiting.insert(place, asked);
    }

    /// The next line for the board, unless it is still answering.
    pub(super) fn next(&mut self, now: Instant) -> Option<String> {
        if self.under_way.is_some() {
            return None;
        }
        let asked = self.waiting.pop_front()?;
        let (line, number) = match &asked.question {
            Question::Report(_) => {
                self.last += 1;
                (format!("report {}", self.last), self.last)
            }
            Question::Other { line, .. } => (line.clone(), 0),
        };
        self.under_way = Some(UnderWay {
            asked,
            number,
            since: now,
            answered: false,
            missing: None,
            ended: false,
        });
        Some(line)
    }

    /// Handles a line of the board.
    pub(super) fn board(&mut self, line: &str, _now: Instant) {
        let Some((rest, last)) = line.rsplit_once(' ') else {
            return;
        };
        let word = line.split(' ').next().unwrap_or_default();
        match word {
            "changed" | "refused" | "traced" | "unknown" => self.answered(word, line),
            _ => self.of_report(word, rest, last),
        }
        if self.under_way.as_ref().is_some_and(UnderWay::is_complete) {
            self.finish();
        }
    }

    /// Handles the one line that answers a request for anything but a report.
    fn answered(&mut self, word: &str, line: &str) {
        let Some(way) = &mut self.under_way else {
            return;
        };
        let own = match &way.asked.question {
            Question::Report(_) => word == "unknown",
            Question::Other { of, .. } => {
                let mut fields = line.split(' ').skip(1);
                word == "unknown" || of.iter().all(|own| fields.next() == Some(own.as_str()))
            }
        };
        // An answer to an earlier request that came too late.
        if !own {
            return;
        }
        (way.answered, way.ended) = (true, true);
        self.answers.push((way.asked.visitor, line.to_owned()));
    }

    fn of_report(&mut self, word: &str, rest: &str, last: &str) {
        let Ok(number) = last.parse::<u64>() else {
            return;
        };
        match &mut self.under_way {
            Some(way) if way.number == number && way.asked.question.is_report() => {
                way.answered = true;
                note(way, word, rest);
                if let Question::Report(own) = &way.asked.question {
                    self.answers
                        .push((way.asked.visitor, format!("{rest} {own}")));
                }
            }
            _ => {
                let mut earlier = self.earlier.iter();
                if let Some((_, visitor, own)) = earlier.find(|(theirs, ..)| *theirs == number) {
                    self.answers.push((*visitor, format!("{rest} {own}")));
                }
            }
        }
    }

    fn finish(&mut self) {
        let Some(way) = self.under_way.take() else {
            return;
        };
        if let Question::Report(own) = way.asked.question {
            self.earlier.push_back((way.number, way.asked.visitor, own));
            if self.earlier.len() > EARLIER {
                self.earlier.pop_front();
            }
        }
    }

    /// What is for terminals now: lines, each with the number of its terminal.
    pub(super) fn answers(&mut self, now: Instant) -> Vec<(usize, String)> {
        let overdue = |way: &&UnderWay| now.saturating_duration_since(way.since) >= PATIENCE;
        if let Some(way) = self.under_way.as_ref().filter(overdue) {
            if !way.answered {
                let why = way.asked.question.refusal("unanswered");
                self.answers.push((way.asked.visitor, why));
            }
            self.finish();
        }
        std::mem::take(&mut self.answers)
    }

    /// When the board's answer is overdue.
    pub(super) fn wake(&self) -> Option<Instant> {
        self.under_way.as_ref().map(|way| way.since + PATIENCE)
    }

    /// Forgets a terminal that has gone. What the board still answers it is nobody's.
    pub(super) fn went(&mut self, visitor: usize) {
        self.waiting.retain(|asked| asked.visitor != visitor);
        self.earlier.retain(|(_, whose, _)| *whose != visitor);
        self.answers.retain(|(whose, _)| *whose != visitor);
    }
}

/// Notes what a line of a report says about the rest of it.
fn note(way: &mut UnderWay, word: &str, rest: &str) {
    match (word, &mut way.missing) {
        ("board", missing) => {
            let mut fields = rest.split(' ').skip(3);
            let mut count = || fields.next()?.parse().ok();
            *missing = count().and_then(|cores| Some([cores, count()?]));
        }
        ("core", Some([cores, _])) => *cores = cores.saturating_sub(1),
        ("vcpu", Some([_, vcpus])) => *vcpus = vcpus.saturating_sub(1),
        ("end", _) => way.ended = true,
        _ => {}
    }
}

#[cfg(test)]
mod tests;
