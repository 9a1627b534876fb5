//! A board whose serial line is a pseudo terminal, as QEMU makes one: `hanok top --line /dev/pts/N`.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hanok_base::exit::Code;
use rustix::process::Signal;
use tempfile::TempDir;

use super::DESCRIPTION;
use super::row::Row;
use crate::reported::ready;
use crate::running::{LOOK, PATIENCE, Said, ended, hanok, signal};

/// How `hanok run` has QEMU carry the line, and how it is to be.
const STDIO: &str = "stdio,id=line,signal=off";
const PTY: &str = "pty,id=line";

/// A board at a line, which ends when this is dropped.
pub(super) struct AtLine {
    qemu: Child,
    line: PathBuf,
    dir: TempDir,
    root: PathBuf,
}

impl AtLine {
    /// Boots the board, and waits until it reports.
    pub(super) fn start(root: &Path) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let board = ready(root, dir.path(), DESCRIPTION).map_err(|failure| failure.error)?;
        let given: Vec<_> = board.command.get_args().collect();
        ensure!(
            given.iter().any(|word| *word == STDIO),
            "QEMU's line: {given:?}"
        );
        let given = given.into_iter();
        let args = given.map(|word| if word == STDIO { PTY.as_ref() } else { word });
        let mut command = Command::new(board.command.get_program());
        let set = board.command.get_envs();
        command.envs(set.filter_map(|(name, value)| Some((name, value?))));
        let mut qemu = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut said = BufReader::new(qemu.stdout.take().context("no output")?).lines();
        let line = said.find_map(|line| {
            let line = line.ok()?;
            let (_, path) = line.split_once("redirected to ")?;
            path.split(' ').next().map(PathBuf::from)
        });
        let line = line.context("QEMU names no pseudo terminal")?;
        let root = root.to_owned();
        let board = Self {
            qemu,
            line,
            dir,
            root,
        };
        let start = Instant::now();
        while !board.runs()? {
            ensure!(
                start.elapsed() < PATIENCE,
                "no report at {}",
                board.line.display()
            );
            thread::sleep(LOOK);
        }
        Ok(board)
    }

    fn runs(&self) -> Result<bool> {
        let said = self.top(&["--once"])?;
        if !said.is(Code::Success) {
            return Ok(false);
        }
        Ok(Row::of(&said.ended(Code::Success)?, "hog")?.used > 15.0)
    }

    fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = hanok(&self.root, self.dir.path())?;
        command.args([
            "top",
            "--interval",
            "0.5",
            "--description",
            "system.toml",
            "--line",
        ]);
        command.arg(&self.line).args(words);
        Ok(command)
    }

    /// What `hanok top` says at this line.
    pub(super) fn top(&self, words: &[&str]) -> Result<Said> {
        Said::of(&mut self.command(words)?)
    }

    /// Whoever watches the board is told when it ends.
    pub(super) fn ends_with_a_word(mut self) -> Result<()> {
        let errors = self.dir.path().join("errors");
        let mut command = self.command(&["--web", "127.0.0.1:0"])?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut watching = command.stderr(fs::File::create(&errors)?).spawn()?;
        // Its page's address comes when it has the line.
        let mut byte = [0];
        watching
            .stdout
            .as_mut()
            .context("no output")?
            .read_exact(&mut byte)?;
        signal(&self.qemu, Signal::KILL)?;
        ended(&mut self.qemu)?;
        let code = ended(&mut watching);
        let _ = watching.kill();
        let said = fs::read_to_string(&errors)?;
        let word = said.contains("hanok: the line to the board has ended");
        ensure!(code? == Some(0) && word, "{said:?}");
        Ok(())
    }
}

impl Drop for AtLine {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}
