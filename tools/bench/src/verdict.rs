//! Judges whether a figure reaches its limit.
//!
//! The median decides. Where some repetitions alone would decide otherwise, the verdict says so
//! ([`Judged::doubtful`]): a limit is not reached by luck.

use crate::figure::{Better, Figure, Terms};
use crate::figures::figures_on;
use crate::machine::Side;
use crate::model::Run;
use crate::stats::Summary;

/// A figure in its terms, with what the repetitions leave open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// By the medians.
    pub median: f64,
    /// The least that any repetitions give.
    pub least: f64,
    /// The greatest that any repetitions give.
    pub greatest: f64,
}

/// What the verdict is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// At or below the limit.
    Reached,
    /// Above it by so much, in the figure's terms.
    Short(f64),
    /// This side, that the verdict needs, has no measurement (or only zero, which leaves no
    /// ratio).
    NotMeasured(Side),
    /// There is no limit.
    NoLimit,
}

/// A figure, judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The figure.
    pub figure: &'static Figure,
    /// What the limit binds.
    pub quantity: Option<Quantity>,
    /// The verdict by the medians.
    pub outcome: Outcome,
    /// Whether some repetitions alone would have given the other verdict.
    pub doubtful: bool,
}

/// What `guest` costs as a multiple of `native`: the time of a latency, the time for a byte
/// of a bandwidth. `None` where a value of zero leaves no ratio.
pub fn cost(figure: &Figure, guest: &Summary, native: &Summary) -> Option<Quantity> {
    let ratio = |over: f64, under: f64| (under > 0.0).then(|| over / under);
    let (over, under) = match figure.better {
        Better::Lower => (guest, native),
        Better::Higher => (native, guest),
    };
    Some(Quantity {
        median: ratio(over.median, under.median)?,
        least: ratio(over.least, under.greatest)?,
        greatest: ratio(over.greatest, under.least)?,
    })
}

/// `figure` as `side` has it in `run`, in the figure's terms.
///
/// # Errors
///
/// The side whose measurement is lacking for that.
pub fn quantity(figure: &Figure, run: &Run, side: Side) -> Result<Quantity, Side> {
    let summary = |side| {
        let measured = run.measured(figure.id, side).ok_or(side)?;
        Summary::of(&measured.values).ok_or(side)
    };
    let guest = summary(side)?;
    match figure.terms() {
        Terms::Value => Ok(itself(&guest)),
        Terms::BeyondNative => Ok(beyond(&guest, &summary(Side::Native)?)),
        Terms::Ratio => cost(figure, &guest, &summary(Side::Native)?).ok_or(Side::Native),
    }
}

/// `figure` as Hanok has it in `run`.
pub fn judge(figure: &'static Figure, run: &Run) -> Judged {
    let found = quantity(figure, run, Side::Hanok);
    let outcome = match (&found, figure.to_reach()) {
        (Err(side), _) => Outcome::NotMeasured(*side),
        (Ok(_), None) => Outcome::NoLimit,
        (Ok(found), Some(limit)) if found.median <= limit => Outcome::Reached,
        (Ok(found), Some(limit)) => Outcome::Short(found.median - limit),
    };
    let open = |found: &Quantity, limit| (found.least <= limit) != (found.greatest <= limit);
    let found = found.ok();
    Judged {
        figure,
        quantity: found,
        outcome,
        doubtful: found
            .zip(figure.to_reach())
            .is_some_and(|(found, limit)| open(&found, limit)),
    }
}

/// Every figure of the catalogue as Hanok has it in `run`.
pub fn judge_all(run: &Run) -> Vec<Judged> {
    let figures = figures_on(run.machine.extensions).iter();
    figures.map(|figure| judge(figure, run)).collect()
}

/// How many figures got which verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reached their limit.
    pub reached: usize,
    /// Fell short of it.
    pub short: usize,
    /// Have a limit and were not measured.
    pub not_measured: usize,
}

impl Tally {
    /// How many limits there are.
    pub fn limits(&self) -> usize {
        self.reached + self.short + self.not_measured
    }

    /// The verdicts of `judged`, counted.
    pub fn of(judged: &[Judged]) -> Self {
        let mut tally = Self::default();
        for one in judged {
            match one.outcome {
                Outcome::Reached => tally.reached += 1,
                Outcome::Short(_) => tally.short += 1,
                Outcome::NotMeasured(_) if one.figure.to_reach().is_some() => {
                    tally.not_measured += 1;
                }
                Outcome::NotMeasured(_) | Outcome::NoLimit => {}
            }
        }
        tally
    }
}

fn itself(of: &Summary) -> Quantity {
    Quantity {
        median: of.median,
        least: of.least,
        greatest: of.greatest,
    }
}

fn beyond(guest: &Summary, native: &Summary) -> Quantity {
    Quantity {
        median: guest.median - native.median,
        least: guest.least - native.greatest,
        greatest: guest.greatest - native.least,
    }
}
