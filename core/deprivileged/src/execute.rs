//! Instructions that User mode does not execute: sensitive ones, and branches of a confined page.

use crate::access::Memory;
use crate::answer::{Answer, Stopped};
use crate::code::Code;
use crate::decoded::Meaning;
use crate::device_pages::DevicePages;
use crate::host::Host;
use crate::monitor::Monitor;
use crate::siblings::Change;
use crate::translation::{fault, regime, walk, wants_long};
use crate::view::{Executable, View};
use hanok_abi::trap;
use hanok_cpu32::{
    CacheOperation, Conduit, DataCacheAction, DataCachePlace, Exception, MmuOperation, Outcome,
    Reach, Rights, TlbOperation, TlbScope, Translation,
};
use hanok_decode::aarch32::{Condition, Encoding, Isa, ItState};
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::shadow::Invalidation;
use hanok_paging::short::{Access, AccessKind, Privilege, WalkError};
use hanok_types::{GuestPage, Ipa};

/// The pages that one instruction stores to at most.
const STORED_PAGES: u32 = 2;

/// What came of an instruction.
enum Attempt {
    /// This follows.
    Answered(Answer),
    /// It is to store to this page, which holds code.
    Writes(GuestPage),
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// The instruction at the PC is undefined in User mode, or a trap.
    pub(crate) fn undefined(&mut self, code: &Mutex<Code>, host: &impl Host) -> Answer {
        if let Some(word) = self.fetched() {
            let copied = || code.lock().copied(Encoding::A32(word));
            let meaning = self
                .decoded
                .of(word, || copied().unwrap_or(Encoding::A32(word)));
            if let Some(meaning) = meaning {
                return self.carry_out_meaning(&meaning, code, host);
            }
        }
        match self.undefined_instruction(code, host) {
            Ok(encoding) => self.execute(encoding, code, host),
            Err(answer) => answer,
        }
    }

    /// The A32 word at the PC, if the backend has fetched it.
    pub(crate) fn fetched(&mut self) -> Option<u32> {
        self.fetched.take().filter(|_| !self.registers.psr.thumb())
    }

    /// SVC: one that was put in the place of a sensitive instruction before the guest was loaded, or the
    /// guest's own.
    pub(crate) fn call(&mut self, code: &Mutex<Code>, host: &impl Host) -> Answer {
        if !self.cpu.mode().is_privileged() || !code.lock().is_rewritten() {
            return self.supervisor_call();
        }
        if let Some(word) = self.fetched() {
            let original = || rewritten(word, false);
            let meaning = self
                .decoded
                .of(word, || original().unwrap_or(Encoding::A32(word)));
            return match meaning {
                Some(meaning) => self.carry_out_meaning(&meaning, code, host),
                None => self.supervisor_call(),
            };
        }
        match self.instruction(code, host) {
            Ok(word) => match rewritten(word, self.registers.psr.thumb()) {
                Some(original) => self.execute(original, code, host),
                None => self.supervisor_call(),
            },
            Err(answer) => answer,
        }
    }

    /// Carries out an instruction that User mode does not.
    pub(crate) fn execute(
        &mut self,
        encoding: Encoding,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        let it = ItState::from_bits(self.registers.psr.it());
        match Meaning::of(encoding, it) {
            Some(meaning) => self.carry_out_meaning(&meaning, code, host),
            None => self.not_sensitive(encoding),
        }
    }

    fn carry_out_meaning(
        &mut self,
        meaning: &Meaning,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        if let Meaning::Sensitive(found) = meaning
            && self.cpu.mode().is_privileged()
            && wants_long(&self.registers, found)
        {
            return Answer::Stop(Stopped::LongDescriptors);
        }
        match self.attempt(meaning, code, host) {
            Attempt::Answered(answer) => answer,
            Attempt::Writes(page) => self.attempt_store(page, meaning, code, host),
        }
    }

    /// Carries out an instruction that stores to `page`, which holds code. It may store to two such
    /// pages, its own among them.
    #[cold]
    fn attempt_store(
        &mut self,
        mut page: GuestPage,
        meaning: &Meaning,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        for _ in 0..STORED_PAGES {
            match self.written(page, code, host) {
                Answer::Resume => {}
                answer => return answer,
            }
            match self.attempt(meaning, code, host) {
                Attempt::Answered(answer) => return answer,
                Attempt::Writes(next) => page = next,
            }
        }
        // The guest tries once more.
        self.written(page, code, host)
    }

    /// Apart from the loop around it, or the compiler works out in front of that what no pass needs.
    #[inline(never)]
    fn attempt(&mut self, meaning: &Meaning, code: &Mutex<Code>, host: &impl Host) -> Attempt {
        let locked = code.lock();
        let mut memory = Memory::new(host, &locked, regime(&self.cpu));
        let (pc, psr) = (self.registers.pc, self.registers.psr);
        let outcome = match meaning {
            Meaning::Sensitive(found) => self.cpu.execute(&mut self.registers, found, &mut memory),
            Meaning::Branch(found) => self.cpu.branch(&mut self.registers, found, &mut memory),
        };
        let (written, absent) = (memory.written.get(), memory.absent.get());
        drop(locked);
        if let Outcome::Firmware(Conduit::Smc(_)) = outcome {
            // There are no Security Extensions. ITSTATE is that of the instruction again, too.
            (self.registers.pc, self.registers.psr) = (pc, psr);
        }
        Attempt::Answered(match (outcome, written, absent) {
            (Outcome::Again, Some(page), _) => return Attempt::Writes(page),
            (Outcome::Again, _, Some(page)) => Answer::Page(page),
            (outcome, ..) => self.carry_out(outcome, code, host),
        })
    }

    /// The instruction at the PC, as the guest wrote it.
    pub(crate) fn undefined_instruction(
        &mut self,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Result<Encoding, Answer> {
        let at = self.code_at(self.registers.pc, code, host)?;
        let offset = self.registers.pc & 0xfff;
        let isa = if self.registers.psr.thumb() {
            Isa::T32
        } else {
            Isa::A32
        };
        // A trap of the other instruction set is another word here, and as undefined as it may be.
        if let Some(page) = GuestPage::of(at)
            && let Some(original) = code.lock().original(page, offset)
            && original.isa() == isa
        {
            return Ok(original);
        }
        let word = self.instruction(code, host)?;
        let encoding = if self.registers.psr.thumb() {
            Encoding::t32((word >> 16) as u16, word as u16)
        } else {
            Encoding::A32(word)
        };
        Ok(code.lock().copied(encoding).unwrap_or(encoding))
    }

    /// An undefined instruction that is not sensitive: VFP or Advanced SIMD, which are off until they
    /// are used, or the guest's own affair.
    fn not_sensitive(&mut self, encoding: Encoding) -> Answer {
        if is_floating_point(encoding) && self.cpu.has_floating_point() {
            return Answer::FloatingPoint;
        }
        // A trap of A32 has no condition. What is UNPREDICTABLE does nothing if its condition fails.
        let it = ItState::from_bits(self.registers.psr.it());
        let condition = match encoding {
            Encoding::A32(word) => Condition::from_bits((word >> 28) as u8),
            Encoding::Narrow(_) | Encoding::Wide(_) => it.condition(),
        };
        let code = hanok_decode::Condition::Code(condition.into_bits());
        if self.registers.psr.passes(code) {
            return self.refuse();
        }
        self.registers.advance(encoding.bytes());
        Answer::Resume
    }

    /// The instruction is undefined for the guest.
    pub fn refuse(&mut self) -> Answer {
        self.cpu.take(&mut self.registers, Exception::Undefined);
        Answer::Resume
    }

    /// Carries out what an instruction led to.
    fn carry_out(&mut self, outcome: Outcome, code: &Mutex<Code>, host: &impl Host) -> Answer {
        match outcome {
            Outcome::Done
            | Outcome::Changed
            | Outcome::Branched
            | Outcome::Taken(_)
            | Outcome::Unknown
            | Outcome::Again
            | Outcome::Barrier(_)
            | Outcome::FloatingPoint
            | Outcome::Event => Answer::Resume,
            Outcome::Mmu(MmuOperation::Changed(_)) => {
                self.devices = DevicePages::NONE;
                Answer::Resume
            }
            Outcome::Mmu(MmuOperation::Tlb(operation)) => self.invalidate(operation, code, host),
            Outcome::Mmu(MmuOperation::Translate(wanted)) => self.translate(&wanted, code, host),
            Outcome::Cache(operation) => self.maintain(operation, code, host),
            Outcome::Wait(wait) => Answer::Wait(wait),
            Outcome::Yield => Answer::Yield,
            Outcome::Timer(access) => Answer::Timer(access),
            Outcome::Firmware(Conduit::Hvc(_)) => Answer::Hypercall,
            Outcome::Firmware(Conduit::Smc(_)) => self.refuse(),
        }
    }

    fn invalidate(
        &mut self,
        operation: TlbOperation,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        let what = match operation.scope {
            TlbScope::All => Invalidation::All,
            TlbScope::Asid(asid) => Invalidation::Asid(asid),
            TlbScope::Address { page, asid } => Invalidation::Page { at: page, asid },
            TlbScope::AddressAllAsids { page } => Invalidation::PageOfAllAsids { at: page },
        };
        let last = self.go_on_with_pages(what, code, host);
        self.invalidate_for(operation.reach, last);
        self.wait_for_siblings(operation.reach, code, host);
        Answer::Resume
    }

    /// Invalidates for this vCPU, or for all; then [`Self::wait_for_siblings`] is to follow.
    pub(crate) fn invalidate_for(&mut self, reach: Reach, what: Invalidation) {
        self.invalidate_here(what);
        if reach == Reach::InnerShareable {
            self.member.post(Change::Invalidate(what));
        }
    }

    /// Waits until no sibling's guest uses what was invalidated for all.
    pub(crate) fn wait_for_siblings(&self, reach: Reach, code: &Mutex<Code>, host: &impl Host) {
        if reach == Reach::InnerShareable && self.member.has_siblings() {
            self.member.wait(host);
            // An access that is carried out for a sibling holds the lock from its walk on: it is over now.
            drop(code.lock());
        }
    }

    /// The guest asks for the translation of an address (DDI 0406C, B4.1, PAR).
    fn translate(&mut self, wanted: &Translation, code: &Mutex<Code>, host: &impl Host) -> Answer {
        const FAILED: u32 = 1;
        let locked = code.lock();
        let view = View::new(host, &locked, Executable::Sound);
        let access = Access {
            address: wanted.address,
            kind: if wanted.write {
                AccessKind::Write
            } else {
                AccessKind::Read
            },
            by: match wanted.rights {
                Rights::Kernel => Privilege::Kernel,
                Rights::User => Privilege::User,
            },
        };
        let found = walk(&regime(&self.cpu), &access, &view);
        if let Some(page) = view.absent.get() {
            return Answer::Page(page);
        }
        let par = match found {
            Ok(mapping) => (mapping.output.get() as u32) & !0xfff,
            Err(WalkError::Fault(found)) => {
                let status = u32::from(fault(&found).status.code());
                (status & 0x10) << 2 | (status & 0xf) << 1 | FAILED
            }
            Err(WalkError::Beyond(_)) => FAILED,
        };
        self.cpu.set_par(par);
        Answer::Resume
    }

    /// Cache maintenance. Data caches are coherent with all that a guest without a bus master has, so
    /// that only fetches have to be made to see what was written.
    fn maintain(
        &mut self,
        operation: CacheOperation,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Answer {
        match operation {
            CacheOperation::InstructionAll(_)
            | CacheOperation::InstructionAddress(_)
            | CacheOperation::BranchAll(_)
            | CacheOperation::BranchAddress(_) => host.synchronize_fetches(),
            CacheOperation::Data(
                DataCacheAction::Clean | DataCacheAction::CleanAndInvalidate,
                DataCachePlace::ToUnification(address) | DataCachePlace::ToCoherency(address),
            ) => {
                if let Some(at) = self.data_at(address, code, host) {
                    host.clean(at);
                }
            }
            CacheOperation::Data(..) => {}
        }
        Answer::Resume
    }

    fn data_at(&self, address: u32, code: &Mutex<Code>, host: &impl Host) -> Option<Ipa> {
        let locked = code.lock();
        let view = View::new(host, &locked, Executable::Sound);
        let access = Access {
            address,
            kind: AccessKind::Read,
            by: Privilege::Kernel,
        };
        let found = walk(&regime(&self.cpu), &access, &view);
        found.ok().map(|mapping| mapping.output)
    }
}

/// The instruction that an SVC stands for, by its bits in the form of [`Monitor::instruction`].
fn rewritten(word: u32, thumb: bool) -> Option<Encoding> {
    if thumb {
        return trap::original_narrow((word >> 16) as u16).map(Encoding::Narrow);
    }
    match trap::original_a32(word)? {
        trap::Original::Word(word) => Some(Encoding::A32(word)),
        trap::Original::Index(_) => None,
    }
}

/// Whether an instruction is one of VFP or Advanced SIMD (DDI 0406C, A7.1: coprocessors 10 and 11, and
/// the two spaces of Advanced SIMD).
fn is_floating_point(encoding: Encoding) -> bool {
    let (word, simd) = match encoding {
        Encoding::A32(word) => {
            let data = word >> 25 == 0b111_1001;
            let elements = word & 0xff10_0000 == 0xf400_0000;
            (word, data || elements)
        }
        Encoding::Wide(word) => {
            let data = word & 0xef00_0000 == 0xef00_0000;
            let elements = word & 0xff10_0000 == 0xf900_0000;
            (word, data || elements)
        }
        Encoding::Narrow(_) => return false,
    };
    let coprocessor = matches!(word >> 24 & 0xf, 0xc..=0xe) && matches!(word >> 8 & 0xf, 10 | 11);
    simd || coprocessor
}
