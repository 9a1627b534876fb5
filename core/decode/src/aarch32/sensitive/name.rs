//! Names of sensitive instructions.

use super::coprocessor::{Access, Coprocessor};
use super::operation::{
    DataOperation, Hint, Operand, Operation, Return, ReturnFrom, ShiftKind, Unprivileged,
};
use hanok_types::Width;

impl Operation {
    /// The mnemonic, with S where the instruction has to have it.
    pub const fn mnemonic(&self) -> &'static str {
        match self {
            Self::Cps(_) => "CPS",
            Self::Mrs(..) | Self::MrsBanked(..) => "MRS",
            Self::Msr(..) | Self::MsrBanked(..) => "MSR",
            Self::Unprivileged(access) => unprivileged(access),
            Self::Return(back) => returns(back),
            Self::Block(block) if block.load => "LDM",
            Self::Block(_) => "STM",
            Self::Rfe(_) => "RFE",
            Self::Srs(_) => "SRS",
            Self::Smc(_) => "SMC",
            Self::Hvc(_) => "HVC",
            Self::Coprocessor(coprocessor) => coprocessor.mnemonic(),
            Self::Hint(Hint::Yield) => "YIELD",
            Self::Hint(Hint::Wfe) => "WFE",
            Self::Hint(Hint::Wfi) => "WFI",
            Self::Hint(Hint::Sev) => "SEV",
            Self::SetEndianness(_) => "SETEND",
            Self::PreloadWrite(_) => "PLDW",
        }
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

/// A MOV of a shifted register is called by its shift (DDI 0406C A8.4.1).
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

impl Coprocessor {
    /// The mnemonic.
    pub const fn mnemonic(&self) -> &'static str {
        let (first, second) = match self.access {
            Access::Operation { .. } => ("CDP", "CDP2"),
            Access::Register { .. } if self.number == 10 && self.is_read() => ("VMRS", "VMRS"),
            Access::Register { .. } if self.number == 10 => ("VMSR", "VMSR"),
            Access::Register { read: true, .. } => ("MRC", "MRC2"),
            Access::Register { read: false, .. } => ("MCR", "MCR2"),
            Access::Pair { read: true, .. } => ("MRRC", "MRRC2"),
            Access::Pair { read: false, .. } => ("MCRR", "MCRR2"),
            Access::Memory(transfer) if transfer.load => ("LDC", "LDC2"),
            Access::Memory(_) => ("STC", "STC2"),
        };
        if self.second_kind { second } else { first }
    }
}
