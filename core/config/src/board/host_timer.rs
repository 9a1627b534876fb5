//! The timer of boards whose CPUs have no generic timer: the global timer of Cortex-A5 and A9 (DDI 0407,
//! chapter 4), or an Allwinner A10's timers.

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
/// The global timer's interrupt, which is always this PPI (DDI 0407, 3.1.2).
const INTERRUPT: IntId = IntId::new(27);
/// The node of an Allwinner A10's timers.
#[cfg(feature = "allwinner")]
const ALLWINNER: [&str; 1] = ["allwinner,sun4i-a10-timer"];
/// The bytes of the global timer's registers.
const SIZE: u64 = 0x20;

/// The kinds of timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostTimerKind {
    /// The global timer of Cortex-A5 and A9, whose interrupt is private to each CPU.
    Global,
    /// An Allwinner A10's timers. The interrupt is the first one's.
    #[cfg(feature = "allwinner")]
    Allwinner,
}

/// The timer that a board has instead of generic ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTimer {
    /// Its kind.
    pub kind: HostTimerKind,
    /// Its registers.
    pub registers: Span<Hpa>,
    /// Its interrupt.
    pub interrupt: IntId,
    /// Its frequency in Hz, where the tree says it.
    pub frequency: Option<u32>,
}

impl BoardTree<'_> {
    /// The timer of a board whose CPUs have no generic timer. It is looked for in the whole tree again, as most
    /// boards do not need it.
    pub fn host_timer(&self) -> Option<HostTimer> {
        let fdt = tree::open(self.bytes).ok()?;
        let root = At::root(&fdt);
        find(&root, &devices::find_gic(&root)?)
    }
}

/// The timer: Allwinner's, the global one's own node, or the one beside the private timer that a node describes.
fn find(root: &At<'_>, gic: &At<'_>) -> Option<HostTimer> {
    let one_of = |names: &[&str]| {
        root.find(&|at: &At<'_>| {
            at.is_okay() && names.iter().any(|name| tree::compatible(at.node(), name))
        })
    };
    #[cfg(feature = "allwinner")]
    if let Some(at) = one_of(&ALLWINNER) {
        return Some(HostTimer {
            kind: HostTimerKind::Allwinner,
            registers: at.spans().next()??,
            interrupt: devices::interrupt(&at, gic, 0)?,
            frequency: frequency(root, &at),
        });
    }
    let (at, behind) = one_of(&GLOBAL)
        .map(|at| (at, 0))
        .or_else(|| Some((one_of(&PRIVATE)?, PRIVATE_BEHIND)))?;
    let start = at.spans().next()??.start().get().checked_sub(behind)?;
    let own = devices::interrupt(&at, gic, 0).filter(|_| behind == 0);
    Some(HostTimer {
        kind: HostTimerKind::Global,
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
