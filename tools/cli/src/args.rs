//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use hanok_bench_runner::args::BenchArgs;
use hanok_scenarios::TestArgs;

use crate::commands::sched::compare::{self as compare, CompareArgs};
use crate::commands::sched::simulate::args::{self as simulate, SimulateArgs};
use hanok_base::values;
use hanok_boot::board::Loader;
use hanok_boot::display::Display;
use hanok_boot::machine::SerialPlace;
use hanok_system::Forward;

/// Builds, checks, runs and tests systems of virtual machines on Hanok, a small real-time
/// hypervisor for ARM.
#[derive(Debug, Parser)]
#[command(name = "hanok", bin_name = "hanok", version, after_help = TOP_EXAMPLE, max_term_width = 100)]
pub struct Cli {
    /// Download and install without asking.
    #[arg(long, global = true, env = "HANOK_YES", value_parser = clap::builder::FalseyValueParser::new())]
    pub yes: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const TOP_EXAMPLE: &str = "\
Example:
  ./hanok run        boots systems/demo.toml and leaves you at a Linux shell
  ./hanok test       runs every test";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build a system, boot it on its board (QEMU) and stay at its console.
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Go to the console of a system that runs, from another terminal.
    #[command(after_help = crate::commands::attach::HELP)]
    Attach(crate::commands::attach::AttachArgs),
    /// List the systems that run.
    #[command(after_help = "Example:\n  hanok list\n\n`hanok boards` lists the boards.")]
    List,
    /// Watch what each core and vCPU of a system does, and change what it is promised.
    #[command(after_help = crate::commands::top::HELP)]
    Top(crate::commands::top::TopArgs),
    /// Record what guests and hypervisor do, for viewers.
    #[command(subcommand, after_help = crate::commands::trace::HELP)]
    Trace(crate::commands::trace::TraceCommand),
    /// Check a description: every error with its line, its reason and what mends it.
    #[command(after_help = CHECK_HELP)]
    Check {
        /// The description.
        file: PathBuf,
    },
    /// Build one image of a system: hypervisor, its tree, the guests' images.
    #[command(after_help = BUILD_HELP)]
    Build {
        /// The description.
        file: PathBuf,
        /// Where the image goes.
        #[arg(short, long)]
        output: PathBuf,
        /// The image's key.
        #[command(flatten)]
        key: KeyArgs,
    },
    /// Make disk images for guests.
    #[command(subcommand, after_help = hanok_image::args::HELP)]
    Image(hanok_image::args::ImageCommand),
    /// List the boards.
    #[command(after_help = "Example:\n  hanok boards")]
    Boards,
    /// Fetch and install all that the other commands need, so that they need no network.
    #[command(after_help = "Example:\n  hanok setup --yes\n  hanok setup --update")]
    Setup {
        /// Look for newer versions of what is there.
        #[arg(long)]
        update: bool,
    },
    /// Run the tests, on this PC and on the board.
    #[command(after_help = TEST_HELP)]
    Test(TestArgs),
    /// Measure native, Hanok, Xen and KVM side by side on the same emulated machine.
    #[command(after_help = BENCH_HELP)]
    Bench(BenchArgs),
    /// Know beforehand whether all deadlines are kept.
    #[command(subcommand, after_help = SCHED_HELP)]
    Sched(SchedCommand),
    /// Find and rewrite sensitive instructions of guests for processors without virtualization.
    #[command(subcommand, after_help = crate::commands::previrt::HELP)]
    Previrt(crate::commands::previrt::Previrt),
    /// Write a completion script for a shell.
    #[command(
        after_help = "Example:\n  hanok completions bash > ~/.local/share/bash-completion/completions/hanok"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

const CHECK_HELP: &str = "\
Says all that can be known without booting. What would have to be downloaded for that is named, \
and left out.

Example:
  hanok check systems/demo.toml

Exit codes:
  0  sound
  2  the description cannot be read
  3  refused: each error says why, and what mends it";

const BUILD_HELP: &str = "\
Example:
  hanok build systems/demo.toml -o demo.img

Exit codes:
  0  built             3  the description is refused, or a build failed
  2  wrong usage       8  a download or an installation failed
  10 the image cannot be written: no such folder, no permission, a full disk";
/// The key of an image.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// The image's random key, 64 hexadecimal digits, instead of a new one: the same description
    /// then gives the same image. Whoever knows the key may guess the guests' random seeds.
    #[arg(
        long,
        value_name = "HEX",
        env = "HANOK_BUILD_KEY",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    #[arg(value_parser = hanok_boot::key::parse)]
    pub build_key: Option<hanok_system::BuildKey>,
}

const RUN_HELP: &str = "\
Keys at the console: all go to the attached VM, Ctrl-C too. Ctrl-] opens the hypervisor's \
prompt (other VMs' consoles, pause, restart), Ctrl-A x ends the run, Ctrl-A h helps.

Scripts (--script) have one step a line; # starts a comment:
  expect TEXT       go on once TEXT comes on the console
  expect-log TEXT   go on once TEXT comes in the hypervisor's messages
  send TEXT         type TEXT; \\n \\r \\t \\xNN and \\\\ are understood
  key TEXT          type it as a person does: for the attached VM, or the prompt
  wait N            go on after N seconds
  silence N         go on once the VM has said nothing for N seconds
  vm NAME           the following steps are about this VM (at first: the first)
  end               end the run, with success

Examples:
  hanok run
  hanok run systems/demo.toml --cores 4 --memory 2G
  hanok run --script steps.txt --console linux=linux.txt --log hanok.txt
  hanok run --until 'rtos: total' --console rtos=rtos.txt --timeout 120
  hanok run --boot u-boot
  hanok run systems/demo.toml --gdb 2345
  hanok run --until 'linux:~# ' --timeout 60 </dev/null

Exit codes:
  0  ended as wanted: the text of --until was seen, the script ended the run,
     all VMs powered off when nothing more was awaited, or Ctrl-A x was typed
  2  wrong usage or script            6  the hypervisor panicked
  3  description refused, build       7  QEMU did not start, or ended
     failed, or the hypervisor           unexpectedly
     refused to start: it says why
  4  the time of --timeout was over   8  a download or an installation failed
  5  a VM was stopped for what it     9  the VMs powered off before the
     did                                 awaited text came
  10 what is to be written cannot be: no such folder, no permission, a full disk
  130  interrupted by a signal";

const TEST_HELP: &str = "\
Names are those of --list; the start of a name selects all that start so. The last line is \
`N passed, N failed`, and `, N not run` where scenarios need a QEMU that HANOK_QEMU names; \
the exit code is 0 when nothing failed, else 1. tests/README.md describes the scenarios.

Examples:
  hanok test
  hanok test unit linux 'damaged [kernel'
  hanok test --all
  hanok test --list";

const SCHED_HELP: &str = "\
docs/scheduling.md says how tasks and budgets are described, and what is reckoned.

Example:
  hanok sched check systems/schedule.toml
  hanok sched paths
  hanok sched simulate systems/schedule.toml
  hanok sched compare system.toml reports --console axis=axis.console";

const SCHED_CHECK_HELP: &str = "\
Every answer of yes has a certificate, which a checker that shares no code with the analysis \
has believed.

Examples:
  hanok sched check systems/schedule.toml
  hanok sched check systems/schedule.toml --html schedule.html
  hanok sched check systems/schedule.toml --json >schedule.json
  hanok sched check carts.xml --csv schedule.csv
  hanok sched check systems/bench-switch-budgets.toml --speed 1500

Exit codes:
  0  all deadlines are kept        3  the description is refused, or a deadline
  2  wrong usage                      is not shown to be kept: it says which
  10 the page cannot be written";

/// The subcommands of `sched`.
#[derive(Debug, Subcommand)]
pub enum SchedCommand {
    /// Find the budgets of VMs and groups, and check every deadline, by analysis.
    #[command(after_help = SCHED_CHECK_HELP)]
    Check(SchedCheckArgs),
    /// Compare what a board did with the simulation: who ran when.
    #[command(after_help = compare::HELP)]
    Compare(CompareArgs),
    /// Show the hypervisor's longest paths with interrupts masked, and what bounds each.
    #[command(after_help = SCHED_PATHS_HELP)]
    Paths(SchedPathsArgs),
    /// Simulate a system's schedule: who runs when, and what is late.
    #[command(after_help = simulate::HELP)]
    Simulate(SimulateArgs),
}

/// Arguments of `sched check`.
#[derive(Debug, Args)]
pub struct SchedCheckArgs {
    /// The description; a file that ends in `.xml` is read in the format of the tool CARTS.
    pub file: PathBuf,
    /// Print everything as JSON, the certificate too.
    #[arg(long)]
    pub json: bool,
    /// Write a page with drawings of demand, supply and bandwidth.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write components and tasks, with what is proven of them, as comma-separated values.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// How many instructions the board's CPU executes in a microsecond, for bounds of interrupts; QEMU with
    /// `--icount` executes 1000.
    #[arg(long, value_name = "NUMBER", default_value_t = hanok_paths::latency::SPEED)]
    #[arg(allow_hyphen_values = true)]
    #[arg(value_parser = values::whole(1..=1_000_000_u64, "a CPU's speed", "--speed 1500"))]
    pub speed: u64,
}

const SCHED_PATHS_HELP: &str = "\
The instructions are counted by `hanok test bounds-`, which fails where a path is longer than it is \
listed. docs/scheduling.md says how a bound of an interrupt's latency follows from them; `hanok \
sched check` prints it.

Example:
  hanok sched paths";

/// Arguments of `sched paths`.
#[derive(Debug, Args)]
pub struct SchedPathsArgs {
    /// Print the table in Markdown, as docs/scheduling.md has it.
    #[arg(long)]
    pub markdown: bool,
}

const BENCH_HELP: &str = "\
Runs the same Linux, lmbench and bare-metal payload on every side, with time as a count of \
instructions: the figures are the same on any PC. Figures are named as in the report.

Examples:
  hanok bench
  hanok bench --quick
  hanok bench --sides native,hanok --figures pipe,ctx-2 --gic 3
  hanok bench --cpu cortex-a72 --repeat 3 -o results
  hanok bench --board qemu-virt-arm --cpu cortex-a15
  hanok bench --profile hypercall --gic 3 --tree
  hanok bench --devices --sides native,hanok
  hanok bench --devices --only kills --kills 100

Exit codes:
  0  everything was measured          8  a download or an installation failed
  1  a side failed: the report says   130  interrupted by a signal
     which, and its console's end
  2  wrong usage                      10  the results cannot be written
  3  a build failed";

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The description; with --native a stock kernel such as debian:6.1 will do.
    #[arg(default_value = "systems/demo.toml")]
    pub file: PathBuf,
    /// The board's CPU model, instead of the description's.
    #[arg(long)]
    pub cpu: Option<String>,
    /// The board's number of cores.
    #[arg(long, allow_hyphen_values = true, value_parser = values::cores)]
    pub cores: Option<u64>,
    /// The board's memory, such as 2G.
    #[arg(long, allow_hyphen_values = true, value_parser = values::size)]
    pub memory: Option<u64>,
    /// One more argument for QEMU (repeatable).
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub qemu_arg: Vec<String>,
    /// Wait for a debugger on this port of this PC before the first instruction; 1234 where none
    /// is named.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "1234")]
    #[arg(allow_hyphen_values = false, value_parser = values::port)]
    pub gdb: Option<u16>,
    /// Print QEMU's command line, build and start nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Boot the first VM's kernel on QEMU itself, without the hypervisor, for comparison.
    #[arg(long)]
    pub native: bool,
    /// Further words for the hypervisor; with --native, for the guest's command line.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub append: String,
    /// What starts the image: QEMU, or U-Boot's `booti` (`bootz` for 32 bits).
    #[arg(long, value_enum, default_value_t, conflicts_with = "native")]
    pub boot: Loader,
    /// Make time a count of instructions, so that all runs are alike.
    #[arg(long)]
    pub icount: bool,
    /// The image's key.
    #[command(flatten)]
    pub key: KeyArgs,
    /// Let this script act at the console.
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Write a VM's console to a file (repeatable).
    #[arg(long, value_name = "VM=FILE", allow_hyphen_values = true, value_parser = values::console)]
    pub console: Vec<(String, PathBuf)>,
    /// Write the hypervisor's messages to a file.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Where the board's second serial port leads, if a VM has it: file:PATH, or socket:PATH for a UNIX
    /// socket, at which another program sends and receives.
    #[arg(long, value_name = "PLACE", allow_hyphen_values = true, value_parser = SerialPlace::parse, conflicts_with = "native")]
    pub serial: Option<SerialPlace>,
    /// Show the board's screen: in a window, or to a VNC viewer (vnc, vnc:PORT); where nothing is
    /// named, in a window if there can be one.
    #[arg(long, value_name = "PLACE", num_args = 0..=1, default_missing_value = "any", conflicts_with = "native")]
    pub display: Option<Display>,
    /// Lead connections with a port of this computer, on its loopback interface, to a TCP port of a VM (repeatable):
    /// docs/shared-devices.md.
    #[arg(
        long,
        value_name = "HOSTPORT:VM:PORT",
        allow_hyphen_values = true,
        conflicts_with = "native"
    )]
    pub forward: Vec<Forward>,
    /// End with success once this text comes on a console or in the messages.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = values::awaited)]
    pub until: Option<String>,
    /// End without success after this many seconds.
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true, value_parser = values::seconds)]
    pub timeout: Option<Duration>,
}

#[cfg(test)]
mod tests;
