//! Who sent the SGIs of a GICv2 that are pending.

use hanok_types::{MAX_VCPUS, VcpuId};

/// The senders of one vCPU's SGIs.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(crate) struct Senders {
    /// Of the instances that are in no list register, a bit each.
    waiting: [u8; 16],
    /// Of the instance that is, or was last, in a list register.
    current: [u8; 16],
}

impl Senders {
    pub const fn new() -> Self {
        Self {
            waiting: [0; 16],
            current: [0; 16],
        }
    }

    pub fn waiting(&self, sgi: u32) -> u8 {
        self.waiting.get(sgi as usize).copied().unwrap_or(0)
    }

    pub fn current(&self, sgi: u32) -> u8 {
        self.current.get(sgi as usize).copied().unwrap_or(0)
    }

    pub fn change_waiting(&mut self, sgi: u32, change: impl FnOnce(u8) -> u8) {
        if let Some(waiting) = self.waiting.get_mut(sgi as usize) {
            *waiting = change(*waiting);
        }
    }

    /// One more instance waits.
    #[inline(always)]
    pub fn add(&mut self, sgi: u32, sender: VcpuId) {
        self.change_waiting(sgi, |waiting| waiting | only(sender.index() as u8));
    }

    /// An instance goes where the last one stood in a list register.
    #[inline(always)]
    pub fn replace(&mut self, sgi: u32, sender: VcpuId) {
        if let Some(current) = self.current.get_mut(sgi as usize) {
            *current = sender.index() as u8;
        }
    }

    /// The current instance waits again.
    pub fn take_back(&mut self, sgi: u32) {
        let current = only(self.current(sgi));
        self.change_waiting(sgi, |waiting| waiting | current);
    }

    /// An instance leaves those that wait for a list register.
    pub fn take_out(&mut self, sgi: u32, sender: u8) {
        self.change_waiting(sgi, |waiting| waiting & !only(sender));
        if let Some(current) = self.current.get_mut(sgi as usize) {
            *current = sender;
        }
    }
}

const _: () = assert!(MAX_VCPUS <= 8, "a GICv2 has no more CPU interfaces");

/// The bit of `sender`.
pub(crate) fn only(sender: u8) -> u8 {
    1u8.checked_shl(sender.into()).unwrap_or(0)
}
