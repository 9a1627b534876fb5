//! The virtual CPU's page: what trampolines of a rewritten kernel read and write instead of trapping.
//!
//! Where the kernel has an alias of that page (`hanok_abi::trampoline`), its shadow tables have the frame of the one
//! page that belongs to the vCPU. The frame is written before the kernel is entered, and read when the kernel
//! has left; in between its kernel alone reaches it. The guest can write anything there: what that means for it
//! is what the instructions would mean that the trampolines stand for (`hanok_cpu32`).
//!
//! The doorbells are closed while an interrupt waits that is masked, so that the store that unmasks it is refused
//! ([`Monitor::ring`]). They are known by the address at which the kernel last began to execute trampolines. A
//! kernel that maps them at a second address, which no kernel does, may write them there while an interrupt
//! waits, and gets it at its next exit.
//!
//! An interrupt of the guest in a trampoline is taken at its site or behind it, with the register that it has spilled
//! ([`Monitor::leave_trampoline`]). After all other exits a trampoline goes on where it was, so that its
//! [`Field::SCRATCH`] is never written.
//!
//! While the kernel runs, TPIDRURW holds its TPIDRPRW, which rewritten code reads there. Its TPIDRURO is the page's; the CPU's
//! register may differ from that where the kernel does not look (`hanok_abi::trampoline::ThreadWrite`), and has its value again
//! when the guest is entered after an exit.
//!
//! DACR counts for what the kernel accesses itself only in so far as it makes a domain a manager's: a write of it is
//! stored, not carried out, and a kernel that keeps itself out of its programs' memory would have another space for
//! each value.

use crate::answer::Answer;
use crate::code::Code;
use crate::crossing::{Crossing, ThreadRegisters};
use crate::host::Host;
use crate::monitor::Monitor;
use crate::page::CpuPage;
use crate::translation::walk;
use crate::view::{Executable, View};
use hanok_abi::trampoline::{Field, PAGE, Resumption, Room, TRIPLE, resume};
use hanok_cpu32::{Changes, Fault, FaultStatus, SystemRegister, sctlr};
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::shadow::{Doorbells, GuestSpace};
use hanok_paging::short::{Access, AccessKind, Privilege};
use hanok_types::{Address, Hpa, Ipa, PAGE_SIZE};

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// Whether the page is in use: the kernel was the last to run, or is the next, and has trampolines.
    fn uses_page(&self) -> bool {
        self.page.triples != 0 && self.cpu.mode().is_privileged()
    }

    /// The guest has left, with [`Self::registers`]: takes over how it has crossed, what it wrote to the page, and its thread registers, which hold
    /// `thread`. To be called once after each exit, before anything else.
    pub fn left(&mut self, thread: ThreadRegisters, crossing: &Crossing) {
        self.member.leave();
        self.take_back();
        // What was found at once was found after that.
        if self.found.is_none() {
            self.take_over(thread, crossing);
        }
    }

    /// Takes over what the guest did by itself.
    #[inline(never)]
    pub(crate) fn take_over(&mut self, thread: ThreadRegisters, crossing: &Crossing) {
        let changes = self.cpu.changes();
        self.take_crossing(crossing);
        self.foreseen = crossing.foreseen;
        if self.uses_page() {
            self.foreseen = thread.ro;
            let (memory, frame) = (self.shadow.memory(), self.page.frame);
            let word = |field| page_word(memory, frame, field);
            // Its space follows from its DACR whenever it is asked for.
            let _domains = self.cpu.take_page(word);
        } else {
            self.cpu.set_tpidrurw(thread.rw);
            self.cpu.set_tpidruro(thread.ro);
        }
        // What has changed now is there already, or is written before the kernel is entered.
        self.cpu.set_changes(changes);
    }

    /// What TPIDRURW is to hold while the guest runs.
    pub fn tpidrurw(&self) -> u32 {
        let register = if self.uses_page() {
            SystemRegister::Tpidrprw
        } else {
            SystemRegister::Tpidrurw
        };
        self.cpu.system(register)
    }

    /// What TPIDRURO is to hold when a program calls its kernel: what that will write there, as far as can be told.
    pub(crate) fn foreseen(&self) -> u32 {
        if self.page.foresees {
            self.foreseen
        } else {
            self.cpu.system(SystemRegister::Tpidruro)
        }
    }

    /// Writes the page, if the kernel is to be entered, or may be by a crossing.
    pub(crate) fn show_page(&mut self) {
        if self.page.triples == 0 {
            return;
        }
        let mut changes = self.cpu.changes().pairs();
        if !core::mem::replace(&mut self.page.shown, true) {
            changes = ALL;
        }
        if self.uses_page() {
            // Crossings write these.
            changes |= CROSSED;
            self.show_pair(MASK);
        }
        self.cpu.set_changes(Changes::NONE);
        while changes != 0 {
            self.show_pair(changes.trailing_zeros() as u16);
            changes &= changes - 1;
        }
    }

    /// Writes a pair of words.
    fn show_pair(&mut self, pair: u16) {
        let [lower, upper] = [2 * pair, 2 * pair + 1].map(|word| {
            let field = Field::of_word(word);
            u64::from(self.cpu.page_word(&self.registers, field))
        });
        self.shadow.memory_mut().write_unseen(
            self.page.frame,
            pair.into(),
            lower | upper << u32::BITS,
        );
    }

    /// Finds out whether the kernel has trampolines.
    pub(crate) fn find_trampolines(&mut self, code: &Code) {
        let room = code.trampolines().map_or(Room::default(), |(_, room)| room);
        (self.page.triples, self.page.doorbells) = (room.triples, room.doorbells);
        self.page.foresees = room.foresees;
    }

    /// Whether the kernel has turned its MMU off since it has executed trampolines where it had mapped them: it goes to
    /// another program (kexec), for which all of the added code is to be plain memory.
    pub(crate) fn has_left_trampolines(&self, code: &Code) -> bool {
        self.cpu.system(SystemRegister::Sctlr) & sctlr::M == 0
            && self.page.at.is_some_and(|first| {
                let there = code.trampolines();
                there.is_some_and(|(added, _)| added.start().get() != u64::from(first))
            })
    }

    /// What the kernel's tables are to have as the page.
    pub(crate) fn kernel_page(&self) -> Option<CpuPage> {
        self.uses_page().then_some(CpuPage {
            frame: self.page.frame,
            closed: self.page.closed,
        })
    }

    /// The DACR by which the kernel's own accesses are judged.
    pub(crate) fn kernel_domains(&self, dacr: u32) -> u32 {
        const CLIENTS: u32 = 0x5555_5555;
        if self.page.triples != 0 {
            dacr | !(dacr | dacr >> 1) & CLIENTS
        } else {
            dacr
        }
    }

    /// The kernel can execute the page at `address` now, which is at `at` in its memory.
    pub(crate) fn executes(&mut self, address: u32, at: Ipa, code: &Code) {
        let Some((added, _)) = code.trampolines() else {
            return;
        };
        if let Some(offset) = added.offset_of(at) {
            let first = (address & !(PAGE - 1)).wrapping_sub((offset & !(PAGE_SIZE - 1)) as u32);
            self.page.at = Some(first);
        }
    }

    /// Whether it is known where the kernel has the trampolines that are at `address`.
    pub(crate) fn knows_trampolines(&self, address: u32) -> bool {
        let first = self.page.at;
        first.is_some_and(|first| address.wrapping_sub(first) < self.page.triples * TRIPLE)
    }

    /// Closes the doorbells of a space that is to be entered, if an interrupt waits that is masked, and opens them when none does
    /// any more.
    pub(crate) fn close_doorbells(&mut self, space: &GuestSpace) {
        if !self.uses_page() {
            return;
        }
        let closed = self.cpu.waits();
        let before = core::mem::replace(&mut self.page.closed, closed);
        let Some(first) = self.page.at.filter(|_| closed || before) else {
            return;
        };
        let doorbells = Doorbells {
            first,
            step: (TRIPLE / PAGE) as u8,
            count: self.page.doorbells as u16,
        };
        let owed = if closed {
            self.shadow.close_doorbells(space, doorbells)
        } else {
            self.shadow.open_doorbells(space, doorbells)
        };
        self.owe(owed);
    }

    /// The kernel stores to a closed doorbell: its trampoline unmasks interrupts, of which one waits.
    pub(crate) fn ring(&mut self, address: u32, code: &Mutex<Code>, host: &impl Host) -> Answer {
        let instruction = match self.instruction(code, host) {
            Ok(instruction) => instruction,
            Err(answer) => return answer,
        };
        let unmasks = address % PAGE == Field::MASK.offset() && !self.registers.psr.thumb();
        let Some(value) = self.literal_store(instruction).filter(|_| unmasks) else {
            // Memory that the kernel was told to leave alone.
            let fault = Fault::without_domain(FaultStatus::External);
            return self.take_data(address, fault, true);
        };
        self.cpu.take_mask(value);
        self.registers.pc = self.registers.pc.wrapping_add(4);
        Answer::Resume
    }

    /// The value that an A32 STR relative to the PC stores (DDI 0406C, A8.8.203); `None` for any other instruction.
    fn literal_store(&self, word: u32) -> Option<u32> {
        let register = (word >> 12 & 0xf) as usize;
        let stores = word & 0x0f7f_0000 == 0x050f_0000;
        let value = match register {
            15 => Some(self.registers.pc.wrapping_add(8)),
            _ => self.registers.general.get(register).copied(),
        };
        value.filter(|_| stores)
    }

    /// Goes to where the kernel goes on after an interrupt, if it is in the middle of a trampoline. Answers whether
    /// that is known: the page may be absent.
    pub(crate) fn leave_trampoline(&mut self, code: &Mutex<Code>, host: &impl Host) -> bool {
        let pc = self.registers.pc;
        if !self.uses_page() || !self.knows_trampolines(pc) {
            return true;
        }
        let code = code.lock();
        let view = View::new(host, &code, Executable::Sound);
        let access = Access {
            address: pc,
            kind: AccessKind::Execute,
            by: Privilege::Kernel,
        };
        let Ok(found) = walk(&self.space().regime, &access, &view) else {
            return view.absent.get().is_none();
        };
        let page = found.output.align_down(PAGE_SIZE).get();
        let fetch = |at: u32| {
            let here = at & !(PAGE - 1) == pc & !(PAGE - 1);
            let word = here.then(|| host.word(Ipa::new(page + u64::from(at % PAGE))));
            word?.ok()
        };
        if let Some(Resumption { to, restored }) = resume(pc, fetch) {
            let general = &mut self.registers.general;
            if let Some(spilled) = restored.and_then(|number| general.get_mut(number as usize)) {
                *spilled = page_word(self.shadow.memory(), self.page.frame, Field::SCRATCH);
            }
            let psr = self.registers.psr;
            self.registers.psr = psr.with_thumb(to & 1 != 0);
            self.registers.pc = to & !1;
        }
        true
    }
}

/// The pairs of words from the start of the page that have fields; those in which crossings write; and the one of
/// [`Field::MASK`].
const PAIRS: u16 = pair(Field::TPIDRURO).0 + 1;
const ALL: u32 = (1 << PAIRS) - 1;
const CROSSED: u32 = 1 << pair(Field::USER_SP).0
    | 1 << pair(Field::SPSR).0
    | 1 << pair(Field::TPIDRURW).0
    | 1 << pair(Field::TPIDRURO).0;
const MASK: u16 = pair(Field::MASK).0;
// They have all other fields, and not what is the guest's alone.
const _: () = assert!(pair(Field::PSR).0 == pair(Field::SPSR).0 && pair(Field::SCRATCH).0 >= PAIRS);
const _: () = assert!(pair(Field::USER_SP).0 == pair(Field::USER_LR).0);

/// A field of the page in `frame`.
fn page_word(memory: &impl TableMemory, frame: Hpa, field: Field) -> u32 {
    let (pair, upper) = pair(field);
    let both = memory.read(frame, pair.into());
    (if upper { both >> u32::BITS } else { both }) as u32
}

/// Where a field is: the number of its pair of words, and whether it is the upper one.
const fn pair(field: Field) -> (u16, bool) {
    let word = field.offset() as u16 / 4;
    (word / 2, !word.is_multiple_of(2))
}
