//! One access of a guest to an address that is not memory.

use hanok_types::{Ipa, Width};

/// One access of a guest to an address that is not memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte's address.
    pub ipa: Ipa,
    /// How many bytes.
    pub width: Width,
    /// Whether it stores.
    pub write: bool,
    /// What it stores; bits above the width do not count. Zero for a load.
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
