//! Which vCPU ran on which core when, in the last seconds.
//!
//! A report has the latest turns of each core, which overlap with those of the report before, or leave
//! a gap where a core switched more often than a report can tell. A gap is shown as one: what is not
//! known is not drawn.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use crate::protocol::VcpuId;
use crate::report::Report;

/// The number of turns that are kept of a core.
const MOST: usize = 16 << 10;

/// A turn on a core, in ticks of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// Who ran; `None` where nobody did.
    pub who: Option<VcpuId>,
    /// The beginning.
    pub since: u64,
    /// The end.
    pub until: u64,
}

/// What a stretch of time shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Nothing is known.
    Unknown,
    /// Nobody ran, for the most part.
    Idle,
    /// This vCPU ran most, of those that ran.
    Ran(VcpuId),
}

/// The turns of all cores.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    cores: BTreeMap<u32, VecDeque<Turn>>,
}

impl Timeline {
    /// Adds the turns of a report.
    pub fn add(&mut self, report: &Report) {
        for (cpu, ran) in &report.ran {
            let turns = self.cores.entry(*cpu).or_default();
            for line in ran {
                let turn = Turn {
                    who: line.who,
                    since: line.since,
                    until: line.until,
                };
                push(turns, turn);
            }
        }
    }

    /// Forgets everything: the board has begun anew.
    pub fn clear(&mut self) {
        self.cores.clear();
    }

    /// The turns of a core that end after `after`, the oldest first.
    pub fn since(&self, cpu: u32, after: u64) -> impl Iterator<Item = Turn> {
        let turns = self.cores.get(&cpu).into_iter().flatten();
        turns.copied().filter(move |turn| turn.until > after)
    }

    /// When the last known turn of a core ended.
    pub fn end(&self, cpu: u32) -> Option<u64> {
        self.cores.get(&cpu)?.back().map(|turn| turn.until)
    }

    /// `count` cells of equal length between two ticks, of a core.
    pub fn cells(&self, cpu: u32, from: u64, to: u64, count: usize) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(count);
        let length = to.saturating_sub(from);
        let mut turns = self.since(cpu, from).peekable();
        for place in 0..count {
            let at = |place: usize| {
                let part = u128::from(length) * place as u128 / count as u128;
                from.saturating_add(u64::try_from(part).unwrap_or(u64::MAX))
            };
            let (begin, end) = (at(place), at(place + 1));
            let mut shares: BTreeMap<Option<VcpuId>, u64> = BTreeMap::new();
            while let Some(turn) = turns.peek().filter(|turn| turn.since < end).copied() {
                let part = turn.until.min(end).saturating_sub(turn.since.max(begin));
                *shares.entry(turn.who).or_default() += part;
                if turn.until > end {
                    break;
                }
                turns.next();
            }
            cells.push(cell(&shares));
        }
        cells
    }
}

/// Who had most of a stretch. Idle time is shown only where nobody ran: short turns are what a person
/// looks for.
fn cell(shares: &BTreeMap<Option<VcpuId>, u64>) -> Cell {
    let ran = shares
        .iter()
        .filter_map(|(who, time)| Some((who.as_ref()?, *time)));
    let most = ran
        .filter(|(_, time)| *time > 0)
        .max_by_key(|(_, time)| *time);
    match most {
        Some((who, _)) => Cell::Ran(*who),
        None if shares.values().any(|time| *time > 0) => Cell::Idle,
        None => Cell::Unknown,
    }
}

fn push(turns: &mut VecDeque<Turn>, mut turn: Turn) {
    if let Some(last) = turns.back_mut() {
        if turn.until <= last.until {
            return;
        }
        turn.since = turn.since.max(last.until);
        if turn.who == last.who && turn.since == last.until {
            last.until = turn.until;
            return;
        }
    }
    if turn.since < turn.until {
        turns.push_back(turn);
    }
    if turns.len() > MOST {
        turns.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::RanLine;

    const A: Option<VcpuId> = Some(VcpuId { vm: 0, vcpu: 0 });
    const B: Option<VcpuId> = Some(VcpuId { vm: 1, vcpu: 0 });

    fn report(turns: &[(Option<VcpuId>, u64, u64)]) -> Report {
        let of = |(who, since, until): &(Option<VcpuId>, u64, u64)| RanLine {
            cpu: 0,
            who: *who,
            since: *since,
            until: *until,
        };
        Report {
            ran: [(0, turns.iter().map(of).collect())].into(),
            ..Report::default()
        }
    }

    fn turns(timeline: &Timeline) -> Vec<(Option<VcpuId>, u64, u64)> {
        let all = timeline.since(0, 0);
        all.map(|turn| (turn.who, turn.since, turn.until)).collect()
    }

    #[test]
    fn reports_that_overlap_are_one_line_and_gaps_stay() {
        let mut timeline = Timeline::default();
        timeline.add(&report(&[(A, 0, 10), (None, 10, 20), (B, 20, 25)]));
        timeline.add(&report(&[(None, 10, 20), (B, 20, 30), (A, 40, 50)]));
        let wanted = [(A, 0, 10), (None, 10, 20), (B, 20, 30), (A, 40, 50)];
        assert_eq!(turns(&timeline), wanted);
        let cells = timeline.cells(0, 0, 60, 6);
        let [a, b] = [A, B].map(|who| Cell::Ran(who.unwrap()));
        assert_eq!(cells, [a, Cell::Idle, b, Cell::Unknown, a, Cell::Unknown]);
        assert_eq!(timeline.cells(0, 0, 30, 1), [b], "as much as a, and later");
        assert_eq!(timeline.end(0), Some(50));
    }

    #[test]
    fn lies_do_not_grow() {
        let mut timeline = Timeline::default();
        let lies = [(A, 5, 5), (B, 0, u64::MAX), (A, 7, 9), (A, 0, u64::MAX)];
        timeline.add(&report(&lies));
        assert_eq!(turns(&timeline), [(B, 0, u64::MAX)]);
        assert_eq!(timeline.cells(0, u64::MAX - 1, 5, 3), [Cell::Unknown; 3]);
        for at in 0..2 * MOST as u64 {
            let who = if at % 2 == 0 { A } else { B };
            let mut one = Timeline::default();
            std::mem::swap(&mut one, &mut timeline);
            if at == 0 {
                one.clear();
            }
            one.add(&report(&[(who, at, at + 1)]));
            timeline = one;
        }
        assert_eq!(timeline.since(0, 0).count(), MOST);
    }
}
