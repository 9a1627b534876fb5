//! The table, for people and for programs.

use std::collections::BTreeMap;

use super::cases::{Case, Load, SECONDS, SETS, Scheduler};
use super::found::{Found, Tasks, Wakes};

/// What the boots gave, by the cases' names.
pub type Results = BTreeMap<String, Found>;

/// What of a boot a row shows.
type Value = fn(Found) -> Option<f64>;

/// A row: what, in which unit, and a value of each scheduler.
struct Row {
    what: String,
    unit: String,
    values: Vec<Option<f64>>,
}

/// What the reader has to know of the columns.
const LEGEND: &str = "\
The VM that is measured shares one core with one that is always busy. Hanok enforces a budget for each. Xen's domains
  have equal weights and no cap: nothing but a toolstack in a first domain could change that.
*: with no rate limit, the shortest slice and timers of no slop, as Xen's command line allows.
Late is by how much the latest job that ended was; a wake is from the moment for which the timer was set to the
  guest's first instruction after its WFI.
";
/// The same of RTDS.
const RTDS: &str = "+: with the budget that a domain has without a toolstack: 4 ms of each 10 ms, and what others leave.\n";

/// The table for people.
pub fn table(results: &Results, schedulers: &[&'static Scheduler]) -> String {
    let mut text = line("", "", schedulers.iter().map(|one| one.title.to_owned()));
    for row in rows(results, schedulers) {
        text += &line(
            &row.what,
            &row.unit,
            row.values.iter().map(|value| shown(*value)),
        );
    }
    let has_rtds = schedulers.iter().any(|one| one.title.ends_with('+'));
    text + LEGEND + if has_rtds { RTDS } else { "" }
}

fn line(what: &str, unit: &str, values: impl Iterator<Item = String>) -> String {
    let values: String = values.map(|value| format!(" {value:>10}")).collect();
    format!("{what:<32} {unit:<13}{values}\n")
}

/// The table for programs: a line each, with tabs between.
pub fn separated(results: &Results, schedulers: &[&'static Scheduler]) -> String {
    let titles = schedulers.iter().map(|one| one.id.to_owned());
    let lines = rows(results, schedulers).into_iter().map(|row| {
        let values = row.values.iter().map(|value| shown(*value));
        [row.what, row.unit].into_iter().chain(values).collect()
    });
    let head = ["what".to_owned(), "unit".to_owned()];
    let head: Vec<_> = head.into_iter().chain(titles).collect();
    let all = [head].into_iter().chain(lines);
    all.map(|line| line.join("\t") + "\n").collect()
}

fn rows(results: &Results, schedulers: &[&'static Scheduler]) -> Vec<Row> {
    let row = |what: String, unit: String, load, of: Value| {
        let value = |scheduler: &&'static Scheduler| {
            let case = Case { scheduler, load };
            results.get(&case.name()).copied().and_then(of)
        };
        let values = schedulers.iter().map(value).collect();
        Row { what, unit, values }
    };
    let mut rows = Vec::new();
    for set in &SETS {
        let load = Load::Tasks(set);
        let jobs = most_jobs(results, schedulers, load);
        let what = format!("{}, {} % in {SECONDS} s: missed", set.name, set.needs);
        rows.push(row(what, format!("of {jobs}"), load, misses));
        rows.push(row("  late".to_owned(), "us".to_owned(), load, late));
    }
    let wakes: [(_, Value); 3] = [
        ("wake: least", |found| Some(woke(found)?.least)),
        ("  mean", |found| Some(woke(found)?.mean)),
        ("  most", |found| Some(woke(found)?.most)),
    ];
    let unit = "instructions".to_owned();
    rows.extend(wakes.map(|(what, of)| row(what.to_owned(), unit.clone(), Load::Wakes, of)));
    rows
}

/// The jobs that end where none is late: as many as any scheduler let end.
fn most_jobs(results: &Results, schedulers: &[&'static Scheduler], load: Load) -> u64 {
    let cases = schedulers.iter().map(|scheduler| Case { scheduler, load });
    let found = cases.filter_map(|case| results.get(&case.name()).copied());
    found
        .filter_map(ran)
        .map(|tasks| tasks.jobs)
        .max()
        .unwrap_or_default()
}

const fn ran(found: Found) -> Option<Tasks> {
    match found {
        Found::Tasks(tasks) => Some(tasks),
        Found::Wakes(_) => None,
    }
}

const fn woke(found: Found) -> Option<Wakes> {
    match found {
        Found::Wakes(wakes) => Some(wakes),
        Found::Tasks(_) => None,
    }
}

fn misses(found: Found) -> Option<f64> {
    ran(found).map(|tasks| tasks.misses as f64)
}

fn late(found: Found) -> Option<f64> {
    ran(found)
        .map(|tasks| tasks.late)
        .filter(|late| *late > 0.0)
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.0}"))
}

#[cfg(test)]
mod tests {
    use super::super::cases::SCHEDULERS;
    use super::*;

    #[test]
    fn a_row_has_a_value_for_each_scheduler_that_was_measured() {
        let of = |misses, late| {
            Found::Tasks(Tasks {
                jobs: 900 - misses,
                misses,
                late,
            })
        };
        let wakes = Found::Wakes(Wakes {
            least: 1.0,
            mean: 2.4,
            most: 3.0,
        });
        let results = [
            ("hanok-rm5", of(0, -5.0)),
            ("credit2-rm5", of(7, 12.4)),
            ("hanok-wakes", wakes),
        ];
        let results = results.map(|(name, found)| (name.to_owned(), found)).into();
        let schedulers: Vec<_> = SCHEDULERS.iter().take(2).collect();
        let text = separated(&results, &schedulers);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "what\tunit\thanok\tcredit2");
        assert_eq!(lines[1], "rm5, 30 % in 2 s: missed\tof 900\t0\t7");
        assert_eq!(lines[2], "  late\tus\t-\t12");
        assert_eq!(lines.last(), Some(&"  most\tinstructions\t3\t-"));
        assert_eq!(lines.len(), 1 + 2 * SETS.len() + 3);
        assert!(table(&results, &schedulers).ends_with(LEGEND));
    }
}
