//! Translation tables: one walker, with the formats as data.
//!
//! A [`Geometry`] says how an address is split into indices, and a [`Format`] says what a
//! descriptor's bits mean. [`Table`] does the rest for all of them: it maps with the largest blocks
//! that the alignment allows, splits a block when part of it changes, and frees tables that become
//! empty. So each rule of the architecture is written once.
//!
//! Kept true:
//! - A valid leaf changes to another valid descriptor only through an invalid one and a TLB
//!   invalidation (break-before-make, DDI 0487 D8.16). One function writes descriptors.
//! - No table but the root is ever empty, so no frame is lost.
//! - After an operation that fails, every address is translated as before. If the pool ran dry
//!   while a block was split, the block may be left in smaller pieces with the same meaning.
//!
//! Rejected: recursion through closures (it has deep stacks, and a callback that can fail in the
//! middle), a table type for each level (it makes four copies of the walker), and the contiguous
//! hint (blocks of 2 MiB and 1 GiB already cover a guest's RAM).
//!
//! The formats here are VMSAv8-64 with the 4 KiB granule, for EL2 stage 1 without VHE and for stage
//! 2. ARMv7's LPAE has the same descriptors for Hyp mode and stage 2 (DDI 0406C, B3.6), and needs
//! only a `Geometry` of its own.
//! Tables are read and written in units of 64 bits, as [`hanok_hal::TableMemory`] does.
//!
//! The short descriptors of ARMv7 are in [`short`], and the shadow tables of a guest that has no
//! stage 2 in [`shadow`]. What an SMMU has in memory beside tables of stage 2 is in [`smmu`].

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod format;
mod geometry;
mod guest;
mod mapping;
mod registers;
pub mod shadow;
pub mod short;
pub mod smmu;
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
