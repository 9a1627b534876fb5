//! Appended areas for trampolines: behind a kernel's `.bss`, and in a segment of an ELF file.

use hanok_abi::trampoline::{CODE, PAGE, TRIPLE, branch_target, t32};
use hanok_previrt::container::elf;
use hanok_previrt::sample::program::{Behind, Case, program};
use hanok_previrt::site::is_tpidrurw;
use hanok_previrt::{
    Form, Options, Patched, Reserved, Scan, Trampolines, patch, revert, rewritten, sample, scan,
};
use hanok_proof::is_part_of_doubt;

const BASE: u32 = 0x8000_0000;
const AREA: u32 = 0x8010_0000;

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"))
}

/// The addresses of the trampolines. All are within the code pages of the areas, and no two at one
/// place.
fn entries(patched: &Patched) -> Vec<u32> {
    let changes = patched.side.changes.iter();
    let jumps = changes.filter(|change| change.form == Form::Trampoline);
    let entries = jumps.map(|change| {
        if change.thumb {
            t32::entered(change.is, change.address).expect("B.W")
        } else {
            branch_target(change.is, change.address).expect("B")
        }
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort_unstable();
    let count = entries.len();
    entries.dedup();
    assert_eq!(entries.len(), count, "one place, two trampolines");
    for at in &entries {
        let area = patched.side.reserved.iter();
        let mut inside = area.filter(|area| (area.address..area.address + area.len).contains(at));
        let area = inside.next().expect("in an area");
        assert_eq!((at - area.address) / PAGE % 3, 1, "a code page");
        assert!(CODE.contains(&(at % PAGE)));
    }
    entries
}

/// Whether a word of the areas' code pages looks like an instruction that User mode executes wrongly.
fn looks_doubtful(patched: &Patched) -> bool {
    let areas = patched.side.reserved.iter();
    let mut pages = areas.flat_map(|area| {
        let pages = (0..area.len).step_by(PAGE as usize).skip(1).step_by(3);
        pages.map(|page| area.offset + page as usize)
    });
    pages.any(|page| {
        let bytes = &patched.bytes[page..page + PAGE as usize];
        let words = (0..PAGE as usize).step_by(4).map(|at| word(bytes, at));
        let words: Vec<_> = words.collect();
        words.iter().enumerate().any(|(n, is)| {
            let before = n.checked_sub(1).map(|n| words[n]);
            is_part_of_doubt(before, *is, words.get(n + 1).copied())
        })
    })
}

fn undone(scan: &Scan, patched: &Patched) {
    let before = revert(&patched.bytes, &patched.side).expect("undone");
    assert!(before == scan.content);
    let again = hanok_previrt::scan(&patched.bytes).expect("still readable");
    assert!(rewritten(&again));
    let areas = |area: &Reserved| area.address..area.address + area.len;
    let areas: Vec<_> = patched.side.reserved.iter().map(areas).collect();
    assert_eq!(again.areas, areas);
    assert!(again.sites.iter().all(|site| is_tpidrurw(&site.found)));
    let refused = patch(&again, Trampolines::All).expect_err("rewritten already");
    assert!(refused.what.contains("already"), "{refused}");
}

#[test]
fn behind_bss_is_room_for_an_image_without_any() {
    let before = sample::tight_image();
    let scan = scan(&before).expect("sound");
    let bss = sample::BASE + before.len().next_multiple_of(0x1000) as u32;
    let end = bss + sample::BSS;
    assert_eq!(scan.code.as_ref().and_then(|code| code.end), Some(end));
    let patched = patch(&scan, Trampolines::All).expect("rewritten");
    let [area] = patched.side.reserved[..] else {
        panic!("{:?}", patched.side.reserved);
    };
    assert_eq!(area.address, end.next_multiple_of(PAGE));
    assert_eq!(area.offset as u32, area.address - sample::BASE);
    assert_eq!(patched.bytes.len(), area.offset + area.len as usize);
    assert!(area.appended && area.len % TRIPLE == 0);
    // Beyond the original file, the image is as a loader would have it.
    assert!(
        patched.bytes[before.len()..area.offset]
            .iter()
            .all(|byte| *byte == 0)
    );
    // All sites of the entry code: CPSID and the write of DACR.
    assert_eq!(entries(&patched).len(), 2 * sample::ENTRY as usize);
    undone(&scan, &patched);
}

#[test]
fn where_a_gap_is_full_the_rest_is_behind_the_kernel() {
    // One triple of pages is in the image, and the options name a place for another.
    let scan = scan(sample::image_with_area()).expect("sound");
    let options = Options {
        area: Some((sample::BASE + scan.content.len() as u32).next_multiple_of(PAGE)),
        ..Options::default()
    };
    let patched = patch(&scan, options).expect("rewritten");
    let appended: Vec<_> = patched
        .side
        .reserved
        .iter()
        .map(|area| area.appended)
        .collect();
    assert_eq!(appended, [false, true]);
    assert_eq!(entries(&patched).len(), 2 * sample::ENTRY as usize);
    undone(&scan, &patched);
}

fn rewrite(in_place: bool) -> (Scan, Patched, Vec<Case>) {
    let (file, cases) = program(BASE);
    let scan = scan(&file).expect("sound");
    let options = Options {
        area: Some(AREA),
        in_place,
        ..Options::default()
    };
    let patched = patch(&scan, options).expect("rewritten");
    (scan, patched, cases)
}

#[test]
fn a_program_gets_a_segment_for_what_can_have_a_trampoline() {
    let (scan, patched, cases) = rewrite(true);
    assert_eq!(cases.len(), scan.sites.len());
    for case in &cases {
        let site = (case.entry & !1) + if case.inside { 2 } else { 0 };
        let change = patched
            .side
            .changes
            .iter()
            .find(|change| change.address == site);
        let form = change.map(|change| change.form);
        let trampoline = form == Some(Form::Trampoline);
        assert_eq!(trampoline, case.word.is_some(), "{case:x?} {form:?}");
        assert_eq!(
            change.map(|change| change.was),
            Some(case.bits),
            "{case:x?}"
        );
    }
    let thumb = |case: &&Case| case.entry & 1 == 1 && case.word.is_some();
    assert!(cases.iter().filter(thumb).count() > 50);
    let free = |case: &&Case| case.behind == Behind::RegisterAndFlags;
    assert!(cases.iter().any(|case| free(&case)));
    entries(&patched);
    assert!(!looks_doubtful(&patched));
    undone(&scan, &patched);
}

#[test]
fn the_segment_and_the_section_are_what_loaders_and_debuggers_read() {
    let (scan, patched, _) = rewrite(true);
    let [area] = patched.side.reserved[..] else {
        panic!("{:?}", patched.side.reserved);
    };
    let image = elf::parse(&patched.bytes).expect("an ELF file");
    let own = image.sections.last().expect("a section");
    assert_eq!(own.name, ".hanok.trampolines");
    assert_eq!(
        (own.address, own.offset, own.len as u32, own.executable),
        (area.address, area.offset, area.len, true)
    );
    assert_eq!(area.offset % PAGE as usize, 0);
    let segments: Vec<_> = image.segments.iter().map(elf::Segment::memory).collect();
    assert_eq!(segments.len(), scan.segments.len() + 1);
    assert_eq!(segments.last(), Some(&(AREA..AREA + area.len)));
    // Type, offset, virtual and physical address, sizes, flags, alignment of the new header.
    let at = word(&patched.bytes, 28) as usize + 32;
    let header: Vec<_> = (0..8).map(|n| word(&patched.bytes, at + 4 * n)).collect();
    let (offset, len) = (area.offset as u32, area.len);
    assert_eq!(header, [1, offset, AREA, AREA, len, len, 5, PAGE]);
    // No other section moved.
    for section in elf::parse(&scan.content).expect("sound").sections {
        assert!(image.sections.iter().any(|found| {
            (&found.name, found.offset, found.len) == (&section.name, section.offset, section.len)
        }));
    }
}

#[test]
fn without_a_word_a_program_that_is_no_linux_has_no_room_and_stays_nowhere() {
    let (file, _) = program(BASE);
    let scan = scan(&file).expect("sound");
    let patched = patch(&scan, Trampolines::All).expect("rewritten");
    assert!(patched.side.reserved.is_empty() && entries(&patched).is_empty());
    // No function of the program branches far away.
    let (_, patched, _) = rewrite(false);
    assert!(patched.side.reserved.is_empty() && entries(&patched).is_empty());
}

#[test]
fn memory_that_is_somebody_s_is_refused() {
    let (file, _) = program(BASE);
    let ask = |file: &[u8], area| {
        let options = Options {
            area: Some(area),
            in_place: true,
            ..Options::default()
        };
        let refusal = patch(&scan(file).expect("sound"), options).expect_err("not there");
        assert!(refusal.what.contains("no trampolines"), "{refusal}");
        refusal.why
    };
    assert!(ask(&file, BASE).contains("itself"));
    assert!(ask(&file, AREA + 4).contains("page"));
    assert!(ask(&sample::object(1, 1, 40), AREA).contains("link"));
    assert!(ask(&sample::archive(), AREA).contains("link"));
    let image = sample::tight_image();
    let bss = sample::BASE + image.len().next_multiple_of(0x1000) as u32;
    assert!(ask(&image, bss).contains("itself"));
    assert!(ask(&image, sample::BASE & !0xfff_ffff).contains("front"));
    // A program that its loader may move: its segment is PT_DYNAMIC.
    let mut moves = file;
    moves.splice(52..56, [2, 0, 0, 0]);
    assert!(ask(&moves, AREA).contains("elsewhere"));
}
