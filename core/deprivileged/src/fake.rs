//! A guest's memory for tests of single parts: one page, at address 0.

extern crate std;

use crate::host::Host;
use core::cell::RefCell;
use hanok_hal::AccessError;
use hanok_types::{Hpa, Ipa, PAGE_SIZE};
use std::vec;
use std::vec::Vec;

/// A page of memory.
pub(crate) struct FakePage(pub RefCell<Vec<u32>>);

impl FakePage {
    /// A page that begins with these words.
    pub fn new(words: &[u32]) -> Self {
        let mut page = vec![0; PAGE_SIZE as usize / 4];
        page[..words.len()].copy_from_slice(words);
        Self(RefCell::new(page))
    }
}

impl Host for FakePage {
    fn word(&self, at: Ipa) -> Result<u32, AccessError> {
        Ok(self.0.borrow()[at.get() as usize / 4])
    }
    fn set_word(&self, at: Ipa, value: u32) -> Result<(), AccessError> {
        self.0.borrow_mut()[at.get() as usize / 4] = value;
        Ok(())
    }
    fn store(&self, at: Ipa, bytes: &[u8]) -> Result<(), AccessError> {
        let mut words = self.0.borrow_mut();
        let word = &mut words[at.get() as usize / 4];
        let mut all = word.to_le_bytes();
        let first = at.get() as usize % 4;
        all[first..first + bytes.len()].copy_from_slice(bytes);
        *word = u32::from_le_bytes(all);
        Ok(())
    }
    fn synchronize_fetches(&self) {}
    fn show_code(&self, _: Hpa) {}
    fn clean(&self, _: Ipa) {}
    fn frame(&self, at: Ipa) -> Result<Hpa, AccessError> {
        Err(AccessError::NoMemory(at))
    }
    fn section(&self, _: Ipa) -> Option<Hpa> {
        None
    }
    fn is_writable(&self, _: Ipa) -> bool {
        true
    }
    fn kick(&self, _: usize) {}
}
