//! The options for rewriting a file.

use super::form::Trampolines;

/// Which certain sites are rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sites {
    /// All.
    #[default]
    All,
    /// Those that User mode would execute silently differently or unpredictably, each to a trap
    /// that holds the instruction itself. No trap needs a table, and none of the virtual CPU's
    /// memory is used, so that the rewritten file alone is enough. What traps by itself is left, and so
    /// is what no trap can hold: the hypervisor finds that when it is executed.
    Silent,
}

/// How a file is to be rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which sites are rewritten.
    pub sites: Sites,
    /// Which sites get trampolines; none if [`Sites::Silent`] are rewritten.
    pub trampolines: Trampolines,
    /// The first address of memory for trampolines that neither the program nor anything it needs
    /// uses.
    pub area: Option<u32>,
    /// Whether all code is executed where it is linked: none is copied elsewhere first.
    pub in_place: bool,
}

impl From<Trampolines> for Options {
    fn from(trampolines: Trampolines) -> Self {
        Self {
            trampolines,
            ..Self::default()
        }
    }
}
