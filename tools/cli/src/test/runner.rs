//! Runs scenarios, two boards side by side.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hanok_system::Description;

use super::code::tail;
use super::damage;
use super::matrix::Case;
use super::scenario::{Ending, FileSpec};
use super::{Tally, told};
use crate::artifacts::Store;
use crate::commands::run::{self, More, Ready};
use crate::console::session::{self, Input, Report, Request, Sink};
use crate::exit::{Blame, Code, Outcome};
use crate::machine::{self, Placed};
use crate::{cargo, initramfs, process, repo, system};

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

/// Asks once for all that `cases` need and the cache lacks, before anything takes its time.
pub fn agree(root: &Path, store: &Store, cases: &[Case]) -> Outcome<()> {
    let mut all: Vec<_> = system::wanted_qemu().into_iter().collect();
    for case in cases {
        // A description that is refused is told when its case's turn comes.
        if let Ok(described) = system::load(root, &root.join(&case.system), &case.overrides) {
            all.extend(system::wanted(&described.artifacts()));
        }
        let files = case.scenario.initramfs_files.iter();
        let packages = files.filter_map(|file| file.package.clone());
        all.extend(packages.map(|name| (name.clone(), system::package_words(&name))));
    }
    all.sort();
    all.dedup();
    system::agree(store, &all)
}

/// Runs all `cases`.
pub fn run(root: &Path, store: Store, cases: &[Case]) -> Tally {
    // Told once, not for every scenario.
    if let Err(error) = cargo::hypervisor(root) {
        let tally = Tally {
            failed: cases.len(),
            details: format!("{error:#}"),
            ..Tally::default()
        };
        let what = "scenarios: the hypervisor does not build";
        told(what, &tally, Duration::ZERO);
        return tally;
    }
    eprintln!(
        "{} scenarios, {BESIDE} boards side by side ...",
        cases.len()
    );
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
    let more = more_files(root, store, case, &dir).blame(Code::Setup)?;
    let mut ready = if case.scenario.native {
        run::native_board(root, store, &description, more.as_ref())?
    } else {
        virtual_board(root, store, case, &description, more.as_ref(), &dir)?
    };
    machine::extras(&mut ready.command, &case.scenario.qemu_args, false);
    Ok(Prepared { case, ready, dir })
}

/// The files that the scenario adds to the initramfs.
fn more_files(root: &Path, store: &Store, case: &Case, dir: &Path) -> Result<Option<More>> {
    let files = &case.scenario.initramfs_files;
    if files.is_empty() {
        return Ok(None);
    }
    let read = |spec: &FileSpec| -> Result<(String, Vec<u8>)> {
        let folder = match &spec.package {
            Some(package) => store.debian(package)?,
            None => root.to_owned(),
        };
        let path = folder.join(&spec.file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok((spec.to.clone(), bytes))
    };
    let files = files.iter().map(read).collect::<Result<Vec<_>>>()?;
    Ok(Some(More {
        archive: initramfs::archive_of(&files),
        path: dir.join("initramfs"),
    }))
}

/// A case's board with the hypervisor on it, damaged as the scenario says.
fn virtual_board(
    root: &Path,
    store: &Store,
    case: &Case,
    description: &Description,
    more: Option<&More>,
    dir: &Path,
) -> Outcome<Ready> {
    let scenario = &case.scenario;
    let qemu = system::prepare(store, &description.artifacts())?;
    let mut resolved = system::resolve(root, store, &description.artifacts())?;
    if let (Some(first), Some(more)) = (resolved.first_mut(), more) {
        more.add_to(first).blame(Code::Refused)?;
    }
    let mut bytes = system::build(root, description, &resolved)?;
    damage::damage_image(&mut bytes, &scenario.image_damage, case.seed).blame(Code::Usage)?;
    let image = dir.join("image");
    repo::write_whole(&image, &bytes).blame(Code::Refused)?;
    let ready = run::ready(&qemu, description, &image, &scenario.append);
    let Some(tree_damage) = &scenario.board_tree_damage else {
        return Ok(ready);
    };
    let mut tree = board_tree(ready, &scenario.qemu_args, dir).blame(Code::Qemu)?;
    for one in tree_damage {
        one.apply(&mut tree, case.seed).blame(Code::Usage)?;
    }
    let mut command = qemu.command();
    own_tree(&mut command, description, &image, &tree, dir).blame(Code::Usage)?;
    Ok(Ready {
        command,
        vms: run::names(description),
        framed: true,
    })
}

/// The tree that QEMU makes for this board.
fn board_tree(ready: Ready, more: &[String], dir: &Path) -> Result<Vec<u8>> {
    let path = dir.join("board.dtb");
    let mut command = ready.command;
    command.args(more);
    let dump = format!("dumpdtb={}", path.display());
    process::run(command.args(["-machine", &dump]))?;
    damage::packed(fs::read(path)?)
}

/// The first instructions are behind the tree that QEMU puts at the start of memory, all the
/// same; our tree follows, and the image is at the next multiple of 2 MiB: as close below it
/// as a boot loader may put a tree.
const STUB_OFFSET: u64 = 1 << 20;
const TREE_OFFSET: u64 = STUB_OFFSET + (64 << 10);
const IMAGE_OFFSET: u64 = 2 << 20;

/// Adds a board that boots `image` with `tree` in X0.
fn own_tree(
    command: &mut Command,
    description: &Description,
    image: &Path,
    tree: &[u8],
    dir: &Path,
) -> Result<()> {
    let ram = description.board.ram;
    let (tree_at, entry) = (ram + TREE_OFFSET, ram + IMAGE_OFFSET);
    let (tree_file, stub_file) = (dir.join("damaged.dtb"), dir.join("stub"));
    fs::write(&tree_file, tree)?;
    fs::write(&stub_file, machine::stub(tree_at, entry))?;
    let placed = Placed {
        image: (image, entry),
        tree: (&tree_file, tree_at),
        stub: (&stub_file, ram + STUB_OFFSET),
    };
    machine::placed(command, &description.qemu_args(), &placed);
    Ok(())
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
    // These are large, and a passing scenario is not looked into.
    for name in ["image", "initramfs"] {
        let _ = fs::remove_file(dir.join(name));
    }
    Ok(())
}

fn judge(case: &Case, report: &Report) -> Result<()> {
    if report.code == Code::Interrupted {
        // The user wants all of it to end, not only this board.
        std::process::exit(Code::Interrupted as i32);
    }
    let fits = |end: &Ending| {
        report.code
            == match end {
                Ending::Off | Ending::Until => Code::Success,
                Ending::Stopped => Code::Stopped,
                Ending::Panic => Code::Panicked,
                Ending::Refused => Code::Refused,
                Ending::Timeout => Code::Timeout,
            }
    };
    anyhow::ensure!(
        case.scenario.end.all().iter().any(fits),
        "ended otherwise than wanted: {}",
        report.why
    );
    if let Some(missed) = &report.missed {
        anyhow::bail!("ended as wanted ({}), but {missed} never came", report.why);
    }
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
    use crate::test::matrix;

    /// The outcome of a scenario whose board is a shell that runs `board`: a failing one
    /// must be told as failing, or none of them means anything.
    fn outcome(scenario: &str, framed: bool, board: &str) -> Result<()> {
        let case = matrix::parse("case", &format!("system = 'x'\n{scenario}"))?.remove(0);
        let dir = tempfile::tempdir()?;
        let mut command = Command::new("sh");
        command.args(["-c", board]);
        let ready = Ready {
            command,
            vms: vec!["a".to_owned()],
            framed,
        };
        boot(Prepared {
            case: &case,
            ready,
            dir: dir.path().to_owned(),
        })
    }

    const OFF: &str = "printf 'vm a: started\\n\\020Ahello\\n\\020@vm a: off\\nend: off\\n'";

    #[test]
    fn a_scenario_that_holds_passes() {
        let steps = "steps = [{ expect = 'hello' }]\nexpect-log = ['vm a: off']\nforbid = ['FAIL']";
        outcome(steps, true, OFF).unwrap();
        outcome("steps = [{ expect = 'native' }]", false, "echo native").unwrap();
        let answer = "steps = [{ expect = 'name?' }, { send = \"me\\n\" }, { expect = 'hi me' }]";
        outcome(answer, false, "echo name?; read x; echo hi $x").unwrap();
    }

    #[test]
    fn every_way_to_fail_fails() {
        let fails = |scenario: &str, board: &str, word: &str| {
            let error = outcome(scenario, true, board).unwrap_err();
            assert!(format!("{error:#}").contains(word), "{scenario}: {error:#}");
        };
        fails("steps = [{ expect = 'bye' }]", OFF, "before \"bye\"");
        fails(
            "expect-log = ['vm b: off']",
            OFF,
            "did not say \"vm b: off\"",
        );
        fails("forbid = ['hello']", OFF, "a.console has \"hello\"");
        fails("forbid = ['started']", OFF, "hanok.log has \"started\"");
        fails("end = 'panic'", OFF, "otherwise than wanted");
        fails(
            "end = 'until'\nsteps = [{ expect = 'bye' }]",
            OFF,
            "before \"bye\"",
        );
        fails("", "exit 1", "QEMU ended unexpectedly");
        fails("", "true", "QEMU ended unexpectedly");
        fails("timeout = 0.2", "exec sleep 9", "the time was over");
        let panic = "printf 'panic: at x\\nend: panic\\n'";
        fails("", panic, "otherwise than wanted: the hypervisor panicked");
        // An ending as wanted does not excuse a step that was never done.
        let step = "end = 'panic'\nsteps = [{ expect = 'bye' }]";
        fails(step, panic, "\"bye\" on the console never came");
        let refused = "printf 'refused: no\\nend: refused\\n'";
        fails("", refused, "the hypervisor refused: no");
        outcome("end = 'refused'", true, refused).unwrap();
        outcome("end = ['off', 'panic']", true, panic).unwrap();
    }

    #[test]
    fn names_make_folders() {
        assert_eq!(file_name("boot [max, 4 cores]"), "boot__max__4_cores_");
        assert_eq!(printable("a\x1b[1mb\r\n\tc"), "a[1mb\n\tc");
    }
}
