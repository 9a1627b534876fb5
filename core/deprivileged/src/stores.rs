//! Stores to pages that hold code, carried out here: often the page holds data, too, and what is known of
//! its code still holds afterwards.

use crate::access::Memory;
use crate::answer::{Answer, Stopped};
use crate::code::Code;
use crate::faults::failed;
use crate::host::Host;
use crate::monitor::Monitor;
use crate::translation::regime;
use hanok_cpu32::{Access, Exception, Refusal, Rights};
use hanok_decode::Psr;
use hanok_decode::aarch32::{
    Contents, Encoding, ItState, LoadStore, Piece, Register, Slot, load_store,
};
use hanok_hal::{Mutex, TableMemory};
use hanok_types::{Address, GuestPage, Ipa};

/// The most words that one instruction stores of core registers.
const PIECES: usize = 16;

/// How often a page is given up for one store.
const TRIES: u32 = 4;

/// Where the bytes of the pieces of a store go.
struct Places {
    bytes: [[Ipa; 4]; PIECES],
    /// How many pieces have places.
    number: usize,
    /// What the guest takes at the next piece.
    refused: Option<Exception>,
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// The guest's store at the PC goes to `page`, which holds code. It is carried out if it is one of core
    /// registers; otherwise the page becomes plain memory, and the guest tries again.
    #[cold]
    pub(crate) fn store(
        &mut self,
        page: GuestPage,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        let word = match self.instruction(code, host) {
            Ok(word) => word,
            Err(answer) => return answer,
        };
        let psr = self.registers.psr;
        let encoding = if psr.thumb() {
            Encoding::t32((word >> 16) as u16, word as u16)
        } else {
            Encoding::A32(word)
        };
        let found = load_store(encoding, ItState::from_bits(psr.it())).filter(is_simple_store);
        match found {
            Some(store) => self.carry_out_store(&store, code, host),
            // It would never come to rest: write-protected for the fetch, and plain for the store.
            None if self.own_page(page, code, host) => {
                Answer::Stop(Stopped::Unproven { at: page.start() })
            }
            None => self.written(page, code, host),
        }
    }

    fn carry_out_store(
        &mut self,
        store: &LoadStore,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        let psr = self.registers.psr;
        let read = |register: Register| self.registers.read(register);
        let base = match store.address.base {
            Register::PC => store.pc_base(self.registers.pc),
            register => read(register),
        };
        let resolved = store
            .address
            .resolve(base, store.address.index().map_or(0, read), psr.c());
        // Where each byte goes is known before any is stored. What comes before a word that is refused is
        // stored all the same, as by a CPU.
        let found = match self.places(store, resolved.address, code, host) {
            Ok(found) => found,
            Err(answer) => return answer,
        };
        if let Err(answer) = self.store_pieces(store, &found, code, host) {
            return answer;
        }
        if let Some(exception) = found.refused {
            self.cpu.take(&mut self.registers, exception);
            return Answer::Resume;
        }
        if let Some((register, value)) = resolved.write_back {
            self.registers.write(register, value);
        }
        self.registers.advance(store.encoding.bytes());
        Answer::Resume
    }

    /// Where the bytes of each piece of a store to `address` go, up to one that is refused.
    fn places(
        &self,
        store: &LoadStore,
        address: u32,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Result<Places, Answer> {
        let psr = self.registers.psr;
        let rights = match (self.cpu.mode().is_privileged(), store.contents) {
            (true, Contents::Single(single)) if single.unprivileged => Rights::User,
            (true, _) => Rights::Kernel,
            (false, _) => Rights::User,
        };
        let locked = code.lock();
        let memory = Memory::new(host, &locked, regime(&self.cpu));
        let mut found = Places {
            bytes: [[Ipa::new(0); 4]; PIECES],
            number: 0,
            refused: None,
        };
        for (piece, place) in pieces(store, psr).zip(&mut found.bytes) {
            let access = Access {
                address: address.wrapping_add(piece.offset),
                width: piece.general.width,
                rights,
                big_endian: psr.big_endian(),
            };
            match memory.places(access) {
                Ok(bytes) => *place = bytes,
                Err(Refusal::Again) => {
                    return Err(memory.absent.get().map_or(Answer::Resume, Answer::Page));
                }
                Err(Refusal::Fault { address, fault }) => {
                    found.refused = Some(Exception::DataAbort {
                        address,
                        fault,
                        write: true,
                    });
                    break;
                }
            }
            found.number += 1;
        }
        Ok(found)
    }

    /// Stores each piece's bytes where they go.
    fn store_pieces(
        &mut self,
        store: &LoadStore,
        places: &Places,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Result<(), Answer> {
        let psr = self.registers.psr;
        for (piece, place) in pieces(store, psr).zip(&places.bytes).take(places.number) {
            let value = match piece.slot {
                Slot::Core(Register::PC) => store.pc_stored(self.registers.pc),
                Slot::Core(register) => self.registers.read(register),
                Slot::Extension(_) => 0,
            };
            let count = piece.general.width.bytes().min(4) as usize;
            let mut bytes = value.to_le_bytes();
            let Some(bytes) = bytes.get_mut(..count) else {
                continue;
            };
            if psr.big_endian() {
                bytes.reverse();
            }
            if place[0].is_aligned(count as u64) {
                // At once, as siblings may see it.
                self.store_bytes(place[0], bytes, code, host)?;
                continue;
            }
            for (at, byte) in place.iter().zip(bytes.chunks(1)) {
                self.store_bytes(*at, byte, code, host)?;
            }
        }
        Ok(())
    }

    /// Stores bytes in one word. If they change what is known of its page's code, the page becomes plain memory
    /// before.
    fn store_bytes(
        &mut self,
        at: Ipa,
        bytes: &[u8],
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Result<(), Answer> {
        let Some(page) = GuestPage::of(at) else {
            return Ok(());
        };
        let offset = at.get() as u32 & 0xfff;
        for _ in 0..TRIES {
            let stored = code.lock().store(host, page, offset, bytes);
            if stored.map_err(failed)? {
                return Ok(());
            }
            match self.written(page, code, host) {
                Answer::Resume => {}
                answer => return Err(answer),
            }
        }
        // Siblings make code of it again and again: the guest tries once more.
        Err(Answer::Resume)
    }
}

/// The words of a store, or what of them it stores.
fn pieces(store: &LoadStore, psr: Psr) -> impl Iterator<Item = Piece> {
    store.pieces(psr.big_endian()).take(PIECES)
}

/// Whether it is a store of core registers, whole.
fn is_simple_store(found: &LoadStore) -> bool {
    let pieces = found.pieces(false);
    let core = |slot: &Slot| matches!(slot, Slot::Core(_));
    !found.load
        && !matches!(
            found.contents,
            Contents::Exclusive(_) | Contents::Swap(_) | Contents::Block { user: true, .. }
        )
        && found.piece(0, false).is_some()
        && pieces.take(PIECES + 1).all(|piece| core(&piece.slot))
}
