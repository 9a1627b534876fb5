//! What an Allwinner A10 has in place of a GIC, a generic timer and a PL011.

use crate::trees::{Build, flat, node, span};
use dtoolkit::model::DeviceTreeNode;
use hanok_config::{BoardError, BoardTree, Gic, HostTimer, HostTimerKind, SerialKind};
use hanok_types::{GicVersion, IntId};

const CLOCK: u32 = 7;

fn cpus(count: u32) -> DeviceTreeNode {
    let all = node("cpus")
        .with("#address-cells", 1u32)
        .with("#size-cells", 0u32);
    (0..count).fold(all, |all, cpu| {
        all.and(node(&format!("cpu@{cpu}")).with("reg", cpu))
    })
}

fn serial(at: u32, line: u32) -> DeviceTreeNode {
    node(&format!("serial@{at:x}"))
        .with("compatible", "snps,dw-apb-uart")
        .with("reg-shift", 2u32)
        .with("reg", [at, 0x400])
        .with("interrupts", line)
}

fn timer(at: u32) -> DeviceTreeNode {
    node(&format!("timer@{at:x}"))
        .with("compatible", "allwinner,sun4i-a10-timer")
        .with("reg", [at, 0x90])
        .with("interrupts", [22u32, 23, 24])
        .with("clocks", CLOCK)
}

/// A Cubieboard with this serial port, timer, and size of the interrupt controller.
fn board(serial: DeviceTreeNode, timer: DeviceTreeNode, size: u32) -> Vec<u8> {
    let interrupts = node("interrupt-controller@1c20400")
        .with("compatible", "allwinner,sun4i-a10-ic")
        .with("#interrupt-cells", 1u32)
        .with("phandle", 1u32)
        .with("reg", [0x01c2_0400u32, size]);
    let clock = node("clk-24M")
        .with("compatible", "fixed-clock")
        .with("clock-frequency", 24_000_000u32)
        .with("phandle", CLOCK);
    let root = node("")
        .with("#address-cells", 1u32)
        .with("#size-cells", 1u32)
        .with("interrupt-parent", 1u32)
        .and(
            node("memory@40000000")
                .with("device_type", "memory")
                .with("reg", [0x4000_0000u32, 0x4000_0000]),
        )
        .and(cpus(2))
        .and(interrupts)
        .and(clock)
        .and(serial)
        .and(timer);
    flat(root)
}

#[test]
fn a_cubieboard_is_understood() {
    let bytes = board(serial(0x01c2_8000, 1), timer(0x01c2_0c00), 0x400);
    let board = BoardTree::parse(&bytes).unwrap();
    assert_eq!(board.gic, Gic::Allwinner(span(0x01c2_0400, 0x400)));
    assert_eq!(board.gic_version(), GicVersion::V2);
    assert_eq!(board.gic.maintenance(), None);
    // Its interrupt controller is for one CPU.
    assert_eq!((board.cpus.len(), board.cpus_left_out), (1, 1));
    let console = board.console.unwrap();
    assert_eq!(console.kind, SerialKind::Ns16550);
    assert_eq!(console.registers, span(0x01c2_8000, 0x400));
    assert_eq!(console.interrupt, Some(IntId::spi(1)));
    assert_eq!(console.port(), 0x01c2_8001);
    assert!(board.owns_line(IntId::spi(1)));
    assert_eq!(
        board.owner(&span(0x01c2_0000, 0x1000)),
        Some("the interrupt controller")
    );
    let wanted = HostTimer {
        kind: HostTimerKind::Allwinner,
        registers: span(0x01c2_0c00, 0x90),
        interrupt: IntId::spi(22),
        frequency: Some(24_000_000),
    };
    assert_eq!(board.host_timer(), Some(wanted));
}

#[test]
fn what_is_not_as_there_is_not_used() {
    let usual = || timer(0x01c2_0c00);
    // Registers beside each other, which are another driver's.
    let narrow = serial(0x01c2_8000, 1).with("reg-shift", 0u32);
    let bytes = board(narrow, usual(), 0x400);
    assert_eq!(BoardTree::parse(&bytes).unwrap().console, None);
    // A line that the controller does not have.
    let bytes = board(serial(0x01c2_8000, 96), usual(), 0x400);
    let console = BoardTree::parse(&bytes).unwrap().console.unwrap();
    assert_eq!(console.interrupt, None);
    let without = usual().with("interrupts", [96u32, 23, 24]);
    let bytes = board(serial(0x01c2_8000, 1), without, 0x400);
    assert_eq!(BoardTree::parse(&bytes).unwrap().host_timer(), None);
}

#[test]
fn registers_that_cannot_be_theirs_are_refused() {
    let refused = |bytes: Vec<u8>| match BoardTree::parse(&bytes) {
        Err(BoardError::Registers { name, .. }) => name,
        other => panic!("{other:?}"),
    };
    let short = board(serial(0x01c2_8000, 1), timer(0x01c2_0c00), 0x50);
    assert_eq!(refused(short), "the interrupt controller");
    let askew = board(serial(0x01c2_8004, 1), timer(0x01c2_0c00), 0x400);
    assert_eq!(refused(askew), "the serial port");
}
