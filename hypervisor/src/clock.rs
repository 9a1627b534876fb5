//! The counter by which the hypervisor and its guests measure time: the generic timer's, or on 32-bit CPUs
//! that have none another one of the device tree.

#[cfg(target_arch = "arm")]
mod host;

use hanok_arch::read;
use hanok_arm_common::machine::Kind;
use hanok_arm_common::privilege::is_deprivileged;
use hanok_config::BoardTree;
use hanok_types::IntId;

#[cfg(target_arch = "arm")]
use hanok_arch::backend::Arm32 as Registers;
#[cfg(target_arch = "aarch64")]
use hanok_arch::backend::El2 as Registers;

/// The counter, its frequency, and the interrupts of its timers.
#[derive(Debug)]
pub struct Clock {
    /// The part of the machine that reads the counter.
    pub registers: Registers,
    /// The counter's frequency in Hz.
    pub frequency: u64,
    /// The interrupt of the hypervisor's own timer.
    pub own: IntId,
    /// The interrupt of the guests' timer, where that is the CPU's.
    pub guests: IntId,
}

impl Clock {
    /// The clock of this board.
    pub fn new(tree: &BoardTree<'_>) -> Self {
        #[cfg(target_arch = "arm")]
        if !hanok_arch::has_generic_timer() {
            return host::clock(tree);
        }
        let timer = &tree.timer;
        // If the tree names none, they are the architecture's numbers (which BSA recommends for these PPIs). At
        // PL1 the hypervisor's timer is the physical one of the Non-secure state.
        let own = if is_deprivileged() {
            timer.physical.unwrap_or(IntId::new(30))
        } else {
            timer.hyp.unwrap_or(IntId::new(26))
        };
        Self {
            registers: Default::default(),
            frequency: read!("cntfrq_el0"),
            own,
            guests: timer.virt.unwrap_or(IntId::new(27)),
        }
    }

    /// The counter's value in seconds.
    pub fn seconds(&self) -> u64 {
        self.registers.counter() / self.frequency.max(1)
    }
}
