//! A VM, with the executive's data about it.

use crate::Notices;
use hanok_hal::sync::atomic::{AtomicU8, AtomicU64};
use hanok_hal::{Backend, Mutex};
use hanok_memory::AddressSpace;
use hanok_types::MAX_CPUS;
use hanok_vm::Vm;

/// A VM and its memory.
#[allow(missing_debug_implementations)]
pub struct VmUnit<B: Backend> {
    /// Its state in the core.
    pub vm: Vm,
    /// Its RAM.
    pub ram: B::Memory,
    /// Its firmware, which is the guest's first bank of flash.
    pub flash: Option<B::Memory>,
    /// Whether none of its pages can be taken, as [`AddressSpace::is_fixed`] says: that never changes.
    pub is_fixed: bool,
    /// Its address space: which pages of its memory are present, and where.
    pub memory: Mutex<AddressSpace<B::Tables>>,
    /// VTTBR_EL2 in its present boot; zero before the first.
    pub space: AtomicU64,
    /// The vCPU that was last in each pCPU, plus one: a vCPU must not use TLB entries of another
    /// one.
    pub last_here: [AtomicU8; MAX_CPUS],
    /// The lines that were printed about it lately.
    pub notices: Notices,
}
