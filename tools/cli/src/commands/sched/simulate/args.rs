//! The command line of `hanok sched simulate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hanok_simulator::{Kind, Slack};

use hanok_base::values;

/// What is shown below the options.
pub const HELP: &str = "\
Runs core/sched, the code that decides on the board, event by event in whole nanoseconds. \
Interfaces that the description leaves to be found are those that `hanok sched check` finds. \
The case is the worst there is to simulate: jobs take their longest time, the first of each \
task is as late as its jitter allows. With --component alone, the CPU time comes as late as \
the component's interface allows.

Times are written as 500us, 1.5ms, 1s.

Examples:
  hanok sched simulate systems/schedule.toml
  hanok sched simulate systems/schedule.toml --until 1s --html timeline.html
  hanok sched simulate systems/schedule.toml --component axes --json
  hanok sched simulate systems/schedule.toml --server deferrable --slack share

Exit codes:
  0  no deadline was missed      2  wrong usage
  1  one was                     3  the description is refused, a component has
                                    no interface, or it would take too long";

/// Arguments of `sched simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The description.
    pub file: PathBuf,
    /// The end of the simulation; by default when everything repeats, or after a few hundred
    /// periods.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = nanos)]
    pub until: Option<u64>,
    /// Simulate only this component, with everything in it.
    #[arg(long, value_name = "NAME")]
    pub component: Option<String>,
    /// With --component: when CPU time is supplied.
    #[arg(long, value_enum, default_value_t = Source::Worst, requires = "component")]
    pub supply: Source,
    /// The kind of server that gives all components their budget, whatever the description says.
    #[arg(long, value_enum)]
    pub server: Option<Server>,
    /// What becomes of promised time that nobody uses.
    #[arg(long, value_enum, default_value_t = Unused::Idle)]
    pub slack: Unused,
    /// When jobs are released after their arrival.
    #[arg(long, value_enum, default_value_t = Release::First)]
    pub jitter: Release,
    /// How long jobs take.
    #[arg(long, value_enum, default_value_t = Length::Worst)]
    pub execution: Length,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1, allow_hyphen_values = true)]
    #[arg(value_parser = values::whole(0..=u64::MAX, "a seed", "1"))]
    pub seed: u64,
    /// The largest number of events.
    #[arg(long, default_value_t = 2_000_000, allow_hyphen_values = true)]
    #[arg(value_parser = values::whole(1..=u64::MAX, "the number of events", "2000000"))]
    pub events: u64,
    /// The start of the part that is shown.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = nanos)]
    pub from: Option<u64>,
    /// The end of the part that is shown.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = nanos)]
    pub to: Option<u64>,
    /// Print everything that happened as JSON.
    #[arg(long)]
    pub json: bool,
    /// Draw the timeline.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a page with the timeline and the tables.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// When CPU time is supplied to one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// As late as its interface allows.
    Worst,
    /// Always.
    Full,
}

/// The kind of a component's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Server {
    /// The budget is spent whether there is work or not.
    Periodic,
    /// The budget is kept until the period's end.
    Deferrable,
    /// The budget is lost when there is no work.
    Polling,
    /// The deadline moves with the wake-up.
    Bandwidth,
    /// As `bandwidth`, and out of budget it goes on with a later deadline.
    SoftBandwidth,
}

impl From<Server> for Kind {
    fn from(server: Server) -> Self {
        match server {
            Server::Periodic => Self::Periodic,
            Server::Deferrable => Self::Deferrable,
            Server::Polling => Self::Polling,
            Server::Bandwidth => Self::ConstantBandwidth,
            Server::SoftBandwidth => Self::SoftBandwidth,
        }
    }
}

/// What becomes of time that is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Unused {
    /// It stays unused.
    Idle,
    /// Whoever has work uses it.
    Share,
    /// As `share`, and bandwidth servers divide the free bandwidth (GRUB).
    Reclaim,
}

impl From<Unused> for Slack {
    fn from(unused: Unused) -> Self {
        match unused {
            Unused::Idle => Self::Idle,
            Unused::Share => Self::Share,
            Unused::Reclaim => Self::Reclaim,
        }
    }
}

/// When jobs are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Release {
    /// When they arrive.
    None,
    /// The first job as late as possible.
    First,
    /// At random.
    Random,
}

/// How long jobs take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Length {
    /// As long as their execution time.
    Worst,
    /// At random, up to their execution time.
    Random,
}

/// A time of a schedule, in nanoseconds.
pub fn nanos(text: &str) -> Result<u64, String> {
    hanok_system::nanos(text).ok_or_else(|| {
        "a time is a number and one of the units ns, us, ms and s, at most 18446744073s, such as \
         500us, 1.5ms or 1s"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(nanos("10ms"), Ok(10_000_000));
        assert_eq!(nanos("3 us"), Ok(3_000));
        assert_eq!(nanos("1.5ms"), Ok(1_500_000));
        for bad in ["10", "ms", "-1s", "1h", "", "99999999999s"] {
            assert!(nanos(bad).unwrap_err().contains("such as 500us"), "{bad}");
        }
    }
}
