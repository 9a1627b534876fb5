//! Crossings between programs and the kernel that a backend carries out by itself: SVC of a program, and the
//! exception return that leads back to it (DDI 0406C, B1.9.4 and B9.3.20).

use crate::banks::Bank;
use crate::state::Masks;
use crate::status::SAVED;
use crate::{Mode, VirtualCpu};
use hanok_decode::Psr;

/// The banked registers on which a crossing depends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CrossedBanks {
    /// SP and LR of User mode.
    pub user: [u32; 2],
    /// SP and LR of Supervisor mode.
    pub supervisor: [u32; 2],
    /// SPSR of Supervisor mode.
    pub spsr: u32,
}

impl VirtualCpu {
    /// Whether a program runs that SVC may leave without a look at its virtual CPU: no exception is masked in it. In
    /// Supervisor mode that does not matter, as the exception return says itself what is masked. What the two can do with
    /// VFP has to be the same.
    pub fn can_cross(&self) -> bool {
        let mode = match self.mode {
            Mode::User => self.masks == Masks::default(),
            Mode::Supervisor => true,
            _ => false,
        };
        mode && self.shares_floating_point()
    }

    /// The banked registers as they are now; what is live is stale.
    pub fn crossed_banks(&self) -> CrossedBanks {
        let (user, supervisor) = (self.banks.of(Mode::User), self.banks.of(Mode::Supervisor));
        CrossedBanks {
            user: [user.sp, user.lr],
            supervisor: [supervisor.sp, supervisor.lr],
            spsr: supervisor.spsr.into_bits(),
        }
    }

    /// The guest has crossed, at least once, and is now in Supervisor mode, with IRQs masked, or in User mode. Before it did,
    /// [`Self::can_cross`] was true.
    pub fn crossed(&mut self, mode: Mode, banks: &CrossedBanks) {
        let bank = |[sp, lr]: [u32; 2], spsr| Bank { sp, lr, spsr };
        *self.banks.of_mut(Mode::User) = bank(banks.user, Psr::new());
        let spsr = Psr::from_bits(banks.spsr & SAVED);
        *self.banks.of_mut(Mode::Supervisor) = bank(banks.supervisor, spsr);
        self.mode = mode;
        self.masks = Masks {
            irqs: mode == Mode::Supervisor,
            ..Masks::default()
        };
    }
}
