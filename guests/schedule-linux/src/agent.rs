//! Talks to hanok-agent: a line there, a line back (docs/real-time-guests.md).

use alloc::string::String;
use core::ffi::CStr;
use core::fmt::{self, Write};

use crate::text::Text;
use hanok_schedule::Task;
use hanok_syscalls::{Descriptor, Errno, socket, thread, time};

/// Where the agent listens.
pub const SOCKET: &CStr = c"/run/hanok-agent.sock";

/// How often, and after which time each, a thread looks whether it is scheduled by its deadlines.
const SCHEDULED_LOOKS: u32 = 200;
const SCHEDULED_LOOK: u64 = 1_000_000;

/// A connection to the agent. When it is closed, also because the program dies, all that was declared by it is taken
/// back.
#[derive(Debug)]
pub struct Agent(Descriptor);

/// A task that the agent has admitted. Its thread is scheduled by its deadlines from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The task's number, by which it is taken back.
    pub id: u32,
    /// The CPU that the thread is on.
    pub cpu: u32,
    /// The runtime in nanoseconds that Linux gives the thread in each period: the execution time, and what Linux
    /// charges beyond it.
    pub runtime: u64,
}

/// Why a task was not declared. Nothing has changed.
#[derive(Clone, Debug)]
pub enum NotDeclared {
    /// There is no agent: what happened on the way to it.
    NoAgent(Errno),
    /// The agent is gone, or it did not understand.
    Lost,
    /// The agent said no.
    Refused(Said),
}

/// What the agent said.
#[derive(Clone, Debug)]
pub struct Said(String);

impl Said {
    /// The kind of the refusal, such as `refused` or `limit`.
    pub fn kind(&self) -> &str {
        self.0.split_once(": ").map_or("", |(kind, _)| kind)
    }

    /// The reason, for people.
    pub fn reason(&self) -> &str {
        let all = self.0.as_str();
        all.split_once(": ").map_or(all, |(_, reason)| reason)
    }
}

impl fmt::Display for NotDeclared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAgent(errno) => {
                write!(out, "hanok-agent cannot be reached at its socket: {errno}")
            }
            Self::Lost => out.write_str(
                "hanok-agent closed the connection, or answered what this version does not know",
            ),
            Self::Refused(said) => out.write_str(said.reason()),
        }
    }
}

impl core::error::Error for NotDeclared {}

impl Agent {
    /// Connects to the agent of this machine.
    pub fn connect() -> Result<Self, NotDeclared> {
        Self::connect_at(SOCKET)
    }

    /// Connects to an agent that listens elsewhere.
    pub fn connect_at(path: &CStr) -> Result<Self, NotDeclared> {
        socket::connect(path)
            .map(Self)
            .map_err(NotDeclared::NoAgent)
    }

    /// Declares the calling thread as a task. It waits until the agent has decided, which may take as long as Hanok
    /// keeps the vCPU from asking again.
    pub fn declare(&mut self, name: &str, task: &Task) -> Result<Declared, NotDeclared> {
        self.declare_thread(thread::own(), name, task)
    }

    /// Declares another thread of this program as a task.
    pub fn declare_thread(
        &mut self,
        thread: i32,
        name: &str,
        task: &Task,
    ) -> Result<Declared, NotDeclared> {
        let Task {
            period,
            execution,
            deadline,
        } = task;
        let mut line = Text::new();
        let _ = writeln!(
            line,
            "declare name={name} period={period} execution={execution} deadline={deadline} thread={thread}"
        );
        let said = self.ask(&line)?;
        let number = |key| word(&said.0, key)?.parse().ok();
        let [id, cpu, runtime] = ["id", "cpu", "runtime"].map(number);
        let (Some(id), Some(cpu), Some(runtime)) = (id, cpu, runtime) else {
            return Err(NotDeclared::Lost);
        };
        if thread == thread::own() {
            wait_until_scheduled();
        }
        Ok(Declared {
            id: id as u32,
            cpu: cpu as u32,
            runtime,
        })
    }

    /// Takes a task back. Its thread is scheduled as usual from now on.
    pub fn revoke(&mut self, task: Declared) -> Result<(), NotDeclared> {
        let mut line = Text::new();
        let _ = writeln!(line, "revoke id={}", task.id);
        self.ask(&line).map(|_| ())
    }

    /// Tells the longest CPU time of the task's jobs, which an agent that measures takes into account.
    pub fn used(&mut self, task: Declared, longest: u64) -> Result<(), NotDeclared> {
        let mut line = Text::new();
        let _ = writeln!(line, "used id={} longest={longest}", task.id);
        self.ask(&line).map(|_| ())
    }

    fn ask(&mut self, line: &Text) -> Result<Said, NotDeclared> {
        // What was cut off would be another question.
        if !line.bytes().ends_with(b"\n") {
            return Err(NotDeclared::Lost);
        }
        let sent = socket::send(&self.0, line.bytes());
        if sent != Ok(line.bytes().len()) {
            return Err(NotDeclared::Lost);
        }
        let answer = self.line()?;
        match answer.get().split_once(' ') {
            Some(("yes", more)) => Ok(Said(more.into())),
            Some(("no", more)) => Err(NotDeclared::Refused(Said(more.into()))),
            None if answer.get() == "yes" => Ok(Said(String::new())),
            _ => Err(NotDeclared::Lost),
        }
    }

    fn line(&mut self) -> Result<Text, NotDeclared> {
        let mut line = Text::new();
        let mut byte = [0];
        loop {
            match self.0.read(&mut byte) {
                Ok(1) if byte == *b"\n" => return Ok(line),
                Ok(1) => line.add(&byte),
                Err(Errno::INTR) => {}
                _ => return Err(NotDeclared::Lost),
            }
        }
    }
}

/// Waits until Linux schedules the calling thread by its deadlines. A thread that is to be on another CPU is only
/// there when it has woken, and the agent schedules it then.
fn wait_until_scheduled() {
    let is_deadline = || thread::attributes(0).is_ok_and(|now| now.is_deadline());
    for _ in 0..SCHEDULED_LOOKS {
        let Some(now) = time::monotonic().filter(|_| !is_deadline()) else {
            return;
        };
        let _ = time::sleep_until(now + SCHEDULED_LOOK);
    }
}

/// The value of `key` in a line of `key=value`s.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}
