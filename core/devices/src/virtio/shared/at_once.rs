//! Accesses to registers by a VM: any of them, and those that a driver makes at each interrupt, which make no work, and for which
//! nobody ever waits.

use super::SharedDevice;
use crate::Access;
use crate::virtio::transport::{INTERRUPT_ACK, INTERRUPT_STATUS};
use hanok_abi::back_end::register as driver;
use hanok_types::Width;

/// What came of such an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    /// The value of a load, or zero for a store.
    pub value: u64,
    /// Whether the access has ended an interrupt: then the line of whoever made it is low for a moment, and high again if there is another reason.
    pub ended: bool,
}

/// What came of any access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessed {
    /// The value of a load, or zero for a store.
    pub value: u64,
    /// Whether the line of whoever made the access has another level.
    pub changed: bool,
    /// [`SharedDevice::needs_attention`], after a store.
    pub needs_attention: bool,
}

impl SharedDevice {
    /// A load or store of the driver VM's (`for_driver`) or of the client's. Kept out of line: inlined, it would make every device's exit longer.
    #[inline(never)]
    pub fn access_by(&self, for_driver: bool, offset: u64, access: Access) -> Accessed {
        let mut state = self.0.lock();
        let before = state.lines();
        let (value, changed) = if for_driver {
            let value = state.access_back_end(offset, access);
            (value, before.driver != state.lines().driver)
        } else {
            let value = state.access(offset, access);
            (value, before.client != state.lines().client)
        };
        Accessed {
            value,
            changed,
            // A load makes no work.
            needs_attention: access.write && state.needs_attention(for_driver),
        }
    }

    /// Whether [`Self::at_once`] may answer at `offset`.
    #[inline]
    pub fn is_at_once(for_driver: bool, offset: u64) -> bool {
        matches!(
            (for_driver, offset),
            (true, driver::INTERRUPT | driver::ACKNOWLEDGE | driver::TAKE)
                | (false, INTERRUPT_STATUS | INTERRUPT_ACK)
        )
    }

    /// A load of the reasons of an interrupt, or a store that clears them, by the driver VM (`for_driver`) or by the client. `None`, and nothing has
    /// changed, for any other access, and while the client has to wait for a back end ([`Self::has_to_wait`]).
    #[inline(never)]
    pub fn at_once(&self, for_driver: bool, offset: u64, access: Access) -> Option<AtOnce> {
        if access.width != Width::Word {
            return None;
        }
        let stored = access.write.then_some(access.value as u32);
        let mut state = self.0.lock();
        let before = state.lines();
        let (value, ends) = if for_driver {
            let (value, ends) = state.back.interrupts_at_once(offset, stored)?;
            state.unheeded_since = None;
            (value, ends && before.driver)
        } else {
            if state.held || !state.was_offered {
                return None;
            }
            let (value, ends) = state.transport.interrupts_at_once(offset, stored)?;
            (value, ends && before.client)
        };
        // What somebody has lowered himself is to be raised anew.
        let lines = state.lines();
        state.shown.client &= lines.client;
        state.shown.driver &= lines.driver;
        Some(AtOnce {
            value: value.into(),
            ended: ends,
        })
    }
}
