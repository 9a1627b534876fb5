//! `hanok trace report`: what a recording has, in a terminal.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::{ui, values};
use hanok_trace_files::read;
use hanok_trace_files::report::{Options, report};

/// What `hanok trace report --help` ends with.
pub const HELP: &str = "\
Reads what `hanok trace record` wrote, and what trace-cmd recorded in a guest (version 6 of its files). Times are on the board's \
clock and count from the first record of all files.

A task waits from when it has work until it runs; of the longest waits the report says who had the CPU instead. A task is \
preempted if another one gets the CPU while it could go on. An exit lasts until a guest is entered, or until the CPU has \
nothing to do. Where records were lost, a CPU counts as not recorded until its next record.

Examples:
  hanok trace report trace.dat
  hanok trace report --task rtos.0 trace.dat
  hanok trace report --from 0.5 --to 0.6 board.dat guest.dat

Exit codes:
  0  reported
  2  a file cannot be read, nobody has that name, or nothing was recorded then";

/// Arguments of `trace report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Files for trace-cmd.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Tell of one task alone, such as linux.0, and more of it.
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// Begin so many seconds behind the first record.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = values::seconds)]
    pub from: Option<Duration>,
    /// End so many seconds behind the first record.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = values::seconds)]
    pub to: Option<Duration>,
}

/// `hanok trace report`.
pub fn run(args: &ReportArgs) -> Outcome {
    let mut files = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        let cannot = || format!("cannot read {name}");
        let bytes = std::fs::read(path)
            .with_context(cannot)
            .blame(Code::Usage)?;
        let trace = read::read(&bytes).with_context(cannot).blame(Code::Usage)?;
        files.push((name, trace));
    }
    let nanoseconds = |time: Duration| time.as_nanos() as u64;
    let options = Options {
        task: args.task.clone(),
        from: args.from.map(nanoseconds),
        to: args.to.map(nanoseconds),
    };
    let text = report(&files, &options).blame(Code::Usage)?;
    text.lines()
        .for_each(|line| ui::line(format_args!("{line}")));
    Ok(Code::Success)
}

#[cfg(test)]
mod tests;
