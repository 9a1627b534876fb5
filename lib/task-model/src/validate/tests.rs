use super::*;
use crate::{ComponentId, CoreId, Priority};
use std::string::ToString;
use std::vec;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

fn sound() -> Model {
    let mut model = Model::new(
        Nanos::from_micros(1),
        vec![Pool::new("rt", [CoreId(0), CoreId(1)])],
    );
    let given = Plan::Given(ResourceInterface::periodic(MS(10), MS(4)));
    let group = model.add(Component::new("group", Home::Pool(PoolId(0)), given));
    let find = Plan::Find {
        periods: Periods::One(MS(5)),
        window: Window::Period,
    };
    let vm = model.add(Component::new("vm", Home::Component(group), find));
    model.add_task(Task::new("control", vm, MS(20), MS(2)));
    model
}

/// The faults, as text, of the valid model after `change`.
fn faults(change: impl FnOnce(&mut Model)) -> Vec<std::string::String> {
    let mut model = sound();
    change(&mut model);
    let found = model.validate().err().unwrap_or_default();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_model_is_sound() {
    assert!(faults(|_| ()).is_empty());
}

#[test]
fn times_at_the_edges_are_refused_by_name() {
    let zero = faults(|model| model.tasks[0].period = Nanos::ZERO);
    assert_eq!(zero, ["task control of vm: the period is zero"]);
    let huge = faults(|model| model.tasks[0].deadline = Nanos::new(u64::MAX));
    assert_eq!(
        huge,
        ["task control of vm: the deadline is longer than 36 years"]
    );
    let huge = faults(|model| model.tasks[0].jitter = Nanos::new(u64::MAX));
    assert_eq!(
        huge,
        ["task control of vm: the jitter is longer than 36 years"]
    );
    assert!(faults(|model| model.tasks[0].deadline = Nanos::MAX).is_empty());
    let tick = faults(|model| model.tick = Nanos::ZERO);
    assert_eq!(tick, ["the model: the tick is zero"]);
}

#[test]
fn interfaces_must_hold_together() {
    let with = |interface| faults(|model| model.components[0].plan = Plan::Given(interface));
    let over = with(ResourceInterface::periodic(MS(10), MS(11)));
    let text = "component group: the budget, 11ms, is longer than the deadline, 10ms";
    assert_eq!(over, [text]);
    let mut late = ResourceInterface::periodic(MS(10), MS(1));
    late.deadline = MS(12);
    let text = "component group: the deadline, 12ms, is longer than the period, 10ms";
    assert_eq!(with(late), [text]);
    let odd = with(ResourceInterface::periodic(MS(10), Nanos::new(1_500)));
    let text = "component group: the budget, 1500ns, is no whole number of ticks of 1us";
    assert_eq!(odd, [text]);
}

#[test]
fn periods_to_search_must_hold_a_tick() {
    let periods = |least, most| {
        faults(|model| {
            model.components[1].plan = Plan::Find {
                periods: Periods::Range { least, most },
                window: Window::Budget,
            }
        })
    };
    assert!(periods(MS(1), MS(2)).is_empty());
    assert_eq!(periods(Nanos::new(1_100), Nanos::new(1_900)).len(), 1);
    assert_eq!(periods(MS(2), MS(1)).len(), 1);
    assert_eq!(periods(Nanos::ZERO, MS(1)).len(), 1);
    assert_eq!(periods(Nanos::new(u64::MAX), Nanos::new(u64::MAX)).len(), 1);
}

#[test]
fn homes_must_exist_and_end_at_a_pool() {
    let circle = faults(|model| model.components[0].home = Home::Component(ComponentId(1)));
    assert_eq!(circle.len(), 2, "{circle:?}");
    assert!(circle[0].contains("inside itself"), "{circle:?}");
    let lost = faults(|model| model.components[0].home = Home::Pool(PoolId(7)));
    assert_eq!(lost, ["component group: its home does not exist"]);
    let lost = faults(|model| model.tasks[0].component = ComponentId(9));
    let texts = [
        "component vm: it holds neither tasks nor components, so that its least interface is nothing",
        "task control of no component: its component does not exist",
    ];
    assert_eq!(lost, texts);
}

#[test]
fn names_are_there_and_unique() {
    let same = faults(|model| model.components[1].name = "group".into());
    assert_eq!(same, ["component group: another one has the same name"]);
    let none = faults(|model| model.tasks[0].name.clear());
    assert_eq!(none, ["task  of vm: it has no name"]);
}

#[test]
fn cores_belong_to_one_pool() {
    let twice = faults(|model| model.pools.push(Pool::new("other", [CoreId(1)])));
    assert_eq!(
        twice,
        ["pool other: core 1 is in another pool, too, or twice in this one"]
    );
    let none = faults(|model| model.pools[0].cores.clear());
    assert!(
        none.contains(&"pool rt: it has no cores".into()),
        "{none:?}"
    );
    let other = faults(|model| model.components[0].core = Some(CoreId(7)));
    assert_eq!(other, ["component group: core 7 is not in its pool"]);
}

#[test]
fn several_cpus_have_rules_of_their_own() {
    let two = |model: &mut Model| model.components[1].cpus = 2;
    assert_eq!(faults(two).len(), 1);
    let at_root = |model: &mut Model| {
        two(model);
        model.components[1].home = Home::Pool(PoolId(0));
    };
    assert!(faults(at_root).is_empty());
    let fixed = faults(|model| {
        at_root(model);
        model.components[1].policy = Policy::RateMonotonic;
    });
    assert_eq!(
        fixed,
        ["component vm: several CPUs together are scheduled by EDF alone"]
    );
    let many = faults(|model| {
        at_root(model);
        model.components[1].cpus = 3;
    });
    assert_eq!(many, ["component vm: it has 3 CPUs, and its pool 2 cores"]);
}

#[test]
fn fixed_priorities_must_be_there() {
    let fixed = |model: &mut Model| model.components[1].policy = Policy::FixedPriority;
    assert_eq!(
        faults(fixed),
        ["task control of vm: it has no priority, and fixed priorities decide here"]
    );
    let given = faults(|model| {
        fixed(model);
        model.tasks[0].priority = Some(Priority(0));
    });
    assert!(given.is_empty());
}

#[test]
fn a_long_chain_needs_no_recursion() {
    let mut model = sound();
    for level in 0..20_000 {
        let home = Home::Component(ComponentId(model.components.len() as u32 - 1));
        let given = Plan::Given(ResourceInterface::periodic(MS(10), MS(1)));
        model.add(Component::new(std::format!("level-{level}"), home, given));
    }
    assert_eq!(model.validate(), Ok(()));
    let order = model.bottom_up();
    assert_eq!(order.len(), model.components.len());
    assert_eq!(order.last(), Some(&ComponentId(0)));
}

/// The faults of a component of the valid model after `change`: of the group, or of the VM in it.
fn faults_of(index: usize, change: impl FnOnce(&mut Model)) -> Vec<Fault> {
    let mut model = sound();
    change(&mut model);
    let found = model.validate().err().unwrap_or_default();
    let about = |error: &ModelError| match &error.subject {
        Subject::Component(id, _) => id.0 as usize == index,
        _ => false,
    };
    let found = found.into_iter().filter(about);
    found.map(|error| error.fault).collect()
}

#[test]
fn a_model_has_so_many_members_and_no_more() {
    assert_eq!(few("tasks", 0), Ok(()));
    assert_eq!(few("tasks", MAX_MEMBERS), Ok(()));
    for more in [MAX_MEMBERS + 1, MAX_MEMBERS + 2, usize::MAX] {
        assert_eq!(few("tasks", more), Err(Fault::TooMany("tasks")));
    }
}

/// Priorities are required among the members of a home that schedules by them, a pool as well as a
/// component.
#[test]
fn components_need_priorities_where_these_decide() {
    let by_priority = |model: &mut Model| model.pools[0].policy = Policy::FixedPriority;
    assert_eq!(faults_of(0, by_priority), [Fault::NoPriority]);
    assert_eq!(faults_of(1, by_priority), []);
    let in_group = |model: &mut Model| model.components[0].policy = Policy::FixedPriority;
    assert_eq!(faults_of(0, in_group), []);
    assert_eq!(faults_of(1, in_group), [Fault::NoPriority]);
    for policy in [
        Policy::Edf,
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
    ] {
        let other = |model: &mut Model| {
            model.pools[0].policy = policy;
            model.components[0].policy = policy;
        };
        assert!(faults(other).is_empty(), "{policy:?}");
    }
    let given = |model: &mut Model| {
        by_priority(model);
        model.components[0].priority = Some(Priority(3));
    };
    assert!(faults(given).is_empty());
}

#[test]
fn some_servers_have_their_deadline_at_the_period_s_end() {
    use crate::Server::{ConstantBandwidth, Deferrable, Periodic, Polling, SoftBandwidth};
    let mut early = ResourceInterface::periodic(MS(10), MS(4));
    early.deadline = MS(8);
    let find = |window| Plan::Find {
        periods: Periods::One(MS(10)),
        window,
    };
    let longest = Plan::Longest {
        period: MS(10),
        budget: MS(4),
    };
    for (plan, at_end) in [
        (
            Plan::Given(ResourceInterface::periodic(MS(10), MS(4))),
            true,
        ),
        (Plan::Given(early), false),
        (find(Window::Period), true),
        (find(Window::Budget), false),
        (find(Window::Longest), false),
        (longest, false),
    ] {
        for (server, anywhere) in [
            (Periodic, true),
            (Polling, true),
            (Deferrable, false),
            (ConstantBandwidth, false),
            (SoftBandwidth, false),
        ] {
            let found = faults_of(1, |model| {
                model.components[1].plan = plan;
                model.components[1].server = server;
            });
            let wanted: &[Fault] = if anywhere || at_end {
                &[]
            } else {
                &[Fault::ServerWindow]
            };
            assert_eq!(found, wanted, "{plan:?} {server:?}");
        }
    }
}

/// Only a partitioned pool assigns cores, one to each component with one CPU. Only tasks are spread
/// over several CPUs, and only a pool has several to give.
#[test]
fn cores_are_handed_out_where_there_are_some() {
    let wish =
        |index: usize| move |model: &mut Model| model.components[index].core = Some(CoreId(1));
    let wide = |index: usize| move |model: &mut Model| model.components[index].cpus = 2;
    let global = |model: &mut Model| model.pools[0].mode = Mode::Global;
    assert_eq!(faults_of(0, wish(0)), []);
    assert_eq!(faults_of(1, wish(1)), [Fault::NoCoreToChoose]);
    assert_eq!(faults_of(1, wide(0)), [Fault::ParallelGroup]);
    assert_eq!(faults_of(1, wide(1)), [Fault::ParallelInGroup]);
    for (spread, cpus) in [(true, 1), (false, 2), (true, 2)] {
        let found = faults_of(0, |model| {
            wish(0)(model);
            model.components[0].cpus = cpus;
            if spread {
                global(model);
            }
        });
        assert_eq!(found, [Fault::NoCoreToChoose], "{spread} {cpus}");
    }
    assert!(faults(global).is_empty());
    assert!(faults_of(0, wide(0)).is_empty());
}

#[test]
fn components_are_found_by_their_names() {
    let model = sound();
    assert_eq!(model.find("group"), Some(ComponentId(0)));
    assert_eq!(model.find("vm"), Some(ComponentId(1)));
    assert_eq!(model.find("control"), None);
    assert_eq!(CoreId(7).to_string(), "7");
}
