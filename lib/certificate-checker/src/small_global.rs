//! Tests all small proofs for several CPUs: the right ones are those that counting confirms, after
//! the derivation in `global.rs`.

use crate::bounds::{Supply, int};
use crate::counted::{Asked, Given, jobs};
use crate::proofs;
use alloc::vec;
use alloc::vec::Vec;
use hanok_task_model::{Descent, Policy, Proof, Tail};

/// A budget in each period, on several CPUs.
#[derive(Clone, Copy, Debug)]
struct Several {
    cpus: i64,
    period: i64,
    budget: i64,
}

impl Several {
    fn supply(self) -> Supply {
        if self.period == 1 {
            return Supply::cores(self.cpus as usize);
        }
        Supply {
            period: int(self.period.into()),
            budget: int(self.budget.into()),
            deadline: int(self.period.into()),
            cpus: int(self.cpus.into()),
            aligned: false,
            loses: false,
            later: int(0),
        }
    }

    /// As many times what one CPU with an equal share gives. An instant is divided into as many
    /// parts as there are CPUs.
    fn within(self, t: i64) -> i64 {
        self.within_parts(t * self.cpus)
    }

    fn within_parts(self, parts: i64) -> i64 {
        let one = Given {
            period: self.period * self.cpus,
            budget: self.budget,
            deadline: self.period * self.cpus,
            aligned: false,
            loses: false,
            later: 0,
        };
        match self.period {
            1 => parts,
            _ => one.within(parts),
        }
    }
}

/// The most that the members can run in those instants of a window of length `t` in which the late
/// job, the last of the task at `place`, does not run: counted job by job, from the window's end.
fn filled(asked: &[Asked], place: usize, cpus: i64, t: i64) -> i64 {
    let late = asked[place];
    let mut sum = 0;
    let mut begun = Vec::new();
    for (index, one) in asked.iter().enumerate() {
        let deadlines = (0..).map(|k| t - k * one.period).take_while(|at| *at > 0);
        let (mut released, mut any) = (0, 0);
        for deadline in deadlines {
            // The job is released in the window, or runs at most until its deadline.
            let inside = deadline >= one.window();
            released += if inside { one.execution } else { 0 };
            any += one.execution.min(deadline);
        }
        if t == one.window() {
            assert!(released > 0);
        }
        let room = if index == place {
            (t - late.window()).max(0)
        } else {
            t - (late.execution - 1)
        };
        let own = if index == place { late.execution } else { 0 };
        let within = |work: i64| (work - own).min(room).max(0);
        sum += within(released);
        begun.push(within(any) - within(released));
    }
    begun.sort();
    sum + begun.iter().rev().take(cpus as usize - 1).sum::<i64>()
}

/// What must be supplied within `t` so that the late job is not late.
fn needed(asked: &[Asked], place: usize, cpus: i64, t: i64) -> i64 {
    filled(asked, place, cpus, t) + cpus * (asked[place].execution - 1) + 1
}

/// Whether a row of instants covers all lengths of the window of the task at `place`.
fn is_right(asked: &[Asked], place: usize, given: Several, row: &[i64]) -> bool {
    let late = asked[place];
    let (Some(first), Some(last)) = (row.first(), row.last()) else {
        return false;
    };
    let first = first - 1;
    let is_deadline = asked.iter().any(|one| one.is_due_at(first));
    let time_for = |demand: i64| (0..).find(|t| given.within(*t) >= demand);
    let step = |pair: &[i64]| {
        let next = time_for(needed(asked, place, given.cpus, pair[0] - 1));
        next == Some(pair[1])
    };
    let window = late.window();
    let ends = *last > 0 && *last <= window && row.iter().rev().skip(1).all(|at| *at > window);
    let all = 60 * given.period;
    let needs: i64 = asked.iter().map(|one| one.rate(all)).sum();
    let gets = given.budget * (all / given.period);
    let ahead: i64 = asked.iter().map(|one| one.ahead(all)).sum();
    // The line below the supply also touches it between two instants.
    let short = |parts: i64| parts * gets - given.within_parts(parts) * all * given.cpus;
    let gap = (0..60 * given.cpus).map(short).max().unwrap_or(0);
    let mut executions: Vec<i64> = asked.iter().map(|one| one.execution).collect();
    executions.sort();
    let carried: i64 = executions.iter().rev().take(given.cpus as usize - 1).sum();
    let more = (carried + late.execution * given.cpus) * all;
    let above = needs * first + ahead + more;
    let below = gets * first * given.cpus - gap;
    let shown = needs < gets && above * given.cpus <= below;
    is_deadline && row.windows(2).all(step) && ends && shown
}

/// The row of instants from `first` on, in which each follows by counting.
fn row_from(asked: &[Asked], place: usize, given: Several, first: i64) -> Option<Vec<i64>> {
    let mut row = vec![first];
    while row[row.len() - 1] > asked[place].window() {
        let last = row[row.len() - 1];
        row.push(step_from(asked, place, given, last)?);
    }
    Some(row)
}

/// The instant that follows `last`.
fn step_from(asked: &[Asked], place: usize, given: Several, last: i64) -> Option<i64> {
    let demand = needed(asked, place, given.cpus, last - 1);
    (0..last).find(|t| given.within(*t) >= demand)
}

/// The row with each number one more, one less, left out, or repeated.
fn changed(row: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![row.to_vec()];
    for at in 0..row.len() {
        for by in [-2, -1, 1, 2] {
            let mut other = row.to_vec();
            other[at] += by;
            all.push(other);
        }
        let mut other = row.to_vec();
        other.remove(at);
        all.push(other);
        let mut other = row.to_vec();
        other.insert(at, row[at]);
        all.push(other);
    }
    let mut other = row.to_vec();
    other.push(1);
    all.push(other);
    all.retain(|row| row.iter().all(|at| *at >= 0));
    all
}

#[test]
fn of_several_cpus_proofs_those_are_right_that_counting_says() {
    let one = |period, execution, deadline, jitter| Asked {
        period,
        execution,
        deadline,
        jitter,
    };
    let sets = [
        vec![one(4, 1, 4, 0), one(6, 2, 5, 0)],
        vec![one(4, 1, 3, 0), one(6, 2, 6, 1), one(12, 2, 9, 0)],
        vec![
            one(10, 1, 4, 0),
            one(10, 2, 8, 0),
            one(12, 3, 12, 2),
            one(5, 1, 5, 0),
        ],
        vec![one(4, 1, 5, 0), one(6, 2, 6, 0)],
        vec![one(6, 3, 3, 0), one(6, 3, 4, 0), one(6, 2, 6, 0)],
    ];
    let supplies = [(2, 1, 2), (3, 1, 3), (2, 4, 7), (2, 3, 5), (3, 2, 5)];
    let (mut right, mut wrong) = (0, 0);
    for (asked, (cpus, period, budget)) in sets
        .iter()
        .flat_map(|set| supplies.map(|supply| (set, supply)))
    {
        let given = Several {
            cpus,
            period,
            budget,
        };
        let supply = given.supply();
        let jobs = jobs(asked);
        let believed = |rows: &[Vec<i64>], tail| {
            let of = |row: &Vec<i64>| Descent {
                instants: row.iter().map(|at| *at as u64).collect(),
                tail,
            };
            let proof = Proof::Global(rows.iter().map(of).collect());
            proofs::check(&jobs, Policy::Edf, cpus as u32, &supply, &proof).is_ok()
        };
        let constrained = asked.iter().all(|one| one.deadline <= one.period);
        let each = (0..asked.len()).map(|place| {
            let mut rows = (1..200).filter_map(|first| row_from(asked, place, given, first));
            rows.find(|row| is_right(asked, place, given, row))
        });
        let Some(rows) = each.collect::<Option<Vec<_>>>() else {
            continue;
        };
        assert_eq!(
            believed(&rows, Tail::Lines),
            constrained,
            "{asked:?} {given:?}"
        );
        assert!(!believed(&rows, Tail::Repeats) && !believed(&rows[1..], Tail::Lines));
        for place in 0..asked.len() {
            // Also every first instant near the first right one.
            let from =
                (1..rows[place][0] + 30).filter_map(|first| row_from(asked, place, given, first));
            let from: Vec<_> = from.collect();
            // And one step more than is needed.
            let further = from.clone().into_iter().filter_map(|mut row| {
                row.push(step_from(asked, place, given, row[row.len() - 1])?);
                Some(row)
            });
            let further: Vec<_> = further.collect();
            let near = from.into_iter().chain(further).chain(changed(&rows[place]));
            let near = near.collect::<Vec<_>>();
            for row in near {
                let wanted = constrained && is_right(asked, place, given, &row);
                let mut other = rows.clone();
                other[place] = row;
                assert_eq!(
                    believed(&other, Tail::Lines),
                    wanted,
                    "{asked:?} {given:?} {other:?}"
                );
                right += usize::from(wanted);
                wrong += usize::from(!wanted);
            }
        }
    }
    assert!(right > 100 && wrong > 500, "{right} {wrong}");
}
