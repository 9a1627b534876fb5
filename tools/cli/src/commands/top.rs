//! `hanok top`: a running system, live.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use super::{attach, find};
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::{repo, ui, values};
use hanok_boot::system;
use hanok_console::attach_socket::{self, STAY};
use hanok_top::apply::{Until, Wanted};
use hanok_top::asked::Asked;
use hanok_top::run::{Request, Shown, Source};

/// What `hanok top --help` ends with.
pub const HELP: &str = "\
Shows, for each core, VM and vCPU: what it is promised (period, budget, deadline, weight), the CPU time it \
used and had beyond its budget, promises that were not kept, throttles, switches and exits, and who ran on \
which core when. A promise can be changed there: what would follow for each task is shown first, by the \
analysis of `hanok sched check`. docs/top.md has the keys, and the protocol of the board's side.

Without --line it is a system that another `hanok run` runs. With --line the board is at a serial line, whose \
console is carried, too; such a line must be framed (hanok.console=framed).

--once --change \"VCPU WORD=VALUE ...\" changes a promise without a terminal. VCPU is a name of the table (linux.0), \
or that of a VM with one vCPU; the words are period, budget and deadline, whose values are times (5ms, 250us), or \
weight and cap, which are numbers. What is not named stays. Printed are what would follow, the board's answer, and \
what the vCPU is promised and has before and after. What the analysis refuses is applied by --anyway alone, and \
--dry-run applies nothing.

Examples:
  hanok top
  hanok top --system demo-4711 --web
  hanok top --line /dev/ttyUSB0 --baud 115200 --description systems/demo.toml
  hanok top --once
  hanok top --once --change \"linux.0 period=10ms budget=4ms\" --dry-run
  hanok top --once --change \"web weight=512 cap=40\"

Exit codes:
  0  left, or the run has ended; with --change: changed, with --dry-run: shown
  2  no such system, line or vCPU, or values that no board takes
  3  the analysis refuses the change, with the reason; nothing is applied
  4  with --once: no answer in time; a change may have been made all the same
  10 no terminal to use, or an address is taken
  11 the board refuses the change, with the reason; nothing has changed
  130  interrupted by a signal";

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Which system, where several run: as `hanok list` names it, or its description's name.
    #[arg(long, value_name = "NAME", conflicts_with = "line")]
    pub system: Option<String>,
    /// A serial line at which the board is: a terminal device, or a UNIX socket.
    #[arg(long, value_name = "PATH")]
    pub line: Option<PathBuf>,
    /// The line's speed.
    #[arg(long, default_value_t = 115_200, requires = "line", allow_hyphen_values = true, value_parser = values::baud)]
    pub baud: u32,
    /// The description of the system at the line, whose tasks are analysed; of a run it is known.
    #[arg(long, value_name = "FILE", requires = "line")]
    pub description: Option<PathBuf>,
    /// Show it in a browser: print the address to open. 127.0.0.1:8421 where none is named; port 0: any free one.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:8421", value_parser = values::listening)]
    pub web: Option<SocketAddr>,
    /// Print one screen as text.
    #[arg(long, conflicts_with = "web")]
    pub once: bool,
    /// Change what a vCPU is promised, as in "linux.0 period=10ms budget=4ms"; show what would follow first.
    #[arg(long, value_name = "CHANGE", requires = "once", allow_hyphen_values = true, value_parser = Asked::parse)]
    pub change: Option<Asked>,
    /// Only show what would follow.
    #[arg(long, requires = "change", conflicts_with = "anyway")]
    pub dry_run: bool,
    /// Apply what the analysis refuses, too: the board has the last word.
    #[arg(long, requires = "change")]
    pub anyway: bool,
    /// Seconds between two reports.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = values::seconds)]
    pub interval: Option<Duration>,
}

/// `hanok top`.
pub fn run(root: &Path, args: &TopArgs) -> Outcome {
    let shown = match (args.web, &args.change, args.once) {
        (Some(address), ..) => Shown::Web(address),
        (None, Some(asked), _) => Shown::Change(Box::new(Wanted {
            asked: asked.clone(),
            until: match (args.dry_run, args.anyway) {
                (true, _) => Until::Preview,
                (false, true) => Until::Anyway,
                (false, false) => Until::Change,
            },
        })),
        (None, None, true) => Shown::Once,
        (None, None, false) => Shown::Terminal,
    };
    if matches!(shown, Shown::Terminal)
        && !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal())
    {
        return no_terminal().blame(Code::Output);
    }
    let (source, description) = match &args.line {
        Some(line) => {
            let description = args.description.as_ref().map(|path| find(root, path));
            if let Some(path) = &description {
                system::readable(path)?;
            }
            (Source::Line(line.clone(), args.baud), description)
        }
        None => of_run(root, args.system.as_deref())?,
    };
    hanok_top::run::run(Request {
        source,
        shown,
        description,
        boards: system::boards_dir(root),
        interval: args.interval,
    })
}

fn no_terminal() -> anyhow::Result<Code> {
    bail!("this is no terminal\n  fix: --once prints one screen, --web shows it in a browser")
}

/// The run that is meant, and its description.
fn of_run(root: &Path, name: Option<&str>) -> Outcome<(Source, Option<PathBuf>)> {
    let runs = attach_socket::runs(&repo::target_dir(root));
    let (running, mut stream) = attach::chosen(name, runs).blame(Code::Usage)?;
    stream.write_all(STAY.as_bytes()).blame(Code::Usage)?;
    if let (Some(path), Some(began)) = (&running.description, running.began())
        && let Ok(Some(note)) = hanok_top::run::changed_since(path, began)
    {
        eprintln!("{}", ui::dim(&note));
    }
    let name = ui::plain(&running.name());
    Ok((Source::Run(name, stream), running.description))
}
