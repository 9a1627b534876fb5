//! Translation tables: one walker, the formats as data.
//!
//! A [`Geometry`] says how an address is cut into indices, a [`Format`] says what a
//! descriptor's bits mean, and [`Table`] does the rest for all of them: it maps with the
//! largest blocks that alignment allows, splits a block when part of it changes, and gives
//! back tables that become empty. So a rule of the architecture stands in one place.
//!
//! What it keeps true:
//! - A leaf, once valid, changes to another valid descriptor through an invalid one and a
//!   TLB invalidation (break-before-make, DDI 0487 D8.16); one function writes descriptors.
//! - No table but the root is ever left empty, so no frame is lost.
//! - An operation that fails leaves every address translated as before. A pool that ran dry
//!   while a block was split may leave the block in smaller pieces with the same meaning.
//!
//! Rejected: recursion through closures (deep stacks, and a callback that can fail in the
//! middle), a table type for each level (monomorphizes the walker four times), and the
//! contiguous hint (the 2 MiB and 1 GiB blocks already cover a guest's RAM).
//!
//! The formats here are VMSAv8-64 with 4 KiB granule: EL2 stage 1 without VHE, and stage 2.
//! ARMv7's LPAE has the same descriptors for Hyp mode and stage 2 (DDI 0406C, B3.6), so that a
//! `Geometry` is all it adds. A further format (the short descriptors) adds a `Format` too.
//! Tables are read and written in units of 64 bits, as [`hanok_hal::TableMemory`] does.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod format;
mod geometry;
mod guest;
mod mapping;
mod registers;
mod stage1;
mod stage2;
mod table;
mod vmid;

pub use format::{Entry, Format};
pub use geometry::{Geometry, Level};
pub use guest::GuestRegime;
pub use mapping::{MapError, Mapping};
pub use registers::{MAIR_EL2, PaRange, Vmid, tcr_el2, vtcr, vtcr_el2, vttbr_el2};
pub use stage1::{El2Stage1, Stage1Access, Stage1Attributes, Stage1Memory};
pub use stage2::{Stage2, Stage2Access, Stage2Attributes, Stage2Execute, Stage2Memory};
pub use table::{Mappings, Split, Table};
pub use vmid::{Fresh, VmidPool};
