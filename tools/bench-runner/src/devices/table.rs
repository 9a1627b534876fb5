//! The table, for people and for programs.

use std::collections::BTreeMap;

use super::cases::{Goal, ROWS, Row, System};
use super::found::{Counts, Found, Kind};

/// What the boots gave.
pub type Results = BTreeMap<System, Found>;

/// A line: what, what is to be reached, and a value of each system.
struct Line {
    what: String,
    goal: String,
    values: Vec<Option<f64>>,
    /// The places after the point.
    places: usize,
}

/// What the reader has to know of the rows.
const LEGEND: &str = "\
Instructions are of all code on the board, for one request or frame. Rates are native's instructions over these, as of a disk that takes no time; on 2 cores with many requests under way the busier core's count. Frames a second are those of clips, at an instruction a nanosecond. * : short of what is to be reached.
";

/// The table for people.
pub fn table(results: &Results) -> String {
    let systems: Vec<_> = results.keys().copied().collect();
    let titles = systems.iter().map(|one| one.title().to_owned());
    let mut text = line("", "to reach", titles);
    for row in measured(results) {
        text += &format!("{}\n", row.title);
        for one in lines(results, &systems, row) {
            let values = one.values.iter().zip(&systems).map(|(value, system)| {
                let text = shown(*value, one.places);
                if is_short(row, *system, &one, *value) {
                    text + "*"
                } else {
                    text
                }
            });
            text += &line(&format!("  {}", one.what), &one.goal, values);
        }
    }
    text + LEGEND
}

/// The rows that any system has.
fn measured(results: &Results) -> impl Iterator<Item = &'static Row> {
    let there = |row: &&Row| results.values().any(|found| found.contains_key(row.id));
    ROWS.iter().filter(there)
}

fn line(what: &str, goal: &str, values: impl Iterator<Item = String>) -> String {
    let values: String = values.map(|value| format!(" {value:>9}")).collect();
    let line = format!("{what:<44} {goal:<11}{values}");
    line.trim_end().to_owned() + "\n"
}

/// The table for programs: a line each, with tabs between.
pub fn separated(results: &Results) -> String {
    let systems: Vec<_> = results.keys().copied().collect();
    let mut head = vec!["row".to_owned(), "what".to_owned(), "to reach".to_owned()];
    head.extend(systems.iter().map(|one| one.id().to_owned()));
    let mut all = vec![head];
    for row in measured(results) {
        for one in lines(results, &systems, row) {
            let mut cells = vec![row.id.to_owned(), one.what, one.goal];
            cells.extend(one.values.iter().map(|value| shown(*value, one.places)));
            all.push(cells);
        }
    }
    all.iter().map(|line| line.join("\t") + "\n").collect()
}

/// The name of the rate's line.
const RATE: &str = "requests a second / native";
/// The name of the line of a screen's frames.
const FRAMES: &str = "frames a second";
/// The name of the exits' line.
const EXITS: &str = "exits by the client's accesses to its device";

fn lines(results: &Results, systems: &[System], row: &Row) -> Vec<Line> {
    let of = |value: &dyn Fn(System, &Counts) -> Option<f64>| {
        let each = systems.iter().map(|system| {
            let counts = results.get(system)?.get(row.id)?;
            value(*system, counts)
        });
        each.collect::<Vec<_>>()
    };
    let ours = |system: System| system.side() == hanok_bench::Side::Hanok;
    let Goal {
        shared,
        apart,
        exits,
    } = row.goal;
    let both = [shared, apart].map(|goal| shown(goal, 2)).join(", ");
    let mut lines = vec![
        Line {
            what: RATE.to_owned(),
            goal: both,
            values: of(&|_, counts| rate(results, row, counts)),
            // There is little between a clip in a VM and one without.
            places: if row.work.is_screen() { 4 } else { 2 },
        },
        Line {
            what: FRAMES.to_owned(),
            goal: String::new(),
            values: of(&|_, counts| Some(a_second(row, counts))),
            places: 1,
        },
        Line {
            what: "instructions".to_owned(),
            goal: String::new(),
            values: of(&|_, counts| Some(counts.instructions())),
            places: 0,
        },
        Line {
            what: "  of them the hypervisor's".to_owned(),
            goal: String::new(),
            values: of(&|system, counts| ours(system).then(|| counts.hypervisor())),
            places: 0,
        },
    ];
    lines.retain(|line| row.work.is_screen() || line.what != FRAMES);
    lines.extend(Kind::EXITS.map(|(kind, words)| Line {
        what: format!("exits {words}"),
        goal: match kind {
            Kind::Client => shown(exits, 1),
            _ => String::new(),
        },
        values: of(&|system, counts| ours(system).then(|| counts.exits(kind))),
        places: 2,
    }));
    lines
}

/// How many requests there are for each native one in the same time.
fn rate(results: &Results, row: &Row, counts: &Counts) -> Option<f64> {
    let native = results.get(&System::Native)?.get(row.id)?;
    let takes = counts.takes(row);
    (takes > 0.0).then(|| native.takes(row) / takes)
}

/// How many there are in a second in which the CPU executes 10^9 instructions.
fn a_second(row: &Row, counts: &Counts) -> f64 {
    1e9 / counts.takes(row)
}

/// Whether a value of ours is not what is to be reached.
fn is_short(row: &Row, system: System, line: &Line, value: Option<f64>) -> bool {
    let goal = match (line.what.as_str(), system) {
        (RATE, System::Hanok) => row.goal.shared,
        (RATE, System::HanokApart) => row.goal.apart,
        (EXITS, System::Hanok | System::HanokApart) => row.goal.exits,
        _ => None,
    };
    let (Some(goal), Some(value)) = (goal, value) else {
        return false;
    };
    // To two places, as what is to be reached is said: what differs in the next one is no fault.
    let value = (value * 100.0).round() / 100.0;
    match line.what.as_str() {
        RATE => value < goal,
        _ => value > goal,
    }
}

fn shown(value: Option<f64>, places: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.places$}"))
}

#[cfg(test)]
mod tests {
    use super::super::found::Core;
    use super::*;

    fn counts(cores: &[(f64, f64)], exits: f64) -> Counts {
        let core = |(hypervisor, others): &(f64, f64)| Core {
            hypervisor: *hypervisor,
            others: *others,
            exits: BTreeMap::from([(Kind::Client, exits)]),
        };
        Counts {
            cores: cores.iter().map(core).collect(),
        }
    }

    fn results() -> Results {
        let found =
            |one: Counts, many: Counts| BTreeMap::from([("read-4k-1", one), ("read-4k-32", many)]);
        BTreeMap::from([
            (
                System::Native,
                found(counts(&[(0.0, 900.0)], 0.0), counts(&[(0.0, 600.0)], 0.0)),
            ),
            (
                System::Hanok,
                found(
                    counts(&[(500.0, 1000.0)], 1.004),
                    counts(&[(200.0, 900.0)], 0.2),
                ),
            ),
            (
                System::HanokApart,
                found(
                    counts(&[(200.0, 300.0), (300.0, 700.0)], 0.5),
                    counts(&[(100.0, 200.0), (100.0, 600.0)], 0.0),
                ),
            ),
        ])
    }

    #[test]
    fn a_rate_is_native_s_instructions_over_these() {
        let text = separated(&results());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "row\twhat\tto reach\tnative\thanok\thanok-2-cores"
        );
        assert_eq!(
            lines[1],
            "read-4k-1\trequests a second / native\t0.60, 0.85\t1.00\t0.60\t0.60"
        );
        assert_eq!(lines[2], "read-4k-1\tinstructions\t\t900\t1500\t1500");
        let many = lines.iter().find(|line| line.starts_with("read-4k-32\t"));
        assert!(many.unwrap().ends_with("\t1.00\t0.55\t0.86"), "{many:?}");
    }

    #[test]
    fn clips_have_frames_a_second_and_nothing_else_has() {
        let of = |others: f64| Found::from([("clip-320x256", counts(&[(0.0, others)], 0.0))]);
        let mut all = results();
        all.entry(System::Native).or_default().extend(of(5e5));
        all.entry(System::Hanok).or_default().extend(of(5e5 + 3e3));
        let text = separated(&all);
        let frames: Vec<_> = text.lines().filter(|line| line.contains(FRAMES)).collect();
        assert_eq!(
            frames,
            ["clip-320x256\tframes a second\t\t2000.0\t1988.1\t-"]
        );
        let rate = table(&all);
        let rate = rate.lines().rfind(|line| line.contains(RATE));
        assert!(
            rate.unwrap().ends_with("1.0000   0.9940*         -"),
            "{rate:?}"
        );
    }

    #[test]
    fn what_is_short_is_marked() {
        let text = table(&results());
        let rates: Vec<_> = text.lines().filter(|line| line.contains(RATE)).collect();
        assert!(rates[0].ends_with("0.60     0.60*"), "{}", rates[0]);
        assert!(rates[1].ends_with("0.55*      0.86"), "{}", rates[1]);
        let exits: Vec<_> = text.lines().filter(|line| line.contains(EXITS)).collect();
        assert!(!exits[0].contains('*'), "{}", exits[0]);
        assert!(exits[1].contains("0.20*"), "{}", exits[1]);
        // What was not measured is not shown.
        assert_eq!(rates.len(), 2);
    }
}
