//! A PCIe host bridge and the SMMU in front of it: what the hypervisor and the tool find, and what a guest gets.

use super::trees::span;
use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode};
use dtoolkit::{Node, Property};
use hanok_config::guest::{GuestDevice, GuestTree};
use hanok_config::{BoardSmmu, BoardTree, DeviceError, HostTree, PcieHost, assign};
use hanok_types::{GicVersion, IntId, Ipa, Span, platform};

const SMMU: &[u8] = include_bytes!("../data/virt-smmu.dtb");
const NONE: &[u8] = include_bytes!("../data/virt-gicv3.dtb");
const BRIDGE: &str = "pcie@10000000";

fn bridge(smmu: Option<BoardSmmu>) -> Option<PcieHost> {
    let configuration = span(0x40_1000_0000, 1 << 20);
    Some(PcieHost {
        configuration,
        smmu,
    })
}

fn found() -> BoardSmmu {
    BoardSmmu {
        registers: span(0x0905_0000, 0x2_0000),
        event: (IntId::spi(0x4a), true),
        first: 0,
    }
}

#[test]
fn qemu_virt_s_smmu_is_found() {
    let board = |tree| BoardTree::parse(tree).unwrap().pcie();
    assert_eq!(board(SMMU), bridge(Some(found())));
    assert_eq!(board(NONE), bridge(None));
}

/// QEMU's tree with the properties of a node changed, in words of 32 bits; none takes the property away.
fn changed(node: &str, property: &str, value: Option<&[u32]>) -> Vec<u8> {
    let mut tree = DeviceTree::from_fdt(&Fdt::new(SMMU).unwrap());
    let node: &mut DeviceTreeNode = tree.root.child_mut(node).unwrap();
    node.remove_property(property);
    if let Some(value) = value {
        let property = dtoolkit::model::DeviceTreeProperty::new(property, value).unwrap();
        node.add_property(property);
    }
    tree.to_dtb()
}

#[test]
fn what_does_not_hold_all_devices_of_the_bus_is_no_smmu_for_it() {
    let fdt = Fdt::new(SMMU).unwrap();
    let handle = |node: &str| {
        let node = fdt.root().child(node).unwrap();
        let property = node
            .properties()
            .find(|one| one.name() == "phandle")
            .unwrap();
        u32::from_be_bytes(property.value().try_into().unwrap())
    };
    let (handle, gic) = (handle("smmuv3@9050000"), handle("intc@8000000"));
    let map = |map: &[u32]| changed(BRIDGE, "iommu-map", Some(map));
    let board = |tree: &[u8]| BoardTree::parse(tree).unwrap().pcie().unwrap().smmu;
    let moved = BoardSmmu {
        first: 0x300,
        ..found()
    };
    assert_eq!(board(&map(&[0, handle, 0x300, 0x100])), Some(moved));
    for wrong in [
        &[0, handle, 0, 0xff][..],
        &[8, handle, 8, 0x1000],
        &[0, handle, 0x2_0000, 0x100],
        &[0, gic, 0, 0x1_0000],
        &[0, 0x7777, 0, 0x1_0000],
        &[0, handle, 0],
        &[],
    ] {
        assert_eq!(board(&map(wrong)), None, "{wrong:x?}");
    }
    assert_eq!(board(&changed(BRIDGE, "iommu-map", None)), None);
    let smmu = |property| changed("smmuv3@9050000", property, None);
    assert_eq!(board(&smmu("interrupt-names")), None);
    assert_eq!(board(&smmu("interrupts")), None);
    assert_eq!(board(&smmu("compatible")), None);
}

#[test]
fn a_guest_gets_the_first_bus_without_the_smmu() {
    let tree = HostTree::parse(SMMU).unwrap();
    let device = tree.device(BRIDGE).unwrap();
    assert_eq!(device.bus_master, None);
    let given = assign(std::slice::from_ref(&device)).unwrap();
    let ranges: Vec<(u64, u64, u64)> = given[0]
        .registers
        .iter()
        .map(|range| (range.ipa.get(), range.host.get(), range.len))
        .collect();
    // The window's devices have addresses of the bus that are as aligned as the guest's.
    let window = platform::PASS_THROUGH.get();
    let wanted = [
        (window, 0x1000_0000, 16 << 20),
        (window + (16 << 20), 0x3eff_0000, 1 << 16),
        (window + (17 << 20), 0x40_1000_0000, 1 << 20),
    ];
    assert_eq!(ranges, wanted);
    let lines: Vec<(u32, u32)> = given[0]
        .interrupts
        .iter()
        .map(|line| {
            (
                line.guest.get() - platform::PASS_THROUGH_IRQ.get(),
                line.board.get(),
            )
        })
        .collect();
    assert_eq!(lines, [(0, 35), (1, 36), (2, 37), (3, 38)]);

    let guest = GuestTree {
        name: "linux",
        terminal: None,
        vcpus: 1,
        memory: Span::new(Ipa::new(0x4000_0000), 256 << 20).unwrap(),
        bootargs: "",
        initramfs: None,
        reserved: None,
        gic: GicVersion::V3,
        slots: &[],
        channels: &[],
        devices: &[GuestDevice {
            host: &device,
            given: &given[0],
        }],
        back_ends: &[],
    };
    let written = guest.write();
    // The addresses that its devices use are the VM's own.
    assert_eq!(written.host_address, None);
    let fdt = Fdt::new(&written.bytes).unwrap();
    let bus = fdt.root().child("platform-bus@c000000").unwrap();
    let node = bus.child("pcie@1100000").unwrap();
    let cells = |name: &str| -> Vec<u32> {
        let property = node.properties().find(|one| one.name() == name).unwrap();
        let words = property.value().chunks_exact(4);
        words
            .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
            .collect()
    };
    assert_eq!(cells("reg"), [0, 0x110_0000, 0, 0x10_0000]);
    assert_eq!(cells("bus-range"), [0, 0]);
    let ports = [0x100_0000, 0, 0, 0, 0x100_0000, 0, 0x1_0000];
    let memory = [0x200_0000, 0, 0x1000_0000, 0, 0, 0, 0x100_0000];
    assert_eq!(cells("ranges"), [ports, memory].concat());
    let map = cells("interrupt-map");
    assert_eq!(map.len(), 16 * 10);
    // Device 1, pin 1: the board's SPI 4, the guest's second one here.
    let entry = map.chunks(10).nth(4).unwrap();
    assert_eq!(entry, [0x800, 0, 0, 1, 0x8001, 0, 0, 0, 113, 4]);
    let names = node.properties().map(|property| property.name().to_owned());
    for name in names {
        assert!(
            !["iommu-map", "msi-map", "msi-parent"].contains(&name.as_str()),
            "{name}"
        );
    }
    assert!(
        node.properties()
            .any(|property| property.name() == "dma-coherent")
    );
    assert!(
        !bus.properties()
            .any(|property| property.name() == "dma-ranges")
    );
}

#[test]
fn a_bridge_without_an_smmu_goes_to_no_vm() {
    let refused =
        |tree: &[u8], name: &str| HostTree::parse(tree).unwrap().device(name).unwrap_err();
    let DeviceError::Bridge(why) = refused(NONE, BRIDGE) else {
        panic!("another reason")
    };
    assert!(why.contains("no SMMUv3"), "{why}");
    assert_eq!(refused(SMMU, "smmuv3@9050000"), DeviceError::Own("an SMMU"));
    for (property, value) in [
        ("interrupt-map", None),
        ("interrupt-map-mask", None),
        ("ranges", None),
        ("bus-range", Some(&[1, 0xff][..])),
    ] {
        let tree = changed(BRIDGE, property, value);
        let DeviceError::Bridge(why) = refused(&tree, BRIDGE) else {
            panic!("another reason for {property}")
        };
        assert!(why.contains("INTx"), "{why}");
    }
}
