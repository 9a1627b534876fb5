//! The parameters of a run, and its result.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::attach_socket::AttachSocket;
use crate::script::ScriptStep;
use hanok_base::exit::Code;

/// Where keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// From stdin: a person's terminal in raw mode, or piped data.
    Stdin,
    /// Only from the script.
    None,
}

/// Where a channel's text goes.
pub enum Sink {
    /// To the user's terminal.
    Show,
    /// To this file, with its name for messages.
    File(File, String),
}

impl Sink {
    /// To a new file at `path`, which is emptied.
    pub fn create(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
        Ok(Self::File(file, name))
    }
}

/// What to run, and how to watch it.
pub struct Request {
    /// QEMU with all its arguments.
    pub command: Command,
    /// The names of the VMs, in the description's order.
    pub vms: Vec<String>,
    /// Whether the line is framed. At a native boot it is not.
    pub framed: bool,
    /// The script: what to await and type.
    pub steps: Vec<ScriptStep>,
    /// The text that ends the run with success, wherever it comes.
    pub until: Option<String>,
    /// The time that ends the run without success: by the board's clock (`clock.rs`) or, where [`Extras`] say so,
    /// by the PC's.
    pub timeout: Option<Duration>,
    /// The sink of each VM's console.
    pub consoles: Vec<Sink>,
    /// The sink of the hypervisor's messages.
    pub log: Sink,
    /// Where keys come from.
    pub input: Input,
    /// Whether software on the board can switch it off. Where it cannot, the hypervisor's last line
    /// is the end.
    pub poweroff: bool,
    /// What is done once the awaited text has come, while the board still runs.
    pub before_end: Option<BeforeEnd>,
}

/// An action on a board that still runs.
pub type BeforeEnd = Box<dyn FnOnce() + Send>;

/// What hears a line of the hypervisor's.
pub type Hears = Box<dyn FnMut(&str) + Send>;

/// How a run ended.
pub struct Report {
    /// The exit code.
    pub code: Code,
    /// The reason, for people.
    pub why: String,
    /// What was still awaited at the end, for people.
    pub missed: Option<String>,
    /// How long the board had a CPU of the PC.
    pub cpu: Duration,
}

impl Report {
    /// The report of an end at which nothing was awaited any more.
    pub fn new(code: Code, why: impl Into<String>) -> Self {
        Self {
            code,
            why: why.into(),
            missed: None,
            cpu: Duration::ZERO,
        }
    }
}

/// What a run has in addition that a person starts.
#[derive(Default)]
pub struct Extras {
    /// The socket by which other terminals attach.
    pub attach_socket: Option<AttachSocket>,
    /// What hears each of the hypervisor's lines.
    pub hears: Option<Hears>,
    /// Where what comes on the report channel goes, beside those who asked for it.
    pub reports: Option<Sink>,
    /// A note about the instructions that `stats` shows.
    pub stats: Option<&'static str>,
    /// The VM that is shown at first.
    pub first: usize,
    /// Whether seconds are those of the PC, for a person who looks at a watch. Else the time in which the board
    /// waits for a CPU of the PC is none.
    pub by_the_wall: bool,
}
