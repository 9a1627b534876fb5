//! A node with the buses above it. Its addresses become those of a CPU by the `ranges` of these
//! buses (Devicetree Specification v0.4, 2.3.8).

use crate::fdt::{Fdt, FdtNode};
use crate::tree::{self, Cells};
use hanok_types::{Hpa, Span};
use heapless::Vec;

/// The largest depth that is searched; real trees have less than half of this. Deeper nodes are not
/// found, so that no tree can make this code use more stack.
const MAX_DEPTH: usize = 12;

/// A node and its ancestors.
#[derive(Clone)]
pub(crate) struct At<'a> {
    /// The ancestors, from the root to the parent.
    above: Vec<FdtNode<'a>, MAX_DEPTH>,
    node: FdtNode<'a>,
}

impl<'a> At<'a> {
    /// The root.
    pub(super) fn root(fdt: &Fdt<'a>) -> Self {
        Self {
            above: Vec::new(),
            node: fdt.root(),
        }
    }

    pub(super) fn node(&self) -> &FdtNode<'a> {
        &self.node
    }

    /// The node and its ancestors, nearest first.
    pub(super) fn upwards(&self) -> impl Iterator<Item = &FdtNode<'a>> {
        core::iter::once(&self.node).chain(self.above.iter().rev())
    }

    pub(super) fn children(&self) -> impl Iterator<Item = Self> + use<'a> {
        let mut above = self.above.clone();
        let deep = above.push(self.node).is_err();
        let limit = if deep { 0 } else { usize::MAX };
        let children = self.node.children().take(limit);
        children.map(move |node| Self {
            above: above.clone(),
            node,
        })
    }

    /// The children whose name, without the unit address, is `name`.
    pub(super) fn named(&self, name: &'static str) -> impl Iterator<Item = Self> + use<'a> {
        self.children()
            .filter(move |at| at.node.name_without_address() == name)
    }

    /// The first node below for which `wanted` is true, in the tree's order.
    pub(super) fn find(&self, wanted: &dyn Fn(&Self) -> bool) -> Option<Self> {
        self.children().find_map(|at| {
            if wanted(&at) {
                Some(at)
            } else {
                at.find(wanted)
            }
        })
    }

    /// The node at `path` from the root. A component without a unit address means the first node
    /// with that name.
    pub(super) fn follow(&self, path: &str) -> Option<Self> {
        let mut components = path.strip_prefix('/')?.split('/');
        components.try_fold(self.clone(), |at, name| {
            at.children().find(|child| {
                child.node.name() == name || child.node.name_without_address() == name
            })
        })
    }

    /// Whether `other` is this node, or below it.
    #[cfg(feature = "write")]
    pub(super) fn holds(&self, other: &Self) -> bool {
        let depth = self.above.len();
        let at_depth = other.above.iter().chain([&other.node]).nth(depth);
        at_depth.is_some_and(|node| same(node, &self.node))
    }

    /// Whether the device works: it has no `status`, or "okay" (or "ok", which real trees have).
    pub(super) fn is_okay(&self) -> bool {
        matches!(tree::text(&self.node, "status"), None | Some("okay" | "ok"))
    }

    /// Whether the tree says that the device has failed. A "disabled" CPU can still be started
    /// (Devicetree Specification v0.4, 3.8.1).
    pub(super) fn has_failed(&self) -> bool {
        tree::text(&self.node, "status").is_some_and(|status| status.starts_with("fail"))
    }

    /// The numbers of cells of an address and of a size in this node's children.
    pub(super) fn cells(&self) -> (u32, u32) {
        cells(&self.node)
    }

    /// The ranges of `reg` at a CPU's addresses; `None` for a range that cannot be read or that no
    /// CPU can reach.
    pub(super) fn spans(&self) -> impl Iterator<Item = Option<Span<Hpa>>> + use<'a> {
        let at = self.clone();
        let (address, size) = at.above.last().map_or((2, 1), cells);
        let mut reg = Cells(tree::value(&self.node, "reg").unwrap_or_default());
        core::iter::from_fn(move || {
            if reg.is_empty() {
                return None;
            }
            let pair = reg.number(address).zip(reg.number(size));
            if pair.is_none() || address == 0 {
                reg = Cells(&[]);
                return Some(None);
            }
            Some(pair.and_then(|(start, len)| at.translate(start, len)))
        })
    }

    /// Translates an address on the bus of the node to one of a CPU.
    fn translate(&self, start: u64, len: u64) -> Option<Span<Hpa>> {
        let buses = self.above.iter().rev();
        let parents = self.above.iter().rev().skip(1);
        let start = buses.zip(parents).try_fold(start, |start, (bus, parent)| {
            through(bus, parent, start, len)
        })?;
        Span::new(Hpa::new(start), len)
    }
}

/// Translates an address on `bus` to one on the bus of `parent`.
fn through(bus: &FdtNode<'_>, parent: &FdtNode<'_>, start: u64, len: u64) -> Option<u64> {
    let mut ranges = Cells(tree::value(bus, "ranges")?);
    if ranges.is_empty() {
        return Some(start);
    }
    let (child_cells, size_cells) = cells(bus);
    let (parent_cells, _) = cells(parent);
    // An iteration over ranges of no bytes would never end.
    if (child_cells, parent_cells, size_cells) == (0, 0, 0) {
        return None;
    }
    while !ranges.is_empty() {
        let child = ranges.number(child_cells)?;
        let above = ranges.number(parent_cells)?;
        let size = ranges.number(size_cells)?;
        let inside = start.checked_sub(child);
        if let Some(offset) = inside.filter(|at| at.checked_add(len).is_some_and(|end| end <= size))
        {
            return above.checked_add(offset);
        }
    }
    None
}

/// Whether two nodes of one tree are the same node: their names are at the same place.
#[cfg(feature = "write")]
fn same(one: &FdtNode<'_>, other: &FdtNode<'_>) -> bool {
    one.name().as_ptr() == other.name().as_ptr()
}

fn cells(node: &FdtNode<'_>) -> (u32, u32) {
    let cells = |name, default| tree::cell(node, name).unwrap_or(default).min(4);
    (cells("#address-cells", 2), cells("#size-cells", 1))
}
