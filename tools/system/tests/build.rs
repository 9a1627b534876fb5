//! Tests images: header, information block, payload, and the places of everything.

mod common;

use common::{SOUND, gzip, hypervisor, kernel, load, zimage};
use dtoolkit::Node;
use hanok_config::{BlobKind, System, sum};
use hanok_system::Files;
use hanok_types::{Ipa, platform};

const KEY: [u8; 32] = [0xa5; 32];

fn files(initramfs: usize) -> Files {
    Files {
        boot: kernel(100_000, 0x12_3456).into(),
        initramfs: (initramfs > 0).then(|| vec![7; initramfs].into()),
        variables: Default::default(),
        raw: None,
    }
}

fn build(files: Files) -> Vec<u8> {
    let description = load(SOUND).unwrap();
    description
        .build(&hypervisor(5000, 0x3_0123), &[files], None, &KEY)
        .unwrap()
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The payload, found as the board finds it.
fn payload(image: &[u8]) -> &[u8] {
    let [offset, len] = [80, 88].map(|at| u64_at(image, at) as usize);
    &image[offset..offset + len]
}

#[test]
fn the_header_tells_the_whole_and_the_block_tells_the_parts() {
    let image = build(files(5000));
    assert_eq!(u64_at(&image, 16), image.len() as u64);
    assert_eq!(&image[64..72], b"HANOKIMG");
    assert_eq!(u64_at(&image, 72), sum(&image[80..5000]));
    assert_eq!(u64_at(&image, 80), 0x3_1000);
    assert_eq!(u64_at(&image, 80) + u64_at(&image, 88), image.len() as u64);
    assert_eq!(u64_at(&image, 96), 0x0900_0000);
    let tree = &image[0x3_1000..];
    let len = u32::from_be_bytes(tree[4..8].try_into().unwrap()) as usize;
    assert_eq!(u64_at(&image, 104), sum(&tree[..len]));
    assert_eq!(image[112..144], KEY);
    assert!(image[5000..0x3_1000].iter().all(|byte| *byte == 0));
    assert_eq!(image.len() % 4096, 0);
    assert_eq!(image.capacity(), image.len(), "set aside in one go");
}

#[test]
fn the_board_finds_every_blob_as_it_was() {
    let files = files(5000);
    let image = build(files.clone());
    let payload = payload(&image);
    let system = System::parse(payload, payload.len() as u64).unwrap();
    let vm = &system.vms[0];
    let entry = Ipa::new(platform::RAM.get() + (2 << 20));
    assert_eq!((vm.entry, vm.cpus.len()), (entry, 2));
    let bytes: Vec<&[u8]> = vm
        .blobs
        .iter()
        .map(|blob| &payload[blob.offset as usize..(blob.offset + blob.len) as usize])
        .collect();
    for (blob, bytes) in vm.blobs.iter().zip(&bytes) {
        assert_eq!((blob.sum, blob.offset % 4096), (sum(bytes), 0));
    }
    assert_eq!(bytes[0], *files.boot);
    assert_eq!(bytes[1], *files.initramfs.unwrap());
    assert_eq!(vm.argument, vm.blobs[2].load.get());
    assert_eq!(vm.blobs[2].seeds.len(), 2);
}

#[test]
fn the_board_is_told_which_vm_is_aarch32() {
    let second = SOUND.replace("debian:6.1", "debian:6.1:armhf");
    let second = second.replace("linux", "small").replace("512M", "128M");
    let second = second.replace("board = \"qemu-virt\"\n", "");
    let both = SOUND.replace("512M", "256M") + &second;
    let arm = Files {
        boot: zimage(4096).into(),
        initramfs: None,
        variables: Default::default(),
        raw: None,
    };
    let image = load(&both)
        .unwrap()
        .build(&hypervisor(5000, 0x3_0123), &[files(0), arm], None, &KEY)
        .unwrap();
    let payload = payload(&image);
    let system = System::parse(payload, payload.len() as u64).unwrap();
    let [first, second] = &system.vms[..] else {
        panic!("{system:?}")
    };
    assert!(!first.aarch32 && second.aarch32);
    assert_eq!(second.entry, Ipa::new(platform::RAM.get() + 0x1_0000));
}

#[test]
fn things_lie_where_the_boot_protocol_wants_them() {
    let image = build(files(5000));
    let payload = payload(&image);
    let system = System::parse(payload, payload.len() as u64).unwrap();
    let [kernel, initramfs, tree] = &system.vms[0].blobs[..] else {
        panic!("{system:?}")
    };
    assert_eq!(kernel.load.get() % (2 << 20), 0);
    assert_eq!(initramfs.load, Ipa::new(0x4800_0000));
    assert_eq!(tree.load, Ipa::new(0x4820_0000));
    let bytes = &payload[tree.offset as usize..(tree.offset + tree.len) as usize];
    let tree = dtoolkit::fdt::Fdt::new(bytes).unwrap();
    let chosen = tree.find_node("/chosen").unwrap();
    let start = chosen.properties().find(|property| {
        use dtoolkit::Property;
        property.name() == "linux,initrd-start" && property.value() == 0x4800_0000u64.to_be_bytes()
    });
    assert!(start.is_some());
}

#[test]
fn a_vm_may_have_no_initramfs() {
    let image = build(files(0));
    let payload = payload(&image);
    let system = System::parse(payload, payload.len() as u64).unwrap();
    let kinds: Vec<BlobKind> = system.vms[0].blobs.iter().map(|blob| blob.kind).collect();
    assert_eq!(kinds, [BlobKind::Kernel, BlobKind::DeviceTree]);
}

#[test]
fn compressed_kernels_are_unpacked() {
    let plain = build(files(0));
    let packed = gzip(&files(0).boot);
    let mut zboot = vec![0; 64];
    zboot[0..2].copy_from_slice(b"MZ");
    zboot[4..8].copy_from_slice(b"zimg");
    zboot[8..12].copy_from_slice(&64u32.to_le_bytes());
    zboot[12..16].copy_from_slice(&(packed.len() as u32).to_le_bytes());
    zboot[24..29].copy_from_slice(b"gzip\0");
    zboot.extend(&packed);
    for kernel in [packed, zboot] {
        let files = Files {
            boot: kernel.into(),
            initramfs: None,
            variables: Default::default(),
            raw: None,
        };
        assert_eq!(build(files), plain);
    }
}

#[test]
fn what_cannot_be_built_is_refused() {
    let description = load(SOUND).unwrap();
    let refusal = |hypervisor: &[u8], files: &[Files]| {
        let found = description
            .build(hypervisor, files, None, &KEY)
            .unwrap_err();
        format!("{}:{} {}", found[0].line, found[0].column, found[0].what)
    };
    let sound = hypervisor(5000, 8192);
    assert_eq!(refusal(&sound, &[]), "0:0 0 sets of files for 1 VMs");
    let what = "0:0 this is not the hypervisor's binary";
    assert_eq!(refusal(&kernel(5000, 8192), &[files(0)]), what);
    assert_eq!(refusal(&sound[..100], &[files(0)]), what);
    let damaged = hypervisor(5000, 100);
    assert_eq!(
        refusal(&damaged, &[files(0)]),
        "0:0 the hypervisor's binary is damaged"
    );
    let mut wrong = files(0);
    wrong.boot = b"root:x:0:0\n".to_vec().into();
    let what = "5:10 this file is a text, no program";
    assert_eq!(refusal(&sound, &[wrong]), what);
    let mut large = files(1);
    large.initramfs = Some(vec![].into());
    assert_eq!(
        refusal(&sound, &[large.clone()]),
        "6:13 the initramfs is an empty file"
    );
    large.initramfs = Some(vec![0; 500 << 20].into());
    let what = "8:10 the VM's memory is too small for what it boots";
    assert_eq!(refusal(&sound, &[large.clone()]), what);
    large.initramfs = Some(vec![0; 450 << 20].into());
    let wide = load(&SOUND.replace("512M", "600M")).unwrap();
    let found = wide.build(&sound, &[large], None, &KEY).unwrap_err();
    assert_eq!((found[0].line, &*found[0].what), (8, "too much memory"));
}

#[test]
fn vms_with_one_kernel_share_it_in_the_image() {
    let second = SOUND
        .replace("linux", "other")
        .replace("board = \"qemu-virt\"\n", "");
    let both = SOUND.replace("512M", "256M") + &second.replace("512M", "256M");
    let build = |files: [Files; 2]| {
        let description = load(&both).unwrap();
        let image = description.build(&hypervisor(5000, 0x3_0123), &files, None, &KEY);
        let image = image.unwrap();
        let payload = payload(&image).to_vec();
        (
            System::parse(&payload, payload.len() as u64).unwrap(),
            payload,
        )
    };
    let other = Files {
        // Another kernel of the same length.
        boot: kernel(100_000, 0x12_3457).into(),
        ..files(50_000)
    };
    let (system, shared) = build([files(50_000), files(50_000)]);
    let [one, two] = [0, 1].map(|vm| &system.vms[vm].blobs);
    for (one, two) in one.iter().zip(two) {
        let own = one.kind == BlobKind::DeviceTree;
        assert_eq!(one.offset != two.offset, own, "{:?}", one.kind);
    }
    let (_, apart) = build([files(50_000), other]);
    assert_eq!(
        apart.len() - shared.len(),
        102_400,
        "the kernel, in whole pages"
    );
    let system = System::parse(&apart, apart.len() as u64).unwrap();
    let kernels = [0, 1].map(|vm| system.vms[vm].blobs[0].clone());
    for (blob, wanted) in kernels.iter().zip([0x12_3456, 0x12_3457]) {
        let bytes = &apart[blob.offset as usize..][..blob.len as usize];
        assert_eq!(bytes, kernel(100_000, wanted));
    }
}
