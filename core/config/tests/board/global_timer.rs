//! The timer and the interrupt controller of a Cortex-A9.

use crate::trees::{Build, flat, node, span};
use dtoolkit::model::DeviceTreeNode;
use hanok_config::{BoardError, BoardTree, Gic, HostTimer, HostTimerKind};
use hanok_types::IntId;

const CLOCK: u32 = 7;

/// A board with a CPU, RAM, a GIC whose CPU interface has this size, and this timer.
fn board(cpu_interface: u32, timer: DeviceTreeNode) -> Vec<u8> {
    let gic = node("interrupt-controller@1e001000")
        .with("compatible", "arm,cortex-a9-gic")
        .with("#interrupt-cells", 3u32)
        .with("phandle", 1u32)
        .with("reg", [0x1e00_1000u32, 0x1000, 0x1e00_0100, cpu_interface]);
    let cpus = node("cpus")
        .with("#address-cells", 1u32)
        .with("#size-cells", 0u32)
        .and(node("cpu@0").with("reg", 0u32));
    let clock = node("peripheral-clock")
        .with("compatible", "fixed-clock")
        .with("clock-frequency", 250_000_000u32)
        .with("phandle", CLOCK);
    let root = node("")
        .with("#address-cells", 1u32)
        .with("#size-cells", 1u32)
        .with("interrupt-parent", 1u32)
        .and(
            node("memory@60000000")
                .with("device_type", "memory")
                .with("reg", [0x6000_0000u32, 0x4000_0000]),
        )
        .and(cpus)
        .and(gic)
        .and(clock)
        .and(timer);
    flat(root)
}

fn timer(name: &str, at: u32, interrupt: u32) -> DeviceTreeNode {
    node(&format!("timer@{at:x}"))
        .with("compatible", name)
        .with("reg", [at, 0x20])
        .with("interrupts", [1u32, interrupt, 0xf04])
}

fn found(timer: DeviceTreeNode) -> Option<HostTimer> {
    let bytes = board(0x100, timer);
    BoardTree::parse(&bytes).unwrap().host_timer()
}

/// Versatile Express has the node of the private timer alone, without a clock.
#[test]
fn the_global_timer_is_beside_the_private_one() {
    let wanted = HostTimer {
        kind: HostTimerKind::Global,
        registers: span(0x1e00_0200, 0x20),
        interrupt: IntId::new(27),
        frequency: None,
    };
    let private = || timer("arm,cortex-a9-twd-timer", 0x1e00_0600, 13);
    assert_eq!(found(private()), Some(wanted));
    assert_eq!(found(private().with("status", "disabled")), None);
    let clocked = found(private().with("clocks", CLOCK)).unwrap();
    assert_eq!(clocked.frequency, Some(250_000_000));
    // A clock that is not there, and registers that nothing can be in front of.
    let lost = found(private().with("clocks", CLOCK + 1)).unwrap();
    assert_eq!(lost.frequency, None);
    assert_eq!(found(timer("arm,cortex-a9-twd-timer", 0x200, 13)), None);
    assert_eq!(found(timer("arm,sp804", 0x1001_1000, 2)), None);
}

#[test]
fn the_global_timer_has_a_node_of_its_own() {
    for name in ["arm,cortex-a9-global-timer", "arm,cortex-a5-global-timer"] {
        let own = timer(name, 0x1e00_0200, 11).with("clocks", CLOCK);
        let wanted = HostTimer {
            kind: HostTimerKind::Global,
            registers: span(0x1e00_0200, 0x20),
            interrupt: IntId::new(27),
            frequency: Some(250_000_000),
        };
        assert_eq!(found(own), Some(wanted));
    }
}

#[test]
fn a_cpu_interface_of_256_bytes_is_enough_without_virtualization() {
    let private = || timer("arm,cortex-a9-twd-timer", 0x1e00_0600, 13);
    let bytes = board(0x100, private());
    let gic = BoardTree::parse(&bytes).unwrap().gic;
    let Gic::V2 { cpu, .. } = gic else {
        panic!("not a GICv2")
    };
    assert_eq!(cpu, span(0x1e00_0100, 0x100));
    let bytes = board(0x80, private());
    let error = BoardTree::parse(&bytes).unwrap_err();
    assert!(matches!(error, BoardError::Registers { name: "GICC", .. }));
}
