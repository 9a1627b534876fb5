use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn table(supply: Supply) -> Vec<i128> {
    let at = |t| supply.within(t).unwrap().to_integer();
    (0..=16).map(at).collect()
}

#[test]
fn the_vectors_are_met() {
    let supply = |p, b, l| table(Supply::new(p, b, l, SupplyStart::Anywhere));
    let prm = [0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8];
    assert_eq!(supply(5, 3, 5), prm);
    let edp = [0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8, 9];
    assert_eq!(supply(5, 3, 4), edp);
    let tight = [0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8, 9, 9];
    assert_eq!(supply(5, 3, 3), tight);
}

/// The least supply within `t` over all ways to keep the promise, found by trying: `first` is
/// supplied early in the period where the interval begins, and the budget as late as allowed in all
/// that follow.
fn plain(
    (p, b, l): (i128, i128, i128),
    first: i128,
    t: i128,
    starts: impl Iterator<Item = i128>,
) -> i128 {
    let given = |from: i128| {
        let at = |instant: i128| {
            let within = instant % p;
            match instant / p {
                0 => within < first,
                _ => (l - b..l).contains(&within),
            }
        };
        (from..from + t).filter(|instant| at(*instant)).count() as i128
    };
    starts.map(given).min().unwrap()
}

/// The line below the supply begins at the longest gap, in whole nanoseconds; here rates are halves
/// to the power of one to three.
#[test]
fn the_deficit_is_the_gap_at_the_rate() {
    let half = Rational::new(1, 2);
    let rational = |start| Supply::rational(4, half, None, start).unwrap();
    for (supply, gap, rate) in [
        // No supply for 8 - 2 * 2 = 4, and for 4 - 2 where a period begins.
        (Supply::new(4, 2, 4, SupplyStart::Anywhere), 4, 1 << 61),
        (Supply::new(4, 2, 4, SupplyStart::Period), 2, 1 << 61),
        // 8 - 2 / 2 = 7, and 3.5.
        (rational(SupplyStart::Anywhere), 7, 1 << 59),
        (rational(SupplyStart::Period), 4, 1 << 59),
        // Two lanes, each with 1 in 4.
        (Supply::parallel(4, 2, 2).unwrap(), 6, 1 << 61),
        (Supply::cores(2), 0, 1 << 63),
    ] {
        assert_eq!(supply.deficit(), Ok(gap * rate), "{supply:?}");
    }
}

proptest! {
    #[test]
    fn the_supply_is_the_least_there_can_be(
        (p, b, l) in (1i128..12).prop_flat_map(|p| (Just(p), 1..=p))
            .prop_flat_map(|(p, b)| (Just(p), Just(b), b..=p)),
        t in 0i128..60,
    ) {
        let any = Supply::new(p, b, l, SupplyStart::Anywhere);
        prop_assert_eq!(any.within(t).unwrap().to_integer(), plain((p, b, l), b, t, 0..p));
        let aligned = Supply::new(p, b, l, SupplyStart::Period);
        prop_assert_eq!(aligned.within(t).unwrap().to_integer(), plain((p, b, l), b, t, p..=p));
        // The rest of the first budget is lost.
        let polled = Supply::new(p, b, l, SupplyStart::Polled);
        prop_assert_eq!(polled.within(t).unwrap().to_integer(), plain((p, b, l), 0, t, 0..p));
    }

    #[test]
    fn a_rate_is_between_its_bounds(
        p in 1i128..1 << 40, share in 0i128..1 << 40, q in 1i128..1_000, lanes in 1u32..9,
    ) {
        let b = 1 + share % p;
        let budget = Rational::new(b, q);
        let exact = [
            (Supply::new(p, b, p, SupplyStart::Anywhere), Rational::new(b, p)),
            (Supply::rational(p, budget, Some(0), SupplyStart::Period).unwrap(), budget / p),
            (Supply::parallel(p, b, lanes).unwrap(), Rational::new(b, p)),
        ];
        for (supply, exact) in exact {
            let Rate { low, high } = supply.rate().unwrap();
            prop_assert_eq!(supply.exact_rate().unwrap(), exact);
            let (above, whole) = ((*exact.numer()) << 62, *exact.denom());
            prop_assert!(low * whole <= above && above <= high * whole);
            prop_assert_eq!(high - low, i128::from(above % whole != 0));
        }
    }

    /// The instant from which on the supply repeats itself every period, by its definition: every
    /// instant of two periods is tried.
    #[test]
    fn a_supply_repeats_itself_from_when_it_is_settled(
        p in 1i128..12, b in 1i128..12, l in 0i128..12, q in 1i128..5, slack: bool,
    ) {
        let b = b.min(p);
        let budget = Rational::new(b, q);
        for (supply, budget) in [
            (Supply::new(p, b, l.clamp(b, p), SupplyStart::Anywhere), b.into()),
            (Supply::rational(p, budget, slack.then_some(0), SupplyStart::Anywhere).unwrap(), budget),
            (Supply::parallel(p, b, 3).unwrap(), b.into()),
        ] {
            prop_assert_eq!(supply.period(), p);
            let repeats = |t: i128| {
                supply.within(t + p).unwrap() - supply.within(t).unwrap() == budget
            };
            let all_from = |from: i128| (from..from + 2 * p).all(repeats);
            prop_assert_eq!((0..=2 * p).find(|from| all_from(*from)), Some(supply.repeats_from()));
        }
    }

    #[test]
    fn times_and_amounts_are_inverse(
        p in 1i128..40, b in 1i128..40, l in 0i128..40, q in 1i128..9, lanes in 1u32..5,
        demand in 1i128..200, aligned: bool,
    ) {
        let b = b.min(p);
        let start = if aligned { SupplyStart::Period } else { SupplyStart::Anywhere };
        let budget = Rational::new(b, q);
        let supplies = [
            Supply::new(p, b, l.clamp(b, p), start),
            Supply::rational(p, budget, None, start).unwrap(),
            Supply::rational(p, budget, Some(0), start).unwrap(),
            Supply::parallel(p, b, lanes).unwrap(),
            Supply::cores(lanes),
        ];
        for supply in supplies {
            let t = supply.time_for(demand).unwrap();
            prop_assert!(supply.within(t).unwrap() >= Rational::from(demand));
            prop_assert!(supply.gives(demand, t).unwrap());
            prop_assert!(supply.within(t - 1).unwrap() < Rational::from(demand));
            prop_assert!(!supply.gives(demand, t - 1).unwrap());
            let t = supply.time_until_more(demand).unwrap();
            prop_assert!(supply.within(t).unwrap() <= Rational::from(demand));
            prop_assert!(supply.within(t + 1).unwrap() > Rational::from(demand));
        }
    }

    #[test]
    fn the_supply_is_monotone(
        p in 1i128..40, b in 1i128..40, l in 0i128..40, t in 0i128..400, aligned: bool,
    ) {
        let (b, start) = (b.min(p), if aligned { SupplyStart::Period } else { SupplyStart::Anywhere });
        let l = l.clamp(b, p);
        let within = |p, b, l, t| Supply::new(p, b, l, start).within(t).unwrap();
        prop_assert!(within(p, b, l, t) <= within(p, b, l, t + 1));
        prop_assert!(b == l || within(p, b, l, t) <= within(p, b + 1, l, t));
        prop_assert!(l == p || within(p, b, l, t) >= within(p, b, l + 1, t));
    }

    #[test]
    fn a_parallel_supply_is_the_least_of_all_spreads(
        p in 1i128..8, cpus in 1u32..4, share in 1i128..100, t in 0i128..30,
    ) {
        // The budget is spread so that the CPUs are served alike and the interval's ends are
        // equally long, which the bound says is the worst case. A spread on fewer CPUs never
        // supplies less.
        let most = p * i128::from(cpus);
        let budget = 1 + share % most;
        let all = Supply::parallel(p, budget, cpus).unwrap().within(t).unwrap();
        for used in budget.div_euclid(p).max(1)..=i128::from(cpus) {
            let (each, more) = (budget / used, budget % used);
            if each + i128::from(more > 0) > p { continue; }
            let of = |cpu: i128| each + i128::from(cpu < more);
            let lane = |cpu| match of(cpu) {
                0 => 0,
                b => Supply::new(p, b, p, SupplyStart::Anywhere).within(t).unwrap().to_integer(),
            };
            let sum: i128 = (0..used).map(lane).sum();
            prop_assert!(all <= Rational::from(sum));
        }
    }
}
