//! Operations on caches, branch predictors and TLBs, barriers, and the translation of an address
//! (DDI 0406C, B4.2).

use crate::Rights;

/// For which CPUs an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reach {
    /// For the CPU that asks.
    Local,
    /// For all CPUs of the VM.
    InnerShareable,
}

/// Which TLB an operation concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the manual's words
pub enum TlbUnit {
    Unified,
    Instruction,
    Data,
}

/// Which TLB entries become invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlbScope {
    /// All of them.
    All,
    /// Those for a page of an address space, and global ones for it.
    Address {
        /// The page's address, a multiple of 4,096.
        page: u32,
        /// The address space.
        asid: u8,
    },
    /// Those of an address space, but for global ones.
    Asid(u8),
    /// Those for a page, of all address spaces.
    AddressAllAsids {
        /// The page's address, a multiple of 4,096.
        page: u32,
    },
}

/// TLB entries become invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TlbOperation {
    /// Which of them.
    pub scope: TlbScope,
    /// In which TLB.
    pub unit: TlbUnit,
    /// On which CPUs.
    pub reach: Reach,
}

/// What is done to a line of a data cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the manual's words
pub enum DataCacheAction {
    Invalidate,
    Clean,
    CleanAndInvalidate,
}

/// Which line of a data cache, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataCachePlace {
    /// The line of a guest's virtual address, to the point of coherency.
    ToCoherency(u32),
    /// The line of a guest's virtual address, to the point of unification.
    ToUnification(u32),
    /// The operand of an operation by set, way and level.
    SetWay(u32),
}

/// An operation on caches or branch predictors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheOperation {
    /// Instruction caches become invalid, with the branch predictors: ICIALLU, ICIALLUIS.
    InstructionAll(Reach),
    /// The line of an address becomes invalid in the instruction caches: ICIMVAU.
    InstructionAddress(u32),
    /// Branch predictors become invalid: BPIALL, BPIALLIS.
    BranchAll(Reach),
    /// A branch predictor's entry for an address becomes invalid: BPIMVA.
    BranchAddress(u32),
    /// A line of a data or unified cache.
    Data(DataCacheAction, DataCachePlace),
}

/// A barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Barrier {
    /// ISB.
    Instruction,
    /// DSB.
    DataSynchronization,
    /// DMB.
    DataMemory,
}

/// An address that the guest wants translated: ATS1CPR and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Translation {
    /// The guest's virtual address.
    pub address: u32,
    /// With whose rights it would be accessed.
    pub rights: Rights,
    /// Whether it would be written.
    pub write: bool,
}
