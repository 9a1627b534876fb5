//! How a run ended, from what the hypervisor wrote and how QEMU ended.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::log::{self, End, Event};
use crate::request::Report;
use hanok_base::exit::Code;

/// The time that the board has to power off after the hypervisor said that it panicked or ended.
const GRACE: Duration = Duration::from_secs(5);

/// What is known about the end of the run.
pub(crate) struct RunEnd {
    /// Whether software on the board can switch it off.
    poweroff: bool,
    /// Whether there is a hypervisor on the line.
    framed: bool,
    /// Whether the run belongs to another `hanok run`.
    of_another: bool,
    end: Option<End>,
    panicked: Option<String>,
    refused: Option<String>,
    stopped: Option<String>,
    grace: Option<Instant>,
    /// Whether the hypervisor, or a program before it, wrote anything.
    heard: bool,
}

/// What may be wrong with a board that ends without any output.
const SILENT: &str = "; nothing was heard from the hypervisor, which speaks by a PL011 or a 16550 alone: has the \
    board another serial port? (`hanok check` tells, docs/port-a-board.md)";

impl RunEnd {
    pub(super) fn new(poweroff: bool, framed: bool) -> Self {
        Self {
            poweroff,
            framed,
            of_another: false,
            end: None,
            panicked: None,
            refused: None,
            stopped: None,
            grace: None,
            heard: false,
        }
    }

    /// For a run that another process started, and judges.
    pub(crate) fn of_another() -> Self {
        Self {
            of_another: true,
            ..Self::new(true, true)
        }
    }

    pub(super) fn is_of_another(&self) -> bool {
        self.of_another
    }

    /// When the run ends at the latest.
    pub(super) fn grace(&self) -> Option<Instant> {
        self.grace
    }

    /// Notes a line of the hypervisor.
    pub(super) fn line(&mut self, line: &str, now: Instant) {
        self.heard = true;
        if self.of_another {
            return;
        }
        match log::event(line) {
            Some(Event::End(end)) => self.end = Some(end),
            Some(Event::Panic) => drop(self.panicked.get_or_insert(line.to_owned())),
            Some(Event::Refused) => drop(self.refused.get_or_insert(line.to_owned())),
            Some(Event::Stopped) => drop(self.stopped.get_or_insert(line.to_owned())),
            None => return,
        }
        if self.end.is_some() && !self.poweroff {
            self.grace = Some(now);
        }
        // A stopped VM does not end the run: others may go on.
        if self.end.is_some() || self.panicked.is_some() || self.refused.is_some() {
            self.grace.get_or_insert(now + GRACE);
        }
    }

    /// The report for a QEMU that ended by itself.
    pub(super) fn judge(
        &self,
        (status, said): (Option<ExitStatus>, &str),
        awaited: Option<String>,
    ) -> Report {
        if self.of_another {
            return Report::new(Code::Success, "the run has ended");
        }
        if let Some(line) = &self.panicked {
            let line = line.strip_prefix("panic: ").unwrap_or(line);
            return Report::new(Code::Panicked, format!("the hypervisor panicked: {line}"));
        }
        if let (Some(line), None | Some(End::Refused)) = (&self.refused, self.end) {
            return Report::new(Code::Refused, format!("the hypervisor {line}"));
        }
        let well = status.is_some_and(|status| status.success());
        match self.end {
            Some(End::Panic) => Report::new(Code::Panicked, "the hypervisor panicked"),
            Some(End::Stopped) => {
                let line = self.stopped.as_deref().unwrap_or("a VM was stopped");
                Report::new(Code::Stopped, line)
            }
            Some(End::Refused) => Report::new(Code::Refused, "the hypervisor refused to start"),
            Some(End::Off) => Self::off(awaited),
            None if !self.framed && well => Self::off(awaited),
            None => {
                let status = status.map_or("unknown".to_owned(), |status| status.to_string());
                // QEMU itself says why it does not even start.
                let silent = if self.heard || !self.framed || !said.is_empty() {
                    ""
                } else {
                    SILENT
                };
                let why = format!("QEMU ended unexpectedly ({status}) {said}{silent}");
                Report::new(Code::Qemu, why)
            }
        }
    }

    fn off(awaited: Option<String>) -> Report {
        match awaited {
            None => Report::new(Code::Success, "all VMs powered off"),
            Some(what) => {
                let why = format!("all VMs powered off before {what} came");
                Report::new(Code::EndedEarly, why)
            }
        }
    }
}
