use super::*;
use crate::cache::Cache;
use hanok_previrt::{SideFile, revert, sample};

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::of(Cache::at(dir.path()).unwrap());
    (dir, store)
}

/// A file with these bytes in a folder of its own.
fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vmlinuz");
    fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn kernel(found: &Rewritten) -> (PathBuf, RawKernel) {
    match &found.outcome {
        Outcome::Kernel { image, memory, .. } => (image.clone(), *memory),
        Outcome::Refused(why) => panic!("{why}"),
        Outcome::LongDescriptors => panic!("long descriptors"),
    }
}

#[test]
fn a_second_run_uses_the_cache() {
    let (_dir, store) = store();
    let before = sample::tight_image();
    let (_kernel_dir, path) = file(&sample::zimage(&before));
    let first = store.rewritten(&path).unwrap().unwrap();
    let sites = u64::from(sample::FUNCTIONS);
    let line = format!(
        "kernel vmlinuz: unpacked, {sites} instructions rewritten, 0 lookalikes replaced, 0 doubtful"
    );
    assert_eq!((first.line(), first.cached), (line.clone(), false));
    let (image, memory) = kernel(&first);
    let bytes = fs::read(&image).unwrap();
    assert_ne!(bytes, before);
    // The zImage says zero: the kernel is linked 32 KiB behind the start of its memory.
    assert_eq!(memory.offset, 0x8000);
    let bss = before.len().next_multiple_of(0x1000) as u64;
    assert_eq!(memory.size, bss + u64::from(sample::BSS));
    let side = fs::read(image.with_file_name(SIDE)).unwrap();
    let side = SideFile::parse(&side).unwrap();
    assert!(revert(&bytes, &side).unwrap() == before);

    // What is in the cache now is not the rewriter's: so it was not called again.
    fs::write(&image, "from the cache").unwrap();
    let second = store.rewritten(&path).unwrap().unwrap();
    assert_eq!(second.line(), format!("{line} (cached)"));
    assert_eq!(kernel(&second), (image.clone(), memory));
    assert_eq!(fs::read(&image).unwrap(), b"from the cache");
    // Another name of the same content is the same entry; other content is another one.
    let (_other_dir, same) = file(&sample::zimage(&before));
    assert_eq!(kernel(&store.rewritten(&same).unwrap().unwrap()).0, image);
    fs::write(&same, sample::zimage(&sample::image(true))).unwrap();
    let other = store.rewritten(&same).unwrap().unwrap();
    assert!(!other.cached && kernel(&other).0 != image);
}

#[test]
fn what_is_not_whole_is_made_again() {
    let (_dir, store) = store();
    let (_kernel_dir, path) = file(&sample::zimage(&sample::image(true)));
    let (image, _) = kernel(&store.rewritten(&path).unwrap().unwrap());
    let whole = fs::read(&image).unwrap();
    for broken in [RECORD, IMAGE] {
        fs::remove_file(image.with_file_name(broken)).unwrap();
        // As a run leaves it that was interrupted.
        fs::create_dir(store.cache.path("tmp/left")).unwrap();
        let again = store.rewritten(&path).unwrap().unwrap();
        assert!(!again.cached, "{broken}");
        assert_eq!(fs::read(kernel(&again).0).unwrap(), whole);
        assert!(!store.cache.path("tmp/left").exists());
    }
}

#[test]
fn two_runs_at_once_make_it_once() {
    let (dir, _) = store();
    let before = sample::image_with_area();
    let (_kernel_dir, path) = file(&sample::zimage(&before));
    let run = || {
        let store = Store::of(Cache::at(dir.path()).unwrap());
        let found = store.rewritten(&path).unwrap().unwrap();
        (found.cached, fs::read(kernel(&found).0).unwrap())
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(all.iter().filter(|(cached, _)| !cached).count(), 1);
    assert!(all.iter().all(|(_, bytes)| bytes == &all[0].1));
    assert_eq!(all[0].1.len(), before.len());
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let (dir, store) = store();
    let (_kernel_dir, path) = file(&sample::zimage(&sample::image(true)));
    // A file is where the folder of such kernels is to be.
    fs::write(dir.path().join(REWRITTEN), "").unwrap();
    assert!(store.rewritten(&path).is_err());
    fs::remove_file(dir.path().join(REWRITTEN)).unwrap();
    assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
    assert!(!store.rewritten(&path).unwrap().unwrap().cached);
}

#[test]
fn code_in_t32_stays_as_it_is() {
    let options = Options {
        sites: Sites::Silent,
        ..Options::default()
    };
    let of = |file: Vec<u8>| {
        let scan = hanok_previrt::scan(file).unwrap();
        no_thumb(&hanok_previrt::rewrite(scan, options).unwrap().side)
    };
    assert!(of(sample::image(true)).is_ok());
    assert!(
        of(sample::object(1, 1, 40)).is_err(),
        "both instruction sets"
    );
}

#[test]
fn what_is_not_understood_is_used_as_it_is_and_remembered() {
    let (_dir, store) = store();
    let (_kernel_dir, path) = file(&sample::zimage(&vec![0x55; 4096]));
    for cached in [false, true] {
        let found = store.rewritten(&path).unwrap().unwrap();
        let line = found.line();
        assert!(line.starts_with("kernel vmlinuz: used as it is"), "{line}");
        assert_eq!((found.cached, line.ends_with("(cached)")), (cached, cached));
        assert!(!line.contains('\n'));
    }
    fs::write(&path, "no zImage").unwrap();
    assert_eq!(store.rewritten(&path).unwrap(), None);
}

/// In place of a read of TPIDRPRW, which each function of the sample has.
#[test]
fn a_kernel_with_long_descriptors_is_told_and_remembered() {
    let with = |word: u32| {
        let mut image = sample::image(true);
        let tpidrprw = 0xee1d_1f90_u32.to_le_bytes();
        let at = image.chunks(4).position(|word| word == tpidrprw).unwrap() * 4;
        image[at..at + 4].copy_from_slice(&word.to_le_bytes());
        file(&sample::zimage(&image))
    };
    // MRRC and MCRR of TTBR0 and TTBR1; of the former one, on condition.
    for word in [0xec54_3f02, 0xec43_2f02, 0xec43_2f12, 0x1c43_2f12] {
        let (_dir, store) = store();
        let (_kernel_dir, path) = with(word);
        for cached in [false, true] {
            let found = store.rewritten(&path).unwrap().unwrap();
            let got = (found.outcome, found.cached);
            assert_eq!(got, (Outcome::LongDescriptors, cached), "{word:#x}");
        }
    }
    // PAR, CNTVCT, and a register of Hyp mode.
    for word in [0xec54_3f07, 0xec51_0f1e, 0xec43_2f42] {
        let (_dir, store) = store();
        let (_kernel_dir, path) = with(word);
        let found = store.rewritten(&path).unwrap().unwrap();
        assert_ne!(found.outcome, Outcome::LongDescriptors, "{word:#x}");
    }
}

#[test]
fn a_zimage_says_where_its_kernel_runs() {
    let mut zimage = sample::zimage(&sample::tight_image());
    // The tag's fields of bss and TEXT_OFFSET (`sample::zimage`).
    let sizes = KernelSizes::of(&zimage).unwrap();
    assert_eq!((sizes.text_offset, sizes.bss), (Some(0), 0));
    zimage[0x4c..0x50].copy_from_slice(&0x10_0000_u32.to_le_bytes());
    zimage[0x50..0x54].copy_from_slice(&0x20_8000_u32.to_le_bytes());
    let Ok(Made::Kernel(_, memory)) = rewrite(zimage) else {
        panic!("no kernel");
    };
    assert_eq!(memory.offset, 0x20_8000);
    let len = sample::tight_image().len() as u64;
    assert_eq!(memory.size, len + 0x10_0000, "the larger of both");
    // Without its name, and without a table that clears it, nothing says how large the bss is.
    let mut zimage = sample::zimage(&sample::image(true));
    zimage[0x34..0x38].fill(0);
    let Err(refusal) = rewrite(zimage) else {
        panic!("not refused");
    };
    assert!(refusal.what.contains("how much memory"), "{refusal}");
}

#[test]
fn thousands_are_grouped() {
    let shown = [0, 999, 1000, 6312, 1_002_003].map(grouped);
    assert_eq!(shown, ["0", "999", "1,000", "6,312", "1,002,003"]);
}
