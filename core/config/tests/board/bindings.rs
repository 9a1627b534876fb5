//! What boards' trees may say in several ways, or say more of than there is room for.

use crate::trees::{Build, flat, node, serial, soc_board, span};
use dtoolkit::ToPropertyValue;
use dtoolkit::model::{DeviceTreeNode, DeviceTreeProperty};
use hanok_config::{BoardError, BoardTree, Gic};
use hanok_types::{GICV2_CPUS, MAX_CPUS};

/// A board with a GICv3, whose redistributors take `region` bytes.
fn board_v3(region: u32, gic: impl FnOnce(DeviceTreeNode) -> DeviceTreeNode) -> DeviceTreeNode {
    let mut root = soc_board();
    root.remove_child("soc");
    let node = node("interrupt-controller@8000000")
        .with("compatible", "arm,gic-v3")
        .with("#interrupt-cells", 3u32)
        .with("phandle", 1u32)
        .with("reg", [0, 0x0800_0000u32, 0x1_0000, 0, 0x080a_0000, region]);
    root.and(gic(node))
}

/// A redistributor is of two frames of 64 KiB, or of four with virtual LPIs (IHI 0069H, 12.10).
#[test]
fn redistributors_are_whole_frames_apart() {
    let stride = |value: &[u8]| {
        let gic = |gic: DeviceTreeNode| gic.with("redistributor-stride", value);
        match BoardTree::parse(&flat(board_v3(0x10_0000, gic)))?.gic {
            Gic::V3 { stride, .. } => Ok(stride),
            Gic::V2 { .. } | Gic::Allwinner(_) => panic!("it has a GICv3"),
        }
    };
    for sound in [0x2_0000u32, 0x3_0000, 0x4_0000, 0x8000_0000] {
        let expected = Ok(Some(u64::from(sound)));
        assert_eq!(stride(&sound.to_be_bytes()), expected);
        assert_eq!(stride(&u64::from(sound).to_be_bytes()), expected);
    }
    let large = 1u64 << 32;
    assert_eq!(stride(&large.to_be_bytes()), Ok(Some(large)));
    for unsound in [0u32, 0x1_0000, 0x1_fff0, 0x2_8000, 0x2_0001] {
        assert_eq!(stride(&unsound.to_be_bytes()), Err(BoardError::Gic));
        let two = u64::from(unsound).to_be_bytes();
        assert_eq!(stride(&two), Err(BoardError::Gic));
    }
    assert_eq!(stride(&[]), Err(BoardError::Gic));
    assert_eq!(stride(&[0, 2, 0]), Err(BoardError::Gic));
}

#[test]
fn redistributors_take_two_frames_at_least() {
    let region = |len| BoardTree::parse(&flat(board_v3(len, |gic| gic))).map(|board| board.gic);
    let gic = Gic::V3 {
        distributor: span(0x0800_0000, 0x1_0000),
        redistributors: [span(0x080a_0000, 0x2_0000)].into_iter().collect(),
        stride: None,
        maintenance: None,
    };
    assert_eq!(region(0x2_0000), Ok(gic));
    for len in [0x1_0000, 0x1_8000, 0x1_ffff] {
        let Err(BoardError::Registers { name, .. }) = region(len) else {
            panic!("{len:#x} bytes are too few")
        };
        assert_eq!(name, "GICR");
    }
}

/// [`soc_board`] with these CPUs, whose numbers have `cells` cells.
fn with_cpus(cells: u32, numbers: impl IntoIterator<Item = impl ToPropertyValue>) -> Vec<u8> {
    flat(of_cpus(soc_board(), cells, numbers))
}

/// A board with these CPUs in place of its own.
fn of_cpus(
    mut root: DeviceTreeNode,
    cells: u32,
    numbers: impl IntoIterator<Item = impl ToPropertyValue>,
) -> DeviceTreeNode {
    root.remove_child("cpus");
    let mut cpus = node("cpus")
        .with("#address-cells", cells)
        .with("#size-cells", 0u32);
    for (index, number) in numbers.into_iter().enumerate() {
        cpus.add_child(node(&format!("cpu@{index}")).with("reg", number));
    }
    root.and(cpus)
}

/// Affinity level 3 is in the upper word, which boards without it leave out.
#[test]
fn a_cpu_s_number_has_one_cell_or_two() {
    let mpidrs = |tree: &[u8]| {
        let board = BoardTree::parse(tree).unwrap();
        board.cpus.iter().map(|cpu| cpu.mpidr).collect::<Vec<_>>()
    };
    let two = with_cpus(2, [[0u32, 0x102], [3, 0x0002_0001], [0x7f, 0]]);
    assert_eq!(mpidrs(&two), [0x102, 0x3_0002_0001, 0x7f_0000_0000]);
    let one = with_cpus(1, [[0x102u32], [3]]);
    assert_eq!(mpidrs(&one), [0x102, 3]);
    let short = with_cpus(2, [[1u32]]);
    assert_eq!(BoardTree::parse(&short), Err(BoardError::Cpu));
}

#[test]
fn cpus_past_the_last_are_counted() {
    for more in 0..=3 {
        let v2 = (soc_board(), GICV2_CPUS);
        let v3 = (board_v3(0x100_0000, |gic| gic), MAX_CPUS);
        for (root, most) in [v2, v3] {
            let count = (most + more) as u32;
            let tree = flat(of_cpus(root, 1, (0..count).map(|index| [index])));
            let board = BoardTree::parse(&tree).unwrap();
            assert_eq!((board.cpus.len(), board.cpus_left_out), (most, more));
            assert_eq!(board.cpus.last().unwrap().mpidr, most as u64 - 1);
        }
    }
}

/// By path or by an alias of any name, of which what follows a colon is no part.
#[test]
fn the_port_is_the_one_that_stdout_path_names() {
    let console = |name: &str, value: &str| {
        let mut root = soc_board();
        let last = serial("serial@7e201800", 0x7e20_1800, 11);
        root.child_mut("soc").unwrap().add_child(last);
        let aliases = root.child_mut("aliases").unwrap();
        aliases.add_property(DeviceTreeProperty::new("debug", "/soc/serial@7e201800").unwrap());
        let chosen = root.child_mut("chosen").unwrap();
        chosen.remove_property("stdout-path");
        chosen.add_property(DeviceTreeProperty::new(name, value).unwrap());
        let bytes = flat(root);
        BoardTree::parse(&bytes).unwrap().console.unwrap().registers
    };
    let named = span(0xfe20_1800, 0x200);
    assert_eq!(console("stdout-path", "debug:115200n8"), named);
    assert_eq!(console("linux,stdout-path", "debug"), named);
    assert_eq!(console("stdout-path", "/soc/serial@7e201800:9600"), named);
    // Not of that name: the first alias of a port.
    let alias = span(0xfe20_1000, 0x200);
    assert_eq!(console("stdout-path", "debug2"), alias);
}
