//! Counts what the steps reached.

use super::plan::Class;
use crate::arch::fuzz::trip::{End, Kind, WANTED};

/// Exceptions of each class, and the other kinds.
pub struct Coverage {
    /// Steps of each class.
    pub steps: [u64; Class::ALL.len()],
    classes: [u64; 64],
    irqs: u64,
    fiqs: u64,
    system_errors: u64,
    /// Other vCPUs that waited for an interrupt which a step had disabled.
    pub rescued: u64,
    /// Faults found.
    pub wrong: u64,
}

/// Whether a part of the coverage reached what a run must reach.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Completeness {
    /// It did.
    Complete,
    /// Something came too seldom.
    Incomplete,
}

impl Completeness {
    /// The completeness of a part that was reached `often_enough`, or was not.
    pub const fn of(often_enough: bool) -> Self {
        if often_enough {
            Self::Complete
        } else {
            Self::Incomplete
        }
    }
}

/// How often each exception must have come.
pub const LEAST: u64 = 100;

impl Coverage {
    /// All counts zero.
    pub const fn new() -> Self {
        Self {
            steps: [0; Class::ALL.len()],
            classes: [0; 64],
            irqs: 0,
            fiqs: 0,
            system_errors: 0,
            rescued: 0,
            wrong: 0,
        }
    }

    /// Counts how a trip ended.
    pub fn note(&mut self, end: &End) {
        match end.kind() {
            Kind::Synchronous(class) => self.classes[usize::from(class)] += 1,
            Kind::Irq => self.irqs += 1,
            Kind::Fiq => self.fiqs += 1,
            Kind::SystemError => self.system_errors += 1,
        }
    }

    /// Prints all counts. The coverage is complete if every required event came often enough.
    pub fn print(&self, has_aarch32: bool) -> Completeness {
        for (class, steps) in Class::ALL.into_iter().zip(self.steps) {
            println!("fuzz: {:10} {steps:8} steps", class.word());
        }
        let mut enough = true;
        for (class, count) in self.classes.iter().enumerate() {
            let word = WANTED.iter().find(|wanted| usize::from(wanted.0) == class);
            if *count > 0 || word.is_some() {
                let word = word.map_or("", |wanted| wanted.1);
                println!("fuzz: exception {class:#04x} {count:9} times {word}");
            }
            let needed = word.is_some_and(|wanted| wanted.0 != 0x11 || has_aarch32);
            enough &= !needed || *count >= LEAST;
        }
        println!(
            "fuzz: interrupts {} IRQ, {} FIQ, {} SError",
            self.irqs, self.fiqs, self.system_errors
        );
        println!(
            "fuzz: vCPUs that were given back their timer {}",
            self.rescued
        );
        Completeness::of(enough & (self.irqs >= LEAST))
    }
}
