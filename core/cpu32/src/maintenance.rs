//! Which operation on caches, branch predictors and TLBs, which barrier or translation a write of CP15 means
//! (DDI 0406C, B4.2).

use crate::Rights;
use crate::name::Name;
use crate::operations::{
    Barrier, CacheOperation, DataCacheAction, DataCachePlace, Reach, TlbOperation, TlbScope,
    TlbUnit, Translation,
};
use crate::outcome::{MmuOperation, Outcome};

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
