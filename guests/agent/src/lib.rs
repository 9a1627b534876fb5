//! The agent of a Linux guest: programs declare their periodic tasks to it, and it sees to it that they keep their
//! deadlines.
//!
//! For each vCPU it turns the declared tasks into the least interface with which all of them keep their deadlines
//! ([`interface`], by the exact analysis of `lib/analysis`), asks Hanok for that, and only then schedules the threads
//! by their deadlines in Linux. A refusal is told to the program with the reason, and changes nothing. What is kept
//! true: at every instant the tasks that are admitted are schedulable with the interface that the vCPU has. So
//! - more is asked for before a task is admitted, and less after one is gone;
//! - a task belongs to the connection that declared it, or to its thread, and goes with it.
//!
//! An agent that dies leaves the interfaces and the threads as they are: a promise stands until it is changed.
//!
//! The parts, from the inside out: [`interface`] and [`stretch`] compute; [`ledger`] decides, and acts through
//! [`machine::Machine`], which tests have a fake of; [`linux`] acts; [`server`] has the connections.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod agent;
pub mod command;
pub mod interface;
pub mod keys;
pub mod ledger;
pub mod linux;
pub mod machine;
pub mod measure;
pub mod request;
pub mod server;
pub mod settings;
pub mod stretch;
pub mod task;
pub mod time;
pub mod vcpu;
