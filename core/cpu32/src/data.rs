//! The data-processing operations by which an exception handler returns.

use crate::Registers;
use hanok_decode::aarch32::{DataOperation, Displacement, Index, Operand, Register};

/// The result of an operation with these operands (DDI 0406C, B9.3.20).
pub(crate) fn result(
    registers: &Registers,
    operation: DataOperation,
    first: Register,
    second: Operand,
) -> u32 {
    let carry = registers.psr.c();
    let first = registers.read(first);
    let second = operand(registers, second);
    let (more, less) = (u32::from(carry), u32::from(!carry));
    match operation {
        DataOperation::And => first & second,
        DataOperation::Eor => first ^ second,
        DataOperation::Sub => first.wrapping_sub(second),
        DataOperation::Rsb => second.wrapping_sub(first),
        DataOperation::Add => first.wrapping_add(second),
        DataOperation::Adc => first.wrapping_add(second).wrapping_add(more),
        DataOperation::Sbc => first.wrapping_sub(second).wrapping_sub(less),
        DataOperation::Rsc => second.wrapping_sub(first).wrapping_sub(less),
        DataOperation::Orr => first | second,
        DataOperation::Mov => second,
        DataOperation::Bic => first & !second,
        DataOperation::Mvn => !second,
    }
}

/// The value of a second operand.
fn operand(registers: &Registers, operand: Operand) -> u32 {
    match operand {
        Operand::Immediate(value) => value,
        Operand::Register(register, shift) => {
            displaced(registers, 0, true, Index::Register(register, shift))
        }
    }
}

/// `base` plus or minus an index.
pub(crate) fn displaced(registers: &Registers, base: u32, add: bool, index: Index) -> u32 {
    let value = match index {
        Index::Immediate(_) => 0,
        Index::Register(register, _) => registers.read(register),
    };
    Displacement { add, index }.apply(base, value, registers.psr.c())
}
