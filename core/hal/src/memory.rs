//! A guest's memory, translation tables and the TLB.

use hanok_types::{Address, GuestPage, Hpa, Ipa, PAGE_SIZE, Span};

/// The reasons why a guest's memory could not be read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// The guest has no memory at this address.
    NoMemory(Ipa),
    /// The guest has memory there, and this page of it is absent. The caller waits for the page and
    /// tries again.
    Absent(GuestPage),
}

/// Which of two memories an access failed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// That from which bytes are copied.
    From,
    /// That to which they are copied.
    To,
}

/// A guest's memory by intermediate physical address. An implementation checks each address against
/// what the VM was given, so that any value from a guest may be passed.
pub trait GuestMemory {
    /// Fills `into` with the bytes from `at` on. On an error nothing has changed.
    fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError>;
    /// Writes `from` to the bytes from `at` on. On an error nothing has changed.
    fn write(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError>;
    /// The little-endian 16 bits at `at`, which is even, by one access: of what a guest stores there meanwhile, all is
    /// seen or nothing. An odd address is taken for one without memory.
    fn load_half(&self, at: Ipa) -> Result<u16, AccessError>;
    /// Stores little-endian 16 bits at `at`, which is even, by one access: a guest that loads them sees all of it or
    /// nothing.
    fn store_half(&self, at: Ipa, value: u16) -> Result<(), AccessError>;
}

/// Copies `bytes` bytes at `at` of `from` to `there` of another memory by way of memory of the hypervisor's: `N` at the most. The
/// answer is how many that were.
///
/// # Errors
/// Where one of the memories could not be accessed, and why.
#[cold]
#[inline(never)]
pub fn pass_by<const N: usize>(
    (from, at): (&impl GuestMemory, Ipa),
    (to, there): (&impl GuestMemory, Ipa),
    bytes: u32,
) -> Result<u32, (End, AccessError)> {
    let mut between = [0; N];
    let count = bytes.min(N as u32);
    let between = between.get_mut(..count as usize).unwrap_or_default();
    from.read(at, between).map_err(|error| (End::From, error))?;
    to.write(there, between).map_err(|error| (End::To, error))?;
    Ok(count)
}

/// [`GuestMemory::load_half`] for a fake, whose accesses no guest makes meanwhile.
#[cfg(any(test, feature = "fake"))]
pub(crate) fn load_half(memory: &impl GuestMemory, at: Ipa) -> Result<u16, AccessError> {
    let mut bytes = [0; 2];
    even(at)?;
    memory.read(at, &mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

/// [`GuestMemory::store_half`] for a fake.
#[cfg(any(test, feature = "fake"))]
pub(crate) fn store_half(
    memory: &impl GuestMemory,
    at: Ipa,
    value: u16,
) -> Result<(), AccessError> {
    even(at)?;
    memory.write(at, &value.to_le_bytes())
}

#[cfg(any(test, feature = "fake"))]
fn even(at: Ipa) -> Result<(), AccessError> {
    let even = at.get().is_multiple_of(2);
    even.then_some(()).ok_or(AccessError::NoMemory(at))
}

/// Frames that hold translation tables.
///
/// Descriptors are 64 bits. Those of 32 bits lie in pairs, of which the lower half is the first one.
pub trait TableMemory {
    /// Allocates `frames` consecutive 4 KiB frames, zeroed and aligned to their size (a power of
    /// two); `None` if the pool is empty.
    fn allocate(&mut self, frames: usize) -> Option<Hpa>;
    /// Frees what [`Self::allocate`] allocated.
    fn free(&mut self, table: Hpa, frames: usize);
    /// The value of descriptor `index` of the table at `table`.
    fn read(&self, table: Hpa, index: usize) -> u64;
    /// Sets descriptor `index` of the table at `table`, and makes it visible to walkers.
    fn write(&mut self, table: Hpa, index: usize, descriptor: u64);
    /// As [`Self::write`], in a table that no walker can reach yet. Walkers see the descriptor once
    /// a later [`Self::write`] is done.
    fn write_unseen(&mut self, table: Hpa, index: usize, descriptor: u64) {
        self.write(table, index, descriptor);
    }
    /// Clears `count` descriptors of the table at `table` from `first` on. No walker can reach it.
    fn clear_unseen(&mut self, table: Hpa, first: usize, count: usize) {
        for index in first..first + count {
            self.write_unseen(table, index, 0);
        }
    }
    /// The value of the 32-bit descriptor `index` of the table at `table`, which is aligned to 8 bytes.
    fn read_word(&self, table: Hpa, index: usize) -> u32 {
        let (page, pair, is_lower) = place(table, index);
        let both = self.read(page, pair);
        if is_lower {
            both as u32
        } else {
            (both >> u32::BITS) as u32
        }
    }
    /// Sets the 32-bit descriptor `index` of the table at `table`, and makes it visible to walkers.
    fn write_word(&mut self, table: Hpa, index: usize, descriptor: u32) {
        let (page, pair, both) = with(self, table, index, descriptor);
        self.write(page, pair, both);
    }
    /// As [`Self::write_word`], but walkers see the descriptor once a later write that is not unseen is done.
    fn write_word_unseen(&mut self, table: Hpa, index: usize, descriptor: u32) {
        let (page, pair, both) = with(self, table, index, descriptor);
        self.write_unseen(page, pair, both);
    }
    /// Whether normal memory is mapped as shareable where it is to be. It is not on a CPU that is alone and may
    /// leave shareable memory out of its caches (a Cortex-A8; DDI 0406C, A3.5.4, allows that): there it would lose
    /// them, and what two mappings of the same memory have in them would differ.
    fn shares(&self) -> bool {
        true
    }
}

/// The page of a 32-bit descriptor, the index of its pair in there, and whether it is the lower half of the pair. A table
/// of several pages is one table of the memory, so its indices go on.
fn place(table: Hpa, index: usize) -> (Hpa, usize, bool) {
    let page = table.align_down(PAGE_SIZE);
    let number = (table.get() - page.get()) as usize / size_of::<u32>() + index;
    (page, number / 2, number.is_multiple_of(2))
}

/// The page of a 32-bit descriptor, its pair, and what that is with the descriptor.
fn with<M: TableMemory + ?Sized>(
    memory: &M,
    table: Hpa,
    index: usize,
    to: u32,
) -> (Hpa, usize, u64) {
    let (page, pair, is_lower) = place(table, index);
    let both = memory.read(page, pair);
    // Not by a shift of a mask by 0 or 32: for T32 the compiler has made code of that which loses the
    // other half.
    let [lower, upper] = if is_lower {
        [to, (both >> u32::BITS) as u32]
    } else {
        [both as u32, to]
    };
    (page, pair, u64::from(upper) << u32::BITS | u64::from(lower))
}

/// The TLBs of one translation regime, on all CPUs.
pub trait Tlb<A> {
    /// Invalidates the entries for `range`, and waits until that is done on all CPUs.
    fn invalidate(&mut self, range: Span<A>);
}

#[cfg(any(test, feature = "fake"))]
mod fakes {
    use super::*;
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec;
    use std::vec::Vec;

    /// A block of guest memory whose pages can be taken and given back.
    #[derive(Debug)]
    pub struct FakeGuestMemory {
        start: Ipa,
        bytes: RefCell<Vec<u8>>,
        /// The pages that are absent.
        absent: RefCell<BTreeSet<GuestPage>>,
    }

    impl FakeGuestMemory {
        /// A block of `len` zeroed bytes at `start`.
        pub fn new(start: Ipa, len: usize) -> Self {
            Self {
                start,
                bytes: RefCell::new(vec![0; len]),
                absent: RefCell::default(),
            }
        }

        /// Takes the page at `at`. Its bytes are kept.
        pub fn take_page(&self, at: Ipa) {
            self.absent.borrow_mut().extend(GuestPage::of(at));
        }

        /// Gives the page at `at` back.
        pub fn give_page(&self, at: Ipa) {
            let page = GuestPage::of(at);
            self.absent.borrow_mut().retain(|one| Some(*one) != page);
        }

        fn range(&self, at: Ipa, len: usize) -> Result<core::ops::Range<usize>, AccessError> {
            let none = AccessError::NoMemory(at);
            let from = at.get().checked_sub(self.start.get()).ok_or(none)? as usize;
            let to = from.checked_add(len).ok_or(none)?;
            if to > self.bytes.borrow().len() {
                return Err(none);
            }
            let absent = self.absent.borrow();
            let bytes = at.get()..at.get() + len as u64;
            let mut pages = bytes.filter_map(|byte| GuestPage::of(Ipa::new(byte)));
            match pages.find(|page| absent.contains(page)) {
                Some(page) => Err(AccessError::Absent(page)),
                None => Ok(from..to),
            }
        }
    }

    impl GuestMemory for FakeGuestMemory {
        fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError> {
            let range = self.range(at, into.len())?;
            into.copy_from_slice(&self.bytes.borrow()[range]);
            Ok(())
        }

        fn write(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError> {
            let range = self.range(at, from.len())?;
            self.bytes.borrow_mut()[range].copy_from_slice(from);
            Ok(())
        }

        fn load_half(&self, at: Ipa) -> Result<u16, AccessError> {
            load_half(self, at)
        }

        fn store_half(&self, at: Ipa, value: u16) -> Result<(), AccessError> {
            store_half(self, at, value)
        }
    }

    /// Table frames from a pool of a given size; a double free panics.
    #[derive(Debug)]
    pub struct FakeTableMemory {
        next: u64,
        left: usize,
        tables: BTreeMap<Hpa, [u64; 512]>,
    }

    impl FakeTableMemory {
        /// A pool of `frames` frames.
        pub fn new(frames: usize) -> Self {
            Self {
                next: 0x8000_0000,
                left: frames,
                tables: BTreeMap::new(),
            }
        }

        /// The number of allocated frames.
        pub fn in_use(&self) -> usize {
            self.tables.len()
        }
    }

    impl TableMemory for FakeTableMemory {
        fn allocate(&mut self, frames: usize) -> Option<Hpa> {
            self.left = self.left.checked_sub(frames)?;
            let size = frames as u64 * PAGE_SIZE;
            let start = Hpa::new(self.next).align_up(size)?;
            self.next = start.get() + size;
            for frame in 0..frames as u64 {
                self.tables
                    .insert(start.checked_add(frame * PAGE_SIZE)?, [0; 512]);
            }
            Some(start)
        }

        fn free(&mut self, table: Hpa, frames: usize) {
            self.left += frames;
            for frame in 0..frames as u64 {
                let at = Hpa::new(table.get() + frame * PAGE_SIZE);
                assert!(self.tables.remove(&at).is_some(), "{at:?} freed twice");
            }
        }

        fn read(&self, table: Hpa, index: usize) -> u64 {
            self.tables[&Hpa::new(table.get() + (index as u64 / 512) * PAGE_SIZE)][index % 512]
        }

        fn write(&mut self, table: Hpa, index: usize, descriptor: u64) {
            let frame = Hpa::new(table.get() + (index as u64 / 512) * PAGE_SIZE);
            self.tables
                .get_mut(&frame)
                .expect("a table that was allocated")[index % 512] = descriptor;
        }
    }

    /// A TLB that records what was invalidated.
    #[derive(Debug, Default)]
    pub struct FakeTlb<A> {
        /// The ranges, oldest first.
        pub invalidated: Vec<Span<A>>,
    }

    impl<A> Tlb<A> for FakeTlb<A> {
        fn invalidate(&mut self, range: Span<A>) {
            self.invalidated.push(range);
        }
    }
}

#[cfg(any(test, feature = "fake"))]
pub use fakes::{FakeGuestMemory, FakeTableMemory, FakeTlb};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_taken_is_named_and_comes_back_as_it_was() {
        let memory = FakeGuestMemory::new(Ipa::new(0x4000_0000), 0x3000);
        let across = Ipa::new(0x4000_0ffe);
        memory.write(across, &[1, 2, 3, 4]).unwrap();
        memory.take_page(Ipa::new(0x4000_1abc));
        let page = GuestPage::of(Ipa::new(0x4000_1000)).unwrap();
        let (mut bytes, absent) = ([9; 4], AccessError::Absent(page));
        assert_eq!(memory.read(across, &mut bytes), Err(absent));
        assert_eq!(memory.write(across, &[7; 4]), Err(absent));
        assert_eq!(bytes, [9; 4], "nothing was changed");
        assert_eq!(memory.read(Ipa::new(0x4000_0ffe), &mut bytes[..2]), Ok(()));
        memory.give_page(Ipa::new(0x4000_1000));
        assert_eq!(memory.read(across, &mut bytes), Ok(()));
        assert_eq!(bytes, [1, 2, 3, 4]);
        let beyond = Ipa::new(0x4000_2ffe);
        let none = Err(AccessError::NoMemory(beyond));
        assert_eq!(memory.read(beyond, &mut bytes), none);
    }
}
