//! Whole files: what is found in them, rewritten and undone; what is refused, and why.

use hanok_abi::trampoline::branch_target;
use hanok_previrt::oracle::{Comparison, Executed};
use hanok_previrt::site::{Certainty, is_tpidrurw};
use hanok_previrt::{
    Compression, Form, Kind, SideFile, Trampolines, patch, revert, rewritten, sample, scan,
};
use proptest::prelude::*;

/// Three sites in each function of the sample kernel.
const SITES: usize = 3 * sample::FUNCTIONS as usize;

#[test]
fn an_image_is_scanned_with_either_kallsyms() {
    for since_6_4 in [false, true] {
        let scan = scan(sample::image(since_6_4)).expect("a sound image");
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
    let scan = scan(sample::zimage(&image)).expect("a sound zImage");
    assert_eq!(scan.packed, Some(Compression::Gzip));
    assert!(scan.content == image);
}

#[test]
fn what_is_rewritten_is_undone_and_not_rewritten_again() {
    let files = [
        sample::image(true),
        sample::image_with_area(),
        sample::tight_image(),
        sample::object(1, 1, 40),
        sample::archive(),
    ];
    for before in files {
        let patched =
            patch(&scan(&before).expect("sound"), Trampolines::All).expect("it can be rewritten");
        let appended = patched.side.reserved.iter().any(|area| area.appended);
        assert!(patched.bytes != before && appended == (patched.bytes.len() > before.len()));
        let side = SideFile::parse(patched.side.to_json().as_bytes()).expect("its own form");
        assert_eq!(side, patched.side);
        assert!(revert(&patched.bytes, &side).expect("undone") == before);
        assert!(
            revert(&before, &side).is_err(),
            "it is not the rewritten file"
        );
        let again = scan(&patched.bytes)
            .and_then(|scan| patch(&scan, Trampolines::All))
            .unwrap_err();
        assert!(again.what.contains("already"), "{again}");
    }
}

#[test]
fn a_literal_stays_and_a_read_of_tpidrprw_does_not_trap() {
    let patched =
        patch(&scan(sample::image(true)).expect("sound"), Trampolines::All).expect("rewritten");
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
    let scan = scan(sample::object(1, 1, 40)).expect("sound");
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
            && let Ok(patched) = patch(&scan, Trampolines::All)
        {
            prop_assert!(revert(&patched.bytes, &patched.side).expect("undone") == scan.content);
        }
    }
}

#[test]
fn an_image_with_room_gets_trampolines_that_come_back() {
    let before = sample::image_with_area();
    let scan = scan(&before).expect("sound");
    let patched = patch(&scan, Trampolines::All).expect("rewritten");
    let area = patched.side.reserved[0];
    assert_eq!(patched.side.reserved.len(), 1);
    assert_eq!((area.offset, area.len % 0x3000), (0x1000, 0));
    let forms = |form| {
        let changes = patched.side.changes.iter();
        changes.filter(|change| change.form == form).count()
    };
    // Five pages before the text make one triple, in which not all trampolines fit.
    let (jumps, traps) = (forms(Form::Trampoline), forms(Form::Trap));
    assert!(jumps > 300 && traps > 0, "{jumps}, {traps}");
    let word = |address: u32| {
        let at = (address - sample::BASE) as usize;
        u32::from_le_bytes(patched.bytes[at..at + 4].try_into().expect("four"))
    };
    // Functions that might be copied elsewhere have no branch to far away.
    let last = patched.side.changes.iter().rev();
    let last = last.take(3 * (sample::FUNCTIONS - sample::ENTRY) as usize);
    assert!(last.clone().all(|change| change.form != Form::Trampoline));
    let jumps = patched.side.changes.iter();
    for change in jumps.filter(|change| change.form == Form::Trampoline) {
        let at = branch_target(change.is, change.address).expect("a branch");
        assert!((area.address..area.address + area.len).contains(&at));
        let store = word(at);
        assert_eq!(store & 0x0f10_0000, 0x0500_0000, "STR");
        let stores_pc = store >> 12 & 0xf == 15;
        assert_eq!(stores_pc, change.was == 0xf10c_0080);
        assert!(!stores_pc || (at + 8) & 0x80 != 0, "CPSID masks");
        assert_eq!(
            branch_target(word(at + 4), at + 4),
            Some(change.address + 4)
        );
    }
    let traps = |which| {
        let side = patch(&scan, which).expect("rewritten").side;
        let trap = side
            .changes
            .iter()
            .filter(|change| change.form == Form::Trap);
        let dacr = trap.clone().filter(|change| change.was == 0xee03_0f10);
        (trap.count(), dacr.count())
    };
    assert_eq!(traps(Trampolines::None), (2 * SITES / 3, SITES / 3));
    assert_eq!(traps(Trampolines::Strict).1, SITES / 3);
}

#[test]
fn what_is_rewritten_has_nothing_left_but_trampolines() {
    let patched = patch(
        &scan(sample::image_with_area()).expect("sound"),
        Trampolines::All,
    );
    let again = scan(&patched.expect("rewritten").bytes).expect("still an image");
    assert!(rewritten(&again));
    assert_eq!(again.areas.len(), 1);
    // TPIDRURW, which is read instead of TPIDRPRW, is legal in User mode.
    let mut left = again.sites.iter();
    assert!(left.all(|site| is_tpidrurw(&site.found)));
}

#[test]
fn what_was_executed_is_looked_for_at_both_addresses() {
    let scan = scan(sample::image_with_area()).expect("sound");
    let (at, literal) = (sample::BASE + 0x6008, sample::BASE + 0x601c);
    let text = |address: u32| format!("{address:08x} f10c0080 4\n");
    let physical = 0x4000_8000;
    let of = |text: String| Executed::parse(&text).expect("a list").of(&scan, physical);
    let found = of(text(at) + &text(at - sample::BASE + physical) + "00001000 f10c0080 4\n");
    assert_eq!((found.instructions, found.sensitive), (2, 2));
    assert!(found.missing.is_empty());
    assert_eq!(of(text(literal)).missing, [literal]);
    assert_eq!(of(format!("{literal:08x} b672 2\n")).sensitive, 1);
    assert!(Executed::parse("nonsense").is_err());
}

#[test]
fn an_image_is_compared_with_a_vmlinux_alone() {
    let image = scan(sample::image(true)).expect("sound");
    let object = scan(sample::object(1, 1, 40)).expect("sound");
    assert!(Comparison::new(&image, &object).is_err());
    assert!(!Comparison::default().is_right(), "nothing was compared");
}

/// Since Linux 7.2 kallsyms has whole addresses behind the tokens, and no base.
#[test]
fn kallsyms_without_a_base_is_read() {
    let mut image = sample::image(true);
    let (count, end) = (sample::FUNCTIONS as usize + 4, image.len() - 64);
    let word =
        |image: &[u8], at: usize| u32::from_le_bytes(image[at..at + 4].try_into().expect("four"));
    let base = word(&image, end - 4);
    assert_eq!(base & 0xf000_0000, sample::BASE & 0xf000_0000);
    for n in 0..count {
        let at = end - 4 - 4 * (count - n);
        let address = base + word(&image, at);
        image[at..at + 4].copy_from_slice(&address.to_le_bytes());
    }
    image[end - 4..end].fill(0);
    let scan = scan(&image).expect("a sound image");
    assert_eq!((scan.base, scan.sites.len()), (Some(sample::BASE), SITES));
    // Without any addresses, the refusal says that there are none, and not that there are no names.
    image[end - 4 - 4 * count..end].fill(0);
    let refusal = hanok_previrt::scan(&image).unwrap_err();
    assert!(refusal.what.contains("no addresses"), "{refusal}");
}

/// GNU ld puts symbols without a name into T32 kernels, where it adds branches for Cortex-A8's
/// erratum.
#[test]
fn a_symbol_without_a_name_does_not_hide_all_names() {
    let mut image = sample::image(true);
    let (from, to) = (
        b"\x0btfunction_5\x0btfunction_6",
        b"\x01t\x15tfunction_6and_so_on_",
    );
    let mut windows = image.windows(from.len());
    let at = windows.position(|bytes| bytes == from).expect("two names");
    image[at..at + to.len()].copy_from_slice(to);
    let scan = scan(&image).expect("a sound image");
    let name = |n: usize| scan.function(&scan.sites[3 * n]);
    let names = [4, 5, 6].map(name);
    let wanted = ["function_4", "", "function_6and_so_on_"];
    assert_eq!(names, wanted.map(Some));
    assert_eq!(scan.sites.len(), SITES);
}

/// Where such a symbol stands right before `_einittext`, Linux's own program loses that symbol, and
/// the init code has no names: code that nothing names would silently be missed.
#[test]
fn an_image_that_does_not_name_its_init_code_is_refused() {
    let mut image = sample::image(true);
    let name = b"T_einittext";
    let at = image.windows(name.len()).position(|bytes| bytes == name);
    image[at.expect("its name") + 2] = b'x';
    let refusal = hanok_previrt::scan(&image).unwrap_err();
    assert!(
        refusal.what.contains("does not name its init code"),
        "{refusal}"
    );
}

/// The linked sample, with the header of its first section of code changed by `change`. It gets the
/// header's first words: name, type, flags, address.
fn with_header(change: impl Fn(&mut [u32; 4])) -> Vec<u8> {
    let (mut file, _) = sample::program::program(0x4080_0000);
    let word =
        |file: &[u8], at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four"));
    let table = word(&file, 32) as usize;
    let count = usize::from(u16::from_le_bytes([file[48], file[49]]));
    let mut headers = (0..count).map(|n| table + 40 * n);
    let code = headers.find(|at| word(&file, at + 8) & 4 != 0);
    let at = code.expect("a section of code");
    let mut words = [0, 4, 8, 12].map(|field| word(&file, at + field));
    change(&mut words);
    for (n, word) in words.iter().enumerate() {
        file[at + 4 * n..at + 4 * n + 4].copy_from_slice(&word.to_le_bytes());
    }
    file
}

#[test]
fn code_where_none_can_be_is_refused() {
    assert!(scan(with_header(|_| ())).is_ok());
    let odd = scan(with_header(|words| words[3] |= 1)).unwrap_err();
    assert!(odd.why.contains("even addresses"), "{odd}");
    let beyond = scan(with_header(|words| words[3] = 0xffff_fff0)).unwrap_err();
    assert!(beyond.why.contains("addresses end"), "{beyond}");
    let unknown = scan(with_header(|words| words[1] = 0x7fff_0000)).unwrap_err();
    assert!(unknown.what.contains("type 0x7fff0000"), "{unknown}");
    let elsewhere = scan(with_header(|words| words[3] += 0x10_0000)).unwrap_err();
    assert!(elsewhere.why.contains("mapping symbols"), "{elsewhere}");
}
