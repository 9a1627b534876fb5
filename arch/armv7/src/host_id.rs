//! The CPU's own ID registers, by their AArch64 encoding.

use crate::{fp, read};
use hanok_decode::SysReg;

macro_rules! id_row {
    ($op2:expr, $crm:literal, $($n:literal)*) => {
        match $op2 {
            $($n => crate::read_encoded!(one 0 0 $crm $n),)*
            _ => 0,
        }
    };
}

/// The value of an ID register with op0 3, op1 0, CRn 0 and CRm 1 to 3; zero for others.
pub fn read(id: SysReg) -> u64 {
    if !id.is_feature_id() {
        return 0;
    }
    match id {
        SysReg::MVFR0_EL1 | SysReg::MVFR1_EL1 => fp::feature_register(id == SysReg::MVFR1_EL1),
        _ => match id.crm() {
            1 => id_row!(id.op2(), 1, 0 1 2 3 4 5 6 7),
            2 => id_row!(id.op2(), 2, 0 1 2 3 4 5),
            // MVFR2 and the registers of Armv8 are reserved in ARMv7, and do not exist.
            _ => 0,
        },
    }
}

/// Whether the CPU has a generic timer (ID_PFR1, "Generic Timer"; DDI 0406C, B4.1).
pub fn has_generic_timer() -> bool {
    read!("id_pfr1_el1") >> 16 & 0xf != 0
}

/// Random numbers of the CPU's own generator: ARMv7 has none.
pub fn random() -> Option<[u64; 4]> {
    None
}
