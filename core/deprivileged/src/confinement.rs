//! Confinement: the kernel executes one doubtful page alone.
//!
//! Kept true: among all shadow tables there is at most one entry by which a doubtful page or the slot can be
//! executed ([`Monitor::open`]), in the tables of a confined space; and while it is there and the
//! kernel runs, the PC is at a proven place of that page, or elsewhere. (The slot: `across.rs`.)

use crate::answer::Answer;
use crate::code::{Code, Executability};
use crate::host::Host;
use crate::monitor::Monitor;
use crate::slot::place;
use crate::translation::{privilege, regime, walk};
use crate::view::{Executable, View};
use hanok_decode::aarch32::ItState;
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::shadow::Filled;
use hanok_paging::short::{Access, AccessKind, GuestMapping, Privilege};
use hanok_types::GuestPage;

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// Lets the kernel execute nothing but `page`, in which the place at the PC is proven.
    pub(crate) fn confine(
        &mut self,
        page: GuestPage,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        self.member.touch(self.registers.pc);
        self.confine_found(page, None, code, host)
    }

    /// As [`Self::confine`]; `found` is what a walk for the PC has just led to.
    fn confine_found(
        &mut self,
        page: GuestPage,
        found: Option<&GuestMapping>,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        self.close();
        self.confined = Some(page);
        let code = code.lock();
        // A sibling may have given the page up meanwhile.
        let (pc, psr) = (self.registers.pc, self.registers.psr);
        let place = place(pc, psr.thumb(), ItState::from_bits(psr.it()));
        if !place.is_some_and(|place| code.is_proven(page, place)) {
            return Answer::Resume;
        }
        let view = View::new(host, &code, Executable::Only(page));
        let access = Access {
            address: pc,
            kind: AccessKind::Execute,
            by: privilege(self.cpu.mode()),
        };
        let found = found.copied();
        let found = found.or_else(|| walk(&regime(&self.cpu), &access, &view).ok());
        // If it is not opened, the guest tries again, and gets what it is to get.
        let _opened = found.is_some_and(|found| self.open(pc, &found, &view));
        Answer::Resume
    }

    /// Makes the entry by which the kernel, which is confined, can execute the page at `address`. Answers whether it is made.
    #[inline(never)]
    pub(crate) fn open<H: Host>(
        &mut self,
        address: u32,
        mapping: &GuestMapping,
        view: &View<'_, H>,
    ) -> bool {
        let space = self.space();
        let access = Access {
            address,
            kind: AccessKind::Execute,
            by: Privilege::Kernel,
        };
        let Filled::Made(owed) = self.shadow.fill_found(&space, &access, mapping, view) else {
            return false;
        };
        self.open = Some((space, address));
        self.owe(owed);
        true
    }

    /// Goes on where the kernel's PC is now, if nothing has to be proven for that: out of confinement in a sound
    /// page, or at a proven place of a doubtful one. Answers whether that was so; otherwise nothing has changed.
    pub(crate) fn go_on(&mut self, code: &Mutex<Code>, host: &impl Host) -> bool {
        let (pc, psr) = (self.registers.pc, self.registers.psr);
        let access = Access {
            address: pc,
            kind: AccessKind::Execute,
            by: privilege(self.cpu.mode()),
        };
        self.member.touch(pc);
        let locked = code.lock();
        let view = View::new(host, &locked, Executable::Sound);
        let Ok(mapping) = walk(&regime(&self.cpu), &access, &view) else {
            return false;
        };
        let Some(page) = GuestPage::of(mapping.output) else {
            return false;
        };
        match locked.executability(page) {
            Executability::Sound => {
                drop(locked);
                let was_confined = self.confined.is_some();
                self.leave_confinement();
                was_confined
            }
            Executability::Doubtful => {
                let it = ItState::from_bits(psr.it());
                let place = place(pc, psr.thumb(), it);
                let proven = place.is_some_and(|place| locked.is_proven(page, place));
                drop(locked);
                if proven {
                    let _resume = self.confine_found(page, Some(&mapping), code, host);
                }
                proven
            }
            Executability::Unknown | Executability::Closed => false,
        }
    }

    /// Goes on as [`Self::go_on`] if what was done for the kernel led out of the page that it is confined to.
    pub(crate) fn follow_out(&mut self, code: &Mutex<Code>, host: &impl Host) {
        if let Some((_, at)) = self.open
            && self.registers.pc >> 12 != at >> 12
            && self.cpu.mode().is_privileged()
        {
            let _otherwise_the_fetch_is_refused = self.go_on(code, host);
        }
    }

    /// Ends the kernel's confinement to a page.
    pub(crate) fn leave_confinement(&mut self) {
        self.close();
        self.confined = None;
    }

    /// Removes the entry by which a doubtful page or the slot can be executed.
    pub(crate) fn close(&mut self) {
        self.displaced = None;
        if let Some((space, at)) = self.open.take() {
            let owed = self.shadow.remove_kernel_page(&space, at);
            self.owe(owed);
        }
    }

    /// Removes that entry if the PC has come, by what was done for the guest, to a place of the page
    /// that is not proven.
    pub(crate) fn settle(&mut self, code: &Mutex<Code>) {
        self.settled = (self.registers.pc, self.registers.psr);
        let (Some((_, at)), Some(page)) = (self.open, self.confined) else {
            return;
        };
        let pc = self.registers.pc;
        if pc >> 12 != at >> 12 {
            // If the PC is in the page by another address, the fetch is refused.
            return;
        }
        let psr = self.registers.psr;
        let it = ItState::from_bits(psr.it());
        let place = place(pc, psr.thumb(), it);
        let proven = place.is_some_and(|place| code.lock().is_proven(page, place));
        if !proven {
            self.close();
        }
    }

    /// Removes that entry if registers have changed since: an interrupt or an abort was delivered, or
    /// an access to a device was carried out. What the PC is at now may not be proven.
    pub(crate) fn settle_again(&mut self) {
        if self.settled != (self.registers.pc, self.registers.psr) {
            self.close();
        }
    }
}
