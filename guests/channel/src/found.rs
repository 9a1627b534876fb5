//! Where a channel is, by the device tree.

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};

/// A channel in the device tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The address of the registers.
    pub registers: u64,
    /// The address of the memory.
    pub memory: u64,
    /// The bytes of the memory.
    pub len: u64,
    /// The interrupt's id for the interrupt controller.
    pub interrupt: u32,
    /// Whether this VM may only read the memory.
    pub read_only: bool,
    /// Whether the memory is cached where the guest maps it so. If not, it is uncached however it is mapped.
    pub cached: bool,
}

/// The channel with this name in a flattened device tree; `None` if there is none, or it is damaged.
pub fn find(tree: &[u8], name: &str) -> Option<Found> {
    let root = Fdt::new(tree).ok()?.root();
    let is_it = |node: &FdtNode<'_>| {
        text(node, "compatible") == Some("hanok,channel") && text(node, "hanok,name") == Some(name)
    };
    let node = root.children().find(is_it)?;
    let (numbers, _) = value(&node, "reg")?.as_chunks::<8>();
    let [registers, _, memory, len] = *numbers.first_chunk::<4>()?;
    // The kind (0: shared), the number from 32 on, and how it is triggered.
    let (cells, _) = value(&node, "interrupts")?.as_chunks::<4>();
    Some(Found {
        registers: u64::from_be_bytes(registers),
        memory: u64::from_be_bytes(memory),
        len: u64::from_be_bytes(len),
        interrupt: u32::from_be_bytes(*cells.get(1)?).checked_add(32)?,
        read_only: value(&node, "read-only").is_some(),
        cached: value(&node, "hanok,cached").is_some(),
    })
}

fn value<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    let mut properties = node.properties();
    let property = properties.find(|property| property.name() == name)?;
    property.value_as().ok()
}

fn text<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a str> {
    let text = value(node, name)?.split(|byte| *byte == 0).next()?;
    core::str::from_utf8(text).ok()
}
