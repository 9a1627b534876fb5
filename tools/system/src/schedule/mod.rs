//! The tasks of a system and what its VMs are promised, as a model that the analysis and the
//! simulator read.
//!
//! What stands in the description becomes components: a VM with one vCPU is one; a VM with
//! several is one on several CPUs, where its tasks are spread by EDF, unless its tasks name
//! their vCPUs, in which case each vCPU is a component of its own (`linux.0`). The rules are
//! the model's own; here each of its faults gets the line it is about.

mod build;
pub(crate) mod carts;
pub(crate) mod draft;
pub(crate) mod enforce;
mod model;
mod words;

pub(crate) use build::build;
pub use model::Schedule;
