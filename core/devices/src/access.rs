//! One access of a guest to an address that is not memory.

use hanok_types::{Ipa, Width};

/// One access of a guest to an address that is not memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address of the first byte.
    pub ipa: Ipa,
    /// The width of the access.
    pub width: Width,
    /// Whether the access is a store.
    pub write: bool,
    /// The value of a store; bits above the width are ignored. Zero for a load.
    pub value: u64,
}

impl Access {
    /// A load.
    pub const fn load(ipa: Ipa, width: Width) -> Self {
        Self {
            ipa,
            width,
            write: false,
            value: 0,
        }
    }

    /// A store of `value`.
    pub const fn store(ipa: Ipa, width: Width, value: u64) -> Self {
        Self {
            ipa,
            width,
            write: true,
            value,
        }
    }
}
