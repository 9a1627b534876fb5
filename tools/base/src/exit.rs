//! Exit codes with a meaning, and errors that have one.
//!
//! A script that calls `hanok run` must tell "the guest crashed" from "the download failed" without
//! reading text. So every error carries its code from where it arises.

use std::fmt::Display;
use std::process::ExitCode;

/// How the command ended. The number is the process's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// As wanted: the awaited text came, all VMs powered off, or the user ended the run.
    Success = 0,
    /// One or more tests failed (only `hanok test`).
    TestsFailed = 1,
    /// The command line, a script or a scenario is wrong.
    Usage = 2,
    /// The description was refused, a build failed, or the hypervisor refused to start.
    Refused = 3,
    /// The time limit was reached.
    Timeout = 4,
    /// A VM was stopped because of what it did.
    Stopped = 5,
    /// The hypervisor panicked.
    Panicked = 6,
    /// QEMU could not start, or ended unexpectedly.
    Qemu = 7,
    /// A download or an installation failed.
    Setup = 8,
    /// The VMs powered off before the awaited text came or the script was done.
    EndedEarly = 9,
    /// An output could not be written: no such folder, no permission, a full disk.
    Output = 10,
    /// A running board refused what was asked of it.
    Denied = 11,
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
    /// The exit code of the process.
    pub code: Code,
    /// The error that the user is told.
    pub error: anyhow::Error,
}

/// The result of every command.
pub type Outcome<T = Code> = Result<T, Failure>;

/// Gives an error its exit code.
pub trait Blame<T> {
    /// Makes this error end the command with `code`.
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

/// A failure with a code and a text.
pub fn failure(code: Code, text: impl Display) -> Failure {
    Failure {
        code,
        error: anyhow::anyhow!("{text}"),
    }
}
