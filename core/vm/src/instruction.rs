//! AArch64 loads and stores to a device that the syndrome does not describe, so that the
//! instruction must be decoded.
//!
//! The CPU describes a load or store of one general register without write-back (ESR_EL2, ISV = 1).
//! All others are finished from the instruction word: pre- and post-index forms, pairs, SIMD and FP
//! registers of any size. Cache maintenance by address is done without an effect, as nothing of a
//! device is cached.
//!
//! Of several accesses, each is an exit of its own (`partial.rs`).
//!
//! These instructions are not finished; the guest gets an exception for them:
//!
//! - Exclusives and atomics: a data abort "unsupported exclusive or atomic access". Whether a
//!   device supports them is left to the implementation (DDI 0487, B2.12 and the description of
//!   DFSC 0b110101), and a real interconnect refuses them. QEMU's `virt` does them as plain
//!   accesses; no driver can rely on that.
//! - LD1 to LD4, ST1 to ST4, and instructions that the decoder does not recognise: an external
//!   abort, as at an address where there is nothing.
//!
//! The word need not be the one that trapped: another vCPU may have rewritten it since, and if the
//! guest did not keep its caches coherent, data reads may find another word. So the word is used
//! only as far as it agrees with what the CPU reported: the direction, and the address in the page.
//! Whatever else it says only moves values between the guest's own registers and a device that it
//! may access anyway. The address itself is always the CPU's.

use crate::partial::{Activation, Values};
use crate::{Action, DataAbort, Guest, GuestFault, Machine, StackPointer};
use hanok_decode::{Data, LoadStore, SysReg, Transfer, decode_load_store};
use hanok_types::{Address, Ipa, PAGE_SIZE, Width};
use hanok_vgic::GuestInterface;

/// Register 31: the stack pointer as a base register, the zero register elsewhere.
const R31: u8 = 31;
/// The largest number of pieces of at most 8 bytes: those of a pair of Q registers.
const MAX_PIECES: usize = 4;

/// A transfer as a series of accesses of one width, lowest address first.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    width: Width,
    count: usize,
    values: [u64; MAX_PIECES],
}

impl Pieces {
    fn of(transfer: &Transfer) -> Self {
        let width = Width::from_log2(transfer.data.bytes().min(8).trailing_zeros() as u8);
        let count = (transfer.bytes() / width.bytes()) as usize;
        Self {
            width,
            count: count.min(MAX_PIECES),
            values: [0; MAX_PIECES],
        }
    }

    /// The value of register `nth` of the transfer, joined from its pieces.
    fn register(&self, nth: usize, data: Data) -> u128 {
        let each = if matches!(data, Data::Vector(4)) {
            2
        } else {
            1
        };
        let piece = |n: usize| u128::from(self.values.get(nth * each + n).copied().unwrap_or(0));
        if each == 2 {
            piece(0) | piece(1) << 64
        } else {
            piece(0)
        }
    }

    /// Sets the pieces of register `nth` of the transfer from its value.
    fn set_register(&mut self, nth: usize, data: Data, value: u128) {
        let each = if matches!(data, Data::Vector(4)) {
            2
        } else {
            1
        };
        let pieces = self.values.iter_mut().skip(nth * each).take(each);
        for (piece, part) in pieces.zip([value as u64, (value >> 64) as u64]) {
            *piece = part;
        }
    }
}

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// [`Self::by_instruction`] for AArch64 code.
    pub(crate) fn by_aarch64_instruction(
        &mut self,
        abort: DataAbort,
        word: u32,
    ) -> Result<Action, GuestFault> {
        let nothing = abort.unanswered();
        if is_cache_maintenance(word) {
            return Ok(Action::Next);
        }
        match decode_load_store(word) {
            Some(LoadStore::Transfer(transfer)) => self.transfer(abort, &transfer).ok_or(nothing),
            // An exclusive access is refused if there is a device at the address; else nothing
            // answers.
            Some(LoadStore::Exclusive(_) | LoadStore::Atomic(_))
                if self.is_device(abort.ipa, 1) =>
            {
                Err(GuestFault::UnsupportedAtomic { write: abort.write })
            }
            _ => Err(nothing),
        }
    }

    /// Does the next piece. `None` if nothing answers, or if the instruction is not the one that
    /// trapped.
    fn transfer(&mut self, abort: DataAbort, transfer: &Transfer) -> Option<Action> {
        let addressing = transfer.address;
        let base = addressing.base().map_or(0, |base| self.base(base));
        let index = addressing.index().map_or(0, |index| self.regs.get(index));
        let resolved = addressing.resolve(self.regs.pc, base, index);

        let offset = abort.ipa.get() % PAGE_SIZE;
        // Elsewhere, stage 1 may translate to any address.
        let inside = offset + transfer.bytes() <= abort.reach;
        let agrees = transfer.load != abort.write && resolved.address % PAGE_SIZE == offset;
        let mut pieces = Pieces::of(transfer);
        if !inside || !agrees {
            return None;
        }
        let activation = Activation {
            pc: self.regs.pc,
            pstate: self.regs.pstate,
            stack: self.base(R31),
            ipa: abort.ipa,
            load: transfer.load,
        };
        // Another vCPU may have written a shorter instruction there meanwhile.
        let beyond = self.vcpu.partial.done() as usize >= pieces.count;
        if beyond || !self.vcpu.partial.is(activation) {
            let vector = matches!(transfer.data, Data::Vector(_));
            if !self.all_answered(abort.ipa, &pieces)
                || vector && self.machine.vector(transfer.register).is_none()
            {
                return None;
            }
            self.vcpu.partial.begin(activation);
        }
        let done = self.vcpu.partial.done() as usize;
        let Some(value) = self.move_piece(abort.ipa, transfer, &mut pieces, done) else {
            self.vcpu.partial.end();
            return None;
        };
        self.vcpu.partial.advance(Some(value));
        if done + 1 < pieces.count {
            return Some(Action::Resume);
        }
        let values = self.vcpu.partial.end();
        if transfer.load {
            self.fill(transfer, &mut pieces, &values);
        }
        if let Some((register, value)) = resolved.write_back {
            self.set_base(register, value);
        }
        Some(Action::Next)
    }

    /// Loads or stores piece `nth`. The answer is its value.
    fn move_piece(
        &mut self,
        ipa: Ipa,
        transfer: &Transfer,
        pieces: &mut Pieces,
        nth: usize,
    ) -> Option<u64> {
        let width = pieces.width;
        let at = ipa.checked_add(nth as u64 * width.bytes())?;
        if transfer.load {
            return Some(self.load(at, width)? & width.mask());
        }
        for (nth, register) in registers(transfer) {
            let value = match transfer.data {
                Data::General(general) => u128::from(general.stored(self.regs.get(register))),
                Data::Vector(_) => self.machine.vector(register)?,
            };
            pieces.set_register(nth, transfer.data, value);
        }
        let value = *pieces.values.get(nth)?;
        self.store(at, width, value).ok().map(|()| value)
    }

    /// Sets the registers of a load once all its pieces are loaded.
    fn fill(&mut self, transfer: &Transfer, pieces: &mut Pieces, values: &Values) {
        for (piece, value) in pieces.values.iter_mut().zip(values) {
            *piece = *value;
        }
        for (nth, register) in registers(transfer) {
            let value = pieces.register(nth, transfer.data);
            match transfer.data {
                Data::General(general) => self.regs.set(register, general.loaded(value as u64)),
                Data::Vector(_) => self.machine.set_vector(register, value),
            }
        }
    }

    /// Whether a device answers every piece. Otherwise none of them is accessed.
    fn all_answered(&self, ipa: Ipa, pieces: &Pieces) -> bool {
        let bytes = pieces.width.bytes();
        let mut offsets = (0..pieces.count as u64).map(|n| n * bytes);
        offsets.all(|offset| {
            let at = ipa.checked_add(offset);
            at.is_some_and(|at| self.is_device(at, bytes))
        })
    }

    /// The value of a register as a base address.
    fn base(&self, register: u8) -> u64 {
        if register == R31 {
            self.machine
                .stack_pointer(StackPointer::of(self.regs.pstate))
        } else {
            self.regs.get(register)
        }
    }

    fn set_base(&mut self, register: u8, value: u64) {
        if register == R31 {
            self.machine
                .set_stack_pointer(StackPointer::of(self.regs.pstate), value);
        } else {
            self.regs.set(register, value);
        }
    }
}

/// The registers of a transfer, the one at the lower address first.
fn registers(transfer: &Transfer) -> impl Iterator<Item = (usize, u8)> + use<> {
    [Some(transfer.register), transfer.second]
        .into_iter()
        .flatten()
        .enumerate()
}

/// Whether `word` is cache maintenance by address: SYS with op0 1, CRn 7, op2 1 (DDI 0487, C5.3).
/// DC ZVA is none, because it stores.
fn is_cache_maintenance(word: u32) -> bool {
    const SYS: u32 = 0xd508_0000;
    const SYS_MASK: u32 = 0xfff8_0000;
    let operation = SysReg::from_bits((word >> 5) as u16);
    let by_address = operation.op2() == 1 && matches!(operation.crm(), 5 | 6 | 10..=14);
    word & SYS_MASK == SYS && operation.crn() == 7 && by_address
}
