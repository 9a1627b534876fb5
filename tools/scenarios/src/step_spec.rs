//! The steps of a scenario, as they are written.

use std::time::Duration;

use anyhow::{Result, bail};
use hanok_console::script::ScriptStep;
use serde::Deserialize;

use super::connect;
use super::monitor::{self, Monitor};
use super::screen::{self, Band};

/// A step: exactly one of these.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum StepSpec {
    /// Wait until this text comes on the console.
    Expect(String),
    /// Wait until this text comes in the hypervisor's messages.
    ExpectLog(String),
    /// Type this at the VM's console, whichever VM is attached.
    Send(String),
    /// Type this as the person at the terminal: for the attached VM, or the prompt.
    Key(String),
    /// Go on after this many seconds of this PC's time.
    Wait(f64),
    /// Go on once the VM has said nothing for so many seconds of this PC's time.
    Silence(f64),
    /// The following steps are about this VM.
    Vm(String),
    /// Give QEMU's monitor this command.
    Monitor(String),
    /// Go on once the board's screen shows these pictures, line for line.
    Screen(Vec<Band>),
    /// Go on once this text came on the VM's console, so many times more.
    ExpectTimes(String, usize),
    /// Connect from the PC with the VM and port of `forward`, send this, and go on once the answer begins so.
    Connect(String, String),
}

/// By what steps reach a board, beside its consoles.
#[derive(Clone, Copy, Default)]
pub struct Means<'a> {
    /// QEMU's monitor.
    pub monitor: Option<&'a Monitor>,
    /// The port of the PC that leads to a VM.
    pub port: Option<u16>,
}

/// How many characters a step must await at least: fewer come by chance.
const SHORTEST: usize = 3;

impl StepSpec {
    /// Its texts.
    pub fn texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Expect(text)
            | Self::ExpectTimes(text, _)
            | Self::ExpectLog(text)
            | Self::Send(text)
            | Self::Monitor(text)
            | Self::Key(text) => vec![text],
            Self::Connect(text, answer) => vec![text, answer],
            Self::Screen(bands) => bands.iter_mut().map(|band| &mut band.of).collect(),
            Self::Wait(_) | Self::Silence(_) | Self::Vm(_) => Vec::new(),
        }
    }

    /// The step as the console's watcher takes it.
    pub fn step(&self, means: Means<'_>) -> Result<ScriptStep> {
        Ok(match self {
            Self::Expect(text) | Self::ExpectTimes(text, _) | Self::ExpectLog(text)
                if text.chars().count() < SHORTEST =>
            {
                bail!("{text:?} is found in almost anything: await a longer text")
            }
            Self::Expect(text) | Self::ExpectTimes(text, _) => ScriptStep::Expect(text.clone()),
            Self::ExpectLog(text) => ScriptStep::ExpectLog(text.clone()),
            Self::Send(text) => ScriptStep::Send(text.clone().into_bytes()),
            Self::Key(text) => ScriptStep::Key(text.clone().into_bytes()),
            Self::Wait(seconds) => ScriptStep::Wait(Duration::try_from_secs_f64(*seconds)?),
            Self::Silence(seconds) => ScriptStep::Silence(Duration::try_from_secs_f64(*seconds)?),
            Self::Vm(name) => ScriptStep::Vm(name.clone()),
            Self::Monitor(command) => ScriptStep::Try(monitor::command(means.monitor, command)),
            Self::Screen(bands) => ScriptStep::Try(screen::shows(means.monitor, bands)?),
            Self::Connect(text, answer) if answer.is_empty() => {
                bail!("`connect` has {text:?} to send and no answer to await")
            }
            Self::Connect(text, answer) => {
                ScriptStep::Try(connect::answers(means.port, text, answer))
            }
        })
    }
}
