//! What cargo checks: format, lints on every target, the unit tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::Result;

use crate::step::{Tally, TestStep};
use hanok_artifacts::cargo::{TARGET, TARGET_32, cargo};
use hanok_base::process;
use hanok_base::ui::tail;

/// The steps, cheapest first.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "fmt",
        run: fmt,
    },
    TestStep {
        name: "clippy-host",
        run: clippy_host,
    },
    TestStep {
        name: "clippy-boards",
        run: clippy_boards,
    },
    TestStep {
        name: "unit",
        run: unit,
    },
    TestStep {
        name: "random-systems",
        run: |root| random_systems(root, None),
    },
    TestStep {
        name: "interleavings",
        run: interleavings,
    },
];

/// What only `--all` runs, or its name.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "decoder-whole",
        run: decoder_whole,
    },
    TestStep {
        name: "sched-whole",
        run: sched_whole,
    },
    TestStep {
        name: "sched-global",
        run: sched_global,
    },
    TestStep {
        name: "sched-trees",
        run: sched_trees,
    },
    TestStep {
        name: "sched-kinds",
        run: sched_kinds,
    },
    TestStep {
        name: "sched-systems",
        run: |root| random_systems(root, Some("1000")),
    },
    TestStep {
        name: "top-browser",
        run: top_browser,
    },
];

/// How much of a failing program's output is shown.
const SHOWN: usize = 80;
/// How much of what cargo says beside its tests.
const BUILD_SHOWN: usize = 20;
/// How many numbers below each other are shown of a failure.
const NUMBERS: usize = 8;

fn fmt(root: &Path) -> Tally {
    one(cargo(root).args(["fmt", "--all", "--check"]))
}

fn clippy_host(root: &Path) -> Tally {
    let mut total = Tally::default();
    // The second one separately: it puts a model checker's atomics into the core.
    for package in [&[][..], &["-p", "hanok-interleavings"]] {
        let mut command = cargo(root);
        command.args(["clippy", "--quiet", "--all-targets"]);
        let tally = one(command.args(package).args(["--", "-D", "warnings"]));
        total.add(&tally);
        total.details += &tally.details;
    }
    total
}

/// The signs that an image also exists for 32 bits: a linker script, a guest's or the hypervisor's,
/// or code of its own for it.
const SIGNS_32: [&str; 4] = [
    "image-arm.ld",
    "linker-arm.ld",
    "src/arch/arm",
    "src/arm.rs",
];

/// The program of guests/ that is of Rust's standard library, and so for Linux alone.
const FOR_LINUX: &str = "guests/driver-linux";

/// Whatever may be on a board, on the bare-metal targets and without std: core, lib (which may be in
/// a guest) and the images; and the hypervisor as tests have it, too. All of a target at once, which
/// checks a crate that many use only once. (That each image builds without the features of another is
/// shown where it is built.) Not in the release profile, whose folder the images' builds lock meanwhile.
fn clippy_boards(root: &Path) -> Tally {
    let found = members(root, &["core/", "lib/"])
        .and_then(|shared| Ok((shared, members(root, &["hypervisor", "guests/"])?)));
    let (shared, images) = match found {
        Ok(found) => found,
        Err(error) => return Tally::fail(format!("{error:#}")),
    };
    let bare = |(folder, _): &&(PathBuf, String)| !folder.ends_with(FOR_LINUX);
    let in_32_bits = |folder: &Path| SIGNS_32.iter().any(|sign| folder.join(sign).exists());
    let mut total = Tally::default();
    for target in [TARGET, TARGET_32] {
        let images = images.iter().filter(bare);
        let of_target = images.filter(|(folder, _)| target == TARGET || in_32_bits(folder));
        let packages: Vec<_> = shared.iter().chain(of_target).collect();
        let packages: Vec<_> = packages.iter().map(|(_, name)| name.clone()).collect();
        let faulty = ["hanok-hypervisor".to_owned()];
        for (packages, features) in [
            (&packages[..], &[][..]),
            (&faulty, &["--features", "selftest"]),
            (&faulty, &["--features", "selftest,pools"]),
        ] {
            let mut command = cargo(root);
            command.args(["clippy", "--quiet", "--target", target]);
            let tally = one(on(command.args(features), packages));
            total.add(&tally);
            total.details += &tally.details;
        }
    }
    total
}

fn on<'a>(command: &'a mut Command, packages: &[String]) -> &'a mut Command {
    for package in packages {
        command.args(["-p", package]);
    }
    command.args(["--", "-D", "warnings"])
}

/// All of them, and those of what runs on a board with pools.
fn unit(root: &Path) -> Tally {
    let mut total = Tally::default();
    let pools = ["-p", "hanok-pcpu", "--features", "hanok-pcpu/pools"];
    for more in [&[][..], &pools] {
        let mut command = cargo(root);
        command.args(["test", "--no-fail-fast", "--color", "never"]);
        let tally = tests(command.args(more));
        total.add(&tally);
        total.details += &tally.details;
    }
    total
}

/// The executive of several pCPUs under interleavings that a model checker chooses.
fn interleavings(root: &Path) -> Tally {
    let mut command = cargo(root);
    command.args(["test", "--release", "--color", "never"]);
    quick_to_build(&mut command);
    some(tests(command.args(["-p", "hanok-interleavings"])))
}

/// Not the images' way to build: what that saves a board takes the PC twice as long, and one core alone.
fn quick_to_build(command: &mut Command) {
    for setting in ["lto=false", "codegen-units=16", "debug=false"] {
        command.args(["--config", &format!("profile.release.{setting}")]);
    }
}

/// Every load and store of A64 and every sensitive instruction of A32 and T32, against two other
/// decoders.
fn decoder_whole(root: &Path) -> Tally {
    ignored(root, "hanok-decode", "oracles")
}

/// Ten thousand random sets of tasks, by admission, simulation and plain ticks.
fn sched_whole(root: &Path) -> Tally {
    ignored(root, "hanok-simulator", "random_sets")
}

/// Ten thousand sets under global EDF, admitted by a hair, by a scheduler that looks at every
/// instant.
fn sched_global(root: &Path) -> Tally {
    more_sets(root, "hanok-analysis", &["all", "--", "global::"])
}

/// Ten thousand trees of components, admitted by a hair, simulated; and job by job beside ideal
/// periodic servers.
fn sched_trees(root: &Path) -> Tally {
    more_sets(root, "hanok-simulator", &["trees"])
}

/// Ten thousand sets of servers of mixed kinds, admitted by a hair by the board's ledger, simulated.
fn sched_kinds(root: &Path) -> Tally {
    more_sets(root, "hanok-simulator", &["kinds"])
}

/// Random systems near the edge: whether what is admitted misses a deadline in the simulation, and what is refused
/// would; as many as the environment's `HANOK_SETS` says, or `sets`. Its figures are told.
fn random_systems(root: &Path, sets: Option<&str>) -> Tally {
    let mut command = cargo(root);
    command.args(["test", "--color", "never", "-p", "hanok-random-systems"]);
    if let Some(sets) = sets {
        command.env("HANOK_SETS", sets).arg("--release");
        quick_to_build(&mut command);
    }
    command.args(["--test", "random_systems", "--", "--nocapture"]);
    command.env("RUST_BACKTRACE", "0");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Tally::fail(format!("cannot start cargo: {error}")),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text
        .lines()
        .filter_map(|line| line.strip_prefix("figure: "));
    let figures: Vec<_> = figures.collect();
    let mut tally = some(count(&output));
    tally.details = format!("{}\n{}", figures.join("\n"), tally.details);
    tally
}

/// The page of `hanok top` in Debian's Chromium, of a board that is none; `top-page` has one that runs.
fn top_browser(root: &Path) -> Tally {
    let mut command = cargo(root);
    command.args(["test", "--color", "never", "-p", "hanok-top"]);
    some(tests(command.args([
        "--test",
        "browser",
        "--",
        "--ignored",
        "--skip",
        "a_change_on_a_running_board",
    ])))
}

/// The tests of `package` that `which` names (a program, and what in it), with ten thousand sets in the
/// place of a sample.
fn more_sets(root: &Path, package: &str, which: &[&str]) -> Tally {
    let mut command = cargo(root);
    command.env("HANOK_SETS", "10000");
    command.args(["test", "--release", "--color", "never", "-p", package]);
    some(tests(command.arg("--test").args(which)))
}

/// The tests in `file` of `package` that are too slow for every run.
fn ignored(root: &Path, package: &str, file: &str) -> Tally {
    let mut command = cargo(root);
    command.args(["test", "--release", "--color", "never", "-p", package]);
    some(tests(command.args(["--test", file, "--", "--ignored"])))
}

/// A name that no test has is a failure.
fn some(tally: Tally) -> Tally {
    match tally.passed + tally.failed {
        0 => Tally::fail("no test was run"),
        _ => tally,
    }
}

/// Counts the tests that `cargo test` runs.
fn tests(command: &mut Command) -> Tally {
    // The message says what failed; a trace of the test harness would bury it.
    command.env("RUST_BACKTRACE", "0");
    match command.output() {
        Ok(output) => count(&output),
        Err(error) => Tally::fail(format!("cannot start cargo: {error}")),
    }
}

fn one(command: &mut Command) -> Tally {
    match process::run(command) {
        Ok(_) => Tally::pass(),
        Err(error) => Tally::fail(tail(&format!("{error:#}"), SHOWN)),
    }
}

/// Counts the tests of `cargo test`; a failure that shows in none of them counts as one.
fn count(output: &Output) -> Tally {
    let text = String::from_utf8_lossy(&output.stdout);
    let ended = |how: &str| {
        text.lines()
            .filter(|line| line.starts_with("test ") && line.ends_with(how))
            .count()
    };
    let mut tally = Tally {
        passed: ended("... ok"),
        failed: ended("... FAILED"),
        skipped: text.lines().filter(|line| is_ignored(line)).count(),
        ..Tally::default()
    };
    if !output.status.success() {
        tally.failed = tally.failed.max(1);
        let errors = String::from_utf8_lossy(&output.stderr);
        // What cargo compiled and ran comes last, so that it does not push out what failed.
        let ends = [(failures(&text), SHOWN), (errors.into_owned(), BUILD_SHOWN)];
        tally.details = ends.map(|(text, lines)| tail(&text, lines)).join("\n");
    }
    tally
}

/// Whether a line of `cargo test` tells of a test that was left out, with or without its reason.
fn is_ignored(line: &str) -> bool {
    let result = line
        .strip_prefix("test ")
        .and_then(|rest| rest.split_once(" ... "));
    result.is_some_and(|(_, result)| result.starts_with("ignored"))
}

/// The parts of `cargo test`'s output that say what failed. Of numbers below each other, as a long
/// array is printed, the first ones are enough: a page of them would push out what failed.
fn failures(text: &str) -> String {
    let mut shown = String::new();
    let mut inside = false;
    let mut numbers = 0;
    for line in text.lines() {
        inside = (inside || line == "failures:") && !line.starts_with("test result:");
        let is_number = line.trim().trim_end_matches(',').parse::<i128>().is_ok();
        numbers = if is_number { numbers + 1 } else { 0 };
        if inside && numbers <= NUMBERS {
            shown += line;
            shown.push('\n');
        }
    }
    shown
}

/// The packages whose folder starts with one of `folders`.
pub(super) fn packages(root: &Path, folders: &[&str]) -> Result<Vec<String>> {
    let members = members(root, folders)?;
    Ok(members.into_iter().map(|(_, name)| name).collect())
}

/// The same with the folder of each.
fn members(root: &Path, folders: &[&str]) -> Result<Vec<(PathBuf, String)>> {
    let manifest: toml::Table = toml::from_str(&std::fs::read_to_string(root.join("Cargo.toml"))?)?;
    let members = manifest
        .get("workspace")
        .and_then(|ws| ws.get("members")?.as_array());
    let mut names = Vec::new();
    for member in members
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_str)
    {
        if folders.iter().any(|folder| member.starts_with(folder)) {
            let folder = root.join(member);
            let text = std::fs::read_to_string(folder.join("Cargo.toml"))?;
            let member: toml::Table = toml::from_str(&text)?;
            let name = member
                .get("package")
                .and_then(|package| package.get("name")?.as_str());
            names.extend(name.map(|name| (folder, name.to_owned())));
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn output(code: i32, stdout: &str) -> Output {
        let status = ExitStatus::from_raw(code << 8);
        Output {
            status,
            stdout: stdout.into(),
            stderr: b"error: it broke".to_vec(),
        }
    }

    #[test]
    fn single_tests_are_counted() {
        let text = "running 4 tests\ntest a::b ... ok\ntest c - should panic ... ok\n\
            test src/lib.rs - x (line 3) ... ok\ntest d ... ignored\n\
            test e ... ignored, a minute\ntest result: ok. 3 passed\n";
        let tally = count(&output(0, text));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (3, 0, 2));
    }

    #[test]
    fn failures_are_shown_and_a_broken_build_counts() {
        let text = "test a ... ok\ntest b ... FAILED\n\nfailures:\n\n---- b stdout ----\nboom\n\
            test result: FAILED. 1 passed\n";
        let tally = count(&output(101, text));
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert!(tally.details.contains("boom") && !tally.details.contains("test a"));
        assert_eq!(count(&output(101, "")).failed, 1);
        let page = "     0,\n".repeat(1024);
        let text =
            format!("test b ... FAILED\n\nfailures:\n\nboom\n[\n{page}]\ntest result: FAILED.\n");
        assert!(count(&output(101, &text)).details.contains("boom"));
    }
}
