//! The board's memory: which spans of RAM are free, where a guest's RAM best lies, and how the
//! hypervisor maps it all for itself.
//!
//! A guest's RAM is one contiguous span whose host address agrees with the guest's address
//! modulo the size of the largest block that can serve it, so that stage 2 needs few
//! descriptors and the TLB few entries. Spans are handed out at boot and when a VM starts or
//! stops, a handful in all; so the map is two short sorted lists without a heap, and each
//! request looks at every hole.
//!
//! Kept true: free and allocated spans never overlap and together are exactly the RAM less
//! what was reserved; two free spans never touch.
//!
//! After boot each frame has one owner ([`Owners`]), and each VM an [`AddressSpace`], which knows what
//! of its memory is where.
//!
//! Rejected: a buddy allocator (it rounds a 1.5 GiB guest to 2 GiB, and needs a table of
//! frames), first fit (it cuts up the one hole that a 1 GiB block would have fitted), and a
//! `free` that trusts its caller (a span freed twice would be two guests' RAM).

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod frames;
mod owners;
mod plan;
mod space;
mod spans;

pub use frames::{FrameMap, MAX_SPANS, MemoryError};
pub use owners::{MAX_OWNED, Owner, OwnerError, Owners};
pub use plan::{Conflict, Kept, MAX_KEPT, Use, reachable};
pub use space::{
    Absence, AddressSpace, MAX_REGIONS, Page, PageError, Region, RegionKind, Slot, SpaceError,
    Taken,
};
