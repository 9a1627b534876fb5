//! Several vCPUs of one guest, which share its memory and what is known of its code. In any order they see what as many
//! CPUs of its own would see, each of whose instructions is done at once: while one vCPU is stopped by the exceptions
//! of an instruction, others go on.

use crate::board::{Board, RAM};
use crate::guest::{Guest, Outcomes, TRIES};
use crate::lockstep::{agree, memory};
use crate::native::{Event, Native};
use crate::pages::{self, ALIAS, LEAVES, mmu_on};
use crate::random::edits::Change;
use crate::random::image::Code;
use crate::random::{self, May, Rng, image};
use hanok_cpu32::{Lines, Registers, VirtualCpu};
use proptest::prelude::*;

/// A vCPU, and the same CPU of the guest's own.
struct Cpu<const ROOTS: usize, const TABLES: usize> {
    native: Native,
    guest: Guest<ROOTS, TABLES>,
    /// How often the guest has tried the same instruction.
    tries: u32,
    /// It stands still, or does what a test knows no answer to.
    ended: bool,
}

struct Team<const ROOTS: usize, const TABLES: usize> {
    cpus: Vec<Cpu<ROOTS, TABLES>>,
    /// Which of them has the memory of the guest's own CPUs.
    owner: usize,
    steps: u64,
}

impl<const ROOTS: usize, const TABLES: usize> Team<ROOTS, TABLES> {
    /// vCPUs with this memory, each of which begins at its entry.
    fn new(words: Vec<u32>, slots: usize, sections: bool, entries: &[u32]) -> Self {
        let board = Board::new(words.clone(), sections);
        let guests = Guest::several(board, slots, 255, entries.len());
        let mut words = Some(words);
        let cpu = |(mut guest, entry): (Guest<ROOTS, TABLES>, &u32)| {
            guest.monitor.boot(*entry, [0; 3]);
            let words = words.take().unwrap_or_default();
            let native = Native::new(guest.monitor.cpu.clone(), guest.monitor.registers, words);
            Cpu {
                native,
                guest,
                tries: 0,
                ended: false,
            }
        };
        Self {
            cpus: guests.into_iter().zip(entries).map(cpu).collect(),
            owner: 0,
            steps: 0,
        }
    }

    /// The vCPU with this number, whose other self has the memory.
    fn turn(&mut self, number: usize) -> &mut Cpu<ROOTS, TABLES> {
        let words = std::mem::take(&mut self.cpus[self.owner].native.memory.words);
        self.cpus[number].native.memory.words = words;
        self.owner = number;
        &mut self.cpus[number]
    }

    /// One instruction, or one exception, of a vCPU. Answers what the instruction led to, if it is done.
    fn step(&mut self, number: usize) -> Option<Event> {
        let step = self.steps;
        let cpu = self.turn(number);
        if cpu.guest.board.kicked.borrow_mut().remove(&number) {
            cpu.guest.leave();
        }
        let at = cpu.native.registers;
        if let Some(word) = cpu.native.kernel_fetches() {
            cpu.guest.fetches_next(word);
        }
        let Some(outcome) = cpu.guest.try_step() else {
            cpu.tries += 1;
            if cpu.tries > TRIES {
                cpu.ended = true;
                assert!(cpu.stands_still(), "no progress at {:#x}", at.pc);
            }
            return None;
        };
        cpu.tries = 0;
        let got = match outcome {
            Outcomes::Event(event) => event,
            _ => {
                cpu.ended = true;
                return None;
            }
        };
        let code = cpu.native.fetch();
        let expected = cpu.native.step();
        if expected == Event::Unknown {
            cpu.ended = true;
            return None;
        }
        let what = || format!("step {step} of vCPU {number}, {code:x?} {at:x?}");
        assert_eq!(expected, got, "{}", what());
        agree(&mut cpu.native, &cpu.guest, what);
        self.steps += 1;
        Some(got)
    }

    /// Lets a vCPU run until it is at this address.
    fn run_to(&mut self, number: usize, pc: u32) {
        for _ in 0..4 * TRIES {
            if self.cpus[number].native.registers.pc == pc {
                return;
            }
            self.step(number);
        }
        panic!("vCPU {number} does not come to {pc:#x}");
    }

    fn all_ended(&self) -> bool {
        self.cpus.iter().all(|cpu| cpu.ended)
    }
}

impl<const ROOTS: usize, const TABLES: usize> Cpu<ROOTS, TABLES> {
    fn stands_still(&mut self) -> bool {
        let state =
            |native: &Native| -> (Registers, VirtualCpu) { (native.registers, native.cpu.clone()) };
        let before = state(&self.native);
        self.native.step();
        before == state(&self.native)
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    vcpus: usize,
    slots: usize,
    sections: bool,
    t32: bool,
    mmu: bool,
    modes: bool,
    edits: bool,
    stores_to_code: bool,
    wild_branches: bool,
    steps: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let flags = proptest::array::uniform7(prop::bool::weighted(0.8));
    // A vCPU needs two slots, for an instruction in two pages.
    let pools = (2usize..4, 0usize..4);
    (any::<u64>(), flags, pools, 1u64..2500).prop_map(|(seed, may, pools, steps)| {
        let [
            t32,
            modes,
            mmu,
            edits,
            stores_to_code,
            wild_branches,
            sections,
        ] = may;
        Case {
            seed,
            vcpus: pools.0,
            slots: 2 * pools.0 + pools.1,
            sections,
            t32,
            mmu,
            modes,
            edits,
            stores_to_code,
            wild_branches: wild_branches && seed.is_multiple_of(4),
            steps,
        }
    })
}

fn run<const ROOTS: usize, const TABLES: usize>(case: &Case) -> u64 {
    let mut rng = Rng::new(case.seed);
    let may = May {
        t32: case.t32,
        modes: case.modes,
        mmu: case.mmu,
        edits: case.edits,
        stores_to_code: case.stores_to_code,
        wild_branches: case.wild_branches,
        interrupts: true,
        absent: false,
        siblings: true,
    };
    let image = image::image(&mut rng, &may);
    let entries = vec![image::ENTRY; case.vcpus];
    let mut team = Team::<ROOTS, TABLES>::new(image, case.slots, case.sections, &entries);
    let mut again = None;
    while team.steps < case.steps && !team.all_ended() {
        let number = again.unwrap_or_else(|| rng.below(case.vcpus as u32) as usize);
        if team.cpus[number].ended {
            again = None;
            continue;
        }
        let event = team.step(number);
        if event.is_some() {
            again = None;
        }
        if random::has_wild_tables(&team.cpus[number].native) {
            break;
        }
        if event == Some(Event::Hypercall) {
            let others: Vec<u32> = team
                .cpus
                .iter()
                .map(|cpu| cpu.native.registers.pc)
                .collect();
            let Cpu { native, guest, .. } = team.turn(number);
            // Nobody else runs between the change and its invalidation.
            again = Change::of(native, guest, &others, &mut rng)
                .map(|change| change.make(native, guest))
                .map(|()| number);
        } else if event.is_some() && rng.once_in(40) {
            let irq = rng.once_in(2);
            let cpu = team.turn(number);
            for lines in [Lines { irq, fiq: !irq }, Lines::default()] {
                cpu.native.cpu.set_lines(lines);
                let taken = cpu.native.cpu.deliver(&mut cpu.native.registers);
                assert_eq!(cpu.guest.deliver(lines), taken);
            }
        }
    }
    let words = &team.cpus[team.owner].native.memory.words;
    let same = team.cpus[0].guest.board.originals() == *words;
    assert!(same, "the memories differ");
    team.steps
}

proptest! {
    #![proptest_config(random::config())]

    #[test]
    fn vcpus_see_what_cpus_of_their_own_would_see(case in case()) {
        run::<4, 16>(&case);
    }
}

/// The code of the first vCPU and of the second, and what they share.
const FIRST: u32 = RAM + 0x1000;
const SECOND: u32 = RAM + 0x2000;
const SHARED: u32 = RAM + 0x3000;
const NOP: u32 = 0xe1a0_0000;
/// MRS R0, CPSR: in User mode it reads another mode.
const MRS: u32 = 0xe10f_0000;
/// B to itself.
const STOP: u32 = 0xeaff_fffe;
/// BX R3.
const BX: u32 = 0xe12f_ff13;

/// Both vCPUs with these programs, and words at [`SHARED`].
fn pair(first: &Code, second: &Code, shared: &[u32]) -> Team<4, 16> {
    let words = memory(&[
        (FIRST, &first.words()),
        (SECOND, &second.words()),
        (SHARED, shared),
    ]);
    Team::new(words, 8, false, &[FIRST, SECOND])
}

/// A page that a sibling could write by itself cannot be written unseen any more once it is executed.
#[test]
fn what_a_sibling_writes_is_seen_where_it_is_executed() {
    let mut first = Code::new(FIRST);
    first.set(3, SHARED);
    first.a32(BX);
    let mut second = Code::new(SECOND);
    second.set(2, SHARED);
    second.set(1, MRS);
    second.a32(0xe582_3800); // STR R3, [R2, #0x800]: the page is the sibling's to write
    let stored = second.here();
    second.a32(0xe582_1008); // STR R1, [R2, #8]
    let done = second.here();
    second.a32(STOP);
    // With a doubt, so that it is followed, and without.
    for doubt in [NOP, MRS] {
        let mut team = pair(&first, &second, &[NOP, doubt, NOP, NOP, STOP]);
        team.run_to(1, stored);
        team.run_to(0, SHARED + 4);
        team.run_to(1, done);
        team.run_to(0, SHARED + 16);
    }
}

/// A page whose branches are traps no more is not executed as a confined one.
#[test]
fn a_page_that_a_sibling_has_proven_is_not_confined() {
    const ELSEWHERE: u32 = SHARED + 0x400;
    let mut codes = [FIRST, SECOND].map(Code::new);
    for (code, to) in codes.iter_mut().zip([SHARED, ELSEWHERE]) {
        code.set(3, to);
        code.a32(BX);
    }
    // Two doubtful words, each of which one vCPU reaches.
    let mut shared = vec![NOP, MRS, NOP, STOP];
    shared.resize(0x100, STOP);
    shared.extend([NOP, MRS, NOP, STOP]);
    let [first, second] = codes;
    let mut team = pair(&first, &second, &shared);
    team.run_to(0, SHARED + 4);
    team.run_to(1, ELSEWHERE + 12);
    team.run_to(0, SHARED + 12);
}

/// A store that the guest has to make by itself, to a page that a sibling executes all the time, is made.
#[test]
fn a_swap_beside_code_of_a_sibling_comes_to_rest() {
    let mut first = Code::new(FIRST);
    first.set(2, SHARED + 0x800);
    let begin = first.here();
    for _ in 0..4 {
        first.a32(0xe102_1094); // SWP R1, R4, [R2]
    }
    let done = first.here();
    first.a32(STOP);
    let mut second = Code::new(SECOND);
    second.set(3, SHARED);
    second.a32(BX);
    for doubt in [NOP, MRS] {
        // It goes round in the page.
        let mut team = pair(&first, &second, &[NOP, doubt, NOP, 0xeaff_fffb]);
        team.run_to(0, begin);
        team.run_to(1, SHARED + 12);
        for _ in 0..100 {
            team.step(0);
            for _ in 0..30 {
                team.step(1);
            }
        }
        assert_eq!(team.cpus[0].native.registers.pc, done);
        // The sibling goes on.
        team.run_to(1, SHARED + 4);
        team.run_to(1, SHARED + 12);
    }
}

/// More invalidations than a letter box holds all count.
#[test]
fn no_invalidation_of_a_sibling_is_lost() {
    const PAGES: u32 = 12;
    let mut first = Code::new(FIRST);
    mmu_on(&mut first);
    let begin = first.here();
    for number in 0..PAGES {
        first.set(0, LEAVES + 4 * number);
        first.set(1, pages::leaf(PAGES - 1 - number));
        first.a32(0xe580_1000); // STR R1, [R0]
        first.set(0, ALIAS + 0x1000 * number);
        first.a32(0xee08_0f73); // TLBIMVAAIS
    }
    let changed = first.here();
    first.a32(STOP);
    let mut second = Code::new(SECOND);
    mmu_on(&mut second);
    let read = |code: &mut Code| {
        for number in 0..PAGES {
            code.set(2, ALIAS + 0x1000 * number);
            code.a32(0xe592_4000); // LDR R4, [R2]
        }
        code.here()
    };
    let before = read(&mut second);
    let after = read(&mut second);
    second.a32(STOP);
    let words = pages::with_pages(PAGES, &[(FIRST, &first.words()), (SECOND, &second.words())]);
    let mut team = Team::<4, 16>::new(words, 8, false, &[FIRST, SECOND]);
    team.run_to(0, begin);
    team.run_to(1, before);
    team.run_to(0, changed);
    team.run_to(1, after);
}

/// The programs run long.
#[test]
fn siblings_run() {
    let mut steps = 0;
    for seed in 0..20 {
        let case = Case {
            seed,
            vcpus: 2,
            slots: 4,
            sections: true,
            t32: true,
            mmu: true,
            modes: true,
            edits: true,
            stores_to_code: true,
            wild_branches: false,
            steps: 3000,
        };
        steps += run::<4, 16>(&case);
    }
    println!("{steps} steps");
    assert!(steps > 20_000, "{steps} steps");
}
