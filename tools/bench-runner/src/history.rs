//! Results are shown, kept by commit, and compared with another commit.
//!
//! Requests that cannot be fulfilled (an unknown commit, a changed tree that is to be kept) are
//! refused before anything is measured: a whole run takes long.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use hanok_bench::{Comparison, Entry, History, HistoryError, Machine, Results, Style};

use super::plan::Plan;
use crate::args::BenchArgs;
use hanok_base::exit::{Blame, Code, Outcome, failure};
use hanok_base::{outputs, ui};

/// Where the medians are, in the repository.
fn folder(root: &Path) -> PathBuf {
    root.join("bench/history")
}

/// Refuses requests that could not be fulfilled with the results of `plan`, as far as that is known
/// before.
pub fn check(root: &Path, args: &BenchArgs, plan: &Plan, now: &Results) -> Outcome<()> {
    keepable(args, now)?;
    if let Some(commit) = &args.compare {
        let history = History::load(&folder(root)).blame(Code::Refused)?;
        let machines = plan.gics.iter();
        let machines = machines.map(|gic| Machine::id_of(&plan.cpu, plan.extensions, *gic));
        entries(&history, commit, machines).blame(Code::Usage)?;
    }
    Ok(())
}

/// The entries of `commit` on `machines`, `None` where it has none; one must be there.
fn entries<'a>(
    history: &'a History,
    commit: &str,
    machines: impl Iterator<Item = String>,
) -> Result<Vec<Option<&'a Entry>>, HistoryError> {
    let (mut found, mut lacking) = (Vec::new(), None);
    for machine in machines {
        match history.find(commit, &machine) {
            Ok(entry) => found.push(Some(entry)),
            Err(unknown @ HistoryError::Unknown { .. }) => {
                found.push(None);
                lacking = Some(unknown);
            }
            Err(other) => return Err(other),
        }
    }
    match lacking {
        Some(unknown) if found.iter().all(Option::is_none) => Err(unknown),
        _ => Ok(found),
    }
}

fn keepable(args: &BenchArgs, results: &Results) -> Outcome<()> {
    if args.keep && results.modified {
        let text = "--keep names figures by their commit, but the tree has changes that are not \
                    committed: commit them first";
        return Err(failure(Code::Usage, text));
    }
    Ok(())
}

/// Shows the results that an earlier run left in `dir`, and does what else is asked for with them.
pub fn show(root: &Path, dir: &Path, args: &BenchArgs, style: Style) -> Outcome {
    let path = dir.join("results.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()));
    let results = Results::from_json(&text.blame(Code::Usage)?);
    let results = results.with_context(|| format!("cannot use {}", path.display()));
    let results = results.blame(Code::Usage)?;
    keepable(args, &results)?;
    finish(root, &results, dir, args, style)
}

/// The table, the page in `dir`, the history, and the comparison.
pub fn finish(
    root: &Path,
    results: &Results,
    dir: &Path,
    args: &BenchArgs,
    style: Style,
) -> Outcome {
    let history = History::load(&folder(root)).blame(Code::Refused)?;
    let table = hanok_bench::results_table(results, style);
    ui::line(format_args!("{}", table.trim_end()));
    let page = dir.join("report.html");
    outputs::write(&page, hanok_bench::html(results, &history))?;
    ui::line(format_args!("The page: {}", page.display()));
    let worse = match &args.compare {
        Some(commit) => compared(&history, results, commit, args, style)?,
        None => false,
    };
    if args.keep {
        for file in History::append(&folder(root), results).blame(Code::Refused)? {
            ui::line(format_args!("Kept: {}", file.display()));
        }
    }
    let failed = results.runs.iter().any(|run| !run.failures.is_empty());
    Ok(if worse || failed {
        Code::TestsFailed
    } else {
        Code::Success
    })
}

/// Reports what changed since `commit`.
fn compared(
    history: &History,
    results: &Results,
    commit: &str,
    args: &BenchArgs,
    style: Style,
) -> Outcome<bool> {
    let machines = results.runs.iter().map(|run| run.machine.id());
    let olds = entries(history, commit, machines).blame(Code::Usage)?;
    let mut worse = false;
    for (run, old) in results.runs.iter().zip(olds) {
        let Some(old) = old else {
            let machine = run.machine.title();
            ui::line(format_args!("\nNothing is kept of {commit} on {machine}."));
            continue;
        };
        let new = Entry::of(results, run);
        let comparison = Comparison::of(old, &new, args.tolerance / 100.0);
        let text = hanok_bench::comparison_table(&comparison, style);
        ui::line(format_args!("\n{}", text.trim_end()));
        worse |= comparison.worse().next().is_some();
    }
    Ok(worse)
}

#[cfg(test)]
mod tests {
    use hanok_bench::{Gic, Run, Side};

    use super::*;
    use crate::args::parsed;

    const PLAIN: Style = Style {
        width: None,
        colour: false,
    };

    fn args(line: &[&str]) -> BenchArgs {
        parsed(line.iter().copied())
    }

    fn results(commit: &str, hypercall: f64) -> Results {
        let mut run = Run::new(Machine {
            cpu: "cortex-a57".into(),
            gic: Gic::V3,
            bits: 64,
            extensions: true,
            memory_mib: 256,
            qemu: "10.0.2".into(),
            kernel: "6.1".into(),
            lmbench: "3.0-a9".into(),
            peers: Default::default(),
            settings: Vec::new(),
        });
        run.add("hypercall", Side::Hanok, hypercall).unwrap();
        let mut results = Results::new(commit);
        results.runs.push(run);
        results
    }

    #[test]
    fn what_cannot_be_done_is_refused_before_measuring() {
        let root = tempfile::tempdir().unwrap();
        let mut now = results("abc", 100.0);
        History::append(&folder(root.path()), &now).unwrap();
        let check = |line: &[&str], now: &Results| {
            let args = args(line);
            check(root.path(), &args, &Plan::of(&args)?, now)
        };
        assert!(check(&["--compare", "abc", "--keep"], &now).is_ok());
        let unknown = check(&["--compare", "fff"], &now).unwrap_err();
        assert_eq!(unknown.code, Code::Usage);
        assert!(check(&["--compare", "abc", "--cpu", "cortex-a72"], &now).is_err());
        now.modified = true;
        assert!(check(&["--compare", "abc"], &now).is_ok());
        assert_eq!(check(&["--keep"], &now).unwrap_err().code, Code::Usage);
    }

    #[test]
    fn an_earlier_run_is_shown_kept_and_compared() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("out");
        fs::create_dir(&dir).unwrap();
        let show = |now: &Results, line: &[&str]| {
            fs::write(dir.join("results.json"), now.to_json().unwrap()).unwrap();
            show(root.path(), &dir, &args(line), PLAIN)
        };
        assert_eq!(
            show(&results("abc", 100.0), &["--keep"]).unwrap(),
            Code::Success
        );
        assert!(
            fs::read_to_string(dir.join("report.html"))
                .unwrap()
                .contains("Null hypercall")
        );
        let kept = folder(root.path()).join("abc-cortex-a57-gicv3.json");
        assert!(kept.exists());
        let later = results("def", 102.0);
        assert_eq!(
            show(&later, &["--compare", "abc"]).unwrap(),
            Code::TestsFailed
        );
        let bearable = ["--compare", "abc", "--tolerance", "3"];
        assert_eq!(show(&later, &bearable).unwrap(), Code::Success);
        assert_eq!(
            show(&later, &["--compare", "eee"]).unwrap_err().code,
            Code::Usage
        );
        assert_eq!(show(&later, &[]).unwrap(), Code::Success);
    }
}
