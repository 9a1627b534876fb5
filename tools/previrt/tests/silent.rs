//! Traps alone ([`Sites::Silent`]): each holds its instruction, and nothing else is changed or added.

use hanok_abi::trap::{
    Original, original_a32, original_conditional, original_narrow, original_wide,
};
use hanok_previrt::sample::{self, program};
use hanok_previrt::site::Certainty;
use hanok_previrt::{Form, Options, Patched, Scan, Sites, patch, revert, rewritten, scan};
use std::collections::BTreeMap;

fn silent() -> Options {
    Options {
        sites: Sites::Silent,
        // They would be taken if they were allowed.
        in_place: true,
        ..Options::default()
    }
}

fn files() -> Vec<Vec<u8>> {
    let (program, _) = program::program(0x8000_0000);
    vec![
        sample::image(true),
        sample::image_with_area(),
        sample::tight_image(),
        sample::object(1, 1, 40),
        sample::archive(),
        program,
    ]
}

fn rewrite(file: &[u8]) -> (Scan, Patched) {
    let scan = scan(file).expect("sound");
    let patched = patch(&scan, silent()).expect("rewritten");
    (scan, patched)
}

/// The instruction that a trap holds.
fn original(is: u32, thumb: bool, narrow: bool) -> Option<u32> {
    match (thumb, narrow) {
        (false, _) => match original_a32(is)? {
            Original::Word(word) => Some(word),
            Original::Index(_) => None,
        },
        (true, true) => original_narrow(is as u16).map(u32::from),
        (true, false) => original_wide(is).or_else(|| original_conditional(is)),
    }
}

#[test]
fn each_trap_holds_its_instruction_and_needs_nothing_else() {
    for file in files() {
        let (scan, patched) = rewrite(&file);
        let side = &patched.side;
        assert!(!side.changes.is_empty());
        for change in &side.changes {
            assert_eq!(change.form, Form::Trap);
            let held = original(change.is, change.thumb, change.narrow);
            assert_eq!(held, Some(change.was), "{change:x?}");
        }
        assert!(side.words.is_empty(), "no table");
        assert!(side.reserved.is_empty() && side.tables.is_none());
        assert_eq!(patched.bytes.len(), scan.content.len());
        assert!(revert(&patched.bytes, side).expect("undone") == scan.content);
    }
}

#[test]
fn only_what_user_mode_does_silently_otherwise_is_changed() {
    for file in files() {
        let (scan, patched) = rewrite(&file);
        let changes = patched.side.changes.iter();
        let changed: BTreeMap<_, _> = changes.map(|change| (change.offset, change)).collect();
        let mut left = 0;
        for site in &scan.sites {
            let may = site.found.user.must_be_rewritten() && site.certainty == Certainty::Sure;
            let is_changed = changed.contains_key(&site.offset);
            assert!(may || !is_changed, "{site:x?}");
            left += usize::from(may && !is_changed);
        }
        // What is no change is as it was, the file's mark apart.
        let mut bytes = patched.bytes.clone();
        for change in changed.values() {
            let len = if change.narrow { 2 } else { 4 };
            let place = change.offset..change.offset + len;
            bytes[place.clone()].copy_from_slice(&scan.content[place]);
        }
        for header in &scan.headers {
            bytes[header + 14..header + 16].fill(0);
        }
        assert!(bytes == scan.content);
        let doubts = patched.side.doubtful.len() + patched.side.left.len() + changed.len();
        assert_eq!(doubts, scan.sites.len());
        assert!(left < 10, "{left} of {}", changed.len());
    }
}

#[test]
fn a_site_that_would_need_a_table_is_left() {
    // A caret and another base than SP: no SVC has room for it.
    let mut image = sample::image(true);
    let cpsid = 0xf10c_0080_u32.to_le_bytes();
    let first = image.chunks_exact(4).position(|word| word == cpsid);
    let at = 4 * first.expect("a sensitive instruction");
    image[at..at + 4].copy_from_slice(&0xe8d1_6fff_u32.to_le_bytes());
    let (scan, patched) = rewrite(&image);
    assert!(scan.sites.iter().any(|site| site.offset == at));
    assert!(patched.side.left.iter().any(|left| left.offset == at));
    assert_eq!(patched.bytes[at..at + 4], image[at..at + 4]);
    let with_table = patch(&scan, Options::default()).expect("rewritten");
    assert_eq!(with_table.side.words, [0xe8d1_6fff]);
}

#[test]
fn what_is_rewritten_is_known_as_such() {
    for file in files() {
        let (_, patched) = rewrite(&file);
        let again = hanok_previrt::scan(&patched.bytes).expect("still readable");
        assert!(rewritten(&again));
        assert!(patch(&again, silent()).is_err());
    }
}
