use std::path::Path;

use super::*;
use crate::protocol::{Heard, parse};

const DESCRIPTION: &str = r#"
[schedule]
tick = "1us"

[[schedule.pool]]
name = "real-time"
cores = [0]

[[schedule.group]]
name = "control"
core = 0
period = "10ms"
budget = "4ms"

[[schedule.group.task]]
name = "loop"
period = "20ms"
execution = "3ms"
"#;

/// Two servers of a board whose counter has 62.5 MHz; times in microseconds.
fn report(kind: &str, interfaces: &[(&str, u64, u64)]) -> Report {
    let mut report = Report::default();
    let mut lines = vec![
        format!("board 62500000 5 1 {} 1", interfaces.len()),
        "core 0 deadline share 5 0 0 0 0 1".to_owned(),
    ];
    for (vm, (name, period, budget)) in interfaces.iter().enumerate() {
        let [period, budget] = [period, budget].map(|micros| micros * 125 / 2);
        lines.push(format!("vm {vm} {name} 1"));
        lines.push(format!(
            "vcpu {vm} 0 0 - runs {kind} {period} {budget} {period} 0 0 0 0 0 0 0 0 1"
        ));
    }
    for line in lines {
        if let Some(Heard::Item(_, item)) = parse(&line) {
            report.add(item);
        }
    }
    report
}

fn change(vm: u32, period: u64, budget: u64) -> Change {
    let [period, budget] = [period, budget].map(|micros| micros * 1000);
    let to = Promised::Interface {
        period,
        budget,
        deadline: period,
    };
    let id = VcpuId { vm, vcpu: 0 };
    Change { id, to }
}

fn schedule() -> Schedule {
    hanok_system::parse_schedule(Path::new("x.toml"), DESCRIPTION, Path::new(".")).unwrap()
}

fn asked(description: Option<&Schedule>, report: &Report, change: Change) -> Preview {
    preview(description, report, &View::of(None, report), change).unwrap()
}

#[test]
fn a_task_s_response_is_shown_before_and_after() {
    let report = report("periodic", &[("control", 10_000, 4_000)]);
    let less = asked(Some(&schedule()), &report, change(0, 10_000, 3_000));
    assert_eq!(less.answer, Answer::Kept, "{less:?}");
    let [row] = less.tasks.as_slice() else {
        panic!("{less:?}");
    };
    assert_eq!((row.name.as_str(), row.of.as_str()), ("loop", "control"));
    let [before, after] = [row.before, row.after].map(|side| side.unwrap().response);
    assert!(before < after, "{before} {after}");
    assert_eq!(less.from, "4ms in 10ms");
}

#[test]
fn a_no_has_its_reason_and_what_would_help() {
    let report = report("periodic", &[("control", 10_000, 4_000)]);
    let none = asked(Some(&schedule()), &report, change(0, 10_000, 1_000));
    assert_eq!(none.answer, Answer::NotShown);
    assert!(!none.no_worse && none.tasks[0].after.is_none());
    assert!(
        none.reasons[0].contains("task loop of control misses"),
        "{none:?}"
    );
    assert!(!none.help.is_empty());
    let after = none.tasks[0].before;
    assert!(after.is_some(), "now all is well");
}

#[test]
fn without_a_description_budgets_alone_are_analysed() {
    let report = report("periodic", &[("a", 10_000, 5_000), ("a", 10_000, 4_000)]);
    let yes = asked(None, &report, change(1, 10_000, 5_000));
    assert_eq!(yes.answer, Answer::Kept, "{yes:?}");
    assert!(yes.notes[0].contains("No description"));
    let no = asked(None, &report, change(1, 10_000, 5_001));
    assert_eq!(no.answer, Answer::NotShown);
    assert!(!no.reasons.is_empty(), "{no:?}");
    assert!((no.shares[0].after - 1.0001).abs() < 1e-6, "{no:?}");
}

#[test]
fn weights_divide_what_is_free() {
    let report = report("credit", &[("a", 4096, 0), ("b", 4096, 0)]);
    let weight = report.vcpus.values().next().unwrap().promise.period;
    let to = Promised::Share { weight: 3, cap: 0 };
    let id = VcpuId { vm: 0, vcpu: 0 };
    let mut report = report;
    for vcpu in report.vcpus.values_mut() {
        assert_eq!(vcpu.promise.period, weight);
        vcpu.promise.period = 1;
    }
    let preview = asked(None, &report, Change { id, to });
    assert_eq!(preview.answer, Answer::NotAnalysed);
    let rows: Vec<_> = preview
        .shares
        .iter()
        .map(|row| (row.before, row.after))
        .collect();
    assert_eq!(rows, [(0.0, 0.0), (0.5, 0.75), (0.5, 0.25)]);
}

#[test]
fn a_preview_is_of_what_there_is_now() {
    let old = report("periodic", &[("a", 10_000, 5_000), ("b", 10_000, 4_000)]);
    let preview = asked(None, &old, change(1, 10_000, 5_000));
    assert!(preview.is_current(&View::of(None, &old)));
    let new = report("periodic", &[("a", 10_000, 5_001), ("b", 10_000, 4_000)]);
    assert!(!preview.is_current(&View::of(None, &new)));
}

#[test]
fn a_vm_that_is_promised_nothing_is_not_analysed() {
    let report = report("periodic", &[("stranger", 10_000, 4_000)]);
    let preview = asked(Some(&schedule()), &report, change(0, 10_000, 1_000));
    assert_eq!(preview.answer, Answer::NotAnalysed);
    assert!(
        preview
            .notes
            .iter()
            .any(|note| note.contains("promises this VM nothing"))
    );
}
