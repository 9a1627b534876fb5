//! Makes the table's rows from what the boots gave.

use super::cases::{BESIDE, Case, Who};
use super::systems::{LARGE_MIB, MEMORY_MIB, Neighbours};
use std::collections::BTreeMap;

/// What each boot's console gave, by the figure's name.
pub type Found = BTreeMap<Case, BTreeMap<String, f64>>;

/// A row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The row's name.
    pub what: &'static str,
    /// The row's unit.
    pub unit: &'static str,
    /// The value before the executive kept masks and trees instead of going through all its vCPUs.
    pub before: Option<f64>,
    /// The value now; `None` if it was not measured.
    pub now: Option<f64>,
    /// The largest value that is wanted; where more is better, the smallest.
    pub wanted: f64,
    /// Whether more is better.
    pub high: bool,
}

impl Row {
    /// Whether what is wanted is reached; `None` where it was not measured.
    pub fn is_reached(&self) -> Option<bool> {
        let now = self.now?;
        Some(if self.high {
            now >= self.wanted
        } else {
            now <= self.wanted
        })
    }
}

/// The value of a figure.
pub fn value(found: &Found, case: Case, figure: &str) -> Option<f64> {
    found.get(&case)?.get(figure).copied()
}

/// A point of a curve: how many vCPUs there are beside the one that measures, and the cost.
pub type Point = (f64, f64);

/// The cost of `figure` over the number of neighbours, from none on.
pub fn course(found: &Found, neighbours: Neighbours, figure: &str) -> Vec<Point> {
    let alone = value(found, Case::Alone(Who::Hanok), figure).map(|cost| (0.0, cost));
    let beside = BESIDE.iter().filter_map(|&(vms, each)| {
        let case = Case::Beside {
            neighbours,
            vms,
            each,
        };
        Some(((vms * each) as f64, value(found, case, figure)?))
    });
    alone.into_iter().chain(beside).collect()
}

/// The cost of each further neighbour, from the first on.
fn slope(found: &Found, neighbours: Neighbours) -> Option<f64> {
    let course = course(found, neighbours, "physical-timer");
    let (from, to) = (
        course.iter().find(|(count, _)| *count >= 1.0)?,
        course.last()?,
    );
    (to.0 > from.0).then(|| (to.1 - from.1) / (to.0 - from.0))
}

/// All rows.
pub fn rows(found: &Found) -> Vec<Row> {
    let hanok = |figure: &str| value(found, Case::Alone(Who::Hanok), figure);
    let native = |figure: &str| value(found, Case::Alone(Who::Native), figure);
    let beyond = |figure: &str| Some(hanok(figure)? - native(figure)?);
    let wake = |count: f64| {
        let course = course(found, Neighbours::Idle, "wake");
        let at = course.iter().find(|(there, _)| *there == count);
        at.map(|(_, cost)| *cost)
    };
    let most = BESIDE.last().map_or(0.0, |(vms, each)| (vms * each) as f64);
    let sleep = |who| value(found, Case::Sleep(who), "nanosleep");
    let start = |mib, others| value(found, Case::Start { mib, others }, "start");
    let ratio = || Some(sleep(Who::Hanok)? / sleep(Who::Native)?);
    let zeroing = || {
        let more = start(LARGE_MIB, 0)? - start(MEMORY_MIB, 0)?;
        Some(((LARGE_MIB - MEMORY_MIB) << 20) as f64 / more)
    };
    let row = |what, unit, before, now, wanted| Row {
        what,
        unit,
        before,
        now,
        wanted,
        high: false,
    };
    let pass = |neighbours| slope(found, neighbours);
    let (count, milliseconds) = ("instructions", "ms");
    vec![
        row(
            "scheduler's pass, each idle vCPU more",
            count,
            Some(110.0),
            pass(Neighbours::Idle),
            5.0,
        ),
        row(
            "scheduler's pass, each never started",
            count,
            Some(77.0),
            pass(Neighbours::Off),
            5.0,
        ),
        row(
            "scheduler's pass, each runnable",
            count,
            Some(46.0),
            pass(Neighbours::Runnable),
            5.0,
        ),
        row("wake from WFI, alone", count, Some(128.0), wake(0.0), 500.0),
        row(
            "wake from WFI, one idle neighbour",
            count,
            Some(1040.0),
            wake(1.0),
            500.0,
        ),
        row(
            "wake from WFI, 56 idle neighbours",
            count,
            Some(7856.0),
            wake(most),
            500.0,
        ),
        row(
            "nanosleep beside an idle neighbour",
            "x native",
            Some(1.22),
            ratio(),
            1.05,
        ),
        row(
            "timer interrupt",
            count,
            Some(141.0),
            beyond("timer-interrupt"),
            188.0,
        ),
        row(
            "timer interrupt, 4 pending",
            count,
            Some(3214.0),
            beyond("pending-4"),
            600.0,
        ),
        row(
            "timer interrupt, 200 pending",
            count,
            Some(24_300.0),
            beyond("pending-200"),
            600.0,
        ),
        row(
            "interrupt of a burst of 200",
            count,
            Some(4447.0),
            beyond("burst-200"),
            400.0,
        ),
        row(
            "interrupt of a device of its own",
            count,
            Some(1822.0),
            beyond("device-interrupt"),
            250.0,
        ),
        row(
            "start of a VM",
            milliseconds,
            Some(17.0),
            start(MEMORY_MIB, 0).map(|ns| ns / 1e6),
            20.0,
        ),
        row(
            "start of a VM beside 7 that load",
            milliseconds,
            Some(91.0),
            start(MEMORY_MIB, 7).map(|ns| ns / 1e6),
            20.0,
        ),
        Row {
            high: true,
            ..row(
                "loading of zeroes",
                "bytes an instruction",
                Some(12.2),
                zeroing(),
                40.0,
            )
        },
        row(
            "serial port, a byte out, polled",
            count,
            Some(1134.0),
            hanok("send-polled"),
            400.0,
        ),
        row(
            "serial port, a byte out, in bursts",
            count,
            Some(716.0),
            hanok("send-burst"),
            400.0,
        ),
        row(
            "serial port, a byte in",
            count,
            Some(1459.0),
            value(found, Case::Receive, "receive"),
            600.0,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(values: &[(Case, &str, f64)]) -> Found {
        let mut found = Found::new();
        for (case, figure, value) in values {
            let of_case = found.entry(*case).or_default();
            of_case.insert((*figure).to_owned(), *value);
        }
        found
    }

    fn beside(vms: usize, each: usize) -> Case {
        Case::Beside {
            neighbours: Neighbours::Idle,
            vms,
            each,
        }
    }

    #[test]
    fn each_further_neighbour_is_counted_from_the_first_on() {
        let found = found(&[
            (Case::Alone(Who::Hanok), "physical-timer", 100.0),
            (beside(1, 1), "physical-timer", 700.0),
            (beside(7, 8), "physical-timer", 810.0),
        ]);
        let all = rows(&found);
        assert_eq!(all[0].now, Some(2.0));
        assert_eq!(
            (all[0].is_reached(), all[1].is_reached()),
            (Some(true), None)
        );
        assert_eq!(course(&found, Neighbours::Idle, "physical-timer").len(), 3);
    }

    #[test]
    fn of_bytes_an_instruction_more_is_better() {
        let start = |mib| Case::Start { mib, others: 0 };
        // 512 MiB more in as many instructions as a fiftieth of it.
        let more = f64::from(512 << 20) / 50.0;
        let found = found(&[
            (start(MEMORY_MIB), "start", 1e6),
            (start(LARGE_MIB), "start", 1e6 + more),
        ]);
        let zeroing = rows(&found).into_iter().find(|row| row.high).unwrap();
        assert_eq!(zeroing.is_reached(), Some(true));
        assert!((zeroing.now.unwrap() - 50.0).abs() < 1e-6);
    }
}
