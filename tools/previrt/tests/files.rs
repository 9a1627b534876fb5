//! Whole files: what is found in them, rewritten and undone; what is refused, and why.

use hanok_previrt::site::Certainty;
use hanok_previrt::{Compression, Form, Kind, SideFile, patch, revert, sample, scan};
use proptest::prelude::*;

/// Three in each function of the made-up kernel.
const SITES: usize = 3 * sample::FUNCTIONS as usize;

#[test]
fn an_image_is_scanned_with_either_kallsyms() {
    for since_6_4 in [false, true] {
        let scan = scan(&sample::image(since_6_4)).expect("a sound image");
        assert_eq!(
            (scan.kind.clone(), scan.base),
            (Kind::Image, Some(sample::BASE))
        );
        let sure = scan
            .sites
            .iter()
            .filter(|site| site.certainty == Certainty::Sure);
        assert_eq!((sure.count(), scan.sites.len()), (SITES, SITES));
        assert_eq!(scan.function(&scan.sites[3]), Some("function_1"));
    }
}

#[test]
fn a_zimage_gives_its_image() {
    let image = sample::image(true);
    let scan = scan(&sample::zimage(&image)).expect("a sound zImage");
    assert_eq!(scan.packed, Some(Compression::Gzip));
    assert!(scan.content == image);
}

#[test]
fn what_is_rewritten_is_undone_and_not_rewritten_again() {
    let files = [
        sample::image(true),
        sample::object(1, 1, 40),
        sample::archive(),
    ];
    for before in files {
        let patched = patch(&scan(&before).expect("sound")).expect("it can be rewritten");
        assert!(patched.bytes != before && patched.bytes.len() == before.len());
        let side = SideFile::parse(patched.side.to_json().as_bytes()).expect("its own form");
        assert_eq!(side, patched.side);
        assert!(revert(&patched.bytes, &side).expect("undone") == before);
        assert!(
            revert(&before, &side).is_err(),
            "it is not the rewritten file"
        );
        let again = scan(&patched.bytes)
            .and_then(|scan| patch(&scan))
            .unwrap_err();
        assert!(again.what.contains("already"), "{again}");
    }
}

#[test]
fn a_literal_stays_and_a_read_of_tpidrprw_does_not_trap() {
    let patched = patch(&scan(&sample::image(true)).expect("sound")).expect("rewritten");
    let function = patched.bytes.get(0x100..0x120).expect("the first function");
    let words: Vec<u32> = function
        .chunks(4)
        .map(|w| u32::from_le_bytes(w.try_into().expect("four")))
        .collect();
    assert_eq!(words[7], 0xf10c_0080, "the literal");
    assert_eq!(words[3], 0xee1d_1f50, "mrc p15, 0, r1, c13, c0, 2");
    assert_eq!(words[2] >> 24, 0xef, "svc");
    let forms = |form| {
        patched
            .side
            .changes
            .iter()
            .filter(|change| change.form == form)
            .count()
    };
    assert_eq!(
        (forms(Form::Trap), forms(Form::Word)),
        (SITES / 3 * 2, SITES / 3)
    );
}

#[test]
fn both_instruction_sets_of_an_object_are_found() {
    let scan = scan(&sample::object(1, 1, 40)).expect("sound");
    let at: Vec<u32> = scan.sites.iter().map(|site| site.address).collect();
    assert_eq!(at, [4, 8, 20, 22, 24], "the data at 16 is none");
}

#[test]
fn other_processors_files_are_refused_with_the_reason() {
    let cases = [
        (sample::object(2, 1, 183), "64-bit"),
        (sample::object(1, 2, 0), "big-endian"),
        (sample::object(2, 1, 62), "x86"),
        (sample::object(1, 1, 8), "another processor"),
        (Vec::new(), "empty"),
        (vec![0x55; 4096], "no symbols"),
    ];
    for (mut file, reason) in cases {
        if reason == "big-endian" {
            file[18..20].copy_from_slice(&[0, 40]);
        }
        let refusal = scan(&file).expect_err(reason);
        assert!(refusal.what.contains(reason), "{refusal}");
        assert!(!refusal.why.is_empty() && !refusal.remedy.is_empty());
    }
}

#[test]
fn a_zimage_that_does_not_unpack_is_refused() {
    let mut file = sample::zimage(&sample::image(true));
    let len = file.len();
    file[0x80..len - 8].fill(0);
    assert!(scan(&file).unwrap_err().what.contains("damaged"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_is_no_panic(kind in 0..4_u8, at in any::<proptest::sample::Index>(), to: u8, cut: bool) {
        let mut file = match kind {
            0 => sample::image(false),
            1 => sample::zimage(&sample::image(true)),
            2 => sample::object(1, 1, 40),
            _ => sample::archive(),
        };
        let at = at.index(file.len());
        file[at] = to;
        if cut {
            file.truncate(at);
        }
        if let Ok(scan) = scan(&file)
            && let Ok(patched) = patch(&scan)
        {
            prop_assert!(revert(&patched.bytes, &patched.side).expect("undone") == scan.content);
        }
    }
}
