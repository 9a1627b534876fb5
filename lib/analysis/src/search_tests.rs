//! Tests the least budget for one instant, the cheapest period and the steps of a search against
//! their definitions.

use crate::edf::Outcome;
use crate::least::{self, Shape};
use crate::load::{Arrival, Load};
use crate::supply::{Rational, SupplyStart};
use crate::ticks::InterfaceRequest;
use crate::{Work, period, test};
use hanok_task_model::{Member, Policy, Server, TaskId, Window};
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

pub(crate) fn work() -> Work {
    Work::new(Work::TEST)
}

pub(crate) fn load(id: u32, (period, execution, deadline): (i128, i128, i128)) -> Load {
    Load {
        member: Member::Task(TaskId(id)),
        period,
        execution,
        deadline,
        jitter: 0,
        priority: None,
        arrival: Arrival::Sporadic,
        begins_with_period: false,
        place: 0,
    }
}

/// Tasks with a period, an execution time and a deadline each.
pub(crate) fn loads(all: &[(i128, i128, i128)]) -> Vec<Load> {
    (0..).zip(all).map(|(id, one)| load(id, *one)).collect()
}

/// For every small shape, instant and demand, the budget suffices, and a smaller one does not.
#[test]
fn a_budget_for_an_instant_is_the_least() {
    let (mut some, mut none) = (0, 0);
    for period in 1..6 {
        let slacks = [None].into_iter().chain((0..period).map(Some));
        let starts = [
            SupplyStart::Anywhere,
            SupplyStart::Period,
            SupplyStart::Polled,
        ];
        for (slack, start) in slacks.flat_map(|slack| starts.map(|start| (slack, start))) {
            let shape = Shape {
                period,
                slack,
                start,
            };
            assert_eq!(shape.most(), period - slack.unwrap_or(0));
            let gives = |budget: Rational, demand: i128, t: i128| {
                let supply = shape.supply(budget).unwrap();
                supply.within(t).unwrap() >= demand.into()
            };
            for (t, demand) in (0..30).flat_map(|t| (-1..12).map(move |d| (t, d))) {
                let found = shape.budget_for(t, demand).unwrap();
                let most = Rational::from(shape.most());
                match found {
                    Some(budget) if demand <= 0 => assert_eq!(budget, 0.into()),
                    Some(budget) => {
                        assert!(budget <= most, "{shape:?} {t} {demand} {budget}");
                        assert!(gives(budget, demand, t), "{shape:?} {t} {demand} {budget}");
                        let less = budget - Rational::new(1, 1_000_000);
                        assert!(!gives(less, demand, t), "{shape:?} {t} {demand} {budget}");
                        some += 1;
                    }
                    None => {
                        assert!(!gives(most, demand, t), "{shape:?} {t} {demand} {found:?}");
                        none += 1;
                    }
                }
            }
        }
    }
    assert!(some > 1_000 && none > 1_000, "{some} {none}");
}

/// A deadline decides that is beyond those examined first and beyond what the rate needs: it is met
/// exactly, and with any smaller budget it is not.
#[test]
fn a_late_deadline_raises_the_budget() {
    let late = loads(&[(10, 1, 10), (2_000, 300, 700)]);
    let later = loads(&[(10, 1, 10), (1_500, 100, 900), (4_000, 700, 2_500)]);
    let mut wide = late.clone();
    (wide[0].arrival, wide[1].jitter) = (Arrival::Bandwidth, 20);
    for loads in [late, later, wide] {
        for slack in [None, Some(0), Some(1)] {
            for start in [
                SupplyStart::Anywhere,
                SupplyStart::Period,
                SupplyStart::Polled,
            ] {
                let shape = Shape {
                    period: 4,
                    slack,
                    start,
                };
                let budget = least::edf(&loads, &shape, &mut work()).unwrap().unwrap();
                let misses = |budget: Rational| {
                    let loads = &loads;
                    let supply = shape.supply(budget).unwrap();
                    let missed = move |t: &i128| {
                        supply.within(*t).unwrap() < crate::load::due(loads, *t).into()
                    };
                    (0..10_000).find(missed)
                };
                assert_eq!(misses(budget), None, "{shape:?} {budget}");
                let first = misses(budget - Rational::new(1, 1_000_000));
                assert!(first > Some(640), "{shape:?} {budget} {first:?}");
                let rate = crate::edf::exact_rate(&loads).unwrap();
                assert!(budget > rate * shape.period, "{shape:?} {budget}");
            }
        }
    }
}

/// Whether a whole number of ticks suffices. An undecided test counts as no.
fn suffices(wanted: &InterfaceRequest, shape: &Shape, budget: i128) -> bool {
    let kept = shape
        .supply(budget.into())
        .and_then(|supply| test::keeps(wanted.loads, wanted.policy, &supply, &mut work()));
    matches!(kept, Ok(Outcome::Kept(_)))
}

fn wanted(loads: &[Load], tick: i128, cost: i128, tight: bool) -> InterfaceRequest<'_> {
    InterfaceRequest {
        loads,
        policy: Policy::Edf,
        server: Server::Periodic,
        window: if tight {
            Window::Budget
        } else {
            Window::Period
        },
        tick,
        cost,
        prepaid: 0,
    }
}

/// The price of a period: the least budget of all whole ticks, found by trying all of them.
fn dearest_first(wanted: &InterfaceRequest, period: i128) -> Option<(i128, Rational)> {
    let shape = wanted.shape(period, SupplyStart::Anywhere);
    let mut all = (1..=shape.most() / wanted.tick).map(|ticks| ticks * wanted.tick);
    let budget = all.find(|budget| suffices(wanted, &shape, *budget))?;
    Some((budget, Rational::new(budget + wanted.cost, period)))
}

fn some_loads() -> impl Strategy<Value = Vec<(i128, i128, i128)>> {
    let one = (20i128..90, 1i128..12, 0i128..20);
    let one = one
        .prop_map(|(period, execution, less)| (period, execution, (period - less).max(execution)));
    prop::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// In a short range all periods are tried: none is cheaper than the one found, and none that is
    /// as cheap is shorter.
    #[test]
    fn the_cheapest_of_a_short_range_is_the_cheapest(
        all in some_loads(), tick in 1i128..4, cost in 0i128..4, least in 1i128..40,
        length in 0i128..40, tight: bool,
    ) {
        let loads = loads(&all);
        let wanted = wanted(&loads, tick, cost * tick, tight);
        let range = (least, least + length);
        let periods = (range.0..=range.1).filter(|period| period % tick == 0);
        let prices = periods.filter_map(|period| {
            Some((period, dearest_first(&wanted, period)?))
        });
        let cheapest = prices.min_by_key(|(period, (_, share))| (*share, *period));
        let found = period::cheapest(&wanted, range, &mut work()).unwrap();
        let found = found.map(|price| (price.period, (price.budget, price.share)));
        prop_assert_eq!(found, cheapest);
    }

    /// In a long range at least these are tried: the ends, steps of an eighth of an octave, equal
    /// steps, whole fractions of the members' periods, and the neighbours of the one found.
    #[test]
    fn the_cheapest_of_a_long_range_is_no_dearer_than_what_is_looked_at(
        all in some_loads(), factor in 5i128..30, cost in 1i128..60, least in 3i128..60,
        length in 400i128..1_500,
    ) {
        let long: Vec<_> = all.iter().map(|(p, c, d)| (p * factor, c * factor, d * factor)).collect();
        let loads = loads(&long);
        let wanted = wanted(&loads, 1, cost, false);
        let (first, last) = (least, least + length);
        let price = |period| period::price(&wanted, period, &mut work());
        let mut looked = vec![first, last];
        for octave in (0..11).map(|power| first << power) {
            looked.extend((0..8).map(|part| octave + octave * part / 8));
        }
        looked.extend((0..48).map(|step| first + length * step / 48));
        for load in &loads {
            looked.extend((1..=12).map(|part| load.period / part));
        }
        let found = period::cheapest(&wanted, (first, last), &mut work()).unwrap();
        if let Some(found) = found {
            looked.extend([found.period - 1, found.period + 1]);
            prop_assert_eq!(price(found.period), Some(found));
            prop_assert_eq!(found.share, Rational::new(found.budget + cost, found.period));
        }
        for period in looked.into_iter().filter(|period| (first..=last).contains(period)) {
            let Some(other) = price(period) else {
                continue;
            };
            let share = found.map(|found| found.share);
            prop_assert!(share.is_some_and(|share| share <= other.share), "{} {:?}", period, found);
        }
    }

    /// For numbers with and without an exact result in 128 bits, the answer is a whole number of
    /// ticks that suffices, and one tick less does not.
    #[test]
    fn whole_ticks_are_the_least_whatever_the_numbers(
        all in prop::collection::vec((1u64 << 40..1 << 58, 2u64..9), 1..4),
        period in 1u64 << 30..1 << 40, fixed: bool, tight: bool, tick in 1i128..1_000,
    ) {
        let long: Vec<_> = all
            .iter()
            .map(|(period, part)| (*period as i128, (period / part / 3) as i128, *period as i128))
            .collect();
        let mut loads = loads(&long);
        let policy = if fixed { Policy::RateMonotonic } else { Policy::Edf };
        crate::load::rank(&mut loads, policy);
        let wanted = InterfaceRequest { policy, ..wanted(&loads, tick, 0, tight) };
        let shape = wanted.shape(i128::from(period) / tick * tick, SupplyStart::Anywhere);
        match wanted.budget(&shape, &mut work()) {
            Ok(Some(budget)) => {
                prop_assert_eq!(budget % tick, 0);
                prop_assert!(suffices(&wanted, &shape, budget));
                prop_assert!(budget == tick || !suffices(&wanted, &shape, budget - tick));
            }
            Ok(None) => prop_assert!(!suffices(&wanted, &shape, shape.most() / tick * tick)),
            Err(_) => {}
        }
    }
}

/// A look at a member is a step, and a search counts at least the looks it took.
#[test]
fn searches_spend_what_they_look_at() {
    let many: Vec<_> = (0..40).map(|index| (1_000 + index, 2, 900)).collect();
    let loads = loads(&many);
    let shape = Shape {
        period: 100,
        slack: None,
        start: SupplyStart::Anywhere,
    };
    let spent = |search: &dyn Fn(&mut Work)| {
        let mut work = work();
        search(&mut work);
        Work::TEST - work.left()
    };
    // At each of 64 deadlines, the next one is searched and the demand is computed.
    let edf = spent(&|work| assert!(least::edf(&loads, &shape, work).unwrap().is_some()));
    assert!(edf >= 64 * 2 * 40, "{edf}");
    // Each member's end is computed from all members above it.
    let fixed = spent(&|work| assert!(least::fixed(&loads, &shape, work).unwrap().is_some()));
    assert!(fixed >= 40 * 40 / 2, "{fixed}");
    // Where the last member decides, the others are only tested with the budget it needs. Examining
    // the 100 instants before the end of each would be 100 * 40 * 40 / 2 looks.
    let mut many = vec![(200, 10, 200)];
    many.extend((0..40).map(|_| (20_000, 200, 20_000)));
    let many = self::loads(&many);
    let fixed = spent(&|work| assert!(least::fixed(&many, &shape, work).unwrap().is_some()));
    assert!(fixed < 20_000, "{fixed}");
    let supply = shape.supply(90.into()).unwrap();
    let test = spent(&|work| {
        let kept = crate::edf::test(&loads, &supply, work).unwrap();
        let Outcome::Kept(descent) = kept else {
            panic!("it does");
        };
        assert!(descent.instants.len() > 1);
    });
    assert!(test >= 2 * 40, "{test}");
    let misses = spent(&|work| {
        test::misses(&loads, Policy::Edf, &supply, true, work).unwrap();
    });
    assert!(misses > test + 3 * 40, "{misses} {test}");
    let first = spent(&|work| {
        crate::edf::first_miss(&loads, &supply, 10, work).unwrap();
    });
    assert_eq!(first, 10 * 2 * 40);
}

#[test]
fn work_is_spent_and_settled() {
    let mut all = Work::new(10);
    assert!(all.spend(3).is_ok());
    assert_eq!(all.left(), 7);
    // Zero members still cost a step.
    assert!(all.spend(0).is_ok());
    assert_eq!(all.left(), 6);
    assert_eq!(all.part(100).left(), 6);
    let mut part = all.part(4);
    let began = part;
    assert!(part.spend(5).is_err());
    assert!(part.spend(3).is_ok());
    assert_eq!(all.left(), 6);
    all.charge_part(began, part);
    assert_eq!(all.left(), 3);
    assert!(all.spend(3).is_ok());
    assert!(all.spend(1).is_err());
}
