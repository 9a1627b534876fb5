//! What is executed in a vCPU's slot, a frame of its own, in place of where it stands (`across.rs`).

use hanok_cpu32::Registers;

/// No register.
pub(crate) const NO_BASE: (usize, u32) = (usize::MAX, 0);

/// What is executed in the slot, and what the guest has meanwhile in place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Displaced {
    /// Where it begins in the slot, where its own place is, and how many bytes it has.
    pub start: u32,
    pub own: u32,
    pub length: u32,
    /// A register and what it is to be in the slot; while the guest is in, what it has been.
    pub base: (usize, u32),
}

impl Displaced {
    /// Goes to the slot.
    pub fn enter(&mut self, registers: &mut Registers) {
        registers.pc = self.start;
        self.exchange(registers);
    }

    fn exchange(&mut self, registers: &mut Registers) {
        if let Some(register) = registers.general.get_mut(self.base.0) {
            core::mem::swap(&mut self.base.1, register);
        }
    }

    /// Comes back from the slot. A branch, which would be UNPREDICTABLE, does not lead out of it.
    pub fn leave(&mut self, registers: &mut Registers) {
        let done = registers.pc.wrapping_sub(self.start);
        let done = if done <= self.length { done } else { 0 };
        registers.pc = self.own.wrapping_add(done);
        self.exchange(registers);
    }
}
