//! The banked registers (DDI 0406C, B1.3.2).
//!
//! A register of the current mode is live: it is in [`Registers`], and what is here in its place is
//! stale. A change of mode puts the live ones here and takes those of the new mode out.

use crate::{Mode, Registers};
use hanok_decode::Psr;

/// The registers that a mode has of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bank {
    /// R13.
    pub(crate) sp: u32,
    /// R14.
    pub(crate) lr: u32,
    /// SPSR. User and System mode have none.
    pub(crate) spsr: Psr,
}

/// R8 to R12.
type High = [u32; 5];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Banks {
    user: Bank,
    fiq: Bank,
    irq: Bank,
    supervisor: Bank,
    abort: Bank,
    undefined: Bank,
    /// R8 to R12 of all modes but FIQ's; stale in these.
    usual_high: High,
    /// R8 to R12 of FIQ mode; stale there.
    fiq_high: High,
}

impl Banks {
    pub(crate) const fn of(&self, mode: Mode) -> &Bank {
        match mode {
            Mode::User | Mode::System => &self.user,
            Mode::Fiq => &self.fiq,
            Mode::Irq => &self.irq,
            Mode::Supervisor => &self.supervisor,
            Mode::Abort => &self.abort,
            Mode::Undefined => &self.undefined,
        }
    }

    pub(crate) const fn of_mut(&mut self, mode: Mode) -> &mut Bank {
        match mode {
            Mode::User | Mode::System => &mut self.user,
            Mode::Fiq => &mut self.fiq,
            Mode::Irq => &mut self.irq,
            Mode::Supervisor => &mut self.supervisor,
            Mode::Abort => &mut self.abort,
            Mode::Undefined => &mut self.undefined,
        }
    }

    /// Exchanges the live registers for those of another mode.
    pub(crate) fn switch(&mut self, registers: &mut Registers, from: Mode, to: Mode) {
        let [.., sp, lr] = &mut registers.general;
        let old = self.of_mut(from);
        (old.sp, old.lr) = (*sp, *lr);
        let new = self.of(to);
        (*sp, *lr) = (new.sp, new.lr);
        match (from, to) {
            (Mode::Fiq, Mode::Fiq) => {}
            (Mode::Fiq, _) => exchange(registers, &mut self.fiq_high, &self.usual_high),
            (_, Mode::Fiq) => exchange(registers, &mut self.usual_high, &self.fiq_high),
            _ => {}
        }
    }

    /// The place of a register of User mode that is not live in `mode`; `None` if it is live there.
    pub(crate) fn user(&mut self, number: u8, mode: Mode) -> Option<&mut u32> {
        let own = mode.has_spsr();
        match number {
            8..=12 if mode == Mode::Fiq => self.usual_high.get_mut(usize::from(number) - 8),
            13 if own => Some(&mut self.user.sp),
            14 if own => Some(&mut self.user.lr),
            _ => None,
        }
    }
}

/// Puts the live R8 to R12 in `old`, and makes `new` live.
fn exchange(registers: &mut Registers, old: &mut High, new: &High) {
    let [_, _, _, _, _, _, _, _, live @ .., _, _] = &mut registers.general;
    *old = *live;
    *live = *new;
}
