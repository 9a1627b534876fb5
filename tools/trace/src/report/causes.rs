//! Why guests are left, in words.

use crate::model::{INTERRUPTED, NO_INTERRUPT, SYSTEM_ERROR};

/// Exception classes of ESR_EL2 (DDI 0487, D24.2.40) and of HSR (DDI 0406C, B3.13.6), which agree as far as both have them.
mod class {
    pub const UNKNOWN: u32 = 0x00;
    pub const WAIT: u32 = 0x01;
    pub const FP: u32 = 0x07;
    pub const SYSTEM_CALL_32: u32 = 0x11;
    pub const HVC_32: u32 = 0x12;
    pub const SMC_32: u32 = 0x13;
    pub const SYSTEM_CALL: u32 = 0x15;
    pub const HVC: u32 = 0x16;
    pub const SMC: u32 = 0x17;
    pub const SYSTEM_REGISTER: u32 = 0x18;
    pub const SVE: u32 = 0x19;
    pub const ERET: u32 = 0x1a;
    pub const INSTRUCTION_ABORT: u32 = 0x20;
    pub const DATA_ABORT: u32 = 0x24;
}

/// Why a guest was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    class: u32,
    /// The interrupt's number, or which instruction waits.
    detail: u32,
}

impl Cause {
    /// The cause with this class, and what the CPU says besides.
    pub fn of(class: u32, syndrome: u32) -> Self {
        let detail = match class {
            // WFI, WFE, and both with a limit.
            class::WAIT => syndrome & 3,
            INTERRUPTED => syndrome.min(NO_INTERRUPT),
            _ => 0,
        };
        Self { class, detail }
    }

    /// Whether it is about an address of the guest's memory.
    pub fn is_access(self) -> bool {
        self.class == class::DATA_ABORT
    }

    pub fn words(self) -> String {
        let words = match self.class {
            class::UNKNOWN => "undefined instruction",
            class::WAIT if self.detail & 1 == 0 => "WFI",
            class::WAIT => "WFE",
            0x03..=0x06 | 0x08 | 0x0c => "coprocessor register access",
            class::FP => "FP access",
            class::SYSTEM_CALL_32 | class::SYSTEM_CALL => "system call (SVC)",
            class::HVC_32 | class::HVC => "hypercall (HVC)",
            class::SMC_32 | class::SMC => "SMC",
            class::SYSTEM_REGISTER => "system register access",
            class::SVE => "SVE access",
            class::ERET => "ERET",
            class::INSTRUCTION_ABORT => "instruction abort",
            class::DATA_ABORT => "data abort (device access)",
            INTERRUPTED if self.detail == NO_INTERRUPT => "interrupt of unknown number",
            INTERRUPTED => return format!("interrupt {}", self.detail),
            SYSTEM_ERROR => "SError",
            other => return format!("exception class {other:#04x}"),
        };
        words.to_owned()
    }
}
