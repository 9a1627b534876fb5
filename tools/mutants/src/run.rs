//! Runs each mutant against the tests that reach it.
//!
//! Which tests reach which mutants a run of each test alone tells, with no mutant on; the same run
//! tells how long it takes. A mutant meets the quick ones first, together in one process, then the
//! slow ones, each in its own. It is caught where such a process does not end well, or takes far
//! longer than without it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hanok_base::cpu;

use crate::build::Program;

/// Tests that take longer than this run after the others.
const SLOW: Duration = Duration::from_millis(300);
/// Tests that take longer run after the others.
const QUICK: Duration = Duration::from_millis(30);
/// The time limit of a process: so much more of a CPU than without a mutant, and so many times as much. By the
/// clock on the wall, a mutant would count as caught because the PC did something else.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_FACTOR: u32 = 8;
/// A process that waits without end uses no CPU: by the clock on the wall it has so many times its patience.
const WAITS_FACTOR: u32 = 6;
/// The time limit of a test without a mutant.
const LONGEST: Duration = Duration::from_secs(900);
/// The limit of each process's address space, in KiB: a mutant may allocate memory without end.
const MEMORY_KIB: u32 = 8 << 20;

/// A test of a program, as it is without a mutant.
#[derive(Clone, Debug)]
pub struct Test {
    program: Program,
    name: String,
    takes: Duration,
    /// Whether it passes also where the first panic ends the process: a test that expects a panic
    /// does not.
    hasty: bool,
    /// The mutants that it reaches.
    reaches: BTreeSet<u32>,
}

impl Test {
    /// Its package.
    pub fn package(&self) -> &str {
        &self.program.package
    }
}

/// The result of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A test failed.
    Caught,
    /// Tests reached it, and none failed.
    Missed,
    /// No test reached it.
    Unreached,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Well,
    Badly,
    /// It was killed, as it took too long.
    Late,
}

/// Runs each test of `programs` alone. `scratch` is a folder for temporary files.
pub fn tests(programs: &[Program], scratch: &Path) -> Result<Vec<Test>> {
    fs::create_dir_all(scratch)?;
    let mut names = Vec::new();
    for program in programs {
        let of_it = listed(program, &[])?;
        let ignored = listed(program, &["--ignored"])?;
        let wanted = of_it.into_iter().filter(|name| !ignored.contains(name));
        names.extend(wanted.map(|name| (program, name)));
    }
    let measured = in_parallel(&names, |nth, (program, name)| {
        measure(program, name, &scratch.join(format!("reached-{nth}")))
    });
    measured.into_iter().collect()
}

/// Tests each mutant of `ids` with those of `tests` that reach it; calls `progress` with the number
/// that are done.
pub fn verdicts(
    ids: &[u32],
    tests: &[&Test],
    progress: impl Fn(usize) + Sync,
) -> Result<Vec<(u32, Verdict)>> {
    let done = AtomicUsize::new(0);
    let judged = in_parallel(ids, |_, id| {
        let verdict = judge(*id, tests).map(|verdict| (*id, verdict));
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        verdict
    });
    judged.into_iter().collect()
}

/// Runs `work` on each of `items`, as many at a time as there are CPUs, and returns the results.
fn in_parallel<I: Sync, O: Send>(items: &[I], work: impl Fn(usize, &I) -> O + Sync) -> Vec<O> {
    let next = AtomicUsize::new(0);
    let made = Mutex::new(BTreeMap::new());
    let worker = || {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(nth) else { return };
            let one = work(nth, item);
            let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
            made.insert(nth, one);
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(worker);
        }
    });
    let made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.into_values().collect()
}

/// The names of a program's tests.
fn listed(program: &Program, more: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new(&program.path);
    command.current_dir(&program.folder);
    command.args(["--list", "--format", "terse"]).args(more);
    let output = command.output().context("cannot start a test program")?;
    ensure!(
        output.status.success(),
        "{} lists no tests",
        program.path.display()
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

fn measure(program: &Program, name: &str, notes: &Path) -> Result<Test> {
    if notes.exists() {
        fs::remove_file(notes)?;
    }
    let names = [name];
    let reached = [("HANOK_MUTANT_REACHED", notes.as_os_str())];
    let ending = run(program, &names, &reached, LONGEST)?;
    ensure!(ending == Ending::Well, "{name} fails without a mutant");
    let began = Instant::now();
    let hasty = run(
        program,
        &names,
        &[("HANOK_MUTANT_HASTE", "1".as_ref())],
        LONGEST,
    )?;
    let takes = began.elapsed();
    // A test that reaches no mutant writes no file.
    let reached = fs::read_to_string(notes).unwrap_or_default();
    let reaches = reached.lines().map(str::parse).collect::<Result<_, _>>()?;
    Ok(Test {
        program: program.clone(),
        name: name.to_owned(),
        takes,
        hasty: hasty == Ending::Well,
        reaches,
    })
}

fn judge(id: u32, tests: &[&Test]) -> Result<Verdict> {
    let reaching: Vec<_> = tests
        .iter()
        .filter(|one| one.reaches.contains(&id))
        .collect();
    if reaching.is_empty() {
        return Ok(Verdict::Unreached);
    }
    // Those that can run in one process, in groups by how long they take.
    let mut groups: BTreeMap<_, Vec<&Test>> = BTreeMap::new();
    for test in reaching {
        let alone = if test.takes > SLOW {
            test.name.as_str()
        } else {
            ""
        };
        let key = (&test.program.path, test.hasty, test.takes > QUICK, alone);
        groups.entry(key).or_default().push(test);
    }
    let takes = |group: &Vec<&Test>| group.iter().map(|test| test.takes).sum::<Duration>();
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(takes);
    for group in groups {
        let names: Vec<_> = group.iter().map(|test| test.name.as_str()).collect();
        let number = id.to_string();
        let mut environment = vec![("HANOK_MUTANT", number.as_ref())];
        let Some(first) = group.first() else { continue };
        if first.hasty {
            environment.push(("HANOK_MUTANT_HASTE", "1".as_ref()));
        }
        let patience = PATIENCE + takes(&group) * PATIENCE_FACTOR;
        if run(&first.program, &names, &environment, patience)? != Ending::Well {
            return Ok(Verdict::Caught);
        }
    }
    Ok(Verdict::Missed)
}

/// Runs some tests of a program, one after the other.
fn run(
    program: &Program,
    names: &[&str],
    environment: &[(&str, &std::ffi::OsStr)],
    patience: Duration,
) -> Result<Ending> {
    let limited = format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command
        .current_dir(&program.folder)
        .args(["-c", &limited])
        .arg(&program.path)
        .args(["--test-threads", "1", "--exact"])
        .args(names)
        // One failure is enough: the smallest failing input is not searched.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        // Inputs that failed with one mutant are not tried first with the next.
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env("RUST_BACKTRACE", "0")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().context("cannot start a test program")?;
    let end = Instant::now() + patience * WAITS_FACTOR;
    let mut pause = Duration::from_millis(1);
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(Ending::Well),
            Some(_) => return Ok(Ending::Badly),
            None if cpu::of_process(child.id()) > patience || Instant::now() > end => {
                child.kill()?;
                child.wait()?;
                return Ok(Ending::Late);
            }
            None => thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A shell script in the place of a test program.
    fn script(name: &str, text: &str) -> Result<(Program, PathBuf)> {
        use std::os::unix::fs::PermissionsExt;
        let folder =
            std::env::temp_dir().join(format!("hanok-mutants-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let path = folder.join("program");
        fs::write(&path, format!("#!/bin/sh\n{text}"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        let program = Program {
            package: "p".to_owned(),
            folder: folder.clone(),
            path,
        };
        Ok((program, folder))
    }

    const TWO: &str = r#"
case "$*" in
  *--ignored*) exit 0;;
  *--list*) echo 'one: test'; echo 'two: test'; exit 0;;
esac
case "$*" in *one*) asked="1 3";; *) asked="2 3";; esac
[ -n "$HANOK_MUTANT_REACHED" ] && printf '%s\n' $asked >> "$HANOK_MUTANT_REACHED"
case "$HANOK_MUTANT $*" in
  "1 "*one*) exit 101;;
  "3 "*two*) exit 101;;
esac
exit 0
"#;

    #[test]
    fn a_mutant_meets_the_tests_that_reach_it() -> Result<()> {
        let (program, folder) = script("two", TWO)?;
        let found = tests(&[program], &folder.join("notes"))?;
        let names: Vec<_> = found.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(found[0].reaches, [1, 3].into());
        let all: Vec<_> = found.iter().collect();
        let seen = AtomicUsize::new(0);
        let count = |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        };
        let judged = verdicts(&[1, 2, 3, 4], &all, count)?;
        let expected = [
            (1, Verdict::Caught),
            (2, Verdict::Missed),
            (3, Verdict::Caught),
            (4, Verdict::Unreached),
        ];
        assert_eq!(judged, expected);
        assert_eq!(seen.load(Ordering::Relaxed), 4);
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn a_test_that_fails_without_a_mutant_is_an_error() -> Result<()> {
        let text = "case \"$*\" in *--ignored*) exit 0;; *--list*) echo 'one: test'; exit 0;; esac; exit 1";
        let (program, folder) = script("fails", text)?;
        let found = tests(&[program], &folder.join("notes"));
        assert!(found.is_err_and(|error| error.to_string().contains("one fails")));
        fs::remove_dir_all(folder)?;
        Ok(())
    }

    #[test]
    fn a_process_that_does_not_end_is_ended() -> Result<()> {
        let (program, folder) = script("late", "exec sleep 1000")?;
        let ending = run(&program, &["one"], &[], Duration::from_millis(50))?;
        assert_eq!(ending, Ending::Late);
        fs::remove_dir_all(folder)?;
        Ok(())
    }
}
