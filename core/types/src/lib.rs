//! The words every other crate uses: addresses that cannot be mixed up, ids, access widths.
//!
//! An address is a newtype because the hypervisor holds four kinds of them at once, and
//! passing one for another is the fault that ends isolation. Arithmetic is checked: what a
//! guest or a description gave never wraps silently.

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
