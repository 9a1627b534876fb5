//! Programs of a guest's kernel and its programs that nobody wrote: blocks of A32 and T32 that are strewn over
//! pages, with data in between, and with all that a kernel may do to itself.

mod a32;
pub mod edits;
pub mod image;
mod t32;

use crate::lockstep::{Both, End, Setup};
use crate::native::{Event, Native};
use edits::Change;
use hanok_cpu32::{Lines, SystemRegister};
use hanok_deprivileged::Stopped;
use image::ENTRY;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Random numbers (xorshift).
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) as u32
    }

    pub fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }

    pub fn once_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }

    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u32) as usize]
    }
}

/// A word that looks like what must not run, or any.
pub fn any_word(rng: &mut Rng) -> u32 {
    image::data(rng)
}

/// What a program may do.
#[derive(Clone, Copy, Debug)]
pub struct May {
    /// The kinds of instructions beyond the plainest.
    pub t32: bool,
    pub modes: bool,
    pub mmu: bool,
    pub edits: bool,
    pub stores_to_code: bool,
    pub wild_branches: bool,
    pub interrupts: bool,
    pub absent: bool,
    /// Whether other vCPUs run beside it.
    pub siblings: bool,
}

/// A program and the pools that it runs with.
#[derive(Clone, Copy, Debug)]
struct Case {
    seed: u64,
    may: May,
    slots: usize,
    asids: u8,
    sections: bool,
    steps: u64,
}

fn case() -> impl Strategy<Value = Case> {
    let flags = proptest::array::uniform8(prop::bool::weighted(0.8));
    let pools = (
        1usize..6,
        prop_oneof![Just(1u8), Just(3), Just(255)],
        any::<bool>(),
    );
    (any::<u64>(), flags, pools, 1u64..2500).prop_map(|(seed, may, pools, steps)| {
        let [
            t32,
            modes,
            mmu,
            edits,
            stores_to_code,
            wild_branches,
            interrupts,
            absent,
        ] = may;
        Case {
            seed,
            may: May {
                t32,
                modes,
                mmu,
                edits,
                stores_to_code,
                wild_branches,
                interrupts,
                absent,
                siblings: false,
            },
            slots: pools.0,
            asids: pools.1,
            sections: pools.2,
            steps,
        }
    })
}

fn run<const ROOTS: usize, const TABLES: usize>(case: &Case) -> (End, Both<ROOTS, TABLES>) {
    let mut rng = Rng::new(case.seed);
    let image = image::image(&mut rng, &case.may);
    let mut absent = Vec::new();
    if case.may.absent {
        absent.extend((0..16).filter(|_| rng.once_in(3)));
    }
    let setup = Setup {
        slots: case.slots,
        asids: case.asids,
        sections: case.sections,
        absent,
    };
    let mut both = Both::<ROOTS, TABLES>::new(image, ENTRY, &setup);
    while both.steps < case.steps {
        if let Some(end) = both.step() {
            return (both.end(end), both);
        }
        if has_wild_tables(&both.native) {
            return (both.end(End::Unknown), both);
        }
        if case.seed.is_multiple_of(8) && both.steps.is_multiple_of(16) {
            // The host's interrupts.
            both.guest.leave();
        }
        if both.last == Event::Hypercall {
            let (native, guest) = (&mut both.native, &mut both.guest);
            if let Some(change) = Change::of(native, guest, &[], &mut rng) {
                change.make(native, guest);
            }
        } else if case.may.interrupts && rng.once_in(40) {
            let irq = rng.once_in(2);
            both.interrupt(Lines { irq, fiq: !irq });
            both.interrupt(Lines::default());
        }
    }
    (both.end(End::Ran), both)
}

/// Whether its tables are where a wild branch has put them, or what a wild store has put there: what they were a TLB
/// still has, and the CPU without a TLB has not.
pub fn has_wild_tables(native: &Native) -> bool {
    let on = native.cpu.system(SystemRegister::Sctlr) & 1 != 0;
    let mut bases = [SystemRegister::Ttbr0, SystemRegister::Ttbr1].into_iter();
    let elsewhere =
        on && bases.any(|base| !image::ROOTS.contains(&(native.cpu.system(base) & !0x7f)));
    let mut written = native.memory.written.iter();
    elsewhere || written.any(|(word, _)| image::is_table(*word))
}

fn cases() -> u32 {
    let given = std::env::var("HANOK_DEPRIVILEGED_CASES").ok();
    given.map_or(150, |cases| cases.parse().expect("a number"))
}

pub fn config() -> ProptestConfig {
    ProptestConfig {
        cases: cases(),
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_guest_sees_what_it_would_see_on_its_own_cpu(case in case()) {
        run::<4, 16>(&case);
    }

    #[test]
    fn pools_that_run_dry_cost_time_only(case in case()) {
        let case = Case { slots: case.slots.min(2), ..case };
        if case.seed.is_multiple_of(2) {
            run::<1, 4>(&case);
        } else {
            run::<2, 4>(&case);
        }
    }
}

/// The programs do what they are for: most of them run long, and few end where a test knows no answer.
#[test]
fn programs_run() {
    let mut ends = BTreeMap::new();
    let (mut steps, mut exceptions, mut reads, mut displaced) = (0, 0, 0, 0);
    let may = May {
        t32: true,
        modes: true,
        mmu: true,
        edits: true,
        stores_to_code: true,
        wild_branches: false,
        interrupts: true,
        absent: true,
        siblings: false,
    };
    for seed in 0..30 {
        let case = Case {
            seed,
            may,
            slots: 4,
            asids: 255,
            sections: true,
            steps: 2000,
        };
        let (end, mut both) = run::<4, 16>(&case);
        let peek = both.guest.peek();
        println!(
            "{end:x?} at step {} {:x?} {:x} {:x} {:x?}, mode {:?}",
            both.steps,
            both.guest.monitor.registers.pc,
            both.guest.monitor.registers.psr.into_bits(),
            both.native.registers.pc,
            (peek, both.native.fetch()),
            both.guest.monitor.cpu.mode()
        );
        let end = match end {
            End::Stopped(Stopped::Unproven { .. }) => "unproven".into(),
            end => format!("{end:?}"),
        };
        *ends.entry(end).or_insert(0) += 1;
        steps += both.steps;
        exceptions += both.guest.exceptions;
        displaced += both.guest.displaced;
        reads = reads.max(both.guest.most_reads);
    }
    println!(
        "{ends:?}, {steps} steps, {exceptions} exceptions, {reads} reads at most, {displaced} displaced"
    );
    assert!(steps > 10_000, "{ends:?}, {steps} steps");
}
