//! What somebody can do who has one VM: the reconstruction by which one VM's seed told another's
//! when the generator's key was the counter at boot, and its relatives.

use hanok_random::{OUTPUT, Pool, Source, Stream};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What a boot had: all that somebody can know or try out, and the image's key, if he has it.
#[derive(Clone, Copy)]
struct Boot {
    /// The counter as the pool was made; it goes on by `STEP` from look to look.
    counter: u64,
    key: Option<[u8; 32]>,
}

const STEP: u64 = 97;
const KEY: [u8; 32] = *b"a key of an image, 32 bytes long";

impl Boot {
    fn pool(self) -> Pool {
        let mut pool = Pool::new();
        pool.gather(Source::Board, &[]);
        pool.gather(Source::Build, &self.key.unwrap_or([0; 32]));
        for look in 0..64 {
            let counter = self.counter + look * STEP;
            pool.gather(Source::Jitter, &counter.to_le_bytes());
        }
        pool
    }

    /// The first seeds of VM 0 and of VM 1.
    fn seeds(self) -> [[u8; OUTPUT]; 2] {
        let mut pool = self.pool();
        [0, 1].map(|vm| pool.stream(vm, 1, self.counter, 0).draw(self.counter, 0))
    }
}

/// The boot that explains what VM 0 got, among all of a window of counters.
fn reconstruct(seed: [u8; OUTPUT], key: Option<[u8; 32]>) -> Option<Boot> {
    let mut boots = (1_000..6_000).map(|counter| Boot { counter, key });
    boots.find(|boot| boot.seeds()[0] == seed)
}

#[test]
fn a_seed_does_not_tell_another_vms_without_the_image_s_key() {
    let boot = Boot {
        counter: 3_141,
        key: Some(KEY),
    };
    let [of_a, of_b] = boot.seeds();
    assert!(reconstruct(of_a, None).is_none());
    // The attack itself is sound: where jitter is all there is, as the board then warns, it works.
    let weak = Boot { key: None, ..boot };
    let [weak_a, weak_b] = weak.seeds();
    let found = reconstruct(weak_a, None).expect("the counter was in the window");
    assert_eq!(found.seeds()[1], weak_b);
    assert!(!weak.pool().sources().suffice() && boot.pool().sources().suffice());
    assert_ne!(of_b, weak_b);
}

/// Every seed of all lives of all VMs, in the order in which they begin.
fn all_seeds() -> Vec<[u8; OUTPUT]> {
    let boot = Boot {
        counter: 1,
        key: Some(KEY),
    };
    let mut pool = boot.pool();
    let lives = (1..=16).flat_map(|life| (0..8).map(move |vm| (vm, life)));
    // Time stands still, which is the worst case.
    let drawn = lives.flat_map(|(vm, life)| {
        let mut stream = pool.stream(vm, life, 1, 0);
        (0..16).map(move |_| stream.draw(1, 0)).collect::<Vec<_>>()
    });
    drawn.collect()
}

#[test]
fn no_number_comes_twice_and_none_is_zero() {
    let seeds = all_seeds();
    let words: BTreeSet<&[u8]> = seeds.iter().flat_map(|seed| seed.chunks(8)).collect();
    assert_eq!(words.len(), seeds.len() * OUTPUT / 8);
    assert!(!words.contains(&[0; 8][..]));
}

/// Each bit of the output is set in half of all draws: 2048 of them, within six standard
/// deviations (22.6 each).
#[test]
fn bits_are_set_as_often_as_not() {
    let seeds = all_seeds();
    assert_eq!(seeds.len(), 2048);
    for bit in 0..OUTPUT * 8 {
        let set = |seed: &&[u8; OUTPUT]| seed[bit / 8] >> (bit % 8) & 1 == 1;
        let count = seeds.iter().filter(set).count();
        assert!(
            (1024 - 136..=1024 + 136).contains(&count),
            "bit {bit}: {count}"
        );
    }
}

/// Two streams of different VMs or lives, or made at different moments, differ in half of their
/// bits: 4096 of 8192, within six standard deviations (45.3 each).
fn unrelated(one: &mut Stream, other: &mut Stream) -> bool {
    let differing: u32 = (0..32)
        .flat_map(|_| one.draw(7, 0).into_iter().zip(other.draw(7, 0)))
        .map(|(one, other)| (one ^ other).count_ones())
        .sum();
    (4096 - 272..=4096 + 272).contains(&differing)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_bit_of_the_input_changes_half_of_the_output(bit in 0..256usize) {
        let boot = |key| Boot { counter: 1, key: Some(key) }.pool();
        let mut changed = KEY;
        changed[bit / 8] ^= 1 << (bit % 8);
        let (mut one, mut other) = (boot(KEY), boot(changed));
        prop_assert!(unrelated(&mut one.stream(0, 1, 1, 0), &mut other.stream(0, 1, 1, 0)));
    }

    #[test]
    fn vms_lives_and_moments_have_streams_of_their_own(
        vms in (0..8u8, 0..8u8), lives: (u32, u32), now: (u64, u64), jitter: (u32, u32),
    ) {
        prop_assume!((vms.0, lives.0, now.0, jitter.0) != (vms.1, lives.1, now.1, jitter.1));
        let pool = || Boot { counter: 1, key: Some(KEY) }.pool();
        let mut one = pool().stream(vms.0, lives.0, now.0, jitter.0);
        let mut other = pool().stream(vms.1, lives.1, now.1, jitter.1);
        prop_assert!(unrelated(&mut one, &mut other));
        // And of one pool, whatever they are named.
        let mut pool = pool();
        let (mut one, mut other) = (pool.stream(0, 1, 1, 0), pool.stream(0, 1, 1, 0));
        prop_assert!(unrelated(&mut one, &mut other));
    }

    #[test]
    fn what_is_gathered_in_other_pieces_is_something_else(
        bytes in prop::collection::vec(any::<u8>(), 1..40), zeros in 1..12usize,
    ) {
        let stream = |parts: &[&[u8]]| {
            let mut pool = Pool::new();
            parts.iter().for_each(|part| pool.gather(Source::Board, part));
            pool.stream(0, 1, 0, 0)
        };
        let longer = [&bytes[..], &[0; 12][..zeros]].concat();
        prop_assert!(unrelated(&mut stream(&[&bytes]), &mut stream(&[&longer])));
        let mut as_jitter = Pool::new();
        as_jitter.gather(Source::Jitter, &bytes);
        prop_assert!(unrelated(&mut stream(&[&bytes]), &mut as_jitter.stream(0, 1, 0, 0)));
    }
}

#[test]
fn only_what_is_long_and_varied_counts_as_a_source() {
    let sources = |bytes: &[u8]| {
        let mut pool = Pool::new();
        pool.gather(Source::Board, bytes);
        pool.sources()
    };
    let counts = |bytes: &[u8]| sources(bytes).contains(Source::Board);
    assert!(counts(b"sixteen bytes...") && !counts(b"fifteen bytes.."));
    assert!(!counts(&[]) && !counts(&[0; 64]) && !counts(&[0xff; 64]));
    let mut pool = Pool::new();
    pool.gather(Source::Jitter, b"0123456789abcdef");
    assert!(pool.sources().contains(Source::Jitter) && !pool.sources().suffice());
    for source in [Source::Board, Source::Cpu, Source::Build] {
        pool.gather(source, b"0123456789abcdef");
        assert!(pool.sources().contains(source) && pool.sources().suffice());
    }
}
