//! How a file is rewritten.

use super::form::Trampolines;

/// What is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which sites get trampolines.
    pub trampolines: Trampolines,
    /// Memory for them that the program and what it needs leave free: the first address.
    pub room: Option<u32>,
    /// All code is executed where it is linked: none is copied elsewhere first.
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
