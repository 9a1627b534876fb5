//! Random systems that are admitted near the edge, on the board: RTOS guests whose misses are counted, beside a VM that
//! means harm, while interfaces change.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hanok_random_systems::boards::{self, STORMS};
use hanok_random_systems::edge::Admitted;

use crate::step::{Tally, TestStep};
use hanok_artifacts::Store;
use hanok_base::exit::{Blame, Code, Outcome};
use hanok_base::repo;
use hanok_boot::board::{self, Ready, Start};
use hanok_boot::overrides::Overrides;
use hanok_boot::{key, machine, system};
use hanok_console::request::{Extras, Input, Request, Sink};
use hanok_console::run;
use hanok_console::script::ScriptStep;

/// The steps.
pub const STEPS: &[TestStep] = &[TestStep {
    name: "random-boards",
    run: |root| told(many(root, 4)),
}];
/// The steps that are slow.
pub const SLOW_STEPS: &[TestStep] = &[TestStep {
    name: "sched-boards",
    run: |root| told(many(root, 100)),
}];

/// The boards, in turn; most have a GICv3.
const BOARDS: [&str; 5] = [
    "qemu-virt",
    "qemu-virt-arm",
    "qemu-virt",
    "qemu-virt-gicv2",
    "qemu-virt",
];
/// No board takes that long, on however slow a PC.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two requests. It decides nothing but how many there are.
const PAUSE: Duration = Duration::from_millis(300);
/// How often interfaces are changed, and reports asked for.
const ROUNDS: usize = 4;

fn told(result: Result<String>) -> Tally {
    match result {
        Ok(details) => Tally {
            details,
            ..Tally::pass()
        },
        Err(error) => Tally::fail(format!("{error:#}")),
    }
}

/// What boards came to.
#[derive(Debug, Default)]
struct Sum {
    systems: u64,
    vms: u64,
    jobs: u64,
    misses: u64,
    changed: u64,
    refused: u64,
    share: f64,
}

/// Boots `count` systems, one after the other.
fn many(root: &Path, count: u64) -> Result<String> {
    let named = std::env::var("HANOK_SEED").ok();
    let mut seed = named.map_or(Ok(1), |seed| seed.parse())?;
    let mut sum = Sum::default();
    let mut missed = Vec::new();
    while sum.systems < count {
        let at = sum.systems as usize;
        let (board, storm) = (BOARDS[at % BOARDS.len()], STORMS[at % STORMS.len()]);
        let boards_dir = system::boards_dir(root);
        let found = boards::of(board, seed, Some(storm), &boards_dir)?;
        seed += 1;
        let Some(found) = found else { continue };
        let name = format!("random-boards/{}", seed - 1);
        let one = one(root, &name, &found).with_context(|| format!("{name}, {storm}"))?;
        sum.systems += 1;
        sum.vms += found.system.vms.len() as u64;
        sum.jobs += one.jobs;
        sum.misses += one.misses;
        sum.changed += one.changed;
        sum.refused += one.refused;
        sum.share += found.system.core_share();
        if one.misses > 0 {
            missed.push(format!(
                "{name} on {board} beside {storm}: {} misses",
                one.misses
            ));
        }
    }
    let figures = format!(
        "{} boards with {} VMs, of a core is promised {:.1} %; {} changes of interfaces on the way, {} refused; \
         {} jobs: {} deadlines missed",
        sum.systems,
        sum.vms,
        100.0 * sum.share / sum.systems as f64,
        sum.changed,
        sum.refused,
        sum.jobs,
        sum.misses
    );
    ensure!(missed.is_empty(), "{figures}\n{}", missed.join("\n"));
    ensure!(sum.jobs > 20 * sum.systems, "few jobs: {figures}");
    ensure!(sum.changed >= sum.systems, "few changes: {figures}");
    Ok(figures)
}

/// Boots one system; what it said is kept in `name`.
fn one(root: &Path, name: &str, found: &Admitted) -> Result<Sum> {
    let dir = repo::target_dir(root).join("hanok/test").join(name);
    fs::create_dir_all(&dir)?;
    let last = found.system.vms.len() - 1;
    let mut steps = Vec::new();
    for round in 0..ROUNDS {
        steps.push(ScriptStep::Wait(PAUSE));
        steps.push(request(&change(found, last, round)));
    }
    for at in 0..last {
        steps.push(ScriptStep::Vm(format!("v{at}")));
        steps.push(ScriptStep::Expect("times, ".to_owned()));
    }
    steps.push(ScriptStep::End);
    boot(root, &dir, &found.text, steps)?;
    let mut sum = Sum::default();
    for at in 0..last {
        let said = read(&dir.join(format!("v{at}.console")))?;
        let line = said
            .lines()
            .find(|line| line.starts_with("rtos: total jobs "));
        let words: Vec<_> = line.unwrap_or_default().split(' ').collect();
        let number = |word: usize| words.get(word).and_then(|word| word.parse::<u64>().ok());
        sum.jobs += number(3).with_context(|| format!("v{at} has no total"))?;
        sum.misses += number(5).with_context(|| format!("v{at} has no total"))?;
    }
    let answers = read(&dir.join("reports"))?;
    sum.changed = answers
        .lines()
        .filter(|line| line.starts_with("changed "))
        .count() as u64;
    sum.refused = answers
        .lines()
        .filter(|line| line.starts_with("refused "))
        .count() as u64;
    Ok(sum)
}

/// A change of the hostile VM's interface: half of the budget, and then all of it again.
fn change(found: &Admitted, vm: usize, round: usize) -> String {
    let server = &found.system.vms[vm].server;
    let budget = server.budget.unwrap_or(0);
    let budget = if round.is_multiple_of(2) {
        budget.div_ceil(2)
    } else {
        budget
    };
    let deadline = server.deadline.unwrap_or(server.period);
    let [period, budget, deadline] = [server.period, budget, deadline].map(|time| time * 1_000);
    format!("change {vm} 0 {period} {budget} {deadline}")
}

/// A line for the report channel (docs/top.md).
pub fn request(line: &str) -> ScriptStep {
    ScriptStep::Raw([b"\x10\x7f\x10\x3d", line.as_bytes(), b"\n"].concat())
}

/// A file's text, whatever bytes a hostile guest has put into it.
pub fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Boots the described system by instructions, does `steps`, and ends it. What consoles and the report channel say is in
/// `dir`.
pub fn boot(root: &Path, dir: &Path, described: &str, steps: Vec<ScriptStep>) -> Result<()> {
    let prepared = ready(root, dir, described).map_err(|failure| failure.error)?;
    fs::write(
        dir.join("command"),
        machine::typed(&prepared.command) + "\n",
    )?;
    let file = |name: &str| Sink::create(&dir.join(name));
    let consoles = prepared.vms.iter().map(|vm| file(&format!("{vm}.console")));
    let request = Request {
        consoles: consoles.collect::<Result<_>>()?,
        command: prepared.command,
        framed: prepared.framed,
        poweroff: prepared.poweroff,
        steps: prepared.first.into_iter().chain(steps).collect(),
        until: None,
        timeout: Some(PATIENCE),
        log: file("hanok.log")?,
        input: Input::None,
        before_end: None,
        vms: prepared.vms,
    };
    let extras = Extras {
        reports: Some(file("reports")?),
        ..Extras::default()
    };
    let report = run::run_with(request, extras).map_err(|failure| failure.error)?;
    ensure!(report.code == Code::Success, "{}", report.why);
    let _ = fs::remove_file(image(dir));
    Ok(())
}

fn image(dir: &Path) -> PathBuf {
    dir.join("image")
}

fn ready(root: &Path, dir: &Path, described: &str) -> Outcome<Ready> {
    let path = dir.join("system.toml");
    fs::write(&path, described).blame(Code::Usage)?;
    let store = Store::open(true, false).blame(Code::Setup)?;
    let system = system::load(root, &path, &Overrides::default())?;
    let start = Start {
        icount: true,
        ..Start::default()
    };
    let tools = start.tools(&store, &system)?;
    let resolved = system::resolve(root, &store, &system.artifacts())?;
    let tree = board::tree(&store, &system)?;
    let bytes = system::build(root, &system, &resolved, tree.as_deref(), &key::NONE)?;
    repo::write_whole(&image(dir), &bytes).blame(Code::Usage)?;
    Ok(tools.ready(&system, &image(dir), &start))
}
