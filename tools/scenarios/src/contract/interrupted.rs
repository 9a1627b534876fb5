//! Signals while something is built: the command ends by them as it does while a board runs, with
//! one code for all signals, also where the script that builds the command is not finished. (While
//! a board runs: `deaf.rs`.) A program in cargo's place builds for ever.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::bench::{Bench, SOUND};
use super::deaf::until;
use hanok_base::exit::Code;

/// What is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The command itself is built, by the script.
    Command,
    /// The command builds what a board runs.
    Board,
    /// A board runs, of a command that is to ignore SIGHUP.
    Ignoring,
}

pub(super) const INTERRUPTED: &[(Phase, Signal)] = &[
    (Phase::Command, Signal::TERM),
    (Phase::Command, Signal::INT),
    (Phase::Command, Signal::HUP),
    (Phase::Board, Signal::TERM),
    (Phase::Board, Signal::INT),
    (Phase::Board, Signal::HUP),
    (Phase::Ignoring, Signal::HUP),
];

/// A program that writes its process number and goes on for ever.
const CARGO: &str =
    "#!/bin/sh\necho $$ >\"$BUILDS.new\"; mv \"$BUILDS.new\" \"$BUILDS\"; exec sleep 1000\n";
/// A program that says it is a QEMU, or runs until it is told to end.
const BOARD: &str = "#!/bin/sh\ncase \"$*\" in *--version*) \
    echo 'QEMU emulator version 10.0.0'; exit;; esac\n\
    echo $$ >\"$BUILDS.new\"; mv \"$BUILDS.new\" \"$BUILDS\"\n\
    until [ -e go ]; do sleep 0.1; done; printf '\\020?end: off\\n'\n";

pub(super) fn interrupted(bench: &Bench, (phase, signal): &(Phase, Signal)) -> Result<()> {
    let what = || format!("{signal:?}, {phase:?}");
    one(bench, *phase, *signal).with_context(what)
}

fn one(bench: &Bench, phase: Phase, signal: Signal) -> Result<()> {
    for (name, text) in [("cargo", CARGO), ("qemu-system-aarch64", BOARD)] {
        bench.program(name, text)?;
    }
    bench.file("case.toml", SOUND)?;
    let dir = bench.dir.path();
    let builds = dir.join("builds");
    for name in ["builds", "go"] {
        let _ = fs::remove_file(dir.join(name));
    }
    let mut command = command(bench, phase)?;
    command
        .env("BUILDS", &builds)
        .env("HANOK_QEMU", dir.join("qemu-system-aarch64"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    let pid = until(&mut child, |_| Ok(fs::read_to_string(&builds).ok()))?;
    kill_process(pid_of(child.id())?, signal)?;
    if phase == Phase::Ignoring {
        bench.file("go", "")?;
    }
    let status = until(&mut child, |child| Ok(child.try_wait()?))?;
    let built = pid_of(pid.trim().parse()?)?;
    // What it started ends with it.
    let ended = until(&mut child, |_| Ok((!runs(built)).then_some(())));
    let _ = kill_process(built, Signal::KILL);
    ended.context("what it started goes on")?;
    let wanted = match phase {
        Phase::Ignoring => Code::Success,
        Phase::Command | Phase::Board => Code::Interrupted,
    };
    ensure!(
        status.code() == Some(wanted as i32),
        "it ended with {status} instead of {}",
        wanted as i32
    );
    Ok(())
}

/// `hanok run` as far as that phase.
fn command(bench: &Bench, phase: Phase) -> Result<Command> {
    let dir = bench.dir.path();
    let mut command = match phase {
        Phase::Command => {
            // All else that the script looks for is there.
            let stamp = dir.join("target/.hanok-toolchain");
            fs::create_dir_all(dir.join("target"))?;
            fs::copy(bench.root.join("rust-toolchain.toml"), stamp)?;
            let mut script = Command::new(bench.root.join("hanok"));
            script
                .env("CARGO_TARGET_DIR", dir.join("target"))
                .args(["run", "case.toml"]);
            script.current_dir(dir);
            script
        }
        Phase::Board => {
            let mut run = bench.hanok();
            run.args(["run", "case.toml"]);
            run
        }
        Phase::Ignoring => {
            let mut shell = Command::new("sh");
            let line = "trap '' HUP; exec \"$0\" run case.toml";
            shell.args(["-c", line]).arg(&bench.hanok).current_dir(dir);
            shell.env("HANOK_ROOT", &bench.root);
            return Ok(shell);
        }
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(dir.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(path)?);
    Ok(command)
}

/// Whether a process goes on; one that has ended may wait for a parent to ask for its status.
fn runs(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

fn pid_of(number: u32) -> Result<Pid> {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    pid.context("no process")
}
