//! A board that writes without end while nobody reads the command's output: the time limit and
//! signals are handled all the same. A program in QEMU's place is the board.

use std::fs;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::bench::{Bench, SOUND};
use hanok_base::exit::Code;

/// What ends the run.
pub(super) enum End {
    /// `--timeout`.
    Time,
    /// A signal, once the board floods.
    Signal(Signal),
}

pub(super) const DEAF: &[End] = &[
    End::Time,
    End::Signal(Signal::TERM),
    End::Signal(Signal::INT),
    End::Signal(Signal::HUP),
];

/// A program that says it is a QEMU, or writes without end; a file shows that it has begun.
const BOARD: &str = "#!/bin/sh\ncase \"$*\" in *--version*) \
    echo 'QEMU emulator version 10.0.0'; exit;; esac\n\
    printf '\\020\\200\\020@'; : >floods; exec yes\n";
/// Only a command that never ends takes longer.
const WATCHDOG: Duration = Duration::from_secs(3600);

pub(super) fn hears(bench: &Bench, end: &End) -> Result<()> {
    let qemu = bench.program("qemu-system-aarch64", BOARD)?;
    bench.file("case.toml", SOUND)?;
    let floods = bench.dir.path().join("floods");
    let _ = fs::remove_file(&floods);
    let mut command = bench.hanok();
    command.args(["run", "case.toml"]).env("HANOK_QEMU", qemu);
    // Pipes that stay open, and that nobody reads.
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let wanted = match end {
        End::Time => {
            command.args(["--timeout", "2"]);
            Code::Timeout
        }
        End::Signal(_) => Code::Interrupted,
    };
    let mut child = command.spawn()?;
    if let End::Signal(signal) = end {
        until(&mut child, |_| Ok(floods.exists().then_some(())))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("no process")?, *signal)?;
    }
    let status = until(&mut child, |child| Ok(child.try_wait()?))?;
    ensure!(
        status.code() == Some(wanted as i32),
        "it ended with {status} instead of {}",
        wanted as i32
    );
    Ok(())
}

pub(super) fn until<T>(
    child: &mut Child,
    mut look: impl FnMut(&mut Child) -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < WATCHDOG {
        if let Some(found) = look(child)? {
            return Ok(found);
        }
        sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    bail!("nothing happens")
}
