use super::*;
use proptest::prelude::*;
use std::vec::Vec;

fn table(supply: Supply) -> Vec<i128> {
    let at = |t| supply.within(t).unwrap().to_integer();
    (0..=16).map(at).collect()
}

#[test]
fn the_vectors_are_met() {
    let supply = |p, b, l| table(Supply::new(p, b, l, Start::Anywhere));
    let prm = [0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8];
    assert_eq!(supply(5, 3, 5), prm);
    let edp = [0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8, 9];
    assert_eq!(supply(5, 3, 4), edp);
    let tight = [0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7, 8, 9, 9];
    assert_eq!(supply(5, 3, 3), tight);
}

/// The least that any way to keep the promise gives within `t`, by trying: the budget early in
/// the period where the interval begins, and as late as allowed in all that follow.
fn plain(p: i128, b: i128, l: i128, t: i128, starts: impl Iterator<Item = i128>) -> i128 {
    let given = |from: i128| {
        let at = |instant: i128| {
            let within = instant % p;
            match instant / p {
                0 => within < b,
                _ => (l - b..l).contains(&within),
            }
        };
        (from..from + t).filter(|instant| at(*instant)).count() as i128
    };
    starts.map(given).min().unwrap()
}

proptest! {
    #[test]
    fn the_supply_is_the_least_there_can_be(
        (p, b, l) in (1i128..12).prop_flat_map(|p| (Just(p), 1..=p))
            .prop_flat_map(|(p, b)| (Just(p), Just(b), b..=p)),
        t in 0i128..60,
    ) {
        let any = Supply::new(p, b, l, Start::Anywhere);
        prop_assert_eq!(any.within(t).unwrap().to_integer(), plain(p, b, l, t, 0..p));
        let aligned = Supply::new(p, b, l, Start::Period);
        prop_assert_eq!(aligned.within(t).unwrap().to_integer(), plain(p, b, l, t, p..=p));
    }

    #[test]
    fn times_and_amounts_are_inverse(
        p in 1i128..40, b in 1i128..40, l in 0i128..40, q in 1i128..9, lanes in 1u32..5,
        demand in 1i128..200, aligned: bool,
    ) {
        let b = b.min(p);
        let start = if aligned { Start::Period } else { Start::Anywhere };
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
        let (b, start) = (b.min(p), if aligned { Start::Period } else { Start::Anywhere });
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
        // The budget dealt out so that the CPUs are served alike, and the interval's ends are
        // equally long: what the bound says is the worst. All on fewer CPUs is never less.
        let most = p * i128::from(cpus);
        let budget = 1 + share % most;
        let all = Supply::parallel(p, budget, cpus).unwrap().within(t).unwrap();
        for used in budget.div_euclid(p).max(1)..=i128::from(cpus) {
            let (each, more) = (budget / used, budget % used);
            if each + i128::from(more > 0) > p { continue; }
            let of = |cpu: i128| each + i128::from(cpu < more);
            let lane = |cpu| match of(cpu) {
                0 => 0,
                b => Supply::new(p, b, p, Start::Anywhere).within(t).unwrap().to_integer(),
            };
            let sum: i128 = (0..used).map(lane).sum();
            prop_assert!(all <= Rational::from(sum));
        }
    }
}
