//! Simulations whose outcome is known from elsewhere.

use crate::*;
use hanok_task_model as model;
use model::{
    Component, ComponentId, CoreId, Home, Mode, Model, Nanos, Plan, Policy, Pool, PoolId, Priority,
    ResourceInterface, Task,
};
use std::vec;
use std::vec::Vec;

const NS: fn(u64) -> Nanos = Nanos::new;

fn interface(period: u64, budget: u64, deadline: u64) -> ResourceInterface {
    ResourceInterface {
        period: NS(period),
        budget: NS(budget),
        deadline: NS(deadline),
    }
}

fn system(cores: u8) -> Model {
    Model::new(NS(1), vec![Pool::new("all", (0..cores).map(CoreId))])
}

fn vm(model: &mut Model, name: &str, promise: ResourceInterface, policy: Policy) -> ComponentId {
    let mut component = Component::new(name, Home::Pool(PoolId(0)), Plan::Given(promise));
    component.policy = policy;
    model.add(component)
}

fn tasks(model: &mut Model, vm: ComponentId, set: &[(u64, u64, u64)]) {
    for (period, execution, deadline) in set {
        let name = std::format!("t{}", model.tasks.len());
        let mut task = Task::new(name, vm, NS(*period), NS(*execution));
        task.deadline = NS(*deadline);
        model.add_task(task);
    }
}

/// The deadlines that a set misses with the worst supply of an interface.
fn missed(
    set: &[(u64, u64, u64)],
    policy: Policy,
    (period, budget, deadline): (u64, u64, u64),
    horizon: u64,
) -> Vec<u64> {
    let promise = interface(period, budget, deadline);
    let mut model = system(1);
    let vm = vm(&mut model, "vm", promise, policy);
    tasks(&mut model, vm, set);
    let what = What::Component(vm, Supply::worst(promise));
    let timeline = simulate(&model, &Options::new(what, horizon)).unwrap();
    timeline.misses().iter().map(|job| job.deadline).collect()
}

/// A published tool answers (120, 32, 92) for (200, 28) and (300, 36).
#[test]
fn what_a_published_tool_admits_misses_at_400_and_600() {
    let set = [(200, 28, 200), (300, 36, 300)];
    let late = missed(&set, Policy::Edf, (120, 32, 92), 1201);
    assert_eq!(late[..2], [400, 600]);
    assert!(missed(&set, Policy::Edf, (120, 32, 36), 12_001).is_empty());
    assert!(!missed(&set, Policy::Edf, (120, 32, 37), 12_001).is_empty());
}

/// Least budgets that were computed by hand (see the project's vectors): they suffice, and one tick
/// less does not.
#[test]
fn least_budgets_are_enough_and_least() {
    // In tenths, so that 39/14 becomes 27.86 and 7/2 becomes 35.
    let scaled = |set: &[(u64, u64)]| -> Vec<(u64, u64, u64)> {
        set.iter().map(|(t, c)| (t * 10, c * 10, t * 10)).collect()
    };
    let small = scaled(&[(50, 7), (75, 9)]);
    let edf = Policy::Edf;
    let rm = Policy::RateMonotonic;
    for (set, policy, period, enough, deadline) in [
        (&small, edf, 100, 28, 100),
        (&small, edf, 250, 80, 250),
        (&small, edf, 300, 108, 300),
        (&small, rm, 100, 35, 100),
        (&small, rm, 250, 115, 250),
        (&small, rm, 300, 127, 300),
        (&scaled(&[(30, 5), (50, 2)]), edf, 100, 25, 100),
        (&scaled(&[(30, 5), (50, 2)]), rm, 100, 30, 100),
        (&scaled(&[(200, 10), (200, 100)]), edf, 500, 320, 500),
        (&scaled(&[(200, 10), (200, 100)]), rm, 500, 320, 500),
    ] {
        let with = |budget| missed(set, policy, (period, budget, deadline), 40_000);
        assert!(with(enough).is_empty(), "{set:?} {policy:?} {period}");
        assert!(!with(enough - 1).is_empty(), "{set:?} {policy:?} {period}");
    }
    // The deadline is the budget itself: 13/5, 16/5, 13/2, 8.
    for (policy, period, enough) in [
        (edf, 100, 26),
        (rm, 100, 32),
        (edf, 250, 65),
        (edf, 300, 80),
    ] {
        let with = |budget| missed(&small, policy, (period, budget, budget), 40_000);
        assert!(with(enough).is_empty(), "{policy:?} {period}");
        assert!(!with(enough - 1).is_empty(), "{policy:?} {period}");
    }
    let constrained = [(450, 20, 250), (650, 30, 300), (850, 40, 400)];
    let dm = Policy::DeadlineMonotonic;
    for policy in [edf, dm] {
        assert!(missed(&constrained, policy, (50, 13, 50), 40_000).is_empty());
        assert!(!missed(&constrained, policy, (50, 12, 50), 40_000).is_empty());
    }
}

/// The task that runs at each tick on a core.
fn line(timeline: &Timeline, core: usize) -> std::string::String {
    let mut line = vec![b'.'; timeline.horizon as usize];
    for segment in timeline.segments.iter().filter(|s| s.core == core) {
        assert!(segment.start < segment.end, "{segment:?}");
        let name = if segment.switching {
            b'-'
        } else {
            b'a' + segment.task.0 as u8
        };
        line[segment.start as usize..segment.end as usize].fill(name);
    }
    std::string::String::from_utf8(line).unwrap()
}

fn two_vms() -> Model {
    let mut model = system(1);
    let first = vm(&mut model, "first", interface(4, 2, 4), Policy::Edf);
    let second = vm(&mut model, "second", interface(6, 2, 6), Policy::Edf);
    tasks(&mut model, first, &[(8, 3, 8)]);
    tasks(&mut model, second, &[(12, 3, 12)]);
    model
}

#[test]
fn two_vms_share_a_core() {
    let model = two_vms();
    let mut options = Options::new(What::System, 24);
    let timeline = simulate(&model, &options).unwrap();
    // The first VM's second budget is half spent idly.
    assert_eq!(line(&timeline, 0), "aabba.b.aa..a.bbaab.a...");
    assert!(timeline.misses().is_empty());
    options.kind = Some(Kind::Deferrable);
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(line(&timeline, 0), "aabba.b.aa..abb.aab.a...");
    options.slack = Slack::Share;
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(timeline.busy(0), 15);
}

#[test]
fn a_switch_costs_what_it_costs() {
    let mut model = two_vms();
    model.cost.switch = NS(1);
    model.components[0].plan = Plan::Given(interface(8, 2, 8));
    model.components[1].plan = Plan::Given(interface(8, 2, 8));
    let timeline = simulate(&model, &Options::new(What::System, 8)).unwrap();
    // A switch is charged to no budget.
    assert_eq!(line(&timeline, 0), "-aa-bb..");
}

#[test]
fn groups_give_their_time_to_those_in_them() {
    let mut model = system(1);
    let group = vm(&mut model, "group", interface(10, 6, 10), Policy::Edf);
    for (name, promise, task) in [
        ("x", interface(20, 4, 20), (40, 4, 40)),
        ("y", interface(20, 6, 20), (40, 6, 40)),
    ] {
        let plan = Plan::Given(promise);
        let id = model.add(Component::new(name, Home::Component(group), plan));
        tasks(&mut model, id, &[task]);
    }
    let other = vm(&mut model, "other", interface(10, 4, 10), Policy::Edf);
    tasks(&mut model, other, &[(10, 4, 10)]);
    let timeline = simulate(&model, &Options::new(What::System, 400)).unwrap();
    assert!(timeline.misses().is_empty());
    let all = timeline.summaries(3);
    assert_eq!(all[0].jobs, 10);
    assert_eq!(all[2].jobs, 40);
}

#[test]
fn what_one_of_a_group_leaves_unused_is_spent_and_the_next_one_runs() {
    let mut model = system(1);
    let group = vm(
        &mut model,
        "group",
        interface(10, 8, 10),
        Policy::DeadlineMonotonic,
    );
    for (name, promise, task) in [
        ("first", interface(10, 4, 4), (20, 1, 20)),
        ("second", interface(10, 3, 10), (20, 3, 20)),
    ] {
        let plan = Plan::Given(promise);
        let id = model.add(Component::new(name, Home::Component(group), plan));
        tasks(&mut model, id, &[task]);
    }
    let mut options = Options::new(What::System, 20);
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(line(&timeline, 0), "a...bbb.............");
    options.kind = Some(Kind::Deferrable);
    model.components[1].plan = Plan::Given(interface(10, 4, 10));
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(line(&timeline, 0), "abbb................");
}

/// A task that goes on alone goes on, whichever CPU of its VM it was on.
#[test]
fn a_vm_with_two_cpus_goes_on_with_one() {
    let modes = [Mode::Global, Mode::Partitioned];
    for (swap, mode) in modes.into_iter().flat_map(|m| [(false, m), (true, m)]) {
        let mut model = system(2);
        model.pools[0].mode = mode;
        let id = vm(&mut model, "wide", interface(10, 20, 10), Policy::Edf);
        model.components[0].cpus = 2;
        let mut set = [(20, 3, 20), (20, 18, 20)];
        if swap {
            set.reverse();
        }
        tasks(&mut model, id, &set);
        for kind in [None, Some(Kind::Deferrable), Some(Kind::ConstantBandwidth)] {
            let mut options = Options::new(What::System, 100);
            options.kind = kind;
            let timeline = simulate(&model, &options).unwrap();
            assert!(timeline.misses().is_empty(), "{:?}", timeline.misses());
            let longest = timeline.summaries(2).into_iter().map(|s| s.longest).max();
            assert_eq!(longest, Some(18), "{swap} {mode:?} {kind:?}");
        }
    }
}

#[test]
fn a_global_pool_runs_two_at_a_time_and_never_one_twice() {
    let mut model = system(2);
    model.pools[0].mode = Mode::Global;
    for name in ["x", "y", "z"] {
        let id = vm(&mut model, name, interface(6, 3, 6), Policy::Edf);
        tasks(&mut model, id, &[(6, 3, 6)]);
    }
    let timeline = simulate(&model, &Options::new(What::System, 60)).unwrap();
    assert!(timeline.misses().is_empty());
    let (first, second) = (line(&timeline, 0), line(&timeline, 1));
    for (a, b) in first.bytes().zip(second.bytes()) {
        assert!(a != b || a == b'.', "{first} {second}");
    }
    assert_eq!(timeline.busy(0) + timeline.busy(1), 90);
}

/// Two tasks that arrive together take the places of the last two, although a core would first have
/// given up one of the new ones.
#[test]
fn a_global_pool_runs_the_most_urgent_at_every_instant() {
    let mut model = system(3);
    model.pools[0].mode = Mode::Global;
    for period in [50, 55, 60, 10, 20] {
        let name = std::format!("every-{period}");
        let id = vm(&mut model, &name, interface(period, 5, period), Policy::Edf);
        tasks(&mut model, id, &[(100, 5, 100)]);
    }
    // A budget in proportion to the rest of the period.
    for task in &mut model.tasks[3..] {
        (task.offset, task.execution) = (NS(1), NS(4));
    }
    let mut options = Options::new(What::System, 12);
    options.kind = Some(Kind::Deferrable);
    let timeline = simulate(&model, &options).unwrap();
    let lines = [0, 1, 2].map(|core| line(&timeline, core));
    assert_eq!(lines, ["aaaaabbbb...", "beeeecccc...", "cdddd......."]);
}

#[test]
fn a_vm_with_two_cpus_runs_two_tasks() {
    for mode in [Mode::Global, Mode::Partitioned] {
        let mut model = system(2);
        model.pools[0].mode = mode;
        let id = vm(&mut model, "wide", interface(10, 15, 10), Policy::Edf);
        model.components[0].cpus = 2;
        tasks(&mut model, id, &[(10, 5, 10), (10, 5, 10), (10, 3, 10)]);
        let timeline = simulate(&model, &Options::new(What::System, 100)).unwrap();
        assert!(
            timeline.misses().is_empty(),
            "{mode:?} {:?}",
            timeline.misses()
        );
    }
}

#[test]
fn partitioned_components_go_where_there_is_room_or_where_they_wish() {
    let mut model = system(2);
    for index in 0..4 {
        let name = std::format!("vm{index}");
        let id = vm(&mut model, &name, interface(10, 5, 10), Policy::Edf);
        tasks(&mut model, id, &[(10, 5, 10)]);
    }
    model.components[3].core = Some(CoreId(0));
    let timeline = simulate(&model, &Options::new(What::System, 100)).unwrap();
    assert!(timeline.misses().is_empty());
    assert!(line(&timeline, 0).contains('d'));
    let id = vm(&mut model, "more", interface(10, 1, 10), Policy::Edf);
    tasks(&mut model, id, &[(10, 1, 10)]);
    let refused = simulate(&model, &Options::new(What::System, 100));
    assert_eq!(refused, Err(SimError::NoCore("more".into())));
}

#[test]
fn priorities_offsets_and_jitter_count() {
    let mut model = system(1);
    let id = vm(&mut model, "vm", interface(1, 1, 1), Policy::FixedPriority);
    tasks(&mut model, id, &[(10, 4, 10), (20, 2, 3)]);
    model.tasks[0].priority = Some(Priority(1));
    model.tasks[1].priority = Some(Priority(0));
    model.tasks[1].offset = NS(2);
    let mut options = Options::new(What::Component(id, Supply::Full), 20);
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(line(&timeline, 0), "aabbaa....aaaa......");
    model.tasks[1].jitter = NS(3);
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(
        line(&timeline, 0),
        "aaaabb....aaaa......".replacen("bb.", ".bb", 1)
    );
    // The deadline counts from the arrival, at 2.
    assert_eq!(timeline.misses()[0].deadline, 5);
    options.jitter = Jitter::None;
    let timeline = simulate(&model, &options).unwrap();
    assert!(timeline.misses().is_empty());
}

#[test]
fn what_never_ends_is_refused_in_time() {
    let mut model = system(1);
    let id = vm(&mut model, "vm", interface(2, 1, 2), Policy::Edf);
    tasks(&mut model, id, &[(1, 1, 1)]);
    let mut options = Options::new(What::System, u64::MAX);
    options.events = 1000;
    let refused = simulate(&model, &options);
    assert!(
        matches!(refused, Err(SimError::TooLong { events: 1000, .. })),
        "{refused:?}"
    );
    // Exactly the number of events is allowed; one less is refused.
    options.horizon = 20;
    let timeline = simulate(&model, &options).unwrap();
    options.events = timeline.events;
    assert_eq!(simulate(&model, &options), Ok(timeline));
    options.events -= 1;
    assert!(simulate(&model, &options).is_err());
}

/// A group whose members have work but no budget has no member to run: the next one after it runs.
#[test]
fn who_may_not_run_yet_leaves_the_core_to_others() {
    let mut model = system(1);
    for name in ["first", "second"] {
        let group = vm(&mut model, name, interface(10, 4, 10), Policy::Edf);
        let plan = Plan::Given(interface(20, 2, 20));
        let inner = Component::new(std::format!("in-{name}"), Home::Component(group), plan);
        let inner = model.add(inner);
        tasks(&mut model, inner, &[(40, 4, 40)]);
    }
    let last = vm(&mut model, "last", interface(40, 8, 40), Policy::Edf);
    tasks(&mut model, last, &[(40, 7, 40)]);
    let mut options = Options::new(What::System, 26);
    options.kind = Some(Kind::Deferrable);
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(line(&timeline, 0), "aabbccccccc.........aabb..");
}

/// A group that waits for its members' budgets has no work until they come. A constant bandwidth
/// server begins a new period then, and not at any earlier event.
#[test]
fn who_may_not_run_yet_has_no_work_until_then() {
    let mut model = system(1);
    let group = vm(&mut model, "group", interface(30, 6, 30), Policy::Edf);
    let plan = Plan::Given(interface(20, 2, 20));
    let inner = Component::new("inner", Home::Component(group), plan);
    let inner = model.add(inner);
    tasks(&mut model, inner, &[(60, 4, 60)]);
    let urgent = vm(&mut model, "urgent", interface(26, 18, 26), Policy::Edf);
    tasks(&mut model, urgent, &[(100, 18, 100)]);
    let other = vm(&mut model, "other", interface(40, 4, 40), Policy::Edf);
    tasks(&mut model, other, &[(100, 4, 100)]);
    model.tasks[1].offset = NS(3);
    model.tasks[2].offset = NS(5);
    let mut options = Options::new(What::System, 27);
    options.kind = Some(Kind::ConstantBandwidth);
    let timeline = simulate(&model, &options).unwrap();
    // From 20 on the group's deadline is 50, and the last one's 45.
    assert_eq!(line(&timeline, 0), "aa.bbbbbbbbbbbbbbbbbbccccaa");
}

/// Unused bandwidth is divided on a whole core. Inside a component, whose share of a core is not
/// known, a budget lasts as long as it is.
#[test]
fn bandwidth_is_reclaimed_on_cores_and_not_in_components() {
    let lines = [false, true].map(|in_group| {
        let mut model = system(1);
        let group = vm(&mut model, "group", interface(16, 16, 16), Policy::Edf);
        for name in ["x", "y"] {
            let plan = Plan::Given(interface(8, 4, 8));
            let home = if in_group {
                Home::Component(group)
            } else {
                Home::Pool(PoolId(0))
            };
            let mut inner = Component::new(name, home, plan);
            inner.server = model::Server::ConstantBandwidth;
            let id = model.add(inner);
            tasks(&mut model, id, &[(50, if name == "x" { 8 } else { 2 }, 50)]);
        }
        model.tasks[1].offset = NS(5);
        if !in_group {
            let plan = Plan::Given(interface(16, 1, 16));
            model.components[0].plan = plan;
            for component in &mut model.components[1..] {
                component.plan = Plan::Given(interface(16, 7, 16));
            }
        }
        let mut options = Options::new(What::System, 11);
        options.slack = Slack::Reclaim;
        line(&simulate(&model, &options).unwrap(), 0)
    });
    assert_eq!(lines, ["aaaaaaaabb.", "aaaaabbaaa."]);
}

/// A group pays for the switch from one of its members to another, as part of what they cost it,
/// from its own budget. The switch to the group is charged to no member of it.
#[test]
fn a_switch_inside_a_group_is_at_its_expense() {
    let mut model = system(1);
    model.cost.switch = NS(1);
    let group = vm(&mut model, "group", interface(20, 4, 20), Policy::Edf);
    for name in ["x", "y"] {
        let plan = Plan::Given(interface(40, 2, 40));
        let inner = model.add(Component::new(name, Home::Component(group), plan));
        tasks(&mut model, inner, &[(40, 2, 40)]);
    }
    let other = vm(&mut model, "other", interface(40, 3, 40), Policy::Edf);
    tasks(&mut model, other, &[(40, 3, 40)]);
    let timeline = simulate(&model, &Options::new(What::System, 24)).unwrap();
    // The second switch takes one of the group's 4, so that only one is left for the second VM.
    assert_eq!(line(&timeline, 0), "-aa-b-ccc...........-b..");
}

/// The time of a group without work goes to a member with work, and the budgets inside the group
/// are spent with it.
#[test]
fn budgets_inside_a_group_without_work_are_spent_with_its_own() {
    let mut model = system(1);
    let group = vm(&mut model, "group", interface(20, 10, 20), Policy::Edf);
    for (name, period) in [("x", 30), ("y", 40)] {
        let plan = Plan::Given(interface(period, 4, period));
        let inner = model.add(Component::new(name, Home::Component(group), plan));
        tasks(&mut model, inner, &[(100, 4, 100)]);
    }
    let other = vm(&mut model, "other", interface(40, 20, 40), Policy::Edf);
    tasks(&mut model, other, &[(100, 12, 100)]);
    for task in &mut model.tasks[..2] {
        task.offset = NS(3);
    }
    let mut options = Options::new(What::System, 20);
    options.slack = Slack::Share;
    let timeline = simulate(&model, &options).unwrap();
    // Until 3, one of the first VM's 4 is left; then the second VM has its 4.
    assert_eq!(line(&timeline, 0)[..8], *"cccabbbb");
}

/// What is left belongs to best effort, however many servers ahead spend their budgets idly; and whoever comes after it
/// is switched to.
#[test]
fn best_effort_goes_before_those_that_have_used_their_budgets_up() {
    let mut model = system(1);
    model.pools[0].policy = Policy::FixedPriority;
    for (at, name) in ["busy", "first idle", "second idle"]
        .into_iter()
        .enumerate()
    {
        let one = vm(&mut model, name, interface(10, 2, 10), Policy::Edf);
        model.components[one.0 as usize].priority = Some(Priority(at as u32));
        if at == 0 {
            tasks(&mut model, one, &[(20, 3, 20)]);
        }
    }
    model.cost.switch = NS(1);
    let mut options = Options::new(What::System, 20);
    options.slack = Slack::Share;
    let shared = simulate(&model, &options).unwrap();
    assert_eq!(line(&shared, 0), "-aaa................");
    options.best_effort = true;
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(line(&timeline, 0), "-aa.......-a........");
}

/// No member of the group has work, so that the budgets in it are spent. A server in its VM is out
/// of budget from 5 to 20. Its next budget gives no member work, and other members with work run.
#[test]
fn a_vm_without_work_in_an_idle_group_does_not_wake() {
    let mut model = system(1);
    let group = vm(&mut model, "group", interface(100, 100, 100), Policy::Edf);
    let plan = Plan::Given(interface(100, 50, 100));
    let outer = model.add(Component::new("outer", Home::Component(group), plan));
    let plan = Plan::Given(interface(20, 5, 20));
    model.add(Component::new("inner", Home::Component(outer), plan));
    tasks(&mut model, group, &[(1_000, 2, 200)]);
    model.tasks[0].offset = NS(21);
    let mut options = Options::new(What::System, 30);
    options.slack = Slack::Share;
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(line(&timeline, 0), ".....................aa.......");
}

/// At 10 a VM's first CPU takes its third job. The second CPU, whose core is free from then on,
/// finds no job, because the second job is still on the third CPU; and when that is put down, the
/// second CPU has no budget left. So the first CPU is the only one, and does not wait for the
/// second one to run something more urgent.
#[test]
fn a_cpu_that_found_nothing_is_not_waited_for() {
    let mut model = system(3);
    model.pools[0].policy = Policy::FixedPriority;
    let wide = vm(&mut model, "wide", interface(100, 240, 100), Policy::Edf);
    let other = vm(&mut model, "other", interface(100, 20, 100), Policy::Edf);
    for (component, priority) in model.components.iter_mut().zip([1, 0]) {
        component.server = model::Server::Polling;
        component.priority = Some(Priority(priority));
    }
    model.components[0].cpus = 3;
    let three = [(1_000, 10, 50), (1_000, 50, 100), (1_000, 30, 200)];
    tasks(&mut model, wide, &three);
    tasks(&mut model, other, &[(1_000, 10, 100)]);
    let mut options = Options::new(What::System, 80);
    let homes = [
        ((wide, 0), 0),
        ((wide, 1), 1),
        ((wide, 2), 2),
        ((other, 0), 1),
    ];
    options.placement = homes.map(|(cpu, core)| (cpu, CoreId(core))).into();
    let timeline = simulate(&model, &options).unwrap();
    let runs = |task: u32, core, start, end| Segment {
        core,
        task: model::TaskId(task),
        switching: false,
        start,
        end,
    };
    let all = [
        runs(0, 0, 0, 10),
        runs(3, 1, 0, 10),
        runs(1, 2, 0, 10),
        runs(1, 0, 10, 50),
        runs(2, 0, 50, 80),
    ];
    assert_eq!(timeline.segments, all);
}

#[test]
fn edges_of_time_are_no_edges() {
    let max = Nanos::MAX.get();
    let mut model = system(1);
    let id = vm(&mut model, "vm", interface(max, max, max), Policy::Edf);
    tasks(&mut model, id, &[(max, max, max), (1 << 40, 1, 1 << 40)]);
    model.tasks[0].offset = Nanos::MAX;
    model.tasks[0].jitter = Nanos::MAX;
    let mut options = Options::new(What::System, u64::MAX);
    options.events = 5000;
    // Too many jobs, but no fault.
    assert!(simulate(&model, &options).is_err());
    model.tasks.remove(1);
    let timeline = simulate(&model, &options).unwrap();
    assert_eq!(timeline.jobs.len(), 15);
}

/// A queue for thousands is made on the stack, and more than once in a debug build.
#[test]
fn thousands_of_tasks_are_simulated() {
    let stack = std::thread::Builder::new().stack_size(32 << 20);
    stack.spawn(thousands_of_tasks).unwrap().join().unwrap();
}

fn thousands_of_tasks() {
    let mut model = system(1);
    let id = vm(&mut model, "vm", interface(1, 1, 1), Policy::Edf);
    tasks(&mut model, id, &vec![(8000, 2, 8000); 4000]);
    let timeline = simulate(&model, &Options::new(What::System, 16_000)).unwrap();
    assert!(timeline.misses().is_empty());
    assert_eq!(timeline.busy(0), 16_000);
    tasks(&mut model, id, &[(8000, 1, 8000)]);
    let timeline = simulate(&model, &Options::new(What::System, 8_001)).unwrap();
    assert_eq!(timeline.misses().len(), 1, "one tick too much");
}

#[test]
fn an_interface_must_be_there() {
    let mut model = system(1);
    let plan = Plan::Find {
        periods: model::Periods::One(NS(10)),
        window: model::Window::Period,
    };
    let id = model.add(Component::new("vm", Home::Pool(PoolId(0)), plan));
    tasks(&mut model, id, &[(20, 1, 20)]);
    let mut options = Options::new(What::System, 10);
    let refused = simulate(&model, &options);
    assert_eq!(refused, Err(SimError::NoInterface("vm".into())));
    options.interfaces.insert(id, interface(10, 2, 10));
    assert!(simulate(&model, &options).is_ok());
}
