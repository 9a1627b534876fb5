//! Forms that do not trap, where there is room for trampolines inside the file ([`Sites::Frequent`]).

use hanok_abi::crossing::crossing_original;
use hanok_abi::trampoline::branch_target;
use hanok_previrt::sample::{self, program};
use hanok_previrt::site::{Certainty, is_tpidrurw};
use hanok_previrt::{Form, Options, Patched, Scan, Sites, patch, revert, rewritten, scan};
use std::collections::BTreeMap;

fn options(sites: Sites) -> Options {
    Options {
        sites,
        in_place: true,
        inside: true,
        ..Options::default()
    }
}

fn rewrite(file: &[u8], sites: Sites) -> (Scan, Patched) {
    let scan = scan(file).expect("sound");
    let patched = patch(&scan, options(sites)).expect("rewritten");
    (scan, patched)
}

#[test]
fn an_image_with_room_gets_trampolines_and_silent_traps() {
    let file = sample::image_with_area();
    let (scan, patched) = rewrite(&file, Sites::Frequent);
    let side = &patched.side;
    let [area] = &side.reserved[..] else {
        panic!("{:?}", side.reserved)
    };
    assert!(!area.appended);
    assert_eq!(patched.bytes.len(), scan.content.len());
    let (_, silent) = rewrite(&file, Sites::Silent);
    let traps: BTreeMap<_, _> = silent
        .side
        .changes
        .iter()
        .map(|change| (change.offset, change.is))
        .collect();
    let mut forms = BTreeMap::new();
    for change in &side.changes {
        *forms.entry(change.form).or_insert(0) += 1;
        match change.form {
            Form::Trampoline => {
                let to = branch_target(change.is, change.address).expect("a branch");
                assert!(to.wrapping_sub(area.address) < area.len, "{change:x?}");
            }
            Form::Word => assert_eq!((change.was ^ change.is, change.was & 0xfff), (0xc0, 0xf90)),
            Form::Trap => assert_eq!(traps.get(&change.offset), Some(&change.is)),
            Form::Crossing => {
                assert!(traps.contains_key(&change.offset), "{change:x?}");
                assert_eq!(
                    crossing_original(change.is),
                    Some(change.was),
                    "{change:x?}"
                );
            }
            form => panic!("{form:?} is not to be needed"),
        }
    }
    assert!(forms[&Form::Trampoline] > 0, "{forms:?}");
    assert!(revert(&patched.bytes, side).expect("undone") == scan.content);
    assert!(rewritten(
        &hanok_previrt::scan(&patched.bytes[..]).expect("sound")
    ));
}

/// What would be executed silently differently is never left, and TPIDRURW is the hypervisor's.
#[test]
fn nothing_is_left_that_user_mode_does_otherwise() {
    let file = sample::image_with_area();
    let (scan, patched) = rewrite(&file, Sites::Frequent);
    let (_, silent) = rewrite(&file, Sites::Silent);
    let changed = |patched: &Patched, offset| {
        let mut changes = patched.side.changes.iter();
        changes.any(|change| change.offset == offset)
    };
    for site in scan
        .sites
        .iter()
        .filter(|site| site.certainty == Certainty::Sure)
    {
        let must = is_tpidrurw(&site.found) || changed(&silent, site.offset);
        assert!(!must || changed(&patched, site.offset), "{site:x?}");
    }
}

#[test]
fn a_file_without_room_is_treated_as_silent() {
    let (program, _) = program::program(0x8000_0000);
    for file in [sample::image(true), program] {
        let (_, frequent) = rewrite(&file, Sites::Frequent);
        let (_, silent) = rewrite(&file, Sites::Silent);
        assert!(frequent.bytes == silent.bytes);
        assert!(frequent.side.reserved.is_empty());
    }
}
