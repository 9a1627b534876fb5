//! Operations on caches, branch predictors and TLBs, barriers, translations (DDI 0406C, B4.2).

use crate::board::Board;
use hanok_cpu32::{
    Barrier, CacheOperation, DataCacheAction, DataCachePlace, MmuOperation, Mode, Outcome, Reach,
    Rights, TlbOperation, TlbScope, TlbUnit, Translation, Vector,
};

const VALUE: u32 = 0x8765_4321;
const PAGE: u32 = 0x8765_4000;
const ASID: u8 = 0x21;

/// The operation of c7 or c8 with CRm and opc2.
fn operation(crn: u32, crm: u32, opc2: u32) -> Outcome {
    Board::in_mode(Mode::Supervisor).mcr((0, crn, crm, opc2), VALUE)
}

fn data(action: DataCacheAction, place: DataCachePlace) -> Outcome {
    Outcome::Cache(CacheOperation::Data(action, place))
}

#[test]
fn operations_on_caches_are_told_apart() {
    use DataCacheAction::{Clean, CleanAndInvalidate, Invalidate};
    use DataCachePlace::{SetWay, ToCoherency, ToUnification};
    let cache = Outcome::Cache;
    let all = [
        (
            1,
            0,
            cache(CacheOperation::InstructionAll(Reach::InnerShareable)),
        ),
        (
            1,
            6,
            cache(CacheOperation::BranchAll(Reach::InnerShareable)),
        ),
        (5, 0, cache(CacheOperation::InstructionAll(Reach::Local))),
        (5, 1, cache(CacheOperation::InstructionAddress(VALUE))),
        (5, 6, cache(CacheOperation::BranchAll(Reach::Local))),
        (5, 7, cache(CacheOperation::BranchAddress(VALUE))),
        (6, 1, data(Invalidate, ToCoherency(VALUE))),
        (6, 2, data(Invalidate, SetWay(VALUE))),
        (10, 1, data(Clean, ToCoherency(VALUE))),
        (10, 2, data(Clean, SetWay(VALUE))),
        (11, 1, data(Clean, ToUnification(VALUE))),
        (14, 1, data(CleanAndInvalidate, ToCoherency(VALUE))),
        (14, 2, data(CleanAndInvalidate, SetWay(VALUE))),
        (0, 4, Outcome::Done),
        (13, 1, Outcome::Done),
        (5, 4, Outcome::Barrier(Barrier::Instruction)),
        (10, 4, Outcome::Barrier(Barrier::DataSynchronization)),
        (10, 5, Outcome::Barrier(Barrier::DataMemory)),
    ];
    for (crm, opc2) in (0..16).flat_map(|crm| (0..8).map(move |opc2| (crm, opc2))) {
        let known = all.iter().find(|row| (row.0, row.1) == (crm, opc2));
        let others = crm == 4 && opc2 == 0 || crm == 8 && opc2 < 4;
        match known {
            Some(row) => assert_eq!(operation(7, crm, opc2), row.2, "{crm} {opc2}"),
            None if others => {}
            None => assert_eq!(operation(7, crm, opc2), Outcome::Unknown, "{crm} {opc2}"),
        }
    }
}

#[test]
fn operations_on_tlbs_are_told_apart() {
    let page = PAGE;
    let scopes = [
        TlbScope::All,
        TlbScope::Address { page, asid: ASID },
        TlbScope::Asid(ASID),
        TlbScope::AddressAllAsids { page },
    ];
    let units = [
        (3, TlbUnit::Unified, Reach::InnerShareable, 4),
        (5, TlbUnit::Instruction, Reach::Local, 3),
        (6, TlbUnit::Data, Reach::Local, 3),
        (7, TlbUnit::Unified, Reach::Local, 4),
    ];
    for (crm, opc2) in (0..16).flat_map(|crm| (0..8).map(move |opc2| (crm, opc2))) {
        let unit = units
            .iter()
            .find(|row| row.0 == crm && (opc2 as usize) < row.3);
        let wanted = match unit {
            Some(&(_, unit, reach, _)) => {
                let scope = scopes[opc2 as usize];
                Outcome::Mmu(MmuOperation::Tlb(TlbOperation { scope, unit, reach }))
            }
            None => Outcome::Unknown,
        };
        assert_eq!(operation(8, crm, opc2), wanted, "{crm} {opc2}");
    }
}

#[test]
fn a_translation_is_asked_for_with_the_rights_it_names() {
    let both = [Rights::Kernel, Rights::User];
    for opc2 in 0..8 {
        let wanted = match both.get(opc2 as usize / 2) {
            Some(&rights) => Outcome::Mmu(MmuOperation::Translate(Translation {
                address: VALUE,
                rights,
                write: opc2 & 1 == 1,
            })),
            None => Outcome::Unknown,
        };
        assert_eq!(operation(7, 8, opc2), wanted, "{opc2}");
    }
}

#[test]
fn nothing_of_it_can_be_read_or_done_by_a_program() {
    for (crn, crm, opc2) in [(7, 5, 0), (7, 14, 1), (8, 7, 0), (7, 8, 0)] {
        let mut board = Board::in_mode(Mode::User);
        let done = board.mcr((0, crn, crm, opc2), VALUE);
        assert_eq!(done, Outcome::Taken(Vector::Undefined));
        let mut board = Board::in_mode(Mode::Supervisor);
        assert_eq!(board.mrc((0, crn, crm, opc2)), None);
    }
    // The barriers are for programs.
    let mut board = Board::in_mode(Mode::User);
    let done = board.mcr((0, 7, 10, 5), VALUE);
    assert_eq!(done, Outcome::Barrier(Barrier::DataMemory));
}
