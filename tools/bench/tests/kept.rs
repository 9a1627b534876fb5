//! What is kept on disk: results and the history over commits.

mod common;

use std::fs;

use hanok_bench::{
    Comparison, Entry, Figure, History, HistoryError, LoadError, Measurement, Results, SCHEMA, Side,
};
use proptest::prelude::*;

fn finite() -> impl Strategy<Value = f64> {
    any::<f64>()
        .prop_map(f64::abs)
        .prop_filter("a value", |value| value.is_finite())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// To the last bit, whatever the texts are.
    #[test]
    fn results_come_back_as_they_were(
        texts in prop::collection::vec(any::<String>(), 6),
        values in prop::collection::vec(finite(), 1..6),
        modified in any::<bool>(),
    ) {
        let mut results = common::results();
        results.commit = texts[0].clone();
        results.date = texts[1].clone();
        results.modified = modified;
        let run = &mut results.runs[0];
        run.machine.cpu = texts[2].clone();
        run.machine.settings = vec![texts[3].clone()];
        run.measurements[0].values = values;
        run.measurements[0].note = Some(texts[4].clone());
        run.profiles[0].functions[0].name = texts[5].clone();
        let json = results.to_json().unwrap();
        prop_assert_eq!(Results::from_json(&json).unwrap(), results);
    }

    /// Damage is an error, not a panic.
    #[test]
    fn damaged_results_are_refused_or_read(at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut bytes = common::results().to_json().unwrap().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = with;
        let _ = Results::from_json(&String::from_utf8_lossy(&bytes));
        bytes.truncate(at);
        prop_assert!(Results::from_json(&String::from_utf8_lossy(&bytes)).is_err());
    }
}

#[test]
fn names_in_the_json_stay() {
    let json = common::results().to_json().unwrap();
    for wanted in [
        "\"schema\": 1,",
        "\"commit\": \"3f2a9c41d07be68851d1a2c0ffee5eed00112233\",",
        "\"gic\": \"gicv3\",",
        "\"memory_mib\": 256,",
        "\"figure\": \"hypercall\",",
        "\"side\": \"hanok\",",
        "\"unit\": \"instructions\",",
        "\"unit\": \"us\",",
        "\"unit\": \"MB/s\",",
        "\"unit\": \"ns\",",
        "\"unit\": \"bytes\",",
        "\"side\": \"kvm\",",
        "\"why\": \"no line",
        "\"rounds\": 1000,",
    ] {
        assert!(json.contains(wanted), "{wanted}");
    }
}

#[test]
fn another_schema_is_refused_before_all_else() {
    let newer = format!("{{\"schema\": {}, \"commits\": []}}", SCHEMA + 1);
    let found = Results::from_json(&newer);
    assert!(matches!(found, Err(LoadError::Schema(schema)) if schema == u64::from(SCHEMA) + 1));
    let text = found.unwrap_err().to_string();
    assert!(text.contains("reads schema 1"), "{text}");
    assert!(matches!(Results::from_json("{}"), Err(LoadError::Form(_))));
}

#[test]
fn values_that_cannot_be_are_neither_written_nor_read() {
    let mut results = common::results();
    results.runs[0].measurements[0].values = vec![f64::NAN];
    assert!(matches!(results.to_json(), Err(LoadError::Measurement(_))));
    let json = common::results().to_json().unwrap();
    let wrong = json.replacen("\"unit\": \"instructions\"", "\"unit\": \"ns\"", 1);
    assert!(matches!(
        Results::from_json(&wrong),
        Err(LoadError::Measurement(_))
    ));
}

/// A figure that the catalogue lost does not make old results unreadable.
#[test]
fn a_figure_of_the_past_is_borne() {
    let mut results = common::results();
    let run = &mut results.runs[0];
    let mut gone: Measurement = run.measurements[0].clone();
    gone.figure = "retired".into();
    run.measurements.push(gone);
    let read = Results::from_json(&results.to_json().unwrap()).unwrap();
    assert_eq!(read, results);
    let entry = Entry::of(&read, &read.runs[0]);
    assert!(entry.medians.contains_key("retired"));
    assert!(entry.run().measured("retired", Side::Hanok).is_none());
}

#[test]
fn history_is_kept_by_commit_and_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    assert_eq!(History::load(&path).unwrap(), History::default());
    let newer = common::results_of("bb22bb22bb22bb22", "2026-11-20T00:00:00Z", 0.0);
    let older = common::results_of("cc33cc33cc33cc33", "2026-11-19T00:00:00Z", 0.02);
    let files = History::append(&path, &newer).unwrap();
    History::append(&path, &older).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap()).collect();
    assert_eq!(
        names,
        [
            "bb22bb22bb22-cortex-a57-gicv3.json",
            "bb22bb22bb22-cortex-a57-gicv2.json"
        ]
    );
    // Again replaces, never doubles.
    History::append(&path, &newer).unwrap();
    fs::write(path.join("README.md"), "not an entry").unwrap();
    let history = History::load(&path).unwrap();
    let commits: Vec<_> = history
        .on("cortex-a57-gicv3")
        .map(Entry::short_commit)
        .collect();
    assert_eq!(commits, ["cc33cc33cc33", "bb22bb22bb22"]);
    let mut in_memory = History::default();
    in_memory.add(&newer);
    in_memory.add(&older);
    in_memory.add(&newer);
    assert_eq!(history, in_memory);
    for file in files {
        assert!(
            fs::metadata(file).unwrap().len() < 10_000,
            "an entry is small"
        );
    }
}

/// Some figures measured again change those alone; on another machine all is new.
#[test]
fn a_partial_run_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let whole = common::results();
    History::append(folder.path(), &whole).unwrap();
    let mut part = whole.clone();
    part.runs.truncate(1);
    part.runs[0].measurements.clear();
    part.runs[0].add("hypercall", Side::Hanok, 99.0).unwrap();
    History::append(folder.path(), &part).unwrap();
    let history = History::load(folder.path()).unwrap();
    let kept = history.find(&whole.commit, "cortex-a57-gicv3").unwrap();
    assert_eq!(kept.medians["hypercall"][&Side::Hanok], 99.0);
    assert_eq!(kept.medians["hypercall"][&Side::Xen], 423.0);
    assert_eq!(kept.medians["gicd-read"][&Side::Hanok], 262.5);
    part.runs[0].machine.qemu = "11.0.0".into();
    History::append(folder.path(), &part).unwrap();
    let history = History::load(folder.path()).unwrap();
    let kept = history.find(&whole.commit, "cortex-a57-gicv3").unwrap();
    assert_eq!(kept.medians.len(), 1);
    // A changed tree is not its commit.
    part.modified = true;
    let files = History::append(folder.path(), &part).unwrap();
    let name = files[0].file_name().unwrap();
    assert_eq!(name, "3f2a9c41d07b-modified-cortex-a57-gicv3.json");
}

#[test]
fn history_finds_by_the_beginning_of_a_commit() {
    let mut history = History::default();
    history.add(&common::results_of("abc111", "1", 0.0));
    history.add(&common::results_of("abc222", "2", 0.0));
    let machine = "cortex-a57-gicv3";
    assert_eq!(history.find("abc2", machine).unwrap().commit, "abc222");
    let mut modified = common::results_of("abc222", "2", 0.0);
    modified.modified = true;
    history.add(&modified);
    assert!(!history.find("abc2", machine).unwrap().modified);
    assert!(matches!(
        history.find("abc", machine),
        Err(HistoryError::Ambiguous(_))
    ));
    assert!(matches!(
        history.find("", machine),
        Err(HistoryError::Unknown { .. })
    ));
    let text = history.find("fff", machine).unwrap_err().to_string();
    assert_eq!(
        text,
        "the history has no fff on cortex-a57-gicv3; it has abc111, abc222, abc222+"
    );
    assert!(history.find("abc1", "cortex-a72-gicv3").is_err());
}

#[test]
fn a_damaged_entry_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("x.json"), "{\"schema\": 1").unwrap();
    let text = History::load(folder.path()).unwrap_err().to_string();
    assert!(text.contains("x.json"), "{text}");
}

fn entry(values: &[(&str, Side, f64)]) -> Entry {
    let mut results = common::results();
    results.runs[0].measurements.clear();
    for (figure, side, value) in values {
        results.runs[0].add(figure, *side, *value).unwrap();
    }
    Entry::of(&results, &results.runs[0])
}

#[test]
fn what_got_worse_is_found() {
    use Side::{Hanok, Native};
    let old = entry(&[
        ("hypercall", Hanok, 100.0),
        ("gicd-read", Hanok, 200.0),
        ("timer-interrupt", Native, 1000.0),
        ("timer-interrupt", Hanok, 1100.0),
        ("bw-pipe", Native, 1000.0),
        ("bw-pipe", Hanok, 1000.0),
        ("pipe", Native, 10.0),
        ("pipe", Hanok, 10.0),
        ("switch", Hanok, 500.0),
    ]);
    let mut new = entry(&[
        ("hypercall", Hanok, 101.0),
        ("gicd-read", Hanok, 150.0),
        ("timer-interrupt", Native, 1000.0),
        ("timer-interrupt", Hanok, 1110.0),
        ("bw-pipe", Native, 1000.0),
        ("bw-pipe", Hanok, 500.0),
        // Native moved as much: no change of ours.
        ("pipe", Native, 20.0),
        ("pipe", Hanok, 20.0),
        ("ipi", Hanok, 250.0),
    ]);
    new.machine.qemu = "10.1.0".into();
    let found = Comparison::of(&old, &new, 0.01);
    let worse: Vec<_> = found.worse().map(|change| change.figure.id).collect();
    assert_eq!(worse, ["timer-interrupt", "bw-pipe"]);
    let by = |id: &str| {
        let of = |change: &&hanok_bench::Change| change.figure == Figure::find(id).unwrap();
        found.changes.iter().find(of).unwrap().worse_by()
    };
    assert_eq!(by("hypercall"), Some(0.01));
    assert_eq!(by("gicd-read"), Some(-0.25));
    assert_eq!(by("timer-interrupt"), Some(0.1));
    assert_eq!(by("bw-pipe"), Some(1.0));
    assert_eq!(by("pipe"), Some(0.0));
    assert_eq!((by("ipi"), by("switch")), (None, None));
    let gone = found.changes.iter().filter(|change| change.is_gone());
    let gone: Vec<_> = gone.map(|change| change.figure.id).collect();
    assert_eq!(gone, ["switch"]);
    assert_eq!(found.differences, ["QEMU was \"10.0.2\", is \"10.1.0\""]);
}

/// A machine without virtualization extensions has other limits, and with them other terms.
#[test]
fn commits_are_compared_in_the_terms_of_their_machine() {
    let of = |ours: f64| {
        let mut entry = entry(&[
            ("kernel-to-shell", Side::Native, 100.0),
            ("kernel-to-shell", Side::Hanok, ours),
            ("sem", Side::Native, 2.0),
            ("sem", Side::Hanok, 3.0),
        ]);
        entry.machine.extensions = false;
        entry
    };
    let mut old = of(150.0);
    // What an older commit did not measure is new.
    old.medians.remove("sem");
    let found = Comparison::of(&old, &of(180.0), 0.01);
    let [kernel, sem] = &found.changes[..] else {
        panic!("{:?}", found.changes)
    };
    assert_eq!((kernel.before, kernel.now), (Some(1.5), Some(1.8)));
    assert!(kernel.is_worse(0.01));
    assert_eq!((sem.before, sem.now), (None, Some(1.5)));
    assert_eq!(found.worse().count(), 1);
}

#[test]
fn worse_than_nothing_has_no_bound() {
    let timer = |hanok| {
        entry(&[
            ("timer-interrupt", Side::Native, 1000.0),
            ("timer-interrupt", Side::Hanok, hanok),
        ])
    };
    let found = Comparison::of(&timer(990.0), &timer(1001.0), 0.01);
    assert_eq!(found.changes[0].worse_by(), Some(f64::INFINITY));
    assert_eq!(found.worse().count(), 1);
    let better = Comparison::of(&timer(1000.0), &timer(990.0), 0.01);
    assert_eq!(better.changes[0].worse_by(), Some(f64::NEG_INFINITY));
    assert_eq!(better.worse().count(), 0);
}
