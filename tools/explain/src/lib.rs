//! What the analysis of a schedule found, in the words of its description: names in place of ids,
//! sentences in place of refutations. `hanok sched` and `hanok top` say the same of the same model.

#![forbid(unsafe_code)]

pub mod found;
pub mod others;
