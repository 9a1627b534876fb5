//! Boards' trees: QEMU's own, and small ones for what those lack.

mod allwinner;
mod bindings;
mod devices;
mod express;
mod global_timer;
mod pcie;
mod trees;

use dtoolkit::model::{DeviceTreeNode, DeviceTreeProperty};
use hanok_config::{BoardError, BoardTree, Enable, Gic, PsciMethod, Structure};
use hanok_types::{Hpa, IntId};
use proptest::prelude::*;
use trees::{Build, flat, node, serial, soc_board, span};

const GIC_V3: &[u8] = include_bytes!("../data/virt-gicv3.dtb");
const GIC_V2: &[u8] = include_bytes!("../data/virt-gicv2.dtb");
const MAX: &[u8] = include_bytes!("../data/virt-max.dtb");

#[test]
fn qemu_virt_with_gic_v3_is_understood() {
    let board = BoardTree::parse(GIC_V3).unwrap();
    assert_eq!(board.ram, [span(0x4000_0000, 2 << 30)]);
    assert!(board.reserved.is_empty());
    let mpidrs: Vec<u64> = board.cpus.iter().map(|cpu| cpu.mpidr).collect();
    assert_eq!(mpidrs, [0, 1, 2, 3]);
    assert!(board.cpus.iter().all(|cpu| cpu.enable == Enable::Psci));
    assert_eq!(board.psci, Some(PsciMethod::Smc));
    let redistributors = [span(0x080a_0000, 0xf6_0000)].into_iter().collect();
    let gic = Gic::V3 {
        distributor: span(0x0800_0000, 0x1_0000),
        redistributors,
        stride: None,
        maintenance: Some(IntId::ppi(9)),
    };
    assert_eq!(board.gic, gic);
    let console = board.console.unwrap();
    assert_eq!(console.registers, span(0x0900_0000, 0x1000));
    assert_eq!(console.interrupt, Some(IntId::spi(1)));
    assert_eq!(board.rtc, Some(span(0x0901_0000, 0x1000)));
    assert_eq!(board.timer.secure, Some(IntId::ppi(13)));
    assert_eq!(board.timer.physical, Some(IntId::ppi(14)));
    assert_eq!(board.timer.virt, Some(IntId::ppi(11)));
    assert_eq!(board.timer.hyp, Some(IntId::ppi(10)));
    assert_eq!((board.bootargs, board.rng_seed), ("", &[][..]));
}

#[test]
fn qemu_virt_with_gic_v2_is_understood() {
    let board = BoardTree::parse(GIC_V2).unwrap();
    let gic = Gic::V2 {
        distributor: span(0x0800_0000, 0x1_0000),
        cpu: span(0x0801_0000, 0x1_0000),
        virtualization: Some((span(0x0803_0000, 0x1_0000), span(0x0804_0000, 0x1_0000))),
        maintenance: Some(IntId::ppi(9)),
    };
    assert_eq!(board.gic, gic);
    assert_eq!(board.rtc, Some(span(0x0901_0000, 0x1000)));
    assert_eq!(board.timer.hyp, Some(IntId::ppi(10)));
}

#[test]
fn qemu_virt_with_everything_is_understood() {
    let board = BoardTree::parse(MAX).unwrap();
    assert_eq!(board.cpus.len(), 2);
    assert_eq!(board.rng_seed.len(), 32);
}

/// A board whose registers are where, or as few as, none can be.
#[test]
fn registers_that_cannot_be_a_device_s_are_refused() {
    let replaced = |tree: &[u8], from: &[u8], to: &[u8]| {
        let at = tree
            .windows(from.len())
            .position(|part| part == from)
            .unwrap();
        let mut changed = tree.to_vec();
        changed[at..at + from.len()].copy_from_slice(to);
        match BoardTree::parse(&changed) {
            Err(BoardError::Registers { name, .. }) => name,
            other => panic!("{other:?}"),
        }
    };
    let reg = |start: u64, len: u64| [start.to_be_bytes(), len.to_be_bytes()].concat();
    let cases = [
        (
            GIC_V3,
            (0x0800_0000, 0x1_0000),
            (0x0800_0004, 0x1_0000),
            "GICD",
        ),
        (
            GIC_V3,
            (0x0800_0000, 0x1_0000),
            (0x0800_0000, 0x8000),
            "GICD",
        ),
        (
            GIC_V3,
            (0x080a_0000, 0xf6_0000),
            (0x080a_0000, 0x1_0000),
            "GICR",
        ),
        (
            GIC_V3,
            (0x080a_0000, 0xf6_0000),
            (0x080a_1000, 0xf6_0000),
            "GICR",
        ),
        (
            GIC_V2,
            (0x0800_0000, 0x1_0000),
            (0x0800_0008, 0x1_0000),
            "GICD",
        ),
        (GIC_V2, (0x0801_0000, 0x1_0000), (0x0801_0000, 0x10), "GICC"),
        (
            GIC_V2,
            (0x0803_0000, 0x1_0000),
            (0x0803_0100, 0x1_0000),
            "GICH",
        ),
        (
            GIC_V3,
            (0x0900_0000, 0x1000),
            (0x0900_0002, 0x1000),
            "the serial port",
        ),
        (
            GIC_V3,
            (0x0900_0000, 0x1000),
            (0x0900_0000, 0),
            "the serial port",
        ),
        (
            GIC_V3,
            (0x0901_0000, 0x1000),
            (0x0901_0001, 0x1000),
            "the clock",
        ),
        (GIC_V3, (0x0901_0000, 0x1000), (0x0901_0000, 0), "the clock"),
    ];
    for (tree, was, is, name) in cases {
        let found = replaced(tree, &reg(was.0, was.1), &reg(is.0, is.1));
        assert_eq!(found, name, "{is:x?}");
    }
}

#[test]
fn addresses_go_through_the_buses_above() {
    let bytes = flat(soc_board());
    let board = BoardTree::parse(&bytes).unwrap();
    assert_eq!(
        board.ram,
        [span(0, 0x3c00_0000), span(0x4000_0000, 0xbc00_0000)]
    );
    let spin_table = span(0, 0x1000);
    assert_eq!(board.reserved, [span(0x1f_0000, 0x1000), spin_table]);
    assert_eq!(board.cpus.len(), 2);
    assert_eq!(board.cpus[1].enable, Enable::SpinTable(Hpa::new(0xe0)));
    assert_eq!(board.release_pages()[..], [span(0, 0x1000)], "one for all");
    assert_eq!((board.psci, board.bootargs), (None, "quiet"));
    let gic = Gic::V2 {
        distributor: span(0xff84_1000, 0x1000),
        cpu: span(0xff84_2000, 0x2000),
        virtualization: Some((span(0xff84_4000, 0x2000), span(0xff84_6000, 0x2000))),
        maintenance: Some(IntId::ppi(9)),
    };
    assert_eq!(board.gic, gic);
    let console = board.console.unwrap();
    assert_eq!(console.registers, span(0xfe20_1000, 0x200));
    assert_eq!(console.interrupt, Some(IntId::spi(121)));
    assert_eq!(board.timer.virt, Some(IntId::ppi(11)));
    assert_eq!(board.timer.hyp, Some(IntId::ppi(10)));
    assert_eq!(board.timer.physical, None);
}

#[test]
fn the_spin_table_s_pages_are_no_vm_s() {
    let mut root = soc_board();
    let cpus = root.child_mut("cpus").unwrap();
    let far = node("cpu@3")
        .with("device_type", "cpu")
        .with("reg", [0u32, 3])
        .with("enable-method", "spin-table")
        .with("cpu-release-addr", 0x1f_0ff8u64);
    cpus.add_child(far);
    let bytes = flat(root);
    let board = BoardTree::parse(&bytes).unwrap();
    assert_eq!(board.cpus.len(), 3);
    // The second release address lies in a page that is reserved anyhow.
    let expected = [span(0x1f_0000, 0x1000), span(0, 0x1000)];
    assert_eq!(board.reserved, expected);
}

#[test]
fn another_kind_of_port_at_stdout_path_gives_way_to_an_alias() {
    let mut root = soc_board();
    let mini = node("serial@7e215040")
        .with("compatible", "brcm,bcm2835-aux-uart")
        .with("reg", [0x7e21_5040u32, 0x40]);
    root.child_mut("soc").unwrap().add_child(mini);
    let chosen = root.child_mut("chosen").unwrap();
    chosen.remove_property("stdout-path");
    chosen.add_property(DeviceTreeProperty::new("stdout-path", "serial1:115200n8").unwrap());
    let aliases = root.child_mut("aliases").unwrap();
    aliases.add_property(DeviceTreeProperty::new("serial1", "/soc/serial@7e215040").unwrap());
    let console = |root: &DeviceTreeNode| {
        let bytes = flat(root.clone());
        BoardTree::parse(&bytes).unwrap().console.unwrap().registers
    };
    assert_eq!(console(&root), span(0xfe20_1000, 0x200));
    let aliases = root.child_mut("aliases").unwrap();
    aliases.remove_property("serial0");
    assert_eq!(console(&root), span(0xfe20_1600, 0x200));
}

#[test]
fn without_stdout_path_the_first_working_port_is_taken() {
    let mut root = soc_board();
    root.remove_child("chosen");
    root.remove_child("aliases");
    let bytes = flat(root);
    let console = BoardTree::parse(&bytes).unwrap().console.unwrap();
    assert_eq!(console.registers, span(0xfe20_1600, 0x200));
}

#[test]
fn the_first_working_clock_is_found_through_its_bus() {
    let clock = |name: &str, at: u32| {
        node(name)
            .with("compatible", ["arm,pl031", "arm,primecell"].as_slice())
            .with("reg", [at, 0x1000])
    };
    let rtc = |root| BoardTree::parse(&flat(root)).unwrap().rtc;
    assert_eq!(rtc(soc_board()), None);
    let mut root = soc_board();
    let soc = root.child_mut("soc").unwrap();
    soc.add_child(clock("rtc@7e301000", 0x7e30_1000).with("status", "disabled"));
    soc.add_child(clock("rtc@7e302000", 0x7e30_2000));
    soc.add_child(clock("rtc@7e303000", 0x7e30_3000));
    assert_eq!(rtc(root.clone()), Some(span(0xfe30_2000, 0x1000)));
    let soc = root.child_mut("soc").unwrap();
    soc.remove_child("rtc@7e302000");
    soc.remove_child("rtc@7e303000");
    soc.add_child(clock("rtc@10000000", 0x1000_0000));
    assert_eq!(rtc(root), None, "no CPU reaches it");
}

#[test]
fn a_bus_without_ranges_hides_its_devices() {
    let mut root = soc_board();
    root.child_mut("soc").unwrap().remove_property("ranges");
    let bytes = flat(root);
    assert_eq!(BoardTree::parse(&bytes), Err(BoardError::Gic));
}

#[test]
fn what_is_missing_is_named() {
    let without = |name| {
        let mut root = soc_board();
        root.remove_child(name);
        let bytes = flat(root);
        BoardTree::parse(&bytes).unwrap_err()
    };
    assert_eq!(without("memory@0"), BoardError::NoMemory);
    assert_eq!(without("cpus"), BoardError::NoCpu);
    assert_eq!(without("soc"), BoardError::NoGic);
    let short = BoardTree::parse(&GIC_V3[..4000]).unwrap_err();
    assert_eq!(short, BoardError::Structure(Structure::Short));
}

#[test]
fn memory_that_cannot_be_trusted_is_refused() {
    let with_reg = |reg: &[u32]| {
        let mut root = soc_board();
        let memory = node("memory@0")
            .with("device_type", "memory")
            .with("reg", reg);
        root.add_child(memory);
        let bytes = flat(root);
        BoardTree::parse(&bytes).unwrap_err()
    };
    assert_eq!(with_reg(&[0, 0]), BoardError::Memory);
    let top = [u32::MAX, u32::MAX, 2];
    assert_eq!(with_reg(&top), BoardError::Memory);
    let twice = [0, 0, 0x2000, 0, 0x1000, 0x2000];
    assert_eq!(with_reg(&twice), BoardError::MemoryOverlap);
    let many: Vec<u32> = (0..9)
        .flat_map(|index| [0, index * 0x2000, 0x1000])
        .collect();
    assert_eq!(with_reg(&many), BoardError::ManyMemories);
}

/// [`soc_board`] with a serial port `depth` buses deep.
fn nested(depth: usize) -> Vec<u8> {
    let mut deep = serial("serial@0", 0, 1);
    for _ in 0..depth {
        deep = node("bus").with("ranges", [0u32; 0]).and(deep);
    }
    flat(soc_board().and(deep))
}

#[test]
fn a_tree_of_any_depth_is_survived() {
    assert!(BoardTree::parse(&nested(20)).is_ok());
    let damaged = Err(BoardError::Structure(Structure::Damaged));
    assert_eq!(BoardTree::parse(&nested(500)), damaged);
}

#[test]
fn names_may_be_longer_than_the_specification_says() {
    let name = "a-node-whose-name-is-longer-than-31-characters";
    let property = DeviceTreeProperty::new_unchecked("vendor,a-property-with-a-long-name", 1u32);
    let mut long = DeviceTreeNode::new_unchecked(name);
    long.add_property(property);
    assert!(BoardTree::parse(&flat(soc_board().and(long))).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn damage_never_panics(
        which in 0..3usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut tree = [GIC_V3, GIC_V2, MAX][which].to_vec();
        for (at, byte) in changes {
            let at = at.index(tree.len());
            tree[at] = byte;
        }
        if let Some(cut) = cut {
            tree.truncate(cut.index(tree.len()));
        }
        let _ = BoardTree::parse(&tree);
    }

    #[test]
    fn any_bytes_are_refused(bytes: Vec<u8>) {
        prop_assert!(BoardTree::parse(&bytes).is_err());
    }
}
