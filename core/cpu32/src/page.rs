//! The virtual CPU's page, which trampolines of the guest's kernel read and write.
//!
//! The guest can write anything there. What counts as written are the fields that trampolines
//! write: the mask of IRQs, SPSR, DACR, TPIDRURW, TPIDRURO, SP and LR of User mode; and each of them can have any value, as if the
//! kernel had written it by an instruction. All other fields are copies to be read.

use crate::status::SAVED;
use crate::system::{Changes, SystemRegister};
use crate::{Mode, Registers, VirtualCpu};
use hanok_abi::trampoline::{Field, MASKED};
use hanok_decode::Psr;

/// What [`Field::PSR`] holds of CPSR: the mode, F, A and E.
const PSR: u32 = 0x35f;

/// Whether the page had another DACR than the virtual CPU, which has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Domains {
    /// It had the same.
    Same,
    /// It had another one.
    Changed,
}

impl VirtualCpu {
    /// The value of a field of the page. Before the guest's kernel runs, each field has to have it.
    pub fn page_word(&self, registers: &Registers, field: Field) -> u32 {
        match field {
            Field::USER_SP => self.banks.of(Mode::User).sp,
            Field::USER_LR => self.banks.of(Mode::User).lr,
            Field::PSR => self.psr(registers).into_bits() & PSR,
            Field::SPSR => self.spsr().map_or(0, Psr::into_bits),
            Field::MASK if self.masks.irqs => MASKED,
            Field::MIDR => self.identity.midr,
            Field::CTR => self.identity.ctr,
            Field::MPIDR => self.identity.mpidr,
            // ACTLR reads as zero; a mask that is clear is zero.
            _ => copied(field).map_or(0, |register| self.system(register)),
        }
    }

    /// Takes over what trampolines wrote. `word` reads the page.
    ///
    /// To be called at each exit of the guest's kernel, before anything else: the page then holds
    /// what the kernel has done since the last [`Self::page_word`]. While a program runs, the page
    /// is not in use, and this does nothing.
    pub fn take_page(&mut self, word: impl Fn(Field) -> u32) -> Domains {
        if !self.mode.is_privileged() {
            return Domains::Same;
        }
        self.masks.irqs = word(Field::MASK) & MASKED != 0;
        if self.mode.has_spsr() {
            self.banks.of_mut(self.mode).spsr = Psr::from_bits(word(Field::SPSR) & SAVED);
        }
        let user = self.banks.of_mut(Mode::User);
        (user.sp, user.lr) = (word(Field::USER_SP), word(Field::USER_LR));
        self.system
            .set(SystemRegister::Tpidrurw, word(Field::TPIDRURW));
        self.set_tpidruro(word(Field::TPIDRURO));
        let domains = word(Field::DACR);
        if domains == self.system(SystemRegister::Dacr) {
            return Domains::Same;
        }
        self.system.set(SystemRegister::Dacr, domains);
        Domains::Changed
    }

    /// The registers that have changed since [`Self::set_changes`], but for those that programs change. Where the page has copies of
    /// them, it may have other values than [`Self::page_word`]; [`Field::PSR`], [`Field::SPSR`] and [`Field::MASK`] may have
    /// other values anyhow.
    pub const fn changes(&self) -> Changes {
        self.system.changes()
    }

    /// Takes this for [`Self::changes`].
    pub const fn set_changes(&mut self, changes: Changes) {
        self.system.set_changes(changes);
    }

    /// Takes over a store of `value` to [`Field::MASK`] that a closed doorbell has refused.
    pub fn take_mask(&mut self, value: u32) {
        self.masks.irqs = value & MASKED != 0;
    }
}

/// The register that a field is a copy of.
const fn copied(field: Field) -> Option<SystemRegister> {
    Some(match field {
        Field::DACR => SystemRegister::Dacr,
        Field::TPIDRURW => SystemRegister::Tpidrurw,
        Field::SCTLR => SystemRegister::Sctlr,
        Field::CPACR => SystemRegister::Cpacr,
        Field::TTBR0 => SystemRegister::Ttbr0,
        Field::TTBR1 => SystemRegister::Ttbr1,
        Field::TTBCR => SystemRegister::Ttbcr,
        Field::DFSR => SystemRegister::Dfsr,
        Field::IFSR => SystemRegister::Ifsr,
        Field::DFAR => SystemRegister::Dfar,
        Field::IFAR => SystemRegister::Ifar,
        Field::CONTEXTIDR => SystemRegister::Contextidr,
        Field::PAR => SystemRegister::Par,
        Field::FPEXC => SystemRegister::Fpexc,
        Field::TPIDRURO => SystemRegister::Tpidruro,
        _ => return None,
    })
}

impl Changes {
    /// The pairs of words of the virtual CPU's page that have copies of them: a bit for each pair, from the page's start.
    pub fn pairs(self) -> u32 {
        let (mut left, mut pairs) = (self.0, 0);
        while let Some(register) = left.checked_ilog2() {
            left &= !(1 << register);
            pairs |= PAIRS.get(register as usize).copied().unwrap_or(0);
        }
        pairs
    }
}

/// The pair of words of the page that has a copy of each register: one bit, or none if it has no copy.
const PAIRS: [u32; SystemRegister::ALL.len()] = {
    let mut pairs = [0; _];
    let mut word = 0;
    while word <= Field::TPIDRURO.offset() / 4 {
        if let Some(register) = copied(Field::of_word(word as u16)) {
            pairs[register as usize] = 1 << (word / 2);
        }
        word += 1;
    }
    pairs
};
