//! The flash banks. They are empty, so that firmware finds nothing in them to start.

use crate::device::{Model, World};
use crate::{Access, Unknown};
use hanok_types::Width;

/// Both flash banks. Every byte reads as erased. A write is ignored and counted, so that a guest
/// that sends the commands of a CFI flash reads erased data as the answer and finds no such flash.
#[derive(Clone, Debug, Default)]
pub struct Flash {
    unknown: Unknown,
}

impl Flash {
    /// Erased flash.
    pub const fn new() -> Self {
        Self {
            unknown: Unknown {
                reads: 0,
                writes: 0,
            },
        }
    }

    /// The value of any read: all ones, as wide as the read.
    pub fn read(&self, width: Width) -> u64 {
        width.mask()
    }

    /// Ignores a write, and counts it.
    pub fn write(&mut self) {
        self.unknown.write();
    }

    /// The counts of accesses that were ignored: writes.
    pub fn unknown(&self) -> Unknown {
        self.unknown
    }
}

impl Model for Flash {
    fn access(&mut self, _offset: u64, access: Access, _world: &mut impl World) -> u64 {
        if access.write {
            self.write();
            return 0;
        }
        self.read(access.width)
    }

    fn unknown(&self) -> Unknown {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_stays_erased() {
        let mut flash = Flash::new();
        flash.write();
        assert_eq!(flash.read(Width::Half), 0xffff);
        assert_eq!(flash.read(Width::Double), u64::MAX);
        assert_eq!(flash.unknown().writes, 1);
    }
}
