//! The calls.

use crate::error::{Error, Result};
use crate::transport::Transport;
use hanok_abi::schedule::{ASK, FEATURES, READ, VERSION, WAIT, feature, item, status};

/// A promise of CPU time: `budget` within `deadline` of the start of each `period`. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The period.
    pub period: u64,
    /// The CPU time in each period.
    pub budget: u64,
    /// The time from a period's start by which the budget is given.
    pub deadline: u64,
}

impl Interface {
    /// A budget that is given by the end of each period.
    pub const fn new(period: u64, budget: u64) -> Self {
        Self {
            period,
            budget,
            deadline: period,
        }
    }
}

/// A periodic task. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The least time between two of its jobs.
    pub period: u64,
    /// The longest CPU time of a job.
    pub execution: u64,
    /// The time from a job's arrival by which it must be complete.
    pub deadline: u64,
}

impl Task {
    /// A task whose jobs must be complete when the next one comes.
    pub const fn new(period: u64, execution: u64) -> Self {
        Self {
            period,
            execution,
            deadline: period,
        }
    }

    /// The same, with jobs that must be complete earlier.
    pub const fn within(self, deadline: u64) -> Self {
        Self { deadline, ..self }
    }
}

/// What the calling vCPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// Whether its budget is enforced.
    pub const fn is_enforced(self) -> bool {
        self.0 & feature::ENFORCED != 0
    }

    /// Whether it may ask for another interface.
    pub const fn may_ask(self) -> bool {
        self.0 & feature::ASKS != 0
    }
}

/// What can be read of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Item {
    /// The period of its interface.
    Period = item::PERIOD,
    /// Its budget.
    Budget = item::BUDGET,
    /// Its deadline.
    Deadline = item::DEADLINE,
    /// What is left of this period's budget.
    Left = item::LEFT,
    /// The CPU time that it has used since the board was started.
    Used = item::USED,
    /// How much of that was beyond its budgets.
    Extra = item::EXTRA,
    /// How often the budget was used up while it had work.
    Throttled = item::THROTTLED,
    /// The time for which it had work and did not run.
    Stolen = item::STOLEN,
    /// The largest share of the CPU that it may ask for, in parts of 65,536.
    Limit = item::LIMIT,
    /// The shortest period that it may ask for.
    ShortestPeriod = item::SHORTEST_PERIOD,
}

/// What a vCPU has used. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What is left of this period's budget.
    pub left: u64,
    /// The CPU time used since the board was started.
    pub used: u64,
    /// How much of that was beyond its budgets, in time that others left over.
    pub extra: u64,
    /// How often the budget was used up while the vCPU had work.
    pub throttled: u64,
    /// The time for which the vCPU had work and did not run.
    pub stolen: u64,
}

/// What a vCPU may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest share of the CPU, in parts of 65,536; 0 if it may not ask.
    pub share: u64,
    /// The shortest period, in nanoseconds.
    pub period: u64,
}

impl Limits {
    /// The largest budget with this period.
    pub const fn budget(&self, period: u64) -> u64 {
        ((period as u128 * self.share as u128) >> 16) as u64
    }
}

/// The vCPU that the caller runs on.
#[derive(Debug)]
pub struct Vcpu<T>(T);

impl<T: Transport> Vcpu<T> {
    /// The vCPU, by calls of this kind.
    pub const fn new(transport: T) -> Self {
        Self(transport)
    }

    /// The transport.
    pub fn transport(&mut self) -> &mut T {
        &mut self.0
    }

    /// What the vCPU has; [`Error::Absent`] or [`Error::Version`] where these calls are not to be had.
    pub fn features(&mut self) -> Result<Features> {
        let value = self.call(FEATURES, &[])?;
        let version = value as u32;
        if version >> 16 != VERSION >> 16 {
            return Err(Error::Version(version));
        }
        Ok(Features((value >> 32) as u32))
    }

    /// Reads a value.
    pub fn read(&mut self, item: Item) -> Result<u64> {
        self.call(READ, &[u64::from(item as u32)])
    }

    /// The interface that the vCPU has.
    pub fn interface(&mut self) -> Result<Interface> {
        Ok(Interface {
            period: self.read(Item::Period)?,
            budget: self.read(Item::Budget)?,
            deadline: self.read(Item::Deadline)?,
        })
    }

    /// What the vCPU has used.
    pub fn usage(&mut self) -> Result<Usage> {
        Ok(Usage {
            left: self.read(Item::Left)?,
            used: self.read(Item::Used)?,
            extra: self.read(Item::Extra)?,
            throttled: self.read(Item::Throttled)?,
            stolen: self.read(Item::Stolen)?,
        })
    }

    /// What the vCPU may ask for.
    pub fn limits(&mut self) -> Result<Limits> {
        Ok(Limits {
            share: self.read(Item::Limit)?,
            period: self.read(Item::ShortestPeriod)?,
        })
    }

    /// Asks for another interface. The answer is the instant at which it takes effect, in nanoseconds of the board's
    /// counter: the end of one of the vCPU's periods.
    ///
    /// A question is answered in pieces, in the vCPU's own time; this comes back when the answer is there.
    pub fn ask(&mut self, wanted: &Interface) -> Result<u64> {
        let arguments = [wanted.period, wanted.budget, wanted.deadline];
        loop {
            let answer = self.0.call(ASK, &arguments);
            if answer.status != status::PENDING {
                return answer.value();
            }
        }
    }

    /// Gives the rest of this period's budget up; comes back when the next period has begun.
    pub fn wait(&mut self) -> Result<()> {
        self.call(WAIT, &[]).map(|_| ())
    }

    fn call(&mut self, function: u32, arguments: &[u64]) -> Result<u64> {
        self.0.call(function, arguments).value()
    }
}
