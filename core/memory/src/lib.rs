//! The board's memory: which spans of RAM are free, where a guest's RAM is best placed, and how the
//! hypervisor maps all of it for itself.
//!
//! A guest's RAM is one contiguous span whose host address equals the guest's address modulo the
//! size of the largest possible block, so that stage 2 needs few descriptors and the TLB few
//! entries. Only a handful of spans is allocated, at boot and when a VM starts or stops. So the map
//! is two short sorted lists without a heap, and each request examines every hole.
//!
//! Kept true: free and allocated spans never overlap, and together they are exactly the RAM without
//! what was reserved; two free spans never touch.
//!
//! After boot each frame has one owner ([`Owners`]), and each VM has an [`AddressSpace`], which
//! knows where each part of its memory is.
//!
//! Rejected: a buddy allocator (it rounds a 1.5 GiB guest to 2 GiB, and needs a table of frames),
//! first fit (it splits the one hole in which a 1 GiB block would have fitted), and a `free` that
//! trusts its caller (a span that is freed twice would become the RAM of two guests).

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
