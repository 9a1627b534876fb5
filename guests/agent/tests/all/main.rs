//! The agent's tests, in one program.

mod agent;
mod analysis;
mod common;
mod socket;
