//! Mutation testing of a whole workspace in one build.
//!
//! `cargo mutants` knows which faults can be planted, and builds and tests each by itself: a minute
//! for each of twelve thousand. Here its list is planted into a copy of the sources at once
//! ([`plant`]), each fault behind a switch that a variable of the environment turns on, and the
//! copy is built once ([`build`]). Then each mutant meets the tests that reach it ([`run`]), a
//! process for each group of tests: a second for three.
//!
//! What this leaves out is counted, never taken for caught: faults in constants and in `const fn`
//! that constants call (a switch cannot be asked there), and functions that return `impl Trait`.
//! What does not compile is left out, too, as with `cargo mutants`.

#![forbid(unsafe_code)]

pub mod build;
pub mod mutant;
pub mod plant;
pub mod run;
