//! Tests the way from a description to the output.

use std::path::{Path, PathBuf};

use clap::Parser;

use super::*;
use crate::args::{Cli, Command, SchedCommand};
use std::fs;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn arguments(line: &str) -> SimulateArgs {
    let words = format!("hanok sched simulate {line}");
    let cli = Cli::try_parse_from(words.split_whitespace()).unwrap();
    let Command::Sched(SchedCommand::Simulate(args)) = cli.command else {
        panic!("not simulate")
    };
    args
}

/// The output about a description, in each of the forms.
fn shown(file: &Path, options: &str) -> (String, String, String, String) {
    let args = arguments(&format!("{} {options}", file.display()));
    let schedule = load_schedule(file, &system::boards_dir(&root())).unwrap();
    let plan = plan::plan(&schedule.model, &args).unwrap();
    let timeline = simulate(&schedule.model, &plan.options).unwrap();
    let (from, to) = window(&args, &schedule.model, &timeline).unwrap();
    let shown = Shown {
        model: &schedule.model,
        timeline: &timeline,
        cores: plan.cores,
        rows: rows(&schedule.model, &timeline),
        from,
        to,
        title: plan.title,
    };
    (
        terminal::write(&shown),
        json::write(&shown).unwrap(),
        picture::draw(&shown).source(),
        page::write(&shown),
    )
}

#[test]
fn the_example_s_interfaces_keep_every_deadline() {
    let file = root().join("systems/schedule.toml");
    let (text, json, svg, page) = shown(&file, "");
    assert!(text.ends_with("No deadline is missed."), "{text}");
    for name in ["axes.current", "fieldbus.cycle", "linux.camera", "core 2"] {
        assert!(
            text.contains(name) && svg.contains(name) && page.contains(name),
            "{name}"
        );
    }
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["cores"].as_array().unwrap().len(), 4);
    assert!(
        value["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|task| task["missed"] == 0)
    );
}

#[test]
fn one_component_runs_with_its_worst_supply() {
    let file = root().join("systems/schedule.toml");
    for component in ["axes", "fieldbus", "display"] {
        let (text, ..) = shown(&file, &format!("--component {component}"));
        assert!(text.ends_with("No deadline is missed."), "{text}");
        assert!(text.contains("worst supply"));
    }
}

/// A published tool's answer for these tasks, which misses at 400 and 600.
const LATE: &str = "
board = \"qemu-virt\"
[schedule]
tick = \"1us\"
[[schedule.pool]]
name = \"one\"
cores = [0]
[[schedule.group]]
name = \"late\"
pool = \"one\"
period = \"120us\"
budget = \"32us\"
deadline = \"92us\"
[[schedule.group.task]]
name = \"<short>\"
period = \"200us\"
execution = \"28us\"
[[schedule.group.task]]
name = \"long\"
period = \"300us\"
execution = \"36us\"
";

#[test]
fn what_is_missed_is_shown_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("late.toml");
    fs::write(&file, LATE).unwrap();
    let (text, json, svg, page) = shown(&file, "--component late --until 1201us");
    assert!(
        text.contains("job 1 of late.<short>, due at 400 us"),
        "{text}"
    );
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let jobs = value["jobs"].as_array().unwrap().iter();
    let missed = jobs.filter(|job| job["missed"] == true);
    let due: Vec<_> = missed
        .map(|job| job["deadline"].as_u64().unwrap())
        .collect();
    assert!(due.contains(&400_000) && due.contains(&600_000), "{due:?}");
    assert!(svg.contains("missed: due at 400 us"));
    assert!(page.contains("late.&lt;short&gt;") && !page.contains("<short>"));
    // All times have one form: their largest unit, with a space in front of it.
    assert!(page.contains("<td>1.201 ms</td>"), "{page}");
    for shown in [&text, &svg, &page] {
        let glued = |unit: &&str| {
            let mut ends = shown.match_indices(*unit).map(|(at, _)| &shown[..at]);
            ends.any(|before| before.ends_with(|c: char| c.is_ascii_digit()))
        };
        let glued = ["us", "ms", "ns"].into_iter().find(glued);
        assert_eq!(glued, None, "{shown}");
    }
    // On a CPU for itself the component misses no deadline.
    let (text, ..) = shown(&file, "--component late --supply full --until 1201us");
    assert!(text.ends_with("No deadline is missed."), "{text}");
}
