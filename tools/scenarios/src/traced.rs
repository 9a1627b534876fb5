//! `hanok trace record` on a board that runs, and its file as the stock trace-cmd reads it.

mod clock;
mod trace_cmd;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use hanok_base::exit::Code;

use crate::running::{Running, Said, hanok};
use crate::step::{Tally, TestStep};
use crate::top::DESCRIPTION;
use trace_cmd::{Line, TraceCmd};

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "trace-record",
        run: |root| Tally::told(recorded(root, "qemu-virt", Tells::Budgets)),
    },
    TestStep {
        name: "trace-record-arm",
        run: |root| Tally::told(recorded(root, "qemu-virt-arm", Tells::Exits)),
    },
    TestStep {
        name: "trace-black-box",
        run: |root| Tally::told(black_box(root)),
    },
];
/// The steps that are slow.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "trace-record-pl1",
        run: |root| Tally::told(recorded(root, "qemu-virt-arm-pl1", Tells::Switches)),
    },
    TestStep {
        name: "trace-clock",
        run: |root| Tally::told(clock::compared(root)),
    },
];

/// What a backend tells in its trace, each with those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tells {
    Switches,
    Exits,
    Budgets,
}

/// The system of `hanok top`'s tests on this board, of which these classes are recorded at first: a task that takes a tenth of the one core,
/// where twice that is promised; a VM that uses up its budget of a fifth; and one that has the rest.
fn description(board: &str, record: &str) -> String {
    let trace = format!("[trace]\nring = \"1M\"\nrecord = {record}\n\n[schedule]");
    DESCRIPTION
        .replace("\"qemu-virt\"", &format!("\"{board}\""))
        .replacen("[schedule]", &trace, 1)
}

/// From when on all guests are busy, in seconds of the board's time.
const BUSY: f64 = 4.0;
/// How long is recorded, in seconds of the board's time.
const SECONDS: &str = "1";
/// So far, in percent of the core, may what a VM had be from what it was promised: what the borders of its turns cost.
const NEAR: f64 = 1.5;

fn recorded(root: &Path, board: &str, tells: Tells) -> Result<String> {
    let trace_cmd = TraceCmd::find()?;
    let board = Running::start(root, &description(board, "[]"))?;
    let record = |words: &[&str]| board.says(&["trace", "record"], words);
    board.awaits("a recording", || {
        Ok(record(&["--seconds", "0.01", "-o", "first.dat"])?.is(Code::Success))
    })?;
    // All guests are busy by then.
    board.awaits("the fourth second", || {
        record(&["--seconds", "0.1", "-o", "first.dat"])?.ended(Code::Success)?;
        let lines = trace_cmd.report(&board.dir().join("first.dat"))?;
        Ok(lines.last().is_some_and(|line| line.at > BUSY))
    })?;

    let said = record(&["--seconds", SECONDS, "-o", "all.dat"])?.ended(Code::Success)?;
    ensure!(!said.contains("lost"), "{said}");
    let lines = trace_cmd.report(&board.dir().join("all.dat"))?;
    everything(&lines, tells)?;
    let count = lines.len();
    let report = Said::of(hanok(root, board.dir())?.args(["trace", "report", "all.dat"]))?;
    reported(&report.ended(Code::Success)?, tells)?;

    // Some classes of one VM.
    let words = [
        "--events",
        "switches,wakes",
        "--vm",
        "hog",
        "--seconds",
        "0.5",
        "-o",
        "hog.dat",
    ];
    record(&words)?.ended(Code::Success)?;
    let lines = trace_cmd.report(&board.dir().join("hog.dat"))?;
    let had = share(&lines, "hog.0")?;
    ensure!((had - 20.0).abs() < NEAR, "by itself it had {had} %");
    for line in lines {
        ensure!(
            !line.event.starts_with("kvm"),
            "no exit is wanted: {line:?}"
        );
        ensure!(
            !line.words.contains("rest") && !line.words.contains("loop"),
            "{line:?}"
        );
    }
    // Where nothing comes, the recording ends nevertheless.
    let words = ["--events", "life", "--seconds", "0.3", "-o", "life.dat"];
    record(&words)?.ended(Code::Success)?;
    let lines = trace_cmd.report(&board.dir().join("life.dat"))?;
    ensure!(lines.len() < 10, "nothing was to come: {lines:?}");
    refusals(&record, board.dir())?;
    board.stop()?;
    Ok(format!("{count} events of {SECONDS} s in trace-cmd"))
}

/// A hypervisor that panics leaves what it recorded last.
fn black_box(root: &Path) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("small.toml");
    fs::write(&file, description("qemu-virt", "[\"life\", \"exits\"]"))?;
    let mut command = hanok(root, dir.path())?;
    command.args([
        "run",
        "--icount",
        "--append",
        "hanok.selftest=panic-running",
    ]);
    let errors = Said::of(command.arg(&file))?.failed(Code::Panicked)?;
    let (_, last) = errors
        .split_once("hanok: what came last (")
        .with_context(|| errors.clone())?;
    ensure_has(last, ".0 is started")?;
    let (_, file) = last.split_once("hanok trace report ").context("no file")?;
    let (file, _) = file.split_once("):").context("no file")?;
    let lines = TraceCmd::find()?.report(Path::new(file))?;
    let started = |line: &Line| line.words.contains(".0 is started");
    ensure!(lines.iter().any(started), "{lines:?}");
    Ok(format!("{} events before the panic", lines.len()))
}

/// The part of the time, in percent, that a task had between the first switch and the last one.
fn share(lines: &[Line], task: &str) -> Result<f64> {
    let switches = lines.iter().filter(|line| line.event == "sched_switch");
    let switches: Vec<_> = switches.collect();
    let mut had = 0.0;
    for pair in switches.windows(2) {
        let [one, next] = pair else { continue };
        let (_, runs) = one.switch()?;
        let (ran, _) = next.switch()?;
        ensure!(runs == ran, "{runs} ran, and not {next:?}");
        if ran == task {
            had += next.at - one.at;
        }
    }
    let ends = switches.first().zip(switches.last());
    let (first, last) = ends.context("no switch")?;
    Ok(had / (last.at - first.at) * 100.0)
}

/// Checks that what was recorded of the whole board is what it was promised.
fn everything(lines: &[Line], tells: Tells) -> Result<()> {
    ensure!(
        lines.is_sorted_by(|one, other| one.at <= other.at),
        "time goes back"
    );
    let share = |vm: &str| share(lines, vm);
    let count = |event: &str| lines.iter().filter(|line| line.event == event).count();
    let (exits, entries) = (count("kvm_exit"), count("kvm_entry"));
    // The first one's server is periodic: nobody has what it does not use of its budget, and how much that is depends on what its
    // guest's exits cost.
    let own = share("loop.0")? + share("idle")?;
    for (vm, had, wanted) in [
        ("loop.0 with idle", own, 20.0),
        ("hog.0", share("hog.0")?, 20.0),
        ("rest.0", share("rest.0")?, 60.0),
    ] {
        let near = (had - wanted).abs() < NEAR;
        ensure!(near, "{vm} had {had} % and not {wanted} %: {lines:#?}");
    }
    ensure!(share("loop.0")? > 9.0, "its task takes a tenth");
    if tells < Tells::Exits {
        return Ok(());
    }
    // Each guest that was left was entered again, or another one was.
    ensure!(
        exits > 500 && exits.abs_diff(entries) <= 1,
        "{exits} exits, {entries} entries"
    );
    if tells < Tells::Budgets {
        return Ok(());
    }
    let used_up = lines
        .iter()
        .filter(|line| line.words.contains("hog.0: its budget is used up"));
    let used_up = used_up.count();
    // Once in each period of 5 ms.
    ensure!(
        (190..=201).contains(&used_up),
        "its budget was used up {used_up} times"
    );
    Ok(())
}

/// Checks that `hanok trace report` says of the recording what trace-cmd says.
fn reported(text: &str, tells: Tells) -> Result<()> {
    let has = |what: &str| ensure_has(text, what);
    // The share is the fourth column, behind a time with its unit.
    let share = |task: &str| {
        let row = text.lines().find(|line| line.starts_with(task));
        let share = row.and_then(|row| row.split_whitespace().nth(3));
        share.and_then(|share| share.parse::<f64>().ok())
    };
    for (task, wanted) in [("hog.0", 20.0), ("rest.0", 60.0)] {
        let share = share(task).with_context(|| format!("no {task}: {text}"))?;
        let near = (share - wanted).abs() < NEAR;
        ensure!(near, "{task} had {share} % and not {wanted} %: {text}");
    }
    if tells >= Tells::Exits {
        has("in the hypervisor: ")?;
    }
    if tells >= Tells::Budgets {
        has("budget used up")?;
        has("hog.0, until it ran again:")?;
    }
    Ok(())
}

fn ensure_has(text: &str, what: &str) -> Result<()> {
    ensure!(text.contains(what), "{what:?} is not in: {text}");
    Ok(())
}

/// What cannot be recorded, each with a clear word.
fn refusals(record: &dyn Fn(&[&str]) -> Result<Said>, dir: &Path) -> Result<()> {
    let said = record(&["--vm", "nobody", "-o", "x.dat"])?.failed(Code::Usage)?;
    ensure!(
        said.contains("no VM nobody runs there; there is: loop, hog, rest"),
        "{said}"
    );
    let said = record(&["--events", "exit", "-o", "x.dat"])?.failed(Code::Usage)?;
    ensure!(
        said.contains("exits, switches, wakes, interrupts, life"),
        "{said}"
    );
    let said = record(&["--seconds", "0.01", "-o", "none/x.dat"])?.failed(Code::Output)?;
    ensure!(said.contains("none/x.dat"), "{said}");
    if Path::new("/dev/full").exists() {
        let said = record(&["--seconds", "0.01", "-o", "/dev/full"])?.failed(Code::Output)?;
        ensure!(said.contains("No space left"), "{said}");
    }
    if fs::read_dir(dir)?
        .flatten()
        .any(|file| file.file_name() == "x.dat")
    {
        bail!("a refused recording has left a file");
    }
    Ok(())
}
