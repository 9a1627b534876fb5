//! Decides what each step does.

use super::random::Random;
use crate::arch::fuzz::extra;
use crate::arch::fuzz::programs::WORDS;
use crate::arch::fuzz::registers::ROWS;

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A row of system registers, read and written.
    Registers,
    /// HVC, SMC, SVC, BRK or BKPT.
    Calls,
    /// A load or store, to any address.
    Access,
    /// A jump to an address without code.
    Jump,
    /// Random words, as a program of EL0.
    Program,
    /// The same, in another instruction set.
    Program32,
    /// Stage-1 tables with random descriptors.
    Tables,
    /// Interrupts from CPU to CPU.
    Sgi,
    /// Timers with random values.
    Timer,
    /// Interrupts masked for a while.
    Masked,
    /// WFI and WFE.
    Wait,
    /// Another vCPU is started, stopped, or put to work.
    Sibling,
    /// Edits of the guest's own tables with the maintenance that they need, each access as the tables say.
    Translations,
    /// Random privileged instructions, as a program of the kernel's.
    Kernel,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 14] = [
        Self::Registers,
        Self::Calls,
        Self::Access,
        Self::Jump,
        Self::Program,
        Self::Program32,
        Self::Tables,
        Self::Sgi,
        Self::Timer,
        Self::Masked,
        Self::Wait,
        Self::Sibling,
        Self::Translations,
        Self::Kernel,
    ];

    /// The class of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.word() == name)
    }

    /// The class's name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::Calls => "calls",
            Self::Access => "accesses",
            Self::Jump => "jumps",
            Self::Program => WORDS[0],
            Self::Program32 => WORDS[1],
            Self::Tables => "tables",
            Self::Sgi => "sgis",
            Self::Timer => "timers",
            Self::Masked => "masked",
            Self::Wait => "waits",
            Self::Sibling => "siblings",
            Self::Translations => "translations",
            Self::Kernel => "kernel",
        }
    }
}

/// How often each class comes among the steps that are not about registers, as weights.
const WEIGHTS: [(Class, u64); 11] = [
    (Class::Calls, 14),
    (Class::Access, 40),
    (Class::Jump, 10),
    (Class::Program, 8),
    (Class::Program32, 8),
    (Class::Tables, 8),
    (Class::Sgi, 3),
    (Class::Timer, 3),
    (Class::Masked, 2),
    (Class::Wait, 2),
    (Class::Sibling, 4),
];

/// One step of this many is not about registers.
const GROUP: u64 = 6;

/// What a step does.
pub enum Attack {
    /// A row of system registers.
    Registers {
        /// The row's number.
        row: u64,
    },
    /// A step of any other class.
    Other(Class),
}

/// Step `index` under `seed`; further random choices come from `random`.
pub fn step(seed: u64, index: u64, random: &mut Random) -> Attack {
    let (group, member) = (index / GROUP, index % GROUP);
    if member == GROUP - 1 {
        return Attack::Other(other(random));
    }
    let number = group * (GROUP - 1) + member;
    let (pass, place) = (number / ROWS, number % ROWS);
    // A bijection that differs for each pass: a factor without a common divisor with the number of
    // rows, and a sum.
    let mut order = Random::of(seed, u64::MAX - pass);
    let mut factor = (order.next() | 1) % ROWS;
    while common_divisor(factor, ROWS) != 1 {
        factor += 2;
    }
    let row = (place * factor + order.next() % ROWS) % ROWS;
    Attack::Registers { row }
}

/// The greatest common divisor (Euclid).
fn common_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => common_divisor(b, a % b),
    }
}

fn other(random: &mut Random) -> Class {
    let all = || WEIGHTS.iter().chain(extra()).copied();
    let total = all().map(|weight| weight.1).sum();
    let mut at = random.below(total);
    for (class, weight) in all() {
        if at < weight {
            return class;
        }
        at -= weight;
    }
    Class::Calls
}
