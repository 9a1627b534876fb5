//! A guest that tries everything: a million steps, chosen by chance, of which each follows from
//! the seed and its number alone. What is made of instructions and registers is the
//! architecture's (`arch::fuzz`), the rest is here.
//!
//! What it looks for: a hypervisor that stops, and one that answers wrong. So each step knows
//! what must not happen: a register that the instruction does not name has changed, an address
//! where nothing is answers, flash is not erased, a register that a device does not have is not
//! zero, a system register of a higher level is there, or one that was there is gone, an
//! identification register says something else than before, an exception comes that cannot be,
//! memory that nobody wrote is not what it was.
//!
//! Boot arguments: `conformance.run=fuzz`, with `fuzz.seed=` (default 1), `fuzz.steps=` (50,000),
//! `fuzz.from=` (the first step, to begin where something went wrong), `fuzz.visits=` (how often
//! each encoding of a system register must have come at least, for the coverage to count as
//! complete), `fuzz.trace=yes` (each step says its number before it begins) and `fuzz.lives=yes`
//! (after its steps the VM is reset in the middle of a mess; the seed of each life is another
//! one, which it says, so that `fuzz.seed=` without `fuzz.lives` does it again).

mod calls;
pub mod coverage;
mod interrupts;
pub mod memory;
pub mod places;
pub mod plan;
pub mod random;
pub mod repair;
mod siblings;

pub use calls::Call;

use crate::arch::fuzz::trip::{self, End, Start};
use crate::arch::fuzz::{access, jumps, programs, registers, space, tables};
use crate::machine::Machine;
use crate::{marker, psci, timer};
use coverage::{Completeness, Coverage};
use plan::{Attack, Class};
use random::Random;

/// The seed.
pub struct Options {
    /// Where chance begins.
    pub seed: u64,
    /// The first step.
    pub from: u64,
    /// How many steps.
    pub steps: u64,
    /// How often each encoding must be executed.
    pub visits: u16,
    /// Print each step's number.
    pub trace: bool,
    /// Reset the VM at the end, and begin again.
    pub lives: bool,
    /// The only kind of step, if it is one alone.
    pub only: Option<Class>,
}

impl Options {
    /// Parses the words of the command line, each by its prefix.
    pub fn new<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let number = |key, otherwise| {
            value(key)
                .map_or(Ok(otherwise), str::parse)
                .unwrap_or(otherwise)
        };
        Self {
            seed: number("fuzz.seed=", 1),
            from: number("fuzz.from=", 0),
            steps: number("fuzz.steps=", 50_000),
            visits: number("fuzz.visits=", 0) as u16,
            trace: value("fuzz.trace=") == Some("yes"),
            lives: value("fuzz.lives=") == Some("yes"),
            only: value("fuzz.only=").and_then(Class::named),
        }
    }
}

/// How many faults are reported one by one.
const TOLD: u64 = 20;
/// In how many parts the run is divided, after each of which progress is printed.
const PARTS: u64 = 20;

/// What all steps share.
pub struct Fuzzer<'a> {
    /// What the device tree says of the machine.
    pub machine: &'a Machine,
    coverage: Coverage,
    /// The number of the current step.
    step: u64,
    /// The runtime's TPIDR_EL1.
    pub this: u64,
    /// EL0 may run A32 and T32.
    pub has_aarch32: bool,
    /// A step wrote to a device: its interrupts may be in any state.
    pub touched: bool,
    /// What programs of the kernel's led to, all together: the same on any machine that is right.
    pub digest: u64,
    /// Print each step's number, and its digest.
    trace: bool,
}

impl Fuzzer<'_> {
    /// Makes a trip and counts how it ended.
    pub unsafe fn travel(&mut self, start: &Start) -> &'static End {
        // SAFETY: by this function's contract.
        let end = unsafe { trip::travel(start) };
        self.coverage.note(end);
        end
    }

    /// Reports a fault: something that must not happen.
    pub fn wrong(&mut self, what: core::fmt::Arguments<'_>) {
        self.coverage.wrong += 1;
        if self.coverage.wrong <= TOLD {
            repair::console();
            println!("FAIL fuzz: step {}: {what}", self.step);
        }
    }

    /// Prints something of a step, where that is asked for: so that the first step that differs from another machine's can be
    /// found.
    pub fn trace(&self, what: core::fmt::Arguments<'_>) {
        if self.trace {
            println!("fuzz: step {}: {what}", self.step);
        }
    }

    fn run(&mut self, seed: u64, options: &Options) {
        let end = options.from + options.steps;
        let part = (options.steps / PARTS).max(1);
        for index in options.from..end {
            self.step = index;
            if self.trace {
                repair::console();
            }
            self.trace(format_args!("begins"));
            self.one(seed, options.only);
            if (index + 1 - options.from).is_multiple_of(part) {
                self.look_after();
                println!(
                    "fuzz: {} of {} steps",
                    index + 1 - options.from,
                    options.steps
                );
            }
        }
    }

    fn one(&mut self, seed: u64, only: Option<Class>) {
        let mut random = Random::of(seed, self.step);
        let attack = match only {
            Some(class) => Attack::Other(class),
            None => plan::step(seed, self.step, &mut random),
        };
        let class = match attack {
            Attack::Registers { row } => {
                registers::row(self, row, &mut random);
                Class::Registers
            }
            Attack::Other(class) => {
                self.other(class, &mut random);
                class
            }
        };
        self.coverage.steps[class as usize] += 1;
    }

    fn other(&mut self, class: Class, random: &mut Random) {
        let step = match class {
            Class::Registers => return,
            Class::Calls => calls::step,
            Class::Access => access::step,
            Class::Jump => jumps::step,
            Class::Program => programs::step,
            Class::Program32 => programs::step_32,
            Class::Tables => tables::step,
            Class::Sgi => interrupts::sgis,
            Class::Timer => interrupts::timers,
            Class::Masked => interrupts::masked,
            Class::Wait => interrupts::waits,
            Class::Sibling => siblings::step,
            Class::Translations | Class::Kernel => {
                return crate::arch::fuzz::extra_step(self, class, random);
            }
        };
        step(self, random);
        if core::mem::take(&mut self.touched) {
            repair::registers(self.this);
        }
    }

    /// Checks that the guard areas around writable memory are unchanged.
    fn look_after(&mut self) {
        repair::console();
        let breaches = memory::SCRATCH.breaches();
        if breaches != 0 {
            self.wrong(format_args!("{breaches} words of memory changed"));
            memory::SCRATCH.build_fence();
        }
    }
}

/// Runs all steps and reports the result.
pub fn run(machine: &Machine, options: &Options) -> ! {
    // Each life has another seed, made from the time at which it began.
    let seed = if options.lives {
        Random::of(options.seed, timer::now()).next()
    } else {
        options.seed
    };
    println!(
        "fuzz: seed {seed}, steps {} to {}",
        options.from,
        options.from + options.steps
    );
    let mut fuzzer = Fuzzer {
        machine,
        coverage: Coverage::new(),
        step: options.from,
        this: read_sysreg!("tpidr_el1"),
        has_aarch32: programs::has_aarch32(),
        touched: false,
        digest: 0,
        trace: options.trace,
    };
    siblings::prepare(&mut fuzzer);
    space::install(machine.memory());
    memory::SCRATCH.build_fence();
    registers::prepare();
    repair::registers(fuzzer.this);
    fuzzer.run(seed, options);
    marker::end();
    finish(&mut fuzzer, options)
}

fn finish(fuzzer: &mut Fuzzer<'_>, options: &Options) -> ! {
    repair::console();
    let wrong = fuzzer.coverage.wrong;
    if options.lives {
        println!(
            "fuzz: a life of {} steps is over, {wrong} wrong",
            options.steps
        );
        mess(fuzzer)
    }
    let exceptions = fuzzer.coverage.print(fuzzer.has_aarch32);
    let registers = registers::print(options.visits);
    if [exceptions, registers] == [Completeness::Complete; 2] {
        println!("fuzz: coverage is complete")
    } else {
        println!("fuzz: coverage is not complete")
    }
    if options.only.is_some() {
        println!("fuzz: digest {:#018x}", fuzzer.digest);
    }
    println!("fuzz: done, {} steps, {wrong} wrong", options.steps);
    psci::system_off()
}

/// Leaves everything in the middle of its work, and resets.
fn mess(fuzzer: &mut Fuzzer<'_>) -> ! {
    let mut random = Random::of(timer::now(), 0);
    for index in 1..fuzzer.machine.cpus {
        let job = if random.once_in(2) {
            crate::hostile::sgi_storm
        } else {
            crate::hostile::mask
        };
        crate::smp::start(index, job);
    }
    repair::wakeable();
    crate::mmio::write32(crate::gic::frame(0) + crate::gic::ISENABLER, u32::MAX);
    crate::mmio::write32(crate::gic::frame(0) + crate::gic::ISPENDR, u32::MAX);
    write_sysreg!("cntp_cval_el0", 0);
    write_sysreg!("cntp_ctl_el0", timer::ENABLE);
    repair::alarm(random.below(5));
    psci::system_reset()
}
