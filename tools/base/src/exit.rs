//! Exit codes that mean something, and errors that know theirs.
//!
//! A script that calls `hanok run` must tell "the guest crashed" from "the download failed"
//! without reading text, so every error carries its code from where it arises.

use std::fmt::Display;
use std::process::ExitCode;

/// How the command ended; the number is the process's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// As wanted: the awaited text came, all VMs powered off, or the user ended it.
    Success = 0,
    /// One or more tests failed (`hanok test` alone).
    TestsFailed = 1,
    /// The command line, a script or a scenario is wrong.
    Usage = 2,
    /// The description was refused, a build failed, or the hypervisor refused to start.
    Refused = 3,
    /// The time given was over.
    Timeout = 4,
    /// A VM was stopped for what it did.
    Stopped = 5,
    /// The hypervisor panicked.
    Panicked = 6,
    /// QEMU could not start, or ended when nothing said that it would.
    Qemu = 7,
    /// A download or an installation failed.
    Setup = 8,
    /// The VMs powered off before the text or the script's step that was awaited.
    EndedEarly = 9,
    /// What was to be written could not be: no such folder, no permission, a full disk.
    Output = 10,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code as u8)
    }
}

/// An error and the exit code it leads to.
#[derive(Debug)]
pub struct Failure {
    /// What the process ends with.
    pub code: Code,
    /// What is told to the user.
    pub error: anyhow::Error,
}

/// What every command gives back.
pub type Outcome<T = Code> = Result<T, Failure>;

/// Gives an error its exit code.
pub trait Blame<T> {
    /// This error ends the command with `code`.
    fn blame(self, code: Code) -> Outcome<T>;
}

impl<T, E: Into<anyhow::Error>> Blame<T> for Result<T, E> {
    fn blame(self, code: Code) -> Outcome<T> {
        self.map_err(|error| Failure {
            code,
            error: error.into(),
        })
    }
}

/// A failure from words alone.
pub fn failure(code: Code, text: impl Display) -> Failure {
    Failure {
        code,
        error: anyhow::anyhow!("{text}"),
    }
}
