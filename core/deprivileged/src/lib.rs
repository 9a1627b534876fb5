//! The monitor of a guest without virtualization hardware: what it means that the guest, which runs
//! in User mode, kernel and programs alike, was stopped by an exception.
//!
//! Three things meet here: the virtual CPU (`hanok_cpu32`), shadow tables (`hanok_paging::shadow`)
//! and the proof of what is code (`hanok_proof`). A backend enters and leaves guests, and carries out
//! what an [`Answer`] asks; this crate decides, and touches no hardware but by [`Host`].
//!
//! # Which code a guest's kernel executes
//!
//! A page of the kernel's is execute-never until its first fetch ([`Code`]). Then its frame is
//! write-protected, and looked through for words that User mode would execute silently differently:
//!
//! - A frame without any is *sound*, and executed as it is.
//! - In another one the flow is followed from where the guest fetched. What it reaches is code, and
//!   its sensitive instructions become traps. If no other doubtful word is left, the frame is sound.
//! - Else it is executed *confined*: alone, all other pages being execute-never, and with its
//!   indirect branches rewritten to traps, too. So nothing is executed in it before the flow there was
//!   followed. Confinement costs a trap for each entry and each indirect branch; it ends when the last
//!   doubtful word has been reached, or is known to be data.
//! - An instruction of T32 that lies across two frames is executed in a frame of the vCPU's own, where one of both may not be
//!   executed with the other.
//!
//! Traps name the instruction that they stand for ([`Traps`]), so that a guest may copy its code.
//!
//! A store to such a frame is carried out here, if it is one of core registers. Where it changes proven code, or makes
//! new doubts, what the guest wrote is put back, and the frame is plain memory again.
//!
//! Programs of the guest are executed as they are: all that they do in User mode is what they would do
//! without a hypervisor.
//!
//! # Bounds
//!
//! Each call does a bounded amount of work. What takes longer is done in pieces: the answer is
//! [`Answer::Resume`] with the PC where it was, and the guest's next attempt goes on with it.

#![no_std]
#![forbid(unsafe_code)]

mod access;
mod across;
mod answer;
mod at_once;
mod code;
mod confinement;
mod crossing;
mod decoded;
mod device_pages;
mod direct;
mod displaced;
mod execute;
#[cfg(test)]
mod fake;
mod faults;
mod host;
mod monitor;
mod page;
mod ranges;
mod row;
mod siblings;
mod slot;
mod spaces;
mod stores;
#[cfg(test)]
mod tickets;
mod trampolines;
mod translation;
mod traps;
mod view;
mod window;

pub use answer::{Answer, Device, Stopped, Trap};
pub use at_once::{AtOnce, Invalidated};
pub use code::{Code, CodePage, CodePages};
pub use crossing::{Crossing, ThreadRegisters};
pub use direct::{Accessed, Direct};
pub use host::{Host, Stretch};
pub use monitor::{Monitor, Ready};
pub use siblings::{Change, Member, Seat};
pub use slot::Slot;
pub use spaces::{KnownSpace, KnownSpaces, Roots, SETS};
pub use traps::Traps;
pub use window::Place;
