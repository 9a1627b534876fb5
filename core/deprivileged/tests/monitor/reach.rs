//! What memory an instruction reaches in User mode, by the CPU's MMU.

use crate::board::{Board, Tables, is_guest_frame, word_of_host};
use crate::hardware::Mmu;
use crate::interpret::{Abort, Bus, ordered};
use crate::native::Kind;
use hanok_abi::trampoline::Field;
use hanok_cpu32::{Access, GuestAccess, Refusal};
use hanok_hal::TableMemory;
use hanok_paging::shadow::HardwareRoot;
use hanok_types::Hpa;

/// What memory an instruction reaches in User mode.
pub struct Reach<'a> {
    pub board: &'a Board,
    pub mmu: &'a mut Mmu,
    pub tables: &'a Tables,
    pub root: HardwareRoot,
    /// The words that were read and are not as the guest wrote them.
    pub rewritten: Vec<usize>,
    pub refused: Option<Abort>,
}

impl Reach<'_> {
    fn find(&mut self, at: u32, kind: Kind) -> Result<u64, Abort> {
        let found = self.mmu.find(self.tables, &self.root, at, kind);
        found.ok_or(Abort {
            address: at,
            write: kind == Kind::Write,
            fault: None,
        })
    }

    fn byte(&mut self, host: u64) -> u32 {
        if !is_guest_frame(host) {
            return page_byte(self.tables, host);
        }
        let word = word_of_host(host);
        if self.board.is_changed(word) {
            self.rewritten.push(word);
        }
        self.board.original(word) >> (host % 4 * 8) & 0xff
    }

    fn put_byte(&mut self, host: u64, byte: u32) {
        if !is_guest_frame(host) {
            return put_page_byte(self.tables, host, byte);
        }
        let (word, shift) = (word_of_host(host), host % 4 * 8);
        let old = self.board.original(word);
        self.board.put(word, old & !(0xff << shift) | byte << shift);
    }
}

impl Bus for Reach<'_> {
    fn read(&mut self, address: u32, bytes: u32) -> Result<u32, Abort> {
        let mut value = 0;
        for number in 0..bytes {
            let host = self.find(address.wrapping_add(number), Kind::Read)?;
            value |= self.byte(host) << (8 * number);
        }
        Ok(value)
    }

    fn write(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Abort> {
        let mut places = Vec::new();
        for number in 0..bytes {
            places.push(self.find(address.wrapping_add(number), Kind::Write)?);
        }
        for (host, number) in places.into_iter().zip(0..) {
            self.put_byte(host, value >> (8 * number) & 0xff);
        }
        Ok(())
    }
}

/// For what User mode executes as the virtual CPU does.
impl GuestAccess for Reach<'_> {
    fn load(&mut self, access: Access) -> Result<u32, Refusal> {
        let bytes = access.width.bytes() as u32;
        let value = self.read(access.address, bytes);
        let value = value.map_err(|abort| self.refuse(abort))?;
        Ok(ordered(value, bytes, access.big_endian))
    }

    fn store(&mut self, access: Access, value: u32) -> Result<(), Refusal> {
        let bytes = access.width.bytes() as u32;
        let value = ordered(value, bytes, access.big_endian);
        let done = self.write(access.address, bytes, value);
        done.map_err(|abort| self.refuse(abort))
    }
}

impl Reach<'_> {
    fn refuse(&mut self, abort: Abort) -> Refusal {
        self.refused = Some(abort);
        Refusal::Again
    }
}

/// A byte of the virtual CPU's page.
pub fn page_byte(tables: &Tables, host: u64) -> u32 {
    let pair = tables.read(Hpa::new(host & !0xfff), (host as usize & 0xfff) / 8);
    (pair >> (host % 8 * 8)) as u32 & 0xff
}

fn put_page_byte(tables: &Tables, host: u64, byte: u32) {
    let (frame, index) = (Hpa::new(host & !0xfff), (host as usize & 0xfff) / 8);
    let shift = host % 8 * 8;
    let pair = tables.read(frame, index) & !(0xff << shift) | u64::from(byte) << shift;
    tables.clone().write(frame, index, pair);
}

/// A field of the virtual CPU's page, which is in this frame.
pub fn page_word(tables: &Tables, frame: Hpa, field: Field) -> u32 {
    let at = frame.get() + u64::from(field.offset());
    (0..4).fold(0, |word, byte| {
        word | page_byte(tables, at + byte) << (8 * byte)
    })
}

pub fn set_page_word(tables: &Tables, frame: Hpa, field: Field, value: u32) {
    let at = frame.get() + u64::from(field.offset());
    (0..4).for_each(|byte| put_page_byte(tables, at + byte, value >> (8 * byte) & 0xff));
}
