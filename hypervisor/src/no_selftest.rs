//! The replacement of faults on demand (`selftest.rs`) in an image that is not built for tests: there are
//! none.

use crate::arena::Arena;
use crate::fatal::refuse;
use hanok_arch::Vcpu;
use hanok_arm_common::frames::SharedFrames;
use hanok_arm_common::planted::Planted;
use hanok_config::VmConfig;
use hanok_memory::Slot;
use hanok_paging::{Stage2, Table};
use hanok_types::Hpa;

/// Refuses to start if the arguments ask for a fault, which would be ignored: a test that plants a fault
/// waits for its effect.
pub fn early(bootargs: &str) {
    let mut words = bootargs.split_whitespace();
    if let Some(word) = words.find(|word| word.starts_with("hanok.selftest=")) {
        refuse(format_args!(
            "{word}: this image cannot plant faults: remove the word, or build the hypervisor with \
             its feature `selftest`, as `hanok run --append {word}` does"
        ));
    }
}

/// Nothing happens.
#[inline(always)]
pub fn late(_bootargs: &str) {}

/// The vCPU to enter is `vcpu`.
///
/// # Safety
/// None is needed here: it is that of `selftest.rs`.
#[inline(always)]
pub unsafe fn running(_bootargs: &str, vcpu: *mut Vcpu) -> *mut Vcpu {
    vcpu
}

/// Nothing is planted.
#[inline(always)]
pub fn planted(_bootargs: &str) -> Planted {
    Planted
}

/// No VM sees another one's memory.
pub struct Leak;

impl Leak {
    /// No words want it.
    #[inline(always)]
    pub fn new(_bootargs: &str) -> Self {
        Self
    }

    /// Maps nothing.
    #[inline(always)]
    pub fn apply(&mut self, _stage_2: &mut Table<Stage2, SharedFrames>, _own: Hpa) {}
}

/// The number of pages of each VM that can be away from their homes.
pub const SLOTS: usize = 0;

/// Nothing of a VM's memory is taken.
pub struct Slots;

impl Slots {
    /// No words want it.
    #[inline(always)]
    pub fn new(_bootargs: &str, _vms: usize, _arena: &mut Arena) -> Self {
        Self
    }

    /// None.
    #[inline(always)]
    pub fn of(&mut self, _config: &VmConfig) -> &'static mut [Option<Slot>] {
        &mut []
    }
}
