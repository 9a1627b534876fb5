//! All integration tests of the analysis in one program. Separate programs would each be linked
//! again for every planted fault.

mod bounded;
mod certificates;
mod common;
mod compose;
mod global;
mod kinds;
mod places;
mod plans;
mod properties;
mod refusals;
mod simulated;
mod vectors;
