//! Tests whole models: composition, several cores, refusals, and extreme input.

use crate::common::{ROOT, Random, find, given, model, ns, random, range, vm};
use hanok_analysis::supply::SupplyStart;
use hanok_analysis::{
    Analysis, Change, Placement, Refutation, RefutedAt, Undecided, Verdict, Work, analyse, decide,
};
use hanok_certificate_checker::check;
use hanok_task_model::{
    ComponentId, CoreId, Home, Member, Mode, Model, Nanos, Periods, Plan, Policy, TaskId, Vcpu,
    Window,
};

/// The number of steps that the analysis takes. A step is a look at one member.
fn steps(model: &Model) -> u64 {
    let mut work = Work::new(Work::MODEL);
    decide(model, &mut work).unwrap();
    Work::MODEL - work.left()
}

/// Analyses the model, and lets the checker verify the result.
fn analysed(model: &Model) -> Analysis {
    let analysis = analyse(model).unwrap();
    if let Some(certificate) = analysis.certificate() {
        assert_eq!(check(model, &certificate), Ok(()));
    }
    analysis
}

fn interface(analysis: &Analysis, id: ComponentId) -> [u64; 3] {
    let found = analysis.interface(id).expect("an interface");
    [found.period, found.budget, found.deadline].map(Nanos::get)
}

#[test]
fn a_component_composed_of_itself_is_unchanged() {
    let windows = [Window::Period, Window::Budget, Window::Longest];
    for (window, policy) in windows
        .into_iter()
        .flat_map(|w| [Policy::Edf, Policy::RateMonotonic].map(|policy| (w, policy)))
    {
        let mut model = model(1);
        let mut home = ROOT;
        let mut groups = Vec::new();
        for _ in 0..6 {
            let id = vm(&mut model, home, find(10_000, window), policy, &[]);
            groups.push(id);
            home = Home::Component(id);
        }
        let tasks = [(50_000, 7_000, 50_000), (75_000, 9_000, 75_000)];
        let leaf = vm(&mut model, home, find(10_000, window), policy, &tasks);
        let analysis = analysed(&model);
        assert!(analysis.certificate().is_some());
        let own = interface(&analysis, leaf);
        for group in groups {
            assert_eq!(interface(&analysis, group), own, "{window:?} {policy:?}");
        }
    }
}

/// Rounding loses nothing but what the timer cannot do: a tick less never suffices.
#[test]
fn whole_ticks_are_the_next_after_the_exact_budget() {
    let mut model = model(1);
    model.tick = ns(1_000);
    let tasks = [(50_000, 7_000, 50_000), (75_000, 9_000, 75_000)];
    let id = vm(
        &mut model,
        ROOT,
        find(10_000, Window::Period),
        Policy::Edf,
        &tasks,
    );
    let analysis = analysed(&model);
    assert_eq!(interface(&analysis, id), [10_000, 3_000, 10_000]);
    let certificate = analysis.certificate().unwrap();
    let exact = certificate.components[0].exact.clone().unwrap();
    assert_eq!(
        (exact.budget.numerator, exact.budget.denominator),
        (19_500, 7)
    );
}

#[test]
fn the_longest_deadline_is_taken_where_a_published_tool_is_wrong() {
    let mut model = model(1);
    let tasks = [(200, 28, 200), (300, 36, 300)];
    let id = vm(&mut model, ROOT, given(120, 32, 92), Policy::Edf, &tasks);
    let analysis = analysed(&model);
    let refutation = &analysis.refutations[0];
    assert_eq!(refutation.at, ns(400));
    assert_eq!(
        (refutation.demand, refutation.supply, refutation.shortfall()),
        (92, 76, 16)
    );
    assert!(refutation.certain);
    model.components[id.0 as usize].plan = given(120, 32, 36);
    assert!(analysed(&model).certificate().is_some());
    model.components[id.0 as usize].plan = given(120, 32, 37);
    assert!(analysed(&model).certificate().is_none());
}

/// The task (P, B, P + L - B) has the same demand as the interface (P, B, L) has supply, and has
/// been proposed for it under EDF. But a server with that deadline is not the interface: with (4,
/// 1, 1) it may be served at 0 and then at 7, in a schedule that keeps all of its deadlines, and a
/// task (4, 1) that arrives at 1 misses its deadline.
#[test]
fn an_interface_is_a_task_with_its_own_deadline() {
    // The schedule: servers (4, 1) with the deadline 4 + 1 - 1 and (4, 3) with the deadline 4,
    // which are equal under EDF.
    let schedule = [0, 1, 1, 1, 1, 1, 1, 0];
    for (server, budget) in [(0, 1), (1, 3)] {
        for period in schedule.chunks(4) {
            let served = period.iter().filter(|who| **who == server).count();
            assert_eq!(served, budget);
        }
    }
    // What the task that arrives at 1 gets until 5, and what the interface promises.
    let had = schedule[1..5].iter().filter(|who| **who == 0).count();
    let promise = hanok_analysis::supply::Supply::new(4, 1, 1, SupplyStart::Anywhere);
    assert_eq!((had, promise.within(4)), (0, Ok(1.into())));
    // The analysis accepts the interface for the task, and so must refuse it beside (4, 3, 3).
    let mut model = model(1);
    vm(&mut model, ROOT, given(4, 1, 1), Policy::Edf, &[(4, 1, 4)]);
    let other = vm(&mut model, ROOT, given(4, 3, 3), Policy::Edf, &[]);
    let analysis = analysed(&model);
    assert!(analysis.interface(ComponentId(0)).is_some());
    assert_eq!(analysis.refutations[0].at, ns(3));
    // Beside (4, 3, 4) both keep their deadlines: 0 at 1, and the other at 4.
    model.components[other.0 as usize].plan = given(4, 3, 4);
    assert!(analysed(&model).certificate().is_some());
}

#[test]
fn switching_costs_are_paid_by_the_parent() {
    let mut model = model(1);
    model.cost.switch = ns(2);
    model.cost.refill = ns(3);
    let full = given(100, 90, 100);
    vm(&mut model, ROOT, full, Policy::Edf, &[]);
    assert!(analysed(&model).certificate().is_some());
    model.cost.refill = ns(4);
    let analysis = analysed(&model);
    let refutation = &analysis.refutations[0];
    assert_eq!((refutation.demand, refutation.supply), (102, 100));
    assert_eq!(
        refutation.changes[0],
        Change::MaxBudget(ComponentId(0), ns(88))
    );
    // An urgent interface leaves time for the switches within its deadline.
    model.components[0].plan = find(100, Window::Budget);
    model.add_task(hanok_task_model::Task::new(
        "t",
        ComponentId(0),
        ns(1_000),
        ns(100),
    ));
    let [_, budget, deadline] = interface(&analysed(&model), ComponentId(0));
    assert_eq!(deadline, budget + 12);
}

#[test]
fn the_cheapest_period_weighs_budget_against_switches() {
    let tasks = [(500_000, 70_000, 500_000), (750_000, 90_000, 750_000)];
    let cheapest = |cost: u64| {
        let mut model = model(1);
        model.tick = ns(100);
        model.cost.switch = ns(cost);
        let plan = range(1_000, 400_000, Window::Period);
        let id = vm(&mut model, ROOT, plan, Policy::Edf, &tasks);
        interface(&analysed(&model), id)
    };
    let (free, cheap, dear) = (cheapest(0), cheapest(500), cheapest(5_000));
    assert!(
        free[0] < cheap[0] && cheap[0] < dear[0],
        "{free:?} {cheap:?} {dear:?}"
    );
    // No period of the range, tried in steps of a tick, is cheaper by much.
    let share = |[period, budget, _]: [u64; 3]| (budget + 1_000) as f64 / period as f64;
    let mut best = f64::MAX;
    for period in (1_000..400_000).step_by(700) {
        let mut model = model(1);
        model.tick = ns(100);
        model.cost.switch = ns(500);
        let id = vm(
            &mut model,
            ROOT,
            find(period, Window::Period),
            Policy::Edf,
            &tasks,
        );
        best = best.min(share(interface(&analysed(&model), id)));
    }
    assert!(share(cheap) <= best * 1.005, "{} {best}", share(cheap));
}

#[test]
fn components_are_placed_on_cores() {
    let mut model = model(2);
    for budget in [60, 50, 40, 30, 20] {
        vm(&mut model, ROOT, given(100, budget, 100), Policy::Edf, &[]);
    }
    let certificate = analysed(&model).certificate().unwrap();
    assert_eq!(certificate.cores.len(), 2);
    model.components[4].core = Some(CoreId(1));
    model.components[0].core = Some(CoreId(1));
    model.components[1].core = Some(CoreId(1));
    let analysis = analysed(&model);
    let Placement::Refused(refusal) = &analysis.pools[0] else {
        panic!("{:?}", analysis.pools);
    };
    assert_eq!(refusal.core, Some(CoreId(1)));
}

#[test]
fn more_than_the_cores_is_refused_for_certain() {
    let mut model = model(2);
    for _ in 0..3 {
        vm(&mut model, ROOT, given(100, 70, 100), Policy::Edf, &[]);
    }
    let analysis = analysed(&model);
    let refutation = &analysis.refutations[0];
    assert!(refutation.certain);
    let vcpu = Vcpu {
        component: ComponentId(2),
        cpu: 0,
    };
    assert_eq!(refutation.vcpu, Some(vcpu));
    assert_eq!(refutation.shortfall(), 40);
    assert_eq!(
        refutation.changes[0],
        Change::MaxBudget(ComponentId(2), ns(30))
    );
}

#[test]
fn first_fit_is_not_the_last_word() {
    // First fit decreasing puts 44 and 32 together, and then needs a third core. There is a
    // placement on two: 44 + 32 + 24 and 36 + 34 + 30.
    let mut model = model(2);
    for budget in [44, 36, 34, 32, 30, 24] {
        vm(&mut model, ROOT, given(100, budget, 100), Policy::Edf, &[]);
    }
    assert!(analysed(&model).certificate().is_some());
}

#[test]
fn several_cpus_are_global() {
    let mut model = model(4);
    model.pools[0].mode = Mode::Global;
    let tasks = [
        (1_000, 300, 1_000),
        (1_000, 300, 1_000),
        (2_000, 500, 2_000),
    ];
    let id = vm(
        &mut model,
        ROOT,
        find(100, Window::Period),
        Policy::Edf,
        &tasks,
    );
    model.components[id.0 as usize].cpus = 2;
    let analysis = analysed(&model);
    let [_, budget, _] = interface(&analysis, id);
    // 0.85 CPUs are needed in the long run, and two exist.
    assert!((85..=200).contains(&budget), "{budget}");
    assert!(analysis.certificate().is_some());
    model.components[id.0 as usize].plan = given(100, 85, 100);
    let analysis = analysed(&model);
    assert!(!analysis.refutations[0].certain);
    // The proposed budget is the least that the search finds.
    let changes = &analysis.refutations[0].changes;
    assert!(
        changes.contains(&Change::Budget(id, ns(budget))),
        "{changes:?}"
    );
}

/// The proposed changes of a refusal are no guesses: with each of them, the refused component is
/// admitted.
#[test]
fn every_proposed_change_helps() {
    let mut random_ = Random(0xc4a2e);
    let mut tried = 0;
    while tried < 100 {
        let mut model = random(&mut random_);
        for task in &mut model.tasks {
            task.execution = ns(task.execution.get() * 4);
        }
        let analysis = analyse(&model).unwrap();
        let inside = |found: &&Refutation| !matches!(found.place, RefutedAt::Cores(..));
        let Some(refutation) = analysis.refutations.iter().find(inside) else {
            continue;
        };
        for change in &refutation.changes {
            let mut changed = model.clone();
            if !apply(&mut changed, *change) {
                continue;
            }
            let after = analyse(&changed).unwrap();
            let (RefutedAt::Component(id) | RefutedAt::Alone(id)) = refutation.place else {
                continue;
            };
            let verdict = &after.components[id.0 as usize];
            assert!(
                matches!(verdict, Verdict::Proven(_)),
                "{change:?} {refutation:?}"
            );
            tried += 1;
        }
    }
}

/// Whether the change can be made by hand: the budget of an interface that is yet to be found
/// cannot be set.
fn apply(model: &mut Model, change: Change) -> bool {
    match change {
        Change::Budget(id, to) => match &mut model.components[id.0 as usize].plan {
            Plan::Given(interface) => {
                interface.budget = to;
                interface.deadline = interface.deadline.max(to);
            }
            Plan::Find { .. } | Plan::Longest { .. } => return false,
        },
        Change::MaxBudget(id, to) => {
            // The budget is what fits, whatever the component contains.
            let Plan::Given(interface) = &mut model.components[id.0 as usize].plan else {
                return false;
            };
            interface.budget = to;
            model.tasks.retain(|task| task.component != id);
        }
        Change::Apart(id) => model.components[id.0 as usize].home = ROOT,
        Change::Period(id, to) => match &mut model.components[id.0 as usize].plan {
            Plan::Given(interface) => {
                if interface.deadline == interface.period {
                    interface.deadline = to;
                }
                interface.period = to;
            }
            Plan::Find { periods, window } => {
                *periods = Periods::One(to);
                *window = Window::Period;
            }
            Plan::Longest { .. } => return false,
        },
        Change::Execution(TaskId(task), to) => model.tasks[task as usize].execution = to,
        Change::TaskPeriod(TaskId(task), to) => {
            let task = &mut model.tasks[task as usize];
            if task.deadline == task.period {
                task.deadline = to;
            }
            task.period = to;
        }
        Change::Core(pool) => {
            let cores = &mut model.pools[pool.0 as usize].cores;
            cores.push(CoreId(cores.len() as u8));
        }
    }
    true
}

#[test]
fn a_task_that_cannot_be_kept_is_named() {
    let mut model = model(1);
    let tasks = [(100, 30, 100), (150, 120, 150)];
    let id = vm(
        &mut model,
        ROOT,
        find(10, Window::Period),
        Policy::Edf,
        &tasks,
    );
    let analysis = analysed(&model);
    let refutation = &analysis.refutations[0];
    assert_eq!(refutation.place, RefutedAt::Alone(id));
    assert_eq!(refutation.member, Member::Task(TaskId(1)));
    assert_eq!((refutation.at, refutation.shortfall()), (ns(300), 30));
    assert!(
        refutation
            .changes
            .contains(&Change::Execution(TaskId(1), ns(105))),
        "{refutation:?}"
    );
    assert!(matches!(analysis.pools[0], Placement::Waits(_)));
}

/// Periods without common factors, and a full CPU: there is an answer or a reason, soon.
#[test]
fn astronomical_hyperperiods_do_not_hang() {
    let primes = [
        999_999_937,
        999_999_929,
        999_999_893,
        999_999_883,
        999_999_797,
        999_999_761,
    ];
    for (percent, policy) in [
        (10, Policy::Edf),
        (16, Policy::Edf),
        (10, Policy::RateMonotonic),
    ] {
        let tasks: Vec<_> = primes.iter().map(|p| (*p, p * percent / 100, *p)).collect();
        let mut model = model(1);
        let id = vm(
            &mut model,
            ROOT,
            find(10_000_019, Window::Period),
            policy,
            &tasks,
        );
        let analysis = analysed(&model);
        assert!(steps(&model) < 100_000, "{percent}: {}", steps(&model));
        assert!(
            matches!(analysis.components[id.0 as usize], Verdict::Proven(_)),
            "{percent}"
        );
    }
    // Exactly full, with no common multiple below 2^127: refused with the reason.
    let mut model = model(1);
    let tasks: Vec<_> = primes.iter().map(|p| (*p, 1, *p)).collect();
    let id = vm(
        &mut model,
        ROOT,
        given(999_999_757, 6, 999_999_757),
        Policy::Edf,
        &tasks,
    );
    let analysis = analysed(&model);
    let verdict = &analysis.components[id.0 as usize];
    assert!(
        matches!(
            verdict,
            Verdict::Undecided(Undecided::TooLarge | Undecided::TooLong) | Verdict::Refuted(_)
        ),
        "{verdict:?}"
    );
}

#[test]
fn the_edges_of_64_bits_are_answered() {
    let max = Nanos::MAX.get();
    let cases = [
        (max, 1, max),
        (max, max, max),
        (max, max - 1, max),
        (1, 1, max),
        (1, 1, 1),
        (1, max, 1),
        (2, 1, max),
        (max, 1, 1),
        (max - 1, max / 2, max),
    ];
    for (period, execution, deadline) in cases {
        for policy in [Policy::Edf, Policy::RateMonotonic] {
            for server in [1_000, max] {
                for window in [Window::Period, Window::Longest] {
                    let mut model = model(1);
                    let plan = find(server, window);
                    let id = vm(
                        &mut model,
                        ROOT,
                        plan,
                        policy,
                        &[(period, execution, deadline)],
                    );
                    model.tasks[0].jitter = ns(if execution % 2 == 0 { max } else { 0 });
                    analysed(&model);
                    let steps = steps(&model);
                    assert!(steps <= Work::TEST, "{period} {execution}: {steps}");
                    model.components[id.0 as usize].plan = given(server, server, server);
                    analysed(&model);
                }
            }
        }
    }
    let mut model = model(1);
    vm(
        &mut model,
        ROOT,
        find(u64::MAX, Window::Period),
        Policy::Edf,
        &[(u64::MAX, 0, 5)],
    );
    assert_eq!(analyse(&model).unwrap_err().len(), 3);
}

/// Under fixed priorities a deadline beyond the period counts as the period, so that a refusal for
/// that is not certain. Under EDF it counts as it is.
#[test]
fn deadlines_beyond_periods() {
    let tasks = [(10, 5, 10), (14, 7, 40)];
    let mut model = model(1);
    let plan = find(1, Window::Period);
    let id = vm(&mut model, ROOT, plan, Policy::RateMonotonic, &tasks);
    let analysis = analysed(&model);
    assert!(
        !analysis.refutations[0].certain,
        "{:?}",
        analysis.refutations
    );
    model.components[id.0 as usize].policy = Policy::Edf;
    assert!(analysed(&model).certificate().is_some());
}

#[test]
fn thousands_of_tasks_are_no_trouble() {
    let mut random = Random(77);
    let mut model = model(1);
    let tasks: Vec<_> = (0..3_000)
        .map(|_| {
            let period = 1_000_000 * (1 + random.below(1_000));
            (period, period / 10_000, period)
        })
        .collect();
    let id = vm(
        &mut model,
        ROOT,
        find(100_000, Window::Period),
        Policy::Edf,
        &tasks,
    );
    let analysis = analysed(&model);
    assert!(matches!(
        analysis.components[id.0 as usize],
        Verdict::Proven(_)
    ));
    assert!(steps(&model) <= Work::TEST, "{}", steps(&model));
}
