//! Measures the switch from one VM to another on the same core and back, each by the hypercall that
//! gives up the rest of a turn. No FP register is used.
//!
//! Neither VM can see whether the other one is there: alone, a yield returns at once, which would
//! look like a fast switch. So the partner gives a sign: before every [`PERIOD`]th yield it counts
//! to [`SIGN_TURNS`], and the measuring VM notices a yield that takes long. A stretch counts only
//! if a sign comes right before it and one right behind it, so that each of its yields was answered
//! by one of the partner's.

use crate::arch::{count, hvc, nothing, understood};
use crate::measure::{Stretch, frequency};
use hanok_abi::hypercall;
use hanok_bench_plan::{Figure, Least};
use hanok_guest_runtime::timer;

/// Hanok's hypercall that lets others run.
const YIELD: u64 = hypercall::YIELD as u64;
/// The number of yields from one sign to the next.
const PERIOD: u64 = 256;
/// The number of yields of a stretch; the rest of a period is examined one by one.
const ROUNDS: u64 = 240;
/// How far the partner counts for a sign, with two instructions a turn.
const SIGN_TURNS: u64 = 50_000;
/// The least number of microseconds that a yield takes if it is a sign.
const SIGN_US: u64 = 50;
/// The largest number of yields until the partner is found.
const PATIENCE: u64 = 64 * PERIOD;
/// The number of further periods that the partner yields, for the measuring VM's other figures and
/// its start.
const MARGIN: u64 = 256;

/// Yields until the measuring VM has certainly finished.
pub fn partner(repeat: u32) {
    if !understood(YIELD) {
        println!("FAIL switch: nobody knows the call");
        return;
    }
    for _ in 0..u64::from(repeat) + MARGIN {
        count(SIGN_TURNS);
        hvc(PERIOD, YIELD, 0);
    }
}

/// Prints the figure: the instructions of one switch.
pub fn measure(figure: Figure, repeat: u32) {
    if !understood(YIELD) {
        crate::measure::not_here(figure, "nobody knows the call");
        return;
    }
    if find_partner() == Partner::Missing {
        println!("FAIL switch: no other VM yields on this core");
        return;
    }
    // A yield makes two switches; each VM has one round of the loop.
    let stretch = Stretch {
        figure,
        repeat,
        rounds: 2 * ROUNDS,
    };
    let mut with = Least::NONE;
    for _ in 0..repeat {
        with.add(stretch.sample(|| hvc(ROUNDS, YIELD, 0)));
        if find_sign(PERIOD) != Some(PERIOD - ROUNDS) {
            println!("FAIL switch: the other VM is gone");
            return;
        }
    }
    let without = (0..repeat).map(|_| stretch.unmarked(|| nothing(2 * ROUNDS, YIELD, 0)));
    stretch.print(with, without.collect());
}

/// Whether another VM yields on this core.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Partner {
    Found,
    Missing,
}

/// Looks for two signs that are one period apart.
fn find_partner() -> Partner {
    let mut yields = 0;
    while let Some(count) = find_sign(PATIENCE - yields) {
        if count == PERIOD {
            return Partner::Found;
        }
        yields += count;
    }
    Partner::Missing
}

/// The number of yields until one takes long; `None` where none of `most` does.
fn find_sign(most: u64) -> Option<u64> {
    let long = frequency() * SIGN_US / 1_000_000;
    (1..=most).find(|_| {
        let start = timer::now();
        hvc(1, YIELD, 0);
        timer::now().wrapping_sub(start) > long
    })
}
