//! Where each of the hypervisor's instructions goes: QEMU with our plugin, and what it tells.
//!
//! The plugin adds no instruction to what runs, so that a board with it gives the same
//! figures as one without; the payload's boots on Hanok therefore always have it. It tells
//! stretches by number alone: which figure they are of, the console says, in the same order.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use hanok_bench::{Figure, FunctionCost, Side};
use hanok_profile::code::{A32, A64, Instructions};
use hanok_profile::profile::Profile;
use hanok_profile::report::{Report, Stretch};
use hanok_profile::symbols::Symbols;
use hanok_profile::table::{self, By, Shown};
use hanok_system::Architecture;

use super::boards::Boards;
use super::job::{self, Ended, Prepared};
use super::materials::Materials;
use super::plan::{Job, Plan};
use crate::args::BenchArgs;
use hanok_artifacts::Store;
use hanok_artifacts::{cargo, initramfs};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::ui::{self, Step};
use hanok_base::{process, repo};
use hanok_boot::machine;

/// The plugin's package, and what cargo makes of it.
const PACKAGE: &str = "hanok-plugin";
const LIBRARY: &str = "libhanok_plugin.so";
/// How many rows a table has.
const ROWS: usize = 40;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Each stretch between two markers that the guest executes.
    Stretches,
    /// From the reset to the first marker that ends one.
    Boot,
}

/// The plugin, ready to be given to QEMU.
pub struct Counting {
    plugin: PathBuf,
    elf: PathBuf,
    root: PathBuf,
}

impl Counting {
    /// Builds the plugin, and the hypervisor that it is to recognize.
    pub fn prepare(root: &Path, architecture: Architecture) -> Result<Self> {
        cargo::hypervisor_of(root, architecture)?;
        let step = Step::new("Building the plugin for QEMU");
        process::run(cargo::cargo(root).args(["build", "-p", PACKAGE]))?;
        step.done();
        Ok(Self {
            plugin: repo::target_dir(root).join("debug").join(LIBRARY),
            elf: cargo::hypervisor_elf_of(root, architecture),
            root: root.to_owned(),
        })
    }

    /// Makes QEMU count, and write what it counted to `report`.
    pub fn attach(&self, command: &mut Command, report: &Path, what: What) {
        let [plugin, elf, out] = [&self.plugin, &self.elf, report].map(machine::escaped);
        let what = match what {
            What::Stretches => "stretches",
            What::Boot => "boot",
        };
        command.arg("-plugin");
        command.arg(format!("{plugin},elf={elf},out={out},what={what}"));
    }

    /// Where the instructions of `stretches` went.
    pub fn profile(&self, stretches: &[Stretch]) -> Result<Profile> {
        let elf = fs::read(&self.elf)?;
        let symbols = Symbols::parse(&elf, &self.root.to_string_lossy())?;
        Ok(Profile::of(stretches, &symbols))
    }
}

/// What was counted of one figure.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The figure's name.
    pub figure: String,
    /// How often each stretch does what is measured, where the guest tells.
    pub rounds: Option<u64>,
    /// The stretches.
    pub stretches: Vec<Stretch>,
}

impl Counted {
    /// The hypervisor's instructions of one round on all CPUs, in the least stretch.
    pub fn a_round(&self) -> Option<f64> {
        let least = self.stretches.iter().map(ours).min()?;
        Some(least as f64 / self.rounds? as f64)
    }

    /// The rounds of all stretches.
    fn all_rounds(&self) -> Option<u64> {
        Some(self.rounds? * self.stretches.len() as u64)
    }

    /// As the results keep it.
    pub fn kept(&self, counting: &Counting) -> Result<hanok_bench::Profile> {
        let profile = counting.profile(&self.stretches)?;
        let functions = profile.functions.iter().filter(|function| function.own > 0);
        Ok(hanok_bench::Profile {
            figure: self.figure.clone(),
            rounds: self.all_rounds().unwrap_or(1),
            total: profile.total().hypervisor,
            functions: functions.map(cost).collect(),
        })
    }
}

fn cost(function: &hanok_profile::profile::Function) -> FunctionCost {
    let place = function.place.as_ref();
    FunctionCost {
        name: place.map_or(function.name.clone(), |place| {
            format!("{} ({place})", function.name)
        }),
        instructions: function.own,
    }
}

fn ours(stretch: &Stretch) -> u64 {
    stretch.cpus.iter().map(|cpu| cpu.hypervisor).sum()
}

/// What the plugin wrote to `path`, by the figures that `console` names.
pub fn read(path: &Path, console: &str, what: What) -> Result<Vec<Counted>> {
    let text = fs::read_to_string(path).context("QEMU's plugin wrote no report")?;
    let report = Report::parse(&text).context("the report of QEMU's plugin")?;
    for stretch in &report.stretches {
        ensure!(stretch.found, "QEMU's plugin never saw the hypervisor");
        ensure!(
            stretch.differing == 0,
            "{} instructions in memory are others than in the hypervisor's ELF file",
            stretch.differing
        );
    }
    match what {
        What::Stretches => by_figure(report.stretches, console),
        What::Boot => Ok(vec![Counted {
            figure: "boot".to_owned(),
            rounds: None,
            stretches: report.stretches,
        }]),
    }
}

/// Stretches come in the order in which the console tells of their figures.
fn by_figure(stretches: Vec<Stretch>, console: &str) -> Result<Vec<Counted>> {
    let (mut left, all) = (stretches.into_iter(), console.lines());
    let mut counted = Vec::new();
    for (figure, number, rounds) in all.filter_map(|line| told(line.trim())) {
        let stretches: Vec<_> = left.by_ref().take(number).collect();
        ensure!(
            stretches.len() == number,
            "{figure}: the guest told of {number} stretches, the plugin counted {}",
            stretches.len()
        );
        counted.push(Counted {
            figure: figure.to_owned(),
            rounds,
            stretches,
        });
    }
    match left.len() {
        0 => Ok(counted),
        more => bail!("the plugin counted {more} stretches that the guest did not tell of"),
    }
}

/// A figure whose stretches are over: its name, their number, the rounds of each.
fn told(line: &str) -> Option<(&str, usize, Option<u64>)> {
    let words: Vec<_> = line.split_whitespace().collect();
    match words[..] {
        // The payload.
        [
            "bench-info:",
            figure,
            number,
            "stretches",
            "of",
            rounds,
            "rounds",
        ] => Some((figure, number.parse().ok()?, Some(rounds.parse().ok()?))),
        // The script in Linux: each row is one.
        ["bench:", "begin", figure] => Some((figure, 1, None)),
        _ => None,
    }
}

/// `hanok bench --profile FIGURE`.
pub fn run(root: &Path, args: &BenchArgs, figure: &'static Figure, yes: bool) -> Outcome {
    let plan = Plan {
        sides: vec![Side::Hanok],
        figures: vec![figure],
        rounds: 1,
        ..Plan::of(args)?
    };
    let jobs = plan.jobs();
    if jobs.is_empty() {
        let why = format!("{}: nothing is executed for this figure", figure.id);
        return Err(failure(Code::Usage, why));
    }
    plan.check(root)?;
    let store = Store::open(yes, false).blame(Code::Setup)?;
    let dir = repo::target_dir(root).join("hanok/profile");
    super::fresh(&dir).blame(Code::Refused)?;
    let materials = Materials::gather(root, &store, &plan, &dir)?;
    if let (What::Stretches, Some(userland)) = (what(figure), &materials.userland) {
        add_markers(userland, plan.architecture).blame(Code::Refused)?;
    }
    let boards = Boards {
        root,
        store: &store,
        plan: &plan,
        materials: &materials,
        counting: Some(Counting::prepare(root, plan.architecture).blame(Code::Refused)?),
        images: Vec::new(),
        dir: &dir,
    };
    for job in jobs {
        one(&boards, job, figure, args)?;
    }
    Ok(Code::Success)
}

/// What is counted for a figure.
fn what(figure: &Figure) -> What {
    match figure.id {
        "boot" => What::Boot,
        _ => What::Stretches,
    }
}

/// Runs one board, and shows what was counted.
fn one(boards: &Boards, job: Job, figure: &'static Figure, args: &BenchArgs) -> Outcome<()> {
    let name = job.name();
    let sockets = super::sockets().blame(Code::Output)?;
    let socket = sockets.path().join("gdb");
    let mut ready = boards.board(&job, &socket)?;
    let report = boards.count(&job, &mut ready, what(figure));
    let prepared = Prepared {
        job,
        ready,
        socket,
        figures: vec![figure],
        report,
    };
    let step = Step::new(format!("Running {name}"));
    let ended = job::run(prepared, boards.dir).blame(Code::TestsFailed)?;
    let Ended::Given(given) = ended else {
        return Err(failure(Code::Interrupted, "interrupted by a signal"));
    };
    step.done();
    if !given.lacking.is_empty() {
        return Err(failure(Code::TestsFailed, given.lacking.join("; ")));
    }
    let Some(counting) = &boards.counting else {
        return Ok(());
    };
    for counted in &given.counted {
        let value = given.values.iter().find(|(id, _)| *id == counted.figure);
        let (title, unit) = (figure.title, figure.unit.name());
        let machine = format!("{} with {}", boards.plan.cpu, job.gic.title());
        if let Some((_, value)) = value {
            ui::line(format_args!("{title} on {machine}: {value} {unit}"));
        }
        if let Some(least) = counted.a_round() {
            ui::line(format_args!("The hypervisor's own: {least:.1} a round\n"));
        }
        let profile = counting.profile(&counted.stretches);
        let shown = shown(counted, figure, args);
        let text = table::text(&profile.blame(Code::Refused)?, &shown);
        ui::line(format_args!("{text}"));
    }
    Ok(())
}

fn shown(counted: &Counted, figure: &Figure, args: &BenchArgs) -> Shown {
    let by = match (counted.all_rounds(), what(figure)) {
        (Some(rounds), _) => By::Rounds(rounds),
        (None, What::Stretches) => By::Exits,
        (None, What::Boot) => By::Nothing,
    };
    Shown {
        by,
        rows: ROWS,
        lines: args.lines,
        tree: args.tree,
    }
}

/// Programs that execute a marker and end, for the script in Linux to run around a row.
fn add_markers(userland: &Path, architecture: Architecture) -> Result<()> {
    let program = |marker: fn(&Instructions) -> u32| match architecture {
        Architecture::Arm64 => program_64(marker(&A64)),
        Architecture::Arm => program_32(marker(&A32)),
    };
    let markers = [
        ("bench/mark-begin".to_owned(), program(|set| set.begin)),
        ("bench/mark-end".to_owned(), program(|set| set.end)),
    ];
    let mut bytes = fs::read(userland)?;
    bytes.extend(initramfs::archive_of(&markers));
    repo::write_whole(userland, &bytes)
}

/// A static 32-bit ELF file of four instructions: `marker`, then exit(0).
fn program_32(marker: u32) -> Vec<u8> {
    const HEADERS: u32 = 52 + 32;
    const PLACE: u32 = 0x1_0000;
    // mov r0, #0; mov r7, #1; svc #0
    let code = [marker, 0xe3a0_0000, 0xe3a0_7001, 0xef00_0000];
    let size = HEADERS + 4 * code.len() as u32;
    // ET_EXEC for EM_ARM, version, entry, program headers, no section headers.
    let first = [40 << 16 | 2, 1, PLACE + HEADERS, 52, 0];
    // EABI version 5; sizes of headers; one program header; no section headers.
    let second = [0x0500_0000, 32 << 16 | 52, 1, 0];
    // PT_LOAD, readable and executable: the whole file.
    let segment = [1, 0, PLACE, PLACE, size, size, 5, 4096];
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    let words = [&first[..], &second, &segment, &code].concat();
    file.extend(words.into_iter().flat_map(u32::to_le_bytes));
    file
}

/// A static 64-bit ELF file of four instructions: `marker`, then exit(0).
fn program_64(marker: u32) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const PLACE: u64 = 0x40_0000;
    // mov x0, #0; mov x8, #93; svc #0
    let code = [marker, 0xd280_0000, 0xd280_0ba8, 0xd400_0001];
    let size = HEADERS + 4 * code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let longs = |file: &mut Vec<u8>, values: &[u64]| {
        values
            .iter()
            .for_each(|value| file.extend(value.to_le_bytes()));
    };
    // ET_EXEC for EM_AARCH64; entry, program headers, no section headers.
    longs(
        &mut file,
        &[1 << 32 | 183 << 16 | 2, PLACE + HEADERS, 64, 0],
    );
    // No flags; sizes of headers; one program header.
    longs(&mut file, &[56 << 48 | 64 << 32, 1]);
    // PT_LOAD, readable and executable: the whole file.
    longs(&mut file, &[5 << 32 | 1, 0, PLACE, PLACE, size, size, 4096]);
    file.extend(code.into_iter().flat_map(u32::to_le_bytes));
    file
}

#[cfg(test)]
mod tests {
    use hanok_profile::report::Cpu;

    use super::*;

    fn stretch(number: u64, ours: &[u64]) -> Stretch {
        let cpu = |hypervisor: &u64| Cpu {
            hypervisor: *hypervisor,
            ..Cpu::default()
        };
        Stretch {
            number,
            cpus: ours.iter().map(cpu).collect(),
            found: true,
            ..Stretch::default()
        }
    }

    const CONSOLE: &str = "bench-info: GICv3, 2 vCPUs\r\n\
        bench-info: hypercall 2 stretches of 10 rounds\r\n\
        bench: hypercall 283 instructions\r\n\
        bench-info: ipi 1 stretches of 4 rounds\r\n";

    #[test]
    fn stretches_go_to_the_figures_that_the_console_names() {
        let all = vec![
            stretch(0, &[2840, 0]),
            stretch(1, &[2830, 0]),
            stretch(2, &[100, 60]),
        ];
        let counted = by_figure(all.clone(), CONSOLE).unwrap();
        let names: Vec<_> = counted.iter().map(|one| &*one.figure).collect();
        assert_eq!(names, ["hypercall", "ipi"]);
        assert_eq!(counted[0].a_round(), Some(283.0));
        assert_eq!(counted[0].all_rounds(), Some(20));
        assert_eq!(counted[1].a_round(), Some(40.0));
        // A row in Linux is one stretch of who knows how many rounds.
        let row = by_figure(all[..1].to_vec(), "bench: begin pipe\nPipe latency\n").unwrap();
        assert_eq!((&*row[0].figure, row[0].a_round()), ("pipe", None));
        let error = by_figure(all[..2].to_vec(), CONSOLE).unwrap_err();
        assert!(error.to_string().contains("ipi"), "{error}");
        assert!(by_figure(all, "").is_err());
    }

    #[test]
    fn a_report_that_is_not_of_this_hypervisor_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        let write = |stretch: &Stretch| {
            use hanok_profile::report::{Line, VERSION};
            let start = Line::Start { version: VERSION }.text();
            let stretch = Line::Stretch(stretch.clone()).text();
            fs::write(&path, format!("{start}\n{stretch}\n")).unwrap();
            read(&path, "", What::Boot)
        };
        let mut one = stretch(0, &[7]);
        assert_eq!(write(&one).unwrap()[0].figure, "boot");
        one.differing = 3;
        assert!(write(&one).unwrap_err().to_string().contains("3 instr"));
        one.found = false;
        assert!(write(&one).unwrap_err().to_string().contains("never saw"));
        fs::remove_file(&path).unwrap();
        assert!(read(&path, "", What::Boot).is_err());
    }

    #[test]
    fn marker_programs_are_elf_files() {
        use object::{Object, ObjectSegment};
        for (bytes, marker, architecture) in [
            (program_64(A64.end), A64.end, object::Architecture::Aarch64),
            (program_32(A32.end), A32.end, object::Architecture::Arm),
        ] {
            let file = object::File::parse(&*bytes).unwrap();
            assert_eq!(file.architecture(), architecture);
            let segment = file.segments().next().unwrap();
            let offset = (file.entry() - segment.address()) as usize;
            let code = &segment.data().unwrap()[offset..];
            assert_eq!(code[..4], marker.to_le_bytes());
            assert_eq!(code.len(), 16);
        }
    }
}
