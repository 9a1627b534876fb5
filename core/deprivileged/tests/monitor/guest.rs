//! The same CPU where the guest runs in User mode: it walks shadow tables, and whatever stops it is
//! the monitor's.

use crate::board::{Board, Tables, is_guest_frame, word_of, word_of_host};
use crate::flow::{self, At};
use crate::hardware::Mmu;
use crate::interpret::{self, Abort, Stop};
use crate::native::{Event, Kind, settled};
use crate::reach::{Reach, page_byte};
use crate::window::Crossed;
use hanok_cpu32::{
    Exception, Fault, FaultStatus, Identity, Interrupt, Lines, Outcome, Registers, SystemRegister,
    VirtualCpu,
};
use hanok_decode::aarch32::{Encoding, ItState, UserMode, is_wide, sensitive};
use hanok_deprivileged::{
    Answer, AtOnce, Code, CodePage, CodePages, Crossing, Invalidated, KnownSpaces, Member, Monitor,
    Ready, Seat, Slot, Stopped, ThreadRegisters, Trap,
};
use hanok_hal::Mutex;
use hanok_hal::fake::FakeTableMemory;
use hanok_paging::shadow::{AsidPool, HardwareRoot, Owed, frames};
use hanok_types::{Hpa, Ipa, Span};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Words that one exception may read at most.
const READS: u64 = 700;
/// Exceptions without any progress.
pub const TRIES: u32 = 4000;
/// The number of a word that is none of the guest's.
const SLOT: usize = usize::MAX;
/// Calls of `ready` in a row.
const CALLS: u32 = 400;

/// Why the guest does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcomes {
    Event(Event),
    Stopped(Stopped),
    /// It executed a place that the documentation leaves out: the inside of something known.
    Excused,
    /// It makes no progress.
    Stuck,
}

pub struct Guest<const ROOTS: usize, const TABLES: usize> {
    pub monitor: Monitor<Tables, ROOTS, TABLES>,
    pub board: Rc<Board>,
    code: Rc<Mutex<Code>>,
    pub tables: Tables,
    asids: AsidPool,
    pub known: KnownSpaces,
    pub mmu: Mmu,
    pub root: HardwareRoot,
    /// Whether the guest has been entered, and not left since.
    pub entered: bool,
    /// The address behind the slot, if an instruction was executed there, whose fetch is refused next.
    behind: Option<u32>,
    /// How many were.
    pub displaced: u64,
    /// What programs and the kernel executed in a page since code in it was written, by the number of its
    /// first word.
    executed: Rc<RefCell<BTreeMap<usize, [BTreeSet<At>; 2]>>>,
    pub exceptions: u64,
    /// Whether words that trap are fetched for the monitor.
    pub fetches: bool,
    pub most_reads: u64,
    /// TPIDRURW of the CPU.
    pub thread: ThreadRegisters,
    /// Whether the kernel has trampolines.
    paged: bool,
    /// Whether it may cross, how it may since it was entered, and how often it has.
    pub crosses: bool,
    pub crossing: Crossing,
    pub crossed: Crossed,
}

fn pages(start: u32, count: usize) -> Option<CodePages> {
    let span = Span::new(Ipa::new(start.into()), 4096 * count as u64)?;
    Some(CodePages::new(
        span,
        Vec::leak(vec![CodePage::default(); count]),
    ))
}

impl<const ROOTS: usize, const TABLES: usize> Guest<ROOTS, TABLES> {
    pub fn new(board: Board, slots: usize, last_asid: u8) -> Self {
        let slots = Vec::leak(vec![Slot::empty(); slots]);
        let regions = [pages(crate::board::RAM, 512), pages(0, 4)];
        let code = Rc::new(Mutex::new(Code::new(regions, slots, false, None)));
        Self::vcpu(Rc::new(board), code, Member::ALONE, last_asid)
    }

    /// As many vCPUs of one guest, with MPIDR from 0 on.
    pub fn several(board: Board, slots: usize, last_asid: u8, vcpus: usize) -> Vec<Self> {
        let first = Self::new(board, slots, last_asid);
        let seats: &[Seat] = Vec::leak((0..vcpus).map(|_| Seat::default()).collect());
        first.board.seats.set(seats);
        let one = |number| {
            let (board, code) = (first.board.clone(), first.code.clone());
            let mut guest = Self::vcpu(board, code, Member::new(seats, number), last_asid);
            guest.executed = first.executed.clone();
            guest
        };
        (0..vcpus).map(one).collect()
    }

    fn vcpu(board: Rc<Board>, code: Rc<Mutex<Code>>, member: Member, last_asid: u8) -> Self {
        let pool = FakeTableMemory::new(frames(ROOTS, TABLES) + 2);
        let tables = Tables(Rc::new(RefCell::new(pool)));
        let identity = Identity {
            mpidr: member.number() as u32,
            ..Identity::default()
        };
        Self {
            monitor: Monitor::new(identity, tables.clone(), 0x7770_040e, member).expect("enough"),
            board,
            code,
            tables,
            asids: AsidPool::with_last(0, last_asid),
            known: KnownSpaces::NONE,
            mmu: Mmu::default(),
            root: HardwareRoot {
                table: Hpa::new(0),
                asid: 0,
                owed: Owed::Nothing,
            },
            entered: false,
            behind: None,
            displaced: 0,
            executed: Rc::default(),
            exceptions: 0,
            fetches: true,
            most_reads: 0,
            thread: ThreadRegisters::default(),
            paged: false,
            crosses: false,
            crossing: Crossing::NONE,
            crossed: Crossed::default(),
        }
    }

    /// The guest leaves.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.entered) {
            self.monitor.left(self.thread, &self.crossing);
        }
    }

    /// An interrupt's lines change while the guest is out.
    pub fn deliver(&mut self, lines: Lines) -> Option<Interrupt> {
        self.leave();
        self.monitor.deliver(lines, &self.code, &*self.board)
    }

    /// As [`Self::new`], and there is code that was added to the kernel in `added`.
    pub fn add_code(&mut self, added: Option<Span<Ipa>>) {
        let slots = Vec::leak(vec![Slot::empty(); 8]);
        let regions = [pages(crate::board::RAM, 512), pages(0, 4)];
        self.code = Rc::new(Mutex::new(Code::new(regions, slots, true, added)));
    }

    /// The kernel has trampolines in `added`.
    pub fn add_trampolines(&mut self, added: Span<Ipa>) {
        self.add_code(Some(added));
        self.paged = true;
    }

    /// Whether something in the page of `word` was executed since its code was written.
    pub fn has_executed(&self, word: usize) -> bool {
        self.executed.borrow().contains_key(&(word & !1023))
    }

    pub fn peek(&mut self) -> Option<Encoding> {
        self.enter();
        self.fetch().ok().map(|found| found.0)
    }

    fn enter(&mut self) {
        if self.entered {
            return;
        }
        self.entered = true;
        for _ in 0..CALLS {
            if !self.monitor.go_on_forgetting(&self.code) {
                continue;
            }
            if let Ready::Yes(root) = self.monitor.ready(&mut self.asids, &*self.board) {
                self.mmu.enter(&root);
                self.asids.paid();
                self.root = root;
                self.thread = self.thread_registers();
                self.crossing = Crossing::NONE;
                if self.crosses {
                    self.crossing = self.monitor.crossing(&mut self.asids, &mut self.known, 0);
                }
                return;
            }
        }
        panic!("the tables are never ready");
    }

    /// One instruction, or one exception that it led to, after all that had to be done first.
    pub fn step(&mut self) -> Outcomes {
        let mut tries = (0..TRIES).map(|_| self.try_step());
        tries.find_map(|done| done).unwrap_or(Outcomes::Stuck)
    }

    /// One instruction or one exception; `None` if the guest is to try again.
    pub fn try_step(&mut self) -> Option<Outcomes> {
        if let Some(address) = self.behind.take()
            && let Some(done) = self.serve(Trap::PrefetchAbort { status: 5, address })
        {
            return Some(done);
        }
        self.enter();
        let done = self.attempt();
        let written = self.board.written.take();
        for word in written {
            self.forget_code(word);
        }
        done
    }

    fn half(&mut self, at: u32) -> Result<(u16, usize, u32), Trap> {
        let found = self.mmu.find(&self.tables, &self.root, at, Kind::Execute);
        let host = found.ok_or(Trap::PrefetchAbort {
            status: 5,
            address: at,
        })?;
        if !is_guest_frame(host) {
            let byte = |at| page_byte(&self.tables, at) as u16;
            return Ok((
                byte(host) | byte(host + 1) << 8,
                SLOT,
                (host & 0xfff) as u32,
            ));
        }
        let word = word_of_host(host);
        let half = (self.board.get(word) >> (host % 4 * 8)) as u16;
        Ok((half, word, (host & 0xfff) as u32))
    }

    /// The instruction, and where it stands.
    fn fetch(&mut self) -> Result<(Encoding, usize, u32), Trap> {
        let Registers { pc, psr, .. } = self.monitor.registers;
        let (first, word, offset) = self.half(pc)?;
        if psr.thumb() {
            let second = if is_wide(first) {
                self.half(pc.wrapping_add(2))?.0
            } else {
                0
            };
            return Ok((Encoding::t32(first, second), word, offset));
        }
        let second = self.half(pc.wrapping_add(2))?.0;
        let both = u32::from(second) << 16 | u32::from(first);
        Ok((Encoding::A32(both), word, offset))
    }

    fn attempt(&mut self) -> Option<Outcomes> {
        let (encoding, word, offset) = match self.fetch() {
            Ok(found) => found,
            Err(trap) => return self.serve(trap),
        };
        let psr = self.monitor.registers.psr;
        // Some backends fetch the word, others leave that to the monitor.
        self.monitor.fetched = match encoding {
            Encoding::A32(word) if self.fetches && offset & 4 == 0 => Some(word),
            _ => None,
        };
        let place = (offset, psr.thumb(), psr.it());
        if word == SLOT {
            return self.attempt_displaced(encoding);
        }
        if !self.is_fine(encoding, word, place) {
            return Some(Outcomes::Excused);
        }
        let kernel = self.runs_kernel();
        self.executes(word, place, kernel);
        let it = ItState::from_bits(psr.it());
        let here = self.virtual_cpu();
        let mut reach = Reach {
            board: &self.board,
            mmu: &mut self.mmu,
            tables: &self.tables,
            root: self.root,
            rewritten: Vec::new(),
            refused: None,
        };
        if let Some(found) = sensitive(encoding, it) {
            if found.user.is_trapped() {
                return self.undefined(encoding);
            }
            let (mut cpu, mut after) = (here.clone(), self.monitor.registers);
            cpu.set_tpidrurw(self.thread.rw);
            let outcome = cpu.execute(&mut after, &found, &mut reach);
            return match outcome {
                Outcome::Again => {
                    let abort = reach.refused.expect("why it was refused");
                    self.serve(data_abort(abort))
                }
                Outcome::Wait(wait) => {
                    self.monitor.registers = after;
                    Some(Outcomes::Event(Event::Waits(wait)))
                }
                // UNPREDICTABLE for a program: this CPU calls it undefined.
                Outcome::Taken(_) | Outcome::Unknown => self.serve(Trap::Undefined),
                _ => {
                    self.monitor.registers = after;
                    self.thread.rw = cpu.system(SystemRegister::Tpidrurw);
                    if self.paged && kernel {
                        self.as_a_program(encoding);
                        return Some(Outcomes::Event(Event::Retired));
                    }
                    let mut here = here;
                    here.set_tpidrurw(self.thread.rw);
                    if !self.crosses {
                        self.monitor.cpu.set_tpidrurw(self.thread.rw);
                    }
                    let registers = &self.monitor.registers;
                    let kept = settled(&here, registers);
                    assert_eq!(settled(&cpu, registers), kept, "{encoding:x?}");
                    Some(Outcomes::Event(Event::Retired))
                }
            };
        }
        let done = interpret::execute(&mut self.monitor.registers, encoding, &mut reach);
        let rewritten = reach.rewritten;
        self.check_rewritten(&rewritten);
        match done {
            Ok(()) => Some(Outcomes::Event(Event::Retired)),
            Err(Stop::Undefined) => self.undefined(encoding),
            Err(Stop::SupervisorCall) if self.calls(encoding) => {
                Some(Outcomes::Event(Event::Retired))
            }
            Err(Stop::SupervisorCall) => self.serve(Trap::SupervisorCall),
            Err(Stop::Breakpoint) => self.serve(Trap::PrefetchAbort {
                status: 2,
                address: self.monitor.registers.pc,
            }),
            Err(Stop::Data(abort)) => self.serve(data_abort(abort)),
            Err(Stop::Unknown) => Some(Outcomes::Event(Event::Unknown)),
        }
    }

    /// An instruction in the slot, of which the guest sees nothing when it has left.
    fn attempt_displaced(&mut self, encoding: Encoding) -> Option<Outcomes> {
        let registers = self.monitor.registers;
        assert!(registers.psr.thumb() && registers.pc & 0xfff >= 0xfe0 && self.runs_kernel());
        let it = ItState::from_bits(registers.psr.it());
        assert_eq!(sensitive(encoding, it), None, "{encoding:x?} runs unseen");
        let beside = [registers.pc & !0xfff, (registers.pc | 0xfff) + 1];
        let executable = beside.map(|at| {
            let found = self.mmu.find(&self.tables, &self.root, at, Kind::Execute);
            found.is_some_and(is_guest_frame)
        });
        assert_eq!(executable, [false; 2]);
        self.displaced += 1;
        let mut reach = Reach {
            board: &self.board,
            mmu: &mut self.mmu,
            tables: &self.tables,
            root: self.root,
            rewritten: Vec::new(),
            refused: None,
        };
        let (plain, result) = not_exclusive(encoding);
        let done = interpret::execute(&mut self.monitor.registers, plain, &mut reach);
        let rewritten = reach.rewritten;
        self.check_rewritten(&rewritten);
        match done {
            Ok(()) => {
                let executed = registers.psr.passes(hanok_decode::Condition::Unknown);
                if let Some(result) = result.filter(|_| executed) {
                    self.monitor.registers.general[result as usize] = 0;
                }
                let behind = self.monitor.registers.pc;
                let next = registers.pc + encoding.bytes();
                assert_eq!(behind, next, "{encoding:x?} leaves the slot");
                if behind & 0xfff == 0 {
                    self.leave();
                    self.behind = Some(behind);
                }
                Some(Outcomes::Event(Event::Retired))
            }
            Err(Stop::Data(abort)) => self.serve(data_abort(abort)),
            Err(Stop::Undefined) => self.serve(Trap::Undefined),
            Err(Stop::Unknown) => Some(Outcomes::Event(Event::Unknown)),
            Err(stop) => panic!("{stop:?}"),
        }
    }

    /// Notes that the instruction at a place in the page of `word` is executed.
    fn executes(&self, word: usize, place: At, kernel: bool) {
        let mut executed = self.executed.borrow_mut();
        let entries = executed.entry(word & !1023).or_default();
        entries[usize::from(kernel)].insert(place);
    }

    /// Notes that the kernel fetches from the word, which may be rewritten before it comes to execute it: a sibling may see that
    /// first.
    pub fn fetches_next(&self, word: usize) {
        let Registers { pc, psr, .. } = self.monitor.registers;
        self.executes(word, (pc & 0xfff, psr.thumb(), psr.it()), true);
    }

    fn undefined(&mut self, encoding: Encoding) -> Option<Outcomes> {
        if self.crosses_by(encoding) || self.invalidates_by(encoding) {
            return Some(Outcomes::Event(Event::Retired));
        }
        self.serve(Trap::Undefined)
    }

    /// Whether the monitor invalidates a page without the guest's leaving.
    fn invalidates_by(&mut self, encoding: Encoding) -> bool {
        let Encoding::A32(word) = encoding else {
            return false;
        };
        if !self.entered {
            return false;
        }
        let Registers { general, pc, psr } = self.monitor.registers;
        let behind = pc.wrapping_add(4);
        let registers = (&general, behind, psr.into_bits());
        let Some(done) = self
            .monitor
            .invalidate_at_once(word, registers, &self.crossing)
        else {
            return false;
        };
        self.exceptions += 1;
        self.monitor.registers.pc = behind;
        match done {
            Invalidated::Leaves => {
                self.leave();
                self.crossed.invalidated[1] += 1;
            }
            Invalidated::GoesOn(owed) => {
                self.choose_root_of(true, owed);
                self.crossed.invalidated[0] += 1;
            }
        }
        true
    }

    /// The virtual CPU's mode now, which may have crossed since it was entered.
    fn runs_kernel(&self) -> bool {
        match self.crossing.crossed {
            0 => self.monitor.cpu.mode().is_privileged(),
            _ => self.crossing.status & 0xf != 0,
        }
    }

    /// The virtual CPU now, as far as what User mode executes depends on it.
    fn virtual_cpu(&self) -> VirtualCpu {
        let mut cpu = self.monitor.cpu.clone();
        if self.crossing.crossed != 0 {
            let Crossing {
                status,
                space,
                banks,
                ..
            } = &self.crossing;
            cpu.crossed(*status, *space, banks);
        }
        cpu.set_tpidruro(self.thread.ro);
        cpu
    }

    /// Whether the instruction may run in User mode: it is what the guest wrote or a trap in its
    /// place, and of the kernel's nothing that does something else there.
    fn is_fine(&self, encoding: Encoding, word: usize, place: At) -> bool {
        let (offset, _, it) = place;
        let it = ItState::from_bits(it);
        let first = word & !1023;
        let words: Vec<u32> = (first..first + 1024)
            .map(|at| self.board.original(at))
            .collect();
        let original = match encoding {
            Encoding::A32(_) => Encoding::A32(words[word - first]),
            _ => original(&words, offset),
        };
        let user = match sensitive(original, it) {
            // Of what is UNPREDICTABLE, a CPU of the guest's own does anything, too.
            Some(found) if found.as_it_should_be => found.user,
            _ => UserMode::Legal,
        };
        let kernel = self.runs_kernel();
        let same = original == encoding || offset == 0xffe;
        let lower_half_is_dropped = matches!(encoding, Encoding::A32(word) if word & !0xf000 == 0xe10f_0000
            && words.get(word_in_page(offset) + 1) == Some(&(0xe1a0_0820 + (word >> 12 & 15) * 0x1001)));
        if same && has_number(encoding) {
            // A guest that has such a UDF of its own has a trap.
            return false;
        }
        let trap = has_number(encoding)
            || match encoding {
                Encoding::A32(word) => word == 0xe7f0_00f0,
                Encoding::Narrow(half) => half == 0xde00,
                Encoding::Wide(both) => both == 0xf7f0_a000,
            };
        let wrong = kernel && user.must_be_rewritten() && !lower_half_is_dropped;
        if trap || same && !wrong {
            return true;
        }
        // It may be the inside of something known.
        let mut entries = self.executed_in(first);
        entries[1].remove(&place);
        let known = flow::follow(&words, &entries[1]);
        let changed = |at: u32| {
            let word = first + (at / 4) as usize;
            let both = self.board.get(word) ^ self.board.original(word);
            both >> (at % 4 * 8) & 0xffff != 0
        };
        // Of what is not as the guest wrote it, only that part has to be code.
        let mut halves = flow::halves(offset, original).filter(|at| same || changed(*at));
        let inside = halves.all(|at| known.is_other(at, place));
        assert!(
            inside,
            "{:x?} {original:x?} runs as {encoding:x?} at {place:x?} of {first:#x}, {:x?}, {entries:x?}",
            &words[(offset as usize / 4).saturating_sub(4)..][..8],
            self.monitor.cpu.mode()
        );
        false
    }

    /// MRS of CPSR reads User mode in its lower half.
    fn as_a_program(&mut self, encoding: Encoding) {
        if let Encoding::A32(word) = encoding
            && word & !0xf000 == 0xe10f_0000
        {
            let register = &mut self.monitor.registers.general[(word >> 12 & 15) as usize];
            *register = *register & !0xffff | 0x10;
        }
    }

    fn executed_in(&self, first: usize) -> [BTreeSet<At>; 2] {
        self.executed
            .borrow()
            .get(&first)
            .cloned()
            .unwrap_or_default()
    }

    /// Whether a word is code of the kernel's, as far as it has executed the page.
    fn is_code(&self, word: usize) -> bool {
        let first = word & !1023;
        let words: Vec<u32> = (first..first + 1024)
            .map(|at| self.board.original(at))
            .collect();
        let known = flow::follow(&words, &self.executed_in(first)[1]);
        let offset = 4 * (word - first) as u32;
        known.code.contains_key(&offset) || known.code.contains_key(&(offset + 2))
    }

    /// A word was written. Data beside code leave what is known of the code. (If the word was code, the
    /// flow still comes there.)
    fn forget_code(&mut self, word: usize) {
        if self.is_code(word) {
            self.executed.borrow_mut().remove(&(word & !1023));
        }
    }

    /// What was rewritten, is code.
    fn check_rewritten(&self, rewritten: &[usize]) {
        for word in rewritten {
            assert!(self.is_code(*word), "data at word {word:#x} were rewritten");
        }
    }

    /// An exception that need not make sense, and what is left to do after it.
    pub fn serve_any(&mut self, trap: Trap) -> Answer {
        self.leave();
        self.board.reads.set(0);
        let answer = self.monitor.serve(trap, &self.code, &*self.board);
        let reads = self.board.reads.get();
        assert!(reads <= READS, "{reads} reads for {trap:x?}, {answer:x?}");
        self.enter();
        answer
    }

    /// Serves an abort without leaving, if the monitor can. Answers whether the guest goes on elsewhere.
    fn serve_at_once(&mut self, trap: &Trap) -> Option<bool> {
        if !self.entered {
            return None;
        }
        let registers = self.monitor.registers;
        let done = self.monitor.abort_at_once(
            trap,
            (self.thread, &mut self.crossing),
            |to: &mut Registers| *to = registers,
            &self.code,
            &*self.board,
        )?;
        match done {
            AtOnce::Filled(owed) => self.choose_root(owed),
            AtOnce::Taken => {
                self.choose_root(Owed::Nothing);
                self.thread = self.thread_registers();
            }
        }
        Some(done == AtOnce::Taken)
    }

    /// What the thread registers hold when the guest is entered.
    fn thread_registers(&self) -> ThreadRegisters {
        ThreadRegisters {
            rw: self.monitor.tpidrurw(),
            ro: self.monitor.cpu.system(SystemRegister::Tpidruro),
        }
    }

    /// The guest goes on by the root of its mode that it crosses to.
    fn choose_root(&mut self, owed: Owed) {
        self.choose_root_of(self.monitor.cpu.mode().is_privileged(), owed);
    }

    fn choose_root_of(&mut self, kernel: bool, owed: Owed) {
        let roots = &self.crossing.roots;
        let [table, asid] = if kernel { roots.kernel } else { roots.user };
        self.root = HardwareRoot {
            table: Hpa::new(table.into()),
            asid: asid as u8,
            owed,
        };
        self.mmu.enter(&self.root);
    }

    /// After an exit: the guest goes on as it left, if it can.
    fn go_on(&mut self) {
        if let Some(owed) = self.monitor.goes_on(&mut self.crossing) {
            self.entered = true;
            self.choose_root(owed);
            self.thread = self.thread_registers();
            self.crossed.at_once[2] += 1;
        }
    }

    /// Lets the monitor serve an exception. `None` if the guest is to try again.
    fn serve(&mut self, trap: Trap) -> Option<Outcomes> {
        match self.serve_at_once(&trap) {
            Some(elsewhere) => {
                self.exceptions += 1;
                self.crossed.at_once[usize::from(elsewhere)] += 1;
                return elsewhere.then_some(Outcomes::Event(Event::Retired));
            }
            None => self.leave(),
        }
        let before = (self.monitor.registers, self.monitor.cpu.clone());
        self.exceptions += 1;
        self.board.reads.set(0);
        let answer = self.monitor.serve(trap, &self.code, &*self.board);
        let reads = self.board.reads.get().max(self.board.most_reads.take());
        self.most_reads = self.most_reads.max(reads);
        assert!(reads <= READS, "{reads} reads for {trap:x?}, {answer:x?}");
        let retired = Some(Outcomes::Event(Event::Retired));
        match answer {
            Answer::Resume | Answer::Yield => {
                let same = before == (self.monitor.registers, self.monitor.cpu.clone());
                self.go_on();
                if same { None } else { retired }
            }
            Answer::Device(device) => {
                assert!(word_of(device.at.get()).is_none_or(|_| device.write));
                let Trap::DataAbort { address, .. } = trap else {
                    panic!("a device by {trap:?}");
                };
                let exception = Exception::DataAbort {
                    address,
                    fault: Fault::without_domain(FaultStatus::External),
                    write: device.write,
                };
                self.monitor
                    .cpu
                    .take(&mut self.monitor.registers, exception);
                retired
            }
            Answer::Fetch(_) => {
                let address = match trap {
                    Trap::PrefetchAbort { address, .. } => address,
                    _ => self.monitor.registers.pc,
                };
                let exception = Exception::PrefetchAbort {
                    address,
                    fault: Fault::without_domain(FaultStatus::External),
                };
                self.monitor
                    .cpu
                    .take(&mut self.monitor.registers, exception);
                retired
            }
            Answer::Page(page) => {
                let number = page.start().get() / 4096;
                assert!(self.board.absent.borrow_mut().remove(&number));
                None
            }
            Answer::Hypercall => Some(Outcomes::Event(Event::Hypercall)),
            Answer::Wait(wait) => Some(Outcomes::Event(Event::Waits(wait))),
            Answer::Stop(stopped) => Some(Outcomes::Stopped(stopped)),
            other => panic!("{other:?} for {trap:?}"),
        }
    }
}

/// Whether it is a UDF whose number is one of the traps'.
fn has_number(encoding: Encoding) -> bool {
    match encoding {
        Encoding::A32(word) => word & 0xfffe_00f0 == 0xe7fa_00f0,
        Encoding::Narrow(half) => (0xde40..0xdec0).contains(&half),
        Encoding::Wide(both) => both & 0xffff_f000 == 0xf7fa_a000,
    }
}

/// LDREX or STREX as LDR or STR, as no exit is between them in the slot, and where STREX tells that it has stored.
fn not_exclusive(encoding: Encoding) -> (Encoding, Option<u32>) {
    let Encoding::Wide(both) = encoding else {
        return (encoding, None);
    };
    let plain = |opcode: u32| Encoding::Wide(opcode | both & 0xf_f000 | (both & 0xff) << 2);
    match both >> 20 {
        0xe85 => (plain(0xf8d0_0000), None),
        0xe84 => (plain(0xf8c0_0000), Some(both >> 8 & 0xf)),
        _ => (encoding, None),
    }
}

fn word_in_page(offset: u32) -> usize {
    offset as usize / 4
}

fn original(words: &[u32], offset: u32) -> Encoding {
    let half = |offset: u32| {
        let word = words.get((offset / 4) as usize).copied().unwrap_or(0);
        (word >> (offset % 4 * 8)) as u16
    };
    Encoding::t32(half(offset), half(offset + 2))
}

fn data_abort(abort: Abort) -> Trap {
    let status = match abort.fault {
        Some(_) => 1,
        None => 5,
    };
    Trap::DataAbort {
        status: status | u32::from(abort.write) << 11,
        address: abort.address,
    }
}
