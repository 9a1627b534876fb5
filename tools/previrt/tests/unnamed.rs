//! Kernels whose kallsyms does not name the init code: where that is, the unwinder's index says.

use hanok_previrt::sample::FUNCTIONS;
use hanok_previrt::sample::init::{INIT_FUNCTIONS, InitKernel, Linker, STUB_SITES, init_kernel};
use hanok_previrt::site::{Certainty, Site};
use hanok_previrt::{Refusal, Scan, Trampolines, patch, revert, scan};
use proptest::prelude::*;

/// Three sites in each function.
const SITES: usize = 3 * (FUNCTIONS + INIT_FUNCTIONS) as usize + STUB_SITES;

fn word(image: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(image[at..at + 4].try_into().expect("four"))
}

fn put(image: &mut [u8], at: usize, word: u32) {
    image[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

fn sure(scan: &Scan) -> Vec<u32> {
    let sites = scan.sites.iter();
    let sure = sites.filter(|site| site.certainty == Certainty::Sure);
    sure.map(|site| site.address).collect()
}

/// The reason why the kernel without names is refused after `damage`.
fn refused(damage: impl Fn(&mut InitKernel)) -> Refusal {
    let mut kernel = init_kernel(Linker::Gnu, false);
    damage(&mut kernel);
    let refusal = scan(kernel.image).expect_err("it says too little");
    assert!(
        refusal.what.contains("does not name its init code"),
        "{refusal}"
    );
    refusal
}

#[test]
fn init_code_without_names_is_found_by_the_unwinders_index() {
    for linker in [Linker::Gnu, Linker::Lld] {
        let [named, unnamed] = [true, false].map(|named| {
            let kernel = init_kernel(linker, named);
            let (init, end) = (kernel.init, kernel.end);
            (scan(kernel.image).expect("sound"), init, end)
        });
        for (scan, _, end) in [&named, &unnamed] {
            assert_eq!(sure(scan).len(), SITES);
            assert_eq!(scan.sites.len(), SITES, "none is doubtful");
            let code = scan.code.as_ref().expect("an image");
            assert_eq!(code.end, Some(*end));
        }
        assert_eq!(sure(&named.0), sure(&unnamed.0));
        let (scan, init, _) = unnamed;
        let inside = |site: &&Site| init.contains(&site.offset);
        let mut inside = scan.sites.iter().filter(inside);
        assert!(inside.all(|site| scan.function(site) == Some(".init.text")));
    }
}

#[test]
fn what_is_rewritten_of_init_code_without_names_is_undone() {
    let kernel = init_kernel(Linker::Gnu, false);
    let scan = scan(&kernel.image).expect("sound");
    let patched = patch(&scan, Trampolines::All).expect("rewritten");
    assert_eq!(patched.side.changes.len(), SITES);
    // The literal of each function, its last word, is unchanged.
    for n in 1..=INIT_FUNCTIONS as usize {
        let literal = kernel.init.end - 32 * n + 28;
        assert_eq!(word(&patched.bytes, literal), 0xf10c_0080);
    }
    assert!(revert(&patched.bytes, &patched.side).expect("undone") == kernel.image);
}

#[test]
fn without_an_index_it_is_refused() {
    let refusal = refused(|kernel| kernel.image[kernel.index.clone()].fill(0));
    assert!(refusal.why.contains("CONFIG_ARM_UNWIND"), "{refusal}");
}

#[test]
fn without_its_vectors_it_is_refused() {
    // Neither the word in front of the stubs nor the vectors are enough alone.
    for (at, len) in [(32, 4), (0, 32)] {
        let refusal = refused(|kernel| {
            let at = kernel.init.start + at;
            kernel.image[at..at + len].fill(0);
        });
        assert!(refusal.why.contains("vectors"), "{refusal}");
    }
}

/// Entries behind a damaged one would be lost, and with them their functions.
#[test]
fn an_index_of_which_something_is_lost_is_refused() {
    let kernel = init_kernel(Linker::Gnu, false);
    let (entries, text) = (kernel.index.len() / 8, kernel.in_text);
    // In the first and the last half of the text's entries, at the ends of each part, and within
    // the init code's entries.
    let at = [
        1,
        text - 2,
        text - 1,
        text,
        text + 9,
        entries - 2,
        entries - 1,
    ];
    for n in at {
        let entry = |kernel: &InitKernel| kernel.index.start + 8 * n;
        let damaged = |word_of: usize, change: fn(u32) -> u32| {
            let refusal = refused(|kernel| {
                let at = entry(kernel) + word_of;
                let word = word(&kernel.image, at);
                put(&mut kernel.image, at, change(word));
            });
            assert!(refusal.why.contains("index"), "{n}: {refusal}");
        };
        damaged(0, |word| word | 1 << 31);
        damaged(0, |word| word ^ 1 << 30);
        damaged(0, |_| 0);
        damaged(4, |_| 0);
        damaged(4, |_| 0x4000_0000 - 1);
    }
    // The last entry closes the index.
    let last = |kernel: &mut InitKernel| put(&mut kernel.image, kernel.index.end - 4, 0x80b0_b0b0);
    assert!(refused(last).why.contains("damaged"));
}

#[test]
fn tables_that_do_not_follow_the_index_are_refused() {
    for other in [-8, 0x4000] {
        let refusal = refused(|kernel| {
            let at = kernel.index.start + 4;
            let table = word(&kernel.image, at).wrapping_add_signed(other);
            put(&mut kernel.image, at, table);
        });
        assert!(refusal.why.contains("damaged"), "{refusal}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A damaged index is refused, or leaves what is known of the text unchanged.
    #[test]
    fn a_damaged_index_is_no_panic(at in any::<proptest::sample::Index>(), to: u32, words in 1..4_usize) {
        let mut kernel = init_kernel(Linker::Gnu, false);
        let whole = scan(&kernel.image).expect("sound");
        let at = kernel.index.start + 4 * at.index(kernel.index.len() / 4 - words);
        for n in 0..words {
            put(&mut kernel.image, at + 4 * n, to.rotate_left(n as u32));
        }
        if let Ok(scan) = scan(&kernel.image) {
            let first = whole.base.expect("an image") + kernel.init.start as u32;
            let text = |scan: &Scan| -> Vec<u32> {
                sure(scan).into_iter().filter(|at| *at < first).collect()
            };
            prop_assert_eq!(text(&scan), text(&whole));
            let patched = patch(&scan, Trampolines::All).expect("rewritten");
            prop_assert!(revert(&patched.bytes, &patched.side).expect("undone") == kernel.image);
        }
    }
}
