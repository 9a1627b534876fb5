//! Pages of a guest's memory.

use crate::{Ipa, PAGE_SIZE};

/// A page of a guest's memory, by its number: the intermediate physical address in units of
/// [`PAGE_SIZE`]. It is half as long as an address, because answers to exits hold one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestPage(u32);

impl GuestPage {
    /// The page that contains `address`; `None` from 16 TiB on, where no guest has memory.
    pub fn of(address: Ipa) -> Option<Self> {
        u32::try_from(address.get() / PAGE_SIZE).ok().map(Self)
    }

    /// The page with this number.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// The page's number: its first address by the size of a page.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The page's first address.
    pub fn start(self) -> Ipa {
        Ipa::new(u64::from(self.0) * PAGE_SIZE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_at_its_first_address() {
        for (address, start) in [
            (0, 0),
            (0xfff, 0),
            (0x4000_1234, 0x4000_1000),
            ((1 << 44) - 1, (1 << 44) - PAGE_SIZE),
        ] {
            let page = GuestPage::of(Ipa::new(address)).unwrap();
            assert_eq!(page.start(), Ipa::new(start), "{address:#x}");
        }
        assert_eq!(GuestPage::of(Ipa::new(1 << 44)), None);
        assert_eq!(GuestPage::of(Ipa::new(u64::MAX)), None);
    }
}
