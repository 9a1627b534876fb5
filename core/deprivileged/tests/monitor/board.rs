//! The guest's memory on the board: what is in it, and what the guest wrote there.

use hanok_deprivileged::{Host, Member, Seat, Stretch};
use hanok_hal::fake::FakeTableMemory;
use hanok_hal::{AccessError, TableMemory};
use hanok_types::{Address, GuestPage, Hpa, Ipa, PAGE_SIZE, Span};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// RAM, two megabytes.
pub const RAM: u32 = 0x4000_0000;
const RAM_BYTES: u32 = 2 << 20;
/// Firmware, which nobody writes, at 0.
const ROM_BYTES: u32 = 0x4000;
pub const WORDS: usize = ((RAM_BYTES + ROM_BYTES) / 4) as usize;
const HOST_RAM: u64 = 0xa000_0000;
const HOST_ROM: u64 = 0xb000_0000;
/// The registers of the guest's device.
const DEVICE_FRAME: u64 = 0x1000_a000;

/// The number of the word at an address of the guest's memory.
pub fn word_of(at: u64) -> Option<usize> {
    let at = u32::try_from(at).ok()?;
    match at.wrapping_sub(RAM) {
        offset if offset < RAM_BYTES => Some((offset / 4) as usize),
        _ if at < ROM_BYTES => Some(((RAM_BYTES + at) / 4) as usize),
        _ => None,
    }
}

/// The number of the word at an address of the host's.
pub fn word_of_host(at: u64) -> usize {
    let ram = at.wrapping_sub(HOST_RAM);
    let at = if ram < u64::from(RAM_BYTES) {
        u64::from(RAM) + ram
    } else {
        at - HOST_ROM
    };
    word_of(at).expect("a frame of the guest's")
}

/// Whether an address of the host's is a frame of the guest's memory.
pub const fn is_guest_frame(at: u64) -> bool {
    at >= HOST_RAM
}

pub fn is_writable(at: u64) -> bool {
    at.wrapping_sub(RAM.into()) < RAM_BYTES.into()
}

#[derive(Default)]
pub struct Board {
    /// What is in the memory.
    memory: RefCell<Vec<u32>>,
    /// What the guest wrote.
    guest: RefCell<Vec<u32>>,
    /// The words that are not as the guest wrote them.
    changed: RefCell<BTreeSet<usize>>,
    /// The pages that are absent until they are asked for.
    pub absent: RefCell<BTreeSet<u64>>,
    /// Counts reads of words since the last look for interrupts, and the most of them between two looks.
    pub reads: Cell<u64>,
    pub most_reads: Cell<u64>,
    /// Counts looks for interrupts.
    pub looks: Cell<u64>,
    /// Whether RAM may be mapped by megabytes.
    pub sections: bool,
    /// The page of registers of a device that the guest has mapped, if it has one.
    pub device: Cell<Option<u32>>,
    /// Words that were written by an instruction.
    pub written: RefCell<BTreeSet<usize>>,
    /// The seats of the vCPUs, and which of them were interrupted.
    pub seats: Cell<&'static [Seat]>,
    pub kicked: RefCell<BTreeSet<usize>>,
}

impl Board {
    pub fn new(words: Vec<u32>, sections: bool) -> Self {
        Self {
            memory: RefCell::new(words.clone()),
            guest: RefCell::new(words),
            sections,
            ..Self::default()
        }
    }

    /// What is in memory.
    pub fn get(&self, word: usize) -> u32 {
        self.memory.borrow()[word]
    }

    /// What the guest wrote.
    pub fn original(&self, word: usize) -> u32 {
        self.guest.borrow()[word]
    }

    pub fn originals(&self) -> Vec<u32> {
        self.guest.borrow().clone()
    }

    pub fn is_changed(&self, word: usize) -> bool {
        self.changed.borrow().contains(&word)
    }

    /// The words of a page that are not as the guest wrote them.
    pub fn changed_in_page(&self, word: usize) -> Vec<usize> {
        let first = word & !1023;
        let changed = self.changed.borrow();
        changed.range(first..first + 1024).copied().collect()
    }

    /// A store of the guest's.
    pub fn put(&self, word: usize, value: u32) {
        assert!(!self.is_changed(word), "a trap is written at {word:#x}");
        self.written.borrow_mut().insert(word);
        self.memory.borrow_mut()[word] = value;
        self.guest.borrow_mut()[word] = value;
    }

    fn check(&self, at: Ipa) -> Result<usize, AccessError> {
        let word = word_of(at.get()).ok_or(AccessError::NoMemory(at))?;
        let page = at.get() / PAGE_SIZE;
        if self.absent.borrow().contains(&page) {
            return Err(AccessError::Absent(GuestPage::of(at).expect("below 4 GiB")));
        }
        Ok(word)
    }
}

impl Host for Board {
    fn is_interrupted(&self) -> bool {
        // Now and then, so that work is left and gone on with behind each of its pieces. What was read so far is a piece.
        self.most_reads
            .set(self.most_reads.get().max(self.reads.take()));
        self.looks.set(self.looks.get() + 1);
        self.looks.get().is_multiple_of(3)
    }

    fn word(&self, at: Ipa) -> Result<u32, AccessError> {
        self.reads.set(self.reads.get() + 1);
        assert!(at.is_aligned(4));
        Ok(self.get(self.check(at)?))
    }

    fn set_word(&self, at: Ipa, value: u32) -> Result<(), AccessError> {
        let word = self.check(at)?;
        self.memory.borrow_mut()[word] = value;
        let mut changed = self.changed.borrow_mut();
        if self.original(word) == value {
            changed.remove(&word);
        } else {
            changed.insert(word);
        }
        Ok(())
    }

    fn store(&self, at: Ipa, bytes: &[u8]) -> Result<(), AccessError> {
        for (byte, offset) in bytes.iter().zip(0..) {
            let at = at.get() + offset;
            let word = self.check(Ipa::new(at))?;
            assert!(is_writable(at));
            let shift = at % 4 * 8;
            let value = self.get(word) & !(0xff << shift) | u32::from(*byte) << shift;
            self.put(word, value);
        }
        Ok(())
    }

    fn synchronize_fetches(&self) {}

    fn show_code(&self, _: Hpa) {}

    fn clean(&self, _: Ipa) {}

    fn frame(&self, at: Ipa) -> Result<Hpa, AccessError> {
        self.check(at)?;
        let at = at.align_down(PAGE_SIZE).get();
        Ok(Hpa::new(if is_writable(at) {
            HOST_RAM + (at - u64::from(RAM))
        } else {
            HOST_ROM + at
        }))
    }

    fn device(&self, at: Ipa) -> Option<Hpa> {
        let page = at.align_down(PAGE_SIZE).get();
        let is_it = self.device.get().map(u64::from) == Some(page);
        is_it.then_some(Hpa::new(DEVICE_FRAME))
    }

    fn section(&self, at: Ipa) -> Option<Hpa> {
        let whole = self.sections && self.absent.borrow().is_empty() && is_writable(at.get());
        whole.then(|| self.frame(at).expect("RAM"))
    }

    fn stretch(&self, at: Ipa) -> Option<Stretch> {
        let span = Span::new(Ipa::new(RAM.into()), RAM_BYTES.into())?;
        let whole = self.sections && self.absent.borrow().is_empty() && span.contains(at);
        Stretch::new(span, Hpa::new(HOST_RAM)).filter(|_| whole)
    }

    fn is_writable(&self, at: Ipa) -> bool {
        is_writable(at.get())
    }

    fn kick(&self, vcpu: usize) {
        Member::new(self.seats.get(), vcpu).leave();
        self.kicked.borrow_mut().insert(vcpu);
    }
}

/// Memory for tables that the CPU can walk, too.
#[derive(Clone)]
pub struct Tables(pub Rc<RefCell<FakeTableMemory>>);

impl TableMemory for Tables {
    fn allocate(&mut self, frames: usize) -> Option<Hpa> {
        self.0.borrow_mut().allocate(frames)
    }

    fn free(&mut self, table: Hpa, frames: usize) {
        self.0.borrow_mut().free(table, frames);
    }

    fn read(&self, table: Hpa, index: usize) -> u64 {
        self.0.borrow().read(table, index)
    }

    fn write(&mut self, table: Hpa, index: usize, descriptor: u64) {
        self.0.borrow_mut().write(table, index, descriptor);
    }
}
