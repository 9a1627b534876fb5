//! The interrupt controller, timer, serial port, clock and PSCI of the real board.

use super::place::At;
use super::{BoardError, Console, Gic, MAX_REDISTRIBUTORS, PsciMethod, SerialKind, Timer};
use crate::fdt::FdtNode;
use crate::tree::{self, Cells};
use hanok_types::{Hpa, IntId, Span};
use heapless::Vec;

const GIC_V3: &str = "arm,gic-v3";
const GIC_V2: [&str; 4] = [
    "arm,gic-400",
    "arm,cortex-a15-gic",
    "arm,cortex-a7-gic",
    "arm,cortex-a9-gic",
];

pub(super) fn find_gic<'a>(root: &At<'a>) -> Option<At<'a>> {
    root.find(&|at| at.is_okay() && (is_v3(at) || is_v2(at) || is_allwinner(at)))
}

/// Whether it is an Allwinner A10's interrupt controller.
fn is_allwinner(at: &At<'_>) -> bool {
    cfg!(feature = "allwinner") && tree::compatible(at.node(), "allwinner,sun4i-a10-ic")
}

fn is_v3(at: &At<'_>) -> bool {
    tree::compatible(at.node(), GIC_V3)
}

fn is_v2(at: &At<'_>) -> bool {
    GIC_V2.iter().any(|name| tree::compatible(at.node(), name))
}

/// The system registers of a Versatile Express, in which its CPUs look for their entry address.
pub(super) fn system_flags(root: &At<'_>) -> Option<Hpa> {
    const SYSTEM_REGISTERS: &str = "arm,vexpress-sysreg";
    let at = root.find(&|at| tree::compatible(at.node(), SYSTEM_REGISTERS))?;
    let span = at.spans().next()??;
    Some(span.start())
}

pub(super) fn gic(at: &At<'_>) -> Result<Gic, BoardError> {
    let mut spans = at.spans().map(|span| span.ok_or(BoardError::Gic));
    let distributor = spans.next().ok_or(BoardError::Gic)??;
    #[cfg(feature = "allwinner")]
    if is_allwinner(at) {
        return Ok(Gic::Allwinner(distributor));
    }
    let maintenance = interrupt(at, at, 0);
    if is_v3(at) {
        return Ok(Gic::V3 {
            distributor,
            redistributors: redistributors(at, spans)?,
            stride: stride(at)?,
            maintenance,
        });
    }
    let cpu = spans.next().ok_or(BoardError::Gic)??;
    let virtualization = spans.next().transpose()?.zip(spans.next().transpose()?);
    Ok(Gic::V2 {
        distributor,
        cpu,
        virtualization,
        maintenance,
    })
}

fn redistributors(
    at: &At<'_>,
    mut spans: impl Iterator<Item = Result<Span<Hpa>, BoardError>>,
) -> Result<Vec<Span<Hpa>, MAX_REDISTRIBUTORS>, BoardError> {
    let count = tree::cell(at.node(), "#redistributor-regions").unwrap_or(1);
    let mut regions = Vec::new();
    for _ in 0..count {
        let region = spans.next().ok_or(BoardError::Gic)??;
        regions.push(region).map_err(|_| BoardError::Gic)?;
    }
    if regions.is_empty() {
        return Err(BoardError::Gic);
    }
    Ok(regions)
}

/// `redistributor-stride`, of one or two cells. It must have room for the two frames of a
/// redistributor.
fn stride(at: &At<'_>) -> Result<Option<u64>, BoardError> {
    let Some(value) = tree::value(at.node(), "redistributor-stride") else {
        return Ok(None);
    };
    let cells = if value.len() == 4 { 1 } else { 2 };
    match Cells(value).number(cells) {
        Some(stride) if stride >= 0x2_0000 && stride.is_multiple_of(0x1_0000) => Ok(Some(stride)),
        _ => Err(BoardError::Gic),
    }
}

pub(super) fn psci(root: &At<'_>) -> Option<PsciMethod> {
    let names = ["arm,psci-1.0", "arm,psci-0.2", "arm,psci"];
    let is_psci = |at: &At<'_>| names.iter().any(|name| tree::compatible(at.node(), name));
    let at = root.find(&|at| at.is_okay() && is_psci(at))?;
    match tree::text(at.node(), "method")? {
        "smc" => Some(PsciMethod::Smc),
        "hvc" => Some(PsciMethod::Hvc),
        _ => None,
    }
}

/// Whether it is a 16550 with a register every four bytes, and there is a driver for that.
fn is_16550(at: &At<'_>) -> bool {
    let is = |name| tree::compatible(at.node(), name);
    cfg!(feature = "allwinner")
        && (is("snps,dw-apb-uart") || is("ns16550a"))
        && tree::cell(at.node(), "reg-shift") == Some(2)
}

/// The kind of a serial port that there is a driver for.
fn serial_kind(at: &At<'_>) -> SerialKind {
    #[cfg(feature = "allwinner")]
    if is_16550(at) {
        return SerialKind::Ns16550;
    }
    let _ = at;
    SerialKind::Pl011
}

/// The port for the console, of a kind that there is a driver for: the one that /chosen/stdout-path names; if
/// that names another kind of port (a Raspberry Pi's names its mini UART), the first one that an alias
/// `serialN` names; else the first one.
pub(super) fn console(root: &At<'_>, gic: &At<'_>) -> Option<Console> {
    let is_port =
        |at: &At<'_>| at.is_okay() && (tree::compatible(at.node(), "arm,pl011") || is_16550(at));
    let at = stdout(root)
        .filter(&is_port)
        .or_else(|| {
            SERIAL
                .iter()
                .find_map(|name| alias(root, name).filter(&is_port))
        })
        .or_else(|| root.find(&is_port))?;
    Some(Console {
        kind: serial_kind(&at),
        registers: at.spans().next()??,
        interrupt: interrupt(&at, gic, 0),
    })
}

/// The node that /chosen/stdout-path names, by a path or an alias, with options after a colon.
fn stdout<'a>(root: &At<'a>) -> Option<At<'a>> {
    let chosen = root.named("chosen").next()?;
    let path = ["stdout-path", "linux,stdout-path"]
        .iter()
        .find_map(|name| tree::text(chosen.node(), name))?;
    let path = path.split(':').next()?;
    if path.starts_with('/') {
        return root.follow(path);
    }
    alias(root, path)
}

/// The aliases of serial ports that are tried.
const SERIAL: [&str; 6] = [
    "serial0", "serial1", "serial2", "serial3", "serial4", "serial5",
];

/// The node that an alias names.
pub(super) fn alias<'a>(root: &At<'a>, name: &str) -> Option<At<'a>> {
    let aliases = root.named("aliases").next()?;
    root.follow(tree::text(aliases.node(), name)?)
}

/// The first PL031.
pub(super) fn rtc(root: &At<'_>) -> Option<Span<Hpa>> {
    let at = root.find(&|at| at.is_okay() && tree::compatible(at.node(), "arm,pl031"))?;
    at.spans().next()?
}

/// The order of the interrupts if `interrupt-names` does not give another one.
const TIMER_NAMES: [&str; 4] = ["sec-phys", "phys", "virt", "hyp-phys"];

pub(super) fn timer(root: &At<'_>, gic: &At<'_>) -> Timer {
    let names = ["arm,armv8-timer", "arm,armv7-timer"];
    let is_timer = |at: &At<'_>| names.iter().any(|name| tree::compatible(at.node(), name));
    let Some(at) = root.find(&|at| at.is_okay() && is_timer(at)) else {
        return Timer::default();
    };
    let named = tree::value(at.node(), "interrupt-names").is_some();
    let of = |name| {
        let place = if named {
            tree::strings(at.node(), "interrupt-names").position(|other| other == name)
        } else {
            TIMER_NAMES.iter().position(|other| *other == name)
        };
        interrupt(&at, gic, place?).filter(|interrupt| interrupt.is_private())
    };
    let [secure, physical, virt, hyp] = TIMER_NAMES.map(of);
    Timer {
        secure,
        physical,
        virt,
        hyp,
    }
}

/// The interrupt at `index` of the node, if it is connected to the GIC.
pub(super) fn interrupt(at: &At<'_>, gic: &At<'_>, index: usize) -> Option<IntId> {
    match line(at, gic, index) {
        Line::Gic { id, .. } => Some(id),
        Line::None | Line::Other => None,
    }
}

/// The connection of a node's interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The node has no interrupt at this index.
    None,
    /// It is connected to the GIC.
    Gic {
        /// Its id.
        id: IntId,
        /// The binding's flags: bits 3:0 are the trigger.
        flags: u32,
    },
    /// It is connected to something else, or cannot be read.
    Other,
}

/// The interrupt at `index` of the node.
pub(super) fn line(at: &At<'_>, gic: &At<'_>, index: usize) -> Line {
    if let Some(nexus) = nexus(at) {
        return through_nexus(at, nexus, gic, index).unwrap_or(Line::Other);
    }
    let width = tree::cell(gic.node(), "#interrupt-cells");
    let (value, extended) = match tree::value(at.node(), "interrupts-extended") {
        Some(value) => (value, 1),
        None => (tree::value(at.node(), "interrupts").unwrap_or_default(), 0),
    };
    let Some(width) = width.filter(|cells| (3..=4).contains(cells) || is_allwinner(gic)) else {
        return if value.is_empty() {
            Line::None
        } else {
            Line::Other
        };
    };
    let size = (width as usize + extended) * 4;
    let rest = index.checked_mul(size).and_then(|start| value.get(start..));
    let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
        return Line::None;
    };
    let mut cells = Cells(rest);
    let parent = match extended {
        1 => cells.one(),
        _ => parent(at, gic),
    };
    if parent.is_some() && parent != tree::cell(gic.node(), "phandle") {
        return Line::Other;
    }
    specifier(&mut cells, gic).unwrap_or(Line::Other)
}

/// The `interrupt-parent` of the node; `None` if no node above it names one. The GIC's own
/// interrupt is connected to the GIC.
fn parent(at: &At<'_>, gic: &At<'_>) -> Option<u32> {
    if at.node().name() == gic.node().name() {
        return None;
    }
    at.upwards()
        .find_map(|node| tree::cell(node, "interrupt-parent"))
}

/// The nearest bus above the node that maps the interrupts of its devices, if that bus is the
/// node's interrupt parent (Devicetree Specification v0.4, 2.4): it is unless a node in between
/// names another one.
fn nexus<'a, 'b>(at: &'b At<'a>) -> Option<&'b FdtNode<'a>> {
    let names_another = |node: &FdtNode<'_>| {
        ["interrupt-parent", "interrupts-extended"]
            .iter()
            .any(|name| tree::value(node, name).is_some())
    };
    let mut below = at.node();
    for node in at.upwards().skip(1) {
        if names_another(below) {
            return None;
        }
        if tree::cell(node, "#interrupt-cells").is_some() {
            return tree::value(node, "interrupt-map").map(|_| node);
        }
        below = node;
    }
    None
}

/// The interrupt at `index` of a node, by the map of a nexus (2.4.3). Maps that depend on the
/// device's address, or lead to something else than the GIC, are not supported.
fn through_nexus(at: &At<'_>, nexus: &FdtNode<'_>, gic: &At<'_>, index: usize) -> Option<Line> {
    let cells = |node: &FdtNode<'_>, name| tree::cell(node, name).unwrap_or(0).min(4);
    let width = cells(nexus, "#interrupt-cells");
    let wanted = tree::value(at.node(), "interrupts").unwrap_or_default();
    let start = index.checked_mul(width as usize * 4)?;
    let rest = wanted.get(start..).filter(|rest| !rest.is_empty());
    let Some(rest) = rest else {
        return Some(Line::None);
    };
    let wanted = Cells(rest).number(width)?;
    let address = cells(nexus, "#address-cells");
    let mut mask = Cells(tree::value(nexus, "interrupt-map-mask")?);
    if mask.number(address)? != 0 {
        return None;
    }
    let mask = mask.number(width)?;
    let mut map = Cells(tree::value(nexus, "interrupt-map")?);
    while !map.is_empty() {
        map.number(address)?;
        let child = map.number(width)?;
        if map.one() != tree::cell(gic.node(), "phandle") {
            return None;
        }
        map.number(cells(gic.node(), "#address-cells"))?;
        let line = specifier(&mut map, gic)?;
        if child & mask == wanted & mask {
            return Some(line);
        }
    }
    None
}

/// An interrupt in the GIC's binding: type, number, flags. Allwinner's has the number alone; all are
/// level-sensitive, which is flag 4.
pub(super) fn specifier(cells: &mut Cells<'_>, gic: &At<'_>) -> Option<Line> {
    const ALLWINNER_LINES: u32 = 96;
    if is_allwinner(gic) {
        let number = cells.one().filter(|number| *number < ALLWINNER_LINES)?;
        let id = IntId::spi(number);
        return Some(Line::Gic { id, flags: 4 });
    }
    let id = match (cells.one()?, cells.one()?) {
        (0, number @ 0..=987) => IntId::spi(number),
        (1, number @ 0..=15) => IntId::ppi(number),
        _ => return None,
    };
    let flags = cells.one()?;
    Some(Line::Gic { id, flags })
}
