//! Aborts that are served at once, between two instructions of the guest's as it were: without the rest of an exit.
//!
//! Most aborts make an entry of shadow tables, or are the guest's own. While the guest may cross ([`Crossing`]), all that its next
//! entry needs is there already, and little of it changes by an abort. So nothing is looked at anew but that; a vCPU
//! stays in its [`Seat`](crate::siblings::Seat), and what waits for it interrupts it as if the abort had not been.
//!
//! Kept true: when the guest goes on, its registers, tables and page are what an exit and an entry would have made of them.

use crate::answer::Trap;
use crate::code::Code;
use crate::crossing::{Crossing, ThreadRegisters};
use crate::faults::{data_kind, status};
use crate::host::Host;
use crate::monitor::Monitor;
use crate::translation::{fault, privilege};
use hanok_cpu32::{Exception, Registers};
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::shadow::{Filled, Owed};
use hanok_paging::short::{AccessKind, Privilege, ShortFault};

/// What has come of an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AtOnce {
    /// There is an entry. The instruction is executed again, as soon as what is owed was paid.
    Filled(Owed),
    /// The guest goes on with [`Monitor::registers`].
    Taken,
}

/// Whether the CPU says that its tables have no entry, or one that forbids the access (DDI 0406C, B3.13.3).
const fn is_of_tables(register: u32) -> bool {
    matches!(status(register), 0b00101 | 0b00111 | 0b01101 | 0b01111)
}

/// The address that was accessed, and how.
fn accessed(trap: &Trap) -> Option<(u32, AccessKind)> {
    match *trap {
        Trap::PrefetchAbort { status, address } if is_of_tables(status) => {
            Some((address, AccessKind::Execute))
        }
        Trap::DataAbort { status, address } if is_of_tables(status) => {
            Some((address, data_kind(status)))
        }
        _ => None,
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// Serves an exception at once, if it can be: the guest, which has not [left](Self::left), goes on by
    /// [`Crossing::roots`] of its mode, and with [`Self::tpidrurw`]. `None`: it has to leave, and the exception to be
    /// served by [`Self::serve`]. `guest` answers its registers, with the PC of the instruction.
    pub fn abort_at_once(
        &mut self,
        trap: &Trap,
        (thread, crossing): (ThreadRegisters, &mut Crossing),
        guest: impl FnOnce() -> Registers,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Option<AtOnce> {
        let (address, kind) = accessed(trap)?;
        let waits = self.forgetting.is_some() || self.owed != Owed::Nothing;
        if crossing.status == 0 || waits || self.shadow.has_unchecked() {
            return None;
        }
        self.take_over(thread, crossing);
        crossing.crossed = 0;
        let by = privilege(self.cpu.mode());
        let is_program = by == Privilege::User;
        if kind == AccessKind::Execute && !is_program {
            return None;
        }
        let found = self.fill(address, kind, code, host);
        let roots = &crossing.roots;
        let root = if is_program { roots.user } else { roots.kernel };
        match found {
            (Filled::Made(owed), _) if self.is_in_force(root) => Some(AtOnce::Filled(owed)),
            // Doubtful is only whether the page shows what waits.
            (Filled::Fault(found), None) if !(is_program && self.page.closed) => {
                self.registers = guest();
                self.take_at_once(address, kind, &found);
                crossing.status = self.cpu.crossing_status();
                crossing.banks = self.cpu.crossed_banks();
                self.show_page();
                Some(AtOnce::Taken)
            }
            _ => {
                self.found = Some(found);
                None
            }
        }
    }

    /// Whether the entry that was just made is in the root by which the guest goes on, and the guest may still use all that it
    /// may cross to.
    fn is_in_force(&self, root: [u32; 2]) -> bool {
        self.shadow.is_filled(root[0]) && self.shadow.knows(self.spaces.roots)
    }

    fn take_at_once(&mut self, address: u32, kind: AccessKind, found: &ShortFault) {
        let fault = fault(found);
        let exception = if kind == AccessKind::Execute {
            Exception::PrefetchAbort { address, fault }
        } else {
            Exception::DataAbort {
                address,
                fault,
                write: kind == AccessKind::Write,
            }
        };
        self.cpu.take(&mut self.registers, exception);
    }
}
