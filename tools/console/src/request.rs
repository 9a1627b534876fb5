//! What a run is asked for, and what it answers.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::door::Door;
use crate::script::ScriptStep;
use hanok_base::exit::Code;

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
    /// To this file, which has a name for people.
    File(File, String),
}

impl Sink {
    /// A file at `path`, empty at first.
    pub fn create(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
        Ok(Self::File(file, name))
    }
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
    pub steps: Vec<ScriptStep>,
    /// Ends the run with success, wherever it comes.
    pub until: Option<String>,
    /// Ends the run without success: by the board's clock (`clock.rs`) or, where [`Extras`] say so, by the PC's.
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
pub type BeforeEnd = Box<dyn FnOnce() + Send>;

/// How a run ended.
pub struct Report {
    /// Its exit code.
    pub code: Code,
    /// Why, for people.
    pub why: String,
    /// What was still awaited then, for people.
    pub missed: Option<String>,
    /// How long the board had a CPU of the PC.
    pub cpu: Duration,
}

impl Report {
    /// An end at which nothing was awaited any more.
    pub fn new(code: Code, why: impl Into<String>) -> Self {
        Self {
            code,
            why: why.into(),
            missed: None,
            cpu: Duration::ZERO,
        }
    }
}

/// What a run has that a person starts.
#[derive(Default)]
pub struct Extras {
    /// Where other terminals come in.
    pub door: Option<Door>,
    /// What is to be known of the instructions that `stats` shows.
    pub stats: Option<&'static str>,
    /// The VM that is shown at first.
    pub first: usize,
    /// Whether seconds are those of the PC, for a person who looks at a watch. Else the time in which the board
    /// waits for a CPU of the PC is none.
    pub by_the_wall: bool,
}
