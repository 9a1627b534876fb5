//! A VM as this backend keeps it.

use crate::notices::Notices;
use crate::ram::GuestRam;
use core::sync::atomic::{AtomicU8, AtomicU64};
use hanok_types::{Hpa, MAX_CPUS};
use hanok_vm::Vm;

/// A VM with what this backend adds to it.
#[derive(Debug)]
pub struct VmUnit {
    /// The core's part.
    pub vm: Vm,
    /// Its RAM.
    pub ram: GuestRam,
    /// Its firmware, where the guest sees its first bank of flash.
    pub flash: Option<GuestRam>,
    /// The root of its stage 2.
    pub root: Hpa,
    /// VTTBR_EL2 in its present life; zero before the first.
    pub vttbr: AtomicU64,
    /// The vCPU that was last in each pCPU, plus one: another one's TLB entries are not its.
    pub last_here: [AtomicU8; MAX_CPUS],
    /// How often it is spoken of.
    pub notices: Notices,
    /// How many blocks of 1 GiB, 2 MiB and 4 KiB its stage 2 has.
    pub blocks: [u32; 3],
}
