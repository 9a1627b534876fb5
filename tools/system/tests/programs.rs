//! ELF files and flat binaries as kernels, and where everything lies: held against what QEMU 10's
//! `-kernel` does, as its monitor's `info roms` tells it.

mod common;

use common::{SOUND, elf, gzip, hypervisor, kernel, load, zimage};
use hanok_config::{BlobKind, System};
use hanok_system::{Diagnostic, Files};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

/// A VM that boots `boot` on a board, with so much memory and an initramfs of so many bytes.
fn system(
    boot: &[u8],
    arm: bool,
    memory: u64,
    initramfs: Option<usize>,
) -> Result<(System, Vec<u8>), Vec<Diagnostic>> {
    let text = SOUND.replace("512M", &format!("{}M", memory / MIB));
    let text = if arm {
        text.replace("debian:6.1", "debian:6.1:armhf")
    } else {
        text
    };
    let files = Files {
        boot: boot.to_vec().into(),
        initramfs: initramfs.map(|len| vec![7; len].into()),
        variables: Default::default(),
        raw: None,
    };
    let image = load(&text)?.build(&hypervisor(5000, 8192), &[files], None, &[0; 32])?;
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap()) as usize;
    let payload = image[word(80)..word(80) + word(88)].to_vec();
    Ok((
        System::parse(&payload, payload.len() as u64).unwrap(),
        payload,
    ))
}

/// Where kernel, initramfs and tree begin, where the CPU does, and what it is told.
fn places(boot: &[u8], arm: bool, memory: u64, initramfs: Option<usize>) -> [u64; 5] {
    let (system, _) = system(boot, arm, memory, initramfs).unwrap();
    let vm = &system.vms[0];
    let of = |kind| {
        let mut blobs = vm.blobs.iter();
        let blob = blobs.find(|blob| blob.kind == kind);
        blob.map_or(0, |blob| blob.load.get())
    };
    [
        of(BlobKind::Kernel),
        of(BlobKind::Initramfs),
        of(BlobKind::DeviceTree),
        vm.entry.get(),
        vm.argument,
    ]
}

fn refused(boot: &[u8], arm: bool, initramfs: Option<usize>) -> String {
    let found = system(boot, arm, 256 * MIB, initramfs).unwrap_err();
    assert!(!found[0].why.is_empty() && !found[0].remedy.is_empty());
    found[0].what.clone()
}

/// An Image that says where it is to lie, and takes 3 MiB.
fn image(text_offset: u64) -> Vec<u8> {
    let mut image = kernel(4096, 3 * MIB);
    image[8..16].copy_from_slice(&text_offset.to_le_bytes());
    image
}

fn flat() -> Vec<u8> {
    [&[0, 0, 0, 0x14], &[0; 4092][..]].concat()
}

/// Each row is what QEMU 10.0.2 does with the same file.
#[test]
fn everything_lies_where_qemu_puts_it() {
    const INITRAMFS: Option<usize> = Some(0x12_3456);
    let linux = |kernel, initramfs, tree| [kernel, initramfs, tree, kernel, tree];
    let rows = [
        // The first page of RAM is its boot loader's.
        (
            image(0),
            64,
            INITRAMFS,
            linux(0x4020_0000, 0x4200_0000, 0x4220_0000),
        ),
        (
            image(0),
            128,
            INITRAMFS,
            linux(0x4020_0000, 0x4400_0000, 0x4420_0000),
        ),
        (
            image(0),
            256,
            INITRAMFS,
            linux(0x4020_0000, 0x4800_0000, 0x4820_0000),
        ),
        (
            image(0),
            512,
            INITRAMFS,
            linux(0x4020_0000, 0x4800_0000, 0x4820_0000),
        ),
        (
            image(0x8_0000),
            256,
            None,
            linux(0x4008_0000, 0, 0x4800_0000),
        ),
        (
            image(0x48_0000),
            256,
            INITRAMFS,
            linux(0x4048_0000, 0x4800_0000, 0x4820_0000),
        ),
        // It does not say how much it takes, so nor where it lies.
        (
            kernel(4096, 0),
            256,
            None,
            linux(0x4008_0000, 0, 0x4800_0000),
        ),
        (
            flat(),
            256,
            INITRAMFS,
            linux(0x4008_0000, 0x4800_0000, 0x4820_0000),
        ),
    ];
    for (boot, memory, initramfs, expected) in rows {
        assert_eq!(
            places(&boot, false, memory * MIB, initramfs),
            expected,
            "{memory}"
        );
        assert_eq!(
            places(&gzip(&boot), false, memory * MIB, initramfs),
            expected
        );
    }
    let rows = [
        (
            flat(),
            256,
            INITRAMFS,
            linux(0x4001_0000, 0x4800_0000, 0x4812_4000),
        ),
        (
            flat(),
            64,
            INITRAMFS,
            linux(0x4001_0000, 0x4200_0000, 0x4212_4000),
        ),
        (flat(), 64, None, linux(0x4001_0000, 0, 0x4200_0000)),
        (
            zimage(4096),
            64,
            INITRAMFS,
            linux(0x4001_0000, 0x4200_0000, 0x4212_4000),
        ),
    ];
    for (boot, memory, initramfs, expected) in rows {
        assert_eq!(
            places(&boot, true, memory * MIB, initramfs),
            expected,
            "{memory}"
        );
    }
    // An ELF file has the tree at the start of RAM, and zeros in its registers.
    let high = elf(
        true,
        0x4040_0004,
        &[(0x4040_0000, 0x4040_0000, b"12345678", 4096)],
    );
    let expected = [0x4040_0000, 0, 0x4000_0000, 0x4040_0004, 0];
    assert_eq!(places(&high, false, 256 * MIB, None), expected);
    let moved = elf(
        true,
        0xffff_0000_0000_0100,
        &[(0x4040_0000, 0xffff_0000_0000_0000, &[0; 0x200], 0x200)],
    );
    let expected = [0x4040_0000, 0, 0x4000_0000, 0x4040_0100, 0];
    assert_eq!(places(&moved, false, 256 * MIB, None), expected);
    // There is no room for it.
    let low = elf(
        true,
        0x4000_0000,
        &[(0x4000_0000, 0x4000_0000, &[1; 64], 64)],
    );
    assert_eq!(
        places(&low, false, 256 * MIB, None),
        [0x4000_0000, 0, 0, 0x4000_0000, 0]
    );
    let small = elf(
        false,
        0x4040_0001,
        &[(0x4040_0000, 0x4040_0000, &[1; 64], 64)],
    );
    let expected = [0x4040_0000, 0, 0x4000_0000, 0x4040_0001, 0];
    assert_eq!(
        places(&small, true, 256 * MIB, None),
        expected,
        "an entry in T32"
    );
}

/// A kernel that would write over what lies where QEMU has it: there it would not start.
#[test]
fn what_is_loaded_lies_behind_all_that_the_kernel_takes() {
    let large = kernel(4096, 60 * MIB);
    let [_, initramfs, tree, ..] = places(&large, false, 128 * MIB, Some(5000));
    assert_eq!((initramfs, tree), (0x4400_0000, 0x4420_0000));
    let [_, initramfs, ..] = places(&large, false, 112 * MIB, Some(5000));
    assert_eq!(initramfs, 0x4020_0000 + 60 * MIB);
    let found = system(&large, false, 64 * MIB, None).unwrap_err();
    let needed: u64 = found[0]
        .remedy
        .split(['"', 'M'])
        .find_map(|word| word.parse().ok())
        .unwrap();
    assert!(
        system(&large, false, needed * MIB, None).is_ok(),
        "{}",
        found[0].remedy
    );
    assert!(
        system(&large, false, (needed - 2) * MIB, None).is_err(),
        "{}",
        found[0].remedy
    );
}

#[test]
fn elf_files_that_cannot_start_are_refused() {
    let one = |start: u64, entry: u64| elf(true, entry, &[(start, start, &[1; 64], 64)]);
    let refused_64 = |boot: &[u8]| refused(boot, false, None);
    assert_eq!(
        refused_64(&one(0, 0)),
        "a segment of this ELF file lies outside RAM"
    );
    let behind = one(0x40_0000_0000 + 0x4000_0000, 0);
    assert_eq!(
        refused_64(&behind),
        "a segment of this ELF file lies outside RAM"
    );
    let last = one(u64::MAX - 10, 0);
    assert_eq!(refused_64(&last), "this ELF file is damaged");
    // In the platform's RAM, and not in this VM's.
    let beyond = one(0x5000_0000, 0x5000_0000);
    assert_eq!(
        refused_64(&beyond),
        "the VM's memory is too small for what it boots"
    );
    for entry in [0, 0x4040_0040, 0x4040_0002, 0x4040_0001] {
        let what = "this ELF file's entry is no place in it where a program can begin";
        assert_eq!(refused_64(&one(0x4040_0000, entry)), what, "{entry:#x}");
    }
    let over = [
        (0x4040_0000, 0x4040_0000, &[1u8; 64][..], 4097),
        (0x4040_1000, 0x4040_1000, &[2; 64][..], 64),
    ];
    let what = "two segments of this ELF file overlap";
    assert_eq!(refused_64(&elf(true, 0x4040_0000, &over)), what);
    assert_eq!(
        refused_64(&elf(true, 0, &[])),
        "this ELF file has nothing to load"
    );
    let sound = one(0x4040_0000, 0x4040_0000);
    assert_eq!(
        refused_64(&sound[..sound.len() - 4]),
        "this ELF file is damaged"
    );
    assert_eq!(refused_64(&sound[..20]), "this ELF file is damaged");
    let mut big = sound.clone();
    (big[5], big[18], big[19]) = (2, 0, 183);
    // All other numbers are now read the other way round, which is said first.
    assert_eq!(refused_64(&big), "this ELF file is big-endian");
    let mut x86 = sound.clone();
    x86[18] = 62;
    assert_eq!(refused_64(&x86), "this kernel is an ELF file for x86");
    assert_eq!(
        refused(&sound, true, None),
        "this kernel is an ELF file for arm64"
    );
    let small = elf(
        false,
        0x4040_0000,
        &[(0x4040_0000, 0x4040_0000, &[1; 64], 64)],
    );
    assert_eq!(
        refused_64(&small),
        "this kernel is an ELF file for 32-bit ARM"
    );
    assert_eq!(
        refused(&sound, false, Some(100)),
        "`initramfs` beside an ELF file"
    );
    // More pieces than a VM can have, which would be one of gigabytes.
    let far: Vec<_> = (0..9)
        .map(|index| {
            (
                0x4040_0000 + index * 0x800_0000,
                0x4040_0000,
                &[1u8; 64][..],
                64,
            )
        })
        .collect();
    let what = "this ELF file's segments are too many and too far apart";
    assert_eq!(refused_64(&elf(true, 0x4040_0000, &far)), what);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What a VM's memory holds once everything is loaded is what the segments say, byte by byte,
    /// and zero everywhere else.
    #[test]
    fn segments_lie_where_they_say(
        gaps in proptest::collection::vec((1u64..40, 0u64..0x8000, 0u64..0x3000), 1..14),
        start in 0x4000_0000u64..0x4002_0000,
    ) {
        let (mut at, mut segments) = (start, Vec::new());
        for (index, (len, zeros, gap)) in gaps.iter().enumerate() {
            let bytes = vec![index as u8 + 1; (*len * 37) as usize];
            let all = bytes.len() as u64 + zeros;
            segments.push((at, bytes, all));
            at += all + gap;
        }
        let mut expected = vec![0; (at - 0x4000_0000) as usize];
        for (at, bytes, _) in &segments {
            let from = (at - 0x4000_0000) as usize;
            expected[from..from + bytes.len()].copy_from_slice(bytes);
        }
        let given: Vec<_> = segments.iter().rev()
            .map(|(at, bytes, all)| (*at, *at, bytes.as_slice(), *all))
            .collect();
        let boot = elf(true, (start + 3) & !3, &given);
        let (system, payload) = system(&boot, false, 64 * MIB, None).unwrap();
        let mut memory = vec![0; expected.len()];
        for blob in system.vms[0].blobs.iter().filter(|blob| blob.kind == BlobKind::Kernel) {
            let from = (blob.load.get() - 0x4000_0000) as usize;
            let bytes = &payload[blob.offset as usize..(blob.offset + blob.len) as usize];
            memory[from..from + bytes.len()].copy_from_slice(bytes);
        }
        prop_assert!(memory == expected);
        let has_tree = system.vms[0].blobs.iter().any(|blob| blob.kind == BlobKind::DeviceTree);
        prop_assert_eq!(has_tree, start >= 0x4001_0000);
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        at in 0usize..200,
        value: u8,
        arm: bool,
    ) {
        let _ = system(&bytes, arm, 64 * MIB, None);
        let mut boot = elf(!arm, 0x4040_0000, &[(0x4040_0000, 0x4040_0000, &[1; 64], 64)]);
        if let Some(byte) = boot.get_mut(at) {
            *byte = value;
        }
        let _ = system(&boot, arm, 64 * MIB, None);
    }
}
