//! Finds the period that costs least.
//!
//! A short period needs less budget beyond what the members use, but more switches. The least sum
//! lies somewhere in between, and the curve has many dents, because budgets fit some periods better
//! than others. So the search tries both ends, a geometric grid, whole fractions of the members'
//! periods (where the dents are), and then ever closer periods around the best one. It returns the
//! cheapest of the periods that it tried, and claims no more.

use crate::load::Load;
use crate::supply::{Rational, SupplyStart};
use crate::ticks::InterfaceRequest;
use crate::work::{Undecided, Work};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use hanok_task_model::Server;

/// The number of steps of the grid.
const GRID: i128 = 48;
/// The number of parts into which members' periods are divided.
const PARTS: i128 = 12;
/// The number of rounds around the best period, and the number of periods in each.
const ROUNDS: usize = 6;
const CLOSER: i128 = 8;

/// What an interface with some period costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The period in nanoseconds.
    pub period: i128,
    /// The least budget with it, in whole ticks.
    pub budget: i128,
    /// The cost of budget and switches in each unit of time.
    pub share: Rational,
}

/// From when on a supply with periods of this length counts: members are released with the starts
/// of periods if they are periodic servers in a periodic server. A server that pays for its switches pays `prepaid` each
/// time.
///
/// It wakes only when a job is released, as it has work until all are complete: within less than a period that is as often
/// as jobs can be released in it.
pub fn start(server: Server, loads: &[Load], period: i128, prepaid: i128) -> SupplyStart {
    if server == Server::Polling {
        return SupplyStart::Polled;
    }
    if prepaid > 0 {
        let released = |load: &Load| (period + load.jitter + load.period - 1) / load.period;
        let wakes = loads.iter().map(released).fold(0, i128::saturating_add);
        return SupplyStart::Prepaid {
            cost: prepaid,
            wakes: wakes.saturating_mul(prepaid),
        };
    }
    let together = |load: &Load| load.begins_with_period && load.period % period == 0;
    if server == Server::Periodic && !loads.is_empty() && loads.iter().all(together) {
        SupplyStart::Period
    } else {
        SupplyStart::Anywhere
    }
}

/// The price of `period`; `None` if no budget suffices with it.
pub fn price(wanted: &InterfaceRequest<'_>, period: i128, work: &mut Work) -> Option<Price> {
    let start = start(wanted.server, wanted.loads, period, wanted.prepaid);
    let shape = wanted.shape(period, start);
    let mut part = work.part(Work::TEST / 64);
    let began = part;
    let budget = wanted.budget(&shape, &mut part);
    work.charge_part(began, part);
    let budget = budget.ok().flatten()?;
    let share = Rational::new(budget.checked_add(wanted.cost)?, period);
    Some(Price {
        period,
        budget,
        share,
    })
}

/// The cheapest of the periods that are tried from `least` to `most`; `None` if none of them
/// suffices.
pub fn cheapest(
    wanted: &InterfaceRequest<'_>,
    (least, most): (i128, i128),
    work: &mut Work,
) -> Result<Option<Price>, Undecided> {
    let tick = wanted.tick;
    let (first, last) = (least.div_euclid(tick), most.div_euclid(tick));
    let first = first + i128::from(least % tick > 0);
    let mut known: BTreeMap<i128, Option<Price>> = BTreeMap::new();
    let mut best: Option<Price> = None;
    let mut look = |ticks: i128, best: &mut Option<Price>, work: &mut Work| {
        let inside = (first..=last).contains(&ticks);
        if !inside || known.contains_key(&ticks) {
            return;
        }
        let found = price(wanted, ticks * tick, work);
        known.insert(ticks, found);
        if let Some(found) = found
            && best.is_none_or(|best| found.share < best.share)
        {
            *best = Some(found);
        }
    };
    for ticks in candidates(wanted, first, last) {
        work.spend(1)?;
        look(ticks, &mut best, work);
    }
    for step in steps(first, last) {
        let Some(centre) = best.map(|best| best.period / tick) else {
            break;
        };
        for ticks in around(centre, step) {
            work.spend(1)?;
            look(ticks, &mut best, work);
        }
    }
    Ok(best)
}

/// The distance between the periods of each round: fractions of the grid's step.
fn steps(first: i128, last: i128) -> [i128; ROUNDS] {
    let mut width = (last - first) / GRID + 1;
    [(); ROUNDS].map(|()| {
        width = (width / CLOSER).max(1);
        width
    })
}

/// The periods beside `centre` that a round tries, the shortest first.
fn around(centre: i128, step: i128) -> Vec<i128> {
    let each = (-CLOSER..=CLOSER).map(|index| centre + index * step);
    each.collect()
}

/// The periods that are tried first, in ticks.
fn candidates(wanted: &InterfaceRequest<'_>, first: i128, last: i128) -> Vec<i128> {
    let mut all = Vec::from([first, last]);
    // Steps of equal factors: 2^k times each of them.
    let mut octave = first;
    while octave <= last {
        let parts = (0..8).map(|part| octave + octave * part / 8);
        all.extend(parts);
        octave = octave.saturating_mul(2);
    }
    all.extend((1..GRID).map(|index| first + (last - first) * index / GRID));
    for load in wanted.loads.iter().take(GRID as usize) {
        all.extend((1..=PARTS).map(|part| load.period / part / wanted.tick));
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search_tests::loads;
    use hanok_task_model::{Policy, Window};

    fn wanted(loads: &[Load], policy: Policy, tick: i128) -> InterfaceRequest<'_> {
        InterfaceRequest {
            loads,
            policy,
            server: Server::Periodic,
            window: Window::Period,
            tick,
            cost: 0,
            prepaid: 0,
        }
    }

    /// For a member with a period of 77,777 ticks and a half, and a range of 48 steps of 1,001.
    #[test]
    fn the_first_periods_are_ends_octaves_steps_and_parts() {
        let loads = loads(&[(777_775, 1, 777_775)]);
        let all = candidates(&wanted(&loads, Policy::Edf, 10), 1_000, 49_048);
        let octave = [1_000, 1_125, 1_250, 1_375, 1_500, 1_625, 1_750, 1_875];
        let octaves = [1, 2, 4, 8, 16, 32].map(|power| octave.map(|period| period * power));
        let steps = (0..=48).map(|step| 1_000 + step * 1_001);
        let parts = [
            77_777, 38_888, 25_925, 19_444, 15_555, 12_962, 11_111, 9_722, 8_641, 7_777, 7_070,
            6_481,
        ];
        let mut wanted: Vec<i128> = octaves.into_iter().flatten().chain(steps).collect();
        wanted.extend(parts);
        wanted.sort_unstable();
        wanted.dedup();
        assert_eq!(all, wanted);
        // An octave that begins at the end of the range belongs to it; one that begins later does
        // not.
        assert!(candidates(&self::wanted(&[], Policy::Edf, 1), 4, 8).contains(&15));
        assert!(!candidates(&self::wanted(&[], Policy::Edf, 1), 4, 7).contains(&8));
    }

    #[test]
    fn rounds_are_closer_and_closer() {
        assert_eq!(steps(1_000, 1_000), [1; 6]);
        // Steps of 4,096 and of 63: eight times 512, and less than eight times 8.
        assert_eq!(steps(1_000, 1_000 + 48 * 4_095), [512, 64, 8, 1, 1, 1]);
        assert_eq!(steps(1_000, 1_000 + 48 * 62), [7, 1, 1, 1, 1, 1]);
        let round = [
            20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170, 180,
        ];
        assert_eq!(around(100, 10), round);
    }

    /// In a long range with ticks of ten, the search also gets close to the cheapest period: its
    /// neighbours are tried, and none of them is cheaper.
    #[test]
    fn the_last_round_looks_at_every_tick() {
        let loads = loads(&[(4_670, 310, 4_330), (9_970, 1_270, 9_870)]);
        let wanted = InterfaceRequest {
            cost: 150,
            ..wanted(&loads, Policy::Edf, 10)
        };
        let mut work = Work::new(Work::TEST);
        let found = cheapest(&wanted, (500, 30_000), &mut work)
            .unwrap()
            .unwrap();
        let near = (-8..=8).map(|ticks| found.period + ticks * 10);
        let near = near.filter_map(|period| price(&wanted, period, &mut work));
        assert_eq!(near.map(|price| price.share).min(), Some(found.share));
    }

    /// Jobs of 999,999 in each million hold the last one up for 200,000 periods, and each period is
    /// a step of two looks: more than the part of one price.
    #[test]
    fn one_price_takes_no_more_than_its_part() {
        let million = 1_000_000;
        let long = million * million;
        let loads = loads(&[(million, million - 1, million), (long, 200_000, long)]);
        let mut work = Work::new(Work::TEST);
        let wanted = wanted(&loads, Policy::RateMonotonic, 1);
        assert_eq!(price(&wanted, million, &mut work), None);
        assert!(work.left() >= Work::TEST - Work::TEST / 64);
    }
}
