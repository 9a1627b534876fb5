//! Aborts: of the shadow tables, and of the guest's own.

use crate::answer::{Answer, Device, Stopped, Trap};
use crate::code::{Code, Proven, Released};
use crate::host::Host;
use crate::monitor::Monitor;
use crate::siblings::Change;
use crate::slot::{Ended, Ticket, place};
use crate::translation::{fault, privilege, regime, walk};
use crate::view::{Executable, View};
use hanok_cpu32::{Exception, Fault, FaultStatus};
use hanok_decode::aarch32::{ItState, is_wide};
use hanok_hal::{AccessError, Mutex, TableMemory};
use hanok_paging::shadow::{Filled, FrameLoss, Invalidation, Neighbours};
use hanok_paging::short::{Access, AccessKind, GuestMapping, Privilege, WalkError};
use hanok_types::{Address, GuestPage, Ipa, PAGE_SIZE};

/// FS of IFSR and DFSR: bits 10 and 3 to 0 (DDI 0406C, B4.1, DFSR).
pub(crate) const fn status(register: u32) -> u32 {
    register >> 6 & 0x10 | register & 0xf
}

/// Whether it was a store, by DFSR.
pub(crate) const fn data_kind(register: u32) -> AccessKind {
    if register & WRITE != 0 {
        AccessKind::Write
    } else {
        AccessKind::Read
    }
}

const ALIGNMENT: u32 = 0b0_0001;
const DEBUG: u32 = 0b0_0010;
const EXTERNAL: u32 = 0b0_1000;
const ASYNCHRONOUS: u32 = 0b1_0110;
/// DFSR.WnR.
const WRITE: u32 = 1 << 11;

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    fn access(&self, address: u32, kind: AccessKind) -> Access {
        Access {
            address,
            kind,
            by: privilege(self.cpu.mode()),
        }
    }

    #[inline(never)]
    fn take(&mut self, exception: Exception) -> Answer {
        self.cpu.take(&mut self.registers, exception);
        Answer::Resume
    }

    #[inline(never)]
    pub(crate) fn take_data(&mut self, address: u32, fault: Fault, write: bool) -> Answer {
        self.take(Exception::DataAbort {
            address,
            fault,
            write,
        })
    }

    #[inline(never)]
    fn take_prefetch(&mut self, address: u32, fault: Fault) -> Answer {
        self.take(Exception::PrefetchAbort { address, fault })
    }

    pub(crate) fn supervisor_call(&mut self) -> Answer {
        self.take(Exception::SupervisorCall)
    }

    /// A load or store was refused.
    pub(crate) fn data_abort(
        &mut self,
        register: u32,
        address: u32,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        let write = register & WRITE != 0;
        match status(register) {
            ASYNCHRONOUS => {
                // The guest may take it as it does an interrupt.
                let _resume_where_it_is = self.leave_trampoline(code, host);
                return Answer::SystemError;
            }
            ALIGNMENT => {
                let fault = Fault::without_domain(FaultStatus::Alignment);
                return self.take_data(address, fault, write);
            }
            EXTERNAL => {
                let fault = Fault::without_domain(FaultStatus::External);
                return self.take_data(address, fault, write);
            }
            _ => {}
        }
        let (filled, absent) = self.fill_or_found(address, data_kind(register), code, host);
        if let Some(page) = absent {
            return Answer::Page(page);
        }
        match filled {
            Filled::Made(owed) => {
                self.owe(owed);
                Answer::Resume
            }
            Filled::Again => Answer::Resume,
            Filled::Fault(found) => self.take_data(address, fault(&found), write),
            Filled::Beyond(_) => {
                let fault = Fault::without_domain(FaultStatus::External);
                self.take_data(address, fault, write)
            }
            Filled::InWindow(mapping) if host.has(mapping.output) => self.move_window(code, host),
            Filled::InWindow(mapping) | Filled::NoFrame(mapping) => {
                self.devices.remember(&self.cpu, address, &mapping);
                self.device(mapping.output, write, code, host)
            }
            Filled::Protected(mapping) if self.is_alias(mapping.output, code) => {
                self.ring(address, code, host)
            }
            Filled::Protected(mapping) => self.protected(&mapping, write, code, host),
        }
    }

    /// Moves the window to a megabyte in which the guest has nothing.
    #[cold]
    fn move_window(&mut self, code: &Mutex<Code>, host: &impl Host) -> Answer {
        let place = match self.free_place(code, host) {
            Ok(place) => place,
            Err(answer) => return answer,
        };
        let owed = self.shadow.move_window(place.window(self.descriptor));
        self.window = place;
        self.owe(owed);
        Answer::Resume
    }

    /// As [`Self::fill`], if that has not just been done.
    #[inline(never)]
    fn fill_or_found(
        &mut self,
        address: u32,
        kind: AccessKind,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> (Filled, Option<GuestPage>) {
        match self.found.take() {
            Some(found) => found,
            None => self.fill(address, kind, code, host),
        }
    }

    /// Makes an entry for an access, if there can be one, and says whether an absent page is in the way.
    pub(crate) fn fill(
        &mut self,
        address: u32,
        kind: AccessKind,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> (Filled, Option<GuestPage>) {
        let space = self.space();
        let executable = if space.confined {
            Executable::Nothing
        } else {
            Executable::Sound
        };
        let access = self.access(address, kind);
        let mut code = code.lock();
        if let Err(AccessError::Absent(page)) = code.find_trampolines(host) {
            return (Filled::Again, Some(page));
        }
        if self.has_left_trampolines(&code) {
            code.give_up_trampolines();
            self.page.at = None;
            let owed = self.shadow.invalidate(Invalidation::All);
            self.owe(owed);
            self.find_trampolines(&code);
            return (Filled::Again, None);
        }
        self.find_trampolines(&code);
        let view = View::new(host, &code, executable).with_page(self.kernel_page());
        self.member.touch(address);
        let mut filled = self.shadow.fill(&space, &access, &view, Neighbours::Of16);
        if matches!(filled, Filled::Fault(_))
            && kind == AccessKind::Execute
            && let Ok(mapping) = walk(&space.regime, &access, &view)
        {
            filled = self.shadow.fill_found(&space, &access, &mapping, &view);
        }
        self.made |= matches!(filled, Filled::Made(_));
        let executes = kind == AccessKind::Execute && access.by == Privilege::Kernel;
        if executes
            && matches!(filled, Filled::Made(_))
            && code.trampolines().is_some()
            && !self.knows_trampolines(address)
            && let Ok(mapping) = walk(&space.regime, &access, &view)
        {
            self.executes(address, mapping.output, &code);
        }
        // If the entry was made, only a neighbour is absent.
        let absent = view
            .absent
            .get()
            .filter(|_| !matches!(filled, Filled::Made(_)));
        (filled, absent)
    }

    /// Whether the kernel has an alias of its virtual CPU's page there.
    fn is_alias(&self, at: Ipa, code: &Mutex<Code>) -> bool {
        self.kernel_page().is_some() && code.lock().alias(at).is_some()
    }

    /// A store to a page that holds code, or to read-only memory.
    fn protected(
        &mut self,
        mapping: &GuestMapping,
        write: bool,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        let Some(page) = GuestPage::of(mapping.output) else {
            return Answer::Resume;
        };
        if !host.is_writable(mapping.output) {
            return self.device(mapping.output, write, code, host);
        }
        self.store(page, code, host)
    }

    /// Whether the kernel executes `page`: the instruction begins or ends there.
    pub(crate) fn own_page(&self, page: GuestPage, code: &Mutex<Code>, host: &impl Host) -> bool {
        let is_there = |address| {
            let (found, absent) = self.walk_code(address, code, host);
            let there = found.is_ok_and(|mapping| GuestPage::of(mapping.output) == Some(page));
            there && absent.is_none()
        };
        let pc = self.registers.pc;
        let ends = pc.wrapping_add(2);
        self.cpu.mode().is_privileged()
            && (is_there(pc) || ends >> 12 != pc >> 12 && is_there(ends))
    }

    /// The guest writes to a page that holds code: it becomes plain memory.
    #[cold]
    pub(crate) fn written(
        &mut self,
        page: GuestPage,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        match self.give_up(page, code, host) {
            Ok(true) => {}
            Ok(false) => return Answer::Resume,
            Err(error) => return failed(error),
        }
        if self.confined == Some(page) {
            self.leave_confinement();
        }
        if self.forgetting.take().is_some() {
            // The second page of one instruction: there is one search at a time, so all entries go.
            self.shadow.clear();
            return Answer::Resume;
        }
        self.begin(host, page, FrameLoss::KernelExecute)
    }

    /// No sibling has entries of a page's frame any more, in its guest, that say what the frame loses.
    fn take_from_siblings(
        &self,
        page: GuestPage,
        loss: FrameLoss,
        host: &impl Host,
    ) -> Result<(), AccessError> {
        let frame = host.frame(page.start())?;
        self.member.post(Change::Forget(frame, loss));
        self.member.wait(host);
        Ok(())
    }

    /// Gives a page up, which no sibling executes any more. Answers `false` if it has to be tried once more.
    #[cold]
    fn give_up(
        &self,
        page: GuestPage,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Result<bool, AccessError> {
        let Some(ticket) = code.lock().leave(page) else {
            return Ok(true);
        };
        self.take_from_siblings(page, FrameLoss::KernelExecute, host)?;
        loop {
            match code.lock().release(host, page, ticket)? {
                Released::NotYet if !host.is_interrupted() => {}
                released => return Ok(released == Released::Yes),
            }
        }
    }

    /// No sibling writes to a page any more that is to be executed, and this vCPU does not after its search.
    #[cold]
    fn protect(&mut self, page: GuestPage, ticket: Ticket, host: &impl Host) -> Answer {
        let taken = self.take_from_siblings(page, FrameLoss::Write, host);
        if let Err(error) = taken.and_then(|()| self.begin_forgetting(host, page, FrameLoss::Write))
        {
            return failed(error);
        }
        self.protecting = Some((page, ticket));
        // The search itself is work before the next entry.
        Answer::Resume
    }

    /// A page needs no confinement any more.
    #[cold]
    fn settle_page(
        &mut self,
        page: GuestPage,
        ticket: Ticket,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        if let Err(error) = self.take_from_siblings(page, FrameLoss::KernelExecute, host) {
            return failed(error);
        }
        self.leave_confinement();
        loop {
            match code.lock().settle(host, page, ticket) {
                Ok(Ended::NotYet) if !host.is_interrupted() => {}
                Ok(_) => return Answer::Resume,
                Err(error) => return failed(error),
            }
        }
    }

    fn begin(&mut self, host: &impl Host, page: GuestPage, loss: FrameLoss) -> Answer {
        if let Err(error) = self.begin_forgetting(host, page, loss) {
            return failed(error);
        }
        // The search itself is work before the next entry.
        Answer::Resume
    }

    /// An access to what is no memory.
    fn device(&mut self, at: Ipa, write: bool, code: &Mutex<Code>, host: &impl Host) -> Answer {
        match self.instruction(code, host) {
            Ok(instruction) => Answer::Device(Device {
                at,
                write,
                instruction,
            }),
            Err(answer) => answer,
        }
    }

    /// The physical address of code at `address`; otherwise what follows. If the guest has changed its
    /// tables since the fetch, it takes its fault, as if its TLB had forgotten the page.
    pub(crate) fn code_at(
        &mut self,
        address: u32,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Result<Ipa, Answer> {
        match self.walk_code(address, code, host) {
            (_, Some(page)) => Err(Answer::Page(page)),
            (Ok(mapping), None) => Ok(mapping.output),
            (Err(WalkError::Fault(found)), None) => Err(self.take_prefetch(address, fault(&found))),
            (Err(WalkError::Beyond(_)), None) => {
                let fault = Fault::without_domain(FaultStatus::External);
                Err(self.take_prefetch(address, fault))
            }
        }
    }

    /// Where code at `address` is, and an absent page that is in the way.
    pub(crate) fn walk_code(
        &self,
        address: u32,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> (Result<GuestMapping, WalkError>, Option<GuestPage>) {
        let code = code.lock();
        let view = View::new(host, &code, Executable::Sound);
        let access = self.access(address, AccessKind::Execute);
        let found = walk(&regime(&self.cpu), &access, &view);
        (found, view.absent.get())
    }

    /// The instruction at the PC as the guest wrote it: a word of A32, or two halfwords of T32.
    pub fn instruction(&mut self, code: &Mutex<Code>, host: &impl Host) -> Result<u32, Answer> {
        if let Some(word) = self.fetched() {
            return Ok(word);
        }
        let pc = self.registers.pc;
        let at = self.code_at(pc, code, host)?;
        let word = |at: Ipa| host.word(at).map_err(failed);
        if !self.registers.psr.thumb() {
            return word(Ipa::new(at.get() & !3));
        }
        let half = |at: Ipa| {
            let word = word(Ipa::new(at.get() & !3))?;
            Ok((word >> (at.get() % 4 * 8)) as u16)
        };
        let first = half(at)?;
        if !is_wide(first) {
            return Ok(u32::from(first) << 16);
        }
        let next = Ipa::new(at.get() + 2);
        let second = if next.is_aligned(PAGE_SIZE) {
            half(self.code_at(pc.wrapping_add(2), code, host)?)?
        } else {
            half(next)?
        };
        Ok(u32::from(first) << 16 | u32::from(second))
    }

    /// A fetch was refused.
    pub(crate) fn prefetch_abort(
        &mut self,
        register: u32,
        address: u32,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        match status(register) {
            DEBUG => {
                let fault = Fault::without_domain(FaultStatus::Debug);
                return self.take_prefetch(address, fault);
            }
            EXTERNAL => {
                let fault = Fault::without_domain(FaultStatus::External);
                return self.take_prefetch(address, fault);
            }
            _ => {}
        }
        let mut address = address;
        if self.cpu.mode().is_privileged() {
            // An instruction across two pages is no matter of the second one, and behind the slot nothing is fetched.
            address = self.registers.pc;
            if let Some(answer) = self.across(code, host) {
                return answer;
            }
            if self.go_on(code, host) {
                return Answer::Resume;
            }
        }
        let (filled, absent) = self.fill_or_found(address, AccessKind::Execute, code, host);
        if let Some(page) = absent {
            return Answer::Page(page);
        }
        match filled {
            Filled::Made(owed) => {
                self.owe(owed);
                Answer::Resume
            }
            Filled::Again => Answer::Resume,
            Filled::Fault(found) => self.take_prefetch(address, fault(&found)),
            Filled::Beyond(_) => {
                let fault = Fault::without_domain(FaultStatus::External);
                self.take_prefetch(address, fault)
            }
            Filled::InWindow(mapping) if host.has(mapping.output) => self.move_window(code, host),
            Filled::InWindow(mapping) | Filled::NoFrame(mapping) => Answer::Fetch(mapping.output),
            Filled::Protected(mapping) if self.is_alias(mapping.output, code) => {
                let fault = Fault::without_domain(FaultStatus::External);
                self.take_prefetch(address, fault)
            }
            Filled::Protected(mapping) if !code.lock().holds(mapping.output) => {
                let fault = Fault::without_domain(FaultStatus::External);
                self.take_prefetch(address, fault)
            }
            Filled::Protected(mapping) => self.prove(mapping.output, code, host),
        }
    }

    /// The kernel fetches from a page that it cannot execute yet: its PC is at `at`.
    fn prove(&mut self, at: Ipa, code: &Mutex<Code>, host: &impl Host) -> Answer {
        let Some(page) = GuestPage::of(at) else {
            return Answer::Stop(Stopped::Unproven { at });
        };
        let (pc, psr) = (self.registers.pc, self.registers.psr);
        let it = ItState::from_bits(psr.it());
        let Some(place) = place(pc, psr.thumb(), it) else {
            return Answer::Stop(Stopped::Unproven { at });
        };
        let proven = loop {
            match code.lock().prove(host, page, place) {
                Ok(Proven::More) if !host.is_interrupted() => {}
                proven => break proven,
            }
        };
        match proven {
            Err(error) => failed(error),
            Ok(Proven::More | Proven::Later) => Answer::Resume,
            Ok(Proven::Protect(page, ticket)) => self.protect(page, ticket, host),
            Ok(Proven::Leaves(page)) => self.written(page, code, host),
            Ok(Proven::Settles(page, ticket)) => self.settle_page(page, ticket, code, host),
            Ok(Proven::Sound) => {
                self.leave_confinement();
                Answer::Resume
            }
            Ok(Proven::Confined) => self.confine(page, code, host),
            Ok(Proven::Contradictory) => Answer::Stop(Stopped::Unproven { at }),
        }
    }
}

/// What follows if memory that was there cannot be reached.
pub(crate) fn failed(error: AccessError) -> Answer {
    match error {
        AccessError::Absent(page) => Answer::Page(page),
        AccessError::NoMemory(at) => Answer::Fetch(at),
    }
}

impl Trap {
    /// Whether the PC of the exception's return address is behind the instruction, and how far it is
    /// from it: LR_und, LR_svc, LR_abt of a prefetch abort and of a data abort (DDI 0406C, B1.8.3).
    pub const fn distance(&self, thumb: bool) -> u32 {
        match self {
            Self::Undefined | Self::SupervisorCall if thumb => 2,
            Self::Undefined | Self::SupervisorCall | Self::PrefetchAbort { .. } => 4,
            Self::DataAbort { .. } => 8,
        }
    }
}
