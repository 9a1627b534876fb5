//! How interrupts reach the controller, and CPUs are started, where the tree says little of it.

use crate::trees::{Build, flat, node, soc_board, span};
use dtoolkit::model::DeviceTreeNode;
use hanok_config::{BoardTree, Enable, HostTree};
use hanok_types::{Hpa, IntId};

/// As a Versatile Express: the serial port's interrupt goes through its bus's map, and the CPUs,
/// whose nodes name no way to start them, look into the system registers.
fn express_board(mask: u32, phandle: u32) -> DeviceTreeNode {
    let nexus = node("bus@8000000")
        .with("#address-cells", 1u32)
        .with("#size-cells", 1u32)
        .with("ranges", [0u32, 0x1c00_0000, 0x100_0000])
        .with("#interrupt-cells", 1u32)
        .with("interrupt-map-mask", [mask, 63])
        .with(
            "interrupt-map",
            [
                [0, 4, phandle, 0, 40, 4],
                [0, 5, phandle, 0, 41, 1],
                [0, 6, phandle, 0, 42, 2],
            ]
            .concat(),
        )
        .and(
            node("fpga")
                .with("#address-cells", 1u32)
                .with("#size-cells", 1u32)
                .with("ranges", [0u32; 0])
                .and(
                    node("sysreg@10000")
                        .with("compatible", "arm,vexpress-sysreg")
                        .with("reg", [0x1_0000u32, 0x1000]),
                )
                .and(
                    node("serial@90000")
                        .with("compatible", ["arm,pl011", "arm,primecell"].as_slice())
                        .with("reg", [0x9_0000u32, 0x1000])
                        .with("interrupts", [5u32]),
                ),
        );
    let gic = node("interrupt-controller@2c001000")
        .with("compatible", "arm,cortex-a15-gic")
        .with("#interrupt-cells", 3u32)
        .with("#address-cells", 0u32)
        .with("phandle", 1u32)
        .with(
            "reg",
            [
                0x2c00_1000u32,
                0x1000,
                0x2c00_2000,
                0x2000,
                0x2c00_4000,
                0x2000,
                0x2c00_6000,
                0x2000,
            ],
        );
    let cpus = node("cpus")
        .with("#address-cells", 1u32)
        .with("#size-cells", 0u32)
        .and(node("cpu@0").with("reg", 0u32))
        .and(node("cpu@1").with("reg", 1u32));
    node("")
        .with("#address-cells", 1u32)
        .with("#size-cells", 1u32)
        .with("interrupt-parent", 1u32)
        .and(
            node("memory@80000000")
                .with("device_type", "memory")
                .with("reg", [0x8000_0000u32, 0x4000_0000]),
        )
        .and(cpus)
        .and(gic)
        .and(nexus)
}

#[test]
fn interrupts_go_through_a_map_and_cpus_wait_at_the_flags() {
    let bytes = flat(express_board(0, 1));
    let board = BoardTree::parse(&bytes).unwrap();
    let console = board.console.unwrap();
    assert_eq!(console.registers, span(0x1c09_0000, 0x1000));
    assert_eq!(console.interrupt, Some(IntId::spi(41)));
    let flags = Enable::SystemFlags(Hpa::new(0x1c01_0000));
    assert!(board.cpus.iter().all(|cpu| cpu.enable == flags));
    // A map that asks for the device's address, and one that leads elsewhere.
    for (mask, phandle) in [(1, 1), (0, 2)] {
        let bytes = flat(express_board(mask, phandle));
        let console = BoardTree::parse(&bytes).unwrap().console.unwrap();
        assert_eq!(console.interrupt, None);
    }
}

#[test]
fn each_interrupt_of_a_device_goes_through_the_map() {
    let mut root = express_board(0, 1);
    let bus = root.child_mut("bus@8000000").unwrap();
    let device = node("gpio@a0000")
        .with("compatible", "arm,pl061")
        .with("reg", [0xa_0000u32, 0x1000])
        .with("interrupts", [6u32, 4, 6]);
    bus.child_mut("fpga").unwrap().add_child(device);
    let bytes = flat(root);
    let board = HostTree::parse(&bytes).unwrap();
    let found = board.device("gpio").unwrap().interrupts;
    let found: Vec<(IntId, u32)> = found.iter().map(|line| (line.id, line.trigger)).collect();
    let (four, six) = ((IntId::spi(40), 4), (IntId::spi(42), 2));
    assert_eq!(found, [six, four, six]);
}

/// Nodes of CPUs that say nothing, or something that nobody knows, beside PSCI and without it.
#[test]
fn a_silent_cpu_is_started_by_psci_where_there_is_one() {
    let enables = |methods: [Option<&str>; 2], psci: bool| {
        let mut cpus = node("cpus")
            .with("#address-cells", 1u32)
            .with("#size-cells", 0u32);
        for (index, method) in methods.into_iter().enumerate() {
            let cpu = node(&format!("cpu@{index}")).with("reg", index as u32);
            cpus.add_child(match method {
                Some(method) => cpu.with("enable-method", method),
                None => cpu,
            });
        }
        let mut root = soc_board();
        root.remove_child("cpus");
        root.remove_child("psci");
        root.add_child(cpus);
        if psci {
            root.add_child(
                node("psci")
                    .with("compatible", "arm,psci-0.2")
                    .with("method", "smc"),
            );
        }
        let tree = flat(root);
        let board = BoardTree::parse(&tree).unwrap();
        [board.cpus[0].enable, board.cpus[1].enable]
    };
    assert_eq!(enables([None, None], true), [Enable::Psci; 2]);
    assert_eq!(enables([None, None], false), [Enable::Unknown; 2]);
    assert_eq!(
        enables([Some("own"), None], true),
        [Enable::Unknown, Enable::Psci]
    );
}
