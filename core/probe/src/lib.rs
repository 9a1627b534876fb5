//! Probes in a guest's running code, in A64, A32 and T32, without compiling it again.
//!
//! A probe replaces the instruction at a *site* by a branch to a *slot*: memory that the guest
//! executes, and that nobody else uses. In the slot stands what the probe does, and then the
//! displaced instruction, so that the guest does not notice more than the time. All here is pure:
//! bytes and addresses come in, bytes go out. Whoever calls owns the memory, its cache
//! maintenance, and the moment at which other vCPUs are not at the site.
//!
//! - [`relocate`]: the words that have, in a slot, exactly the effect of the instruction at its
//!   site, and go on where it would go on. What cannot be done exactly is [`Refused`].
//! - [`branch`]: the branch from the site to the slot.
//! - [`trampoline`]: a whole slot that writes a [`Record`] into a [`Ring`], without an exit.
//! - [`Patch`]: what stood at the site, and whether what was written there still does.
//! - [`may_be_between_exclusives`] and [`ItBlock::before`]: what to look for around a site first.
//!
//! # What is exact, and what is not
//!
//! After a slot all registers, flags and memory are as after the instruction at its site, and the
//! address where execution goes on is the same. Calls leave the return address behind the site.
//! But these things differ, and whoever chooses sites has to know them:
//!
//! - An exception that the displaced instruction takes has its return address in the slot:
//!   [`Relocated::origin`] tells the site. A site whose instruction may fault on purpose (a
//!   kernel's access to a program's memory, which it finds in a table by the address) is no site.
//! - A call is done by a plain branch, so it is not pushed on a guarded control stack (FEAT_GCS),
//!   and an indirect call or branch has a BTYPE that suits more landing pads than at the site,
//!   because the slot's page is not guarded (it must not be: DDI 0487, FEAT_BTI).
//! - Where an instruction reads the PC, its destination is its scratch register: between two words
//!   of the slot an interrupt's handler sees the register with a third value. The stack pointer is
//!   never used so.
//! - An encoding that the CPU leaves undefined, in the spaces of SIMD and of system registers,
//!   which depend on the CPU, traps in the slot. So does one that is UNPREDICTABLE for a reason that
//!   has nothing to do with the PC, if the CPU takes it for undefined.
//! - An instruction of the space that only an ARMv8 CPU has in AArch32 state, or of SVE and SME,
//!   is refused as [`Refused::Unknown`].

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod a64;
mod aarch32;
mod code;
mod exclusive;
mod patch;
mod refused;
mod relocate;
mod ring;
mod site;
mod trampoline;

pub use code::{CAPACITY, Code};
pub use exclusive::may_be_between_exclusives;
pub use patch::{Patch, Standing};
pub use refused::Refused;
pub use relocate::{Relocated, branch, relocate};
pub use ring::{Record, Ring};
pub use site::{InstructionSet, ItBlock, Site};
pub use trampoline::{Argument, Probe, Trampoline, trampoline};
