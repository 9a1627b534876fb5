//! The timer of boards whose CPUs have no generic timer: the global timer of Cortex-A5 and A9 (DDI 0407,
//! chapter 4).

use super::place::At;
use super::{BoardTree, devices};
use crate::tree::{self, Cells};
use hanok_types::{Hpa, IntId, Span};

/// The nodes of the global timer.
const GLOBAL: [&str; 2] = ["arm,cortex-a9-global-timer", "arm,cortex-a5-global-timer"];
/// The nodes of a CPU's private timer, which lies in the same block of registers.
const PRIVATE: [&str; 2] = ["arm,cortex-a9-twd-timer", "arm,cortex-a5-twd-timer"];
/// How far the private timer's registers are behind the global timer's (DDI 0407, 1.5).
const PRIVATE_BEHIND: u64 = 0x400;
/// The bytes of the global timer's registers.
const SIZE: u64 = 0x20;
/// The global timer's interrupt, which is always this PPI (DDI 0407, 3.1.2).
const INTERRUPT: IntId = IntId::new(27);

/// A global timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalTimer {
    /// Its registers.
    pub registers: Span<Hpa>,
    /// Its interrupt, private to each CPU.
    pub interrupt: IntId,
    /// Its frequency in Hz, where the tree says it.
    pub frequency: Option<u32>,
}

impl BoardTree<'_> {
    /// The global timer of CPUs that have no generic timer. It is looked for in the whole tree again, as most boards
    /// do not need it.
    pub fn global_timer(&self) -> Option<GlobalTimer> {
        let fdt = tree::open(self.bytes).ok()?;
        let root = At::root(&fdt);
        find(&root, &devices::find_gic(&root)?)
    }
}

/// The global timer: its own node's, or the one beside the private timer that a node describes.
fn find(root: &At<'_>, gic: &At<'_>) -> Option<GlobalTimer> {
    let one_of = |names: &[&str], at: &At<'_>| {
        at.is_okay() && names.iter().any(|name| tree::compatible(at.node(), name))
    };
    let (at, behind) = root
        .find(&|at| one_of(&GLOBAL, at))
        .map(|at| (at, 0))
        .or_else(|| Some((root.find(&|at| one_of(&PRIVATE, at))?, PRIVATE_BEHIND)))?;
    let start = at.spans().next()??.start().get().checked_sub(behind)?;
    let own = devices::interrupt(&at, gic, 0).filter(|_| behind == 0);
    Some(GlobalTimer {
        registers: Span::new(Hpa::new(start), SIZE)?,
        interrupt: own.unwrap_or(INTERRUPT),
        frequency: frequency(root, &at),
    })
}

/// The frequency of the node's first clock, if that is fixed.
fn frequency(root: &At<'_>, at: &At<'_>) -> Option<u32> {
    let handle = Cells(tree::value(at.node(), "clocks")?).one()?;
    let has_handle = |at: &At<'_>| tree::cell(at.node(), "phandle") == Some(handle);
    let clock = root.find(&has_handle)?;
    if !tree::compatible(clock.node(), "fixed-clock") {
        return None;
    }
    tree::cell(clock.node(), "clock-frequency")
}
