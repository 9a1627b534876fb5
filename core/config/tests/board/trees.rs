//! Small boards' trees, for what QEMU's own lack.

use dtoolkit::ToPropertyValue;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use hanok_types::{Hpa, Span};

pub fn span(start: u64, len: u64) -> Span<Hpa> {
    Span::new(Hpa::new(start), len).unwrap()
}

/// Building trees in one expression.
pub trait Build {
    fn with(self, name: &str, value: impl ToPropertyValue) -> Self;
    fn and(self, child: DeviceTreeNode) -> Self;
}

impl Build for DeviceTreeNode {
    fn with(mut self, name: &str, value: impl ToPropertyValue) -> Self {
        self.add_property(DeviceTreeProperty::new(name, value).unwrap());
        self
    }

    fn and(mut self, child: DeviceTreeNode) -> Self {
        self.add_child(child);
        self
    }
}

pub fn node(name: &str) -> DeviceTreeNode {
    DeviceTreeNode::new(name).unwrap()
}

pub fn flat(root: DeviceTreeNode) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    tree.root = root;
    tree.to_dtb()
}

/// A board in the manner of a Raspberry Pi 4: devices behind a bus that moves addresses,
/// spin-table, a GICv2, serial ports of which the first is off, an alias with options.
pub fn soc_board() -> DeviceTreeNode {
    let soc = node("soc")
        .with("compatible", "simple-bus")
        .with("#address-cells", 1u32)
        .with("#size-cells", 1u32)
        .with(
            "ranges",
            [
                0x7e00_0000u32,
                0,
                0xfe00_0000,
                0x0180_0000,
                0x4000_0000,
                0,
                0xff80_0000,
                0x0080_0000,
            ],
        )
        .and(
            node("interrupt-controller@40041000")
                .with("compatible", "arm,gic-400")
                .with("#interrupt-cells", 3u32)
                .with("phandle", 1u32)
                .with("interrupts", [1u32, 9, 0xf04])
                .with(
                    "reg",
                    [
                        0x4004_1000u32,
                        0x1000,
                        0x4004_2000,
                        0x2000,
                        0x4004_4000,
                        0x2000,
                        0x4004_6000,
                        0x2000,
                    ],
                ),
        )
        .and(serial("serial@7e201400", 0x7e20_1400, 9).with("status", "disabled"))
        .and(serial("serial@7e201600", 0x7e20_1600, 10).with("status", "okay"))
        .and(serial("serial@7e201000", 0x7e20_1000, 121));
    let cpu = |name: &str, number: u32| {
        node(name)
            .with("device_type", "cpu")
            .with("reg", [0, number])
            .with("enable-method", "spin-table")
            .with("cpu-release-addr", 0xd8u64 + u64::from(number) * 8)
    };
    node("")
        .with("#address-cells", 2u32)
        .with("#size-cells", 1u32)
        .with("interrupt-parent", 1u32)
        .and(node("aliases").with("serial0", "/soc/serial@7e201000"))
        .and(
            node("chosen")
                .with("stdout-path", "serial0:115200n8")
                .with("bootargs", "quiet"),
        )
        .and(
            node("cpus")
                .with("#address-cells", 2u32)
                .with("#size-cells", 0u32)
                .and(cpu("cpu@0", 0))
                .and(cpu("cpu@1", 1).with("status", "disabled"))
                .and(cpu("cpu@2", 2).with("status", "fail")),
        )
        .and(
            node("memory@0")
                .with("device_type", "memory")
                .with("reg", [0u32, 0, 0x3c00_0000, 0, 0x4000_0000, 0xbc00_0000]),
        )
        .and(
            node("reserved-memory")
                .with("#address-cells", 2u32)
                .with("#size-cells", 1u32)
                .with("ranges", [0u32; 0])
                .and(node("pool").with("size", 0x400_0000u32))
                .and(node("nvram@1f0000").with("reg", [0u32, 0x1f_0000, 0x1000])),
        )
        .and(
            node("timer")
                .with("compatible", "arm,armv8-timer")
                .with("interrupt-names", ["virt", "hyp-phys"].as_slice())
                .with("interrupts", [1u32, 11, 0xf08, 1, 10, 0xf08]),
        )
        .and(soc)
}

pub fn serial(name: &str, at: u32, interrupt: u32) -> DeviceTreeNode {
    node(name)
        .with("compatible", ["arm,pl011", "arm,primecell"].as_slice())
        .with("reg", [at, 0x200])
        .with("interrupts", [0, interrupt, 4])
}
