//! What this VM serves, and with what, from its device tree.

use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use hanok_driver_service::{BoardDevice, MOST, MOST_SCREENS, Served, Wanted, WantedScreen};
use hanok_guest_runtime::tree::{number, property};

/// The first shared interrupt of a GIC.
const SPI: u32 = 32;

/// What the tree says that this VM serves.
///
/// # Safety
///
/// `tree` is the address of a device tree, mapped, that nobody changes.
pub unsafe fn read(tree: u64) -> Result<Served, &'static str> {
    // SAFETY: the caller's promise.
    let blob = unsafe { hanok_guest_runtime::tree::blob(tree) };
    let fdt = Fdt::new(blob).map_err(|_| "the device tree cannot be read")?;
    let root = fdt.root();
    let bus = root
        .children()
        .find(|node| node.name().starts_with("platform-bus@"));
    let wanted = root
        .children()
        .filter(|node| property(node, "compatible") == Some(b"hanok,back-end\0"));
    let back_ends = wanted.filter_map(|node| back_end(&node, bus.as_ref()));
    let screens = root
        .children()
        .filter(|node| property(node, "compatible") == Some(b"hanok,screen\0"));
    let screens = screens.filter_map(|node| screen(&node, bus.as_ref()?));
    Ok(Served {
        screens: screens.take(MOST_SCREENS).collect(),
        back_ends: back_ends.take(MOST).collect(),
        to_board: bus.as_ref().and_then(to_board),
    })
}

/// A back end's node, whose device of the board is on `bus`.
fn back_end(node: &FdtNode<'static>, bus: Option<&FdtNode<'static>>) -> Option<Wanted> {
    let device = match property(node, "hanok,device").map(number) {
        Some(registers) => Some(BoardDevice {
            registers,
            interrupt: device_interrupt(bus?, registers)?,
        }),
        None => None,
    };
    let mac = property(node, "local-mac-address").and_then(|mac| mac.first_chunk());
    Some(Wanted {
        registers: number(property(node, "reg")?.get(..8)?),
        interrupt: interrupt(node)?,
        client: text(property(node, "hanok,client")?)?,
        kind: text(property(node, "hanok,kind")?)?,
        device,
        mac: mac.copied().unwrap_or_default(),
        vlan: property(node, "hanok,vlan").map_or(0, |vlan| number(vlan) as u32),
        cid: property(node, "hanok,cid").map_or(0, number),
    })
}

/// A screen's node, whose devices of the board are on `bus`.
fn screen(node: &FdtNode<'static>, bus: &FdtNode<'static>) -> Option<WantedScreen> {
    let device = |name| {
        let registers = number(property(node, name)?);
        Some(BoardDevice {
            registers,
            interrupt: device_interrupt(bus, registers)?,
        })
    };
    let cell = |name| property(node, name).map(|cell| number(cell) as u32);
    let (width, height, stride) = (cell("width")?, cell("height")?, cell("stride")?);
    let reg = property(node, "reg")?;
    let frames = number(reg.get(16..24)?);
    let members = property(node, "hanok,members")?;
    let whole = width >= 16 && height >= 1 && stride >= width;
    whole.then_some(())?;
    Some(WantedScreen {
        registers: number(reg.get(..8)?),
        interrupt: interrupt(node)?,
        frames,
        board: on_board(bus, frames)?,
        bytes: number(reg.get(24..32)?),
        // The first one is this VM.
        members,
        clients: members
            .iter()
            .filter(|byte| **byte == 0)
            .count()
            .checked_sub(1)?,
        width,
        height,
        stride,
        front: cell("hanok,front")? as usize,
        device: device("hanok,device")?,
        keyboard: device("hanok,keyboard"),
        mouse: device("hanok,mouse"),
    })
}

/// The board's address of memory that begins at `here`, by `dma-ranges` of the bus.
fn on_board(bus: &FdtNode<'static>, here: u64) -> Option<u64> {
    let (entries, _) = property(bus, "dma-ranges")?.as_chunks::<24>();
    let mut entries = entries.iter();
    let is_it = |entry: &&[u8; 24]| entry.get(8..16).map(number) == Some(here);
    entries.find(is_it)?.get(..8).map(number)
}

/// The interrupt of the device with registers at `device`, whose node counts from the bus's start.
fn device_interrupt(bus: &FdtNode<'static>, device: u64) -> Option<u32> {
    let start = number(property(bus, "ranges")?.get(8..16)?);
    let mut nodes = bus.children();
    let found = nodes.find(|node| {
        let offset = property(node, "reg").and_then(|reg| reg.get(..8));
        offset.is_some_and(|offset| start + number(offset) == device)
    });
    interrupt(&found?)
}

/// The first interrupt of a node: the second of its three cells, counted from the first SPI.
fn interrupt(node: &FdtNode<'static>) -> Option<u32> {
    Some(SPI + number(property(node, "interrupts")?.get(4..8)?) as u32)
}

/// `dma-ranges` of the bus: RAM's address on the board, its address here, its size.
fn to_board(bus: &FdtNode<'static>) -> Option<u64> {
    let ranges = property(bus, "dma-ranges")?;
    let (board, here) = (number(ranges.get(..8)?), number(ranges.get(8..16)?));
    Some(board.wrapping_sub(here))
}

fn text(bytes: &'static [u8]) -> Option<&'static str> {
    core::str::from_utf8(bytes.strip_suffix(b"\0")?).ok()
}
