//! `hanok sched compare`: what a board did, beside the simulation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use hanok_paths::{List, Machine};
use hanok_schedule_events::beside::{self, Beside, Terms};
use hanok_schedule_events::record::Record;
use hanok_system::{load, load_schedule};

use super::super::find;
use super::simulate::args::{Unused, nanos};
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::ui;
use hanok_boot::system;

/// What is shown below the options.
pub const HELP: &str = "\
REPORTS is what the board said on the report channel (docs/top.md): a report with all turns since the guests' first \
jobs, such as the answer to `report 1 255`, and the answer to a `change` of one VM's interface to the very same one, \
which tells when periods begin. A console's file has the RTOS's line `first release at tick N`, from which the offsets \
of a VM's tasks count.

Example:
  hanok sched compare system.toml reports --console axis=axis.console

Exit codes:
  0  what ran is what is simulated   2  wrong usage
  1  it is not: it says where first  3  the description or the record is refused";

/// Arguments of `sched compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The description that the board ran.
    pub file: PathBuf,
    /// What it said on the report channel.
    pub reports: PathBuf,
    /// What an RTOS guest said; one for each VM with tasks.
    #[arg(long = "console", value_name = "VM=FILE", allow_hyphen_values = true, value_parser = named)]
    pub consoles: Vec<(String, PathBuf)>,
    /// How long is compared, from the first job's arrival on.
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, default_value = "60ms", value_parser = nanos)]
    pub length: u64,
    /// What becomes of promised time that nobody uses.
    #[arg(long, value_enum, default_value_t = Unused::Idle)]
    pub slack: Unused,
    /// Best effort has work all the time. Without it, its time counts as nobody's.
    #[arg(long)]
    pub busy: bool,
    /// The longest exit of the board's hypervisor.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, default_value = "5us", value_parser = nanos)]
    pub exit: u64,
    /// What a switch between vCPUs takes at most; without it, the description's `switch`, or else the longest path of
    /// `hanok sched paths`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = nanos)]
    pub switch: Option<u64>,
    /// Show both schedules.
    #[arg(long)]
    pub list: bool,
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    let (name, file) = text
        .split_once('=')
        .ok_or("VM=FILE, such as axis=axis.console")?;
    Ok((name.to_owned(), file.into()))
}

/// The longest switch of a described board, in nanoseconds.
fn longest_switch(root: &Path, file: &Path) -> Outcome<u64> {
    let system = load(file, &system::boards_dir(root)).map_err(system::refused)?;
    let vcpus = system.vms.iter().map(|vm| vm.config.cpus.len()).sum();
    let machine = Machine::of(&system, vcpus).context("no switch was counted on such a board");
    let list = List::own().blame(Code::Refused)?;
    list.switch(machine.blame(Code::Refused)?)
        .blame(Code::Refused)
}

/// `hanok sched compare`.
pub fn run(root: &Path, args: &CompareArgs) -> Outcome {
    let file = find(root, &args.file);
    system::readable(&file)?;
    let schedule = load_schedule(&file, &system::boards_dir(root)).map_err(system::refused)?;
    let read = |path: &Path| -> Outcome<String> {
        system::readable(path)?;
        let bytes = std::fs::read(path).blame(Code::Usage)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let record = Record::read(&read(&args.reports)?).blame(Code::Refused)?;
    let mut releases = BTreeMap::new();
    for (name, path) in &args.consoles {
        let tick = beside::release(&read(path)?).blame(Code::Refused)?;
        releases.insert(name.clone(), tick);
    }
    let described = schedule.model.cost.switch.get();
    let described = Some(described).filter(|switch| *switch > 0);
    let switch = match args.switch.or(described) {
        Some(switch) => switch,
        None => longest_switch(root, &file)?,
    };
    let terms = Terms {
        switch,
        slack: args.slack.into(),
        busy: args.busy,
        exit: args.exit.div_ceil(1_000),
        length: args.length / 1_000,
        ..Terms::RTOS
    };
    let mut beside = Beside::new(&schedule.model, &record, releases, terms).blame(Code::Refused)?;
    let whole = beside.until();
    let comparable = beside.comparable().blame(Code::Refused)?;
    beside.shorten(comparable);
    let expected = beside.expected(beside.model()).blame(Code::Refused)?;
    let happened = beside.happened();
    if args.list {
        ui::line(format_args!("{}", beside.listing(&happened, &expected)));
    }
    match beside.compare(&happened, &expected) {
        Err(difference) => {
            ui::line(format_args!("{}", beside.told(&difference)));
            Ok(Code::TestsFailed)
        }
        Ok(agreement) => {
            ui::line(format_args!(
                "the schedule is the simulated one: {} events, none more than {:.1} us away, where {:.1} us may be",
                agreement.events,
                beside.micros(agreement.widest),
                beside.micros(agreement.allowed)
            ));
            if comparable < whole {
                ui::line(format_args!(
                    "from {:.1} us after the first job's arrival on nothing is compared: two events are so near that \
                     either may come first",
                    beside.micros(comparable - beside.first())
                ));
            }
            Ok(Code::Success)
        }
    }
}
