//! `hanok previrt`: sensitive instructions of guests for processors without virtualization
//! hardware, found and rewritten in files.

use std::path::{Path, PathBuf};

mod input;
mod stats;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use hanok_previrt::oracle::{Comparison, executed};
use hanok_previrt::{
    Form, Lookalikes, Options, Patched, Report, Scan, SideFile, Sites, Trampolines,
};

use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::outputs::{self, Outputs};
use hanok_base::ui::counted;
use hanok_base::{ui, values};

/// What to do with a file.
#[derive(Debug, Subcommand)]
pub enum Previrt {
    /// List every sensitive instruction in a file.
    #[command(after_help = SCAN_HELP)]
    Scan(ScanArgs),
    /// Rewrite every sensitive instruction, so that it traps or needs no trap.
    #[command(after_help = PATCH_HELP)]
    Patch(PatchArgs),
    /// Compare what is found in an image with the mapping symbols of its vmlinux.
    #[command(after_help = COMPARE_HELP)]
    Compare(CompareArgs),
    /// Check that all sensitive instructions that a processor executed were found.
    #[command(after_help = EXECUTED_HELP)]
    CheckExecuted(ExecutedArgs),
    /// Undo what `patch` did.
    #[command(
        after_help = "Example:\n  hanok previrt unpatch Image.patched -o Image\n\nExit codes: as of `scan`"
    )]
    Unpatch(UnpatchArgs),
}

/// Help of the whole group.
pub const HELP: &str = "\
A file is a kernel (zImage or Image with kallsyms), an object, a module (.ko, .ko.xz), an \
archive, or a program with its mapping symbols, for ARMv7-A and little-endian.

Examples:
  hanok previrt scan vmlinuz-6.1.0-50-armmp
  hanok previrt patch vmlinuz-6.1.0-50-armmp -o Image.patched
  hanok previrt unpatch Image.patched -o Image";

const SCAN_HELP: &str = "\
A word is doubtful that looks like a sensitive instruction, and to which nothing leads that \
was found. It may be data, and `patch` leaves it to the hypervisor.

Examples:
  hanok previrt scan vmlinuz
  hanok previrt scan vmlinux --functions 20
  hanok previrt scan module.ko.xz --json
  hanok previrt scan vmlinuz --stats

Exit codes:
  0  scanned               3  refused: the message says why
  2  wrong usage           10 the output cannot be written";

const PATCH_HELP: &str = "\
The output is unpacked: of a zImage the raw Image, of module.ko.xz the module; so it may be the \
file itself only where that is not packed. Beside it goes \
OUTPUT.json, which names every change and undoes them all.

In a build, each object may be rewritten after the assembler; see docs/previrt.md. A file that \
is rewritten already is refused; with --if-needed it is passed on as it is.

Examples:
  hanok previrt patch vmlinuz -o Image.patched
  hanok previrt patch vmlinuz -o Image.patched --trampolines none
  hanok previrt patch vmlinuz -o Image.patched --traps-only
  hanok previrt patch rtos.elf -o rtos-patched.elf --area 0x40800000 --in-place
  hanok previrt patch start.o -o start.o --if-needed

Exit codes: as of `scan`";

const COMPARE_HELP: &str = "\
Both are of the same build. A site is missed that is neither certain nor doubtful in the image; \
a literal is what is certain there and is no instruction by mapping symbols.

Example:
  hanok previrt compare Image vmlinux

Exit codes:
  0  nothing missed, no literal taken for code
  1  something was
  3  refused";

const EXECUTED_HELP: &str = "\
LIST is what QEMU's plugin writes (tools/plugin, what=words): a line for each instruction.

Example:
  qemu-system-arm -plugin libhanok_plugin.so,what=words,out=list.txt ...
  hanok previrt check-executed vmlinuz list.txt

Exit codes:
  0  each sensitive instruction that was executed is a site
  1  one is not
  3  refused";

/// Arguments of `scan`.
#[derive(Debug, Args)]
pub struct ScanArgs {
    /// The file.
    pub file: PathBuf,
    /// Print everything as JSON, with each site.
    #[arg(long)]
    pub json: bool,
    /// List this many of the functions with most sites.
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "json")]
    #[arg(allow_hyphen_values = true)]
    #[arg(value_parser = values::whole(0..=usize::MAX, "how many", "20"))]
    pub functions: usize,
    /// Print what it used: processor time and memory of this process.
    #[arg(long, conflicts_with = "json")]
    pub stats: bool,
}

/// Arguments of `patch`.
#[derive(Debug, Args)]
pub struct PatchArgs {
    /// The file.
    pub file: PathBuf,
    /// Where the rewritten file goes.
    #[arg(short, long)]
    pub output: PathBuf,
    /// Where the side file goes; OUTPUT.json by default.
    #[arg(long, value_name = "FILE")]
    pub side: Option<PathBuf>,
    /// Which sites of an image with memory for trampolines get one instead of a trap: `strict` is
    /// all but writes of DACR, which `all` stores only, to be enforced at the next exit.
    #[arg(long, value_enum, default_value_t)]
    pub trampolines: Which,
    /// Rewrite only what User mode would silently do otherwise, to traps that hold the instruction
    /// itself: nothing but the output is needed then. It is what `hanok run` does to a zImage on
    /// a board whose backend is `deprivileged`.
    #[arg(long, conflicts_with_all = ["trampolines", "area", "in_place"])]
    pub traps_only: bool,
    /// Also replace what only looks like such an instruction, in unused pages of a kernel's A32
    /// image, so that the hypervisor has fewer doubts.
    #[arg(long)]
    pub lookalikes: bool,
    /// The address of memory for trampolines, in hexadecimal: behind the program, and used neither
    /// by it nor by its loader. For Linux it is known.
    #[arg(long, value_name = "ADDRESS", value_parser = values::hexadecimal)]
    #[arg(allow_hyphen_values = true)]
    pub area: Option<u32>,
    /// For a program that is not Linux: none of its code is copied elsewhere before it runs, so
    /// that all sites can have trampolines.
    #[arg(long)]
    pub in_place: bool,
    /// Pass on a file that is rewritten already, instead of refusing it.
    #[arg(long)]
    pub if_needed: bool,
    /// Print what it used: processor time and memory of this process.
    #[arg(long)]
    pub stats: bool,
}

/// Which sites get trampolines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// None.
    None,
    /// All but writes of DACR.
    Strict,
    /// All.
    #[default]
    All,
}

impl From<Which> for Trampolines {
    fn from(which: Which) -> Self {
        match which {
            Which::None => Self::None,
            Which::Strict => Self::Strict,
            Which::All => Self::All,
        }
    }
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The image: zImage or Image.
    pub image: PathBuf,
    /// The vmlinux that it was made of.
    pub vmlinux: PathBuf,
}

/// Arguments of `check-executed`.
#[derive(Debug, Args)]
pub struct ExecutedArgs {
    /// The image.
    pub image: PathBuf,
    /// The list of executed instructions.
    pub list: PathBuf,
    /// The address at which memory begins, in hexadecimal: a kernel runs there before its MMU is
    /// on.
    #[arg(long, value_name = "ADDRESS", default_value = "40000000", value_parser = values::hexadecimal)]
    #[arg(allow_hyphen_values = true)]
    pub memory: u32,
}

/// Arguments of `unpatch`.
#[derive(Debug, Args)]
pub struct UnpatchArgs {
    /// The rewritten file.
    pub file: PathBuf,
    /// Where the original goes.
    #[arg(short, long)]
    pub output: PathBuf,
    /// The side file; FILE.json by default.
    #[arg(long, value_name = "FILE")]
    pub side: Option<PathBuf>,
}

/// `hanok previrt`.
pub fn run(command: &Previrt) -> Outcome {
    match command {
        Previrt::Scan(args) => scan(args),
        Previrt::Patch(args) => patch(args),
        Previrt::Compare(args) => compare(args),
        Previrt::CheckExecuted(args) => check_executed(args),
        Previrt::Unpatch(args) => unpatch(args),
    }
}

fn read(file: &Path) -> Outcome<Vec<u8>> {
    input::read(file)
}

fn write(file: &Path, bytes: &[u8]) -> Outcome<()> {
    outputs::write(file, bytes)
}

fn load(file: &Path) -> Outcome<Scan> {
    let bytes = read(file)?;
    hanok_previrt::scan(bytes)
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
    if args.stats {
        stats::print();
    }
    Ok(Code::Success)
}

/// Refuses outputs that cannot be written. A file may be rewritten in place, as a build does it:
/// the side file undoes that.
fn check_outputs(args: &PatchArgs) -> Outcome<()> {
    let both = Outputs::default().writes("--output", &args.output);
    both.writes("--side", side_of(args)).check()?;
    let side = Outputs::default().reads("the file itself", &args.file);
    side.writes("--side", side_of(args)).check()
}

/// A packed file may not be rewritten in place: nothing packs it again.
fn check_packed(args: &PatchArgs, scan: &Scan) -> Outcome<()> {
    match scan.packed {
        None => Ok(()),
        Some(_) => {
            let packed = Outputs::default().reads("the file itself, which is packed", &args.file);
            packed.writes("--output", &args.output).check()
        }
    }
}

fn patch(args: &PatchArgs) -> Outcome {
    check_outputs(args)?;
    let scan = load(&args.file)?;
    check_packed(args, &scan)?;
    if args.if_needed && hanok_previrt::rewritten(&scan) {
        return pass_on(args, &scan);
    }
    let options = Options {
        sites: if args.traps_only {
            Sites::Silent
        } else {
            Sites::All
        },
        trampolines: args.trampolines.into(),
        area: args.area,
        in_place: args.in_place,
        inside: false,
        lookalikes: if args.lookalikes {
            Lookalikes::Replace
        } else {
            Lookalikes::Keep
        },
    };
    let patched = hanok_previrt::rewrite(scan, options);
    let Patched { bytes, side } = patched
        .with_context(|| args.file.display().to_string())
        .blame(Code::Refused)?;
    write(&args.output, &bytes)?;
    write(&side_of(args), side.to_json().as_bytes())?;
    print_summary(&args.output, &side);
    if args.stats {
        stats::print();
    }
    Ok(Code::Success)
}

fn side_of(args: &PatchArgs) -> PathBuf {
    args.side.clone().unwrap_or_else(|| beside(&args.output))
}

/// Copies a file that is rewritten already to the output, with its side file if there is one, which
/// has to belong to it.
fn pass_on(args: &PatchArgs, scan: &Scan) -> Outcome {
    let earlier = beside(&args.file);
    if earlier.exists() {
        let text = read(&earlier)?;
        SideFile::parse(&text)
            .and_then(|side| hanok_previrt::revert(&scan.content, &side))
            .with_context(|| earlier.display().to_string())
            .blame(Code::Refused)?;
        write(&side_of(args), &text)?;
    }
    write(&args.output, &scan.content)?;
    ui::line(format_args!("{}: rewritten already", args.output.display()));
    Ok(Code::Success)
}

fn print_summary(output: &Path, side: &SideFile) {
    let of = |form| {
        let changes = side.changes.iter();
        changes.filter(|change| change.form == form).count() as u64
    };
    ui::line(format_args!(
        "{}: {} to SVC, {} by number, {} to UDF, {} to another register, {} to a trampoline, {} left, {} doubtful",
        output.display(),
        counted(of(Form::Trap), "site"),
        of(Form::Index),
        of(Form::Crossing),
        of(Form::Word),
        of(Form::Trampoline),
        side.left.len(),
        counted(side.doubtful.len() as u64, "word"),
    ));
    let changes = side.changes.iter();
    let replaced = changes.filter(|change| change.form.is_lookalike()).count() as u64;
    if replaced > 0 {
        ui::line(format_args!(
            "{} replaced that only looked like such an instruction, or belonged to one",
            counted(replaced, "word")
        ));
    }
    for area in &side.reserved {
        let what = if area.plain {
            "what was moved is"
        } else {
            "trampolines are"
        };
        let place = match (&side.tables, area.appended) {
            (Some(_), true) => ", in a segment of their own",
            (None, true) => ", behind the kernel's .bss, to where the image is filled up",
            (_, false) => "",
        };
        ui::line(format_args!(
            "{what} at {:#010x} to {:#010x}{place}: reserve that memory in the guest's \
             device tree",
            area.address,
            area.address.saturating_add(area.len)
        ));
    }
}

fn compare(args: &CompareArgs) -> Outcome {
    let (image, vmlinux) = (load(&args.image)?, load(&args.vmlinux)?);
    let found = Comparison::new(&image, &vmlinux).blame(Code::Refused)?;
    for (what, words) in [("missed", &found.missed), ("literal", &found.literals)] {
        for word in words {
            ui::line(format_args!(
                "{what}: {:#010x}, {}",
                word.address, word.function
            ));
        }
    }
    ui::line(format_args!("{}", found));
    Ok(verdict(found.is_right()))
}

const fn verdict(right: bool) -> Code {
    if right {
        Code::Success
    } else {
        Code::TestsFailed
    }
}

fn check_executed(args: &ExecutedArgs) -> Outcome {
    let image = load(&args.image)?;
    let list = read(&args.list)?;
    let found = executed(&image, &list, args.memory).blame(Code::Refused)?;
    for (what, list) in [("missing", &found.missing), ("doubtful", &found.doubted)] {
        list.iter()
            .for_each(|address| ui::line(format_args!("{what}: {address:#010x}")));
    }
    ui::line(format_args!("{}", found));
    Ok(verdict(found.sensitive > 0 && found.missing.is_empty()))
}

fn unpatch(args: &UnpatchArgs) -> Outcome {
    let bytes = read(&args.file)?;
    let beside = args.side.clone().unwrap_or_else(|| beside(&args.file));
    let outputs = Outputs::default().reads("the side file", &beside);
    outputs.writes("--output", &args.output).check()?;
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
