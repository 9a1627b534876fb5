//! The cores, and how they are shared.

use crate::{Nanos, Policy};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A core of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(transparent)
)]
pub struct CoreId(pub u8);

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How the cores of a pool are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each component stays on one core.
    #[default]
    Partitioned,
    /// A component runs on any free core, on one at a time.
    Global,
}

/// Cores that are scheduled together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// The pool's name, unique among the pools.
    pub name: String,
    /// The pool's cores. None of them is in another pool.
    pub cores: Vec<CoreId>,
    /// How the cores are shared.
    pub mode: Mode,
    /// The policy by which a core (or the pool, if it is global) chooses among its components.
    pub policy: Policy,
}

impl Pool {
    /// A partitioned pool under EDF.
    pub fn new(name: impl Into<String>, cores: impl IntoIterator<Item = CoreId>) -> Self {
        Self {
            name: name.into(),
            cores: cores.into_iter().collect(),
            mode: Mode::Partitioned,
            policy: Policy::Edf,
        }
    }
}

/// The cost of switching from one component to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SwitchCost {
    /// The time of the switch itself: registers, interrupt controller, timers.
    pub switch: Nanos,
    /// The longest time that caches and TLBs take afterwards to be warm again.
    pub refill: Nanos,
}

impl SwitchCost {
    /// The cost of a component in each of its periods, beyond its budget: one switch to it, and one
    /// back to the component it preempted, each with the refill that follows. Charging a preemption
    /// to the preempting member is the usual account (Burns, Tindell & Wellings, IEEE TSE 21(5)
    /// 1995).
    pub fn per_period(self) -> Nanos {
        let once = self.switch.saturating_add(self.refill);
        once.saturating_add(once)
    }
}
