//! Why a frame's flow contradicts itself.

/// A contradiction, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The offset in bytes at which the second of the two findings begins.
    pub offset: u32,
    /// What the two are.
    pub contradiction: Contradiction,
}

/// Two findings about the same halfword that exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contradiction {
    /// Two instructions of one instruction set overlap.
    Overlap,
    /// The halfword is reached both as A32 and as T32.
    InstructionSets,
    /// The instruction is reached at two places of an IT block, or in one and outside of any.
    Block,
    /// The halfword is executed, and also loaded relative to the PC.
    CodeAndData,
}

impl Contradiction {
    /// This contradiction, found at `offset`.
    pub(crate) const fn at(self, offset: u32) -> Conflict {
        Conflict {
            offset,
            contradiction: self,
        }
    }
}
