//! Crossings between programs and the kernel that a backend carries out by itself: SVC of a program, and the
//! exception return that leads back to it (DDI 0406C, B1.9.4 and B9.3.20); and with them what a kernel does by itself on
//! the way from the mode of another exception to Supervisor mode, and to other tables.

use crate::banks::Bank;
use crate::state::Masks;
use crate::status::SAVED;
use crate::system::SystemRegister;
use crate::{Mode, VirtualCpu};
use hanok_decode::Psr;

/// The banked registers on which a crossing depends, but for those of User mode: while the kernel runs, they are on its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CrossedBanks {
    /// SP and LR of Supervisor mode.
    pub supervisor: [u32; 2],
    /// SPSR of Supervisor mode.
    pub spsr: u32,
    /// SP, LR and SPSR of the mode that the virtual CPU was in when the guest was entered, if that is neither of the two.
    pub other: [u32; 3],
}

/// A and F of a status register.
const ABORTS_MASKED: u32 = 1 << 8;
const FIQS_MASKED: u32 = 1 << 6;

impl VirtualCpu {
    /// Whether a program runs that SVC may leave without a look at its virtual CPU: no exception is masked in it. In a
    /// mode with an SPSR that does not matter, as the exception return says itself what is masked. What the two can do with
    /// VFP has to be the same. In FIQ mode more registers are banked.
    pub fn can_cross(&self) -> bool {
        let mode = match self.mode {
            Mode::User => self.masks == Masks::default(),
            Mode::Supervisor | Mode::Abort | Mode::Irq | Mode::Undefined => true,
            Mode::Fiq | Mode::System => false,
        };
        mode && self.shares_floating_point()
    }

    /// The banked registers as they are now; what is live is stale.
    pub fn crossed_banks(&self) -> CrossedBanks {
        let supervisor = self.banks.of(Mode::Supervisor);
        let other = self.banks.of(self.mode);
        CrossedBanks {
            supervisor: [supervisor.sp, supervisor.lr],
            spsr: supervisor.spsr.into_bits(),
            other: [other.sp, other.lr, other.spsr.into_bits()],
        }
    }

    /// The mode, A and F as in a status register.
    pub fn crossing_status(&self) -> u32 {
        let masked = |masked, bit| if masked { bit } else { 0 };
        u32::from(self.mode.into_bits())
            | masked(self.masks.aborts, ABORTS_MASKED)
            | masked(self.masks.fiqs, FIQS_MASKED)
    }

    /// The guest has done something by itself. Before it did, [`Self::can_cross`] was true, and now its mode, A and F are
    /// `status`. In a privileged mode its I, and SP and LR of User mode, are those of its page ([`Self::take_page`]). TTBR0 and CONTEXTIDR are `space`.
    pub fn crossed(&mut self, status: u32, space: [u32; 2], banks: &CrossedBanks) {
        let bank = |[sp, lr]: [u32; 2], spsr| Bank {
            sp,
            lr,
            spsr: Psr::from_bits(spsr & SAVED),
        };
        *self.banks.of_mut(Mode::Supervisor) = bank(banks.supervisor, banks.spsr);
        if !matches!(self.mode, Mode::User | Mode::Supervisor) {
            let [sp, lr, spsr] = banks.other;
            *self.banks.of_mut(self.mode) = bank([sp, lr], spsr);
        }
        if let Some(mode) = Mode::from_bits(status as u8 & 0x1f) {
            self.mode = mode;
        }
        self.masks = Masks {
            aborts: status & ABORTS_MASKED != 0,
            irqs: self.mode.is_privileged(),
            fiqs: status & FIQS_MASKED != 0,
        };
        let [table, context] = space;
        self.system.set(SystemRegister::Ttbr0, table);
        self.system.set(SystemRegister::Contextidr, context);
    }
}
