//! One run of a board: QEMU as a child, its serial line taken apart, watched and shown.
//!
//! Threads only carry bytes (`carry.rs`, `outlet.rs`); everything is decided in one loop, which
//! waits for nothing but its [`Inbox`]: whatever the board says and whoever does not read it,
//! a signal and the end of the time are seen to at once.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::carry::{self, Board};
use super::demux::{Channel, Demux, Piece};
use super::inbox::{Inbox, Incoming, Takes};
use super::keys::{self, Action, Keys};
use super::log::{self, End, Event, Lines, Said};
use super::outbox::{ATTENTION, Outbox};
use super::outlet::Outlet;
pub use super::request::{BeforeEnd, Input, Report, Request, Sink};
use super::screen::Screen;
use super::terminal::{self, Raw};
use super::watch::{Do, Watch};
use crate::exit::{Blame, Code, Outcome};
use crate::signals;

/// After the hypervisor says that it panicked or ended, it has this long to power off.
const GRACE: Duration = Duration::from_secs(5);
/// From so many keys on that wait for a VM no more are taken.
const KEYS: usize = 64 << 10;
/// Once the board has ended.
const KEYS_ALONE: Takes = Takes {
    keys: true,
    board: false,
};

/// The user's terminal, or what stands for it.
struct Terminal {
    /// Stdout and stderr.
    outlet: Outlet,
    /// Whether stdout is one, so that lines are broken and modes undone.
    is_one: bool,
}

impl Terminal {
    /// This process's.
    fn own(inbox: &Arc<Inbox>) -> Result<Self> {
        // Not by the library's own handles: they are locked while somebody does not read.
        let own =
            |fd: std::os::fd::BorrowedFd<'_>| anyhow::Ok(File::from(fd.try_clone_to_owned()?));
        let (out, log) = (
            own(std::io::stdout().as_fd())?,
            own(std::io::stderr().as_fd())?,
        );
        Ok(Self {
            outlet: Outlet::new("the output", vec![Box::new(out), Box::new(log)], inbox),
            is_one: std::io::stdout().is_terminal(),
        })
    }
}

/// Runs the board to its end.
pub fn run(request: Request) -> Outcome<Report> {
    let inbox = Arc::new(Inbox::default());
    let terminal = Terminal::own(&inbox).blame(Code::Output)?;
    run_at(request, terminal, &inbox)
}

fn run_at(mut request: Request, terminal: Terminal, inbox: &Arc<Inbox>) -> Outcome<Report> {
    // Before there is a board: a signal for one that has just started is not missed.
    signals::tell(inbox);
    let mut board = Board::start(&request.command, inbox).blame(Code::Qemu)?;
    let interactive = request.input == Input::Stdin;
    let raw = if interactive { Raw::enter() } else { None };
    if interactive {
        carry::keys(inbox);
    }
    let before_end = request.before_end.take();
    let line = board.line();
    let line = line.map(|line| Outlet::new("to the board", vec![Box::new(line)], inbox));
    let mut session = Session::new(request, line, terminal, raw.is_some(), inbox);
    let verdict = session.serve(inbox);
    let awaited_came = verdict
        .as_ref()
        .is_some_and(|verdict| verdict.code == Code::Success);
    if let (true, Some(look)) = (awaited_came, before_end) {
        look();
    }
    let (status, said) = board.end(verdict.is_none());
    session.flush();
    session.end(inbox, raw);
    // Who signals from here on wants no more of it.
    inbox.close();
    let mut report = verdict.unwrap_or_else(|| session.judge(status, &said));
    session.drain(&mut report);
    report.missed = session.watch.awaited();
    Ok(report)
}

struct Session {
    request: Request,
    /// What goes to the board.
    line: Option<Outlet>,
    /// What goes to the user.
    terminal: Outlet,
    consoles: Vec<Option<Outlet>>,
    log_file: Option<Outlet>,
    /// Keys that were not taken, as too many wait already.
    unsent: usize,
    screen: Screen,
    outbox: Outbox,
    demux: Demux,
    lines: Lines,
    keys: Keys,
    watch: Watch,
    end: Option<End>,
    panicked: Option<String>,
    refused: Option<String>,
    stopped: Option<String>,
    grace: Option<Instant>,
}

impl Session {
    fn new(
        mut request: Request,
        line: Option<Outlet>,
        terminal: Terminal,
        raw: bool,
        inbox: &Arc<Inbox>,
    ) -> Self {
        let demux = if request.framed {
            Demux::framed()
        } else {
            Demux::plain()
        };
        let steps = std::mem::take(&mut request.steps);
        let watch = Watch::new(&request.vms, steps, request.until.take());
        let consoles = request.consoles.drain(..);
        let consoles = consoles.map(|sink| file(sink, inbox)).collect();
        let log_file = file(std::mem::replace(&mut request.log, Sink::Show), inbox);
        let Terminal { outlet, is_one } = terminal;
        let (out, err) = (Box::new(outlet.way(0)), Box::new(outlet.way(1)));
        Self {
            line,
            screen: Screen::new(out, err, &request.vms, raw, raw || is_one),
            terminal: outlet,
            consoles,
            log_file,
            unsent: 0,
            outbox: Outbox::new(request.framed, request.vms.len()),
            request,
            demux,
            lines: Lines::default(),
            keys: Keys::default(),
            watch,
            end: None,
            panicked: None,
            refused: None,
            stopped: None,
            grace: None,
        }
    }

    /// Serves what comes until there is a verdict, or `None` when QEMU ended.
    fn serve(&mut self, inbox: &Inbox) -> Option<Report> {
        let deadline = self.request.timeout.map(|time| Instant::now() + time);
        loop {
            let now = Instant::now();
            let verdict = self.advance(now).or_else(|| self.overdue(deadline, now));
            if let Some(verdict) = verdict.or_else(|| self.failed()) {
                return Some(verdict);
            }
            self.post(now);
            let wake = self.watch.wake(now).map(|time| now + time);
            let next = [deadline, self.grace, wake].into_iter().flatten().min();
            let verdict = match inbox.next(self.takes(), next) {
                Incoming::Board(bytes) => self.board(&bytes),
                Incoming::Keys(bytes) => self.typed(&bytes),
                Incoming::Signal(signal) => Some(report(
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

    /// No more of the board than its readers take, and no more of what is piped in than it takes.
    /// A person's keys are always looked at: they may end the run.
    fn takes(&self) -> Takes {
        Takes {
            keys: self.screen.is_raw() || self.outbox.waiting() < KEYS,
            board: self.outlets().all(Outlet::has_room),
        }
    }

    /// All that text goes to.
    fn outlets(&self) -> impl Iterator<Item = &Outlet> {
        let files = self.consoles.iter().chain([&self.log_file]).flatten();
        files.chain([&self.terminal])
    }

    /// What cannot be written ends the run: nobody would see the rest.
    fn failed(&self) -> Option<Report> {
        let why = self.outlets().find_map(Outlet::failure)?;
        Some(report(Code::Output, why))
    }

    fn advance(&mut self, now: Instant) -> Option<Report> {
        for todo in self.watch.advance(now) {
            match todo {
                Do::Send(vm, bytes) => self.outbox.send(vm, &bytes),
                Do::Key(bytes) => self.outbox.keys(&bytes),
                Do::Raw(bytes) => self.put(&bytes),
                Do::Succeed => return Some(report(Code::Success, "the script is done")),
            }
        }
        None
    }

    fn overdue(&self, deadline: Option<Instant>, now: Instant) -> Option<Report> {
        if self.grace.is_some_and(|at| at <= now) {
            return Some(self.judge(None, ""));
        }
        deadline.filter(|at| *at <= now)?;
        let what = self.watch.awaited().unwrap_or_else(|| "the end".to_owned());
        Some(report(
            Code::Timeout,
            format!("the time was over while awaiting {what}"),
        ))
    }

    fn board(&mut self, bytes: &[u8]) -> Option<Report> {
        let mut seen = false;
        for piece in self.demux.feed(bytes) {
            match piece {
                Piece::Text(channel, text) => {
                    seen |= self.watch.push(channel, &text);
                    match channel {
                        Channel::Log => self.log(&text),
                        Channel::Vm(vm) => self.console(vm, &text),
                    }
                }
                Piece::KeysGoTo(receiver) => {
                    self.outbox.keys_go_to(receiver);
                    self.screen.keys_go_to(receiver);
                }
                Piece::Consumed(vm) => self.outbox.consumed(vm),
            }
        }
        seen.then(|| report(Code::Success, "the awaited text came"))
    }

    fn console(&mut self, vm: usize, bytes: &[u8]) {
        self.outbox.vm_spoke();
        match self.consoles.get(vm) {
            Some(Some(file)) => file.push(bytes),
            Some(None) => self.screen.vm(vm, bytes),
            None => {}
        }
    }

    fn log(&mut self, bytes: &[u8]) {
        for said in self.lines.feed(bytes) {
            match said {
                Said::Line(line) => self.log_line(&line),
                Said::Prompt(text, open) if self.screen.is_raw() => self.screen.prompt(&text, open),
                Said::Prompt(..) => {}
                Said::Entered(line) => self.entered(&line),
            }
        }
    }

    /// A line that was typed at the prompt: a person has seen it already.
    fn entered(&mut self, line: &str) {
        match &self.log_file {
            Some(file) => file.push(format!("{line}\n").as_bytes()),
            None if self.screen.is_raw() => {}
            None => self.screen.say(line),
        }
    }

    fn log_line(&mut self, line: &str) {
        match &self.log_file {
            Some(file) => {
                file.push(format!("{line}\n").as_bytes());
                // Whoever asks for something at the prompt wants to see the answer.
                if self.screen.shows_prompt() {
                    self.screen.say(line);
                }
            }
            None => self.screen.say(line),
        }
        let line = log::plain(line);
        match log::event(line) {
            Some(Event::End(end)) => self.end = Some(end),
            Some(Event::Panic) => drop(self.panicked.get_or_insert(line.to_owned())),
            Some(Event::Refused) => drop(self.refused.get_or_insert(line.to_owned())),
            Some(Event::Stopped) => drop(self.stopped.get_or_insert(line.to_owned())),
            None => return,
        }
        if self.end.is_some() && !self.request.poweroff {
            self.grace = Some(Instant::now());
        }
        // A stopped VM alone ends nothing: others may run on.
        if self.end.is_some() || self.panicked.is_some() || self.refused.is_some() {
            self.grace.get_or_insert(Instant::now() + GRACE);
        }
    }

    fn typed(&mut self, bytes: &[u8]) -> Option<Report> {
        if !self.screen.is_raw() {
            self.outbox.send(self.outbox.attached(), bytes);
            return None;
        }
        for action in self.keys.feed(bytes) {
            match action {
                Action::Send(bytes) => self.send(&bytes),
                Action::Help => {
                    let lines = keys::help(self.request.framed).lines();
                    lines.for_each(|line| self.screen.say(line));
                }
                Action::Quit => {
                    // The prompt of the guest stands open: what follows begins a line.
                    self.screen.say("switched off");
                    return Some(report(Code::Success, "ended by Ctrl-A x"));
                }
            }
        }
        None
    }

    /// Keys of a person. Too many for a VM that takes none are not kept, and counted; the way to
    /// the prompt stays open.
    fn send(&mut self, bytes: &[u8]) {
        if self.outbox.waiting() < KEYS || bytes.contains(&ATTENTION) {
            return self.outbox.typed(bytes, Instant::now());
        }
        if self.unsent == 0 {
            let what = "the VM takes no keys: what is typed from here on is lost";
            self.screen.say(what);
        }
        self.unsent += bytes.len();
    }

    /// Sends what the board has room for. One that no longer reads has ended or soon will.
    fn post(&mut self, now: Instant) {
        if self.line.as_ref().is_none_or(|line| !line.has_room()) {
            return;
        }
        let bytes = self.outbox.take(now);
        self.put(&bytes);
    }

    /// Puts `bytes` on the line as they are.
    fn put(&mut self, bytes: &[u8]) {
        if let Some(line) = &self.line {
            line.push(bytes);
        }
    }

    fn flush(&mut self) {
        if let Some(line) = self.lines.rest() {
            self.log_line(&line);
        }
    }

    /// Puts the terminal in order: what the guest changed, and what it asked. An answer that
    /// still comes is awaited, so that it does not come to the user's shell.
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

    /// Writes what is left; what nobody took is told.
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

    /// What a QEMU that ended by itself means.
    fn judge(&self, status: Option<ExitStatus>, said: &str) -> Report {
        if let Some(line) = &self.panicked {
            let line = line.strip_prefix("panic: ").unwrap_or(line);
            return report(Code::Panicked, format!("the hypervisor panicked: {line}"));
        }
        if let (Some(line), None | Some(End::Refused)) = (&self.refused, self.end) {
            return report(Code::Refused, format!("the hypervisor {line}"));
        }
        let well = status.is_some_and(|status| status.success());
        match self.end {
            Some(End::Panic) => report(Code::Panicked, "the hypervisor panicked"),
            Some(End::Stopped) => {
                let line = self.stopped.as_deref().unwrap_or("a VM was stopped");
                report(Code::Stopped, line)
            }
            Some(End::Refused) => report(Code::Refused, "the hypervisor refused to start"),
            Some(End::Off) => self.off(),
            None if !self.request.framed && well => self.off(),
            None => {
                let status = status.map_or("unknown".to_owned(), |status| status.to_string());
                report(
                    Code::Qemu,
                    format!("QEMU ended unexpectedly ({status}) {said}"),
                )
            }
        }
    }

    fn off(&self) -> Report {
        match self.watch.awaited() {
            None => report(Code::Success, "all VMs powered off"),
            Some(what) => {
                let why = format!("all VMs powered off before {what} came");
                report(Code::EndedEarly, why)
            }
        }
    }
}

fn report(code: Code, why: impl Into<String>) -> Report {
    Report {
        code,
        why: why.into(),
        missed: None,
    }
}

/// The outlet of a channel that goes to a file.
fn file(sink: Sink, inbox: &Arc<Inbox>) -> Option<Outlet> {
    match sink {
        Sink::Show => None,
        Sink::File(file, name) => Some(Outlet::new(name, vec![Box::new(file)], inbox)),
    }
}

#[cfg(test)]
mod tests;
