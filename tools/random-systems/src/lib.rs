//! Random systems near the edge of what is admitted, and what they are held against.
//!
//! A system is drawn from a seed: cores, policies, groups of servers, VMs with their tasks. It ends as
//! a description in TOML, as a person would write it, with budgets that `hanok sched check` says yes
//! to and execution times that are as long as it lets pass. What is admitted must keep its deadlines
//!
//! - in the simulation ([`simulated`]),
//! - while interfaces change on the way ([`changes`]),
//! - on the board (`hanok test random-boards`, in tools/scenarios),
//!
//! and what is refused on one core must miss one in a program that knows the definitions alone and
//! looks at every tick ([`ticks`], [`small`]).

#![forbid(unsafe_code)]

pub mod boards;
pub mod changes;
pub mod check;
pub mod draw;
pub mod edge;
pub mod random;
pub mod simulated;
pub mod small;
pub mod system;
pub mod ticks;
