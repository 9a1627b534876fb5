//! All tests of the analysis from outside, in one program: each program of its own would be linked
//! anew for each fault that is planted.

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
