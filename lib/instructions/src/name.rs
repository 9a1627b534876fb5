//! Names of sensitive instructions.

use hanok_decode::aarch32::{Access, Coprocessor};
use hanok_decode::aarch32::{
    DataOperation, Hint, Operand, Operation, Return, ReturnFrom, ShiftKind, Unprivileged,
};
use hanok_types::Width;

/// The mnemonic of a sensitive instruction, in capitals and without the condition; with S where the
/// instruction always has it.
pub const fn mnemonic(operation: &Operation) -> &'static str {
    match operation {
        Operation::Cps(_) => "CPS",
        Operation::Mrs(..) | Operation::MrsBanked(..) => "MRS",
        Operation::Msr(..) | Operation::MsrBanked(..) => "MSR",
        Operation::Unprivileged(access) => unprivileged(access),
        Operation::Return(back) => returns(back),
        Operation::Block(block) if block.load => "LDM",
        Operation::Block(_) => "STM",
        Operation::Rfe(_) => "RFE",
        Operation::Srs(_) => "SRS",
        Operation::Smc(_) => "SMC",
        Operation::Hvc(_) => "HVC",
        Operation::Coprocessor(coprocessor) => self::coprocessor(coprocessor),
        Operation::Hint(Hint::Yield) => "YIELD",
        Operation::Hint(Hint::Wfe) => "WFE",
        Operation::Hint(Hint::Wfi) => "WFI",
        Operation::Hint(Hint::Sev) => "SEV",
        Operation::SetEndianness(_) => "SETEND",
        Operation::PreloadWrite(_) => "PLDW",
    }
}

const fn unprivileged(access: &Unprivileged) -> &'static str {
    match (access.load, access.sign_extend, access.width) {
        (true, false, Width::Byte) => "LDRBT",
        (true, true, Width::Byte) => "LDRSBT",
        (true, false, Width::Half) => "LDRHT",
        (true, true, Width::Half) => "LDRSHT",
        (true, ..) => "LDRT",
        (false, _, Width::Byte) => "STRBT",
        (false, _, Width::Half) => "STRHT",
        (false, ..) => "STRT",
    }
}

const fn returns(back: &Return) -> &'static str {
    let (operation, second) = match back.from {
        ReturnFrom::Eret => return "ERET",
        ReturnFrom::Data {
            operation, second, ..
        } => (operation, second),
    };
    match operation {
        DataOperation::And => "ANDS",
        DataOperation::Eor => "EORS",
        DataOperation::Sub => "SUBS",
        DataOperation::Rsb => "RSBS",
        DataOperation::Add => "ADDS",
        DataOperation::Adc => "ADCS",
        DataOperation::Sbc => "SBCS",
        DataOperation::Rsc => "RSCS",
        DataOperation::Orr => "ORRS",
        DataOperation::Bic => "BICS",
        DataOperation::Mvn => "MVNS",
        DataOperation::Mov => moved(second),
    }
}

/// MOV of a shifted register has the name of its shift (DDI 0406C A8.4.1).
const fn moved(second: Operand) -> &'static str {
    match second {
        Operand::Register(_, shift) if !shift.is_none() => match shift.kind {
            ShiftKind::Lsl => "LSLS",
            ShiftKind::Lsr => "LSRS",
            ShiftKind::Asr => "ASRS",
            ShiftKind::Ror => "RORS",
            ShiftKind::Rrx => "RRXS",
        },
        _ => "MOVS",
    }
}

const fn coprocessor(coprocessor: &Coprocessor) -> &'static str {
    let (first, second) = match coprocessor.access {
        Access::Operation { .. } => ("CDP", "CDP2"),
        Access::Register { .. } if coprocessor.number == 10 && coprocessor.is_read() => {
            ("VMRS", "VMRS")
        }
        Access::Register { .. } if coprocessor.number == 10 => ("VMSR", "VMSR"),
        Access::Register { read: true, .. } => ("MRC", "MRC2"),
        Access::Register { read: false, .. } => ("MCR", "MCR2"),
        Access::Pair { read: true, .. } => ("MRRC", "MRRC2"),
        Access::Pair { read: false, .. } => ("MCRR", "MCRR2"),
        Access::Memory(transfer) if transfer.load => ("LDC", "LDC2"),
        Access::Memory(_) => ("STC", "STC2"),
    };
    if coprocessor.second_kind {
        second
    } else {
        first
    }
}
