//! The results of a run of `hanok bench`, judged and shown: the catalogue of figures with the
//! limits and the published values, the results, the verdicts.
//!
//! Nothing here measures. The caller that measures makes [`Measurement`]s of the figures in
//! [`FIGURES`], puts them in a [`Results`], and shows those.

#![forbid(unsafe_code)]

mod compare;
mod cycles;
mod figure;
mod figures;
mod format;
mod history;
mod machine;
mod model;
mod operations;
mod plot;
mod report;
mod stats;
mod table;
mod verdict;

pub use compare::{Change, Comparison};
pub use cycles::is_costed;
pub use figure::{Better, Figure, Group, Limit, Published, PublishedAs, Terms, Unit};
pub use figures::{FIGURES, figures_on};
pub use history::{Entry, History, HistoryError};
pub use machine::{Gic, Machine, Side};
pub use model::{
    Failure, FunctionCost, LoadError, Measurement, Operations, Profile, Refused, Results, Run,
    SCHEMA,
};
pub use report::html;
pub use stats::{Spread, Summary};
pub use table::{Style, comparison_table, results_table};
pub use verdict::{Judged, Outcome, Quantity, Tally, cost, judge, judge_all, quantity};
