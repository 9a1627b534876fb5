//! Random numbers by the firmware's calls (DEN0098). QEMU has none.

use crate::case::{Case, Outcome, hanok_case};
use crate::machine::Machine;
use crate::psci::{self, call, call_all, status};
use crate::timer;

pub const CASES: &[Case] = &[
    hanok_case("trng-features", 1, features),
    hanok_case("trng-numbers", 1, numbers),
    hanok_case("trng-limit", 1, limit),
];

const VERSION: u64 = 0x8400_0050;
const FEATURES: u64 = 0x8400_0051;
const GET_UUID: u64 = 0x8400_0052;
const RND32: u64 = 0x8400_0053;
const RND64: u64 = 0xc400_0053;
const NO_ENTROPY: i64 = -3;

/// The call for numbers as wide as a register, and the bits of one.
const OWN: (u64, u64) = match size_of::<usize>() {
    8 => (RND64, 64),
    _ => (RND32, 32),
};

fn features(_: &Machine) -> Outcome {
    let version = call(VERSION, 0, 0, 0);
    check_eq!(version, 0x1_0000, "TRNG_VERSION");
    for function in [VERSION, FEATURES, GET_UUID, RND32, OWN.0] {
        let known = status(call(FEATURES, function, 0, 0));
        check_eq!(known, psci::SUCCESS, "TRNG_FEATURES of {function:#x}");
    }
    let none = status(call(FEATURES, 0x8400_0054, 0, 0));
    check_eq!(none, psci::NOT_SUPPORTED, "TRNG_FEATURES of nothing");
    let mut uuid = [GET_UUID, 0, 0, 0, 4, 5, 6, 7];
    call_all(&mut uuid);
    check!(uuid[0] as u32 != u32::MAX, "TRNG_GET_UUID {uuid:x?}");
    check_eq!(&uuid[4..], &[4, 5, 6, 7], "X4 to X7");
    Ok(())
}

/// X0 to X3, once there is entropy: another case may have used up this period's.
fn ask(function: u64, bits: u64) -> [u64; 4] {
    let mut x = [0; 8];
    let answered = timer::wait_until(|| {
        x = [function, bits, 0x55, 0x66, 4, 5, 6, 7];
        call_all(&mut x);
        status(x[0]) != NO_ENTROPY
    });
    let [a, b, c, d, ..] = x;
    if answered {
        [a, b, c, d]
    } else {
        [NO_ENTROPY as u64, 0, 0, 0]
    }
}

fn numbers(_: &Machine) -> Outcome {
    let (function, width) = OWN;
    let mut before = [0; 3];
    for _ in 0..8 {
        let [answer, words @ ..] = ask(function, 3 * width);
        check_eq!(status(answer), psci::SUCCESS, "{function:#x}");
        // Three words of 32 bits or more: one in 2^32 runs would have a zero by chance.
        check!(words.iter().all(|word| *word != 0), "zeros: {words:x?}");
        check!(words != before, "the same once more: {words:x?}");
        before = words;
    }
    // The lowest bits are in X3, and bits beyond those asked for are zero.
    let [answer, high, middle, low] = ask(function, 8);
    check_eq!(status(answer), psci::SUCCESS, "8 bits");
    check!(
        (high, middle) == (0, 0) && low < 256,
        "8 bits: {high:x} {middle:x} {low:x}"
    );
    let [answer, high, _, _] = ask(RND32, 65);
    check_eq!(status(answer), psci::SUCCESS, "65 bits of RND32");
    check!(high < 2, "65 bits: {high:x}");
    for bits in [0, 3 * width + 1] {
        let [answer, rest @ ..] = ask(function, bits);
        check_eq!(status(answer), psci::INVALID_PARAMETERS, "{bits} bits");
        check_eq!(rest, [0; 3], "{bits} bits tell");
    }
    Ok(())
}

/// A caller that asks without end is told to wait, and is served again later.
fn limit(_: &Machine) -> Outcome {
    let (function, width) = OWN;
    let refused = (0..1000).any(|_| status(call(function, width, 0, 0)) == NO_ENTROPY);
    check!(refused, "a thousand calls at once are all answered");
    let answer = status(ask(function, width)[0]);
    check_eq!(answer, psci::SUCCESS, "later");
    Ok(())
}
