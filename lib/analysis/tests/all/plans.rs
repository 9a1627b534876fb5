//! Checks by trial what a plan asks for: the interface that is found suffices, and none that is a
//! step less does. The checker accepts an interface that the plan allows, and no other.

use crate::common::{ROOT, Random, find, given, model, ns, range, vm};
use hanok_analysis::{Change, RefutedAt, Verdict, analyse};
use hanok_certificate_checker::{Fault, check};
use hanok_task_model::{
    Against, Certificate, Fraction, Model, Nanos, Plan, Policy, Proof, ResourceInterface, Server,
    Window,
};

/// The interface of the first component, if it is proven.
fn proven(model: &Model) -> Option<[u64; 3]> {
    match &analyse(model).ok()?.components[0] {
        Verdict::Proven(proof) => {
            let found = proof.interface;
            Some([found.period, found.budget, found.deadline].map(Nanos::get))
        }
        _ => None,
    }
}

/// Whether this interface suffices for the first component.
fn suffices(model: &Model, [period, budget, deadline]: [u64; 3]) -> bool {
    let mut changed = model.clone();
    changed.components[0].plan = given(period, budget, deadline);
    proven(&changed).is_some()
}

fn some_tasks(random: &mut Random) -> Vec<(u64, u64, u64)> {
    let task = |random: &mut Random| {
        let period = random.pick(&[60, 80, 100, 120, 150, 200]);
        let execution = 1 + random.below(period / 6);
        (period, execution, period - random.below(period / 3))
    };
    (0..1 + random.below(3)).map(|_| task(random)).collect()
}

fn some_policy(random: &mut Random) -> Policy {
    random.pick(&[Policy::Edf, Policy::Edf, Policy::RateMonotonic])
}

/// The cost of switching in each period, in whole ticks.
fn cost(model: &Model) -> u64 {
    let tick = model.tick.get();
    model.cost.per_period().get().div_ceil(tick) * tick
}

#[test]
fn the_longest_deadline_of_a_budget_is_the_longest() {
    let mut random = Random(0x10_4e57);
    let (mut found_some, mut full, mut refused) = (0, 0, 0);
    while found_some < 150 || full < 20 || refused < 20 {
        let mut model = model(1);
        model.tick = ns(random.pick(&[1, 2, 5]));
        model.cost.switch = ns(random.pick(&[0, 1, 3]));
        let period = 10 * (1 + random.below(6));
        let tick = model.tick.get();
        let budget = (1 + random.below(period / tick)) * tick;
        let plan = Plan::Longest {
            period: ns(period),
            budget: ns(budget),
        };
        let policy = some_policy(&mut random);
        let tasks = some_tasks(&mut random);
        vm(&mut model, ROOT, plan, policy, &tasks);
        if model.validate().is_err() {
            continue;
        }
        let shortest = (budget + cost(&model)).min(period);
        let deadlines = (shortest / tick..=period / tick).map(|ticks| ticks * tick);
        let longest = deadlines
            .rev()
            .find(|d| suffices(&model, [period, budget, *d]));
        assert_eq!(
            proven(&model),
            longest.map(|deadline| [period, budget, deadline]),
            "{model:#?}"
        );
        match longest {
            None => refused += 1,
            Some(deadline) if deadline == period => full += 1,
            Some(_) => found_some += 1,
        }
        if longest.is_some() {
            let analysis = analyse(&model).unwrap();
            let Verdict::Proven(proof) = &analysis.components[0] else {
                panic!("it was proven");
            };
            assert_eq!(proof.least.is_some(), longest < Some(period), "{model:#?}");
        }
    }
}

/// On several CPUs a tick less does not suffice; of a range, the cheapest of nine periods is
/// chosen.
#[test]
fn the_budget_of_several_cpus_is_the_least() {
    let mut random = Random(0x5e_7e4a);
    let (mut found_some, mut refused, mut ranges) = (0, 0, 0);
    while found_some < 60 || refused < 10 || ranges < 20 {
        let mut model = model(3);
        model.tick = ns(random.pick(&[1, 2]));
        model.cost.switch = ns(random.pick(&[0, 1, 2]));
        let tick = model.tick.get();
        let cpus = 2 + random.below(2);
        let heavy = 1 + random.below(3);
        let tasks: Vec<_> = some_tasks(&mut random)
            .into_iter()
            .chain(some_tasks(&mut random))
            .map(|(period, execution, deadline)| (period, execution * heavy, deadline))
            .filter(|(_, execution, deadline)| execution <= deadline)
            .collect();
        if tasks.is_empty() {
            continue;
        }
        let least = tick * (2 + random.below(10));
        let most = least + random.below(40);
        let is_range = random.below(3) == 0;
        let plan = if is_range {
            range(least, most, Window::Period)
        } else {
            find(least, Window::Period)
        };
        vm(&mut model, ROOT, plan, Policy::Edf, &tasks);
        model.components[0].cpus = cpus as u32;
        let by_trying = |period: u64| {
            let all = (1..=cpus * period / tick).map(|ticks| ticks * tick);
            let mut all = all
                .rev()
                .take_while(|b| suffices(&model, [period, *b, period]));
            let first = all.next();
            all.last().or(first)
        };
        let wanted = if is_range {
            let (first, last) = (least.div_ceil(tick), most / tick);
            let periods = (0..9).map(|step| (first + (last - first) * step / 8) * tick);
            let priced = periods.filter_map(|period| Some((period, by_trying(period)?)));
            let price = |(period, budget): &(u64, u64)| {
                (
                    (budget + cpus * cost(&model)) * 1_000_000_007 / period,
                    *period,
                )
            };
            priced.min_by_key(price)
        } else {
            by_trying(least).map(|budget| (least, budget))
        };
        let found = proven(&model).map(|[period, budget, _]| (period, budget));
        assert_eq!(found, wanted, "{model:#?}");
        ranges += usize::from(is_range);
        match wanted {
            Some(_) => found_some += 1,
            None => {
                refused += 1;
                let analysis = analyse(&model).unwrap();
                assert!(matches!(analysis.components[0], Verdict::Refuted(_)));
                // A test that does not pass may have no instant to name.
                for found in &analysis.refutations {
                    assert!(matches!(found.place, RefutedAt::Alone(_)), "{found:?}");
                    assert!(!found.certain && found.shortfall() > 0, "{found:?}");
                }
            }
        }
    }
}

/// A demand that is too much for any budget is refused with a whole CPU, or with the most there is.
/// A shorter period is offered that works, where one twice as long does not.
#[test]
fn what_no_interface_serves_is_refused_alone() {
    let mut random = Random(0xa10e);
    let (mut whole, mut most, mut shorter) = (0, 0, 0);
    while whole < 30 || most < 10 || shorter < 10 {
        let mut model = model(1);
        model.cost.switch = ns(random.pick(&[0, 8, 12]));
        let period = 64;
        let window = random.pick(&[Window::Period, Window::Budget]);
        let policy = some_policy(&mut random);
        let tasks: Vec<_> = some_tasks(&mut random)
            .iter()
            .map(|(period, execution, deadline)| (*period, execution * 3, *deadline))
            .filter(|(_, execution, deadline)| execution <= deadline)
            .collect();
        if tasks.is_empty() {
            continue;
        }
        vm(&mut model, ROOT, find(period, window), policy, &tasks);
        // What a polling server may lose at first is smaller with a shorter period.
        let server = random.pick(&[Server::Periodic, Server::Polling]);
        model.components[0].server = server;
        let analysis = analyse(&model).unwrap();
        let Some(found) = analysis.refutations.first() else {
            continue;
        };
        if !matches!(found.place, RefutedAt::Alone(_)) {
            continue;
        }
        assert!(found.shortfall() > 0, "{found:?}");
        assert_eq!(found.certain, server == Server::Periodic, "{found:?}");
        if found.supply == found.at.get().into() {
            whole += 1
        } else {
            // The largest budget only leaves time for the switches within its own deadline.
            let largest = match window {
                Window::Period => 64,
                _ => 64 - cost(&model),
            };
            let interface = [64, largest, 64];
            assert!(!suffices(&model, interface), "{model:#?} {found:?}");
            most += 1;
        }
        for change in &found.changes {
            let Change::Period(_, to) = change else {
                continue;
            };
            let of = |period: u64| [period, period - cost(&model), period];
            let to = to.get();
            assert!(suffices(&model, of(to)), "{model:#?} {found:?}");
            assert!(64 / to * to == 64 && to < 64);
            assert!(
                to == 32 || !suffices(&model, of(2 * to)),
                "{model:#?} {found:?}"
            );
            shorter += 1;
        }
    }
}

/// A model with one component, and its certificate.
fn certified(plan: Plan, tick: u64, switch: u64) -> (Model, Certificate) {
    let mut model = model(1);
    model.tick = ns(tick);
    model.cost.switch = ns(switch);
    vm(
        &mut model,
        ROOT,
        plan,
        Policy::Edf,
        &[(400, 20, 400), (600, 30, 500)],
    );
    let certificate = analyse(&model).unwrap().certificate();
    (model, certificate.expect("it is proven"))
}

fn fault(model: &Model, certificate: &Certificate) -> Option<Fault> {
    check(model, certificate).err().map(|found| found.fault)
}

/// Of all interfaces near the requested one, those that a plan does not allow are refused for that
/// reason alone.
#[test]
fn interfaces_are_what_the_plan_asks_for() {
    let windows = [Window::Period, Window::Budget, Window::Longest];
    // Two switches cost 6, which is two ticks.
    let (tick, switch, cost) = (5, 3, 10);
    for window in windows {
        for (plan, least, most) in [(find(50, window), 50, 50), (range(50, 60, window), 50, 60)] {
            let (model, certificate) = certified(plan, tick, switch);
            let mut allowed = 0;
            for period in [0, 40, 45, 49, 50, 51, 55, 60, 61, 65] {
                for budget in [0, 4, 5, 10, 12, 20, 40, 45, 50, 55, 60, 65] {
                    for deadline in [0, 5, 14, 15, 20, 22, 30, 49, 50, 55, 60, 65] {
                        let mut changed = certificate.clone();
                        changed.components[0].interface = ResourceInterface {
                            period: ns(period),
                            budget: ns(budget),
                            deadline: ns(deadline),
                        };
                        let whole = |time: u64| time > 0 && time.is_multiple_of(tick);
                        let fits = match window {
                            Window::Period => deadline == period,
                            Window::Budget => deadline == budget + cost,
                            Window::Longest => deadline >= budget + cost,
                        };
                        let asked = (least..=most).contains(&period)
                            && whole(period)
                            && whole(budget)
                            && whole(deadline)
                            && budget <= period
                            && deadline <= period
                            && fits;
                        let found = fault(&model, &changed);
                        let of_itself = found == Some(Fault::Interface);
                        assert_eq!(of_itself, !asked, "{window:?} {period} {budget} {deadline}");
                        allowed += usize::from(asked);
                    }
                }
            }
            assert!(allowed > 2, "{window:?} {allowed}");
        }
    }
}

#[test]
fn a_budget_with_the_longest_deadline_is_the_one_that_was_given() {
    let plan = Plan::Longest {
        period: ns(50),
        budget: ns(20),
    };
    let (model, certificate) = certified(plan, 5, 0);
    let [_, _, longest] = proven(&model).expect("it is proven");
    for period in [45, 50, 55] {
        for budget in [15, 20, 25] {
            for deadline in 15..=56 {
                let mut changed = certificate.clone();
                changed.components[0].interface = ResourceInterface {
                    period: ns(period),
                    budget: ns(budget),
                    deadline: ns(deadline),
                };
                let asked = period == 50
                    && budget == 20
                    && (20..=50).contains(&deadline)
                    && deadline % 5 == 0;
                let found = fault(&model, &changed);
                let of_itself = found == Some(Fault::Interface);
                assert_eq!(of_itself, !asked, "{period} {budget} {deadline}");
                let right = asked && deadline == longest;
                assert_eq!(found.is_none(), right, "{period} {budget} {deadline}");
            }
        }
    }
}

/// A least budget is a reduced fraction, and the next whole tick above it is the interface's
/// budget.
#[test]
fn an_exact_budget_is_held_to_its_form() {
    let (model, certificate) = certified(find(50, Window::Period), 5, 0);
    let exact = certificate.components[0]
        .exact
        .clone()
        .expect("it is exact");
    let Fraction {
        numerator,
        denominator,
    } = exact.budget;
    assert_eq!(fault(&model, &certificate), None);
    let budget = certificate.components[0].interface.budget.get();
    for (top, bottom) in (0..=4 * budget).flat_map(|top| (0..4).map(move |bottom| (top, bottom))) {
        let mut changed = certificate.clone();
        let own = changed.components[0].exact.as_mut().expect("it is there");
        own.budget = Fraction {
            numerator: top,
            denominator: bottom,
        };
        let same = (top, bottom) == (numerator, denominator);
        assert_eq!(fault(&model, &changed).is_none(), same, "{top}/{bottom}");
    }
    let mut twice = certificate.clone();
    let own = twice.components[0].exact.as_mut().expect("it is there");
    own.budget = Fraction {
        numerator: 2 * numerator,
        denominator: 2 * denominator,
    };
    assert_eq!(fault(&model, &twice), Some(Fault::Least));
    // There is no budget below one tick, and only of one tick this may be claimed.
    let mut nothing = certificate.clone();
    nothing.components[0].least = Some(Against::Nothing);
    assert_eq!(fault(&model, &nothing), Some(Fault::Least));
    let mut without = certificate;
    without.components[0].exact = None;
    without.components[0].least = None;
    assert_eq!(fault(&model, &without), None);
}

/// Where no smaller budget exists, the certificate says so, and the checker believes nothing else.
#[test]
fn one_tick_is_the_least_of_all() {
    let mut model = model(1);
    model.tick = ns(10);
    let plan = find(50, Window::Period);
    vm(&mut model, ROOT, plan, Policy::Edf, &[(1_000, 1, 1_000)]);
    let certificate = analyse(&model)
        .unwrap()
        .certificate()
        .expect("it is proven");
    let own = &certificate.components[0];
    assert_eq!(own.interface.budget, ns(10));
    assert_eq!(own.least, Some(Against::Nothing));
    assert_eq!(fault(&model, &certificate), None);
    for against in [Against::Rate, Against::Instant(1_000)] {
        let mut changed = certificate.clone();
        changed.components[0].least = Some(against);
        assert_eq!(fault(&model, &changed), Some(Fault::Least));
    }
}

/// A given interface makes no claim about smaller ones, and neither does one on several CPUs.
#[test]
fn no_claim_is_made_that_was_not_asked_for() {
    let (found, certificate) = certified(find(50, Window::Period), 5, 0);
    let own = certificate.components[0].clone();
    let mut fixed = found.clone();
    fixed.components[0].plan = Plan::Given(own.interface);
    for (least, exact) in [(true, false), (false, true), (false, false)] {
        let mut changed = certificate.clone();
        changed.components[0].least = own.least.clone().filter(|_| least);
        changed.components[0].exact = own.exact.clone().filter(|_| exact);
        assert_eq!(fault(&found, &changed), None);
        let wanted = (least || exact).then_some(Fault::Least);
        assert_eq!(fault(&fixed, &changed), wanted, "{least} {exact}");
    }
    let mut several = model(2);
    let plan = find(50, Window::Period);
    vm(&mut several, ROOT, plan, Policy::Edf, &[(400, 20, 400)]);
    several.components[0].cpus = 2;
    let certificate = analyse(&several)
        .unwrap()
        .certificate()
        .expect("it is proven");
    assert_eq!(fault(&several, &certificate), None);
    assert!(matches!(certificate.components[0].proof, Proof::Global(_)));
    let mut changed = certificate.clone();
    changed.components[0].least = Some(Against::Nothing);
    assert_eq!(fault(&several, &changed), Some(Fault::Least));
    let mut changed = certificate.clone();
    changed.components[0].exact = own.exact;
    assert_eq!(fault(&several, &changed), Some(Fault::Least));
    let mut changed = certificate;
    changed.components[0].aligned = true;
    assert_eq!(fault(&several, &changed), Some(Fault::Aligned));
}
