//! The options for rewriting a file.

use super::form::Trampolines;

/// How a file is to be rewritten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which sites get trampolines.
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
