//! The virtual CPU's state, its status register, and the change of its mode.

use crate::banks::Banks;
use crate::registers::Registers;
use crate::system::SystemRegisters;
use crate::{Identity, Lines, Mode};
use hanok_decode::Psr;
use hanok_decode::aarch32::{Fields, ItState, Register};

/// A, I and F: which exceptions wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// A: asynchronous aborts.
    pub aborts: bool,
    /// I: IRQs.
    pub irqs: bool,
    /// F: FIQs.
    pub fiqs: bool,
}

impl Masks {
    /// Everything waits.
    pub(crate) const ALL: Self = Self {
        aborts: true,
        irqs: true,
        fiqs: true,
    };

    fn of(psr: Psr) -> Self {
        Self {
            aborts: psr.abort_masked(),
            irqs: psr.irq_masked(),
            fiqs: psr.fiq_masked(),
        }
    }
}

/// What a guest's kernel believes to be its CPU, without the registers that the CPU itself holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualCpu {
    pub(crate) mode: Mode,
    pub(crate) masks: Masks,
    pub(crate) banks: Banks,
    pub(crate) system: SystemRegisters,
    /// What waits, for ISR.
    pub(crate) lines: Lines,
    pub(crate) identity: Identity,
}

/// What writes a status register.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// MSR or CPS, which leaves the execution state alone.
    Instruction,
    /// An exception return.
    Return,
}

impl VirtualCpu {
    /// The current mode.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Which exceptions wait.
    pub const fn masks(&self) -> Masks {
        self.masks
    }

    /// CPSR as the guest sees it, with the execution state (T and IT), which MRS leaves out.
    pub fn psr(&self, registers: &Registers) -> Psr {
        registers
            .visible()
            .with_mode(self.mode.into_bits())
            .with_abort_masked(self.masks.aborts)
            .with_irq_masked(self.masks.irqs)
            .with_fiq_masked(self.masks.fiqs)
    }

    /// SPSR of the current mode; `None` in User and System mode, which have none.
    pub fn spsr(&self) -> Option<Psr> {
        self.mode.has_spsr().then(|| self.banks.of(self.mode).spsr)
    }

    /// Sets CPSR as a whole, and goes to its mode. A mode that does not exist is not entered.
    pub(crate) fn set_psr(&mut self, registers: &mut Registers, psr: Psr) {
        registers.set_visible(psr);
        self.masks = Masks::of(psr);
        if let Some(mode) = Mode::from_bits(psr.mode()) {
            self.banks.switch(registers, self.mode, mode);
            self.mode = mode;
        }
    }

    /// Writes these bytes of CPSR with the rights of the current mode (CPSRWriteByInstr, DDI 0406C,
    /// B1.3.3).
    pub(crate) fn write_psr(
        &mut self,
        registers: &mut Registers,
        value: Psr,
        fields: Fields,
        writer: Writer,
    ) {
        let mask = self.writable(fields, writer);
        let old = self.psr(registers).into_bits();
        let new = Psr::from_bits(old & !mask | value.into_bits() & mask);
        self.set_psr(registers, sound(new, writer));
    }

    /// The bits of CPSR that can be written so.
    fn writable(&self, fields: Fields, writer: Writer) -> u32 {
        const EVERYBODY: u32 = 0xf80f_0200;
        const PRIVILEGED: u32 = 0x1df;
        const EXECUTION: u32 = 0x0600_fc20;
        let privileged = if self.mode.is_privileged() {
            PRIVILEGED
        } else {
            0
        };
        let execution = match writer {
            Writer::Return => EXECUTION,
            Writer::Instruction => 0,
        };
        (EVERYBODY | privileged | execution) & bytes(fields)
    }

    /// Register `register` of User mode.
    pub(crate) fn user_register(&mut self, registers: &Registers, register: Register) -> u32 {
        match self.banks.user(register.number(), self.mode) {
            Some(place) => *place,
            None => registers.read(register),
        }
    }

    pub(crate) fn set_user_register(
        &mut self,
        registers: &mut Registers,
        register: Register,
        value: u32,
    ) {
        match self.banks.user(register.number(), self.mode) {
            Some(place) => *place = value,
            None => registers.write(register, value),
        }
    }

    /// SP of `mode`.
    pub(crate) fn stack(&self, registers: &Registers, mode: Mode) -> u32 {
        if self.is_live(mode) {
            registers.read(Register::SP)
        } else {
            self.banks.of(mode).sp
        }
    }

    pub(crate) fn set_stack(&mut self, registers: &mut Registers, mode: Mode, value: u32) {
        if self.is_live(mode) {
            registers.write(Register::SP, value);
        } else {
            self.banks.of_mut(mode).sp = value;
        }
    }

    /// Whether the bank of `mode` is the current one.
    fn is_live(&self, mode: Mode) -> bool {
        mode == self.mode || !(mode.has_spsr() || self.mode.has_spsr())
    }
}

/// A value that an exception return may give to CPSR: IT only in T32.
fn sound(psr: Psr, writer: Writer) -> Psr {
    if writer == Writer::Instruction {
        return psr;
    }
    let it = if psr.thumb() {
        ItState::from_bits(psr.it()).into_bits()
    } else {
        0
    };
    psr.with_it_high(it >> 2).with_it_low(it & 3)
}

/// The bits of the bytes that MSR names.
pub(crate) fn bytes(fields: Fields) -> u32 {
    let mut mask = [0; 4];
    for (byte, chosen) in mask.iter_mut().zip([
        fields.control(),
        fields.extension(),
        fields.status(),
        fields.flags(),
    ]) {
        *byte = if chosen { 0xff } else { 0 };
    }
    u32::from_le_bytes(mask)
}
