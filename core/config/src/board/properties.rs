//! Which properties of a device's node are valid in another tree, and whether the device accesses
//! memory by itself.
//!
//! A property that points at another node by its phandle has no meaning in a guest's tree, or even
//! points at a wrong node. Neither the format nor the specification marks such values, so they are
//! recognised by the names that bindings use, and by their contents.

use super::place::At;
use crate::fdt::FdtNode;
use crate::tree::{self, Cells};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Devices that are only slaves: they answer loads and stores, and cannot begin a transfer
/// themselves. Each was checked against its manual, which is named beside it. Whoever adds one must
/// be sure, since this list keeps a VM inside its memory if there is no SMMU. Those of Arm's
/// PrimeCells that can request DMA use another device for it, which `dmas` names.
///
/// Some slaves are left out on purpose, because a VM could do harm with them: memory controllers
/// (PL341, PL354), system registers (SP810, `arm,vexpress-sysreg`), BCM2711's clocks, pins, system
/// timer and power, which change the board for all; its mailbox, whose other end accesses all
/// memory; flash, which holds what the next boot starts.
const SLAVES: [&str; 26] = [
    "arm,pl011",             // UART: DDI 0183
    "arm,pl022",             // SPI: DDI 0194
    "arm,pl031",             // clock: DDI 0224
    "arm,pl041",             // audio, FIFOs: DDI 0173
    "arm,pl050",             // keyboard and mouse: DDI 0143
    "arm,pl061",             // GPIO: DDI 0190
    "arm,pl180",             // SD and MMC cards, a FIFO: DDI 0172
    "arm,sp804",             // timer: DDI 0271
    "arm,sp805",             // watchdog: DDI 0270
    "arm,versatile-i2c",     // I2C, each wire a bit of a register: DUI 0447, serial bus
    "brcm,bcm2711-rng200",   // random numbers
    "brcm,bcm2835-aux-spi",  // SPI with FIFOs: BCM2835 ARM Peripherals, 2.3
    "brcm,bcm2835-aux-uart", // UART: BCM2835 ARM Peripherals, 2.2
    "brcm,bcm2835-i2c",      // I2C with a FIFO: BCM2835 ARM Peripherals, 3
    "brcm,bcm2711-i2c",      // the same
    "brcm,bcm2835-pwm",      // PWM with a FIFO: BCM2835 ARM Peripherals, 9
    "brcm,bcm2835-spi",      // SPI with FIFOs: BCM2835 ARM Peripherals, 10
    "ns16550a",              // UART
    "nxp,usb-isp1761",       // USB with 63 KB of its own: data sheet, "slave host controller"
    "smsc,lan9115",          // Ethernet, FIFOs read and written by the CPU: SMSC AN 12.12
    "smsc,lan9118",          // the same
    "snps,dw-apb-uart",      // UART
    "snps,dw-apb-gpio",      // GPIO
    "snps,dw-apb-timer",     // timer
    "snps,dw-wdt",           // watchdog
    "snps,designware-i2c",   // I2C with a FIFO
];

/// Properties that only a bus master has, or a device that a bus master serves.
const MASTER: [&str; 6] = [
    "dmas",
    "iommus",
    "iommu-map",
    "dma-ranges",
    "dma-coherent",
    "memory-region",
];

/// The reason why the device may be a bus master; `None` if it is none.
pub(super) fn bus_master(node: &FdtNode<'_>) -> Option<String> {
    let property = MASTER.iter().find(|name| tree::value(node, name).is_some());
    if let Some(name) = property {
        return Some(format!("its node has `{name}`"));
    }
    if SLAVES.iter().any(|slave| tree::compatible(node, slave)) {
        return None;
    }
    let kind = tree::strings(node, "compatible").next();
    Some(format!(
        "\"{}\" is not known to reach no memory by itself",
        kind.unwrap_or_default()
    ))
}

/// A clock with a fixed rate. The name of its output is left out: the guest's own clock may have
/// the same one, and Linux does not register a second clock with the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedClock {
    /// The frequency in Hz.
    pub frequency: u32,
}

/// The node's clocks among `nodes`, if all of them are fixed ([`fixed`]); otherwise none.
pub(super) fn clocks(nodes: &[At<'_>], at: &At<'_>) -> Vec<FixedClock> {
    let mut cells = Cells(tree::value(at.node(), "clocks").unwrap_or_default());
    let mut names = tree::strings(at.node(), "clock-names");
    let mut clocks = Vec::new();
    while !cells.is_empty() {
        let is_bus = names.next() == Some("apb_pclk");
        let clock = cells.one().and_then(|handle| fixed(nodes, handle, is_bus));
        let Some(clock) = clock else {
            return Vec::new();
        };
        clocks.push(clock);
    }
    clocks
}

/// The clock with this handle, if its rate is fixed. That of a Versatile Express's oscillator is, if it has no
/// room; and where it clocks a bus, whose drivers turn it on and do not ask for its rate, any rate will do that
/// it can have.
fn fixed(nodes: &[At<'_>], handle: u32, is_bus: bool) -> Option<FixedClock> {
    let has_handle = |at: &&At<'_>| tree::cell(at.node(), "phandle") == Some(handle);
    let node = nodes.iter().find(has_handle)?.node();
    if tree::compatible(node, "arm,vexpress-osc") {
        let mut range = Cells(tree::value(node, "freq-range")?);
        let (frequency, most) = (range.one()?, range.one()?);
        return (is_bus || frequency == most).then_some(FixedClock { frequency });
    }
    if !tree::compatible(node, "fixed-clock") {
        return None;
    }
    Some(FixedClock {
        frequency: tree::cell(node, "clock-frequency")?,
    })
}

/// The properties that may be copied unchanged, from a tree with these `nodes`.
pub(super) fn portable(nodes: &[At<'_>], at: &At<'_>) -> Vec<(String, Vec<u8>)> {
    let handles: Vec<u32> = nodes
        .iter()
        .filter_map(|at| tree::cell(at.node(), "phandle"))
        .collect();
    let has_clocks = !clocks(nodes, at).is_empty();
    let mut kept = Vec::new();
    for (name, value) in at.node().properties() {
        let keep = match name {
            "clock-names" => has_clocks,
            _ => !is_rewritten(name) && !points(name) && !looks_like_handle(name, value, &handles),
        };
        if keep {
            kept.push((name.to_owned(), value.to_owned()));
        }
    }
    kept
}

/// Whether the guest's tree has a property of its own for this one, or does not need it.
fn is_rewritten(name: &str) -> bool {
    let names = [
        "reg",
        "ranges",
        "interrupts",
        "interrupts-extended",
        "interrupt-parent",
        "clocks",
        "phandle",
        "linux,phandle",
        "status",
    ];
    names.contains(&name)
}

/// Whether the property holds phandles, by the names that bindings usually give, or names what such
/// a property holds.
fn points(name: &str) -> bool {
    let names = [
        "access-controllers",
        "assigned-clock-parents",
        "assigned-clock-rates",
        "assigned-clocks",
        "backlight",
        "dma-names",
        "dmas",
        "extcon",
        "gpio-ranges",
        "hwlocks",
        "interconnect-names",
        "interconnects",
        "io-channel-names",
        "io-channels",
        "iommu-map",
        "iommus",
        "leds",
        "mbox-names",
        "mboxes",
        "memory-region",
        "memory-region-names",
        "msi-map",
        "msi-parent",
        "nvmem",
        "nvmem-cell-names",
        "nvmem-cells",
        "operating-points-v2",
        "panel",
        "phy-handle",
        "phy-names",
        "phys",
        "power-domain-names",
        "power-domains",
        "pwms",
        "remote-endpoint",
        "reset-names",
        "resets",
        "sound-dai",
        "syscon",
        "thermal-sensors",
        "wakeup-parent",
    ];
    let ends = ["-supply", "-gpio", "-gpios", "-parent", "-syscon"];
    names.contains(&name)
        || name.starts_with("pinctrl-")
        || ends.iter().any(|end| name.ends_with(end))
}

/// Whether a value with an unknown meaning begins like a phandle. A number may do so, too; those of
/// serial ports and timers are known.
fn looks_like_handle(name: &str, value: &[u8], handles: &[u32]) -> bool {
    let numbers = [
        "arm,primecell-periphid",
        "bus-width",
        "clock-frequency",
        "current-speed",
        "fifo-depth",
        "fifo-size",
        "max-frequency",
        "reg-io-width",
        "reg-offset",
        "reg-shift",
        "timeout-sec",
    ];
    if numbers.contains(&name) || name.starts_with('#') || !value.len().is_multiple_of(4) {
        return false;
    }
    let text = value.split(|byte| *byte == 0).all(|part| {
        let graphic = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        part.iter().all(graphic)
    });
    let first = Cells(value).one();
    let is_text = text && value.first().is_some_and(|byte| *byte != 0);
    !is_text && first.is_some_and(|first| handles.contains(&first))
}
