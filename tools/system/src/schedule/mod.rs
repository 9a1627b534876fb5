//! The tasks of a system and what its VMs are promised, as a model that the analysis and the
//! simulator read.
//!
//! Parts of the description become components. A VM with one vCPU is one component. A VM with
//! several is one component on several CPUs, where EDF spreads its tasks, unless its tasks name
//! their vCPUs: then each vCPU is a component of its own (`linux.0`). The rules are those of the
//! model; this module finds the line that each fault is about.

mod build;
pub(crate) mod carts;
pub(crate) mod draft;
pub(crate) mod enforce;
mod found;
mod model;
pub mod reasons;
mod words;

pub(crate) use build::build;
pub use found::FoundInterface;
pub use model::Schedule;
