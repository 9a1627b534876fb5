//! Tests refusals: who is late, when and by how much, against demand and supply counted instant by
//! instant; and that proposed changes are no larger than necessary.

use crate::common::{ROOT, Random, given, model, ns, vm};
use hanok_analysis::{Analysis, Change, Refutation, RefutedAt, Verdict, analyse};
use hanok_task_model::{
    ComponentId, Home, Member, Model, Nanos, Plan, Policy, PoolId, Task, TaskId,
};

/// What a member asks for: period, execution, and the window from its release.
#[derive(Clone, Copy, Debug)]
struct Asked {
    member: Member,
    period: u64,
    execution: u64,
    deadline: u64,
    jitter: u64,
    periodic: bool,
}

/// The members of the first component, computed from the model alone.
fn asked(model: &Model) -> Vec<Asked> {
    let cost = model.cost.per_period().get();
    let inner = model.ids().skip(1);
    let mut all: Vec<Asked> = Vec::new();
    let among = model.components.len() > 1;
    for (id, task) in (0..).map(TaskId).zip(&model.tasks) {
        if task.component == ComponentId(0) {
            all.push(Asked {
                member: Member::Task(id),
                period: task.period.get(),
                execution: task.execution.get() + if among { cost } else { 0 },
                deadline: task.deadline.get(),
                jitter: task.jitter.get(),
                periodic: false,
            });
        }
    }
    for (id, component) in inner {
        let Plan::Given(interface) = component.plan else {
            panic!("all are given");
        };
        all.push(Asked {
            member: Member::Component(id),
            period: interface.period.get(),
            execution: interface.budget.get() + cost,
            deadline: interface.deadline.get(),
            jitter: 0,
            periodic: true,
        });
    }
    all
}

/// The work of jobs that are released and due within `t`, counted one by one.
fn due(one: &Asked, t: u64) -> u64 {
    let mut at = one.deadline as i64 - one.jitter as i64;
    let mut sum = 0;
    while at <= t as i64 {
        sum += one.execution;
        at += one.period as i64;
    }
    sum
}

/// The work that a lower member waits for until `t`: jobs that were released before its end, the
/// first one as late as possible.
fn released(one: &Asked, t: u64) -> u64 {
    let mut at = -(one.jitter as i64);
    let mut sum = 0;
    while at < t as i64 {
        sum += one.execution;
        at += one.period as i64;
    }
    sum
}

/// The least supply of the first component's interface within each time up to `until`: from the end
/// of a budget that was supplied at once, and late in each period from then on. `aligned` counts
/// from the start of a period.
fn supplied(model: &Model, aligned: bool, until: u64) -> Vec<u64> {
    let Plan::Given(interface) = model.components[0].plan else {
        panic!("it is given");
    };
    let [period, budget, deadline] =
        [interface.period, interface.budget, interface.deadline].map(Nanos::get);
    let from = if aligned { 0 } else { budget };
    let mut sums = vec![0];
    for now in from..from + until {
        let begun = now % period;
        let late = begun >= deadline - budget && begun < deadline;
        let first = !aligned && now < period;
        sums.push(sums[sums.len() - 1] + u64::from(late && !first));
    }
    sums
}

/// A component with tasks, sometimes with components beside them, with an interface that may be too
/// little.
fn refusable(random: &mut Random) -> Model {
    let mut model = model(2);
    model.tick = ns(random.pick(&[1, 1, 5]));
    model.cost.switch = ns(random.pick(&[0, 0, 1, 3]));
    let tick = model.tick.get();
    let period = 20 + 10 * random.below(5);
    let budget = 10 + 5 * random.below((period - 10) / 5 + 1);
    let deadline = match random.below(3) {
        0 => budget + 5 * random.below((period - budget) / 5 + 1),
        _ => period,
    };
    let policies = [
        Policy::Edf,
        Policy::Edf,
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
    ];
    let policy = random.pick(&policies);
    let tasks: Vec<_> = (0..1 + random.below(3))
        .map(|_| {
            let period = random.pick(&[40, 60, 80, 100, 150, 200]);
            let execution = 1 + random.below(period / 3);
            let deadline = match random.below(4) {
                0 => period + random.below(30),
                1 => execution + random.below(period - execution),
                _ => period,
            };
            (period, execution, deadline.max(execution))
        })
        .collect();
    let outer = vm(
        &mut model,
        ROOT,
        given(period, budget, deadline),
        policy,
        &tasks,
    );
    for task in &mut model.tasks {
        let most = (task.deadline.get() - task.execution.get()).min(8);
        task.jitter = ns(random.pick(&[0, 0, random.0 % (most + 1)]));
    }
    if random.below(2) == 0 {
        let period = random.pick(&[period, 2 * period, 50, 100]);
        let budget = 5 * (1 + random.below(period / 15));
        let deadline = random.pick(&[period, budget + 5]).min(period);
        let inner = given(period, budget, deadline);
        let home = Home::Component(outer);
        vm(&mut model, home, inner, Policy::Edf, &[(1_000, 1, 1_000)]);
        if random.below(4) == 0 {
            model.tasks.retain(|task| task.component != outer);
        }
    }
    assert!(tick > 0);
    model
}

/// The first component's refusal, if it is refused.
fn refused(model: &Model) -> Option<(Analysis, Refutation)> {
    let analysis = analyse(model).ok()?;
    let of_first =
        |found: &&Refutation| matches!(found.place, RefutedAt::Component(ComponentId(0)));
    let found = analysis.refutations.iter().find(of_first).cloned();
    found.map(|found| (analysis, found))
}

/// Whether the first component's members keep their deadlines.
fn kept(model: &Model) -> bool {
    let analysis = analyse(model).unwrap();
    matches!(analysis.components[0], Verdict::Proven(_))
}

/// Long enough for the first miss of any of these models.
const LONG: u64 = 30_000;

#[test]
fn what_is_late_is_said_as_it_is() {
    let mut random = Random(0x1a7e);
    let (mut edf, mut fixed, mut groups, mut aligned) = (0, 0, 0, 0);
    while edf < 150 || fixed < 100 || groups < 40 || aligned < 10 {
        let model = refusable(&mut random);
        let Some((_, found)) = refused(&model) else {
            continue;
        };
        let members = asked(&model);
        let Plan::Given(interface) = model.components[0].plan else {
            panic!("it is given");
        };
        let period = interface.period.get();
        let together = members
            .iter()
            .all(|one| one.periodic && one.period.is_multiple_of(period));
        let supply = supplied(&model, together, LONG);
        let at = found.at.get();
        groups += usize::from(model.components.len() > 1);
        aligned += usize::from(together);
        assert_eq!(
            found.supply,
            supply[at as usize].into(),
            "{model:#?} {found:?}"
        );
        assert!(found.shortfall() > 0, "{model:#?} {found:?}");
        assert_eq!(found.shortfall(), found.demand - found.supply);
        assert_eq!(found.vcpu, None);
        let policy = model.components[0].policy;
        if policy == Policy::Edf {
            edf += 1;
            let demand = |t| members.iter().map(|one| due(one, t)).sum::<u64>();
            let first = (0..LONG).find(|t| demand(*t) > supply[*t as usize]);
            assert_eq!(first, Some(at), "{model:#?} {found:?}");
            assert_eq!(found.demand, demand(at).into());
            let is_due = |one: &&Asked| at == 0 || due(one, at) > due(one, at - 1);
            let most = members.iter().filter(is_due).map(|one| one.execution).max();
            let own = members.iter().find(|one| one.member == found.member);
            assert_eq!(own.map(|one| one.execution), most, "{model:#?} {found:?}");
            assert!(own.is_some_and(|one| is_due(&one)), "{model:#?} {found:?}");
            assert!(found.certain);
            continue;
        }
        fixed += 1;
        let mut ranked = members;
        match policy {
            Policy::RateMonotonic => ranked.sort_by_key(|one| one.period),
            _ => ranked.sort_by_key(|one| one.deadline),
        }
        let requested = |place: usize, t: u64| {
            let higher = ranked[..place].iter().map(|one| released(one, t));
            higher.sum::<u64>() + ranked[place].execution
        };
        let window = |place: usize| {
            let one = &ranked[place];
            one.deadline.min(one.period).saturating_sub(one.jitter)
        };
        let in_time =
            |place: usize| (1..=window(place)).any(|t| requested(place, t) <= supply[t as usize]);
        let first = (0..ranked.len()).find(|place| !in_time(*place));
        let place = first.expect("one is late");
        assert_eq!(found.member, ranked[place].member, "{model:#?} {found:?}");
        assert_eq!(at, window(place), "{model:#?} {found:?}");
        assert_eq!(
            found.demand,
            requested(place, at.max(1)).into(),
            "{model:#?}"
        );
        let own = &ranked[place];
        assert_eq!(found.certain, own.deadline <= own.period, "{model:#?}");
    }
}

/// The model with `change`, and the model with a change of the same kind that is a step smaller;
/// `None` where the change cannot be made by hand.
fn with(model: &Model, change: Change) -> Option<(Model, Model)> {
    let tick = model.tick.get();
    let (mut this, mut less) = (model.clone(), model.clone());
    let plan = |model: &mut Model, id: ComponentId, change: &dyn Fn(&mut [u64; 3])| {
        if let Plan::Given(interface) = &mut model.components[id.0 as usize].plan {
            let mut all = [interface.period, interface.budget, interface.deadline].map(Nanos::get);
            change(&mut all);
            let [period, budget, deadline] = all.map(ns);
            (interface.period, interface.budget, interface.deadline) = (period, budget, deadline);
        }
    };
    match change {
        Change::Budget(id, to) => {
            plan(&mut this, id, &|all| all[1] = to.get());
            plan(&mut less, id, &|all| all[1] = to.get() - tick);
        }
        Change::Period(id, to) => {
            let set = |to: u64| {
                move |all: &mut [u64; 3]| {
                    all[2] = if all[2] == all[0] { to } else { all[2] };
                    all[0] = to;
                }
            };
            plan(&mut this, id, &set(to.get()));
            plan(&mut less, id, &set(to.get() + tick));
        }
        Change::MaxBudget(id, to) => {
            for model in [&mut this, &mut less] {
                model.tasks.retain(|task| task.component != id);
                let idle = Task::new("idle", id, ns(1_000_000), ns(1));
                model.add_task(idle);
            }
            // The content of the component does not matter to the one around it, but must be kept.
            plan(&mut this, id, &|all| all[1] = to.get());
            plan(&mut less, id, &|all| all[1] = to.get() + tick);
        }
        Change::Apart(id) => {
            this.components[id.0 as usize].home = Home::Pool(PoolId(0));
        }
        Change::Execution(TaskId(task), to) => {
            this.tasks[task as usize].execution = to;
            less.tasks[task as usize].execution = ns(to.get() + 1);
        }
        Change::TaskPeriod(TaskId(task), to) => {
            let set = |model: &mut Model, to: u64| {
                let task = &mut model.tasks[task as usize];
                if task.deadline == task.period {
                    task.deadline = ns(to);
                }
                task.period = ns(to);
            };
            set(&mut this, to.get());
            set(&mut less, to.get() - 1);
        }
        Change::Core(_) => return None,
    }
    Some((this, less))
}

/// The size of a change, relative to the larger value.
fn size(model: &Model, change: Change) -> f64 {
    let of = |id: ComponentId| match model.components[id.0 as usize].plan {
        Plan::Given(interface) => interface,
        _ => panic!("all are given"),
    };
    let task = |TaskId(task): TaskId| &model.tasks[task as usize];
    let (from, to) = match change {
        Change::Budget(id, to) | Change::MaxBudget(id, to) => (of(id).budget, to),
        Change::Period(id, to) => (of(id).period, to),
        Change::Execution(id, to) => (task(id).execution, to),
        Change::TaskPeriod(id, to) => (task(id).period, to),
        Change::Apart(_) | Change::Core(_) => return 1.0,
    };
    let (from, to) = (from.get() as f64, to.get() as f64);
    (from - to).abs() / from.max(to)
}

/// Each change suffices, and a step less of it does not. Where a kind of change is not offered, no
/// change of that kind suffices. The smallest change comes first. Among equals the model's order
/// decides, also for a task that comes down from a higher priority: a period as long as the earlier
/// task's suffices, and need not be longer.
#[test]
fn a_longer_period_may_end_at_another_task_s() {
    let mut model = model(1);
    model.cost.switch = ns(1);
    let tasks = [(100, 4, 58), (150, 15, 75), (40, 12, 40)];
    vm(
        &mut model,
        ROOT,
        given(20, 10, 20),
        Policy::RateMonotonic,
        &tasks,
    );
    let (_, found) = refused(&model).expect("it is refused");
    let is_longer = |change: &&Change| matches!(change, Change::TaskPeriod(TaskId(2), _));
    let longer = found.changes.iter().find(is_longer).copied();
    let longer = longer.expect("a longer period is offered");
    let (this, less) = with(&model, longer).expect("it can be made");
    assert!(kept(&this) && !kept(&less), "{longer:?}");
}

#[test]
fn changes_are_no_larger_than_they_have_to_be() {
    let mut random = Random(0x0c_4a6e);
    let mut counts = [0; 6];
    let mut refusals = 0;
    while refusals < 300 || counts.iter().any(|count| *count < 5) {
        let model = refusable(&mut random);
        let Some((_, found)) = refused(&model) else {
            continue;
        };
        refusals += 1;
        let mut offered = [false; 6];
        for change in &found.changes {
            let kind = match change {
                Change::Budget(..) => 0,
                Change::Period(..) => 1,
                Change::Execution(..) => 2,
                Change::TaskPeriod(..) => 3,
                Change::MaxBudget(..) => 4,
                Change::Apart(..) => 5,
                Change::Core(..) => panic!("no component is helped by a core"),
            };
            counts[kind] += 1;
            offered[kind] = true;
            let (this, less) = with(&model, *change).expect("it can be made");
            assert!(kept(&this), "{change:?} {model:#?}");
            let too_little = less.validate().is_err() || !kept(&less);
            assert!(too_little, "{change:?} {model:#?}");
        }
        let sizes: Vec<f64> = found.changes.iter().map(|c| size(&model, *c)).collect();
        let rising = sizes.is_sorted_by(|a, b| a <= &(b + 2e-6));
        assert!(rising, "{:?} {sizes:?}", found.changes);
        let Plan::Given(interface) = model.components[0].plan else {
            panic!("it is given");
        };
        let suffices = |change| with(&model, change).is_some_and(|(this, _)| kept(&this));
        let first = ComponentId(0);
        let most = interface.deadline.get() / model.tick.get() * model.tick.get();
        assert_eq!(
            offered[0],
            suffices(Change::Budget(first, ns(most))),
            "{model:#?}"
        );
        if let Member::Task(task) = found.member {
            let own = &model.tasks[task.0 as usize];
            let least = Change::Execution(task, ns(1));
            let most = Change::TaskPeriod(task, ns(own.period.get() * 64));
            assert_eq!(
                offered[2],
                own.execution.get() > 1 && suffices(least),
                "{model:#?}"
            );
            assert_eq!(offered[3], suffices(most), "{model:#?}");
            assert!(!offered[4] && !offered[5], "{model:#?}");
        } else {
            assert!(!offered[2] && !offered[3], "{model:#?}");
        }
    }
}
