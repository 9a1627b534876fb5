//! Where the hypervisor's window can be in a guest's address space.

use hanok_paging::shadow::Window;

/// The megabytes in which the window may be, by the address of the lowest one.
const LOWEST: u32 = 0xff00_0000;
/// How many they are.
const PLACES: u32 = 15;
/// The one that is tried first: between what Linux has for its device tree and what it maps at fixed
/// addresses (arch/arm/include/asm/fixmap.h, memory.h).
const FIRST: u32 = 11;

/// One of the megabytes in which the window may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u32);

impl Place {
    /// The one that is tried first.
    pub const FIRST: Self = Self(FIRST);

    /// All of them, in the order in which they are tried.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..PLACES).map(|number| match FIRST.checked_sub(number) {
            Some(place) => Self(place),
            None => Self(FIRST + PLACES - number),
        })
    }

    /// Its first address.
    pub const fn address(self) -> u32 {
        LOWEST + (self.0 << 20)
    }

    pub(crate) const fn window(self, descriptor: u32) -> Window {
        Window::new(self.address(), descriptor)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn all_places_are_tried() {
        let all: BTreeSet<u32> = Place::all().map(Place::address).collect();
        assert_eq!(all.len(), PLACES as usize);
        assert_eq!(Place::all().next(), Some(Place::FIRST));
        assert!(all.iter().all(|at| (0xff00_0000..0xfff0_0000).contains(at)));
    }
}
