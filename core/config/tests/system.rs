//! The system's tree: what is written is read back, and damage never gets through unseen.

use hanok_config::{Blob, BlobKind, Fault, Place, Structure, System, TreeError, VmConfig};
use hanok_types::{CpuId, Ipa, Span, platform};
use proptest::prelude::*;

const PAYLOAD: u64 = 0x1000_0000;

fn blob(kind: BlobKind, offset: u64, len: u64, load: u64) -> Blob {
    Blob {
        kind,
        offset,
        len,
        load: Ipa::new(load),
        sum: 0x0123_4567_89ab_cdef,
        seeds: heapless::Vec::new(),
    }
}

fn vm() -> VmConfig {
    let mut tree = blob(BlobKind::DeviceTree, 0x80_0000, 0x1000, 0x4600_0000);
    tree.seeds.push((0x40, 32)).unwrap();
    tree.seeds.push((0x80, 8)).unwrap();
    let blobs = [
        blob(BlobKind::Kernel, 0x1000, 0x20_0000, 0x4000_0000),
        blob(BlobKind::Initramfs, 0x30_0000, 0x12345, 0x4400_0000),
        tree,
    ];
    VmConfig {
        name: "linux".try_into().unwrap(),
        cpus: (0..4).map(CpuId::new).collect(),
        memory: Span::new(platform::RAM, 512 << 20).unwrap(),
        entry: platform::RAM,
        argument: 0x4600_0000,
        blobs: blobs.into_iter().collect(),
    }
}

fn system() -> System {
    let mut vms = heapless::Vec::new();
    vms.push(vm()).unwrap();
    System { vms }
}

/// What parsing says to the sound system after `change`.
fn refusal(change: impl FnOnce(&mut VmConfig)) -> Fault {
    let mut system = system();
    change(&mut system.vms[0]);
    let tree = system.to_tree();
    match System::parse(&tree, PAYLOAD) {
        Err(TreeError::Rule(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_written_system_is_read_back() {
    let mut tree = system().to_tree();
    assert_eq!(System::parse(&tree, PAYLOAD), Ok(system()));
    tree.extend([0xff; 100]);
    assert_eq!(System::parse(&tree, PAYLOAD), Ok(system()));
    assert_eq!(system().cpus_needed(), 4);
}

#[test]
fn every_rule_is_applied() {
    let (vm, cpu) = (0, CpuId::new(3));
    assert_eq!(refusal(|vm| vm.name.clear()), Fault::Name { vm });
    assert_eq!(refusal(|vm| vm.cpus.clear()), Fault::NoVcpu { vm });
    assert_eq!(refusal(|vm| vm.cpus[0] = cpu), Fault::CpuTaken { vm, cpu });
    let cpu = CpuId::new(8);
    assert_eq!(refusal(|vm| vm.cpus[0] = cpu), Fault::NoSuchCpu { vm, cpu });
    for (start, len) in [
        (0, 512 << 20),
        (0x4000_0000, 0),
        (0x4000_0000, 0x1800),
        (0x4000_0000, 1 << 40),
    ] {
        let memory = Span::new(Ipa::new(start), len).unwrap();
        assert_eq!(refusal(|vm| vm.memory = memory), Fault::Memory { vm });
    }
    for entry in [
        Ipa::new(0x3fff_fffc),
        Ipa::new(0x4000_0002),
        Ipa::new(0x6000_0000),
    ] {
        assert_eq!(refusal(|vm| vm.entry = entry), Fault::Entry { vm, entry });
    }
}

#[test]
fn every_rule_of_blobs_is_applied() {
    let (vm, blob) = (0, 1);
    assert_eq!(refusal(|vm| vm.blobs[1].len = 0), Fault::Empty { vm, blob });
    for offset in [PAYLOAD, 0x30_0004, u64::MAX - 7] {
        let fault = refusal(|vm| vm.blobs[1].offset = offset);
        assert_eq!(fault, Fault::OutsidePayload { vm, blob });
    }
    for load in [0, 0x5fff_fff8, 0x4400_0004, u64::MAX - 7] {
        let fault = refusal(|vm| vm.blobs[1].load = Ipa::new(load));
        assert_eq!(fault, Fault::OutsideMemory { vm, blob });
    }
    let fault = refusal(|vm| vm.blobs[1].load = Ipa::new(0x401f_fff8));
    assert_eq!(fault, Fault::Overlap { vm, blob });
    let fault = refusal(|vm| vm.blobs[2].kind = BlobKind::Initramfs);
    assert_eq!(fault, Fault::Seed { vm, blob: 2 });
    for seed in [(0xff8, 16), (0x40, 0), (u32::MAX, u32::MAX)] {
        let fault = refusal(|vm| vm.blobs[2].seeds[0] = seed);
        assert_eq!(fault, Fault::Seed { vm, blob: 2 });
    }
}

#[test]
fn other_trees_are_named_as_such() {
    let virt = include_bytes!("data/virt-gicv3.dtb");
    assert_eq!(System::parse(virt, PAYLOAD), Err(TreeError::NotASystem));
    let structure = |data: &[u8]| match System::parse(data, PAYLOAD) {
        Err(TreeError::Structure(structure)) => structure,
        other => panic!("{other:?}"),
    };
    assert_eq!(structure(&[]), Structure::Short);
    assert_eq!(structure(&[0; 64]), Structure::Magic);
    assert_eq!(structure(&virt[..100]), Structure::Short);
}

#[test]
fn refusals_say_where() {
    let error = TreeError::Missing {
        place: Place::Blob(0, 2),
        name: "load",
    };
    assert_eq!(
        error.to_string(),
        "blob 2 of vm 0: property load is missing"
    );
    let fault = Fault::Memory { vm: 0 };
    assert_eq!(
        fault.to_string(),
        "vm 0: memory must begin at 0x40000000, be whole pages, and be at most 255 GiB"
    );
}

/// Overwrites, cuts or fills parts of `tree`.
fn damage(tree: &mut Vec<u8>, changes: &[(usize, u8)], cut: Option<usize>) {
    for (at, byte) in changes {
        let at = at % tree.len();
        tree[at] = *byte;
    }
    if let Some(cut) = cut {
        tree.truncate(cut % tree.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn damage_is_refused_or_harmless(
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 1..8),
        cut in prop::option::weighted(0.3, any::<usize>()),
    ) {
        let mut tree = system().to_tree();
        damage(&mut tree, &changes, cut);
        if let Ok(system) = System::parse(&tree, PAYLOAD) {
            prop_assert_eq!(system.check(PAYLOAD), Ok(()));
        }
    }

    #[test]
    fn any_sound_system_survives_the_tree(
        name in "[a-z][a-z0-9-]{0,31}",
        cpus in 1..=8u8,
        pages in 0x4_0000..0x100_0000u64,
        argument: u64,
        sum: u64,
    ) {
        let mut system = system();
        let vm = &mut system.vms[0];
        vm.name = name.as_str().try_into().unwrap();
        vm.cpus = (0..cpus).rev().map(CpuId::new).collect();
        vm.memory = Span::new(platform::RAM, pages * 4096).unwrap();
        vm.argument = argument;
        vm.blobs[1].sum = sum;
        prop_assert_eq!(System::parse(&system.to_tree(), PAYLOAD), Ok(system));
    }

    #[test]
    fn any_bytes_are_refused(bytes: Vec<u8>) {
        prop_assert!(System::parse(&bytes, PAYLOAD).is_err());
    }
}
