//! Stores to pages that hold code, carried out here: often the page holds data, too, and what is known of
//! its code still holds afterwards. A page that the guest fills or copies to, one word behind the other, is given up
//! instead (`row`).

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
use hanok_hal::{AccessError, Mutex, TableMemory};
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
            Some(_) if self.row.is_long_with(self.fault_address) => self.written(page, code, host),
            Some(store) => self.carry_out_store(&store, code, host),
            // It would never come to rest: write-protected for the fetch, and plain for the store.
            None if self.own_page(page, code, host) => {
                Answer::Stop(Stopped::Unproven { at: page.start() })
            }
            None => {
                if self.member.has_siblings() {
                    code.lock().spare(page);
                }
                self.written(page, code, host)
            }
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
        let refused = match self.store_at(store, resolved.address, code, host) {
            Ok(refused) => refused,
            Err(answer) => return answer,
        };
        if let Some(exception) = refused {
            self.cpu.take(&mut self.registers, exception);
            return Answer::Resume;
        }
        if let Some((register, value)) = resolved.write_back {
            self.registers.write(register, value);
        }
        self.registers.advance(store.encoding.bytes());
        Answer::Resume
    }

    /// Stores to `address`. Answers what the guest takes at a word that is refused: what comes before it is stored all the
    /// same, as by a CPU. Where the bytes go is found out and they are stored while one lock is held, so that a sibling
    /// that changes its tables meanwhile finds the store made before or after.
    fn store_at(
        &mut self,
        store: &LoadStore,
        address: u32,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Result<Option<Exception>, Answer> {
        for _ in 0..TRIES {
            let mut locked = code.lock();
            let found = self.places(store, address, &locked, host)?;
            let stored = self.store_pieces(store, &found, &mut locked, host);
            drop(locked);
            let Some(page) = stored.map_err(failed)? else {
                return Ok(found.refused);
            };
            match self.written(page, code, host) {
                Answer::Resume => {}
                answer => return Err(answer),
            }
        }
        // Siblings make code of it again and again: the guest tries once more.
        Err(Answer::Resume)
    }

    /// Where the bytes of each piece of a store to `address` go, up to one that is refused.
    fn places(
        &self,
        store: &LoadStore,
        address: u32,
        code: &Code,
        host: &impl Host,
    ) -> Result<Places, Answer> {
        let psr = self.registers.psr;
        let rights = match (self.cpu.mode().is_privileged(), store.contents) {
            (true, Contents::Single(single)) if single.unprivileged => Rights::User,
            (true, _) => Rights::Kernel,
            (false, _) => Rights::User,
        };
        let memory = Memory::new(host, code, regime(&self.cpu));
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

    /// Stores each piece's bytes where they go; or answers the page that has to be given up before.
    fn store_pieces(
        &self,
        store: &LoadStore,
        places: &Places,
        code: &mut Code,
        host: &impl Host,
    ) -> Result<Option<GuestPage>, AccessError> {
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
            // At once where it is aligned, as siblings may see it.
            let whole = place[0].is_aligned(count as u64);
            let size = if whole { count } else { 1 };
            for (at, bytes) in place.iter().zip(bytes.chunks(size)) {
                let Some(page) = GuestPage::of(*at) else {
                    continue;
                };
                if !code.store(host, page, at.get() as u32 & 0xfff, bytes)? {
                    return Ok(Some(page));
                }
            }
        }
        Ok(None)
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
