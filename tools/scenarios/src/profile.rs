//! Compares what QEMU's plugin counts with what is known without it: a payload whose every
//! instruction is written here, and the counter that a guest reads.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hanok_profile::code::A64;
use hanok_profile::profile::Profile;
use hanok_profile::report::{Report, Stretch};
use hanok_system::Architecture;

use crate::step::{Tally, TestStep};
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::repo;
use hanok_bench_runner::counting::{Counting, What};
use hanok_console::request::{Input, Request, Sink};
use hanok_console::run;
use hanok_console::script::ScriptStep;

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "profile-two-cores",
        run: |root| told(counts(root, 2)),
    },
    TestStep {
        name: "profile-agrees",
        run: |root| told(agrees(root)),
    },
];

/// The step that is slow.
pub const SLOW_STEPS: &[TestStep] = &[TestStep {
    name: "profile-one-core",
    run: |root| told(counts(root, 1)),
}];

/// A boot of a few million instructions, on a PC that does other work as well.
const PATIENCE: Duration = Duration::from_secs(300);
/// Turns of the payload's first loop, two instructions each.
const TURNS: u32 = 1000;
/// Stretches with a read of a register that is emulated.
const READS: u64 = 10;

fn told(result: Result<()>) -> Tally {
    match result {
        Ok(()) => Tally::pass(),
        Err(error) => Tally::fail(format!("{error:#}")),
    }
}

/// An arm64 image (Linux, Documentation/arch/arm64/booting.rst): a stretch with a loop, ten
/// with the read of a register each, then PSCI SYSTEM_OFF.
fn payload() -> Vec<u8> {
    let mut words = vec![0; 16];
    words[0] = 0x1400_0010; // b over the header
    words[4] = 0x1000; // image_size
    words[6] = 0xa; // 4 KiB pages, anywhere
    words[14] = u32::from_le_bytes(*b"ARM\x64");
    words.extend([
        A64.begin,
        0xd280_0009 | TURNS << 5, // mov x9, #TURNS
        0xf100_0529,              // 1: subs x9, x9, #1
        0x54ff_ffe1,              // b.ne 1b
        A64.end,
        0xd280_0013 | (READS as u32) << 5, // mov x19, #READS
        A64.begin,                         // 2:
        0xd538_0403,                       // mrs x3, id_aa64pfr0_el1
        A64.end,
        0xf100_0673, // subs x19, x19, #1
        0x54ff_ff81, // b.ne 2b
        0x5280_0100, // mov w0, #8
        0x72b0_8000, // movk w0, #0x8400, lsl #16
        0xd400_0002, // hvc #0
        0x1400_0000, // b .
    ]);
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Everything is counted once, on the CPU that executed it.
fn counts(root: &Path, cores: u64) -> Result<()> {
    let dir = repo::target_dir(root).join(format!("hanok/test/profile-{cores}"));
    fs::create_dir_all(&dir)?;
    let counting = Counting::prepare(root, Architecture::Arm64)?;
    let report = run(root, &counting, &dir, cores).map_err(|failure| failure.error)?;
    let [first, reads @ ..] = &report.stretches[..] else {
        bail!("nothing was counted");
    };
    let [cpu, idle @ ..] = &first.cpus[..] else {
        bail!("no CPU was seen");
    };
    ensure!(first.cpus.len() as u64 == cores);
    let turns = u64::from(TURNS);
    ensure!(
        (cpu.hypervisor, cpu.others) == (0, 1 + 2 * turns),
        "the loop: {cpu:?}"
    );
    ensure!(
        idle.iter().all(|cpu| cpu.others == 0),
        "another CPU is said to have run the guest: {idle:?}"
    );
    ensure!(
        reads.len() as u64 == READS,
        "{} stretches with reads",
        reads.len()
    );
    reads.iter().try_for_each(one_read)?;
    let all: Vec<_> = reads.iter().map(|stretch| &stretch.cpus[0]).collect();
    let same = all.windows(2).all(|two| two[0] == two[1]);
    ensure!(same, "ten equal reads differ: {reads:?}");
    names(&counting.profile(reads)?)
}

fn one_read(stretch: &Stretch) -> Result<()> {
    ensure!(stretch.found && stretch.differing == 0, "{stretch:?}");
    let cpu = stretch.cpus.first().context("no CPU")?;
    let sum: u64 = cpu.counts.iter().map(|(_, count)| count).sum();
    ensure!(cpu.others == 1, "the guest's own: {cpu:?}");
    ensure!(sum == cpu.hypervisor, "by instruction {sum}: {cpu:?}");
    let costs: Vec<_> = cpu.exits.iter().flat_map(|exit| &exit.costs).collect();
    ensure!(costs == [&(sum, 1)], "the exit: {cpu:?}");
    Ok(())
}

/// The entry has its name, and nothing is lost on the way to the named functions.
fn names(profile: &Profile) -> Result<()> {
    let total = profile.total().hypervisor;
    let sum: u64 = profile.functions.iter().map(|function| function.own).sum();
    ensure!(
        sum == total,
        "{sum} of {total} instructions have a function"
    );
    ensure!(profile.tree.count == total);
    let way_in = profile
        .functions
        .iter()
        .find(|one| one.name == "hanok_vectors");
    let way_in = way_in.context("the vectors have no name")?;
    ensure!(way_in.own >= READS, "the vectors took {}", way_in.own);
    let exits: Vec<_> = profile.exits.iter().map(|exits| &*exits.reason).collect();
    ensure!(exits == ["MRS ID_AA64PFR0_EL1"], "{exits:?}");
    let ours = |line: &hanok_profile::symbols::Line| {
        line.file.starts_with("arch/aarch64/src/") && line.number > 0
    };
    ensure!(
        profile.lines.iter().any(|(line, ..)| ours(line)),
        "no line of the repository is known"
    );
    Ok(())
}

/// The payload in a VM on the first of `cores` cores, and what was counted of it.
fn run(root: &Path, counting: &Counting, dir: &Path, cores: u64) -> Outcome<Report> {
    fs::write(dir.join("payload"), payload()).blame(Code::Usage)?;
    let described = format!(
        "board = \"qemu-virt\"\ncores = {cores}\n[[vm]]\nname = \"payload\"\n\
         kernel = \"payload\"\nmemory = \"64M\"\ncpus = [0]\n"
    );
    count(root, counting, dir, &described, Course::default(), PATIENCE)
}

/// What happens while a system is counted.
#[derive(Default)]
pub struct Course<'a> {
    /// The text that ends the run; otherwise the system ends by itself.
    pub until: Option<&'a str>,
    /// What is awaited and typed at the console.
    pub steps: Vec<ScriptStep>,
    /// What is counted.
    pub what: What,
}

/// The count of a system described by the text `described`. The folder `dir` has their output afterwards, in `vm.console`,
/// `vm2.console` and `vm3.console`.
pub fn count(
    root: &Path,
    counting: &Counting,
    dir: &Path,
    described: &str,
    course: Course<'_>,
    patience: Duration,
) -> Outcome<Report> {
    let mut ready = crate::reported::ready(root, dir, described)?;
    let report = dir.join("report");
    counting.attach(&mut ready.command, &report, course.what);
    let file = |name: &str| Sink::create(&dir.join(name));
    let names = ["vm.console", "vm2.console", "vm3.console"].into_iter();
    let consoles: Result<_> = names.take(ready.vms.len()).map(file).collect();
    let request = Request {
        command: ready.command,
        framed: ready.framed,
        poweroff: ready.poweroff,
        steps: [ready.first, course.steps].concat(),
        until: course.until.map(str::to_owned),
        timeout: Some(patience),
        consoles: consoles.blame(Code::Usage)?,
        log: file("hanok.log").blame(Code::Usage)?,
        input: Input::None,
        before_end: None,
        vms: ready.vms,
    };
    let ended = run::run(request)?;
    if ended.code != Code::Success {
        return Err(failure(ended.code, ended.why));
    }
    let text = fs::read_to_string(report).blame(Code::TestsFailed)?;
    Report::parse(&text).blame(Code::TestsFailed)
}

/// The hypervisor's instructions and the guest's own one are what the guest's counter says.
fn agrees(root: &Path) -> Result<()> {
    // HVC is the one instruction that a round has more than an empty one.
    const OWN: f64 = 1.0;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--yes", "bench", "--gic", "3", "--profile", "smccc-version"])
        .env("HANOK_ROOT", root)
        .stdin(Stdio::null());
    let said = hanok_base::process::text(&mut command)?;
    let number = |before: &str| -> Result<f64> {
        let (_, rest) = said.split_once(before).with_context(|| said.clone())?;
        let word = rest.split_whitespace().next().unwrap_or_default();
        Ok(word.parse()?)
    };
    let figure = number("GICv3:")?;
    let counted = number("The hypervisor's own:")?;
    // The counter's grain.
    ensure!(
        (figure - OWN - counted).abs() <= 0.1,
        "the guest measured {figure}, the plugin counted {counted} and {OWN}"
    );
    Ok(())
}
