//! Accesses that a driver makes at each interrupt: they make no work, and nobody ever waits for them.

use super::SharedDevice;
use crate::Access;
use hanok_types::Width;

/// What came of such an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtOnce {
    /// The value of a load, or zero for a store.
    pub value: u64,
    /// Whether the level of the line of whoever made the access has changed.
    pub lowered: bool,
}

impl SharedDevice {
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
        // What somebody has lowered himself is to be raised anew.
        let (value, lowered) = if for_driver {
            let value = state.back.interrupts_at_once(offset, stored)?;
            state.unheeded_since = None;
            let lowered = before.driver && !state.lines().driver;
            state.shown.driver &= !lowered;
            (value, lowered)
        } else {
            if state.held || !state.was_offered {
                return None;
            }
            let value = state.transport.interrupts_at_once(offset, stored)?;
            let lowered = before.client && !state.lines().client;
            state.shown.client &= !lowered;
            (value, lowered)
        };
        Some(AtOnce {
            value: value.into(),
            lowered,
        })
    }
}
