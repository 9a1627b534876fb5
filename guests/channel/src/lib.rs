//! Channels between VMs, for a guest: the doorbells, the shared memory, and two ways to pass data by it.
//!
//! - [`find`] looks a channel up by its name in the device tree.
//! - [`Channel`] is its registers: who is there, rings, and what has to be acknowledged.
//! - [`Sender`] and [`Receiver`] pass messages from one member to another, in order; both may write the memory.
//! - [`Publisher`] and [`Watcher`] pass the latest value of something to members of which some may only read.
//!
//! **A peer is not trusted.** What is in the memory may change at any moment, and may be anything. Each index and length is
//! loaded once, and compared with what it may be, before it is used; the own place is kept here and never read back. So a hostile
//! peer can send nonsense, and nothing else.
//!
//! All memory is accessed by aligned words of 32 bits. A Linux program that maps it by /dev/mem has it as Device memory, where
//! others fault.
//!
//! A member that restarts finds the memory as it was. Its sender and receivers go on where they were, from the words that they
//! published ([`Sender::new`]).

#![no_std]

#[cfg(test)]
extern crate std;

mod channel;
mod found;
mod latest;
mod messages;
mod words;

pub use channel::{Channel, Mapped, Peer, Registers};
pub use found::{Found, find};
pub use latest::{Publisher, Watcher};
pub use messages::{Receiver, Refused, Sender};
pub use words::words;
