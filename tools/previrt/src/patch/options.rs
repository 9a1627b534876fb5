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
    /// As [`Self::Silent`], and what gets a form that does not trap: a trampoline, or, for reads of TPIDRPRW,
    /// TPIDRURW instead. The hypervisor has to map the virtual CPU's page and to keep TPIDRPRW in TPIDRURW; the
    /// file says by its area of trampolines that it does. A file without room for such an area, or with a
    /// doubtful access to TPIDRURW, is treated as by [`Self::Silent`].
    Frequent,
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
    /// Whether trampolines have to be inside the file, in memory that is a part of it.
    pub inside: bool,
}

impl From<Trampolines> for Options {
    fn from(trampolines: Trampolines) -> Self {
        Self {
            trampolines,
            ..Self::default()
        }
    }
}
