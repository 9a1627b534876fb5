//! Demand and supply counted instant by instant. The formulas are compared with them.

use crate::bounds::{Job, R, Shape, Supply, Z, int};
use alloc::vec::Vec;
use hanok_task_model::{Member, TaskId};
use num_traits::{ToPrimitive, Zero};

/// A task, or a component that looks like one.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    pub period: i64,
    pub execution: i64,
    pub deadline: i64,
    pub jitter: i64,
}

impl Asked {
    pub fn job(self, id: u32, shape: Shape) -> Job {
        Job {
            member: Member::Task(TaskId(id)),
            period: Z::from(self.period),
            execution: Z::from(self.execution),
            deadline: Z::from(self.deadline),
            jitter: Z::from(self.jitter),
            priority: None,
            shape,
            beyond: Z::zero(),
            periodic: false,
        }
    }

    pub fn window(self) -> i64 {
        self.deadline - self.jitter
    }

    /// The deadlines up to `t`, where the first job was held back for as long as possible.
    pub fn deadlines(self, t: i64) -> impl Iterator<Item = i64> {
        let first = self.window();
        (0..)
            .map(move |k| first + k * self.period)
            .take_while(move |at| *at <= t)
    }

    /// Whether `t` is a deadline.
    pub fn is_due_at(self, t: i64) -> bool {
        self.deadlines(t).any(|at| at == t)
    }

    pub fn due(self, t: i64) -> i64 {
        self.deadlines(t).count() as i64 * self.execution
    }

    /// The work of jobs that are released before `t`.
    pub fn released(self, t: i64) -> i64 {
        let all = (0..).map(|k| k * self.period - self.jitter);
        all.take_while(|at| *at < t).count() as i64 * self.execution
    }

    /// The work of a time `all`, which is a multiple of the period.
    pub fn rate(self, all: i64) -> i64 {
        self.execution * (all / self.period)
    }

    /// The most by which the work that is due lies above a line through zero with the task's rate, times
    /// `all`.
    pub fn ahead(self, all: i64) -> i64 {
        let at = |t: i64| self.due(t) * all - t * self.rate(all);
        (0..60).map(at).max().unwrap_or(0).max(0)
    }
}

/// The tasks as jobs, with their places for ids.
pub fn jobs(asked: &[Asked]) -> Vec<Job> {
    let with_id = (0..).zip(asked);
    with_id.map(|(id, one)| one.job(id, Shape::Jobs)).collect()
}

/// A budget in each period.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    pub period: i64,
    pub budget: i64,
    pub deadline: i64,
    pub aligned: bool,
    pub loses: bool,
    /// What is lost of the first budget where not all of it is.
    pub later: i64,
}

impl Given {
    pub fn supply(self) -> Supply {
        self.parts(1)
    }

    /// The supply with all times divided by `parts`.
    fn parts(self, parts: i128) -> Supply {
        let part = |time: i64| int(time.into()) / int(parts);
        Supply {
            period: part(self.period),
            budget: part(self.budget),
            deadline: part(self.deadline),
            cpus: int(1),
            aligned: self.aligned,
            loses: self.loses,
            later: part(self.later),
        }
    }

    /// The worst case within `t`: the first budget was supplied at once, right before the time
    /// begins; with `loses`, another budget is not used at all, and of `later` a part of one; and later ones come as
    /// late as possible.
    pub fn within(self, t: i64) -> i64 {
        let lost = self.later + if self.loses { self.budget } else { 0 };
        let begin = if self.aligned { 0 } else { self.budget };
        let late = |now: &i64| {
            let first = !self.aligned && *now < self.period;
            let at = now % self.period;
            !first && at >= self.deadline - self.budget && at < self.deadline
        };
        (begin..begin + t - lost).filter(late).count() as i64
    }
}

/// All supplies with periods of up to 5.
fn supplies() -> Vec<Given> {
    let mut all = Vec::new();
    for period in 1..=5 {
        for budget in 1..=period {
            for deadline in budget..=period {
                for (aligned, loses, later) in [
                    (false, false, 0),
                    (true, false, 0),
                    (false, true, 0),
                    (false, false, 1),
                    (false, false, 4),
                ] {
                    all.push(Given {
                        period,
                        budget,
                        deadline,
                        aligned,
                        loses,
                        later,
                    });
                }
            }
        }
    }
    all
}

/// Some tasks with windows before, at and beyond their periods.
fn tasks() -> Vec<Asked> {
    let mut all = Vec::new();
    for period in 1..=5 {
        for execution in 1..=period.min(3) {
            for deadline in [1, period - 1, period, period + 2, 2 * period + 1] {
                for jitter in 0..=2 {
                    if deadline > jitter {
                        all.push(Asked {
                            period,
                            execution,
                            deadline,
                            jitter,
                        });
                    }
                }
            }
        }
    }
    all
}

fn number(value: &Z) -> i64 {
    value.to_i64().expect("it is small")
}

#[test]
fn supplies_are_what_is_counted() {
    for given in supplies() {
        let supply = given.supply();
        for t in -3..25 {
            let counted = int(given.within(t).into());
            assert_eq!(reduced(supply.sbf(&Z::from(t))), counted, "{given:?} {t}");
            // The supply with all times in thirds has a third of the budget, and so has each of
            // three CPUs with a third of it.
            let third = given.parts(3).sbf(&Z::from(t)) * int(3);
            assert_eq!(third, int(given.within(3 * t).into()), "{given:?} {t}");
            if !given.loses && given.later == 0 {
                let three = Supply {
                    period: int(given.period.into()) / int(3),
                    deadline: int(given.deadline.into()) / int(3),
                    cpus: int(3),
                    ..given.supply()
                };
                let all = three.sbf(&Z::from(t));
                assert_eq!(all, int(given.within(3 * t).into()), "{given:?} {t}");
                assert_eq!(three.gap() * int(3), supply.gap(), "{given:?}");
                assert_eq!(
                    three.repeats_from() * int(3),
                    supply.repeats_from(),
                    "{given:?}"
                );
            }
        }
    }
}

fn reduced(value: R) -> R {
    R::new(value.numer().clone(), value.denom().clone())
}

/// The line through the ends of all gaps is below the supply, and no higher line is.
#[test]
fn the_gap_is_where_the_line_begins() {
    for given in supplies() {
        let supply = given.supply();
        let gap = number(&supply.gap().to_integer());
        let below = |gap: i64| {
            let line = |t: i64| (t - gap) * given.budget;
            (0..40).all(|t| line(t) <= given.within(t) * given.period)
        };
        assert!(below(gap) && !below(gap - 1), "{given:?} {gap}");
        assert_eq!(
            supply.rate(),
            R::new(Z::from(given.budget), Z::from(given.period))
        );
        let repeats_from = number(&supply.repeats_from().to_integer());
        let again = |t: i64| given.within(t + given.period) == given.within(t) + given.budget;
        assert!((repeats_from..40).all(again), "{given:?} {repeats_from}");
        assert!(
            repeats_from == 0 || given.aligned || !again(repeats_from - 1),
            "{given:?}"
        );
        assert!(
            repeats_from >= 0 && repeats_from <= given.deadline + given.later,
            "{given:?}"
        );
    }
}

#[test]
fn demands_are_what_is_counted() {
    for asked in tasks() {
        let job = asked.job(0, Shape::Jobs);
        assert_eq!(number(&job.window()), asked.window());
        let shorter = asked.deadline.min(asked.period) - asked.jitter;
        assert_eq!(number(&job.fixed_window()), shorter);
        let (period, execution) = (Z::from(asked.period), Z::from(asked.execution));
        assert_eq!(job.rate(), R::new(execution, period));
        for t in 0..25 {
            let at = Z::from(t);
            assert_eq!(number(&job.dbf(&at)), asked.due(t), "{asked:?} {t}");
            assert_eq!(
                number(&job.interference(&at)),
                asked.released(t),
                "{asked:?} {t}"
            );
            let due = asked.deadlines(t).any(|deadline| deadline == t);
            assert_eq!(job.is_due(&at), due, "{asked:?} {t}");
        }
        // The most by which the demand is ahead of its rate, over all instants.
        let ahead = |t: i64| asked.due(t) * asked.period - t * asked.execution;
        let most = (0..60).map(ahead).max().unwrap_or(0).max(0);
        assert_eq!(
            job.ahead() * int(asked.period.into()),
            int(most.into()),
            "{asked:?}"
        );
    }
}

/// The interference of jobs anywhere in their periods is the largest over all choices of one place
/// in each period.
#[test]
fn budgets_anywhere_interfere_with_what_they_can() {
    for (period, execution, beyond) in [
        (3, 1, 0),
        (4, 2, 0),
        (5, 3, 0),
        (4, 4, 0),
        (3, 2, 1),
        (7, 4, 1),
        (7, 5, 2),
    ] {
        let asked = Asked {
            period,
            execution,
            deadline: period,
            jitter: 0,
        };
        let job = Job {
            beyond: Z::from(beyond),
            ..asked.job(0, Shape::Somewhere)
        };
        for t in 1..3 * period {
            // The first job is at its period's end, the last part of it beyond that, or later; the others come at
            // once. As much of each job as begins within the time counts as a whole.
            let of = |offset: i64| {
                let begins = |k: i64| {
                    if k == 0 {
                        period - execution + beyond
                    } else {
                        k * period
                    }
                };
                let inside = |k: &i64| begins(*k) >= offset && begins(*k) < offset + t;
                (0..12).filter(inside).count() as i64 * execution
            };
            let most = (0..=period).map(of).max();
            assert_eq!(
                Some(number(&job.interference(&Z::from(t)))),
                most,
                "{asked:?} {t}"
            );
        }
    }
}

#[test]
fn a_bandwidth_is_due_in_proportion() {
    for (period, execution) in [(3, 1), (5, 3), (7, 2)] {
        let asked = Asked {
            period,
            execution,
            deadline: period,
            jitter: 0,
        };
        let job = asked.job(0, Shape::Proportion);
        let share = |t: i64| {
            (0..)
                .take_while(|done| (done + 1) * period <= t * execution)
                .count()
        };
        for t in 0..20 {
            assert_eq!(
                number(&job.dbf(&Z::from(t))),
                share(t) as i64,
                "{asked:?} {t}"
            );
            let more = t > 0 && share(t) > share(t - 1);
            assert_eq!(job.is_due(&Z::from(t)), more, "{asked:?} {t}");
        }
        assert!(job.dbf(&Z::from(-1)).is_zero());
    }
}
