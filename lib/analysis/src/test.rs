//! One test for all policies of a component, and both sides of a claim about a least budget: that
//! it suffices, and that a smaller one does not.

use crate::edf::{self, Miss, Outcome};
use crate::fixed;
use crate::load::{self, Load};
use crate::supply::{Rational, Supply};
use crate::work::{Undecided, Work};
use core::cmp::Ordering;
use hanok_task_model::{Against, Policy, Proof};

/// Tests whether `loads`, ranked by `policy`, keep their deadlines with `supply`.
pub fn keeps(
    loads: &[Load],
    policy: Policy,
    supply: &Supply,
    work: &mut Work,
) -> Result<Outcome<Proof>, Undecided> {
    if loads.is_empty() {
        return Ok(Outcome::Kept(Proof::Idle));
    }
    if !policy.is_fixed() && supply.is_whole_cpu() && loads.iter().all(Load::is_implicit) {
        let whole = edf::compare_rates(loads, Rational::from(1), work)?;
        return Ok(match whole {
            Ordering::Greater => Outcome::Missed(Miss::Rate),
            _ => Outcome::Kept(Proof::Utilization),
        });
    }
    Ok(if policy.is_fixed() {
        match fixed::test(loads, supply, work)? {
            Outcome::Kept(ends) => Outcome::Kept(Proof::Fixed(ends)),
            Outcome::Missed(miss) => Outcome::Missed(miss),
        }
    } else {
        match edf::test(loads, supply, work)? {
            Outcome::Kept(descent) => Outcome::Kept(Proof::Edf(descent)),
            Outcome::Missed(miss) => Outcome::Missed(miss),
        }
    })
}

/// Proves that `loads` miss deadlines with `supply`; with `or_equal`, that they miss some with any
/// smaller supply, although they may keep them with this one. `None` if no such proof is found.
pub fn misses(
    loads: &[Load],
    policy: Policy,
    supply: &Supply,
    or_equal: bool,
    work: &mut Work,
) -> Result<Option<Against>, Undecided> {
    if policy.is_fixed() {
        for place in (0..loads.len()).rev() {
            let until = loads.get(..=place).unwrap_or_default();
            if let Some((member, instants)) = fixed::lateness(until, supply, or_equal, work)? {
                return Ok(Some(Against::Late { member, instants }));
            }
        }
        return Ok(None);
    }
    let rates = (edf::exact_rate(loads), supply.exact_rate()?);
    if let (Some(needed), given) = rates
        && (needed > given || or_equal && needed == given)
    {
        return Ok(Some(Against::Rate));
    }
    if or_equal {
        return tight(loads, supply, work);
    }
    match edf::test(loads, supply, work)? {
        Outcome::Kept(_) => Ok(None),
        Outcome::Missed(Miss::At(at)) => instant(at).map(Some),
        Outcome::Missed(_) => instant(edf::late_miss(loads, supply)?).map(Some),
    }
}

fn instant(at: i128) -> Result<Against, Undecided> {
    let at = u64::try_from(at).map_err(|_| Undecided::TooLarge)?;
    Ok(Against::Instant(at))
}

/// A deadline at which all of the supply is needed, so that any smaller supply would be too little.
/// The descent passes it, or stops right after it.
fn tight(loads: &[Load], supply: &Supply, work: &mut Work) -> Result<Option<Against>, Undecided> {
    let Outcome::Kept(descent) = edf::test(loads, supply, work)? else {
        return Ok(None);
    };
    for at in descent.instants {
        work.spend(3 * loads.len())?;
        let due = edf::last_deadline(loads, i128::from(at) - 1);
        let demand = load::due(loads, due);
        if demand > 0 && supply.within(due)? <= demand.into() {
            return instant(due).map(Some);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search_tests::loads;
    use crate::supply::SupplyStart;

    fn against(all: &[(i128, i128, i128)], supply: Supply, or_equal: bool) -> Option<Against> {
        let mut work = Work::new(Work::TEST);
        misses(&loads(all), Policy::Edf, &supply, or_equal, &mut work).unwrap()
    }

    #[test]
    fn a_rate_that_is_too_high_is_said_as_such() {
        let half = Supply::new(4, 2, 4, SupplyStart::Anywhere);
        assert_eq!(against(&[(3, 2, 3)], half, false), Some(Against::Rate));
        assert_eq!(against(&[(3, 2, 3)], half, true), Some(Against::Rate));
        // The rate is as much as the supply's: it is too much only for a smaller supply.
        let all = [(8, 2, 8), (16, 4, 16)];
        let aligned = Supply::new(4, 2, 4, SupplyStart::Period);
        assert_eq!(against(&all, aligned, true), Some(Against::Rate));
        assert_eq!(against(&all, aligned, false), None);
        // The rate is less than that; but the deadline is before the first supply.
        assert_eq!(
            against(&[(9, 1, 4)], half, false),
            Some(Against::Instant(4))
        );
    }

    /// The supply is 0 until 10, 5 from 15 to 20, 7 at 22 and 9 at 24.
    #[test]
    fn a_deadline_that_needs_all_is_found_between_others() {
        let supply = Supply::new(10, 5, 10, SupplyStart::Anywhere);
        // Until 18 all 5 are due; at 22 and 24 the demand of 6 and 7 is less than the supply. From
        // 24 the descent goes to 22, where 7 are supplied, and from there to 15.
        let all = [(1_000, 5, 18), (1_000, 1, 22), (1_000, 1, 24)];
        assert_eq!(against(&all, supply, true), Some(Against::Instant(18)));
        assert_eq!(against(&all, supply, false), None);
        let less =
            Supply::rational(10, Rational::new(49, 10), None, SupplyStart::Anywhere).unwrap();
        assert_eq!(against(&all, less, false), Some(Against::Instant(18)));
        // Nothing needs all of the supply; until 10 nothing is supplied, and nothing is due.
        assert_eq!(against(&[(1_000, 1, 18)], supply, true), None);
    }
}
