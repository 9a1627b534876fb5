//! The terminal's tables against a kept picture.

mod common;

use hanok_bench::{Comparison, Entry, Style, comparison_table, results_table};

const PLAIN: Style = Style {
    width: None,
    colour: false,
};

/// Compares with the kept file, and writes what it should be where a person asks for it.
fn golden(name: &str, found: &str) {
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("HANOK_BENCH_GOLDEN").is_some() {
        std::fs::write(&kept, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&kept).unwrap();
    assert_eq!(found, wanted, "HANOK_BENCH_GOLDEN=1 keeps the new one");
}

#[test]
fn the_table_is_as_kept() {
    golden("table.txt", &results_table(&common::results(), PLAIN));
}

/// A value that is judged against native has its percent beside it, and what somebody published in
/// another unit than ours says so, in its cell and in a line of its own.
#[test]
fn values_have_their_percent_and_other_units_their_mark() {
    let text = results_table(&common::results(), PLAIN);
    let of = |title: &str| text.lines().find(|line| line.starts_with(title)).unwrap();
    assert!(
        of("Pipe round trip, us").contains("7.698  +0.02 %"),
        "{text}"
    );
    assert!(
        of("Timer interrupt").contains("791  +179, +29.2 %"),
        "{text}"
    );
    assert!(of("Nanosleep").contains("Xen +98 %"), "{text}");
    assert!(
        of("Switch between VMs, instructions").contains("124,451 cycles*"),
        "{text}"
    );
    let line = "* In another unit than ours: cycles are not instructions.";
    // Of the two machines, one has that figure.
    assert_eq!(text.matches(line).count(), 1, "{text}");
}

#[test]
fn the_comparison_is_as_kept() {
    let (old, new) = (
        common::results(),
        common::results_of("beef", "2026-11-23", 0.03),
    );
    let (old, new) = (Entry::of(&old, &old.runs[0]), Entry::of(&new, &new.runs[0]));
    golden(
        "compare.txt",
        &comparison_table(&Comparison::of(&old, &new, 0.01), PLAIN),
    );
}

#[test]
fn a_narrow_terminal_is_kept_to() {
    let style = Style {
        width: Some(120),
        colour: false,
    };
    let text = results_table(&common::results(), style);
    let rows = text
        .lines()
        .filter(|line| line.starts_with(' ') || line.contains("reached"));
    assert!(rows.clone().count() > 60);
    for row in rows {
        assert!(row.chars().count() <= 120, "{row}");
    }
}

#[test]
fn colour_is_used_only_where_it_may() {
    let coloured = Style {
        width: None,
        colour: true,
    };
    let plain = results_table(&common::results(), PLAIN);
    assert!(!plain.contains('\u{1b}'), "a console's escape came through");
    let coloured = results_table(&common::results(), coloured);
    assert!(coloured.contains('\u{1b}'));
}
