//! Tests what the `hanok` command promises to scripts, on the command itself: refusals with line,
//! reason and remedy; exit codes; which output goes to which file; no colour off a terminal; a
//! second build that does nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

mod bench;
mod deaf;
mod empty;
mod interrupted;
mod refusals;
mod terminals;
mod written;

use crate::step::{Tally, TestStep};
use bench::{Bench, SOUND, words};
use deaf::{DEAF, hears};
use empty::{EMPTY, says};
use hanok_base::exit::Code;
use interrupted::{INTERRUPTED, interrupted};
use refusals::{DEVICES, OPTIONS, REFUSALS, option_refused, refuses};
use terminals::{TERMINALS, tried};
use written::{WRITTEN, written};

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "check-refuses",
        run: |root| each(root, REFUSALS, refuses),
    },
    TestStep {
        name: "check-refuses-devices",
        run: |root| match empty::fetch_qemu() {
            Ok(()) => each(root, DEVICES, refuses),
            Err(error) => Tally::fail(format!("{error:#}")),
        },
    },
    TestStep {
        name: "empty-cache",
        run: |root| each(root, EMPTY, says),
    },
    TestStep {
        name: "options-refused",
        run: |root| each(root, OPTIONS, option_refused),
    },
    TestStep {
        name: "colour",
        run: |root| each(root, COLOURS, coloured),
    },
    TestStep {
        name: "run-exit-codes",
        run: |root| each(root, RUNS, runs),
    },
    TestStep {
        name: "outputs-refused",
        run: |root| each(root, WRITTEN, written),
    },
    TestStep {
        name: "nobody-reads",
        run: |root| each(root, DEAF, hears),
    },
    TestStep {
        name: "signals",
        run: |root| each(root, INTERRUPTED, interrupted),
    },
    TestStep {
        name: "terminals",
        run: |root| each(root, TERMINALS, tried),
    },
    TestStep {
        name: "build-twice",
        run: |root| match twice(root) {
            Ok(()) => Tally::pass(),
            Err(error) => Tally::fail(format!("{error:#}")),
        },
    },
];

/// Tries every case of a table; a failure does not keep the others from being tried.
fn each<T>(root: &Path, cases: &[T], one: fn(&Bench, &T) -> Result<()>) -> Tally {
    let bench = match Bench::new(root) {
        Ok(bench) => bench,
        Err(error) => return Tally::fail(format!("{error:#}")),
    };
    let mut total = Tally::default();
    for case in cases {
        match one(&bench, case) {
            Ok(()) => total.passed += 1,
            Err(error) => {
                total.failed += 1;
                total.details += &format!("{error:#}\n");
            }
        }
    }
    total
}

/// How an error is shown: on a terminal or not, with NO_COLOR or not.
struct Colour {
    terminal: bool,
    no_color: bool,
    coloured: bool,
}

const COLOURS: &[Colour] = &[
    // The coloured first case shows that the others could be coloured.
    Colour {
        terminal: true,
        no_color: false,
        coloured: true,
    },
    Colour {
        terminal: true,
        no_color: true,
        coloured: false,
    },
    Colour {
        terminal: false,
        no_color: false,
        coloured: false,
    },
];

fn coloured(bench: &Bench, case: &Colour) -> Result<()> {
    let mut command = bench.hanok();
    if case.terminal {
        // util-linux's script gives the command a terminal.
        let line = format!("'{}' check none.toml", bench.hanok.display());
        let mut terminal = Command::new("script");
        terminal
            .args(["-qec", &line, "/dev/null"])
            .current_dir(bench.dir.path());
        terminal
            .env("HANOK_ROOT", &bench.root)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm");
        terminal.stdin(std::process::Stdio::null());
        command = terminal;
    } else {
        command.args(["check", "none.toml"]);
    }
    if case.no_color {
        command.env("NO_COLOR", "1");
    }
    let output = command.output().context("cannot start script (bsdutils)")?;
    let (out, err) = words(&output);
    let said = out + &err;
    ensure!(
        said.contains("none.toml"),
        "it said nothing of the file: {said}"
    );
    ensure!(
        said.contains('\x1b') == case.coloured,
        "terminal {}, NO_COLOR {}: {said:?}",
        case.terminal,
        case.no_color
    );
    Ok(())
}

/// A run of the board by a script.
struct Run {
    what: &'static str,
    /// The guest's command line.
    cmdline: &'static str,
    args: &'static [&'static str],
    /// Lines of a script, if one acts at the console.
    script: Option<&'static str>,
    code: Code,
    /// What the file of the VM's console must hold.
    console: &'static str,
    /// What the file of the hypervisor's messages must hold, a line each.
    log: &'static [&'static str],
    /// What is said at the end, on stderr.
    why: &'static str,
}

const CANARY: &str = "conformance.run=canary";

const RUNS: &[Run] = &[
    Run {
        what: "it powers off",
        cmdline: CANARY,
        args: &[],
        script: Some("expect ok canary\nexpect-log vm a: off\n"),
        code: Code::Success,
        console: "conformance: 1 passed, 0 failed",
        log: &["vm a: started", "vm a: off", "end: off"],
        why: "all VMs powered off",
    },
    Run {
        what: "the awaited text",
        cmdline: "conformance.run=reset-loop",
        args: &["--until", "canary: clean"],
        script: None,
        code: Code::Success,
        console: "canary: clean",
        log: &["vm a: started"],
        why: "the awaited text came",
    },
    Run {
        what: "a script that ends the run",
        cmdline: "conformance.run=reset-loop",
        args: &[],
        script: Some("vm a\nexpect clean\nexpect clean\nend\n"),
        code: Code::Success,
        console: "canary: clean",
        log: &["vm a: started"],
        why: "the script is done",
    },
    Run {
        what: "a script with a mistake",
        cmdline: CANARY,
        args: &[],
        script: Some("expct x\n"),
        code: Code::Usage,
        console: "",
        log: &[],
        why: "line 1: unknown step `expct`",
    },
    Run {
        what: "the hypervisor refuses",
        cmdline: CANARY,
        args: &["--append", "hanok.selftest=nonsense"],
        script: None,
        code: Code::Refused,
        console: "",
        log: &[
            "refused: hanok.selftest=nonsense is none of",
            "end: refused",
        ],
        why: "the hypervisor refused: hanok.selftest=nonsense",
    },
    Run {
        what: "the time is over",
        cmdline: "conformance.run=reset-loop",
        args: &[],
        script: Some("expect what never comes\n"),
        code: Code::Timeout,
        console: "canary: clean",
        log: &["vm a: started"],
        why: "the time was over while awaiting \"what never comes\"",
    },
    Run {
        what: "a VM is stopped",
        cmdline: "conformance.run=off-all",
        args: &[],
        script: None,
        code: Code::Stopped,
        console: "off-all: so long",
        log: &[
            "vm a: stopped: every vCPU turned itself off",
            "end: stopped",
        ],
        why: "vm a: stopped: every vCPU turned itself off",
    },
    Run {
        what: "a panic",
        cmdline: CANARY,
        args: &["--append", "hanok.selftest=panic"],
        script: None,
        code: Code::Panicked,
        console: "",
        log: &["panic: asked for by hanok.selftest", "end: panic"],
        why: "the hypervisor panicked",
    },
    Run {
        what: "QEMU does not start",
        cmdline: CANARY,
        args: &["--qemu-arg", "-nonsense"],
        script: None,
        code: Code::Qemu,
        console: "",
        log: &[],
        why: "nonsense",
    },
    Run {
        what: "it powers off before the text",
        cmdline: CANARY,
        args: &[],
        script: Some("expect what never comes\n"),
        code: Code::EndedEarly,
        console: "ok canary",
        log: &["vm a: off", "end: off"],
        why: "powered off before \"what never comes\"",
    },
];

/// Whatever hangs is to end some time, with a code that none of these cases wants but one.
const WATCHDOG: u32 = 3600;
/// Where the time is to be over: so many seconds at first, and so many at most.
const SHORT: u32 = 4;
const LONGEST: u32 = 1024;

fn runs(bench: &Bench, case: &Run) -> Result<()> {
    let what = || format!("run, {}", case.what);
    if case.code != Code::Timeout {
        return run_one(bench, case, WATCHDOG).with_context(what);
    }
    let mut seconds = SHORT;
    loop {
        let tried = run_one(bench, case, seconds);
        // On a busy PC the board may not have come so far yet.
        let has_begun = bench.read("console")?.contains(case.console);
        if has_begun || seconds >= LONGEST {
            return tried.with_context(what);
        }
        seconds *= 2;
    }
}

/// Runs it for so many seconds at most.
fn run_one(bench: &Bench, case: &Run, seconds: u32) -> Result<()> {
    let text = format!(
        "{SOUND}cmdline = \"{} conformance.host=hanok\"\n",
        case.cmdline
    );
    bench.file("run.toml", text)?;
    for name in ["console", "log"] {
        bench.file(name, "what was there before\n")?;
    }
    let mut command = bench.hanok();
    command.args(["run", "run.toml", "--console", "a=console", "--log", "log"]);
    command.args(["--timeout", &seconds.to_string()]);
    command.args(case.args);
    if let Some(script) = case.script {
        bench.file("script", script)?;
        command.args(["--script", "script"]);
    }
    let output = command.output()?;
    let (out, err) = words(&output);
    ensure!(
        output.status.code() == Some(case.code as i32),
        "ended with {} instead of {}: {err}",
        output.status,
        case.code as i32
    );
    ensure!(
        err.contains(case.why),
        "it did not say {:?}: {err}",
        case.why
    );
    ensure!(
        !err.contains('\x1b') && !out.contains('\x1b'),
        "colour off a terminal: {err:?}"
    );
    ensure!(
        out.is_empty(),
        "the console went to its file, and yet to stdout: {out:?}"
    );
    let (console, log) = (bench.read("console")?, bench.read("log")?);
    ensure!(
        console.contains(case.console),
        "the console's file: {console:?}"
    );
    let mut lines = log.lines();
    for wanted in case.log {
        ensure!(
            lines.any(|line| line.starts_with(wanted)),
            "no {wanted:?} in the log: {log}"
        );
    }
    // Each to its own file.
    ensure!(
        !console.contains("vm a:") && !log.contains("conformance"),
        "mixed: {log} {console}"
    );
    Ok(())
}

/// A second build compiles nothing, downloads nothing (it has no network, where this machine allows
/// that to be taken away), and gives the same image.
fn twice(root: &Path) -> Result<()> {
    let bench = Bench::new(root)?;
    let key = "0123456789abcdef".repeat(4);
    let build = ["build", "systems/demo.toml", "--build-key", &key, "-o"];
    let first = bench.hanok().args(build).arg("first").output()?;
    ensure!(
        first.status.success(),
        "the first build: {}",
        words(&first).1
    );
    let elf = hanok_artifacts::cargo::hypervisor_elf(root);
    let before = fs::metadata(&elf)?.modified()?;
    let mut second = bench.hanok();
    if unshared("true")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        second = unshared(&bench.hanok);
        second.current_dir(bench.dir.path());
        second.env("HANOK_ROOT", root);
    }
    let second = second.args(build).arg("second").output()?;
    ensure!(
        second.status.success(),
        "the second build: {}",
        words(&second).1
    );
    let said = words(&second).1;
    ensure!(
        !said.contains("Downloading") && !said.contains("Fetching"),
        "it downloads: {said}"
    );
    ensure!(
        fs::metadata(&elf)?.modified()? == before,
        "the hypervisor was built again"
    );
    let [first, second] = ["first", "second"].map(|name| fs::read(bench.dir.path().join(name)));
    let first = first?;
    ensure!(first == second?, "the second image differs from the first");
    for name in ["third", "fourth"] {
        let built = bench
            .hanok()
            .args(["build", "systems/demo.toml", "-o", name])
            .output()?;
        ensure!(built.status.success(), "{name}: {}", words(&built).1);
    }
    let [third, fourth] = ["third", "fourth"].map(|name| fs::read(bench.dir.path().join(name)));
    // Only the key and the checksum over it differ.
    let (third, fourth) = (third?, fourth?);
    let differs = |at: &usize| third[*at] != fourth[*at];
    ensure!((112..144).any(|at| differs(&at)), "two images have one key");
    let elsewhere = |at: &usize| differs(at) && !(72..80).contains(at) && !(112..144).contains(at);
    ensure!(
        third.len() == fourth.len() && first.len() == third.len(),
        "lengths differ"
    );
    ensure!(
        (0..third.len()).find(elsewhere).is_none(),
        "more than the key differs"
    );
    Ok(())
}

/// Starts what follows without a network.
fn unshared(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("unshare");
    command
        .args(["--user", "--map-root-user", "--net", "--"])
        .arg(program);
    command.stdin(std::process::Stdio::null());
    command
}
