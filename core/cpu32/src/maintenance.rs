//! Operations on caches, branch predictors and TLBs, barriers, and the translation of an address
//! (DDI 0406C, B4.2).

use crate::Rights;
use crate::coprocessor::Name;
use crate::outcome::{MmuOperation, Outcome};

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

/// The operation that a write of `value` to this register of CP15 means; `None` if it means none.
pub(crate) fn operation(name: Name, value: u32) -> Option<Outcome> {
    match name.tuple() {
        (0, 7, crm, opc2) => cache(crm, opc2, value),
        (0, 8, crm, opc2) => tlb(crm, opc2, value)
            .map(MmuOperation::Tlb)
            .map(Outcome::Mmu),
        _ => None,
    }
}

fn cache(crm: u8, opc2: u8, value: u32) -> Option<Outcome> {
    Some(match (crm, opc2) {
        // What waiting for an interrupt and a prefetch were in ARMv6: nothing is done (B3.17.1).
        (0, 4) | (13, 1) => Outcome::Done,
        (5, 4) => Outcome::Barrier(Barrier::Instruction),
        (10, 4) => Outcome::Barrier(Barrier::DataSynchronization),
        (10, 5) => Outcome::Barrier(Barrier::DataMemory),
        (8, 0..=3) => Outcome::Mmu(MmuOperation::Translate(translation(opc2, value))),
        _ => Outcome::Cache(cached(crm, opc2, value)?),
    })
}

/// ATS1CPR, ATS1CPW, ATS1CUR, ATS1CUW. Those of a Secure state are undefined.
const fn translation(opc2: u8, address: u32) -> Translation {
    Translation {
        address,
        rights: if opc2 & 2 == 0 {
            Rights::Kernel
        } else {
            Rights::User
        },
        write: opc2 & 1 != 0,
    }
}

const fn cached(crm: u8, opc2: u8, value: u32) -> Option<CacheOperation> {
    use DataCacheAction::{Clean, CleanAndInvalidate, Invalidate};
    use DataCachePlace::{SetWay, ToCoherency, ToUnification};
    Some(match (crm, opc2) {
        (1, 0) => CacheOperation::InstructionAll(Reach::InnerShareable),
        (1, 6) => CacheOperation::BranchAll(Reach::InnerShareable),
        (5, 0) => CacheOperation::InstructionAll(Reach::Local),
        (5, 1) => CacheOperation::InstructionAddress(value),
        (5, 6) => CacheOperation::BranchAll(Reach::Local),
        (5, 7) => CacheOperation::BranchAddress(value),
        (6, 1) => CacheOperation::Data(Invalidate, ToCoherency(value)),
        (6, 2) => CacheOperation::Data(Invalidate, SetWay(value)),
        (10, 1) => CacheOperation::Data(Clean, ToCoherency(value)),
        (10, 2) => CacheOperation::Data(Clean, SetWay(value)),
        (11, 1) => CacheOperation::Data(Clean, ToUnification(value)),
        (14, 1) => CacheOperation::Data(CleanAndInvalidate, ToCoherency(value)),
        (14, 2) => CacheOperation::Data(CleanAndInvalidate, SetWay(value)),
        _ => return None,
    })
}

fn tlb(crm: u8, opc2: u8, value: u32) -> Option<TlbOperation> {
    let (unit, reach) = match crm {
        3 => (TlbUnit::Unified, Reach::InnerShareable),
        5 => (TlbUnit::Instruction, Reach::Local),
        6 => (TlbUnit::Data, Reach::Local),
        7 => (TlbUnit::Unified, Reach::Local),
        _ => return None,
    };
    let (page, asid) = (value & !0xfff, value as u8);
    let scope = match opc2 {
        0 => TlbScope::All,
        1 => TlbScope::Address { page, asid },
        2 => TlbScope::Asid(asid),
        3 if unit == TlbUnit::Unified => TlbScope::AddressAllAsids { page },
        _ => return None,
    };
    Some(TlbOperation { scope, unit, reach })
}
