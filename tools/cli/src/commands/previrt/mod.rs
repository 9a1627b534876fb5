//! `hanok previrt`: sensitive instructions of guests for processors without virtualization
//! hardware, found and rewritten in files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use hanok_previrt::{Form, Patched, Report, Scan, SideFile};

use crate::commands::counted;
use crate::exit::{Blame, Code, Outcome};
use crate::ui;

/// What to do with a file.
#[derive(Debug, Subcommand)]
pub enum Previrt {
    /// List every sensitive instruction in a file.
    #[command(after_help = SCAN_HELP)]
    Scan(ScanArgs),
    /// Rewrite every sensitive instruction, so that it traps or needs no trap.
    #[command(after_help = PATCH_HELP)]
    Patch(PatchArgs),
    /// Undo what `patch` did.
    #[command(
        after_help = "Example:\n  hanok previrt unpatch Image.patched -o Image\n\nExit codes: as of `scan`"
    )]
    Unpatch(UnpatchArgs),
}

/// Help of the whole group.
pub const HELP: &str = "\
A file is a kernel (zImage or Image with kallsyms), an object, a module (.ko, .ko.xz), an
archive, or a program with its mapping symbols, for ARMv7-A and little-endian.

Examples:
  hanok previrt scan vmlinuz-6.1.0-50-armmp
  hanok previrt patch vmlinuz-6.1.0-50-armmp -o Image.patched
  hanok previrt unpatch Image.patched -o Image";

const SCAN_HELP: &str = "\
A word is doubtful that looks like a sensitive instruction, and to which nothing leads that
was found. It may be data, and `patch` leaves it to the hypervisor.

Examples:
  hanok previrt scan vmlinuz
  hanok previrt scan vmlinux --functions 20
  hanok previrt scan module.ko.xz --json

Exit codes:
  0  scanned    3  refused: the message says why";

const PATCH_HELP: &str = "\
The output is unpacked: of a zImage the raw Image, of module.ko.xz the module. Beside it goes
OUTPUT.json, which names every change and undoes them all.

In a build, each object may be rewritten after the assembler; see docs/previrt.md.

Examples:
  hanok previrt patch vmlinuz -o Image.patched
  hanok previrt patch start.o -o start.o

Exit codes: as of `scan`";

/// Arguments of `scan`.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// The file.
    pub file: PathBuf,
    /// Everything as JSON, each site too.
    #[arg(long)]
    pub json: bool,
    /// The functions with most sites, so many.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "json")]
    pub functions: usize,
}

/// Arguments of `patch`.
#[derive(Debug, Args)]
pub struct PatchArgs {
    /// The file.
    pub file: PathBuf,
    /// Where the rewritten file goes.
    #[arg(short, long)]
    pub output: PathBuf,
    /// Where the side file goes; OUTPUT.json if nothing is said.
    #[arg(long, value_name = "FILE")]
    pub side: Option<PathBuf>,
}

/// Arguments of `unpatch`.
#[derive(Debug, Args)]
pub struct UnpatchArgs {
    /// The rewritten file.
    pub file: PathBuf,
    /// Where the original goes.
    #[arg(short, long)]
    pub output: PathBuf,
    /// The side file; FILE.json if nothing is said.
    #[arg(long, value_name = "FILE")]
    pub side: Option<PathBuf>,
}

/// `hanok previrt`.
pub fn run(command: &Previrt) -> Outcome {
    match command {
        Previrt::Scan(args) => scan(args),
        Previrt::Patch(args) => patch(args),
        Previrt::Unpatch(args) => unpatch(args),
    }
}

fn read(file: &Path) -> Outcome<Vec<u8>> {
    let read = fs::read(file).with_context(|| format!("cannot read {}", file.display()));
    read.blame(Code::Usage)
}

fn write(file: &Path, bytes: &[u8]) -> Outcome<()> {
    let written =
        fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()));
    written.blame(Code::Refused)
}

fn load(file: &Path) -> Outcome<Scan> {
    let bytes = read(file)?;
    hanok_previrt::scan(&bytes)
        .with_context(|| file.display().to_string())
        .blame(Code::Refused)
}

/// `file` with `.json` behind its name.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".json");
    PathBuf::from(name)
}

fn scan(args: &ScanArgs) -> Outcome {
    let scan = load(&args.file)?;
    let report = Report::new(&scan);
    let text = if args.json {
        report.to_json()
    } else {
        report.to_text(args.functions)
    };
    ui::line(format_args!("{}", text.trim_end()));
    Ok(Code::Success)
}

fn patch(args: &PatchArgs) -> Outcome {
    let scan = load(&args.file)?;
    let patched = hanok_previrt::patch(&scan);
    let Patched { bytes, side } = patched
        .with_context(|| args.file.display().to_string())
        .blame(Code::Refused)?;
    write(&args.output, &bytes)?;
    let beside = args.side.clone().unwrap_or_else(|| beside(&args.output));
    write(&beside, side.to_json().as_bytes())?;
    let of = |form| {
        side.changes
            .iter()
            .filter(|change| change.form == form)
            .count() as u64
    };
    ui::line(format_args!(
        "{}: {} to SVC, {} by number, {} to another register, {} left, {} doubtful",
        args.output.display(),
        counted(of(Form::Trap), "site"),
        of(Form::Index),
        of(Form::Word),
        side.left.len(),
        counted(side.doubtful.len() as u64, "word"),
    ));
    Ok(Code::Success)
}

fn unpatch(args: &UnpatchArgs) -> Outcome {
    let bytes = read(&args.file)?;
    let beside = args.side.clone().unwrap_or_else(|| beside(&args.file));
    let side = SideFile::parse(&read(&beside)?)
        .with_context(|| beside.display().to_string())
        .blame(Code::Refused)?;
    let original = hanok_previrt::revert(&bytes, &side)
        .with_context(|| args.file.display().to_string())
        .blame(Code::Refused)?;
    write(&args.output, &original)?;
    let changes = counted(side.changes.len() as u64, "change");
    ui::line(format_args!("{}: {changes} undone", args.output.display()));
    Ok(Code::Success)
}
