//! When to ask the board for what, and what its answers mean. Nothing here reads a clock or waits.
//!
//! One request is under way at a time, changes before reports. A report is over when all of it has
//! come, or a second after its last line: a core that does not answer is shown as such, and a board
//! that answers nothing as an older one, which has no report channel. A run in the board's place serves
//! others, too, so that it may take longer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hanok_console::report_lines::ReportLines;

use crate::change::{self, Change, Fate};
use crate::protocol::{self, Heard, Item, VcpuId, Verdict};
use crate::report::Report;
use crate::state::{Outcome, Shared, State, Status};
use crate::view::View;

/// How long an answer of the board is awaited.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How long that of a run, which others ask, too; and how long a report takes at most, on however slow a line.
const PATIENCE_WITH_RUN: Duration = Duration::from_secs(8);
/// How many changes may wait.
const MOST_CHANGES: usize = 16;

/// What is said where nobody answers.
const SILENT: &str = "The board does not answer on the report channel: it runs an older Hanok, or none, \
                      or its line is not framed (hanok.console=framed)";

/// The request that is under way.
#[derive(Debug)]
enum UnderWay {
    Report {
        number: u64,
        since: Instant,
        /// When its last line came.
        heard: Instant,
        report: Report,
    },
    Change {
        number: u64,
        id: VcpuId,
        since: Instant,
    },
}

/// The engine.
pub struct Engine {
    shared: Shared,
    interval: Duration,
    patience: Duration,
    lines: ReportLines,
    under_way: Option<UnderWay>,
    changes: VecDeque<(u64, Change)>,
    next_report: Instant,
    number: u64,
    /// The report before.
    last: Option<Arc<Report>>,
}

impl Engine {
    /// An engine that asks for a report each `interval`, of a run or of a board itself.
    pub fn new(shared: Shared, interval: Duration, of_run: bool, now: Instant) -> Self {
        Self {
            shared,
            interval,
            patience: if of_run { PATIENCE_WITH_RUN } else { PATIENCE },
            lines: ReportLines::default(),
            under_way: None,
            changes: VecDeque::new(),
            next_report: now,
            number: 0,
            last: None,
        }
    }

    /// Has reports numbered from the one after `number` on.
    pub const fn number_from(&mut self, number: u64) {
        self.number = number;
    }

    /// Handles a line of which it is not known who says it. Only the board knows a report's number: the answer is
    /// whether it is a line of the report that is asked for.
    pub fn overheard(&mut self, line: &str, now: Instant) -> bool {
        let asked = match &self.under_way {
            Some(UnderWay::Report { number, .. }) => *number,
            _ => return false,
        };
        match protocol::parse(line) {
            Some(Heard::Item(number, item)) if number == asked => {
                self.item(number, item, now);
                true
            }
            _ => false,
        }
    }

    /// Takes a change.
    pub fn change(&mut self, number: u64, change: Change) {
        if self.changes.len() < MOST_CHANGES {
            return self.changes.push_back((number, change));
        }
        let words = "too many changes wait already".to_owned();
        let fate = Fate::Refused;
        self.decided(number, Outcome { fate, words });
    }

    /// The next line for the board.
    pub fn ask(&mut self, now: Instant) -> Option<String> {
        if self.under_way.is_some() {
            return None;
        }
        if let Some((number, change)) = self.changes.pop_front() {
            self.under_way = Some(UnderWay::Change {
                number,
                id: change.id,
                since: now,
            });
            return Some(change.request());
        }
        if now < self.next_report {
            return None;
        }
        // A board that is slower than the interval is asked again at once, and not twice.
        self.next_report = now + self.interval;
        self.number += 1;
        self.under_way = Some(UnderWay::Report {
            number: self.number,
            since: now,
            heard: now,
            report: Report::default(),
        });
        Some(protocol::ask_report(self.number))
    }

    /// When something is due.
    pub fn wake(&self) -> Instant {
        match &self.under_way {
            Some(UnderWay::Report {
                since,
                heard,
                report,
                ..
            }) if report.has_begun() => (*heard + PATIENCE).min(*since + PATIENCE_WITH_RUN),
            Some(UnderWay::Report { since, .. }) => *since + self.patience,
            Some(UnderWay::Change { since, .. }) => *since + self.patience,
            None => self.next_report,
        }
    }

    /// Handles bytes of the report channel.
    pub fn heard(&mut self, bytes: &[u8], now: Instant) {
        for byte in bytes {
            let Some(line) = self.lines.feed(*byte) else {
                continue;
            };
            match protocol::parse(&line) {
                Some(Heard::Item(number, item)) => self.item(number, item, now),
                Some(Heard::Verdict(verdict)) => self.verdict(&verdict, now),
                None => self.shared.update(|state| state.garbled += 1),
            }
        }
    }

    fn item(&mut self, of: u64, item: Item, now: Instant) {
        let Some(UnderWay::Report {
            number,
            heard,
            report,
            ..
        }) = &mut self.under_way
        else {
            return;
        };
        if of != *number {
            return;
        }
        *heard = now;
        if item == Item::Unanswered {
            self.under_way = None;
            return self.silent(now);
        }
        report.add(item);
        if report.is_complete() {
            self.reported(now);
        }
    }

    fn verdict(&mut self, verdict: &Verdict, now: Instant) {
        match (&self.under_way, verdict) {
            (Some(UnderWay::Report { .. }), Verdict::Unknown(word)) if word == "report" => {
                self.under_way = None;
                self.silent(now);
            }
            (Some(UnderWay::Change { number, id, .. }), _) => {
                let theirs = match verdict {
                    Verdict::Changed { id, .. } | Verdict::Refused { id, .. } => Some(id),
                    Verdict::Unknown(_) => None,
                };
                if theirs.is_some_and(|theirs| theirs != id) {
                    return;
                }
                let number = *number;
                self.under_way = None;
                // The next report shows it, and is not waited for.
                self.next_report = now;
                let (frequency, ticks) = self
                    .last
                    .as_ref()
                    .map_or((0, 0), |last| (last.frequency, last.now));
                let words = change::words(verdict, frequency, ticks);
                let fate = change::fate(verdict);
                self.decided(number, Outcome { fate, words });
            }
            _ => {}
        }
    }

    fn decided(&self, number: u64, outcome: Outcome) {
        self.shared.update(|state| state.decided(number, outcome));
    }

    /// Ends what is overdue.
    pub fn overdue(&mut self, now: Instant) {
        if now < self.wake() {
            return;
        }
        match &self.under_way {
            Some(UnderWay::Report { report, .. }) if report.has_begun() => self.reported(now),
            Some(UnderWay::Report { .. }) => {
                self.under_way = None;
                self.silent(now);
            }
            Some(UnderWay::Change { number, .. }) => {
                let outcome = Outcome {
                    fate: Fate::Unanswered,
                    words: change::UNANSWERED.to_owned(),
                };
                let number = *number;
                self.under_way = None;
                self.decided(number, outcome);
            }
            None => {}
        }
    }

    /// Publishes the report that has come.
    fn reported(&mut self, now: Instant) {
        let Some(UnderWay::Report { report, .. }) = self.under_way.take() else {
            return;
        };
        // The first one may have been awaited for long: rates are of a whole interval from the beginning.
        if self.last.is_none() {
            self.next_report = now + self.interval;
        }
        let report = Arc::new(report);
        let view = View::of(self.last.as_deref(), &report);
        let began_anew = self
            .last
            .as_ref()
            .is_some_and(|last| last.now >= report.now || last.frequency != report.frequency);
        self.shared.update(|state| {
            if began_anew {
                state.timeline.clear();
            }
            state.timeline.add(&report);
            state.view = Arc::new(view);
            state.report = Arc::clone(&report);
            state.status = Status::Live;
        });
        self.last = Some(report);
    }

    fn silent(&mut self, now: Instant) {
        self.next_report = now + PATIENCE;
        self.shared.update(|state: &mut State| {
            state.status = Status::Silent(SILENT.to_owned());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Promised;

    struct World {
        engine: Engine,
        shared: Shared,
        now: Instant,
        _commands: std::sync::mpsc::Receiver<crate::state::Command>,
    }

    impl World {
        fn new(of_run: bool) -> Self {
            let (shared, commands) = Shared::new("x");
            let now = Instant::now();
            Self {
                engine: Engine::new(shared.clone(), Duration::from_millis(500), of_run, now),
                shared,
                now,
                _commands: commands,
            }
        }

        fn hear(&mut self, text: &str) {
            self.engine.heard(text.as_bytes(), self.now);
        }

        fn ask(&mut self) -> Option<String> {
            self.engine.ask(self.now)
        }

        fn pass(&mut self) {
            self.now = self.engine.wake();
            self.engine.overdue(self.now);
        }
    }

    fn change() -> Change {
        let to = Promised::Interface {
            period: 10,
            budget: 5,
            deadline: 10,
        };
        let id = VcpuId { vm: 0, vcpu: 1 };
        Change { id, to }
    }

    #[test]
    fn reports_come_one_by_one_and_changes_between_them() {
        let mut world = World::new(false);
        assert_eq!(world.ask().as_deref(), Some("report 1"));
        world.engine.change(0, change());
        assert_eq!(world.ask(), None, "one at a time");
        world.hear("board 1000 5 1 0 1\ncore 0 turns - 5 1 1 1 1 1\nend 2\nen");
        assert_eq!(world.shared.lock().status, Status::Waiting);
        world.hear("d 1\nnonsense\n");
        assert_eq!(world.shared.lock().status, Status::Live);
        assert_eq!(world.shared.lock().garbled, 1);
        assert_eq!(world.ask().as_deref(), Some("change 0 1 10 5 10"));
        world.hear("changed 0 0 7\nchanged 0 1 7\n");
        assert!(
            world
                .shared
                .lock()
                .outcome(0)
                .is_some_and(|outcome| outcome.fate == Fate::Changed(7))
        );
        assert_eq!(world.ask().as_deref(), Some("report 2"), "at once");
    }

    #[test]
    fn a_report_is_awaited_as_long_as_it_comes() {
        let mut world = World::new(true);
        world.ask();
        world.now += Duration::from_secs(5);
        for line in ["board 1000 5 2 0 1\n", "core 0 turns - 5 1 1 1 1 1\n"] {
            world.hear(line);
            world.now += Duration::from_millis(900);
            world.engine.overdue(world.now);
            assert_eq!(world.shared.lock().status, Status::Waiting);
        }
        world.hear("core 1 turns - 5 1 1 1 1 1\nend 1\n");
        let state = world.shared.lock();
        assert!(state.view.cores.iter().all(|core| core.answered));
    }

    #[test]
    fn the_first_rates_are_of_a_whole_interval() {
        let mut world = World::new(false);
        world.ask();
        world.now += Duration::from_millis(900);
        world.hear("board 1000 5 1 0 1\ncore 0 turns - 5 1 1 1 1 1\nend 1\n");
        assert_eq!(world.ask(), None);
        world.now += Duration::from_millis(500);
        assert_eq!(world.ask().as_deref(), Some("report 2"));
    }

    #[test]
    fn a_core_that_does_not_answer_is_shown_without() {
        let mut world = World::new(true);
        world.ask();
        world.hear("board 1000 5 2 0 1\ncore 0 turns - 5 1 1 1 1 1\nend 1\n");
        world.pass();
        let state = world.shared.lock();
        let answered: Vec<_> = state.view.cores.iter().map(|core| core.answered).collect();
        assert_eq!(answered, [true, false]);
    }

    #[test]
    fn an_older_board_is_known_after_a_second() {
        let mut world = World::new(false);
        world.ask();
        let began = world.now;
        world.pass();
        assert_eq!(world.now - began, PATIENCE);
        assert!(matches!(world.shared.lock().status, Status::Silent(_)));
        assert_eq!(world.ask(), None);
        world.pass();
        assert_eq!(world.ask().as_deref(), Some("report 2"));
        world.hear("unknown report\n");
        assert_eq!(world.ask(), None);
        world.engine.change(5, change());
        world.ask();
        world.pass();
        let state = world.shared.lock();
        let unanswered = |outcome: &Outcome| outcome.fate == Fate::Unanswered;
        assert!(state.outcome(5).is_some_and(unanswered));
    }

    #[test]
    fn a_run_says_that_its_board_does_not_answer() {
        let mut world = World::new(true);
        world.ask();
        world.hear("unanswered 1\n");
        assert!(matches!(world.shared.lock().status, Status::Silent(_)));
    }
}
