//! Targets for files whose sensitive instructions are found and rewritten.

use hanok_previrt::site::Certainty;
use hanok_previrt::{
    Compression, Kind, Options, Patched, Scan, SideFile, Sites, Trampolines, patch, revert, sample,
    scan,
};

/// A scanned file is rewritten at its certain sites alone, and the rewrite can be undone; a refusal
/// says why. A rewritten file is not taken for an original.
pub fn previrt_file(data: &[u8]) {
    let scan = match scan(data) {
        Ok(scan) => scan,
        Err(refusal) => {
            assert!(!refusal.what.is_empty() && !refusal.why.is_empty());
            return assert!(!refusal.remedy.is_empty());
        }
    };
    // A program that is not Linux gets an area where the command line gives an address for it.
    let area = (scan.kind == Kind::Executable).then_some(0x8010_0000);
    let options = Options {
        area,
        in_place: true,
        ..Options::default()
    };
    let patched = patch(&scan, options).or_else(|_| patch(&scan, Trampolines::All));
    if let Ok(patched) = patched {
        previrt_rewritten(&scan, &patched);
    }
    for sites in [Sites::Silent, Sites::Frequent] {
        let options = Options {
            sites,
            inside: true,
            ..options
        };
        if let Ok(patched) = patch(&scan, options) {
            previrt_rewritten(&scan, &patched);
            assert!(patched.side.words.is_empty());
            assert!(patched.bytes.len() == scan.content.len());
            assert!(patched.side.reserved.is_empty() || sites == Sites::Frequent);
        }
    }
}

/// Only certain sites are changed, and that can be undone.
fn previrt_rewritten(scan: &Scan, Patched { bytes, side }: &Patched) {
    let appended = side.reserved.iter().any(|area| area.appended);
    assert!(bytes.len() == scan.content.len() || appended && bytes.len() > scan.content.len());
    let sure = scan
        .sites
        .iter()
        .filter(|site| site.certainty == Certainty::Sure);
    assert_eq!(side.changes.len() + side.left.len(), sure.count());
    assert_eq!(
        side.doubtful.len() + side.changes.len() + side.left.len(),
        scan.sites.len()
    );
    let mut may_change = vec![false; bytes.len()];
    for change in &side.changes {
        let len = if change.narrow { 2 } else { 4 };
        may_change[change.offset..][..len].fill(true);
    }
    for header in &side.headers {
        may_change[header + 14..][..2].fill(true);
    }
    if side.tables.is_some() {
        may_change[28..50].fill(true);
    }
    for area in &side.reserved {
        may_change[area.offset..][..area.len as usize].fill(true);
    }
    let same = bytes
        .iter()
        .zip(&scan.content)
        .map(|(after, before)| after == before);
    assert!(same.zip(may_change).all(|(same, may)| same || may));
    assert!(revert(bytes, side).expect("what was done is undone") == scan.content);
}

/// Any bytes are a side file or are refused; none that is not a file's own turns that file into
/// another one.
pub fn previrt_side(data: &[u8]) {
    if let Ok(side) = SideFile::parse(data) {
        let again = SideFile::parse(side.to_json().as_bytes()).expect("its own form");
        assert!(again == side);
        assert!(revert(data, &side).is_err());
    }
}

/// What is unpacked is no larger than the limit.
pub fn previrt_unpack(data: &[u8]) {
    for compression in Compression::ALL {
        if let Ok(content) = compression.unpack(data) {
            assert!(content.len() <= hanok_previrt::container::unpack::MAX_CONTENT);
        }
    }
}

pub(crate) fn file_seeds() -> Vec<Vec<u8>> {
    let image = sample::image(true);
    vec![
        sample::zimage(&image),
        image,
        sample::image(false),
        sample::image_with_area(),
        sample::tight_image(),
        sample::init::init_kernel(sample::init::Linker::Gnu, false).image,
        sample::program::program(0x8000_0000).0,
        sample::object(1, 1, 40),
        sample::archive(),
    ]
}

pub(crate) fn side_seeds() -> Vec<Vec<u8>> {
    let side = |file: &[u8]| {
        let scan = scan(file).expect("a sound file");
        patch(&scan, Trampolines::All)
            .expect("it can be rewritten")
            .side
            .to_json()
            .into_bytes()
    };
    vec![side(&sample::object(1, 1, 40)), side(&sample::archive())]
}

pub(crate) fn unpack_seeds() -> Vec<Vec<u8>> {
    // seeds/text by each program.
    let packed: [&[u8]; 7] = [
        include_bytes!("../seeds/text.gz"),
        include_bytes!("../seeds/text.xz"),
        include_bytes!("../seeds/text.lzma"),
        include_bytes!("../seeds/text.lz4"),
        include_bytes!("../seeds/text.lz4f"),
        include_bytes!("../seeds/text.lzo"),
        include_bytes!("../seeds/text.zst"),
    ];
    packed.map(<[u8]>::to_vec).into()
}
