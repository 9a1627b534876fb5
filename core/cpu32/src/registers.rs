//! The registers that the CPU itself holds while the guest runs.

use hanok_decode::Psr;
use hanok_decode::aarch32::{ItState, Register};

/// The bits of a status register that a guest in User mode has in the CPU's own CPSR: N, Z, C, V, Q,
/// IT, GE, E and T (DDI 0406C, B1.3.3); J is always clear.
const VISIBLE: u32 = 0xfe0f_fe20;

/// The registers of an interrupted guest, as User mode has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// R0 to R14 of the guest's current mode.
    pub general: [u32; 15],
    /// The address of the instruction that is carried out, or that comes next.
    pub pc: u32,
    /// The flags, GE, E, T, IT. The mode and the masks in it are those of the CPU: they mean nothing
    /// to the guest, and are User mode and unmasked whenever they are written here.
    pub psr: Psr,
}

impl Registers {
    /// The value of a register as an instruction at [`Self::pc`] reads it: of R15 the instruction's
    /// address plus 8, in T32 plus 4 (DDI 0406C, A2.3).
    pub fn read(&self, register: Register) -> u32 {
        let ahead = if self.psr.thumb() { 4 } else { 8 };
        self.general
            .get(usize::from(register.number()))
            .copied()
            .unwrap_or(self.pc.wrapping_add(ahead))
    }

    /// Sets R0 to R14. The PC is left alone: no instruction that writes it does so by this function.
    pub fn write(&mut self, register: Register, value: u32) {
        if let Some(place) = self.general.get_mut(usize::from(register.number())) {
            *place = value;
        }
    }

    /// Goes on behind an instruction of so many bytes, in T32 with the next place of its IT block.
    pub fn advance(&mut self, bytes: u32) {
        self.pc = self.pc.wrapping_add(bytes);
        if self.psr.thumb() {
            self.set_it(ItState::from_bits(self.psr.it()).next());
        }
    }

    /// Goes on at `target` in the current instruction set (BranchWritePC, A2.3).
    pub(crate) fn branch(&mut self, target: u32) {
        let aligned = if self.psr.thumb() { !1 } else { !3 };
        self.pc = target & aligned;
    }

    pub(crate) fn set_it(&mut self, it: ItState) {
        let bits = it.into_bits();
        self.psr = self.psr.with_it_high(bits >> 2).with_it_low(bits & 3);
    }

    /// Takes over what User mode has of a status register.
    pub(crate) fn set_visible(&mut self, psr: Psr) {
        let user = Psr::new().with_mode(hanok_decode::mode::USER).into_bits();
        self.psr = Psr::from_bits(psr.into_bits() & VISIBLE | user);
    }

    /// The bits of the guest's status register that are held here.
    pub(crate) fn visible(&self) -> Psr {
        Psr::from_bits(self.psr.into_bits() & VISIBLE)
    }

    /// N, Z, C and V from the upper bits of a word, which an MRC to R15 writes (A8.8, MRC).
    pub(crate) fn set_conditions(&mut self, value: u32) {
        const NZCV: u32 = 0xf000_0000;
        self.psr = Psr::from_bits(self.psr.into_bits() & !NZCV | value & NZCV);
    }
}
