//! A folder in which the command is tried.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A folder with descriptions, and the command.
pub(super) struct Bench {
    /// Whether [`SOUND`] is known to be sound.
    pub(super) sound: Cell<bool>,
    pub(super) dir: TempDir,
    pub(super) hanok: PathBuf,
    pub(super) root: PathBuf,
}

impl Bench {
    pub(super) fn new(root: &Path) -> Result<Self> {
        Ok(Self {
            sound: Cell::new(false),
            dir: tempfile::tempdir()?,
            hanok: std::env::current_exe()?,
            root: root.to_owned(),
        })
    }

    pub(super) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    }

    /// A program in the folder, a script. Another process writes it: a child that some other thread is just
    /// starting would inherit a file that is open for writing here, and as long as one is, the kernel executes
    /// nothing from it (ETXTBSY).
    pub(super) fn program(&self, name: &str, text: impl AsRef<[u8]>) -> Result<PathBuf> {
        let text = self.file(&format!("{name}.text"), text)?;
        let program = self.dir.path().join(name);
        let mut install = Command::new("install");
        let done = install
            .args(["-m", "755"])
            .arg(&text)
            .arg(&program)
            .status()?;
        anyhow::ensure!(done.success(), "install: {done}");
        Ok(program)
    }

    /// The command, in the folder, as a script would call it.
    pub(super) fn hanok(&self) -> Command {
        let mut command = Command::new(&self.hanok);
        command
            .current_dir(self.dir.path())
            .env("HANOK_ROOT", &self.root)
            .env_remove("NO_COLOR")
            .env("TERM", "xterm");
        command.stdin(std::process::Stdio::null());
        command
    }

    pub(super) fn read(&self, name: &str) -> Result<String> {
        let bytes = fs::read(self.dir.path().join(name));
        let bytes = bytes.with_context(|| format!("{name} was not written"))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

pub(super) fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A description that is sound, each of its keys in a line of its own.
pub(super) const SOUND: &str = r#"board = "qemu-virt"
[[vm]]
name = "a"
kernel = "guest:conformance"
memory = "256M"
vcpus = 1
"#;
