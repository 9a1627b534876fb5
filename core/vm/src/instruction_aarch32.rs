//! What `instruction.rs` does, in AArch32 code.
//!
//! The CPU describes a load or store of one core register without write-back that is not the PC
//! (DDI 0406C, B3.13.6, HSR.ISV = 1). The rest is finished from the instruction: write-back,
//! LDRD and STRD, LDM and STM, PUSH and POP, the PC as what is moved, VFP registers. The pieces
//! are words at most, as the architecture's own pseudocode has them, lowest address first, and
//! each is an access to the device for itself. Cache maintenance by address is done at once.
//!
//! What the guest gets for the rest is what a 64-bit guest gets:
//!
//! - exclusives, SWP: "unsupported exclusive or atomic access" where a device is;
//! - VLD1 to VLD4, VST1 to VST4, RFE, SRS, LDM as an exception return, TBB and TBH, and what
//!   crosses a page: an external abort, as from an address where nothing is. To Device memory
//!   the number and order of the accesses of the first, and all of the last, are nothing that a
//!   driver can count on (A3.5.6 and A3.5.7).
//!
//! The instruction need not be the one that trapped, which `instruction.rs` says more about. It
//! is believed as far as it agrees with what the CPU reported: the condition holds, the direction
//! is right, and what it moves contains the address within the page. Which of several words the
//! CPU reports is its affair; all lie in the page that the guest reached.
//!
//! Of several pieces each is an exit of its own (`partial.rs`).
//!
//! The syndrome does not tell the instruction's length either (HSR.IL is not valid), so that the
//! program counter is moved here.

use crate::partial::{Activation, Values};
use crate::{Action, DataAbort, Guest, GuestFault, Machine, MmioAccess};
use bitfield_struct::bitfield;
use hanok_decode::aarch32::{
    Contents, Encoding, ItState, LoadStore, Piece, Register, Resolved, Slot, load_store,
};
use hanok_decode::{Condition, General, Psr, banked_register, mode};
use hanok_hal::ListRegisters;
use hanok_types::{Ipa, PAGE_SIZE, Width};

/// Words in a Q register.
const LANES: u8 = 4;

/// A transfer that is to be done.
struct Transfer<'a> {
    access: &'a LoadStore,
    psr: Psr,
    /// Of its first byte.
    ipa: Ipa,
    resolved: Resolved,
}

/// As the bus has `value`, where a register has it so, and the other way round.
fn swapped(big_endian: bool, width: Width, value: u64) -> u64 {
    if big_endian {
        value.swap_bytes() >> (u64::BITS - width.bits())
    } else {
        value
    }
}

/// The encoding, `word` being in the form of [`DataAbort::instruction`].
fn encoding(psr: Psr, word: u32) -> Encoding {
    if psr.thumb() {
        Encoding::t32((word >> 16) as u16, word as u16)
    } else {
        Encoding::A32(word)
    }
}

impl<M: Machine, L: ListRegisters> Guest<'_, M, L> {
    fn psr(&self) -> Psr {
        Psr::from_bits(self.regs.pstate as u32)
    }

    /// Whether it is AArch32 code with big-endian data.
    pub(crate) fn is_big_endian(&self) -> bool {
        self.regs.is_aarch32() && self.psr().big_endian()
    }

    /// [`Self::by_register`] with data of either order of bytes.
    pub(crate) fn by_register_in_order(
        &mut self,
        big_endian: bool,
        ipa: Ipa,
        write: bool,
        access: MmioAccess,
    ) -> Option<()> {
        let (general, register) = (access.general(), access.register);
        let width = general.width;
        if write {
            let value = general.stored(self.regs.get(register));
            return self
                .store(ipa, width, swapped(big_endian, width, value))
                .then_some(());
        }
        let value = swapped(big_endian, width, self.load(ipa, width)? & width.mask());
        self.regs.set(register, general.loaded(value));
        Some(())
    }

    /// As [`Self::by_instruction`]; the program counter has moved.
    pub(crate) fn by_aarch32_instruction(
        &mut self,
        abort: DataAbort,
        word: u32,
    ) -> Result<Action, GuestFault> {
        let nothing = GuestFault::ExternalData {
            write: abort.write,
            walk: false,
        };
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
            // Where there is a device at all; where nothing is, nothing answers.
            Contents::Exclusive(_) | Contents::Swap(_) if self.is_device(abort.ipa, 1) => {
                Err(GuestFault::UnsupportedAtomic { write: abort.write })
            }
            _ => self.aarch32_transfer(abort, &access, psr).ok_or(nothing),
        }
    }

    /// `None`, and nothing is changed, where nothing answers, or the instruction is not the one
    /// that trapped.
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
        if transfer.piece(done + 1).is_some() {
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

    /// Loads or stores the piece whose turn it is. What was loaded for a core register.
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

    /// Where it goes, as far as the instruction agrees with what the CPU reported.
    fn place<'a>(&self, abort: DataAbort, access: &'a LoadStore, psr: Psr) -> Option<Transfer<'a>> {
        let resolved = self.resolve(access, psr);
        let first = u64::from(resolved.address) % PAGE_SIZE;
        let end = first + u64::from(access.bytes());
        let reported = abort.ipa.get() % PAGE_SIZE;
        // Beyond the page, stage 1 may lead anywhere.
        let inside = end <= PAGE_SIZE && (first..end).contains(&reported);
        (inside && access.load != abort.write).then(|| Transfer {
            access,
            psr,
            ipa: Ipa::new(abort.ipa.get() - reported + first),
            resolved,
        })
    }

    /// Whether a device is there for each piece, and registers, which can be what trapped; `None`
    /// where nothing is moved. A device has whole pages, or shares them with others of its kind, and
    /// all pieces lie in one: so it is there for all, if for the first and the last.
    fn answers(&self, transfer: &Transfer<'_>) -> Option<bool> {
        let (piece, at) = transfer.piece(0)?;
        let width = piece.general.width.bytes();
        let register = match piece.slot {
            Slot::Core(register) => register != Register::PC || piece.general.width == Width::Word,
            Slot::Extension(word) => self.machine.vector(word / LANES).is_some(),
        };
        let moved = u64::from(transfer.access.bytes());
        // They lie in one page.
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
        self.store(at, width, value).then_some(())
    }

    /// A word of the extension registers, of which Q registers are the machine's vectors.
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

    /// LoadWritePC (A2.3): bit 0 says which instruction set. A branch ends an IT block.
    fn branch(&mut self, target: u32) {
        let thumb = target & 1 != 0;
        let psr = self.psr().with_thumb(thumb).with_it_high(0).with_it_low(0);
        self.regs.pstate = psr.into_bits().into();
        self.regs.pc = u64::from(target & if thumb { !1 } else { !3 });
    }
}

impl Transfer<'_> {
    /// One of the accesses, and where it goes.
    fn piece(&self, nth: u32) -> Option<(Piece, Ipa)> {
        let piece = self.access.piece(nth, self.psr.big_endian())?;
        // All of them lie in one page.
        let at = self.ipa.get().wrapping_add(piece.offset.into());
        Some((piece, Ipa::new(at)))
    }

    /// Whose registers are moved.
    fn mode(&self) -> u8 {
        match self.access.contents {
            Contents::Block { user: true, .. } => mode::USER,
            _ => self.psr.mode(),
        }
    }
}

/// How far a word is shifted in its Q register.
fn lane(word: u8) -> u32 {
    u32::from(word % LANES) * u32::BITS
}

impl MmioAccess {
    /// How the register is filled or emptied.
    pub(crate) const fn general(&self) -> General {
        General {
            width: self.width,
            sign_extend: self.sign_extend,
            wide: self.wide,
        }
    }
}

/// MCR, whose fields stand in the same places in both sets (DDI 0406C, A8.8.98).
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
    /// Of A32; of T32, which has it from its IT block, 0b1110.
    #[bits(4)]
    condition: u8,
}

/// Whether it is a cache operation by address: ICIMVAU, DCIMVAC, DCCMVAC, DCCMVAU and DCCIMVAC
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

    /// What the decoder of all sensitive instructions says.
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
