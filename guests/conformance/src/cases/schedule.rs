//! The calls by which a guest takes part in the scheduling of its vCPUs (`hanok_abi::schedule`), by HVC and by the
//! device: in any VM; and in one that is promised 400 us in each millisecond and may ask for half of its core, beside
//! one that has 55 % of it.

use crate::arch::access;
use crate::case::{Case, Outcome, hanok_case};
use crate::fuzz::random::Random;
use crate::machine::Machine;
use crate::mmio::{read32, read64, write32};
use crate::{gic, psci, smp, timer};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    hanok_case("schedule-device", 1, device),
    hanok_case("schedule-device-own", 2, own_registers),
];

/// They run only when they are named, as few VMs have such a promise.
pub const PROMISED: &[Case] = &[
    hanok_case("schedule-reads", 1, reads),
    hanok_case("schedule-asks", 1, asks),
    hanok_case("schedule-refusals", 1, refusals),
    hanok_case("schedule-waits", 1, waits),
    hanok_case("schedule-odd", 1, odd),
    hanok_case("schedule-turns", 1, turns),
];

const FEATURES: u64 = 0xc600_0010;
const READ: u64 = 0xc600_0011;
/// Asks for another interface.
pub const ASK: u64 = 0xc600_0012;
const WAIT: u64 = 0xc600_0015;

const PERIOD: u64 = 0;
const BUDGET: u64 = 1;
const LEFT: u64 = 3;
const USED: u64 = 4;
const LIMIT: u64 = 8;
const SHORTEST: u64 = 9;

/// The answer is yes.
pub const DONE: i32 = 0;
const NOT_SUPPORTED: i32 = -1;
const INVALID: i32 = -2;
const NOT_ALLOWED: i32 = -3;
pub const REFUSED: i32 = -4;
/// Ask later.
pub const LATER: i32 = -5;
/// Ask on.
pub const PENDING: i32 = -6;

const TIMER: u32 = platform::TIMER_VIRTUAL_IRQ.get();

/// The device, and its registers.
pub const DEVICE: u64 = 0x090c_0000;
const CALL: u64 = DEVICE + 4;
const ARGUMENTS: u64 = DEVICE + 0x10;
const STATUS: u64 = DEVICE + 0x30;
const VALUE: u64 = DEVICE + 0x38;
/// `hksc`.
const MAGIC: u32 = 0x6373_6b68;

/// A way to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Hvc,
    Device,
}

pub const WAYS: [Way; 2] = [Way::Hvc, Way::Device];

impl Way {
    /// The status of a call, and its value.
    pub fn call(self, function: u64, arguments: [u64; 3]) -> (i32, u64) {
        match self {
            Self::Hvc => {
                let [a, b, c] = arguments;
                let mut x = [function, a, b, c, 0, 0, 0, 0];
                psci::call_all(&mut x);
                (x[0] as i32, (x[1] & 0xffff_ffff) | x[2] << 32)
            }
            Self::Device => {
                for (at, argument) in (ARGUMENTS..).step_by(8).zip(arguments) {
                    write32(at, argument as u32);
                    write32(at + 4, (argument >> 32) as u32);
                }
                write32(CALL, function as u32);
                (read32(STATUS) as i32, read64(VALUE))
            }
        }
    }

    fn read(self, item: u64) -> (i32, u64) {
        self.call(READ, [item, 0, 0])
    }

    /// Asks until there is an answer, once a question is taken.
    fn ask(self, period: u64, budget: u64) -> (i32, u64) {
        self.ask_all([period, budget, 0])
    }

    /// The same of a period, a budget and a deadline.
    fn ask_all(self, wanted: [u64; 3]) -> (i32, u64) {
        loop {
            match self.call(ASK, wanted) {
                (PENDING | LATER, _) => {}
                answer => return answer,
            }
        }
    }
}

/// What holds in each VM, whatever it is promised.
fn device(_: &Machine) -> Outcome {
    check_eq!(read32(DEVICE), MAGIC, "ID");
    for at in [DEVICE, STATUS, VALUE, VALUE + 4, DEVICE + 8, DEVICE + 0x34] {
        let before = read32(at);
        write32(at, !before);
        check_eq!(read32(at), before, "{at:#x} after a write");
    }
    check_eq!(read32(DEVICE + 0xffc), 0, "the last word");
    // Two words at once, each way.
    for at in (ARGUMENTS..STATUS).step_by(8) {
        write32(at, at as u32);
        write32(at + 4, !at as u32);
        check_eq!(read64(at), at & 0xffff_ffff | !at << 32, "{at:#x}");
    }
    // What is narrower, or not aligned, is no call.
    Way::Device.call(FEATURES, [0; 3]);
    for (at, width) in [(CALL, 1), (CALL, 2)] {
        // SAFETY: a register of a device, which ignores it.
        let stored = unsafe { access::store(at, width, 0xff) };
        check!(stored.is_ok(), "{width} bytes");
        // SAFETY: as above.
        let loaded = unsafe { access::load(at, width) };
        check!(loaded.is_ok_and(|value| value == 0), "{width} bytes");
        check_eq!(read32(CALL), FEATURES as u32, "CALL");
    }
    let features = Way::Hvc.call(FEATURES, [0; 3]);
    check_eq!(Way::Device.call(FEATURES, [0; 3]), features, "FEATURES");
    let (_, first) = Way::Hvc.read(USED);
    let (status, then) = Way::Device.read(USED);
    check!(status == DONE && then > first, "{status}: {first} {then}");
    for function in [0, 0xc600_0013, 0xc600_0014, 0x8400_0008, 0xffff_ffff] {
        let answer = Way::Device.call(function, [0; 3]);
        check_eq!(answer, (NOT_SUPPORTED, 0), "{function:#x}");
    }
    check_eq!(Way::Device.call(WAIT, [0; 3]).0, DONE, "WAIT");
    Ok(())
}

static FOUND: AtomicU64 = AtomicU64::new(0);

/// Another vCPU's registers are others.
fn own_registers(_: &Machine) -> Outcome {
    fn look(_: usize) {
        FOUND.store(read64(ARGUMENTS), Relaxed);
        write32(ARGUMENTS, 5);
        write32(CALL, 0);
        FOUND.fetch_add(u64::from(read32(STATUS)), Relaxed);
    }
    check_eq!(Way::Device.call(FEATURES, [7, 8, 9]).0, DONE, "FEATURES");
    check_eq!(smp::start(1, look), psci::SUCCESS, "CPU_ON");
    check!(smp::wait_off(1), "vCPU 1 does not end");
    check_eq!(
        FOUND.load(Relaxed),
        0xffff_ffff,
        "it found, and was answered"
    );
    check_eq!(read64(ARGUMENTS), 7, "the first argument");
    check_eq!(read32(STATUS), 0, "STATUS");
    Ok(())
}

fn reads(_: &Machine) -> Outcome {
    for way in WAYS {
        let features = way.call(FEATURES, [0; 3]);
        check_eq!(features, (DONE, 0x3_0001_0000), "{way:?} FEATURES");
        check_eq!(way.read(BUDGET), (DONE, 400_000), "{way:?} BUDGET");
        check_eq!(way.read(PERIOD), (DONE, 1_000_000), "{way:?} PERIOD");
        check_eq!(way.read(LIMIT), (DONE, 0x8000), "{way:?} LIMIT");
        check_eq!(way.read(SHORTEST), (DONE, 500_000), "{way:?} SHORTEST");
        let (status, left) = way.read(LEFT);
        check!(status == DONE && left <= 400_000, "{status} {left}");
        let (_, before) = way.read(USED);
        let began = timer::now();
        while timer::now() < began + timer::frequency() / 100 {}
        let (_, used) = way.read(USED);
        // In ten periods.
        let used = used - before;
        check!(
            (3_500_000..=4_500_000).contains(&used),
            "{used} ns in 10 ms"
        );
        for item in [10, 0xffff_ffff, 0x8000_0000] {
            check_eq!(way.read(item), (INVALID, 0), "{way:?} {item:#x}");
        }
    }
    Ok(())
}

fn asks(_: &Machine) -> Outcome {
    for way in WAYS {
        let (status, at) = way.ask(2_000_000, 880_000);
        check_eq!(status, DONE, "{way:?} {at}");
        // It is effective within a period: long after that the vCPU knows nothing else.
        let began = timer::now();
        while timer::now() < began + timer::frequency() / 250 {}
        check_eq!(way.read(PERIOD), (DONE, 2_000_000), "{way:?} PERIOD");
        check_eq!(way.read(BUDGET), (DONE, 880_000), "{way:?} BUDGET");
        let (status, at) = way.ask(1_000_000, 400_000);
        check_eq!(status, DONE, "{way:?} {at}");
    }
    Ok(())
}

fn refusals(_: &Machine) -> Outcome {
    for way in WAYS {
        // The neighbour has 55 %.
        check_eq!(way.ask(1_000_000, 460_000), (REFUSED, 1), "{way:?}");
        // One limit for both ways.
        for other in WAYS {
            let (status, nanos) = other.call(ASK, [1_000_000, 460_000, 0]);
            check!(
                status == LATER && nanos <= 10_000_000,
                "{way:?} {other:?}: {status} {nanos}"
            );
        }
        check_eq!(way.ask(1_000_000, 500_001).0, NOT_ALLOWED, "{way:?}");
        check_eq!(way.ask(499_999, 100_000).0, NOT_ALLOWED, "{way:?}");
        for [period, budget] in [[0, 0], [1_000_000, 0], [1_000_000, 1_000_001], [0, 1]] {
            check_eq!(way.ask(period, budget).0, INVALID, "{period} {budget}");
        }
        let early = way.call(ASK, [1_000_000, 100_000, 99_999]);
        check_eq!(early.0, INVALID, "{way:?}");
    }
    // An argument of more than 32 bits, whose lower half would do: by the device a 32-bit guest has it, too.
    let far = Way::Device.call(ASK, [1 << 42 | 1_000_000, 400_000, 0]);
    check_eq!(far.0, INVALID, "a period of an hour and more");
    Ok(())
}

fn waits(_: &Machine) -> Outcome {
    for way in WAYS {
        for _ in 0..3 {
            check_eq!(way.call(WAIT, [0; 3]).0, DONE, "{way:?} WAIT");
            let (_, left) = way.read(LEFT);
            check!(left > 300_000, "{left} ns are left of a new budget");
        }
        // An interrupt that is pending, or comes meanwhile, ends no wait: the rest of the budget is given up.
        for after in [0, 300] {
            gic::enable(TIMER);
            timer::fire_at(timer::now() + timer::microseconds(after));
            if after == 0 {
                check!(gic::wait_signalled(), "no interrupt");
            }
            let began = timer::now();
            let status = way.call(WAIT, [0; 3]).0;
            let waited = timer::now() - began;
            check_eq!(status, DONE, "{way:?} WAIT");
            let (_, left) = way.read(LEFT);
            check!(left > 300_000, "{left} ns are left after an interrupt");
            check!(waited > timer::microseconds(400), "{waited} ticks alone");
            check!(gic::signalled(), "the interrupt is gone");
            timer::stop();
            gic::end(gic::acknowledge());
            gic::disable(TIMER);
        }
    }
    Ok(())
}

/// Interfaces of any nanosecond, beside one that has 55 %: each is granted that fits, and no other is. A third have
/// deadlines inside the period, so far away that budgets by deadlines are below all of the core, by which every deadline
/// is kept; to these it goes by way of an interface that asks for no more than either.
fn odd(_: &Machine) -> Outcome {
    let mut random = Random::of(7, 0);
    let mut had = [1_000_000, 400_000, 1_000_000];
    for round in 0..60 {
        let way = WAYS[round % 2];
        let period = 500_000 + random.below(1_500_000);
        let share = 3 + random.below(47);
        let budget = period * share / 100;
        if share > 44 {
            let answer = way.ask(period, budget + period / 100);
            check!(
                answer == (REFUSED, 1) || answer.0 == NOT_ALLOWED,
                "{period} {budget}: {answer:?}"
            );
            continue;
        }
        let deadline = match random.below(3) {
            0 if share <= 40 => period * (share + random.below(41 - share)) / 40,
            _ => period,
        };
        let wanted = [period, budget, deadline];
        let both = [had[0].max(period), had[1].min(budget), had[2].max(deadline)];
        for next in [both, wanted] {
            let answer = way.ask_all(next);
            check_eq!(answer.0, DONE, "{had:?} {next:?} {wanted:?}: {answer:?}");
            had = next;
        }
    }
    check_eq!(WAYS[0].ask(1_000_000, 400_000).0, DONE, "at the end");
    Ok(())
}

/// Beside a neighbour that always has a question under way there is an answer within the time that `docs/scheduling.md`
/// names: a turn of an eighth of a second and a question of a second, and then one's own.
fn turns(_: &Machine) -> Outcome {
    let most = timer::frequency() * 9 / 8 + timer::frequency() / 10;
    for round in 0..6 {
        let began = timer::now();
        let (status, _) = loop {
            match Way::Hvc.call(ASK, [1_000_000, 640_000 + 1_000 * round, 0]) {
                (PENDING | LATER, _) if timer::now() - began < 2 * most => {}
                answer => break answer,
            }
        };
        let took = timer::now() - began;
        check!(
            status == DONE && took < most,
            "{round}: {status} after {took} ticks"
        );
    }
    Ok(())
}
