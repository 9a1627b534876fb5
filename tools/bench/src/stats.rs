//! The median and the spread of repetitions.
//!
//! Under instruction counting two runs should be identical. So the spread is shown unsmoothed: the
//! largest distance from the median, not a deviation that hides it.

/// How far repetitions are from each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// One repetition: nothing is known.
    Single,
    /// All are the same to the last bit.
    Identical,
    /// The largest distance from the median, as a fraction of the median.
    PlusMinus(f64),
}

/// Repetitions in brief.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The median; of an even number of values the mean of the two in the middle.
    pub median: f64,
    /// The least value.
    pub least: f64,
    /// The greatest value.
    pub greatest: f64,
    /// How far they are from each other.
    pub spread: Spread,
}

impl Summary {
    /// `values` in brief; `None` of no values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = *sorted.get((sorted.len() - 1) / 2)?;
        let median = f64::midpoint(lower, upper);
        Some(Self {
            median,
            least,
            greatest,
            spread: spread(&sorted, median),
        })
    }
}

fn spread(sorted: &[f64], median: f64) -> Spread {
    let (Some(&least), Some(&greatest)) = (sorted.first(), sorted.last()) else {
        return Spread::Single;
    };
    if sorted.len() < 2 {
        Spread::Single
    } else if least.total_cmp(&greatest).is_eq() {
        Spread::Identical
    } else {
        // A median of zero among other values is a spread without bound.
        Spread::PlusMinus((median - least).max(greatest - median) / median)
    }
}
