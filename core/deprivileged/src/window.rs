//! Where the hypervisor's window is in a guest's address space.

use crate::answer::{Answer, Stopped};
use crate::code::Code;
use crate::host::{Executable, Host, View};
use crate::monitor::Monitor;
use crate::translation::regime;
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::shadow::{HostMemory, Window};
use hanok_paging::short::{Access, AccessKind, Privilege, ShortFaultKind, ShortLevel, WalkError};

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
        (0..PLACES).map(|step| Self((FIRST + PLACES - step) % PLACES))
    }

    /// Its first address.
    pub const fn address(self) -> u32 {
        LOWEST + (self.0 << 20)
    }

    pub(crate) const fn window(self, descriptor: u32) -> Window {
        Window::new(self.address(), descriptor)
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// Where the window is.
    pub fn window(&self) -> Place {
        self.window
    }

    /// Moves the window to a megabyte in which the guest has nothing.
    pub(crate) fn move_window(&mut self, code: &Mutex<Code>, host: &impl Host) -> Answer {
        let free = {
            let code = code.lock();
            let view = View::new(host, &code, Executable::Sound);
            Place::all().find(|place| {
                let access = Access {
                    address: place.address(),
                    kind: AccessKind::Read,
                    by: Privilege::Kernel,
                };
                let found = regime(&self.cpu).walk(&access, |at| view.word(at));
                matches!(
                    found,
                    Err(WalkError::Fault(fault))
                        if fault.kind == ShortFaultKind::Translation
                            && fault.level == ShortLevel::First
                )
            })
        };
        let Some(place) = free else {
            return Answer::Stop(Stopped::NoWindow);
        };
        let owed = self.shadow.move_window(place.window(self.descriptor));
        self.window = place;
        self.owe(owed);
        Answer::Resume
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
