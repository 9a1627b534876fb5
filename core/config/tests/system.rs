//! The system's tree: what is written is read back, and damage never gets through unseen.

use hanok_config::{
    Ask, Blob, BlobKind, BoardTree, Claim, CorePolicy, Fault, Group, Line, PassThrough, Promise,
    Registers, Structure, System, Terms, Trace, TreeError, TreeNode, VmConfig, platform_slots,
};
use hanok_sched::{InterfaceError, Kind, Order, Share, Slack};
use hanok_types::{CpuId, GicVersion, Hpa, IntId, Ipa, MAX_CPUS, Span, VcpuId, VmId, platform};
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
        host_address: None,
    }
}

fn vm() -> VmConfig {
    let mut tree = blob(BlobKind::DeviceTree, 0x80_0000, 0x1000, 0x4600_0000);
    tree.seeds.push((0x40, 32)).unwrap();
    tree.seeds.push((0x80, 8)).unwrap();
    tree.host_address = Some(0x100);
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
        slots: platform_slots(),
        channels: Default::default(),
        devices: Default::default(),
        trusted: false,
        autostart: true,
        aarch32: false,
        rewritten: false,
        trampolines: None,
        watchdog: 0,
    }
}

/// Two VMs on the same pCPUs: one starts with a kernel and has a device, the other with a
/// firmware, has two devices, and waits.
fn pair() -> System {
    let mut first = vm();
    first.devices.push(device(0, 0x0903_0000, 7)).unwrap();
    let mut second = vm();
    second.name = "second".try_into().unwrap();
    second.autostart = false;
    second.trusted = true;
    second.aarch32 = true;
    second.rewritten = true;
    second.trampolines = Span::new(Ipa::new(0x4020_9000), 0x6000);
    second.entry = platform::FLASH;
    second.blobs[0].kind = BlobKind::Firmware;
    second.blobs[0].load = platform::FLASH;
    second.devices.push(device(0, 0x1000_0000, 40)).unwrap();
    second.devices.push(device(1, 0x1000_2000, 41)).unwrap();
    System {
        vms: [first, second].into_iter().collect(),
        gic: GicVersion::V2,
        slice: 500,
        policies: [CorePolicy::RoundRobin; MAX_CPUS],
        promises: Vec::new(),
        groups: Vec::new(),
        switch_cost: 3_000,
        trace: Trace {
            records: 4096,
            classes: 5,
        },
    }
}

/// A device of two pages at `host`, at the `place`-th place of its VM.
fn device(place: u64, host: u64, spi: u32) -> PassThrough {
    let registers = Registers {
        ipa: Ipa::new(platform::PASS_THROUGH.get() + place * 0x2000),
        host: Hpa::new(host),
        len: 0x2000,
    };
    let line = Line {
        guest: IntId::new(platform::PASS_THROUGH_IRQ.get() + place as u32),
        board: IntId::spi(spi),
        edge: place == 1,
    };
    PassThrough {
        name: "device@0".try_into().unwrap(),
        registers: [registers].into_iter().collect(),
        interrupts: [line].into_iter().collect(),
        trapped: place == 1,
    }
}

/// What parsing says to [`pair`] after `change`.
fn refusal_of_pair(change: impl FnOnce(&mut System)) -> Fault {
    let mut system = pair();
    change(&mut system);
    match System::parse(&system.to_tree(), PAYLOAD) {
        Err(TreeError::Rule(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn several_vms_with_devices_are_read_back() {
    assert_eq!(System::parse(&pair().to_tree(), PAYLOAD), Ok(pair()));
    assert!(pair().vms[0].firmware().is_none());
    assert_eq!(pair().vms[1].firmware(), Some(&pair().vms[1].blobs[0]));
}

#[test]
fn rules_of_the_whole_system_are_applied() {
    for slice in [0, 99, 1_000_001, u32::MAX] {
        let fault = refusal_of_pair(|system| system.slice = slice);
        assert_eq!(fault, Fault::Slice { slice });
    }
    let same = refusal_of_pair(|system| system.vms[1].name = system.vms[0].name.clone());
    assert_eq!(same, Fault::SameName { vm: 1 });
}

#[test]
fn a_firmware_lies_at_the_start_of_flash_and_is_alone() {
    let (vm, blob) = (1, 0);
    let fault = refusal_of_pair(|system| system.vms[1].blobs[0].load = Ipa::new(0x1000));
    assert_eq!(
        fault,
        Fault::Entry {
            vm,
            entry: platform::FLASH
        }
    );
    let fault = refusal_of_pair(|system| {
        system.vms[1].entry = platform::RAM;
        system.vms[1].blobs[0].load = Ipa::new(0x1000);
    });
    assert_eq!(fault, Fault::Firmware { vm, blob });
    let fault = refusal_of_pair(|system| system.vms[1].blobs[0].len = (64 << 20) + 1);
    assert_eq!(fault, Fault::Firmware { vm, blob });
    let fault = refusal_of_pair(|system| {
        let blob = &mut system.vms[1].blobs[1];
        (blob.kind, blob.load) = (BlobKind::Firmware, platform::FLASH);
    });
    assert_eq!(fault, Fault::SecondFirmware { vm, blob: 1 });
    let fault = refusal_of_pair(|system| system.vms[1].entry = Ipa::new(0x40_0000));
    assert!(matches!(fault, Fault::Entry { vm: 1, .. }));
}

#[test]
fn registers_have_places_of_their_own() {
    let (vm, device) = (1, 1);
    let changed = |change: fn(&mut Registers)| {
        refusal_of_pair(|system| change(&mut system.vms[1].devices[1].registers[0]))
    };
    let wrong: [fn(&mut Registers); 8] = [
        |range| range.ipa = Ipa::new(0x0bff_f000),
        |range| range.ipa = Ipa::new(0x0dff_f000),
        |range| range.ipa = Ipa::new(0x0c00_0800),
        |range| range.ipa = Ipa::new(u64::MAX - 0xfff),
        |range| range.len = 0,
        |range| range.len = 0x800,
        |range| range.host = Hpa::new(0x1000_2200),
        |range| range.host = Hpa::new(u64::MAX - 0xfff),
    ];
    for change in wrong {
        assert_eq!(changed(change), Fault::Registers { vm, device });
    }
    let overlap = changed(|range| range.ipa = Ipa::new(0x0c00_1000));
    assert_eq!(overlap, Fault::RegistersOverlap { vm, device });
    for host in [0x0903_1000, 0x1000_1000] {
        let twice = refusal_of_pair(|system| {
            system.vms[1].devices[1].registers[0].host = Hpa::new(host);
        });
        assert_eq!(twice, Fault::RegistersTwice { vm, device });
    }
    let none = refusal_of_pair(|system| system.vms[1].devices[1].registers.clear());
    assert_eq!(none, Fault::NoRegisters { vm, device });
    let name = refusal_of_pair(|system| system.vms[1].devices[1].name.clear());
    assert_eq!(name, Fault::DeviceName { vm, device });
}

#[test]
fn interrupts_are_given_once() {
    let (vm, device) = (1, 1);
    let changed = |change: &dyn Fn(&mut Line)| {
        refusal_of_pair(|system| change(&mut system.vms[1].devices[1].interrupts[0]))
    };
    for line in [
        IntId::spi(111),
        IntId::spi(112),
        IntId::spi(176),
        IntId::new(u32::MAX),
    ] {
        let fault = changed(&|changed| changed.guest = line);
        assert_eq!(fault, Fault::GuestLine { vm, device, line });
    }
    for line in [IntId::ppi(3), IntId::new(0), IntId::new(1020)] {
        let fault = changed(&|changed| changed.board = line);
        assert_eq!(fault, Fault::BoardLine { vm, device, line });
    }
    for line in [IntId::spi(7), IntId::spi(40)] {
        let fault = changed(&|changed| changed.board = line);
        assert_eq!(fault, Fault::BoardLineTwice { vm, device, line });
    }
}

#[test]
fn a_system_must_fit_its_board() {
    let tree = include_bytes!("data/virt-gicv2.dtb");
    let board = BoardTree::parse(tree).unwrap();
    assert_eq!(board.check(&pair().view()), Ok(()));
    let refusal = |change: &dyn Fn(&mut System)| {
        let mut system = pair();
        change(&mut system);
        board.check(&system.view()).unwrap_err()
    };
    assert_eq!(
        refusal(&|system| system.gic = GicVersion::V3),
        Fault::OtherGic {
            system: GicVersion::V3,
            board: GicVersion::V2
        }
    );
    let fault = refusal(&|system| system.vms[1].cpus[0] = CpuId::new(4));
    assert_eq!(fault, Fault::TooFewCpus { needed: 5, most: 4 });
    let own = Fault::OwnDevice { vm: 0, device: 0 };
    // Memory, the GIC's four frames, the console, the clock.
    for host in [
        0x4000_0000,
        0x7fff_f000,
        0x0800_f000,
        0x0801_0000,
        0x0803_0000,
        0x0804_e000,
        0x08ff_f000,
        0x0901_0000,
    ] {
        let fault = refusal(&|system| {
            system.vms[0].devices[0].registers[0].host = Hpa::new(host);
        });
        assert_eq!(fault, own, "{host:#x}");
    }
    let fault = refusal(&|system| system.vms[0].devices[0].interrupts[0].board = IntId::spi(1));
    assert_eq!(fault, own);
}

fn system() -> System {
    System {
        vms: vec![vm()],
        ..System::default()
    }
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
    assert_eq!(system().view().cpus_needed(), 4);
}

#[test]
fn every_rule_is_applied() {
    let (vm, cpu) = (0, CpuId::new(64));
    assert_eq!(refusal(|vm| vm.name.clear()), Fault::Name { vm });
    assert_eq!(refusal(|vm| vm.cpus.clear()), Fault::NoVcpu { vm });
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

/// What is at a bound is inside, and what is one further is not.
#[test]
fn bounds_are_exact() {
    let fault = |change: &dyn Fn(&mut VmConfig)| {
        let mut system = pair();
        change(&mut system.vms[1]);
        system.view().check(PAYLOAD).err()
    };
    let (vm, blob) = (1, 2);
    let memory = |len| fault(&|vm| vm.memory = Span::new(platform::RAM, len).unwrap());
    assert_eq!(memory(255 << 30), None);
    assert_eq!(memory((255 << 30) + 0x1000), Some(Fault::Memory { vm }));
    let firmware = |len| fault(&|vm| vm.blobs[0].len = len);
    assert_eq!(firmware(64 << 20), None);
    let too_long = Fault::Firmware { vm, blob: 0 };
    assert_eq!(firmware((64 << 20) + 1), Some(too_long));
    let source = |len| fault(&|vm| (vm.blobs[2].offset, vm.blobs[2].len) = (PAYLOAD - 0x2000, len));
    assert_eq!(source(0x2000), None);
    assert_eq!(source(0x2001), Some(Fault::OutsidePayload { vm, blob }));
    let seed = |offset, len| fault(&|vm| vm.blobs[2].seeds[1] = (offset, len));
    assert_eq!((seed(0xff8, 8), seed(0, 0x1000)), (None, None));
    for (offset, len) in [(0xff9, 8), (0xff8, 9), (0x1000, 1)] {
        assert_eq!(seed(offset, len), Some(Fault::Seed { vm, blob }));
    }
    let address = |offset| fault(&|vm| vm.blobs[2].host_address = Some(offset));
    assert_eq!(address(0xff8), None);
    assert_eq!(address(0xff9), Some(Fault::Seed { vm, blob }));
}

/// By the two lowest bits: AArch64 has words alone, AArch32 T32 code, too, which bit 0 tells.
#[test]
fn an_entry_is_where_an_instruction_can_be() {
    for (aarch32, allowed) in [
        (false, [true, false, false, false]),
        (true, [true, true, false, true]),
    ] {
        for (bits, allowed) in allowed.into_iter().enumerate() {
            let entry = Ipa::new(platform::RAM.get() + 0x8000 + bits as u64);
            let mut system = system();
            (system.vms[0].aarch32, system.vms[0].entry) = (aarch32, entry);
            let refused = Err(Fault::Entry { vm: 0, entry });
            let expected = if allowed { Ok(()) } else { refused };
            assert_eq!(system.view().check(PAYLOAD), expected, "{aarch32} {bits}");
        }
    }
}

/// Random bytes and the host address have their places in device trees alone.
#[test]
fn only_device_trees_are_filled_in() {
    for kind in [BlobKind::Kernel, BlobKind::Initramfs, BlobKind::DeviceTree] {
        for (seed, address) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut system = system();
            let blob = &mut system.vms[0].blobs[0];
            blob.kind = kind;
            blob.seeds.extend(seed.then_some((0x40, 8)));
            blob.host_address = address.then_some(0x80);
            let allowed = kind == BlobKind::DeviceTree || !seed && !address;
            let refused = Err(Fault::Seed { vm: 0, blob: 0 });
            let expected = if allowed { Ok(()) } else { refused };
            assert_eq!(
                system.view().check(PAYLOAD),
                expected,
                "{kind:?} {seed} {address}"
            );
        }
    }
}

/// The sum is of the tree alone, and the payload is as long as it is.
#[test]
fn a_tree_is_verified_by_its_sum() {
    let mut system = system();
    let blobs = &mut system.vms[0].blobs;
    blobs.truncate(1);
    (blobs[0].offset, blobs[0].len) = (0x1000, 0x123);
    let mut payload = system.to_tree();
    let (len, sum) = (payload.len(), hanok_config::sum(&payload));
    payload.resize(0x1123, 0xff);
    assert_eq!(System::verified(&payload, sum), Ok(system));
    let fault = Fault::OutsidePayload { vm: 0, blob: 0 };
    let short = System::verified(&payload[..0x1122], sum);
    assert_eq!(short, Err(TreeError::Rule(fault)));
    let other = System::verified(&payload, sum ^ 1);
    assert_eq!(other, Err(TreeError::Damaged));
    // A flipped bit of the magic number or of the length is seen before the sum.
    for bit in 0..len * 8 {
        payload[bit / 8] ^= 1 << (bit % 8);
        let found = System::verified(&payload, sum);
        match found {
            Err(TreeError::Damaged) => {}
            Err(TreeError::Structure(_)) => assert!(bit < 64, "{bit}"),
            _ => panic!("{bit}: {found:?}"),
        }
        payload[bit / 8] ^= 1 << (bit % 8);
    }
    payload[len] ^= 1;
    assert!(System::verified(&payload, sum).is_ok());
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
        place: TreeNode::Blob(0, 2),
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
        let mut tree = pair().to_tree();
        damage(&mut tree, &changes, cut);
        if let Ok(system) = System::parse(&tree, PAYLOAD) {
            prop_assert_eq!(system.view().check(PAYLOAD), Ok(()));
        }
    }

    #[test]
    fn any_sound_system_survives_the_tree(
        name in "[a-z][a-z0-9-]{0,31}",
        cpus in 1..=64u8,
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

#[test]
fn vcpus_of_a_shared_pcpu_have_bits_in_the_order_of_the_description() {
    let mut system = pair();
    let cpus = |of: &[u8]| of.iter().map(|cpu| CpuId::new(*cpu)).collect();
    system.vms[0].cpus = cpus(&[0, 1, 0]);
    system.vms[1].cpus = cpus(&[2, 0]);
    assert_eq!(bits(&system), [1, 0, 2, 0, 4], "alone on pCPUs 1 and 2");
    // As many as a pCPU chooses among, on the last one.
    system.gic = GicVersion::V3;
    system.vms[0].cpus = cpus(&[63; 33]);
    system.vms[1].cpus = cpus(&[63; 31]);
    assert!(
        bits(&system)
            .into_iter()
            .eq((0..64).map(|place| 1 << place))
    );
    assert_eq!(system.view().check(PAYLOAD), Ok(()));
    system.vms[1].cpus = cpus(&[63; 32]);
    let too_many = Fault::TooManyVcpus {
        cpu: CpuId::new(63),
    };
    assert_eq!(system.view().check(PAYLOAD), Err(too_many));
}

/// The bits of all vCPUs, in the description's order.
fn bits(system: &System) -> Vec<u64> {
    let mut places = system.view().places();
    let cpus = system.vms.iter().flat_map(|vm| &vm.cpus);
    cpus.map(|cpu| places.next_on(*cpu)).collect()
}

/// A GICv2 has eight CPU interfaces, of a VM, too.
#[test]
fn a_vm_has_64_vcpus_and_with_a_gicv2_eight() {
    let system = |gic, vcpus| {
        let mut system = pair();
        system.gic = gic;
        system.vms[1].cpus = (0..vcpus).map(CpuId::new).collect();
        system.view().check(PAYLOAD)
    };
    let fault = Fault::ManyVcpusOnGicv2 { vm: 1 };
    assert_eq!(system(GicVersion::V2, 8), Ok(()));
    assert_eq!(system(GicVersion::V2, 9), Err(fault));
    assert_eq!(system(GicVersion::V3, 64), Ok(()));
    assert!(
        fault
            .to_string()
            .ends_with("than a GICv2 has CPU interfaces, 8")
    );
}

#[test]
fn there_are_64_vms_and_no_more() {
    let mut system = system();
    for number in 1..64 {
        let mut another = vm();
        another.name = format!("vm{number}").as_str().try_into().unwrap();
        another.cpus = [CpuId::new(number)].into_iter().collect();
        system.vms.push(another);
    }
    assert_eq!(
        System::parse(&system.to_tree(), PAYLOAD),
        Ok(system.clone())
    );
    let mut last = vm();
    last.name = "last".try_into().unwrap();
    system.vms.push(last);
    let too_many = TreeError::TooMany {
        place: TreeNode::Root,
        what: "VMs",
        most: 64,
    };
    assert_eq!(System::parse(&system.to_tree(), PAYLOAD), Err(too_many));
}

fn promise(vm: u8, vcpu: u8) -> Promise {
    let ask = Ask {
        limit: 1 << 14,
        shortest: 1_000_000,
    };
    Promise {
        vm: VmId::new(vm),
        vcpu: VcpuId::new(vcpu),
        claim: Claim::Promise {
            group: 0,
            terms: terms(vcpu),
            ask,
        },
    }
}

fn terms(priority: u8) -> Terms {
    Terms {
        kind: Kind::Deferrable,
        period: 10_000_000,
        budget: 2_500_000,
        deadline: 10_000_000,
        priority: priority.into(),
    }
}

fn share(vm: u8, vcpu: u8, weight: u16, cap: Option<u8>) -> Promise {
    Promise {
        vm: VmId::new(vm),
        vcpu: VcpuId::new(vcpu),
        claim: Claim::Share(Share { weight, cap }),
    }
}

fn group(cpu: u8, home: u8) -> Group {
    Group {
        cpu: CpuId::new(cpu),
        home,
        order: Order::Priority,
        terms: terms(7),
    }
}

fn terms_of(promise: &mut Promise) -> &mut Terms {
    match &mut promise.claim {
        Claim::Promise { terms, .. } => terms,
        Claim::Share(_) => panic!("a share"),
    }
}

/// [`pair`], whose pCPUs 0 and 2 enforce what each VM's vCPU there is promised.
fn promised_pair() -> System {
    let mut system = pair();
    system.policies[0] = CorePolicy::Servers {
        order: Order::EarliestDeadline,
        slack: Slack::Idle,
    };
    system.policies[2] = CorePolicy::Servers {
        order: Order::Priority,
        slack: Slack::Reclaim,
    };
    for vm in 0..2 {
        system.promises.extend([promise(vm, 0), promise(vm, 2)]);
    }
    system
}

#[test]
fn promises_are_read_back() {
    let system = promised_pair();
    assert_eq!(
        System::parse(&system.to_tree(), PAYLOAD),
        Ok(system.clone())
    );
    let own = system.view().promise(VmId::new(1), VcpuId::new(2)).copied();
    assert_eq!(own, Some(promise(1, 2)));
    assert_eq!(system.view().promise(VmId::new(1), VcpuId::new(1)), None);
    assert_eq!(bits(&system), [1, 1, 1, 1, 2, 2, 2, 2]);
    let mut alone = system;
    alone.vms.truncate(1);
    assert_eq!(
        bits(&alone),
        [1, 0, 1, 0],
        "budgets hold back who is alone, too"
    );
    alone.promises.truncate(3);
    let misplaced = Fault::MisplacedPromise { vm: 1 };
    assert_eq!(alone.view().check(PAYLOAD), Err(misplaced));
}

#[test]
fn groups_and_shares_are_read_back() {
    let mut system = promised_pair();
    system.groups = vec![group(0, 0), group(2, 0), group(0, 1), group(0, 2)];
    let Claim::Promise { group: own, .. } = &mut system.promises[0].claim else {
        panic!("a share");
    };
    *own = 3;
    system.promises[1] = share(0, 2, 300, Some(40));
    system.promises[2] = share(1, 0, 1, None);
    let read = System::parse(&system.to_tree(), PAYLOAD).unwrap();
    // Groups come core by core.
    system.groups.sort_by_key(|group| group.cpu.index());
    assert_eq!(read, system);
    let homes = |cpu| {
        let view = system.view();
        view.groups_of(CpuId::new(cpu))
            .map(|g| g.home)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (homes(0), homes(1), homes(2)),
        (vec![0, 1, 2], vec![], vec![0])
    );
}

#[test]
fn misplaced_groups_are_refused() {
    let refusal = |groups: &[Group], own: u8| {
        let mut system = promised_pair();
        system.groups = groups.to_vec();
        let Claim::Promise { group, .. } = &mut system.promises[0].claim else {
            panic!("a share");
        };
        *group = own;
        match System::parse(&system.to_tree(), PAYLOAD) {
            Err(TreeError::Rule(fault)) => Some(fault),
            Ok(_) => None,
            other => panic!("{other:?}"),
        }
    };
    let wrong = |cpu, group| {
        let cpu = CpuId::new(cpu);
        Some(Fault::Group { cpu, group })
    };
    assert_eq!(refusal(&[group(0, 0)], 1), None);
    assert_eq!(
        refusal(&[group(0, 0)], 2),
        Some(Fault::MisplacedPromise { vm: 0 })
    );
    assert_eq!(
        refusal(&[group(2, 0)], 1),
        Some(Fault::MisplacedPromise { vm: 0 })
    );
    // In itself, in a later one, and where turns are taken.
    assert_eq!(refusal(&[group(0, 1)], 0), wrong(0, 0));
    assert_eq!(refusal(&[group(0, 0), group(0, 2)], 0), wrong(0, 1));
    let mut late = group(0, 0);
    late.terms.deadline += 1;
    assert_eq!(refusal(&[late], 0), wrong(0, 0));
    let many = vec![group(0, 0); 33];
    assert_eq!(refusal(&many, 0), wrong(0, 32));
    assert_eq!(refusal(&many[..32], 0), None);
}

#[test]
fn promises_that_no_server_can_keep_are_refused() {
    let refusal = |change: fn(&mut Promise)| {
        let mut system = promised_pair();
        change(&mut system.promises[3]);
        match System::parse(&system.to_tree(), PAYLOAD) {
            Err(TreeError::Rule(fault)) => fault,
            other => panic!("{other:?}"),
        }
    };
    let (vm, vcpu) = (1, VcpuId::new(2));
    let wrong = |error| Fault::Promise { vm, vcpu, error };
    type Case = (fn(&mut Promise), Fault);
    let cases: [Case; 8] = [
        (
            |one| terms_of(one).budget = 0,
            wrong(InterfaceError::NoBudget),
        ),
        (
            |one| terms_of(one).budget += 10_000_000,
            wrong(InterfaceError::BudgetOverDeadline),
        ),
        (
            |one| terms_of(one).deadline += 1,
            wrong(InterfaceError::DeadlineOverPeriod),
        ),
        (
            |one| terms_of(one).deadline -= 1,
            wrong(InterfaceError::DeadlineBeforePeriod),
        ),
        (
            |one| terms_of(one).period = u64::MAX,
            Fault::Period { vm, vcpu },
        ),
        (
            |one| one.vcpu = VcpuId::new(0),
            Fault::MisplacedPromise { vm },
        ),
        (
            |one| one.vcpu = VcpuId::new(4),
            Fault::MisplacedPromise { vm },
        ),
        (
            |one| one.vcpu = VcpuId::new(1),
            Fault::PromiseMismatch {
                vm,
                vcpu: VcpuId::new(1),
            },
        ),
    ];
    for (change, fault) in cases {
        assert_eq!(refusal(change), fault);
    }
    let mut system = promised_pair();
    system.policies[2] = CorePolicy::RoundRobin;
    let refused = System::parse(&system.to_tree(), PAYLOAD);
    let vcpu = VcpuId::new(2);
    assert_eq!(
        refused,
        Err(TreeError::Rule(Fault::PromiseMismatch { vm: 0, vcpu }))
    );
}
