//! Targets for device trees: the system's, the board's, and those written for guests.

use crate::bytes::Bytes;
use hanok_config::guest::{GuestDevice, GuestTree, Written};
use hanok_config::{
    Blob, BlobKind, BoardTree, Enable, Fault, Gic, HostDevice, HostTree, Line, PassThrough,
    Registers, SerialKind, Sum, System, VmConfig, assign, platform_slots, sum,
};
use hanok_memory::{Kept, Use};
use hanok_types::{
    Address, CpuId, GICV2_CPUS, GicVersion, Hpa, IntId, Ipa, MAX_VCPUS, PAGE_SIZE, Span, platform,
};

/// The payload from which a system's blobs come.
const PAYLOAD: u64 = 0x1000_0000;

/// A tree that is accepted as a system keeps every rule, and is the same after being written and
/// read.
pub fn system_tree(data: &[u8]) {
    match System::parse(data, PAYLOAD) {
        Ok(system) => {
            assert_eq!(system.view().check(PAYLOAD), Ok(()));
            assert!(system.view().cpus_needed() > 0);
            assert_eq!(System::parse(&system.to_tree(), PAYLOAD), Ok(system));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A tree that is accepted as a board has what every board has, and RAM that does not overlap.
pub fn board_tree(data: &[u8]) {
    let board = match BoardTree::parse(data) {
        Ok(board) => board,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(!board.ram.is_empty() && !board.cpus.is_empty());
    for (index, ram) in board.ram.iter().enumerate() {
        assert!(!ram.is_empty());
        assert!(
            board
                .ram
                .iter()
                .skip(index + 1)
                .all(|other| !ram.overlaps(other))
        );
    }
    assert!(board.reserved.iter().all(|span| !span.is_empty()));
    let timer = [
        board.timer.secure,
        board.timer.physical,
        board.timer.virt,
        board.timer.hyp,
    ];
    assert!(timer.into_iter().flatten().all(|id| id.is_private()));
    if let Gic::V3 {
        redistributors,
        stride,
        ..
    } = &board.gic
    {
        assert!(!redistributors.is_empty());
        assert!(stride.is_none_or(|stride| stride >= platform::GIC_REDIST_STRIDE));
    }
    check_registers(&board);
    check_plan(&board);
    // One input in four: writing a tree for a guest takes long.
    if sum(data).is_multiple_of(4) {
        devices(data);
    }
}

/// No register that the hypervisor uses is accessed unaligned, or beyond what is mapped.
fn check_registers(board: &BoardTree<'_>) {
    let used = |span: &Span<Hpa>, last: u64, bytes: u64| {
        let mapped = span.len().next_multiple_of(4096);
        assert!(
            span.start().get().is_multiple_of(bytes) && last + bytes <= mapped,
            "{span:?}"
        );
    };
    match &board.gic {
        // GICD_PIDR2; GICR_ICACTIVER0 of the second frame. Registers of 64 bits in both.
        Gic::V3 {
            distributor,
            redistributors,
            ..
        } => {
            used(distributor, 0xffe8, 8);
            redistributors
                .iter()
                .for_each(|region| used(region, 0x1_0380, 8));
        }
        // GICD_SGIR, GICC_IIDR, GICH_LR63.
        Gic::V2 {
            distributor,
            cpu,
            virtualization,
            ..
        } => {
            used(distributor, 0xf00, 4);
            used(cpu, 0xfc, 4);
            virtualization
                .iter()
                .for_each(|(control, _)| used(control, 0x1fc, 4));
        }
        // The last mask.
        Gic::Allwinner(registers) => used(registers, 0x58, 4),
    }
    // UARTICR or the line's status, RTCDR.
    board.console.iter().for_each(|port| {
        let last = match port.kind {
            SerialKind::Pl011 => 0x44,
            SerialKind::Ns16550 => 0x14,
        };
        used(&port.registers, last, 4);
    });
    board.rtc.iter().for_each(|clock| used(clock, 0, 4));
    for cpu in &board.cpus {
        match cpu.enable {
            Enable::SpinTable(at) => assert_eq!(at.get() % 8, 0),
            Enable::SystemFlags(at) => assert_eq!(at.get() % 4, 0),
            Enable::Psci | Enable::Unknown => {}
        }
    }
}

/// An image of two parts and a tree, at the start of RAM: where the hypervisor accepts them, it has
/// mapped them, each page once, and nothing that is reserved.
fn check_plan(board: &BoardTree<'_>) {
    let first = board.ram[0].start().align_up(4096).unwrap_or_default();
    let part = |page: u64, pages: u64| {
        let start = Hpa::new(first.get().saturating_add(page * 4096));
        Span::new(start, pages * 4096).unwrap_or_default()
    };
    let kept = Kept {
        own: part(512, 64),
        payload: part(576, 100),
        tree: part(256, 3),
        reserved: &board.reserved,
    };
    if kept.conflict(&board.ram).is_some() {
        return;
    }
    let mut read_only = 0;
    for ram in &board.ram {
        let mut end = Hpa::new(0);
        let each = |span: Span<Hpa>, what| -> Result<(), ()> {
            assert!(span.start() >= end && !span.overlaps(&kept.own));
            end = span.end();
            match what {
                Use::ReadOnly => read_only += span.len() / 4096,
                Use::Data => assert!(!board.reserved.iter().any(|kept| kept.overlaps(&span))),
            }
            Ok(())
        };
        assert_eq!(kept.each(*ram, each), Ok(()));
    }
    assert_eq!(read_only, 103);
}

/// A device that is found can be given to a VM without taking anything of the hypervisor's, and
/// keeps the rules of a system.
fn devices(tree: &[u8]) {
    let host = HostTree::parse(tree).expect("a board");
    let names = host.names();
    // The input's length picks one: checking all of them would take most of the time.
    let name = names.get(tree.len() % names.len().max(1));
    let name = name.map_or("serial0", String::as_str);
    for name in [name, "pl061"] {
        let device = match host.device(name) {
            Ok(device) => device,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                continue;
            }
        };
        let Some(given) = assign(std::slice::from_ref(&device)) else {
            continue;
        };
        let mut system = System {
            gic: host.board().gic_version(),
            ..system(1)
        };
        system.vms[0].cpus = [CpuId::new(0)].into_iter().collect();
        system.vms[0].devices = given;
        match system.view().check(PAYLOAD) {
            Ok(()) => assert_eq!(host.board().check(&system.view()), Ok(())),
            Err(fault) => assert!(matches!(fault, Fault::DeviceName { .. }), "{fault}"),
        }
        let memory = system.vms[0].memory;
        let written = guest_with(&device, &system.vms[0].devices[0], memory);
        assert!(BoardTree::parse(&written.bytes).is_ok());
    }
}

fn guest_with(host: &HostDevice, given: &PassThrough, memory: Span<Ipa>) -> Written {
    let devices = [GuestDevice { host, given }];
    let tree = GuestTree {
        name: "a",
        terminal: None,
        vcpus: 1,
        memory,
        bootargs: "",
        initramfs: None,
        reserved: None,
        gic: GicVersion::V3,
        slots: &platform_slots(),
        channels: &[],
        devices: &devices,
        back_ends: &[],
    };
    tree.write()
}

/// A guest's tree is a board's tree that says what was asked for; its seeds lie inside; and its
/// checksum does not depend on how it is cut into pieces, but on every bit.
pub fn guest_tree(data: &[u8]) {
    let mut input = Bytes(data);
    let wanted = usize::from(input.byte());
    let pages = 1 + u64::from(input.word() & 0x3ff_ffff);
    let memory = Span::new(platform::RAM, pages * PAGE_SIZE).expect("far from the top");
    let initramfs = input.flag().then(|| input.number());
    let initramfs = initramfs.and_then(|start| Span::new(Ipa::new(start), input.number()));
    let reserved = input.flag().then(|| input.number());
    let reserved = reserved.and_then(|start| Span::new(Ipa::new(start), input.number()));
    let gic = input.gic_version();
    let vcpus = 1 + wanted
        % match gic {
            GicVersion::V2 => GICV2_CPUS,
            GicVersion::V3 => MAX_VCPUS,
        };
    let (bit, cut) = (input.word() as usize, usize::from(input.half()));
    let bootargs = String::from_utf8_lossy(input.0).replace('\0', "");
    let tree = GuestTree {
        name: "a",
        terminal: None,
        vcpus,
        memory,
        bootargs: &bootargs,
        initramfs,
        reserved,
        gic,
        slots: &platform_slots(),
        channels: &[],
        devices: &[],
        back_ends: &[],
    };
    let mut written = tree.write();
    let board = BoardTree::parse(&written.bytes).expect("a sound tree");
    assert_eq!((board.cpus.len(), board.cpus_left_out), (vcpus, 0));
    assert_eq!(board.gic_version(), gic);
    assert!(board.cpus.iter().all(|cpu| cpu.enable == Enable::Psci));
    let [ram] = &board.ram[..] else {
        panic!("{:?}", board.ram)
    };
    assert_eq!(
        (ram.start().get(), ram.len()),
        (memory.start().get(), memory.len())
    );
    assert_eq!(
        (board.bootargs, board.rng_seed),
        (bootargs.as_str(), &[0; 32][..])
    );
    assert_eq!(
        board.rtc.map(|rtc| rtc.start().get()),
        Some(platform::RTC.get())
    );
    assert_eq!(written.seeds.len(), 2);
    for (offset, len) in written.seeds {
        let seed = &mut written.bytes[offset as usize..][..len as usize];
        assert!(seed.iter().all(|byte| *byte == 0));
        seed.fill(0xa5);
    }
    let board = BoardTree::parse(&written.bytes).expect("seeds change nothing else");
    assert_eq!(board.rng_seed, [0xa5; 32]);
    check_sum(&mut written.bytes, bit, cut);
}

fn check_sum(bytes: &mut [u8], bit: usize, cut: usize) {
    let whole = sum(bytes);
    let (first, second) = bytes.split_at(cut % bytes.len());
    let mut pieces = Sum::new();
    pieces.update(first);
    pieces.update(second);
    assert_eq!(pieces.finish(), whole);
    let bit = bit % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    assert_ne!(sum(bytes), whole);
}

pub(crate) fn board_seeds() -> Vec<Vec<u8>> {
    let files: [&[u8]; 4] = [
        include_bytes!("../../../core/config/tests/data/virt-gicv3.dtb"),
        include_bytes!("../../../core/config/tests/data/virt-gicv2.dtb"),
        include_bytes!("../../../core/config/tests/data/virt-max.dtb"),
        include_bytes!("../../../core/config/tests/data/virt-guest.dtb"),
    ];
    let mut seeds: Vec<Vec<u8>> = files.iter().map(|file| compact(file)).collect();
    seeds.push(guest(4));
    seeds
}

/// A tree without the space that QEMU leaves between its blocks and behind them.
fn compact(tree: &[u8]) -> Vec<u8> {
    let word = |at: usize| u32::from_be_bytes(tree[at..at + 4].try_into().expect("four")) as usize;
    let (nodes, strings) = (&tree[word(8)..][..word(36)], &tree[word(12)..][..word(32)]);
    let mut out = tree[..40].to_vec();
    out.extend([0; 16]);
    let places = [
        (16, 40),
        (8, 56),
        (12, 56 + nodes.len()),
        (4, 56 + nodes.len() + strings.len()),
    ];
    for (at, value) in places {
        out[at..at + 4].copy_from_slice(&(value as u32).to_be_bytes());
    }
    out.extend(nodes);
    out.extend(strings);
    out
}

fn guest(vcpus: usize) -> Vec<u8> {
    let memory = Span::new(platform::RAM, 512 << 20).expect("far from the top");
    let initramfs = Span::new(Ipa::new(0x4400_0000), 0x12345);
    let bootargs = "console=ttyAMA0";
    GuestTree {
        name: "a",
        terminal: None,
        vcpus,
        memory,
        bootargs,
        initramfs,
        reserved: None,
        gic: GicVersion::V3,
        slots: &platform_slots(),
        channels: &[],
        devices: &[],
        back_ends: &[],
    }
    .write()
    .bytes
}

pub(crate) fn system_seeds() -> Vec<Vec<u8>> {
    [1, 2, 8, 64].map(|vms| system(vms).to_tree()).into()
}

/// A sound system of up to 64 VMs.
fn system(vms: u8) -> System {
    System {
        vms: (0..vms).map(vm).collect(),
        ..System::default()
    }
}

fn vm(number: u8) -> VmConfig {
    let blob = |kind, index: u64, load: u64| Blob {
        kind,
        offset: 0x10_0000 * (index + 1 + 3 * u64::from(number)),
        len: 0x10_0000 - 8 * index,
        load: Ipa::new(load),
        sum: 0x0123_4567_89ab_cdef,
        seeds: heapless::Vec::new(),
        host_address: None,
    };
    let mut tree = blob(BlobKind::DeviceTree, 2, 0x4600_0000);
    tree.seeds = [(0x40, 32), (0x80, 8)].into_iter().collect();
    let kernel = blob(BlobKind::Kernel, 0, 0x4000_0000);
    let initramfs = blob(BlobKind::Initramfs, 1, 0x4400_0000);
    VmConfig {
        name: format!("linux-{number}")
            .as_str()
            .try_into()
            .expect("a short name"),
        cpus: [CpuId::new(number)].into_iter().collect(),
        memory: Span::new(platform::RAM, 512 << 20).expect("far from the top"),
        entry: platform::RAM,
        argument: 0x4600_0000,
        blobs: [kernel, initramfs, tree].into_iter().collect(),
        slots: platform_slots(),
        channels: Default::default(),
        devices: [device(number)].into_iter().collect(),
        trusted: number == 1,
        autostart: number != 2,
        aarch32: number == 2,
        rewritten: number == 3,
        trampolines: (number == 3)
            .then(|| Span::new(Ipa::new(0x4020_9000), 0xf_7000).expect("inside")),
        watchdog: 250 * u32::from(number),
    }
}

fn device(number: u8) -> PassThrough {
    let registers = Registers {
        ipa: platform::PASS_THROUGH,
        host: Hpa::new(0x1000_0000 + u64::from(number) * 0x2000),
        len: 0x2000,
    };
    let line = Line {
        guest: platform::PASS_THROUGH_IRQ,
        board: IntId::spi(40 + u32::from(number)),
        edge: number == 0,
    };
    PassThrough {
        name: "device@1000".try_into().expect("a short name"),
        registers: [registers].into_iter().collect(),
        interrupts: [line].into_iter().collect(),
        trapped: number == 1,
    }
}
