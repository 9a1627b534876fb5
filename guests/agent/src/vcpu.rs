//! One vCPU: which interface its tasks need, and what it has.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::interface::{self, Unschedulable};
use crate::machine::{Found, Kind};
use crate::settings::Settings;
use crate::time::show;
use hanok_schedule::{Interface, Task};

/// Why something is not done: one word for programs, and a reason for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct No {
    /// `invalid`, `denied`, `refused`, `limit`, `linux`, `busy` or `gone`.
    pub kind: &'static str,
    /// The reason.
    pub reason: String,
}

impl No {
    /// A no of this kind.
    pub fn new(kind: &'static str, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { kind, reason }
    }
}

/// A vCPU.
#[derive(Clone, Debug)]
pub struct Vcpu {
    /// By what its CPU time can change.
    pub found: Found,
    /// The interface that it has.
    pub interface: Interface,
    /// When it may ask again.
    pub not_before: u64,
    /// Whether it has more than its tasks need.
    pub stale: bool,
    /// Whether its CPU is one where threads can be scheduled by deadlines.
    pub prepared: bool,
}

impl Vcpu {
    /// A vCPU as it was found.
    pub const fn new(found: Found) -> Self {
        Self {
            found,
            interface: found.interface,
            not_before: 0,
            stale: false,
            prepared: false,
        }
    }

    /// The interface that the vCPU has to have for these tasks. If it may not ask, that is the one it has, or none.
    pub fn interface_for(&self, tasks: &[Task], settings: &Settings) -> Result<Interface, No> {
        let refused = |why: Unschedulable| No::new("refused", format!("{why}"));
        match self.found.kind {
            Kind::Unpromised => Err(No::new(
                "refused",
                "the board takes turns, and promises nothing: the system's description wants enforce = true in [schedule]",
            )),
            _ if tasks.is_empty() => Ok(self.found.interface),
            Kind::Whole => {
                let all = self.found.interface;
                interface::suffices(&loads(tasks, settings), &all).map_err(refused)?;
                Ok(all)
            }
            Kind::Fixed => self.as_it_is(&loads(tasks, settings), settings),
            Kind::Asks => self.least(&loads(tasks, settings), settings),
        }
    }

    /// The interface that the vCPU has, if that suffices.
    fn as_it_is(&self, loads: &[Task], settings: &Settings) -> Result<Interface, No> {
        let has = self.interface;
        let Err(why) = interface::suffices(loads, &has) else {
            return Ok(has);
        };
        let mut reason = format!(
            "{why}: the vCPU has {} in {} and may not ask for more",
            show(has.budget),
            show(has.period)
        );
        if let Ok(least) = interface::least(loads, has.period, settings.tick) {
            reason += &format!("; {} would do", show(least.budget));
        }
        Err(No::new("refused", reason))
    }

    /// The least interface with the vCPU's period. A long period needs a larger budget: where that is too large, a
    /// half of the period is tried, and so on.
    fn least(&self, loads: &[Task], settings: &Settings) -> Result<Interface, No> {
        let mut period = self.found.interface.period;
        let mut first = None;
        loop {
            let no = match interface::least(loads, period, settings.tick) {
                Ok(least) => match self.within_limits(least, settings) {
                    Ok(least) => return Ok(least),
                    Err(no) => no,
                },
                Err(Unschedulable::Late) => No::new("refused", format!("{}", Unschedulable::Late)),
                Err(why) => return Err(No::new("refused", format!("{why}"))),
            };
            let no = first.get_or_insert(no);
            period /= 2;
            if period < self.found.limits.period.max(settings.tick)
                || !period.is_multiple_of(settings.tick)
            {
                return Err(no.clone());
            }
        }
    }

    fn within_limits(&self, least: Interface, settings: &Settings) -> Result<Interface, No> {
        let most = self.found.limits.budget(least.period);
        if least.budget > most {
            let [budget, period, most] = [least.budget, least.period, most].map(show);
            let reason =
                format!("{budget} in {period} would be needed, and the vCPU may ask for {most}");
            return Err(No::new("limit", reason));
        }
        let had = self.found.interface;
        if settings.keeps && had.budget > least.budget && had.period == least.period {
            return Ok(had);
        }
        Ok(least)
    }
}

/// What is reckoned with: the tasks with what Linux needs for their jobs, and the rest of Linux.
pub fn loads(tasks: &[Task], settings: &Settings) -> Vec<Task> {
    let with_overhead = |task: &Task| Task {
        execution: task.execution.saturating_add(settings.per_job),
        ..*task
    };
    tasks
        .iter()
        .map(with_overhead)
        .chain(settings.background)
        .collect()
}
