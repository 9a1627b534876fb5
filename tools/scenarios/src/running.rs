//! A run of a small system, and other commands beside it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hanok_base::exit::Code;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Only what hangs takes so long: a first run builds the hypervisor.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
/// How often is looked whether something has come.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    what: String,
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Said {
    pub(crate) fn of(command: &mut Command) -> Result<Self> {
        let output = command.stdin(Stdio::null()).output();
        let output = output.context("cannot start hanok")?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        Ok(Self {
            what: words.join(" "),
            code: output.status.code(),
            out: text(&output.stdout),
            errors: text(&output.stderr),
        })
    }

    /// Whether it ended so.
    pub(crate) fn is(&self, code: Code) -> bool {
        self.code == Some(code as i32)
    }

    fn check(&self, code: Code) -> Result<()> {
        let Self {
            what, out, errors, ..
        } = self;
        let ended = self.code;
        ensure!(
            self.is(code),
            "hanok {what}: {ended:?}, not {code:?}\n{out}\n{errors}"
        );
        Ok(())
    }

    /// What it printed, once it is known that it ended so.
    pub(crate) fn ended(self, code: Code) -> Result<String> {
        self.check(code)?;
        Ok(self.out)
    }

    /// What it complained of.
    pub(crate) fn failed(self, code: Code) -> Result<String> {
        self.check(code)?;
        Ok(self.errors)
    }
}

/// A run, which ends when this is dropped.
pub(crate) struct Running {
    run: Child,
    dir: TempDir,
    root: PathBuf,
}

/// The command, which finds only the runs of `dir`.
pub(crate) fn hanok(root: &Path, dir: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .current_dir(dir)
        .env("HANOK_ROOT", root)
        .env("XDG_RUNTIME_DIR", dir)
        .env("TERM", "xterm")
        .env("NO_COLOR", "1");
    Ok(command)
}

impl Running {
    /// Starts a run of the system with this description, by instructions.
    pub(crate) fn start(root: &Path, text: &str) -> Result<Self> {
        Self::start_with(root, text, &[])
    }

    /// The same, with more words for `hanok run`.
    pub(crate) fn start_with(root: &Path, text: &str, words: &[&str]) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let description = dir.path().join("small.toml");
        fs::write(&description, text)?;
        let output = File::create(dir.path().join("output"))?;
        let run = hanok(root, dir.path())?
            .args(["run", "--icount"])
            .args(words)
            .arg(&description)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let root = root.to_owned();
        Ok(Self { run, dir, root })
    }

    /// A subcommand about this run, not started yet.
    pub(crate) fn command(&self, subcommand: &[&str], words: &[&str]) -> Result<Command> {
        let mut command = hanok(&self.root, self.dir.path())?;
        let name = format!("small-{}", self.run.id());
        command
            .args(subcommand)
            .args(["--system", &name])
            .args(words);
        Ok(command)
    }

    /// What it says.
    pub(crate) fn says(&self, subcommand: &[&str], words: &[&str]) -> Result<Said> {
        Said::of(&mut self.command(subcommand, words)?)
    }

    /// The run's folder, in which commands run.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until `has_come` says so.
    pub(crate) fn awaits(&self, what: &str, has_come: impl Fn() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !has_come()? {
            let output = fs::read_to_string(self.dir.path().join("output"))?;
            ensure!(
                start.elapsed() < PATIENCE,
                "{what}: it does not come\n{output}"
            );
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Ends the run.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        signal(&self.run, Signal::TERM)?;
        ended(&mut self.run).map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Sends a signal to a child that nobody has waited for.
pub(crate) fn signal(child: &Child, signal: Signal) -> Result<()> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(id.context("no process")?, signal)?;
    Ok(())
}

/// The exit code of a child, once it has ended; none if a signal ended it.
pub(crate) fn ended(child: &mut Child) -> Result<Option<i32>> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        thread::sleep(LOOK);
    }
    bail!("it does not end")
}
