//! Tests terminals at a board: a person's prompt, and `hanok attach` and `hanok list` from another
//! terminal. A program in QEMU's place is the board, and speaks its side of the line.

use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::bench::{Bench, SOUND};
use hanok_base::exit::Code;

/// What is tried.
pub(super) struct Case {
    name: &'static str,
    /// What the board does.
    board: &'static str,
    tried: fn(&Bench, &str) -> Result<()>,
}

pub(super) const TERMINALS: &[Case] = &[
    Case {
        name: "a person's prompt",
        // It asks how large the terminal is, and hears Ctrl-], a whole line, Ctrl-C; and says what it was told.
        board: "printf '\\020\\200\\020@\\033[18t'; head -c 12 >size; printf 'ready\\r\\n'
            head -c 3 >/dev/null; printf '\\020?hanok> \\020>'
            head -c 5 >line; printf 'list\\nvm a: running\\nhanok> \\020>'; head -c 1 >/dev/null
            printf '\\n\\020\\200'; head -c 4 >keys; printf '\\020?end: off\\n'",
        tried: prompt,
    },
    Case {
        name: "another terminal",
        board: "printf '\\020\\200\\020@ready\\r\\n'; head -c 4 >keys; printf '\\020@heard\\r\\n'
            head -c 2 >more; printf '\\020?end: off\\n'",
        tried: attached,
    },
    Case {
        name: "another terminal's command",
        board:
            "printf '\\020\\200\\020@ready\\r\\n'; head -c 3 >/dev/null; printf '\\020?hanok> \\020>'
            head -c 5 >line; printf 'list\\nvm a: running\\nhanok> \\020>'; head -c 1 >/dev/null
            printf '\\n\\020\\200'; head -c 1 >keys; printf '\\020?end: off\\n'",
        tried: asked,
    },
    Case {
        name: "another terminal that does not read",
        board: "printf '\\020\\200\\020@ready\\r\\n'; exec yes",
        tried: deaf,
    },
];

/// Only a command that never ends takes longer.
const WATCHDOG: Duration = Duration::from_secs(3600);

pub(super) fn tried(bench: &Bench, case: &Case) -> Result<()> {
    let board = format!(
        "#!/bin/sh\ncase \"$*\" in *--version*) echo 'QEMU emulator version 10.0.0'; exit;; esac\n{}\n",
        case.board
    );
    bench.program("qemu-system-aarch64", board)?;
    bench.file("case.toml", SOUND)?;
    (case.tried)(bench, "case.toml").with_context(|| case.name)
}

/// A command whose output is read as it comes.
struct Talk {
    child: Child,
    stdin: Option<ChildStdin>,
    coming: Receiver<Vec<u8>>,
    heard: String,
    /// Where its complaints are.
    complaints: PathBuf,
}

impl Talk {
    fn with(bench: &Bench, command: &mut Command) -> Result<Self> {
        let complaints = bench.dir.path().join("complaints");
        let mut child = command
            .env("HANOK_QEMU", bench.dir.path().join("qemu-system-aarch64"))
            .env("XDG_RUNTIME_DIR", bench.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(&complaints)?,
            )
            .spawn()?;
        let (tell, coming) = channel();
        let mut stdout = child.stdout.take().context("no output")?;
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                if tell.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        Ok(Self {
            child,
            stdin,
            coming,
            heard: String::new(),
            complaints,
        })
    }

    fn hanok(bench: &Bench, arguments: &[&str]) -> Result<Self> {
        Self::with(bench, bench.hanok().args(arguments))
    }

    /// In a terminal of its own: util-linux's script gives it one.
    fn at_terminal(bench: &Bench, arguments: &str) -> Result<Self> {
        let line = format!("'{}' {arguments}", bench.hanok.display());
        let mut command = Command::new("script");
        command
            .args(["-qec", &line, "/dev/null"])
            .current_dir(bench.dir.path())
            .env("HANOK_ROOT", &bench.root)
            .env("TERM", "xterm");
        Self::with(bench, &mut command)
    }

    /// As `hanok list` names the system of a `hanok run case.toml`.
    fn name(&self) -> String {
        format!("case-{}", self.child.id())
    }

    fn hears(&mut self, wanted: &str) -> Result<()> {
        let start = Instant::now();
        while !self.heard.contains(wanted) {
            let Ok(bytes) = self.coming.recv_timeout(WATCHDOG) else {
                let complaints = fs::read_to_string(&self.complaints)?;
                bail!("{wanted:?} never came: {:?}, {complaints}", self.heard);
            };
            self.heard += &String::from_utf8_lossy(&bytes);
            ensure!(start.elapsed() < WATCHDOG, "{wanted:?} does not come");
        }
        Ok(())
    }

    fn types(&mut self, keys: &[u8]) -> Result<()> {
        let stdin = self.stdin.as_mut().context("no input")?;
        stdin.write_all(keys)?;
        Ok(stdin.flush()?)
    }

    fn ends(&mut self, wanted: Code) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < WATCHDOG {
            if let Some(status) = self.child.try_wait()? {
                let wanted = wanted as i32;
                ensure!(
                    status.code() == Some(wanted),
                    "{status} instead of {wanted}"
                );
                return Ok(());
            }
            thread::sleep(Duration::from_millis(20));
        }
        bail!("it does not end");
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line that is corrected with the cursor keys goes to the board as a whole; one of other
/// characters is no empty line; and other keys go to the VM.
fn prompt(bench: &Bench, file: &str) -> Result<()> {
    let mut run = Talk::at_terminal(bench, &format!("run {file}"))?;
    run.hears("ready")?;
    let size = bench.read("size")?;
    ensure!(size == "\u{10}@\x1b[8;24;80t", "{size:?}");
    run.types("\x1däö\r".as_bytes())?;
    run.hears("no command äö")?;
    run.types(b"lit\x1b[Ds\r")?;
    run.hears("vm a: running")?;
    ensure!(bench.read("line")? == "list\r", "{:?}", bench.read("line"));
    run.types(b"\r\x1b[A")?;
    run.ends(Code::Success)?;
    ensure!(
        bench.read("keys")? == "\u{10}@\x1b[",
        "{:?}",
        bench.read("keys")
    );
    ensure!(run.heard.contains("▌hanok> "), "{:?}", run.heard);
    Ok(())
}

fn attached(bench: &Bench, file: &str) -> Result<()> {
    let mut run = Talk::hanok(bench, &["run", file])?;
    run.hears("[a] ready")?;
    let mut list = Talk::hanok(bench, &["list"])?;
    list.hears(&run.name())?;
    list.ends(Code::Success)?;
    // By its whole name, as other tests run systems meanwhile.
    let name = run.name();
    let mut other = Talk::hanok(bench, &["attach", &name])?;
    other.hears("[a] ready")?;
    other.types(b"x\n")?;
    other.hears("[a] heard")?;
    run.hears("[a] heard")?;
    ensure!(
        bench.read("keys")? == "\u{10}@x\n",
        "{:?}",
        bench.read("keys")
    );
    // A terminal that is killed leaves nothing behind.
    drop(other);
    let mut third = Talk::hanok(bench, &["attach", &name])?;
    third.hears("[a] heard")?;
    run.types(b"yz")?;
    run.ends(Code::Success)?;
    third.ends(Code::Success)?;
    let left = fs::read_dir(bench.dir.path().join("hanok-runs"))?.count();
    ensure!(left == 0, "{left} sockets are left");
    let mut none = Talk::hanok(bench, &["attach", &name])?;
    none.ends(Code::Usage)
}

fn asked(bench: &Bench, file: &str) -> Result<()> {
    let mut run = Talk::hanok(bench, &["run", file])?;
    run.hears("[a] ready")?;
    let mut other = Talk::at_terminal(bench, &format!("attach {}", run.name()))?;
    other.hears("ready")?;
    other.types(b"\x1dlist\r")?;
    other.hears("vm a: running")?;
    ensure!(bench.read("line")? == "list\r", "{:?}", bench.read("line"));
    other.types(b"\x01x")?;
    other.ends(Code::Success)?;
    run.types(b"y")?;
    run.ends(Code::Success)
}

/// The run's own output is read, and its time ends when it should; what the other terminal does not
/// read is left out for it.
fn deaf(bench: &Bench, file: &str) -> Result<()> {
    let mut seconds = 6;
    let mut run = loop {
        let timeout = seconds.to_string();
        let mut run = Talk::hanok(bench, &["run", file, "--timeout", &timeout])?;
        match run.hears("[a] ready") {
            Ok(()) => break run,
            // On a busy PC it may not have come so far in that time.
            Err(_) if seconds < 1000 => seconds *= 4,
            Err(error) => return Err(error),
        }
    };
    let mut command = bench.hanok();
    command
        .args(["attach", &run.name()])
        .env("XDG_RUNTIME_DIR", bench.dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut other = command.stderr(Stdio::null()).spawn()?;
    let ended = run.ends(Code::Timeout);
    let _ = other.kill();
    let _ = other.wait();
    ended
}
