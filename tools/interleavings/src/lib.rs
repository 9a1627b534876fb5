//! The executive of several pCPUs under interleavings that a model checker chooses.
//!
//! `shuttle` runs the pCPUs as threads, one at a time, and goes over to another one wherever one
//! touches an atomic or a lock of the core: in a random order, or in one that is chosen to find rare
//! orders with few changes (PCT). The code is `hanok_pcpu` and `hanok_vm` themselves, on the fake
//! backend of `hanok_hal`, whose checks panic where two vCPUs are in one CPU, a vCPU is in two, or
//! memory is made while a guest runs in it. A wakeup that is lost shows as a run without an end.
//!
//! This crate is built by itself: the feature that puts the checker's atomics into the core would
//! break every other test of it.

#![forbid(unsafe_code)]

mod events;
mod guest;
mod world;

pub use guest::{Guest, Habits};
pub use world::{Plan, World};
