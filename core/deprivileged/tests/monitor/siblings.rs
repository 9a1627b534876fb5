//! Several vCPUs of one guest, which share its memory and what is known of its code. In any order they see what as many
//! CPUs of its own would see, each of whose instructions is done at once: while one vCPU is stopped by the exceptions
//! of an instruction, others go on.

use crate::board::Board;
use crate::guest::{Guest, Outcomes, TRIES};
use crate::lockstep::agree;
use crate::native::{Event, Native};
use crate::random::edits::Change;
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
    fn new(words: Vec<u32>, case: &Case) -> Self {
        let board = Board::new(words.clone(), case.sections);
        let guests = Guest::several(board, case.slots, 255, case.vcpus);
        let mut words = Some(words);
        let cpu = |mut guest: Guest<ROOTS, TABLES>| {
            guest.monitor.boot(image::ENTRY, [0; 3]);
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
            cpus: guests.into_iter().map(cpu).collect(),
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
    let mut team = Team::<ROOTS, TABLES>::new(image, case);
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
