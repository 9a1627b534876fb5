//! One run of a board: QEMU as a child, its serial line taken apart, watched and shown.
//!
//! Threads only carry bytes into one queue; everything is decided in one loop. QEMU is told
//! to die with us (setpriv, where there is one), and is killed on every way out.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::demux::{Channel, Demux, Piece};
use super::keys::{self, Action, Keys};
use super::log::{self, End, Event, Lines, Said};
use super::outbox::Outbox;
use super::screen::Screen;
use super::script::Step;
use super::terminal::{self, Raw};
use super::watch::{Do, Watch};
use crate::exit::{Blame, Code, Outcome};

/// After the hypervisor says that it panicked or ended, it has this long to power off.
const GRACE: Duration = Duration::from_secs(5);

/// Where the keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Stdin: a person's terminal in raw mode, or whatever is piped in.
    Stdin,
    /// The script alone.
    None,
}

/// Where a channel's text goes.
pub enum Sink {
    /// To the user.
    Show,
    /// To this file.
    File(File),
}

/// What to run and how to watch it.
pub struct Request {
    /// QEMU with all its arguments.
    pub command: Command,
    /// Names of the VMs, in the description's order.
    pub vms: Vec<String>,
    /// Whether the line is framed: not at a native boot.
    pub framed: bool,
    /// What to await and type.
    pub steps: Vec<Step>,
    /// Ends the run with success, wherever it comes.
    pub until: Option<String>,
    /// Ends the run without success.
    pub timeout: Option<Duration>,
    /// A sink a VM.
    pub consoles: Vec<Sink>,
    /// The hypervisor's messages.
    pub log: Sink,
    /// Where keys come from.
    pub input: Input,
    /// Whether the board can be switched off by what runs on it: where it cannot, the last
    /// word of the hypervisor is the end.
    pub poweroff: bool,
    /// What is done once what was awaited has come, while the board still runs.
    pub before_end: Option<BeforeEnd>,
}

/// A last look at a board that still runs.
pub type BeforeEnd = Box<dyn FnOnce()>;

/// How a run ended.
pub struct Report {
    /// Its exit code.
    pub code: Code,
    /// Why, for people.
    pub why: String,
    /// What was still awaited then, for people.
    pub missed: Option<String>,
}

enum Incoming {
    Board(Vec<u8>),
    Keys(Vec<u8>),
    Signal(i32),
    /// The board's line is closed: QEMU ended.
    Closed,
}

/// Runs the board to its end.
pub fn run(mut request: Request) -> Outcome<Report> {
    let mut child = spawn(&mut request.command).blame(Code::Qemu)?;
    let (sender, incoming) = channel();
    let errors = carry(&mut child, &sender);
    let interactive = request.input == Input::Stdin;
    let raw = if interactive { Raw::enter() } else { None };
    if interactive {
        carry_keys(sender.clone());
    }
    carry_signals(sender);
    let stdin = child.stdin.take();
    let mut session = Session::new(request, stdin, raw.is_some());
    let verdict = session.serve(&incoming);
    if let (Some(Code::Success), Some(look)) = (
        verdict.as_ref().map(|verdict| verdict.code),
        session.request.before_end.take(),
    ) {
        look();
    }
    let status = finish(&mut child, verdict.is_none());
    drop(raw);
    session.flush();
    session.screen.end();
    let said = errors.join().unwrap_or_default();
    let mut report = verdict.unwrap_or_else(|| session.judge(status, &said));
    report.missed = session.watch.awaited();
    Ok(report)
}

fn spawn(command: &mut Command) -> anyhow::Result<Child> {
    let mut outer = mortal(command);
    // A process group of its own: Ctrl-C at the terminal is for the guest, or for us to act on.
    outer
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    outer
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().display()))
}

/// `command` so that it ends when we do, even when we are killed.
fn mortal(command: &Command) -> Command {
    let setpriv = PathBuf::from("/usr/bin/setpriv");
    let mut outer = if setpriv.exists() {
        let mut outer = Command::new(setpriv);
        outer
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program());
        outer
    } else {
        Command::new(command.get_program())
    };
    outer.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// Starts the threads that carry what QEMU writes; the one of stderr gives its text back.
fn carry(child: &mut Child, sender: &Sender<Incoming>) -> thread::JoinHandle<String> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let sender = sender.clone();
    thread::spawn(move || {
        if let Some(stdout) = stdout {
            pump(stdout, &sender, Incoming::Board);
        }
        let _ = sender.send(Incoming::Closed);
    });
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).trim_end().to_owned()
    })
}

fn carry_keys(sender: Sender<Incoming>) {
    thread::spawn(move || pump(std::io::stdin(), &sender, Incoming::Keys));
}

fn carry_signals(sender: Sender<Incoming>) {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        return;
    };
    thread::spawn(move || {
        for signal in signals.forever() {
            // Nobody listens any more: end as the signal asks, with the terminal in order.
            if sender.send(Incoming::Signal(signal)).is_err() {
                terminal::restore();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    });
}

fn pump(mut from: impl Read, sender: &Sender<Incoming>, wrap: fn(Vec<u8>) -> Incoming) {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) if sender.send(wrap(buffer[..count].to_vec())).is_err() => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
}

/// Waits for a QEMU that ended by itself; kills one that has not.
fn finish(child: &mut Child, ended: bool) -> Option<ExitStatus> {
    if !ended {
        let _ = child.kill();
    }
    child.wait().ok()
}

struct Session {
    request: Request,
    stdin: Option<ChildStdin>,
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
    fn new(mut request: Request, stdin: Option<ChildStdin>, raw: bool) -> Self {
        let demux = if request.framed {
            Demux::framed()
        } else {
            Demux::plain()
        };
        let steps = std::mem::take(&mut request.steps);
        let watch = Watch::new(&request.vms, steps, request.until.take());
        Self {
            stdin,
            screen: Screen::new(&request.vms, raw),
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
    fn serve(&mut self, incoming: &Receiver<Incoming>) -> Option<Report> {
        let deadline = self.request.timeout.map(|time| Instant::now() + time);
        loop {
            let now = Instant::now();
            if let Some(verdict) = self.advance(now).or_else(|| self.overdue(deadline, now)) {
                return Some(verdict);
            }
            self.post(now);
            let next = [deadline, self.grace]
                .into_iter()
                .flatten()
                .map(|at| at - now)
                .min();
            let wake = next.into_iter().chain(self.watch.wake(now)).min();
            let verdict = match incoming.recv_timeout(wake.unwrap_or(Duration::from_secs(3600))) {
                Ok(Incoming::Board(bytes)) => self.board(&bytes),
                Ok(Incoming::Keys(bytes)) => self.typed(&bytes),
                Ok(Incoming::Signal(signal)) => Some(report(
                    Code::Interrupted,
                    format!("interrupted by signal {signal}"),
                )),
                Ok(Incoming::Closed) | Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => None,
            };
            if verdict.is_some() {
                return verdict;
            }
        }
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
        match self.request.consoles.get_mut(vm) {
            Some(Sink::File(file)) => drop(file.write_all(bytes)),
            Some(Sink::Show) => self.screen.vm(vm, bytes),
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
        match &mut self.request.log {
            Sink::File(file) => drop(writeln!(file, "{line}")),
            Sink::Show if self.screen.is_raw() => {}
            Sink::Show => self.screen.say(line),
        }
    }

    fn log_line(&mut self, line: &str) {
        match &mut self.request.log {
            Sink::File(file) => {
                let _ = writeln!(file, "{line}");
                // Whoever asks for something at the prompt wants to see the answer.
                if self.screen.shows_prompt() {
                    self.screen.say(line);
                }
            }
            Sink::Show => self.screen.say(line),
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
                Action::Send(bytes) => self.outbox.typed(&bytes, Instant::now()),
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

    /// Sends what the board has room for. One that no longer reads has ended or soon will.
    fn post(&mut self, now: Instant) {
        let line = self.outbox.take(now);
        if !line.is_empty() {
            self.put(&line);
        }
    }

    /// Puts `bytes` on the line as they are.
    fn put(&mut self, bytes: &[u8]) {
        let Some(stdin) = &mut self.stdin else { return };
        let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
    }

    fn flush(&mut self) {
        if let Some(line) = self.lines.rest() {
            self.log_line(&line);
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

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
