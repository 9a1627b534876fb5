//! What was changed in a guest's code, so that it can be taken back.

use hanok_types::Gva;

/// What stands at a site now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Standing {
    /// The branch to the slot.
    Ours,
    /// The guest's instruction, as it was: nothing is to be undone.
    Original,
    /// Something else: the guest has rewritten or reused this memory, and it must not be touched.
    Rewritten,
}

/// The four bytes of a site before and after the probe was put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The address of the site.
    pub site: Gva,
    /// What the guest had there, and what undoes the probe.
    pub original: [u8; 4],
    /// The branch to the slot.
    pub patched: [u8; 4],
}

impl Patch {
    /// What stands at the site, by its bytes.
    pub fn standing(&self, bytes: [u8; 4]) -> Standing {
        if bytes == self.patched {
            Standing::Ours
        } else if bytes == self.original {
            Standing::Original
        } else {
            Standing::Rewritten
        }
    }
}
