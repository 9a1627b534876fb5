//! A run of the small system, and `hanok top` beside it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hanok_base::exit::Code;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::DESCRIPTION;

/// Only what hangs takes so long: a first run builds the hypervisor.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// How often is looked whether something has come.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// What a command said, and how it ended.
#[derive(Debug)]
pub(super) struct Said {
    what: String,
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Said {
    pub(super) fn of(command: &mut Command) -> Result<Self> {
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
    pub(super) fn is(&self, code: Code) -> bool {
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
    pub(super) fn ended(self, code: Code) -> Result<String> {
        self.check(code)?;
        Ok(self.out)
    }

    /// What it complained of.
    pub(super) fn failed(self, code: Code) -> Result<String> {
        self.check(code)?;
        Ok(self.errors)
    }
}

/// A row of the table of vCPUs, as it is printed.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) promised: String,
    pub(super) used: f64,
}

impl Row {
    /// The row of a VM with one vCPU: mark, name, core, state, kind, promise, its share, what it used.
    pub(super) fn of(screen: &str, vm: &str) -> Result<Self> {
        let words = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let mut rows = screen.lines().map(words);
        let row = rows.find(|row| row.get(1).is_some_and(|name| name == vm));
        let row = row.with_context(|| format!("no row of {vm}:\n{screen}"))?;
        let rest = row.get(5..).unwrap_or_default();
        // The promise ends where numbers with a point follow each other.
        let decimal = |word: &String| word.contains('.') && word.parse::<f64>().is_ok();
        let end = rest.iter().position(decimal).context("no numbers")?;
        let used = rest.get(end + 1).context("no share")?;
        Ok(Self {
            promised: rest[..end].join(" "),
            used: used.parse().with_context(|| format!("{row:?}"))?,
        })
    }
}

/// A run, which ends when this is dropped.
pub(super) struct Running {
    run: Child,
    dir: TempDir,
    root: PathBuf,
}

/// The command, which finds only the runs of `dir`.
pub(super) fn hanok(root: &Path, dir: &Path) -> Result<Command> {
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
    /// Starts the run, by instructions.
    pub(super) fn start(root: &Path) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let description = dir.path().join("small.toml");
        fs::write(&description, DESCRIPTION)?;
        let output = File::create(dir.path().join("output"))?;
        let run = hanok(root, dir.path())?
            .args(["run", "--icount"])
            .arg(&description)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let root = root.to_owned();
        Ok(Self { run, dir, root })
    }

    /// `hanok top` of this run, not started yet.
    pub(super) fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = hanok(&self.root, self.dir.path())?;
        let name = format!("small-{}", self.run.id());
        command.args(["top", "--system", &name]).args(words);
        Ok(command)
    }

    /// What `hanok top` says of this run.
    pub(super) fn top(&self, words: &[&str]) -> Result<Said> {
        Said::of(&mut self.command(words)?)
    }

    /// A row of the table.
    pub(super) fn row(&self, vm: &str) -> Result<Row> {
        Row::of(&self.top(&["--once"])?.ended(Code::Success)?, vm)
    }

    /// Waits until the board reports that its busy VM has run.
    pub(super) fn reports(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let said = self.top(&["--once"])?;
            let runs = said.is(Code::Success) && Row::of(&said.out, "hog")?.used > 15.0;
            if runs {
                return Ok(());
            }
            let output = fs::read_to_string(self.dir.path().join("output"))?;
            ensure!(start.elapsed() < PATIENCE, "no report: {said:#?}\n{output}");
            thread::sleep(LOOK);
        }
    }

    /// Ends the run.
    pub(super) fn stop(mut self) -> Result<()> {
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
pub(super) fn signal(child: &Child, signal: Signal) -> Result<()> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    kill_process(id.context("no process")?, signal)?;
    Ok(())
}

/// The exit code of a child, once it has ended; none if a signal ended it.
pub(super) fn ended(child: &mut Child) -> Result<Option<i32>> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        thread::sleep(LOOK);
    }
    bail!("it does not end")
}
