//! Runs scenarios, two boards side by side.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::code::tail;
use super::matrix::Case;
use super::scenario::Ending;
use super::{Tally, told};
use crate::artifacts::Store;
use crate::commands::run::{self, Ready};
use crate::console::session::{self, Input, Report, Request, Sink};
use crate::exit::{Blame, Code, Outcome};
use crate::{machine, repo, system};

/// How many boards run at the same time.
const BESIDE: usize = 2;
/// How much of a failing scenario's console is shown.
const SHOWN: usize = 25;

/// A case whose board is ready.
struct Prepared<'a> {
    case: &'a Case,
    ready: Ready,
    dir: PathBuf,
}

/// What the workers share.
struct Shared<'a> {
    root: &'a Path,
    /// Held while an image is built: one at a time, and none long before it boots.
    store: Mutex<Store>,
    /// The next case is at the end.
    waiting: Mutex<Vec<&'a Case>>,
    total: Mutex<Tally>,
}

/// Runs all `cases`.
pub fn run(root: &Path, store: Store, cases: &[Case]) -> Tally {
    let shared = Shared {
        root,
        store: Mutex::new(store),
        waiting: Mutex::new(cases.iter().rev().collect()),
        total: Mutex::default(),
    };
    thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| shared.work());
        }
    });
    shared
        .total
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

impl Shared<'_> {
    fn work(&self) {
        while let Some(case) = self.next() {
            let start = Instant::now();
            let tally = self.one(case);
            let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
            told(&case.name, &tally, start.elapsed());
            total.add(&tally);
        }
    }

    fn next(&self) -> Option<&Case> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
    }

    fn one(&self, case: &Case) -> Tally {
        let prepared = {
            let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
            prepare(self.root, &store, case)
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => return Tally::fail(format!("{:#}", failure.error)),
        };
        let dir = prepared.dir.clone();
        match boot(prepared) {
            Ok(()) => Tally::pass(),
            Err(error) => Tally::fail(format!("{error:#}\n{}", last_words(&dir))),
        }
    }
}

/// Builds a case's image and command.
fn prepare<'a>(root: &Path, store: &Store, case: &'a Case) -> Outcome<Prepared<'a>> {
    let dir = repo::target_dir(root)
        .join("hanok/test")
        .join(file_name(&case.name));
    let fresh = || -> Result<()> {
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        Ok(fs::create_dir_all(&dir)?)
    };
    fresh()
        .with_context(|| format!("cannot make {}", dir.display()))
        .blame(Code::Usage)?;
    let description = system::load(root, &root.join(&case.system), &case.overrides)?;
    let mut ready = if case.scenario.native {
        run::native_board(store, &description)?
    } else {
        let image = dir.join("image");
        let qemu = system::prepare(store, &description.artifacts())?;
        let resolved = system::resolve(store, &description.artifacts())?;
        let bytes = system::build(root, &description, &resolved)?;
        run::write_image(&image, &bytes).blame(Code::Refused)?;
        run::ready(&qemu, &description, &image)
    };
    machine::extras(&mut ready.command, &case.scenario.qemu_args, false);
    Ok(Prepared { case, ready, dir })
}

/// A folder's name for a case: only what every file system takes.
fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-._".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

fn boot(prepared: Prepared) -> Result<()> {
    let Prepared { case, ready, dir } = prepared;
    fs::write(dir.join("command"), machine::typed(&ready.command) + "\n")?;
    let vms = ready.vms.clone();
    let file = |name: &str| File::create(dir.join(name)).map(Sink::File);
    let consoles = vms.iter().map(|vm| file(&format!("{vm}.console")));
    let request = Request {
        command: ready.command,
        framed: ready.framed,
        steps: case.scenario.steps()?,
        until: None,
        timeout: Some(Duration::try_from_secs_f64(case.scenario.timeout)?),
        consoles: consoles.collect::<Result<_, _>>()?,
        log: file("hanok.log")?,
        input: Input::None,
        vms,
    };
    let report = session::run(request).map_err(|failure| failure.error)?;
    judge(case, &report)?;
    check_texts(case, &dir)?;
    // An image is large, and a passing scenario is not looked into.
    let _ = fs::remove_file(dir.join("image"));
    Ok(())
}

fn judge(case: &Case, report: &Report) -> Result<()> {
    let wanted = match case.scenario.end {
        Ending::Off | Ending::Until => Code::Success,
        Ending::Stopped => Code::Stopped,
        Ending::Panic => Code::Panicked,
    };
    if report.code == Code::Interrupted {
        // The user wants all of it to end, not only this board.
        std::process::exit(Code::Interrupted as i32);
    }
    anyhow::ensure!(
        report.code == wanted,
        "ended otherwise than wanted: {}",
        report.why
    );
    Ok(())
}

/// Looks for what the hypervisor must have said, and for what nobody may have.
fn check_texts(case: &Case, dir: &Path) -> Result<()> {
    let read = |path: &Path| -> Result<String> {
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    };
    let log = read(&dir.join("hanok.log"))?;
    for text in &case.scenario.expect_log {
        anyhow::ensure!(
            log.contains(text.as_str()),
            "the hypervisor did not say {text:?}"
        );
    }
    for path in said(dir)? {
        let words = read(&path)?;
        for text in &case.scenario.forbid {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            anyhow::ensure!(!words.contains(text.as_str()), "{name} has {text:?}");
        }
    }
    Ok(())
}

/// The files of consoles and messages in `dir`.
fn said(dir: &Path) -> Result<Vec<PathBuf>> {
    let paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.retain(|path| {
        path.extension()
            .is_some_and(|ext| ext == "console" || ext == "log")
    });
    paths.sort();
    Ok(paths)
}

/// The ends of the consoles of a failing case, and where the rest is.
fn last_words(dir: &Path) -> String {
    let mut text = format!("kept in {}\n", dir.display());
    for path in said(dir).unwrap_or_default() {
        let Ok(words) = fs::read(&path) else { continue };
        let words = String::from_utf8_lossy(&words);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        text += &format!("--- {name}\n{}\n", printable(&tail(&words, SHOWN)));
    }
    text
}

/// Without what would change the terminal.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|c| *c == '\n' || *c == '\t' || !c.is_control())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_folders() {
        assert_eq!(file_name("boot [max, 4 cores]"), "boot__max__4_cores_");
        assert_eq!(printable("a\x1b[1mb\r\n\tc"), "a[1mb\n\tc");
    }
}
