//! The types that every other crate uses: addresses that cannot be mixed up, ids, access widths.
//!
//! Addresses are newtypes because the hypervisor uses four kinds of them at once, and one that is
//! passed for another would break isolation. Arithmetic is checked: a number from a guest or a
//! description never wraps silently.

#![no_std]
#![forbid(unsafe_code)]

mod address;
mod ids;
mod page;
pub mod platform;
mod regs;
mod time;

pub use address::{Address, Gva, Hpa, Hva, Ipa, Span};
pub use ids::{
    CpuId, GICV2_CPUS, GicVersion, IntId, IntKind, MAX_CPUS, MAX_VCPUS, MAX_VMS, VcpuId, VcpuSet,
    VmId,
};
pub use page::GuestPage;
pub use regs::{Regs, Width};
pub use time::Deadline;

/// The translation granule: 4 KiB on every backend.
pub const PAGE_SIZE: u64 = 4096;
