//! The firmware's random numbers (DEN0098).

use crate::fake::{FREQUENCY, Fixture};
use crate::trng::{CALLS, PERIODS};
use crate::{Action, NoStream, function};
use hanok_random::{Pool, Source};

const RND32: u32 = function::TRNG_RND;
const RND64: u32 = function::TRNG_RND | function::SMC64;
const NOT_SUPPORTED: u64 = -1i64 as u64;
const INVALID_PARAMETERS: u64 = -2i64 as u64;
const NO_ENTROPY: u64 = -3i64 as u64;

/// A VM whose random numbers rest on something, or on jitter alone.
fn vm(suffice: bool) -> Fixture {
    let vm = Fixture::new(1);
    let mut pool = Pool::new();
    pool.gather(Source::Build, b"0123456789abcdef");
    vm.vm.set_random(pool.stream(0, 1, 0, 0), suffice);
    vm
}

/// X0 to X3 after a call.
fn call(vm: &mut Fixture, id: u32, argument: u64) -> [u64; 4] {
    let (_, action) = vm.call(0, [id.into(), argument, 0x55, 0x66]);
    assert_eq!(action, Action::Resume);
    *vm.regs[0].x.first_chunk().unwrap()
}

#[test]
fn version_features_and_uuid() {
    let mut vm = vm(true);
    assert_eq!(call(&mut vm, function::TRNG_VERSION, 0)[0], 0x1_0000);
    for id in [
        function::TRNG_VERSION,
        function::TRNG_FEATURES,
        function::TRNG_GET_UUID,
        RND32,
        RND64,
    ] {
        assert_eq!(call(&mut vm, function::TRNG_FEATURES, id.into())[0], 0);
    }
    for id in [0x8400_0054, 0xc400_0050, 0xc400_0052, 0, 0x8400_0000] {
        let known = call(&mut vm, function::TRNG_FEATURES, id)[0];
        assert_eq!(known, NOT_SUPPORTED, "{id:#x}");
    }
    let uuid = call(&mut vm, function::TRNG_GET_UUID, 0);
    assert!(uuid[0] as u32 != u32::MAX && uuid.iter().all(|word| word >> 32 == 0));
    for id in [0x8400_0054, 0xc400_0050, 0xc400_0051, 0xc400_0052] {
        assert_eq!(call(&mut vm, id, 64)[0], NOT_SUPPORTED, "{id:#x}");
    }
}

/// The number that a call gave, X1 the highest word.
fn number(words: [u64; 4], width: u32) -> (u128, u64) {
    let [_, high, middle, low] = words;
    assert!(width == 64 || [high, middle, low].iter().all(|word| word >> 32 == 0));
    match width {
        64 => (u128::from(middle) << 64 | u128::from(low), high),
        _ => (
            u128::from(high) << 64 | u128::from(middle) << 32 | u128::from(low),
            0,
        ),
    }
}

/// Bits up to the one that was asked for come, in so many calls each at least once and at least
/// once not; those above never.
#[test]
fn as_many_bits_come_as_were_asked_for() {
    for (id, width) in [(RND32, 32), (RND64, 64)] {
        for bits in 1..=3 * width {
            let mut vm = vm(true);
            let (mut any, mut all) = ((0, 0), (u128::MAX, u64::MAX));
            for _ in 0..CALLS {
                let words = call(&mut vm, id, bits.into());
                assert_eq!(words[0], 0);
                let (low, high) = number(words, width);
                (any.0, any.1) = (any.0 | low, any.1 | high);
                (all.0, all.1) = (all.0 & low, all.1 & high);
            }
            let low = u128::MAX >> (128 - bits.min(128));
            let high = u64::MAX.checked_shr(192 - bits.max(128)).unwrap_or(0);
            assert_eq!((any, all), ((low, high), (0, 0)), "{id:#x} {bits}");
        }
    }
}

#[test]
fn other_counts_are_refused_and_tell_nothing() {
    let mut vm = vm(true);
    for (id, bits) in [(RND32, 0), (RND32, 97), (RND64, 0), (RND64, 193)] {
        assert_eq!(call(&mut vm, id, bits), [INVALID_PARAMETERS, 0, 0, 0]);
    }
    assert_eq!(call(&mut vm, RND64, u64::MAX)[0], INVALID_PARAMETERS);
    // The upper half of a 32-bit call's argument is ignored.
    assert_eq!(call(&mut vm, RND32, 1 << 32 | 32)[0], 0);
}

#[test]
fn there_are_only_so_many_in_a_period_over_all_lives() {
    let mut vm = vm(true);
    for period in 1..4 {
        vm.machine.now.set(period * FREQUENCY / PERIODS);
        for _ in 0..CALLS {
            assert_eq!(call(&mut vm, RND64, 192)[0], 0);
        }
        assert_eq!(call(&mut vm, RND64, 192), [NO_ENTROPY, 0, 0, 0]);
        let stream = Pool::new().stream(0, 2, 0, 0);
        vm.vm.set_random(stream, true);
        assert_eq!(call(&mut vm, RND32, 1)[0], NO_ENTROPY, "of the next life");
    }
}

/// A period is a tenth of a second, from its first tick to its last, whenever in it the calls are.
#[test]
fn a_period_is_a_tenth_of_a_second() {
    let mut vm = vm(true);
    let ticks = FREQUENCY / 10;
    for period in [0, 1, 7, 1_000_000] {
        let begin = period * ticks;
        for call_number in 0..u64::from(CALLS) {
            vm.machine.now.set(begin + call_number * ticks / 64);
            assert_eq!(call(&mut vm, RND64, 192)[0], 0, "{call_number}");
        }
        for late in [begin + ticks * 63 / 64, begin + ticks - 1] {
            vm.machine.now.set(late);
            assert_eq!(call(&mut vm, RND64, 192)[0], NO_ENTROPY);
        }
    }
}

#[test]
fn what_can_be_guessed_is_no_entropy() {
    let mut vm = vm(false);
    assert_eq!(call(&mut vm, RND64, 64), [NO_ENTROPY, 0, 0, 0]);
    let mut seed = [0; 40];
    let filled = vm.vm.fill_random(&mut seed, 0, 0);
    assert_eq!(filled, Ok(()), "a seed is better than none");
    assert!(seed.chunks(8).all(|word| word != [0; 8]));
    let mut none = Fixture::new(1);
    assert_eq!(none.vm.fill_random(&mut seed, 0, 0), Err(NoStream));
    assert_eq!(call(&mut none, RND64, 64)[0], NO_ENTROPY);
}

#[test]
fn aarch32_has_the_calls_with_32_bits_alone() {
    let mut vm = vm(true);
    vm.regs[0].pstate = 0x1d3;
    assert!(vm.regs[0].is_aarch32());
    assert_eq!(call(&mut vm, RND64, 64)[0] as u32, u32::MAX);
    assert_eq!(call(&mut vm, RND32, 96)[0], 0);
    let known = call(&mut vm, function::TRNG_FEATURES, RND64.into())[0];
    assert_eq!(known as u32, u32::MAX);
}
