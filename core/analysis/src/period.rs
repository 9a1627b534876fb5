//! Which period costs least.
//!
//! A short period needs less budget beyond what the members use, and more switches; somewhere
//! in between lies the least sum, and the curve has many dents, as budgets fit some periods
//! better than others. So the search looks at the ends, at a geometric grid, at whole parts of
//! the members' periods (where the dents are), and then ever closer around the best. It finds
//! the cheapest of the periods it looks at, which is all that is claimed.

use crate::load::Load;
use crate::supply::{Rational, Start};
use crate::ticks::Wanted;
use crate::work::{Undecided, Work};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use hanok_task_model::Server;

/// How many steps the grid has.
const GRID: i128 = 48;
/// Into how many parts members' periods are divided.
const PARTS: i128 = 12;
/// How often the search looks closer, and at how many periods each time.
const ROUNDS: usize = 6;
const CLOSER: i128 = 8;

/// What a period costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// The period.
    pub period: i128,
    /// The least budget with it, in whole ticks.
    pub budget: i128,
    /// The budget and what switching costs, for each unit of time.
    pub share: Rational,
}

/// Whether members are released with the starts of periods of this length: periodic servers in a
/// periodic server are.
pub fn start(server: Server, loads: &[Load], period: i128) -> Start {
    if server == Server::Polling {
        return Start::Polled;
    }
    let together = |load: &Load| load.begins_with_period && load.period % period == 0;
    match server == Server::Periodic && !loads.is_empty() && loads.iter().all(together) {
        true => Start::Period,
        false => Start::Anywhere,
    }
}

/// What `period` costs, or `None` if no budget does with it.
pub fn price(wanted: &Wanted<'_>, period: i128, work: &mut Work) -> Option<Price> {
    let shape = wanted.shape(period, start(wanted.server, wanted.loads, period));
    let mut part = work.part(Work::TEST / 64);
    let began = part;
    let budget = wanted.budget(&shape, &mut part);
    work.settle(began, part);
    let budget = budget.ok().flatten()?;
    let share = Rational::new(budget.checked_add(wanted.cost)?, period);
    Some(Price {
        period,
        budget,
        share,
    })
}

/// The cheapest period from `least` to `most` of those that are looked at; `None` if none of
/// them does.
pub fn cheapest(
    wanted: &Wanted<'_>,
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
    let mut width = (last - first) / GRID + 1;
    for _ in 0..ROUNDS {
        let Some(centre) = best.map(|best| best.period / tick) else {
            break;
        };
        let step = (width / CLOSER).max(1);
        for index in -CLOSER..=CLOSER {
            work.spend(1)?;
            look(centre + index * step, &mut best, work);
        }
        width = step;
    }
    Ok(best)
}

/// The periods to look at first, in ticks.
fn candidates(wanted: &Wanted<'_>, first: i128, last: i128) -> Vec<i128> {
    let mut all = Vec::from([first, last]);
    // Steps of equal factors: 2^k times a part of it.
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
