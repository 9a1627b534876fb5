//! One run of a board: QEMU as a child, its serial line taken apart, watched and shown.
//!
//! Threads only carry bytes (`carry.rs`, `outlet.rs`). One loop decides everything, and waits for
//! nothing but its [`Inbox`]. So signals and the time limit are handled at once, whatever the board
//! writes and even if nobody reads the output.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use super::clock::Clock;
use super::demux::{Channel, Demux, Piece, Receiver};
use super::inbox::{Accepts, Inbox, Incoming};
use super::keys::Keys;
use super::last_line::LastLine;
use super::log::{self, Lines, Said};
use super::outbox::Outbox;
use super::outlet::Outlet;
use super::prompt::{self, Prompt};
use super::report_lines::ReportLines;
use super::request::{Extras, Hears, Report, Request, Sink};
use super::screen::{Kind, Screen, ScreenOutput};
use super::terminal::{self, Raw};
use super::watch::{Awaited, ScriptAction, Watch};
use hanok_base::exit::Code;

use output::Terminal;
use reports::Reports;
use run_end::RunEnd;
use visitors::Visitors;

pub(crate) mod output;
mod person;
mod reports;
pub(crate) mod run_end;
mod visitors;
mod visits;

/// The number of keys waiting for a VM from which on no more are taken.
const KEYS: usize = 64 << 10;
/// What is accepted once the board has ended.
const KEYS_ALONE: Accepts = Accepts {
    keys: true,
    board: false,
    visitors: false,
};

/// A run in progress.
pub(crate) struct Session {
    request: Request,
    /// The output to the board.
    line: Option<Outlet>,
    /// The output to the user.
    terminal: Outlet,
    consoles: Vec<Option<Outlet>>,
    log_file: Option<Outlet>,
    report_file: Option<Outlet>,
    /// The number of keys that were not taken because too many wait already.
    unsent: usize,
    screen: Screen,
    outbox: Outbox,
    demux: Demux,
    lines: Lines,
    keys: Keys,
    prompt: Prompt,
    watch: Watch,
    last_lines: Vec<LastLine>,
    visitors: Visitors,
    reports: Reports,
    report_line: ReportLines,
    stats: Option<&'static str>,
    hears: Option<Hears>,
    /// The clock by which the run's time is counted. A script's pauses are the wall's: a guest that is paused has a
    /// clock that goes on with it.
    pub(crate) clock: Clock,
    pub(crate) run_end: RunEnd,
}

impl Session {
    pub(crate) fn new(
        mut request: Request,
        extras: Extras,
        (line, outbox): (Option<Outlet>, Outbox),
        terminal: Terminal,
        raw: bool,
        inbox: &Arc<Inbox>,
    ) -> Self {
        let (demux, kind) = match (request.framed, raw) {
            (true, false) => (Demux::framed(), Kind::Lines),
            (true, true) => (Demux::framed(), Kind::Person),
            (false, true) => (Demux::plain(), Kind::Person),
            (false, false) => (Demux::plain(), Kind::Plain),
        };
        let steps = std::mem::take(&mut request.steps);
        let watch = Watch::new(&request.vms, steps, request.until.take());
        let consoles = request.consoles.drain(..);
        let consoles = consoles.map(|sink| file(sink, inbox)).collect();
        let log_file = file(std::mem::replace(&mut request.log, Sink::Show), inbox);
        let report_file = extras.reports.and_then(|sink| file(sink, inbox));
        let output = ScreenOutput {
            out: Box::new(terminal.outlet.way(0)),
            log: Box::new(terminal.outlet.way(1)),
            is_terminal: raw || terminal.is_terminal,
            is_one: terminal.is_one,
        };
        let mut screen = Screen::new(output, &request.vms, kind);
        screen.keys_go_to(Receiver::Vm(extras.first));
        let visitors = Visitors::new(extras.attach_socket, request.vms.len(), inbox);
        Self {
            line,
            screen,
            terminal: terminal.outlet,
            consoles,
            log_file,
            report_file,
            unsent: 0,
            outbox,
            prompt: Prompt::new(&request.vms),
            last_lines: request.vms.iter().map(|_| LastLine::default()).collect(),
            visitors,
            reports: Reports::default(),
            report_line: ReportLines::default(),
            stats: extras.stats,
            hears: extras.hears,
            clock: Clock::of(None),
            run_end: RunEnd::new(request.poweroff, request.framed),
            request,
            demux,
            lines: Lines::default(),
            keys: Keys::default(),
            watch,
        }
    }

    /// Handles what comes until the run has an outcome; `None` when QEMU ended.
    pub(crate) fn serve(&mut self, inbox: &Inbox) -> Option<Report> {
        let begun = self.clock.at(Instant::now());
        let deadline = self.request.timeout.map(|time| begun + time);
        loop {
            let now = Instant::now();
            let of_board = self.clock.at(now);
            let verdict = self.advance(now);
            let verdict = verdict.or_else(|| self.graced(now));
            let verdict = verdict.or_else(|| self.overdue(deadline, of_board));
            if let Some(verdict) = verdict.or_else(|| self.failed()) {
                return Some(verdict);
            }
            self.screen.overdue(now);
            self.give_answers(now);
            self.send_waiting(now);
            let wake = self.watch.wake(now).map(|time| now + time);
            let end = deadline.map(|at| self.clock.wall(at));
            let reports = self.reports.wake();
            let wake = [end, self.run_end.grace(), wake, self.screen.wake(), reports];
            let next = wake.into_iter().flatten().min();
            let verdict = match inbox.next(self.accepts(), next) {
                Incoming::Board(bytes) => self.board(&bytes),
                Incoming::Keys(bytes) => self.typed(&bytes),
                Incoming::Visitor(number, visit) => {
                    self.visitor(number, visit);
                    None
                }
                Incoming::Signal(signal) => Some(Report::new(
                    Code::Interrupted,
                    format!("interrupted by signal {signal}"),
                )),
                Incoming::Closed => return None,
                Incoming::Nothing | Incoming::Outlet => None,
            };
            if verdict.is_some() {
                return verdict;
            }
        }
    }

    /// No more is taken of the board than its readers take, and no more piped data than the board
    /// takes. A person's keys are always taken: they may end the run.
    fn accepts(&self) -> Accepts {
        Accepts {
            keys: self.screen.is_raw() || self.outbox.waiting() < KEYS,
            visitors: self.outbox.waiting() < KEYS,
            board: self.outlets().all(Outlet::has_room),
        }
    }

    /// All outlets that text goes to.
    fn outlets(&self) -> impl Iterator<Item = &Outlet> {
        let others = [&self.log_file, &self.report_file];
        let files = self.consoles.iter().chain(others).flatten();
        files.chain([&self.terminal])
    }

    /// A failed output ends the run, because the rest of it would be lost.
    fn failed(&self) -> Option<Report> {
        let why = self.outlets().find_map(Outlet::failure)?;
        Some(Report::new(Code::Output, why))
    }

    fn advance(&mut self, now: Instant) -> Option<Report> {
        for todo in self.watch.advance(now) {
            match todo {
                ScriptAction::Send(vm, bytes) => self.outbox.send(vm, &bytes),
                ScriptAction::Key(bytes) => self.outbox.keys(&bytes),
                ScriptAction::Raw(bytes) => self.put(&bytes),
                ScriptAction::Succeed => {
                    return Some(Report::new(Code::Success, "the script is done"));
                }
            }
        }
        None
    }

    /// The hypervisor said how it ends, and has had time to switch the board off.
    fn graced(&self, now: Instant) -> Option<Report> {
        let over = self.run_end.grace().is_some_and(|at| at <= now);
        over.then(|| self.run_end.judge((None, ""), self.watch.awaited()))
    }

    fn overdue(&self, deadline: Option<Instant>, now: Instant) -> Option<Report> {
        deadline.filter(|at| *at <= now)?;
        let what = self.watch.awaited().unwrap_or_else(|| "the end".to_owned());
        let why = format!(
            "the time was over while awaiting {what}; {}",
            self.last_words()
        );
        Some(Report::new(Code::Timeout, why))
    }

    /// The last line of each VM, or of the VM that the script speaks to.
    fn last_words(&self) -> String {
        let focus = self.watch.focus();
        let all = self.request.vms.iter().zip(&self.last_lines).enumerate();
        let asked = all.filter(|(vm, _)| focus.is_none_or(|focus| *vm == focus));
        let words = asked.map(|(_, (name, last))| match last.text() {
            Some(line) => format!("the last line of {name}: {line}"),
            None => format!("{name} has said nothing"),
        });
        words.collect::<Vec<_>>().join("; ")
    }

    fn board(&mut self, bytes: &[u8]) -> Option<Report> {
        let mut seen = false;
        for piece in self.demux.feed(bytes) {
            match piece {
                Piece::Text(channel, text) => {
                    seen |= self.watch.push(channel, &text) == Awaited::Came;
                    match channel {
                        Channel::Log => self.log(&text),
                        Channel::Vm(vm) => self.console(vm, &text),
                        Channel::Report => {
                            if let Some(file) = &self.report_file {
                                file.push(&text);
                            }
                            self.reported(&text);
                        }
                    }
                }
                Piece::KeysGoTo(receiver) => {
                    self.outbox.keys_go_to(receiver);
                    self.visitors.done(&self.outbox);
                }
                Piece::Consumed(vm) => self.outbox.consumed(vm),
            }
        }
        seen.then(|| Report::new(Code::Success, "the awaited text came"))
    }

    fn console(&mut self, vm: usize, bytes: &[u8]) {
        self.outbox.vm_spoke();
        if let Some(last) = self.last_lines.get_mut(vm) {
            last.feed(bytes);
        }
        self.visitors.vm(vm, bytes);
        match self.consoles.get(vm) {
            Some(Some(file)) => file.push(bytes),
            Some(None) => self.screen.vm(vm, bytes, Instant::now()),
            None => {}
        }
        if let (true, Receiver::Vm(vm)) = (self.screen.size_was_asked(), self.screen.receiver()) {
            self.outbox.send(vm, &terminal::size_report());
        }
    }

    fn log(&mut self, bytes: &[u8]) {
        for said in self.lines.feed(bytes) {
            match said {
                Said::Line(line) => self.log_line(&line),
                Said::Entered(line) => self.entered(&line),
            }
        }
    }

    /// Handles a line that was typed at the prompt, which a person has seen already.
    fn entered(&mut self, line: &str) {
        let typed = line.trim_start_matches("hanok>").trim();
        // The prompt was opened and closed.
        if typed.is_empty() {
            return;
        }
        match &self.log_file {
            Some(file) => file.push(format!("{line}\n").as_bytes()),
            None if self.screen.is_raw() => {}
            None => self.screen.say(line),
        }
        if let (Some(note), true) = (self.stats, prompt::asks_for_stats(typed, &self.request.vms)) {
            self.say(note);
        }
    }

    /// Shows one of our lines, or of the hypervisor's.
    fn say(&mut self, line: &str) {
        self.visitors.say(line);
        match &self.log_file {
            Some(file) => {
                file.push(format!("{line}\n").as_bytes());
                // A person who enters a command at the prompt wants to see the answer.
                if self.screen.shows_prompt() {
                    self.screen.say(line);
                }
            }
            None => self.screen.say(line),
        }
    }

    fn log_line(&mut self, line: &str) {
        self.say(line);
        if let Some(hears) = &mut self.hears {
            hears(log::plain(line));
        }
        self.run_end.line(log::plain(line), Instant::now());
    }

    /// Sends what the board has space for. A board that no longer reads has ended or soon will.
    fn send_waiting(&mut self, now: Instant) {
        if self.line.as_ref().is_none_or(|line| !line.has_room()) {
            return;
        }
        if let Some(request) = self.reports.next(now) {
            self.outbox.request(request);
        }
        let bytes = self.outbox.take(now);
        self.put(&bytes);
        self.answered();
    }

    /// Puts `bytes` on the line unchanged.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(line) = &self.line {
            line.push(bytes);
        }
    }

    /// Cleans up after the end, and makes the report.
    pub(crate) fn close(
        mut self,
        verdict: Option<Report>,
        ended: (Option<ExitStatus>, &str),
        inbox: &Inbox,
        raw: Option<Raw>,
    ) -> Report {
        self.flush();
        self.end(inbox, raw);
        // A further signal means that the user does not want to wait for the rest.
        inbox.close();
        let awaited = self.watch.awaited();
        let mut report = verdict.unwrap_or_else(|| self.run_end.judge(ended, awaited.clone()));
        self.visitors.end();
        self.drain(&mut report);
        report.missed = awaited;
        report
    }

    fn flush(&mut self) {
        if let Some(line) = self.lines.rest() {
            self.log_line(&line);
        }
    }

    /// Restores the terminal: what the guest changed, and what it asked. An answer that is still to
    /// come is awaited, so that it does not reach the user's shell.
    fn end(&mut self, inbox: &Inbox, raw: Option<Raw>) {
        self.screen.end();
        if let (Some(_), true) = (&raw, self.screen.was_asked()) {
            self.terminal.push(terminal::ARE_YOU_THERE);
            let deadline = Instant::now() + terminal::ANSWER;
            terminal::await_answer(|| match inbox.next(KEYS_ALONE, Some(deadline)) {
                Incoming::Keys(bytes) => Some(bytes),
                Incoming::Outlet => Some(Vec::new()),
                _ => None,
            });
            terminal::forget_input();
        }
        drop(raw);
    }

    /// Writes what is left; the report tells what could not be written.
    fn drain(&mut self, report: &mut Report) {
        for outlet in self.outlets() {
            let (left, failure) = (outlet.end(), outlet.failure());
            if left > 0 {
                let name = outlet.name();
                report.why += &format!("; {left} bytes of {name} were taken by nobody");
            }
            if let Some(why) = failure.filter(|_| report.code == Code::Success) {
                report.code = Code::Output;
                report.why = why;
            }
        }
    }
}

/// The outlet of a channel that goes to a file.
fn file(sink: Sink, inbox: &Arc<Inbox>) -> Option<Outlet> {
    match sink {
        Sink::Show => None,
        Sink::File(file, name) => Some(Outlet::to_file(name, file, inbox)),
    }
}

#[cfg(test)]
mod tests;
