//! Stores of the kernel's to the page that it executes.
//!
//! Such a page would never come to rest: it is to be plain memory for the store, and write-protected
//! for the fetch. So the store is carried out here. A store to any other page is done by the guest
//! itself, once that page is plain memory.

use crate::access::Memory;
use crate::answer::{Answer, Stopped};
use crate::code::Code;
use crate::host::Host;
use crate::monitor::Monitor;
use crate::translation::regime;
use hanok_cpu32::{Access, Exception, GuestAccess, Refusal, Registers, Rights};
use hanok_decode::aarch32::{Contents, Encoding, ItState, LoadStore, Register, Slot, load_store};
use hanok_hal::{Mutex, TableMemory};
use hanok_types::Ipa;

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// Carries out the store at the PC, whose own page at `at` is plain memory again.
    pub(crate) fn store_here(
        &mut self,
        instruction: u32,
        at: Ipa,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        let psr = self.registers.psr;
        let encoding = if psr.thumb() {
            Encoding::t32((instruction >> 16) as u16, instruction as u16)
        } else {
            Encoding::A32(instruction)
        };
        // What has no pieces, and VFP, is not known here: exclusive stores, SWP.
        let found = load_store(encoding, ItState::from_bits(psr.it()));
        let Some(found) = found.filter(is_plain) else {
            return Answer::Stop(Stopped::Unproven { at });
        };
        let rights = match (self.cpu.mode().is_privileged(), found.contents) {
            (true, Contents::Single(single)) if single.unprivileged => Rights::User,
            (true, _) => Rights::Kernel,
            (false, _) => Rights::User,
        };
        let locked = code.lock();
        let mut memory = Memory::new(host, &locked, regime(&self.cpu));
        let done = store(&self.registers, &found, rights, &mut memory);
        let (written, absent) = (memory.written.get(), memory.absent.get());
        drop(locked);
        match (done, written, absent) {
            (Ok(moved), ..) => {
                if let Some((base, value)) = moved {
                    self.registers.write(base, value);
                }
                self.registers.advance(encoding.bytes());
                Answer::Resume
            }
            (Err((_, Refusal::Again)), Some(page), _) => {
                // It has two pages that hold code.
                match self.written(page, code, host) {
                    Answer::Resume => self.store_here(instruction, at, code, host),
                    answer => answer,
                }
            }
            (Err((_, Refusal::Again)), _, Some(page)) => Answer::Page(page),
            (Err((_, Refusal::Again)), ..) => Answer::Resume,
            (Err((address, Refusal::Fault(fault))), ..) => {
                let exception = Exception::DataAbort {
                    address,
                    fault,
                    write: true,
                };
                self.cpu.take(&mut self.registers, exception);
                Answer::Resume
            }
        }
    }
}

/// Whether it is a store of core registers.
fn is_plain(found: &LoadStore) -> bool {
    let pieces = found.pieces(false);
    let core = pieces
        .into_iter()
        .all(|piece| matches!(piece.slot, Slot::Core(_)));
    !found.load && core && found.piece(0, false).is_some()
}

/// The base and its new value, or where the store was refused and why.
type Stored = Result<Option<(Register, u32)>, (u32, Refusal)>;

fn store(
    registers: &Registers,
    found: &LoadStore,
    rights: Rights,
    memory: &mut impl GuestAccess,
) -> Stored {
    let (base, index) = (found.address.base, found.address.index());
    let base = match base {
        Register::PC => found.pc_base(registers.pc),
        base => registers.read(base),
    };
    let index = index.map_or(0, |index| registers.read(index));
    let resolved = found.address.resolve(base, index, registers.psr.c());
    let big_endian = registers.psr.big_endian();
    for piece in found.pieces(big_endian) {
        let Slot::Core(register) = piece.slot else {
            continue;
        };
        let value = match register {
            Register::PC => found.pc_stored(registers.pc),
            register => registers.read(register),
        };
        let access = Access {
            address: resolved.address.wrapping_add(piece.offset),
            width: piece.general.width,
            rights,
            big_endian,
        };
        let value = value & access.width.mask() as u32;
        let done = memory.store(access, value);
        done.map_err(|refusal| (access.address, refusal))?;
    }
    Ok(resolved.write_back)
}
