//! Tests all small proofs: the right ones are those that counting confirms.

use crate::bounds::{R, Shape, Supply, Z};
use crate::counted::{Asked, Given, jobs};
use crate::{descent, proofs};
use alloc::vec::Vec;
use hanok_task_model::{Against, Descent, Member, Policy, Proof, Tail, TaskId};
use num_traits::Zero;

/// All falling rows of up to `most` instants below `bound`.
fn rows(bound: u64, most: usize) -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = Vec::from([Vec::new()]);
    let mut next = 0;
    while let Some(row) = all.get(next).cloned() {
        let below = row.last().copied().unwrap_or(bound);
        if row.len() < most {
            all.extend((0..below).map(|instant| {
                let mut longer = row.clone();
                longer.push(instant);
                longer
            }));
        }
        next += 1;
    }
    all
}

/// The least instant by which `demand` is supplied.
fn time_for(given: Given, demand: i64) -> i64 {
    (0..).find(|t| given.within(*t) >= demand).unwrap_or(0)
}

/// Sets of one or two tasks whose rate is less than, equal to, or more than that of some of the
/// supplies.
fn sets() -> Vec<Vec<Asked>> {
    let one = |period, execution, deadline, jitter| Asked {
        period,
        execution,
        deadline,
        jitter,
    };
    [
        &[one(4, 1, 4, 0)][..],
        &[one(4, 2, 5, 1)],
        &[one(5, 1, 2, 0)],
        &[one(2, 1, 6, 1)],
        &[one(4, 1, 3, 0), one(6, 1, 6, 0)],
        &[one(3, 1, 3, 1), one(6, 1, 9, 0)],
        &[one(4, 2, 4, 0), one(4, 1, 4, 1)],
    ]
    .map(<[Asked]>::to_vec)
    .to_vec()
}

fn some_supplies() -> Vec<Given> {
    let of = |period, budget, deadline, aligned, loses| Given {
        period,
        budget,
        deadline,
        aligned,
        loses,
        later: 0,
    };
    Vec::from([
        of(1, 1, 1, true, false),
        of(2, 1, 2, false, false),
        of(4, 3, 4, false, false),
        of(4, 2, 3, true, false),
        of(3, 2, 2, false, false),
        of(3, 2, 3, false, true),
        of(2, 2, 2, false, true),
    ])
}

/// Whether counting confirms a descent.
fn is_right(asked: &[Asked], given: Given, row: &[u64], tail: Tail) -> bool {
    let row: Vec<i64> = row.iter().map(|instant| *instant as i64).collect();
    let due = |t: i64| asked.iter().map(|one| one.due(t)).sum::<i64>();
    let (Some(first), Some(last)) = (row.first(), row.last()) else {
        return false;
    };
    let first = first - 1;
    let is_deadline = asked.iter().any(|one| one.is_due_at(first));
    let steps = row
        .windows(2)
        .all(|pair| pair[1] == time_for(given, due(pair[0] - 1)));
    let ends = due(last - 1) == 0 && row.iter().rev().skip(1).all(|at| due(at - 1) > 0);
    // In parts of a common multiple of all periods.
    let all = 60 * 4;
    let needs: i64 = asked.iter().map(|one| one.rate(all)).sum();
    let gets = given.budget * (all / given.period);
    let ahead: i64 = asked.iter().map(|one| one.ahead(all)).sum();
    let gap = (0..60)
        .map(|t| t * gets - given.within(t) * all)
        .max()
        .unwrap_or(0);
    let shown = match tail {
        Tail::Lines => {
            let above = needs * first + ahead;
            needs < gets && above <= gets * first - gap
        }
        Tail::Repeats => {
            let common = (1..)
                .find(|t| t % given.period == 0 && asked.iter().all(|one| t % one.period == 0));
            let lost = if given.loses { given.budget } else { 0 };
            let begun = asked.iter().map(|one| one.window() - one.period).max();
            let repeats_from = begun.unwrap_or(0).max(given.deadline - given.budget + lost);
            needs == gets && first >= common.unwrap_or(0) + repeats_from
        }
    };
    *last > 0 && is_deadline && steps && ends && shown
}

#[test]
fn of_all_descents_those_are_right_that_counting_says() {
    let rows = rows(23, 3);
    let mut right = [0; 2];
    for asked in sets() {
        let jobs = jobs(&asked);
        for given in some_supplies() {
            let supply = given.supply();
            let by_rate = given.budget == given.period
                && !given.loses
                && asked.iter().all(|one| one.window() >= one.period);
            for row in &rows {
                for (kind, tail) in [Tail::Lines, Tail::Repeats].into_iter().enumerate() {
                    let instants = row.clone();
                    let proof = Proof::Edf(Descent { instants, tail });
                    let found = proofs::check(&jobs, Policy::Edf, 1, &supply, &proof).is_ok();
                    let wanted = !by_rate && is_right(&asked, given, row, tail);
                    assert_eq!(found, wanted, "{asked:?} {given:?} {proof:?}");
                    right[kind] += usize::from(wanted);
                }
            }
        }
    }
    assert!(right.iter().all(|count| *count > 5), "{right:?}");
}

/// The work that the task at `place` and all before it ask for until `t`.
fn requested(asked: &[Asked], place: usize, t: i64) -> i64 {
    let higher = asked[..place].iter().map(|one| one.released(t));
    higher.sum::<i64>() + asked[place].execution
}

fn fixed_window(one: &Asked) -> i64 {
    one.deadline.min(one.period) - one.jitter
}

#[test]
fn of_all_ends_those_are_right_that_counting_says() {
    let mut right = 0;
    for asked in sets() {
        let jobs = jobs(&asked);
        for given in some_supplies() {
            let supply = given.supply();
            for first in 0..9u64 {
                for second in 0..9u64 {
                    for ends in [&[first, second][..], &[first], &[]] {
                        let says = |(place, end): (usize, &u64)| {
                            let end = *end as i64;
                            let by = time_for(given, requested(&asked, place, end));
                            by == end && end <= fixed_window(&asked[place])
                        };
                        let wanted = ends.len() == asked.len() && ends.iter().enumerate().all(says);
                        let proof = Proof::Fixed(ends.to_vec());
                        let policy = Policy::RateMonotonic;
                        let found = proofs::check(&jobs, policy, 1, &supply, &proof).is_ok();
                        assert_eq!(found, wanted, "{asked:?} {given:?} {proof:?}");
                        right += usize::from(wanted);
                    }
                }
            }
        }
    }
    assert!(right > 20, "{right}");
}

/// Whether the demand is more than the supply; with `or_equal`, at least as much.
fn beats(demand: i64, supply: i64, or_equal: bool) -> bool {
    demand > supply || or_equal && demand == supply
}

#[test]
fn what_is_said_against_a_supply_is_what_counting_says() {
    let mut right = [0; 3];
    let rising = rows(9, 3)
        .into_iter()
        .map(|row| row.into_iter().rev().collect());
    let rising: Vec<Vec<u64>> = rising.collect();
    for asked in sets() {
        let jobs = jobs(&asked);
        for (given, or_equal) in some_supplies()
            .into_iter()
            .flat_map(|s| [(s, true), (s, false)])
        {
            let supply = given.supply();
            let shows = |policy, against: &Against| {
                proofs::against(&jobs, policy, &supply, or_equal, against).is_ok()
            };
            let needs: i64 = asked.iter().map(|one| one.rate(60)).sum();
            let rate = beats(needs, given.budget * 60 / given.period, or_equal);
            for policy in [Policy::Edf, Policy::RateMonotonic] {
                assert_eq!(shows(policy, &Against::Rate), rate, "{asked:?} {given:?}");
                assert!(!shows(policy, &Against::Nothing));
            }
            right[0] += usize::from(rate);
            for instant in 0..25 {
                let due: i64 = asked.iter().map(|one| one.due(instant)).sum();
                let wanted = asked.iter().any(|one| one.is_due_at(instant))
                    && due > 0
                    && beats(due, given.within(instant), or_equal);
                let against = Against::Instant(instant as u64);
                assert_eq!(
                    shows(Policy::Edf, &against),
                    wanted,
                    "{asked:?} {given:?} {instant}"
                );
                assert!(!shows(Policy::RateMonotonic, &against));
                right[1] += usize::from(wanted);
            }
            for place in 0..3 {
                let member = Member::Task(TaskId(place as u32));
                for instants in &rising {
                    let against = Against::Late {
                        member,
                        instants: instants.clone(),
                    };
                    assert!(!shows(Policy::Edf, &against));
                    let found = shows(Policy::RateMonotonic, &against);
                    let wanted =
                        place < asked.len() && late(&asked, place, given, instants, or_equal);
                    assert_eq!(found, wanted, "{asked:?} {given:?} {against:?}");
                    right[2] += usize::from(wanted);
                }
            }
        }
    }
    assert!(right.iter().all(|count| *count > 5), "{right:?}");
}

/// Whether each instant is the last at which the work that is asked for right after the previous
/// instant is still too much, and only the last one is at the end of the window, or later.
fn late(asked: &[Asked], place: usize, given: Given, instants: &[u64], or_equal: bool) -> bool {
    let window = fixed_window(&asked[place]);
    let mut before = 0;
    for (index, instant) in instants.iter().enumerate() {
        if index > 0 && before >= window {
            return false;
        }
        let demand = requested(asked, place, before + 1);
        let last = (0..40)
            .rev()
            .find(|t| beats(demand, given.within(*t), or_equal));
        if last != Some(*instant as i64) || *instant as i64 <= before {
            return false;
        }
        before = *instant as i64;
    }
    !instants.is_empty() && before >= window
}

/// On a whole CPU, where no window is shorter than its period, the sum of rates proves everything;
/// elsewhere it proves nothing.
#[test]
fn rates_are_a_proof_where_nothing_else_can_go_wrong() {
    let one = |period, execution, deadline, jitter| Asked {
        period,
        execution,
        deadline,
        jitter,
    };
    let full = [
        Vec::from([one(2, 1, 6, 1), one(4, 2, 4, 0)]),
        Vec::from([one(3, 1, 3, 0), one(3, 1, 3, 0), one(3, 1, 4, 1)]),
        Vec::from([one(2, 1, 2, 0), one(4, 2, 5, 1), one(60, 1, 60, 0)]),
    ];
    let (mut right, mut wrong) = (0, 0);
    for asked in sets().into_iter().chain(full) {
        let jobs = jobs(&asked);
        let fits = asked.iter().map(|one| one.rate(60)).sum::<i64>() <= 60;
        for given in some_supplies() {
            let of_time = given.budget == given.period && !given.loses;
            let wanted = fits && of_time && asked.iter().all(|one| one.window() >= one.period);
            let shows = |policy, cpus| {
                let supply = given.supply();
                proofs::check(&jobs, policy, cpus, &supply, &Proof::Utilization).is_ok()
            };
            assert_eq!(shows(Policy::Edf, 1), wanted, "{asked:?} {given:?}");
            assert!(!shows(Policy::RateMonotonic, 1) && !shows(Policy::Edf, 2));
            right += usize::from(wanted);
            wrong += usize::from(of_time && !wanted);
        }
    }
    assert!(right > 2 && wrong > 2, "{right} {wrong}");
}

/// Two lines of the same slope never cross, and a member that does not exist is not late.
#[test]
fn the_edges_of_a_proof_are_not_inside() {
    let asked = |execution| Asked {
        period: 4,
        execution,
        deadline: 4,
        jitter: 0,
    };
    let of_time = Supply::cores(1);
    let row = |instants: &[u64]| Descent {
        instants: instants.to_vec(),
        tail: Tail::Lines,
    };
    let shown = |execution| {
        let jobs = [asked(execution).job(0, Shape::Jobs)];
        descent::tail(&jobs, &of_time, &R::zero(), &row(&[5])).is_ok()
    };
    assert!(shown(3) && !shown(4));
    // The demand at 2 or later is 5, which is supplied at 5: that is the instant after 6, and none
    // follows 5 or an earlier one.
    let steps = |instants| descent::steps(&of_time, &row(instants), |_| Z::from(5));
    assert_eq!(steps(&[6, 5]), Ok(5));
    for rising in [&[5, 5][..], &[4, 5], &[6, 5, 5], &[6, 5, 0]] {
        assert!(steps(rising).is_err(), "{rising:?}");
    }
    let nothing = [asked(0).job(0, Shape::Jobs)];
    let late = Given {
        period: 8,
        budget: 2,
        deadline: 8,
        aligned: false,
        loses: false,
        later: 0,
    };
    let against = Against::Instant(4);
    let found = proofs::against(&nothing, Policy::Edf, &late.supply(), true, &against);
    assert!(found.is_err());
}

/// Thirds, of which none is a whole number of binary places, and a long period beside a short one.
#[test]
fn rates_of_one_at_most_are_told_from_more() {
    let within = |all: &[(i64, i64)]| {
        let jobs = all.iter().map(|(period, execution)| {
            let asked = Asked {
                period: *period,
                execution: *execution,
                deadline: *period,
                jitter: 0,
            };
            asked.job(0, Shape::Jobs)
        });
        proofs::is_within_one(&jobs.collect::<Vec<_>>())
    };
    assert!(within(&[(2, 1), (2, 1)]));
    assert!(within(&[(3, 1), (3, 1), (3, 1)]));
    assert!(within(&[(3, 1), (5, 3)]));
    assert!(!within(&[(3, 1), (3, 1), (3, 1), (1 << 60, 1)]));
    assert!(!within(&[(2, 1), (2, 1), (1 << 60, 1)]));
    assert!(!within(&[(2, 3)]));
}
