//! Exits that are served at once: without what other entries look at.
//!
//! Most aborts make an entry of shadow tables, or are the guest's own; and most instructions that are carried out for a kernel
//! change little. While the guest may cross ([`Crossing`]), all that its next entry needs is there already. So nothing is
//! looked at anew but what has changed. For an abort a vCPU even stays in its [`Seat`](crate::siblings::Seat): what
//! waits for it interrupts it as if the abort had not been.
//!
//! Kept true: when the guest goes on, its registers, tables and page are what an exit and an entry would have made of them.

use crate::answer::Trap;
use crate::code::Code;
use crate::crossing::{Crossing, ThreadRegisters};
use crate::faults::data_kind;
use crate::host::Host;
use crate::monitor::Monitor;
use crate::translation::fault;
use hanok_cpu32::{Exception, Registers, SystemRegister};
use hanok_decode::{Condition, Psr};
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::shadow::{Filled, Invalidation, Owed};
use hanok_paging::short::{AccessKind, ShortFault};

/// What has come of an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum AtOnce {
    /// There is an entry. The instruction is executed again, as soon as what is owed was paid.
    Filled(Owed),
    /// The guest goes on with [`Monitor::registers`].
    Taken,
}

/// What has come of an invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Invalidated {
    /// The guest goes on behind it by its kernel's root, as soon as this was paid.
    GoesOn(Owed),
    /// The guest has to leave behind it.
    Leaves,
}

/// Whether the CPU says that its tables have no entry, or one that forbids the access (DDI 0406C, B3.13.3).
pub(crate) const fn is_of_tables(register: u32) -> bool {
    const FAULT: u32 = 0b00101;
    // FS is 0b0x1x1.
    register & (1 << 10 | FAULT) == FAULT
}

impl Trap {
    /// Whether it is an abort.
    pub const fn is_abort(&self) -> bool {
        matches!(self, Self::PrefetchAbort { .. } | Self::DataAbort { .. })
    }

    /// Whether an A32 word that the guest has just executed caused it, which can be read at its PC: the backend does so.
    pub const fn fetches(&self) -> bool {
        match *self {
            Self::Undefined | Self::SupervisorCall => true,
            Self::PrefetchAbort { .. } => false,
            Self::DataAbort { status, .. } => is_of_tables(status),
        }
    }
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
    /// served by [`Self::serve`]. `guest` gives its registers, with the PC of the instruction.
    pub fn abort_at_once(
        &mut self,
        trap: &Trap,
        (thread, crossing): (ThreadRegisters, &mut Crossing),
        guest: impl FnOnce(&mut Registers),
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Option<AtOnce> {
        let (address, kind) = accessed(trap)?;
        if crossing.status == 0 || self.waits() || self.owed != Owed::Nothing {
            return None;
        }
        let is_program = crossing.status & 0xf == 0;
        if kind == AccessKind::Execute && !is_program {
            return None;
        }
        self.take_over(thread, crossing);
        crossing.crossed = 0;
        let found = self.fill(address, kind, code, host);
        let roots = &crossing.roots;
        let root = if is_program { roots.user } else { roots.kernel };
        match found {
            (Filled::Made(owed), _) if self.is_in_force(root) => {
                self.made = false;
                Some(AtOnce::Filled(owed))
            }
            // Doubtful is only whether the page shows what waits.
            (Filled::Fault(found), None) if !(is_program && self.page.closed) => {
                guest(&mut self.registers);
                self.take_at_once(address, kind, &found);
                self.renew(crossing);
                Some(AtOnce::Taken)
            }
            _ => {
                self.found = Some(found);
                None
            }
        }
    }

    /// Carries out the A32 word `word` of a kernel, which is undefined in User mode, if it invalidates one page and nobody else has to
    /// know; `None`, with nothing done, if it is anything else. `registers` are the guest's: R0 to R14, the PC behind the
    /// word, and CPSR.
    pub fn invalidate_at_once(
        &mut self,
        word: u32,
        (general, behind, psr): (&[u32; 15], u32, u32),
        crossing: &Crossing,
    ) -> Option<Invalidated> {
        const THUMB_OR_BIG_ENDIAN: u32 = 0x220;
        // MCR p15, 0, Rt, c8, c3 or c7: TLBIMVAIS and TLBIMVAAIS, TLBIMVA and TLBIMVAA (DDI 0406C, B4.2.2).
        if word & 0x0fff_0f1b != 0x0e08_0f13 || psr & THUMB_OR_BIG_ENDIAN != 0 {
            return None;
        }
        let value = *general.get((word >> 12 & 0xf) as usize)?;
        let page = value & !0xfff;
        let what = match word >> 5 & 7 {
            1 => Invalidation::Page {
                at: page,
                asid: value as u8,
            },
            3 => Invalidation::PageOfAllAsids { at: page },
            _ => return None,
        };
        let fits = crossing.status & 0xf != 0
            && !self.member.has_siblings()
            && !self.waits()
            && self.owed == Owed::Nothing
            && word >> 28 != 0xf
            && Psr::from_bits(psr).passes(Condition::Code((word >> 28) as u8));
        if !fits || !self.last_page.ends_with(behind, page, general) {
            return None;
        }
        if self.last_page.pc != behind {
            self.last_page.in_loop = None;
        }
        (self.last_page.pc, self.last_page.page) = (behind, page);
        self.invalidate_here(what);
        if self.waits() || !self.shadow.knows(&self.spaces.roots) {
            return Some(Invalidated::Leaves);
        }
        Some(Invalidated::GoesOn(core::mem::replace(
            &mut self.owed,
            Owed::Nothing,
        )))
    }

    /// After [`Self::serve`] has answered that the guest is to be entered: whether that needs no more than what it has changed
    /// of `crossing`, by which the guest left. If so, the guest goes on by [`Crossing::roots`] of its mode, with
    /// [`Self::registers`] and [`Self::tpidrurw`], as soon as the answer is paid.
    pub fn goes_on(&mut self, crossing: &mut Crossing) -> Option<Owed> {
        let changes = self.cpu.changes();
        let same = crossing.status != 0
            && !changes.is_of_control()
            && !self.waits()
            && self.confined.is_none()
            && self.cpu.can_cross()
            && self.shadow.knows(&self.spaces.roots);
        if !same || self.page.closed || self.cpu.pending() != 0 || crossing.waits != 0 {
            return None;
        }
        let domains = self.cpu.system(SystemRegister::Dacr);
        let privileged = self.cpu.mode().is_privileged();
        let roots = &crossing.roots;
        // An entry may have been made in the space's own root, where the guest is in the common one.
        let root = if privileged { roots.kernel } else { roots.user };
        if self.made && !self.shadow.is_filled(root[0]) {
            return None;
        }
        let fits = if privileged {
            self.spaces.domains() == Some(self.kernel_domains(domains))
        } else {
            crossing.roots.user[0] != 0 && crossing.roots.domains == domains
        };
        if !fits || !self.member.enter() {
            return None;
        }
        self.made = false;
        self.renew(crossing);
        Some(core::mem::replace(&mut self.owed, Owed::Nothing))
    }

    /// Whether there is work that has to be done before the guest may go on.
    fn waits(&self) -> bool {
        self.forgetting.is_some() || self.shadow.has_unchecked()
    }

    /// Notes what the guest may cross with in another mode.
    #[inline(never)]
    fn renew(&mut self, crossing: &mut Crossing) {
        crossing.status = self.cpu.crossing_status();
        crossing.crossed = 0;
        crossing.banks = self.cpu.crossed_banks();
        crossing.tpidrprw = self.cpu.system(SystemRegister::Tpidrprw);
        crossing.foreseen = self.foreseen();
        self.show_page();
    }

    /// Whether the entry that was just made is in the root by which the guest goes on, and the guest may still use all that it
    /// may cross to.
    fn is_in_force(&self, root: [u32; 2]) -> bool {
        self.shadow.is_filled(root[0]) && self.shadow.knows(&self.spaces.roots)
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
