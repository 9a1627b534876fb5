//! `hanok sched`: what can be known of a system's deadlines before it runs.

mod charts;
mod check;
pub mod compare;
mod cores;
mod csv;
mod json;
mod paths;
mod report;
pub mod simulate;
mod table;
#[cfg(test)]
mod tests;
mod times;

use std::path::Path;

use hanok_explain::found;

use crate::args::SchedCommand;
use hanok_base::exit::Outcome;

/// `hanok sched ...`.
pub fn run(root: &Path, command: &SchedCommand) -> Outcome {
    match command {
        SchedCommand::Check(args) => check::run(root, args),
        SchedCommand::Compare(args) => compare::run(root, args),
        SchedCommand::Paths(args) => paths::run(args),
        SchedCommand::Simulate(args) => simulate::run(root, args),
    }
}
