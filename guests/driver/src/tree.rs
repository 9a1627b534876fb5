//! What this VM serves, and with what, from its device tree.

use dtoolkit::Node;
use dtoolkit::fdt::{Fdt, FdtNode};
use hanok_guest_runtime::tree::{number, property};
use heapless::Vec;

/// The most back ends.
const MOST: usize = 16;
/// The first shared interrupt of a GIC.
const SPI: u32 = 32;

/// A virtio device of another VM.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The back end's registers.
    pub registers: u64,
    /// The back end's interrupt.
    pub interrupt: u32,
    /// The other VM.
    pub client: &'static str,
    /// What the device is.
    pub kind: &'static str,
    /// The device of the board behind it.
    pub device: Option<BoardDevice>,
    /// Of a network, the client's MAC address.
    pub mac: [u8; 6],
    /// Of a network, its VLAN; 0 if it is in none.
    pub vlan: u32,
    /// Of sockets, the client's CID.
    pub cid: u64,
}

/// A device of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardDevice {
    /// Its registers.
    pub registers: u64,
    /// Its interrupt.
    pub interrupt: u32,
}

/// What this VM serves.
pub struct Served {
    /// The devices of other VMs.
    pub back_ends: Vec<Wanted, MOST>,
    /// What is to be added to an address of this VM's RAM for a device of the board's; `None` if they cannot reach it.
    pub to_board: Option<u64>,
}

impl Served {
    /// Reads the tree.
    ///
    /// # Safety
    ///
    /// `tree` is the address of a device tree, mapped, that nobody changes.
    pub unsafe fn read(tree: u64) -> Result<Self, &'static str> {
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
        Ok(Self {
            back_ends: back_ends.take(MOST).collect(),
            to_board: bus.as_ref().and_then(to_board),
        })
    }
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
