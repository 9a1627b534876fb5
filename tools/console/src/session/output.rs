//! The output of a run.

use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::Arc;

use anyhow::Result;

use crate::inbox::Inbox;
use crate::outlet::Outlet;

/// The user's terminal, or a file or pipe in its place.
pub(crate) struct Terminal {
    /// Stdout and stderr.
    pub(crate) outlet: Outlet,
    /// Whether stdout is a terminal, so that lines are ended and modes undone.
    pub(crate) is_terminal: bool,
    /// Whether stderr is the same file as stdout.
    pub(crate) is_one: bool,
}

impl Terminal {
    /// The terminal of this process.
    pub(crate) fn own(inbox: &Arc<Inbox>) -> Result<Self> {
        // Not by the library's own handles: they stay locked while nobody reads.
        let own =
            |fd: std::os::fd::BorrowedFd<'_>| anyhow::Ok(File::from(fd.try_clone_to_owned()?));
        let (out, log) = (
            own(std::io::stdout().as_fd())?,
            own(std::io::stderr().as_fd())?,
        );
        Ok(Self {
            outlet: Outlet::new("the output", vec![Box::new(out), Box::new(log)], inbox),
            is_terminal: std::io::stdout().is_terminal(),
            is_one: is_one(),
        })
    }
}

/// Whether stdout and stderr are one file, pipe or terminal.
fn is_one() -> bool {
    let out = rustix::fs::fstat(std::io::stdout());
    let err = rustix::fs::fstat(std::io::stderr());
    out.is_ok_and(|out| err.is_ok_and(|err| (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino)))
}
