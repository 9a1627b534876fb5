//! AArch32 loads and stores to a device that the syndrome does not describe, as `instruction.rs`
//! for AArch64.
//!
//! The CPU describes a load or store of one core register, except the PC, without write-back (DDI
//! 0406C, B3.13.6, HSR.ISV = 1). All others are finished from the instruction: write-back, LDRD and
//! STRD, LDM and STM, PUSH and POP, transfers of the PC, VFP registers. The pieces are at most
//! words, as in the architecture's own pseudocode, lowest address first, and each is one access to
//! the device. Cache maintenance by address is done without an effect.
//!
//! Other instructions give the guest the same exceptions as a 64-bit guest:
//!
//! - exclusives, SWP: "unsupported exclusive or atomic access" if there is a device;
//! - VLD1 to VLD4, VST1 to VST4, RFE, SRS, LDM as an exception return, TBB and TBH, and accesses
//!   to two pages that do not lie one behind the other: an external abort, as at an address where there is nothing. No driver can
//!   rely on these: for Device memory, the architecture defines neither the number and order of the
//!   accesses of the first, nor any of the accesses that cross a page (A3.5.6 and A3.5.7).
//!
//! The instruction need not be the one that trapped; `instruction.rs` says more about that. It is
//! used as far as it agrees with what the CPU reported: its condition passes, its direction is
//! right, and its transfer contains the address in the page. Which of several words a CPU reports
//! is left to the CPU; all are in the page that the guest accessed.
//!
//! Of several pieces, each is an exit of its own (`partial.rs`).
//!
//! The syndrome does not tell the instruction's length either (HSR.IL is not valid), so this code
//! moves the program counter.

use crate::partial::{Activation, Values};
use crate::{Action, DataAbort, Guest, GuestFault, Machine, MmioAccess, NoAnswer};
use bitfield_struct::bitfield;
use hanok_decode::aarch32::{
    Contents, Encoding, ItState, LoadStore, Piece, Register, Resolved, Slot, load_store,
};
use hanok_decode::{Condition, Psr, banked_register, mode};
use hanok_types::{Ipa, PAGE_SIZE, Width};
use hanok_vgic::GuestInterface;

/// The number of words in a Q register.
const LANES: u8 = 4;

/// A transfer that is to be done.
struct Transfer<'a> {
    access: &'a LoadStore,
    psr: Psr,
    /// The address of its first byte.
    ipa: Ipa,
    resolved: Resolved,
}

/// `value` with its bytes swapped, if data is big-endian: it converts from the bus to a register,
/// and back.
fn swapped(big_endian: bool, width: Width, value: u64) -> u64 {
    if big_endian {
        value.swap_bytes() >> (u64::BITS - width.bits())
    } else {
        value
    }
}

/// The encoding of `word`, which is in the form of [`DataAbort::instruction`].
fn encoding(psr: Psr, word: u32) -> Encoding {
    if psr.thumb() {
        Encoding::t32((word >> 16) as u16, word as u16)
    } else {
        Encoding::A32(word)
    }
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    fn psr(&self) -> Psr {
        Psr::from_bits(self.regs.pstate as u32)
    }

    /// Whether the vCPU runs AArch32 code with big-endian data.
    pub(crate) fn is_big_endian(&self) -> bool {
        self.regs.is_aarch32() && self.psr().big_endian()
    }

    /// [`Self::by_register`] for data in either byte order.
    pub(crate) fn by_register_in_order(
        &mut self,
        big_endian: bool,
        ipa: Ipa,
        write: bool,
        access: MmioAccess,
    ) -> Result<(), NoAnswer> {
        let (general, register) = (access.general(), access.register);
        let width = general.width;
        if write {
            let value = general.stored(self.regs.get(register));
            return self.store(ipa, width, swapped(big_endian, width, value));
        }
        let loaded = self.load(ipa, width).ok_or(NoAnswer)?;
        let value = swapped(big_endian, width, loaded & width.mask());
        self.regs.set(register, general.loaded(value));
        Ok(())
    }

    /// [`Self::by_instruction`] for AArch32 code. On success the program counter has moved.
    pub(crate) fn by_aarch32_instruction(
        &mut self,
        abort: DataAbort,
        word: u32,
    ) -> Result<Action, GuestFault> {
        let nothing = abort.unanswered();
        let psr = self.psr();
        let (encoding, it) = (encoding(psr, word), ItState::from_bits(psr.it()));
        if is_cache_maintenance(encoding) {
            self.regs.advance(encoding.bytes().into());
            return Ok(Action::Resume);
        }
        let access = load_store(encoding, it)
            .filter(|access| psr.passes(Condition::Code(access.condition.into_bits())))
            .ok_or(nothing)?;
        match access.contents {
            // An exclusive access is refused if there is a device at the address; else nothing
            // answers.
            Contents::Exclusive(_) | Contents::Swap(_) if self.is_device(abort.ipa, 1) => {
                Err(GuestFault::UnsupportedAtomic { write: abort.write })
            }
            _ => self.aarch32_transfer(abort, &access, psr).ok_or(nothing),
        }
    }

    /// Does the next piece of a transfer. `None`, and nothing has changed, if nothing answers, or
    /// if the instruction is not the one that trapped.
    fn aarch32_transfer(
        &mut self,
        abort: DataAbort,
        access: &LoadStore,
        psr: Psr,
    ) -> Option<Action> {
        let transfer = self.place(abort, access, psr)?;
        let activation = Activation {
            pc: self.regs.pc,
            pstate: self.regs.pstate,
            stack: self.core_register(Register::SP, psr.mode()).into(),
            ipa: transfer.ipa,
            load: access.load,
        };
        if !self.vcpu.partial.is(activation) {
            if !self.answers(&transfer)? {
                return None;
            }
            self.vcpu.partial.begin(activation);
        }
        let done = self.vcpu.partial.done();
        if let Some((piece, at)) = transfer.piece(done) {
            let Some(value) = self.one_piece(&transfer, &piece, at) else {
                self.vcpu.partial.end();
                return None;
            };
            self.vcpu.partial.advance(value);
        }
        if transfer.piece(done + 1).is_some() || self.has_to_serve() {
            return Some(Action::Resume);
        }
        let values = self.vcpu.partial.end();
        self.regs.advance(access.encoding.bytes().into());
        self.write_back(&transfer);
        if access.load && !matches!(access.contents, Contents::Extension { .. }) {
            self.fill_all(&transfer, &values);
        }
        Some(Action::Resume)
    }

    /// Loads or stores the next piece. The answer is the value that was loaded for a core register.
    fn one_piece(
        &mut self,
        transfer: &Transfer<'_>,
        piece: &Piece,
        at: Ipa,
    ) -> Option<Option<u64>> {
        if !transfer.access.load {
            return self.store_piece(transfer, piece, at).map(|()| None);
        }
        let width = piece.general.width;
        let raw = self.load(at, width)? & width.mask();
        let value = swapped(transfer.psr.big_endian(), width, raw);
        match piece.slot {
            Slot::Core(_) => Some(Some(value)),
            Slot::Extension(word) => {
                self.set_extension(word, value as u32);
                Some(None)
            }
        }
    }

    /// The transfer, if the instruction agrees with what the CPU reported.
    fn place<'a>(&self, abort: DataAbort, access: &'a LoadStore, psr: Psr) -> Option<Transfer<'a>> {
        let resolved = self.resolve(access, psr);
        let first = u64::from(resolved.address) % PAGE_SIZE;
        let end = first + u64::from(access.bytes());
        let reported = abort.ipa.get() % PAGE_SIZE;
        // Elsewhere, stage 1 may translate to any address.
        let inside = end <= abort.reach && (first..end).contains(&reported);
        (inside && access.load != abort.write).then(|| Transfer {
            access,
            psr,
            ipa: Ipa::new(abort.ipa.get() - reported + first),
            resolved,
        })
    }

    /// Whether a device answers every piece, and the transfer can be the one that trapped; `None`
    /// if it has no pieces. A device has whole pages, or shares them with others of its kind, and
    /// all pieces are in one page, or in two one behind the other. So if a device answers the first and the last piece, one answers
    /// all of them.
    fn answers(&self, transfer: &Transfer<'_>) -> Option<bool> {
        let (piece, at) = transfer.piece(0)?;
        let width = piece.general.width.bytes();
        let register = match piece.slot {
            Slot::Core(register) => register != Register::PC || piece.general.width == Width::Word,
            Slot::Extension(word) => self.machine.vector(word / LANES).is_some(),
        };
        let moved = u64::from(transfer.access.bytes());
        // All pieces lie one behind the other.
        let last = Ipa::new(at.get().wrapping_add(moved.saturating_sub(width)));
        let there = |at| self.is_device(at, width);
        Some(register && there(at) && there(last))
    }

    fn resolve(&self, access: &LoadStore, psr: Psr) -> Resolved {
        let address = &access.address;
        let base = match address.base {
            Register::PC => access.pc_base(self.regs.pc as u32),
            register => self.core_register(register, psr.mode()),
        };
        let index = address
            .index()
            .map_or(0, |register| self.core_register(register, psr.mode()));
        address.resolve(base, index, psr.c())
    }

    fn core_register(&self, register: Register, mode: u8) -> u32 {
        self.regs.get(banked_register(register.number(), mode)) as u32
    }

    fn write_back(&mut self, transfer: &Transfer<'_>) {
        if let Some((register, value)) = transfer.resolved.write_back {
            let place = banked_register(register.number(), transfer.psr.mode());
            self.regs.set(place, value.into());
        }
    }

    fn fill_all(&mut self, transfer: &Transfer<'_>, values: &Values) {
        let pieces = transfer.access.pieces(transfer.psr.big_endian());
        for (piece, value) in pieces.zip(values) {
            let value = piece.general.loaded(*value) as u32;
            match piece.slot {
                Slot::Core(Register::PC) => self.branch(value),
                Slot::Core(register) => {
                    let place = banked_register(register.number(), transfer.mode());
                    self.regs.set(place, value.into());
                }
                Slot::Extension(_) => {}
            }
        }
    }

    fn store_piece(&mut self, transfer: &Transfer<'_>, piece: &Piece, at: Ipa) -> Option<()> {
        let value = match piece.slot {
            Slot::Core(Register::PC) => transfer.access.pc_stored(self.regs.pc as u32),
            Slot::Core(register) => self.core_register(register, transfer.mode()),
            Slot::Extension(word) => self.extension(word)?,
        };
        let width = piece.general.width;
        let value = piece.general.stored(value.into());
        let value = swapped(transfer.psr.big_endian(), width, value);
        self.store(at, width, value).ok()
    }

    /// A word of the extension registers, which are parts of the machine's vector registers.
    fn extension(&self, word: u8) -> Option<u32> {
        let vector = self.machine.vector(word / LANES)?;
        Some((vector >> lane(word)) as u32)
    }

    fn set_extension(&mut self, word: u8, value: u32) {
        let Some(vector) = self.machine.vector(word / LANES) else {
            return;
        };
        let cleared = vector & !(u128::from(u32::MAX) << lane(word));
        let vector = cleared | u128::from(value) << lane(word);
        self.machine.set_vector(word / LANES, vector);
    }

    /// LoadWritePC (A2.3): bit 0 selects the instruction set. A branch ends an IT block.
    fn branch(&mut self, target: u32) {
        let thumb = target & 1 != 0;
        let psr = self.psr().with_thumb(thumb).with_it_high(0).with_it_low(0);
        self.regs.pstate = psr.into_bits().into();
        self.regs.pc = u64::from(target & if thumb { !1 } else { !3 });
    }
}

impl Transfer<'_> {
    /// A piece and its address.
    fn piece(&self, nth: u32) -> Option<(Piece, Ipa)> {
        let piece = self.access.piece(nth, self.psr.big_endian())?;
        // All pieces lie one behind the other.
        let at = self.ipa.get().wrapping_add(piece.offset.into());
        Some((piece, Ipa::new(at)))
    }

    /// The mode whose registers are transferred.
    fn mode(&self) -> u8 {
        match self.access.contents {
            Contents::Block { user: true, .. } => mode::USER,
            _ => self.psr.mode(),
        }
    }
}

/// The number of bits by which a word is shifted in its Q register.
fn lane(word: u8) -> u32 {
    u32::from(word % LANES) * u32::BITS
}

/// MCR, whose fields stand in the same places in both instruction sets (DDI 0406C, A8.8.98).
#[bitfield(u32)]
struct Mcr {
    #[bits(4)]
    crm: u8,
    one: bool,
    #[bits(3)]
    opc2: u8,
    #[bits(4)]
    coprocessor: u8,
    #[bits(4)]
    rt: u8,
    #[bits(4)]
    crn: u8,
    read: bool,
    #[bits(3)]
    opc1: u8,
    #[bits(4)]
    group: u8,
    /// The condition of A32. T32 has 0b1110 here, and its condition in ITSTATE.
    #[bits(4)]
    condition: u8,
}

/// Whether this is a cache operation by address: ICIMVAU, DCIMVAC, DCCMVAC, DCCMVAU or DCCIMVAC
/// (B4.2.1, B4.2.2).
fn is_cache_maintenance(encoding: Encoding) -> bool {
    const ALWAYS: u8 = 0b1110;
    let (word, conditions) = match encoding {
        Encoding::A32(word) => (word, 0..=ALWAYS),
        Encoding::Wide(word) => (word, ALWAYS..=ALWAYS),
        Encoding::Narrow(_) => return false,
    };
    let mcr = Mcr::from_bits(word);
    let operation = (mcr.opc1(), mcr.crn(), mcr.opc2());
    conditions.contains(&mcr.condition())
        && (mcr.group(), mcr.read(), mcr.one()) == (0b1110, false, true)
        && mcr.coprocessor() == 15
        && operation == (0, 7, 1)
        && matches!(mcr.crm(), 5 | 6 | 10 | 11 | 14)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_decode::aarch32::{Access, Coprocessor, Operation, sensitive};
    use proptest::prelude::*;

    /// The answer of the decoder of all sensitive instructions.
    fn by_decoder(encoding: Encoding) -> bool {
        let found = sensitive(encoding, ItState::from_bits(0));
        matches!(
            found.map(|found| found.operation),
            Some(Operation::Coprocessor(Coprocessor {
                number: 15,
                second_kind: false,
                access: Access::Register {
                    read: false,
                    opc1: 0,
                    crn: 7,
                    crm: 5 | 6 | 10 | 11 | 14,
                    opc2: 1,
                    ..
                },
            }))
        )
    }

    proptest! {
        #[test]
        fn cache_operations_are_told_as_by_the_decoder(
            word: u32,
            crm in prop::sample::select(&[5, 6, 7, 10, 11, 14][..]),
            like: bool,
        ) {
            let near = word & 0xf000_f000 | 0x0e07_0f30 | crm;
            let word = if like { near } else { word };
            for encoding in [Encoding::A32(word), Encoding::Wide(word | 0xe000_0000)] {
                prop_assert_eq!(is_cache_maintenance(encoding), by_decoder(encoding));
            }
        }
    }
}
