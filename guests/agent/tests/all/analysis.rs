//! From tasks to interfaces: random sets of tasks, against the analysis itself and in the simulator.

use hanok_agent::interface::{Unschedulable, least, model, share, suffices};
use hanok_agent::measure::Estimator;
use hanok_agent::stretch;
use hanok_agent::time::{parse, show};
use hanok_analysis::analyse;
use hanok_schedule::{Interface, Task};
use hanok_simulator::{Options, Supply, What, simulate};
use hanok_task_model::{ComponentId, Nanos, Periods, Plan, ResourceInterface, Window};
use proptest::prelude::*;

/// Periods whose hyperperiod is short enough to be simulated, in microseconds.
const PERIODS: [u64; 10] = [
    4_000, 5_000, 6_000, 8_000, 10_000, 12_000, 15_000, 20_000, 24_000, 30_000,
];
const HYPERPERIOD: u64 = 120_000_000;
const US: u64 = 1_000;

fn task() -> impl Strategy<Value = Task> {
    let period = prop::sample::select(&PERIODS[..]);
    (period, 1_u64..1000, 0_u64..1000).prop_map(|(period, execution, earlier)| {
        let execution = (period * execution / 3_000).max(1);
        let deadline = (period - period * earlier / 2_000).max(execution);
        Task {
            period: period * US,
            execution: execution * US,
            deadline: deadline * US,
        }
    })
}

fn find(period: u64) -> Plan {
    Plan::Find {
        periods: Periods::One(Nanos::new(period)),
        window: Window::Period,
    }
}

/// The jobs that are late, of these tasks in the worst case of this interface.
fn late(tasks: &[Task], interface: &Interface) -> usize {
    let [period, budget] = [interface.period, interface.budget].map(Nanos::new);
    let given = ResourceInterface::periodic(period, budget);
    let model = model(tasks, Plan::Given(given), 1_000);
    let what = What::Component(ComponentId(0), Supply::worst(given));
    let timeline = simulate(&model, &Options::new(what, 2 * HYPERPERIOD)).unwrap();
    timeline.misses().len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_interface_is_that_of_the_analysis(
        tasks in prop::collection::vec(task(), 1..6),
        period in prop::sample::select(&[1_000_000_u64, 2_000_000, 3_000_000, 5_000_000][..]),
    ) {
        let analysis = analyse(&model(&tasks, find(period), 1_000)).unwrap();
        let expected = analysis.interface(ComponentId(0));
        let found = least(&tasks, period, 1_000);
        match (expected, found) {
            (Some(expected), Ok(found)) => {
                prop_assert_eq!(expected.budget.get(), found.budget);
                prop_assert_eq!(found.deadline, period);
                prop_assert!(suffices(&tasks, &found).is_ok());
                let less = Interface::new(period, found.budget - 1_000);
                prop_assert!(less.budget == 0 || suffices(&tasks, &less).is_err());
            }
            (None, Err(Unschedulable::Overload(_) | Unschedulable::Late)) => {}
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn no_deadline_is_missed_with_it(
        tasks in prop::collection::vec(task(), 1..6),
        period in prop::sample::select(&[1_000_000_u64, 2_000_000, 3_000_000, 5_000_000][..]),
    ) {
        if let Ok(found) = least(&tasks, period, 1_000) {
            prop_assert_eq!(late(&tasks, &found), 0);
            // The runtimes that Linux gets are no less than the jobs, and no more than it takes.
            for task in &tasks {
                let runtime = stretch::runtime(task, &found);
                prop_assert!((task.execution..=task.deadline).contains(&runtime));
            }
        }
    }

    #[test]
    fn times_are_read_as_they_are_shown(time in 0_u64..3_600_000_000_000) {
        prop_assert_eq!(parse(&show(time)), Some(time));
    }

    #[test]
    fn an_estimate_is_never_below_what_was_used(
        samples in prop::collection::vec(1_u64..1_000_000, 1..400), declared in 1_u64..1_000_000,
    ) {
        let mut estimator = Estimator::default();
        for (number, sample) in (1..).zip(&samples) {
            estimator.add(*sample);
            let largest = samples[..number].iter().max().unwrap();
            prop_assert!(estimator.estimate(declared, 0) >= *largest);
        }
    }
}

#[test]
fn times_have_units() {
    let good = [
        ("10ms", 10_000_000),
        ("1.5ms", 1_500_000),
        ("250us", 250_000),
        ("1s", 1_000_000_000),
        ("7", 7),
        ("7ns", 7),
    ];
    for (text, time) in good {
        assert_eq!(parse(text), Some(time), "{text}");
    }
    for text in [
        "",
        "ms",
        "-1ms",
        "+1ms",
        "1 ms",
        "1.ms",
        "0.5ns",
        "1.0000000001s",
        "3601s",
        "1m",
        "1e3",
        "٣ms",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn a_runtime_has_what_is_taken_meanwhile() {
    // 10 ms of each 20 ms: within 40 ms at least 10 ms are supplied, so at most 30 ms are taken.
    let task = Task::new(40_000_000, 5_000_000);
    let half = Interface::new(20_000_000, 10_000_000);
    assert_eq!(stretch::runtime(&task, &half), 35_000_000);
    let whole = Interface::new(20_000_000, 20_000_000);
    assert_eq!(stretch::runtime(&task, &whole), 5_000_000);
}

#[test]
fn small_shares_add_up() {
    let tasks = vec![Task::new(1_000_000_000, 100_000); 100];
    assert_eq!(share(&tasks), 10);
    assert_eq!(least(&tasks[..1], 0, 1_000), Err(Unschedulable::Invalid));
}
