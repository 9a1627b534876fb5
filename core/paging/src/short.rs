//! Short-descriptor translation tables of ARMv7-A (DDI 0406C, B3.5).
//!
//! A CPU without virtualization hardware knows no other format, or need not, and its guests use it
//! too. So three things are here: what the descriptors' bits mean, the walk of a *guest's* tables,
//! and a builder of the hypervisor's own ones.
//!
//! Kept true:
//! - The walk gives the guest what a CPU would give it: the same translation, and otherwise the
//!   first fault in the manual's order (external abort on the walk and translation fault by level,
//!   access flag, domain, permission). Where the manual says UNPREDICTABLE, the walk refuses.
//! - A walk reads at most two words and keeps nothing.
//!
//! Rejected: a [`crate::Format`] for these tables. A guest's tables have what that trait leaves out
//! (two bases, domains, remapped types, faults by kind), and the own tables have one level of
//! 16 KiB above one of 1 KiB, which [`crate::Geometry`] cannot say.

mod access;
mod descriptor;
mod fault;
mod memory;
mod own;
mod registers;
mod walk;
mod words;

pub use access::{Access, AccessKind, Permissions, Privilege, Rights};
pub(crate) use descriptor::Attributes;
pub use descriptor::{
    FirstLevel, LargePage, PageTable, Pxn, SecondLevel, Section, SmallPage, Supersection,
};
pub use fault::{ShortFault, ShortFaultKind, ShortLevel};
pub use memory::{Cacheability, MemoryKind, MemoryType, Shareability};
pub use own::OwnTable;
pub use registers::ShortRegime;
pub use walk::{GuestMapping, MappingSize, WalkError};
pub(crate) use words::Words;
