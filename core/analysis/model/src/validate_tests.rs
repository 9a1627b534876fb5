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
    let given = Plan::Given(Interface::periodic(MS(10), MS(4)));
    let group = model.add(Component::new("group", Home::Pool(PoolId(0)), given));
    let find = Plan::Find {
        periods: Periods::One(MS(5)),
        window: Window::Period,
    };
    let vm = model.add(Component::new("vm", Home::Component(group), find));
    model.add_task(Task::new("control", vm, MS(20), MS(2)));
    model
}

/// The faults of the sound model after `change`, as text.
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
    let over = with(Interface::periodic(MS(10), MS(11)));
    let text = "component group: the budget, 11ms, is longer than the deadline, 10ms";
    assert_eq!(over, [text]);
    let mut late = Interface::periodic(MS(10), MS(1));
    late.deadline = MS(12);
    let text = "component group: the deadline, 12ms, is longer than the period, 10ms";
    assert_eq!(with(late), [text]);
    let odd = with(Interface::periodic(MS(10), Nanos::new(1_500)));
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
        let given = Plan::Given(Interface::periodic(MS(10), MS(1)));
        model.add(Component::new(std::format!("level-{level}"), home, given));
    }
    assert_eq!(model.validate(), Ok(()));
    let order = model.bottom_up();
    assert_eq!(order.len(), model.components.len());
    assert_eq!(order.last(), Some(&ComponentId(0)));
}
