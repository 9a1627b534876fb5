//! What a run of `hanok bench` found, judged and shown: the catalogue of figures with the
//! limits to reach and the published values, the results, the verdicts.
//!
//! Nothing here measures. Whoever measures makes [`Measurement`]s of the figures in
//! [`FIGURES`], puts them in a [`Results`], and shows those.

#![forbid(unsafe_code)]

mod compare;
mod figures;
mod format;
mod history;
mod model;
mod plot;
mod report;
mod stats;
mod table;
mod verdict;

pub use compare::{Change, Comparison};
pub use figures::{Better, FIGURES, Figure, Group, Limit, Published, PublishedAs, Unit};
pub use history::{Entry, History, HistoryError};
pub use model::{
    Failure, FunctionCost, Gic, LoadError, Machine, Measurement, Profile, Refused, Results, Run,
    SCHEMA, Side,
};
pub use report::html;
pub use stats::{Spread, Summary};
pub use table::{Style, comparison_table, results_table};
pub use verdict::{Judged, Outcome, Quantity, Tally, Terms, cost, judge, judge_all, quantity};
