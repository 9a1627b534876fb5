//! The calls by which a guest takes part in the scheduling of its vCPUs (`hanok_abi::schedule`), in a VM that is
//! promised 400 us in each millisecond and may ask for half of its core, beside one that has 55 % of it.

use crate::case::{Case, Outcome, hanok_case};
use crate::machine::Machine;
use crate::{psci, timer};

/// They run only when they are named, as few VMs have such a promise.
pub const PROMISED: &[Case] = &[
    hanok_case("schedule-reads", 1, reads),
    hanok_case("schedule-asks", 1, asks),
    hanok_case("schedule-refusals", 1, refusals),
    hanok_case("schedule-waits", 1, waits),
];

const FEATURES: u64 = 0xc600_0010;
const READ: u64 = 0xc600_0011;
const ASK: u64 = 0xc600_0012;
const WAIT: u64 = 0xc600_0015;

const PERIOD: u64 = 0;
const BUDGET: u64 = 1;
const LEFT: u64 = 3;
const USED: u64 = 4;
const LIMIT: u64 = 8;
const SHORTEST: u64 = 9;

const DONE: i32 = 0;
const INVALID: i32 = -2;
const NOT_ALLOWED: i32 = -3;
const REFUSED: i32 = -4;
const TOO_OFTEN: i32 = -5;
const PENDING: i32 = -6;

/// The status of a call, and its value.
fn call(function: u64, arguments: [u64; 3]) -> (i32, u64) {
    let [a, b, c] = arguments;
    let mut x = [function, a, b, c, 0, 0, 0, 0];
    psci::call_all(&mut x);
    (x[0] as i32, (x[1] & 0xffff_ffff) | x[2] << 32)
}

fn read(item: u64) -> (i32, u64) {
    call(READ, [item, 0, 0])
}

/// Asks until there is an answer, once a question is taken.
fn ask(period: u64, budget: u64) -> (i32, u64) {
    loop {
        match call(ASK, [period, budget, 0]) {
            (PENDING | TOO_OFTEN, _) => {}
            answer => return answer,
        }
    }
}

fn reads(_: &Machine) -> Outcome {
    check_eq!(
        call(FEATURES, [0; 3]),
        (DONE, 0x3_0001_0000),
        "callFEATURES"
    );
    check_eq!(read(BUDGET), (DONE, 400_000), "readBUDGET");
    check_eq!(read(PERIOD), (DONE, 1_000_000), "readPERIOD");
    check_eq!(read(LIMIT), (DONE, 0x8000), "readLIMIT");
    check_eq!(read(SHORTEST), (DONE, 500_000), "readSHORTEST");
    let (status, left) = read(LEFT);
    check!(status == DONE && left <= 400_000, "{status} {left}");
    let (_, before) = read(USED);
    let began = timer::now();
    while timer::now() < began + timer::frequency() / 100 {}
    let (_, used) = read(USED);
    // In ten periods.
    let used = used - before;
    check!(
        (3_500_000..=4_500_000).contains(&used),
        "{used} ns in 10 ms"
    );
    for item in [10, 0xffff_ffff, 0x8000_0000] {
        check_eq!(read(item), (INVALID, 0), "{item:#x}");
    }
    Ok(())
}

fn asks(_: &Machine) -> Outcome {
    let (status, at) = ask(2_000_000, 880_000);
    check_eq!(status, DONE, "{at}");
    // It is effective within a period: long after that the vCPU knows nothing else.
    let began = timer::now();
    while timer::now() < began + timer::frequency() / 250 {}
    check_eq!(read(PERIOD), (DONE, 2_000_000), "readPERIOD");
    check_eq!(read(BUDGET), (DONE, 880_000), "readBUDGET");
    let (status, at) = ask(1_000_000, 400_000);
    check_eq!(status, DONE, "{at}");
    Ok(())
}

fn refusals(_: &Machine) -> Outcome {
    // The neighbour has 55 %.
    check_eq!(ask(1_000_000, 460_000), (REFUSED, 1), "ask1_000_000");
    let (status, nanos) = call(ASK, [1_000_000, 460_000, 0]);
    check!(
        status == TOO_OFTEN && nanos <= 10_000_000,
        "{status} {nanos}"
    );
    check_eq!(ask(1_000_000, 500_001).0, NOT_ALLOWED, "ask1_000_000");
    check_eq!(ask(499_999, 100_000).0, NOT_ALLOWED, "ask499_999");
    for [period, budget] in [[0, 0], [1_000_000, 0], [1_000_000, 1_000_001], [0, 1]] {
        check_eq!(ask(period, budget).0, INVALID, "{period} {budget}");
    }
    check_eq!(
        call(ASK, [1_000_000, 100_000, 99_999]).0,
        INVALID,
        "callASK"
    );
    Ok(())
}

fn waits(_: &Machine) -> Outcome {
    for _ in 0..3 {
        check_eq!(call(WAIT, [0; 3]).0, DONE, "callWAIT");
        let (_, left) = read(LEFT);
        check!(left > 350_000, "{left} ns are left of a new budget");
    }
    Ok(())
}
