//! Where sensitive instructions go on: `core/decode` knows them.

use super::step::{Found, place};
use hanok_decode::aarch32::{
    Access, Coprocessor, Facility, Operation, Register, Sensitive, Transfer,
};

/// The flow of a sensitive instruction; `pipeline` is the distance in bytes from it to its PC. It
/// ends behind one that the manual does not define, or that no Cortex-A has.
pub(super) fn flow(found: &Sensitive, pipeline: i32) -> Found {
    if !found.as_it_should_be {
        return Found::NOWHERE;
    }
    match found.operation {
        Operation::Return(_) | Operation::Rfe(_) => Found::ELSEWHERE,
        Operation::Block(block) => Found::leaving(block.is_return()),
        Operation::Coprocessor(coprocessor) => access(coprocessor, pipeline),
        _ => Found::NEXT,
    }
}

fn access(coprocessor: Coprocessor, pipeline: i32) -> Found {
    match coprocessor.access {
        _ if coprocessor.second_kind || coprocessor.facility() == Facility::Vendor => {
            Found::NOWHERE
        }
        Access::Memory(transfer) => literal(transfer, pipeline),
        _ => Found::NEXT,
    }
}

/// LDC of a literal.
fn literal(transfer: Transfer, pipeline: i32) -> Found {
    let constant = transfer.before && !transfer.write_back;
    if !transfer.load || transfer.base != Register::PC || !constant {
        return Found::NEXT;
    }
    let distance = u32::from(transfer.words) * 4;
    Found::NEXT.loading(4, place(transfer.add, distance, pipeline, true))
}
