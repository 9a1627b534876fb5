//! Devices of the virtual platform: in the system's tree, in the guest's, and their rules.

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use hanok_config::guest::{GuestBackEnd, GuestDirectory, GuestImage, GuestSource, GuestTree};
use hanok_config::{
    Blob, BlobKind, DeviceKind, DeviceSlot, Fault, MAX_SLOTS, System, TreeError, TreeNode,
    VirtioKind, VmConfig, platform_slots,
};
use hanok_types::{CpuId, GicVersion, IntId, Ipa, Span, platform};

const PAYLOAD: u64 = 0x1000_0000;

fn system() -> System {
    let kernel = Blob {
        kind: BlobKind::Kernel,
        offset: 0x1000,
        len: 0x1000,
        load: platform::RAM,
        sum: 0,
        seeds: heapless::Vec::new(),
        host_address: None,
    };
    let vm = VmConfig {
        name: "one".try_into().unwrap(),
        cpus: [CpuId::new(0)].into_iter().collect(),
        memory: Span::new(platform::RAM, 64 << 20).unwrap(),
        entry: platform::RAM,
        argument: 0,
        blobs: [kernel].into_iter().collect(),
        slots: platform_slots(),
        channels: Default::default(),
        devices: heapless::Vec::new(),
        trusted: false,
        autostart: true,
        aarch32: false,
        rewritten: false,
        trampolines: None,
        watchdog: 0,
    };
    System {
        vms: [vm].into_iter().collect(),
        ..System::default()
    }
}

fn slot(kind: DeviceKind, start: u64, len: u64, interrupt: Option<u32>) -> DeviceSlot {
    DeviceSlot {
        kind,
        region: Span::new(Ipa::new(start), len).unwrap(),
        interrupt: interrupt.map(IntId::new),
        peer: None,
    }
}

/// What comes of one more slot.
fn with(slot: DeviceSlot) -> Result<System, TreeError> {
    let mut system = system();
    system.vms[0].slots.push(slot).unwrap();
    System::parse(&system.to_tree(), PAYLOAD)
}

/// The refusal of one more slot.
fn refusal(slot: DeviceSlot) -> Fault {
    match with(slot) {
        Err(TreeError::Rule(fault)) => fault,
        other => panic!("{slot:?}: {other:?}"),
    }
}

#[test]
fn slots_are_read_back_in_their_order() {
    let written = system();
    assert_eq!(System::parse(&written.to_tree(), PAYLOAD), Ok(written));
    let another = slot(DeviceKind::Pl031, 0x0902_0000, 0x1000, Some(35));
    let read = with(another).unwrap();
    assert_eq!(read.vms[0].slots.last(), Some(&another));
}

#[test]
fn a_slot_lies_where_nothing_else_does() {
    let (vm, index) = (0, platform_slots().len());
    for (start, len) in [
        (0x0900_0000, 0x1000),
        (0x0901_0ff8, 8),
        (0x0a00_3e00, 0x200),
        (0x0800_0000, 0x1000),
        (0x08ff_ffff, 1),
        (platform::PASS_THROUGH.get(), 0x1000),
        (0x0dff_ffff, 1),
        (platform::RAM.get() - 0xfff, 0x1000),
        (platform::RAM.get(), 0x1000),
        (1 << 40, 0x1000),
        (0x0902_0000, 0),
    ] {
        let fault = refusal(slot(DeviceKind::Pl031, start, len, None));
        assert_eq!(fault, Fault::SlotRegion { vm, slot: index }, "{start:#x}");
    }
    for (start, len) in [
        (0x0902_0000, 0x1000),
        (0x0a00_4000, 0x200),
        (0x0bff_f000, 0x1000),
        (0x0e00_0000, 0x1000),
        (platform::RAM.get() - 0x1000, 0x1000),
    ] {
        let read = with(slot(DeviceKind::Pl031, start, len, None));
        assert!(read.is_ok(), "{start:#x}: {read:?}");
    }
}

#[test]
fn an_interrupt_is_a_free_shared_one() {
    let (vm, index) = (0, platform_slots().len());
    let with_line = |line| slot(DeviceKind::Pl031, 0x0902_0000, 0x1000, Some(line));
    for line in [0, 31, 33, 34, 144, 207, 288, 1019, u32::MAX] {
        let fault = refusal(with_line(line));
        let line = IntId::new(line);
        let expected = Fault::SlotLine {
            vm,
            slot: index,
            line,
        };
        assert_eq!(fault, expected);
    }
    for line in [32, 35, 143, 208, 287] {
        assert!(with(with_line(line)).is_ok(), "{line}");
    }
}

#[test]
fn a_vm_has_one_serial_port_at_most() {
    let second = slot(DeviceKind::Pl011, 0x0902_0000, 0x1000, None);
    let expected = Fault::SecondOfItsKind {
        vm: 0,
        slot: platform_slots().len(),
    };
    assert_eq!(refusal(second), expected);
    let mut none = system();
    none.vms[0].slots.clear();
    assert_eq!(none.view().check(PAYLOAD), Ok(()));
}

#[test]
fn what_cannot_be_read_is_refused_by_its_place() {
    let tree = system().to_tree();
    let place = TreeNode::Slot(0, 0);
    let spoiled = |from: &[u8], to: &[u8]| {
        let mut tree = tree.clone();
        let at = tree.windows(from.len()).position(|bytes| bytes == from);
        let at = at.expect("it is in the tree");
        tree[at..at + to.len()].copy_from_slice(to);
        System::parse(&tree, PAYLOAD)
    };
    let name = "kind";
    let malformed = Err(TreeError::Malformed { place, name });
    assert_eq!(spoiled(b"pl011", b"pl012"), malformed);
    assert_eq!(place.to_string(), "slot 0 of vm 0");

    // One more than there is room for.
    let mut full = system();
    let slots = &mut full.vms[0].slots;
    while slots.len() < MAX_SLOTS {
        let start = 0x0e00_0000 + 0x1000 * slots.len() as u64;
        let another = slot(DeviceKind::Pl031, start, 0x1000, None);
        slots.push(another).unwrap();
    }
    assert!(System::parse(&full.to_tree(), PAYLOAD).is_ok());
}

#[test]
fn the_guest_s_tree_says_what_is_in_the_slots() {
    let mut slots = platform_slots();
    slots[0] = slot(DeviceKind::Pl011, 0x0905_0000, 0x1000, Some(40));
    slots[1] = slot(DeviceKind::Pl031, 0x0906_0000, 0x1000, None);
    let written = |slots: &[DeviceSlot]| {
        let tree = GuestTree {
            name: "one",
            terminal: None,
            vcpus: 1,
            memory: Span::new(platform::RAM, 64 << 20).unwrap(),
            bootargs: "",
            initramfs: None,
            reserved: None,
            gic: GicVersion::V3,
            slots,
            channels: &[],
            devices: &[],
            back_ends: &[],
        };
        tree.write().bytes
    };
    let bytes = written(&slots);
    let tree = Fdt::new(&bytes).unwrap();
    let port = tree.find_node("/pl011@9050000").expect("the serial port");
    let cells = port.property("interrupts").unwrap().value().to_vec();
    assert_eq!(cells, [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 4]);
    let clock = tree.find_node("/pl031@9060000").expect("the clock");
    assert!(clock.property("interrupts").is_none());
    let chosen = tree.find_node("/chosen").unwrap();
    let path = chosen.property("stdout-path").unwrap().value().to_vec();
    assert_eq!(path, b"/pl011@9050000\0");

    let bytes = written(&[]);
    let chosen = Fdt::new(&bytes).unwrap().find_node("/chosen").unwrap();
    assert!(chosen.property("stdout-path").is_none());
}

/// What a driver VM is told of a disk that is an image, and the input device by which a program of its Linux has the interrupt.
#[test]
fn the_guest_s_tree_names_the_images_that_it_serves() {
    let slots = [0, 1, 2, 3].map(|place| {
        let start = 0x0b10_0000 + 0x1000 * u64::from(place);
        slot(DeviceKind::BackEnd, start, 0x1000, Some(224 + place))
    });
    let directory = GuestDirectory {
        path: "/images/docs",
        tag: "docs",
        read_only: true,
    };
    let image = GuestImage {
        file: "/images/a.qcow2",
        format: "qcow2",
        read_only: true,
    };
    let back_end = |slot, source| GuestBackEnd {
        slot,
        client: "linux",
        kind: VirtioKind::Block,
        device: None,
        interface: None,
        cid: None,
        source,
    };
    let [first, second, third, fourth] = &slots;
    let tree = GuestTree {
        name: "storage",
        terminal: None,
        vcpus: 1,
        memory: Span::new(platform::RAM, 64 << 20).unwrap(),
        bootargs: "",
        initramfs: None,
        reserved: None,
        gic: GicVersion::V3,
        slots: &slots,
        channels: &[],
        devices: &[],
        back_ends: &[
            back_end(first, None),
            back_end(second, Some(GuestSource::Image(image))),
            back_end(third, Some(GuestSource::Tap("left"))),
            back_end(fourth, Some(GuestSource::Directory(directory))),
        ],
    };
    let bytes = tree.write().bytes;
    let tree = Fdt::new(&bytes).unwrap();
    let value = |path: &str, name: &str| {
        let node = tree.find_node(path).expect("the node");
        node.property(name)
            .map(|property| property.value().to_vec())
    };
    let node = "/back-end@b101000";
    assert_eq!(value(node, "hanok,image").unwrap(), b"/images/a.qcow2\0");
    assert_eq!(value(node, "hanok,format").unwrap(), b"qcow2\0");
    assert_eq!(value(node, "read-only").unwrap(), b"");
    assert_eq!(value(node, "hanok,kind").unwrap(), b"virtio-block\0");
    assert_eq!(value("/back-end@b100000", "hanok,image"), None);
    assert_eq!(value("/back-end@b102000", "hanok,tap").unwrap(), b"left\0");
    assert_eq!(value("/back-end@b102000", "read-only"), None);
    let shared = "/back-end@b103000";
    assert_eq!(value(shared, "hanok,directory").unwrap(), b"/images/docs\0");
    assert_eq!(value(shared, "hanok,tag").unwrap(), b"docs\0");
    assert_eq!(value(shared, "read-only").unwrap(), b"");
    assert!(tree.find_node("/back-end-b102000").is_some());
    assert!(tree.find_node("/back-end-b103000").is_some());
    assert!(tree.find_node("/back-end-b100000").is_none());
    let bell = "/back-end-b101000";
    assert_eq!(value(bell, "label").unwrap(), b"hanok,back-end b101000\0");
    assert_eq!(value(bell, "compatible").unwrap(), b"gpio-keys\0");
    // The same interrupt, once by level and once by its rising edge.
    let cells = |path: &str| value(path, "interrupts").unwrap();
    let line = [0, 0, 0, 0, 0, 0, 0, 193, 0, 0, 0];
    assert_eq!(cells(node), [&line[..], &[4]].concat());
    assert_eq!(cells("/back-end-b101000/bell"), [&line[..], &[1]].concat());
}
