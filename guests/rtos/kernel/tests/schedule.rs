//! Compares the kernel's schedule with the simulation's, for any tasks and for the sets that the
//! image runs.

use hanok_rtos_kernel::*;
use proptest::prelude::*;

/// The kernel's events for these tasks up to `end`. Each entry takes `cost`, charged to the task
/// that runs afterwards, and the timer is late by as much.
fn run(policy: Policy, specs: &[Spec], end: Ticks, cost: Ticks) -> Vec<Event> {
    let storage = vec![Event::NONE; 20_000].leak();
    let mut kernel = Kernel::new(policy, Trace::new(storage));
    for spec in specs {
        kernel.add_task(*spec).unwrap();
    }
    let mut now = 0;
    kernel.timer(now);
    loop {
        // The task has the CPU again only after the kernel's work.
        let free = now + cost;
        let timer = kernel.next_event();
        let timer = timer.saturating_add(cost).max(free);
        let ends = kernel.running().map_or(Ticks::MAX, |id| {
            let execution = kernel.task(id).unwrap().spec().execution;
            let from = kernel.ran_from().unwrap();
            if execution == Ticks::MAX {
                Ticks::MAX
            } else {
                from.wrapping_add(execution).max(free)
            }
        });
        now = timer.min(ends);
        if now > end {
            return kernel.events().to_vec();
        }
        if ends <= timer {
            kernel.complete(now).unwrap();
        } else {
            kernel.timer(now);
        }
    }
}

fn agrees(policy: Policy, specs: &[Spec], end: Ticks) {
    let events = run(policy, specs, end, 0);
    let agreement = compare(&events, Simulation::new(policy, specs), 0).unwrap();
    assert!(agreement.events > 0 && agreement.widest == 0);
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let times = (1..60_u64, 1..80_u64, 0..50_u64, 1..12_u64);
    let spec = (times, 0..3_u64, 0..5_u64).prop_map(
        |((period, deadline, offset, execution), over, priority)| Spec {
            name: "any",
            period,
            deadline,
            offset,
            priority,
            budget: execution.saturating_sub(over),
            execution,
        },
    );
    prop::collection::vec(spec, 1..8)
}

fn policies() -> impl Strategy<Value = Policy> {
    prop::sample::select(vec![
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
        Policy::Fixed,
        Policy::EarliestDeadline,
    ])
}

proptest! {
    /// Overloaded, overrunning and late tasks included.
    #[test]
    fn the_kernel_makes_the_simulated_schedule(specs in specs(), policy in policies()) {
        agrees(policy, &specs, 2_000);
    }

    /// Another set's simulation agrees only by chance, with few events.
    #[test]
    fn another_simulation_does_not_agree(specs in specs(), at in 0..8_usize) {
        let events = run(Policy::RateMonotonic, &specs, 2_000, 0);
        let mut wrong = specs.clone();
        let at = at % wrong.len();
        wrong[at].offset += 1;
        let result = compare(&events, Simulation::new(Policy::RateMonotonic, &wrong), 0);
        prop_assert!(result.is_err());
    }
}

#[test]
fn the_image_s_sets_keep_all_deadlines() {
    for set in [&RM20, &EDF20] {
        let specs = set.specs(62_500_000);
        let end = 62_500 * 1000;
        agrees(set.policy, &specs, end);
        let events = run(set.policy, &specs, end, 0);
        let findings = events.iter().filter(|event| !event.kind.is_schedule());
        assert_eq!(findings.count(), 0, "{}", set.name);
    }
}

/// A kernel that takes 5 us an entry makes the same schedule, with no event more than 10 us away.
#[test]
fn a_kernel_that_costs_time_makes_the_same_schedule() {
    for set in [&RM20, &EDF20] {
        let specs = set.specs(1_000_000_000);
        let events = run(set.policy, &specs, 1_000_000_000, 5_000);
        let simulation = || Simulation::new(set.policy, &specs);
        let agreement = compare(&events, simulation(), 10_000).unwrap();
        assert!(agreement.widest > 0, "{}", set.name);
        assert!(compare(&events, simulation(), agreement.widest - 1).is_err());
    }
}

#[test]
fn the_wrong_set_is_told() {
    let (rm, edf) = (RM20.specs(62_500_000), EDF20.specs(62_500_000));
    let events = run(Policy::RateMonotonic, &rm, 62_500 * 200, 0);
    let difference = compare(
        &events,
        Simulation::new(Policy::EarliestDeadline, &edf),
        100,
    );
    assert!(difference.unwrap_err().after > 0);
    // The right tasks under the wrong policy.
    let events = run(Policy::EarliestDeadline, &edf, 62_500 * 200, 0);
    let difference = compare(&events, Simulation::new(Policy::RateMonotonic, &edf), 100);
    assert!(difference.is_err());
}

#[test]
fn the_overload_is_what_it_says() {
    let specs = OVERLOAD.specs(1_000_000);
    agrees(OVERLOAD.policy, &specs, 2_000_000);
    let events = run(OVERLOAD.policy, &specs, 2_000_000, 0);
    let count = |task: usize, kind: EventKind| {
        let of = |event: &&Event| event.task.index() == task && event.kind == kind;
        events.iter().filter(of).count()
    };
    assert_eq!(count(0, EventKind::Miss), 0);
    assert_eq!(
        (count(1, EventKind::Overrun), count(1, EventKind::Miss)),
        (100, 0)
    );
    assert_eq!(
        (count(2, EventKind::Overrun), count(2, EventKind::Miss)),
        (1, 19)
    );
    assert_eq!(
        (count(3, EventKind::Start), count(3, EventKind::Miss)),
        (0, 9)
    );
}
