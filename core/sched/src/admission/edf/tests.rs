//! The bound up to which instants are examined.

use super::super::Demand;
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

type Times = (u64, u64, u64);

/// The instant at which the line above the demand meets the line below the supply, as a fraction,
/// if they meet: demand is at most `sum C (T - D) / T + t sum C / T`, supply at least
/// `(t - starved) budget / period`.
fn meeting(tasks: &[Times], supply: &Supply) -> Option<(u128, u128)> {
    let all: u64 = tasks.iter().map(|(period, ..)| *period).product();
    let whole = |amount: u64, period: u64| u128::from(amount) * u128::from(all / period);
    let early = |(period, execution, deadline): &Times| {
        whole(execution * period.saturating_sub(*deadline), *period)
    };
    let ahead: u128 = tasks.iter().map(early).sum();
    let asked: u128 = tasks.iter().map(|(t, c, _)| whole(*c, *t)).sum();
    let (period, budget) = (u128::from(supply.period), u128::from(supply.budget));
    let margin = (budget * u128::from(all)).checked_sub(asked * period)?;
    let above = ahead * period + u128::from(supply.starved) * budget * u128::from(all);
    (margin > 0).then_some((above, margin))
}

proptest! {
    /// The bound reaches to where the lines meet, whatever the unit of time is, and not much
    /// further.
    #[test]
    fn the_linear_bound_is_where_the_lines_meet(
        tasks in proptest::collection::vec((1..40u64, 1..10u64, 1..60u64), 1..4),
        period in 1..30u64, budget in 1..30u64, early in 0..30u64, unit in 0..54u32,
    ) {
        let mut set = Vec::new();
        let mut times = Vec::new();
        for (period, execution, deadline) in tasks {
            let [t, c, d] = [period, execution, deadline].map(|time| time << unit);
            if let Ok(demand) = Demand::new(t, c, d, 0, 0) {
                set.push(demand);
                times.push((period, execution, deadline));
            }
        }
        let budget = budget.min(period);
        let deadline = period.saturating_sub(early).max(budget);
        let small = Supply::new(period, budget, deadline);
        let [p, b, d] = [period, budget, deadline].map(|time| time << unit);
        let large = Supply::new(p, b, d);
        let found = u128::from(linear_bound(&Set::new(&set), &large));
        match meeting(&times, &small) {
            Some((above, margin)) => {
                let exact = (above << unit).div_ceil(margin);
                prop_assert!(found >= exact, "{} before {}", found, exact);
                // The demand is ahead by whole ticks, at most one for each task.
                let rounded = set.len() as u128 * u128::from(period) * above.max(1);
                let all: u64 = times.iter().map(|(period, ..)| *period).product();
                let rounded = rounded * u128::from(all) / margin + 2;
                prop_assert!(found <= exact + exact / 1024 + rounded, "{} after {}", found, exact);
            }
            None => prop_assert_eq!(found, u128::from(ENDLESS)),
        }
    }
}
