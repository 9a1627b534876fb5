//! Every test is one plan, run under many interleavings.

use hanok_interleavings::{Habits, Plan, World};
use hanok_pcpu::fake::FakePromise;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many interleavings of each kind are run.
const RUNS: usize = 1500;
/// More of the checker's steps than any run takes: a run that has not ended by then is taken never
/// to end.
const STEPS: usize = 400_000;

fn settings() -> Config {
    let mut config = Config::default();
    config.max_steps = shuttle::MaxSteps::FailAfter(STEPS);
    config.failure_persistence = FailurePersistence::Print;
    config.stack_size = 0x10_0000;
    config
}

/// Runs `plan` in random orders, and in orders with few changes of thread.
fn check(plan: Plan) {
    check_some(plan, RUNS);
}

/// As [`check`], but only so many interleavings of each kind.
fn check_some(plan: Plan, runs: usize) {
    let other = plan.clone();
    let random = RandomScheduler::new_from_seed(0x4a6f, runs);
    Runner::new(random, settings()).run(move || drop(World::run(&plan)));
    let few = PctScheduler::new_from_seed(0x6b65, 3, runs);
    Runner::new(few, settings()).run(move || drop(World::run(&other)));
}

/// As [`check_some`], of a plan in which vCPUs move. Fails if they did not in `least` interleavings of each kind; without a pool none may.
fn check_moving(plan: Plan, runs: usize, least: usize) {
    let pooled = !plan.pool.is_empty();
    let moving = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let run = |kind: usize| {
        let (plan, moving) = (plan.clone(), Arc::clone(&moving));
        move || {
            let (_, moves) = World::run_and_count(&plan);
            moving[kind].fetch_add(usize::from(moves > 0), Ordering::Relaxed);
        }
    };
    Runner::new(RandomScheduler::new_from_seed(0x4a6f, runs), settings()).run(run(0));
    Runner::new(PctScheduler::new_from_seed(0x6b65, 3, runs), settings()).run(run(1));
    for moving in &*moving {
        let moving = moving.load(Ordering::Relaxed);
        assert!(
            moving >= least && (pooled || moving == 0),
            "vCPUs moved in {moving} of {runs}"
        );
    }
}

const CALM: Habits = Habits {
    ends: 0,
    power: 30,
    interrupts: 30,
    waits: 30,
    timers: false,
    first_is_busy: false,
};

const WILD: Habits = Habits {
    ends: 8,
    power: 30,
    interrupts: 25,
    waits: 30,
    timers: false,
    first_is_busy: false,
};

#[test]
fn vms_that_share_cores_end_when_they_are_told() {
    check(Plan {
        cpus: 2,
        vms: vec![vec![0, 1], vec![1, 0]],
        promises: vec![],
        pool: vec![],
        habits: CALM,
        runs: 0,
        thefts: 0,
        lines: vec!["stop vm0", "stop vm1"],
    });
}

#[test]
fn vms_that_end_and_reset_themselves_end_when_they_are_told() {
    check(Plan {
        cpus: 2,
        vms: vec![vec![0, 1], vec![1, 0]],
        promises: vec![],
        pool: vec![],
        habits: WILD,
        runs: 0,
        thefts: 0,
        lines: vec![
            "restart vm0",
            "pause vm1",
            "restart vm1",
            "stop vm0",
            "stop vm1",
            "stop vm0",
            "stop vm1",
        ],
    });
}

#[test]
fn paused_vms_go_on_and_are_restarted() {
    check(Plan {
        cpus: 3,
        vms: vec![vec![0, 1, 2], vec![2], vec![1]],
        promises: vec![],
        pool: vec![],
        habits: CALM,
        runs: 0,
        thefts: 0,
        lines: vec![
            "pause vm0",
            "dump vm0",
            "list",
            "resume vm0",
            "pause vm1",
            "restart vm1",
            "stop vm2",
            "stop vm1",
            "stop vm0",
        ],
    });
}

#[test]
fn one_core_that_many_share_is_given_to_each() {
    check(Plan {
        cpus: 1,
        vms: vec![vec![0, 0, 0], vec![0, 0], vec![0]],
        promises: vec![],
        pool: vec![],
        habits: WILD,
        runs: 0,
        thefts: 0,
        lines: vec![
            "restart vm2",
            "stop vm1",
            "stop vm0",
            "restart vm0",
            "stop vm0",
            "stop vm2",
            "stop vm1",
            "stop vm0",
        ],
    });
}

#[test]
fn vms_on_cores_of_their_own_end_when_they_are_told() {
    check(Plan {
        cpus: 3,
        vms: vec![vec![0, 1], vec![2]],
        promises: vec![],
        pool: vec![],
        habits: WILD,
        runs: 0,
        thefts: 0,
        lines: vec![
            "pause vm0",
            "resume vm0",
            "dump vm0",
            "restart vm1",
            "stop vm0",
            "stop vm1",
            "stop vm0",
            "stop vm1",
        ],
    });
}

#[test]
fn who_waits_for_its_timer_is_woken_by_it() {
    let habits = Habits {
        ends: 0,
        power: 0,
        interrupts: 0,
        waits: 90,
        timers: true,
        first_is_busy: false,
    };
    check(Plan {
        cpus: 2,
        vms: vec![vec![0], vec![0], vec![0], vec![1]],
        promises: vec![],
        pool: vec![],
        habits,
        runs: 12,
        thefts: 0,
        lines: vec!["stop vm0", "stop vm1", "stop vm2", "stop vm3"],
    });
}

#[test]
fn who_waits_for_an_interrupt_of_another_core_is_woken_by_it() {
    let habits = Habits {
        ends: 0,
        power: 0,
        interrupts: 60,
        waits: 40,
        timers: false,
        first_is_busy: true,
    };
    check(Plan {
        cpus: 3,
        vms: vec![vec![0, 1, 2], vec![2, 1]],
        promises: vec![],
        pool: vec![],
        habits,
        runs: 8,
        thefts: 0,
        lines: vec!["stop vm0", "stop vm1"],
    });
}

#[test]
fn a_vm_that_was_said_to_be_off_can_be_restarted() {
    let plan = Plan {
        cpus: 2,
        vms: vec![vec![1], vec![0]],
        promises: vec![],
        pool: vec![],
        // Neither VM ends by itself.
        habits: Habits { power: 0, ..CALM },
        runs: 0,
        thefts: 0,
        lines: vec![
            "stop vm0",
            "await vm vm0: off",
            "restart vm0",
            "await vm vm0: begins",
            "stop vm0",
            "stop vm1",
        ],
    };
    check(plan);
}

#[test]
fn a_page_is_taken_while_others_run_and_who_waits_for_it_goes_on() {
    check(Plan {
        cpus: 2,
        vms: vec![vec![0, 1], vec![1]],
        promises: vec![],
        pool: vec![],
        // Nothing wakes a first vCPU that waits for an interrupt.
        habits: Habits {
            first_is_busy: true,
            ..CALM
        },
        runs: 1,
        thefts: 4,
        lines: vec!["pause vm0", "resume vm0", "stop vm0", "stop vm1"],
    });
}

#[test]
fn a_page_is_taken_while_its_vm_resets() {
    check(Plan {
        cpus: 2,
        vms: vec![vec![0, 1], vec![1]],
        promises: vec![],
        pool: vec![],
        habits: Habits {
            first_is_busy: true,
            ..WILD
        },
        runs: 0,
        thefts: 4,
        lines: vec![
            "restart vm0",
            "stop vm0",
            "stop vm1",
            "stop vm0",
            "stop vm1",
        ],
    });
}

#[test]
fn budgets_are_enforced_while_vms_come_and_go() {
    let promise = |cpu, vm, period, budget| FakePromise {
        cpu,
        vm,
        period,
        budget,
    };
    check(Plan {
        cpus: 2,
        vms: vec![vec![0, 1], vec![1], vec![0]],
        promises: vec![
            promise(0, 0, 300, 100),
            promise(1, 0, 400, 100),
            promise(1, 1, 300, 150),
            promise(0, 2, 500, 200),
        ],
        pool: vec![],
        habits: WILD,
        runs: 0,
        thefts: 0,
        lines: vec![
            "restart vm0",
            "pause vm1",
            "restart vm2",
            "resume vm1",
            "stop vm0",
            "stop vm1",
            "stop vm2",
        ],
    });
}

/// CPUs for 64 vCPUs, of which the first, number 33 and the last run. Their CPUs have the same numbers; all others
/// belong to the first CPU, so that its masks are full.
fn sparse() -> Vec<u8> {
    let cpu = |vcpu| if [33, 63].contains(&vcpu) { vcpu } else { 0 };
    (0..64).map(cpu).collect()
}

#[test]
fn vcpus_and_cores_up_to_63_are_woken_and_end_when_they_are_told() {
    let plan = Plan {
        cpus: 64,
        vms: vec![sparse(), vec![63, 33]],
        promises: vec![],
        pool: vec![],
        // A first vCPU that turned itself off would wake nobody.
        habits: Habits {
            power: 0,
            interrupts: 60,
            first_is_busy: true,
            ..CALM
        },
        runs: 2,
        thefts: 0,
        lines: vec!["pause vm0", "resume vm0", "stop vm0", "stop vm1"],
    };
    check_some(plan, 100);
}

#[test]
fn vms_up_to_63_end_and_reset_themselves_and_end_when_they_are_told() {
    let mut vms: Vec<Vec<u8>> = (0..64).map(|vm| vec![vm]).collect();
    vms[0] = sparse();
    vms[33] = vec![33, 63];
    vms[63] = vec![63, 0];
    let plan = Plan {
        cpus: 64,
        vms,
        promises: vec![],
        pool: vec![],
        habits: WILD,
        runs: 0,
        thefts: 0,
        lines: vec![
            "restart vm33",
            "pause vm63",
            "restart vm63",
            "stop vm0",
            "stop vm33",
            "stop vm63",
            "stop vm0",
            "stop vm33",
            "stop vm63",
        ],
    };
    check_some(plan, 20);
}

/// Promises to the vCPUs of `vms`, by their first CPUs: so much of each period of 400 ticks.
fn promised(vms: &[Vec<u8>], budget: u64) -> Vec<FakePromise> {
    let mut promises = vec![];
    for (vm, cpus) in vms.iter().enumerate() {
        for cpu in cpus {
            promises.push(FakePromise {
                cpu: usize::from(*cpu),
                vm,
                period: 400,
                budget,
            });
        }
    }
    promises
}

/// In how many interleavings of 120 a vCPU moves, at least.
const MOVING: usize = 10;

/// vCPUs move between two cores, or three, as they are turned on and off, wait, and are kicked by each other.
#[test]
fn vcpus_that_move_are_reached_wherever_they_are() {
    for (pool, habits) in [(vec![0, 1], CALM), (vec![0, 1, 2], WILD)] {
        let vms = vec![vec![0, 1, 0], vec![1, 0], vec![1]];
        check_moving(
            Plan {
                cpus: pool.len(),
                promises: promised(&vms, 130),
                vms,
                pool,
                habits,
                runs: 0,
                thefts: 0,
                lines: vec![
                    "pause vm0",
                    "dump vm0",
                    "resume vm0",
                    "restart vm1",
                    "list",
                    "stop vm2",
                    "stop vm0",
                    "stop vm1",
                    "stop vm0",
                    "stop vm1",
                ],
            },
            120,
            MOVING,
        );
    }
}

/// No wakeup is lost while a vCPU is on its way: each runs again and again, by interrupts of the others and by
/// its timer.
#[test]
fn vcpus_that_move_go_on() {
    for timers in [false, true] {
        let vms = vec![vec![0, 1, 0], vec![1, 0]];
        check_moving(
            Plan {
                cpus: 2,
                promises: promised(&vms, 100),
                vms,
                pool: vec![0, 1],
                habits: Habits {
                    ends: 0,
                    power: 0,
                    interrupts: 50,
                    waits: 40,
                    timers,
                    first_is_busy: true,
                },
                runs: 5,
                thefts: 0,
                lines: vec!["stop vm0", "stop vm1"],
            },
            120,
            MOVING,
        );
    }
}

/// A page is taken and given back while vCPUs move.
#[test]
fn pages_of_vcpus_that_move_come_and_go() {
    let vms = vec![vec![0, 1, 0]];
    check_moving(
        Plan {
            cpus: 2,
            promises: promised(&vms, 200),
            vms,
            pool: vec![0, 1],
            // Nothing wakes a first vCPU that waits for an interrupt.
            habits: Habits {
                power: 0,
                first_is_busy: true,
                ..CALM
            },
            runs: 1,
            thefts: 4,
            lines: vec!["stop vm0"],
        },
        120,
        MOVING,
    );
}
