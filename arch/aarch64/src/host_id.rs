//! The CPU's own ID registers, by encoding.

use hanok_decode::SysReg;

macro_rules! id_space {
    ($crm:expr, $op2:expr, $($m:literal)*) => {
        match $crm {
            $($m => id_row!($op2, $m, 0 1 2 3 4 5 6 7),)*
            _ => 0,
        }
    };
}

macro_rules! id_row {
    ($op2:expr, $m:literal, $($n:literal)*) => {
        match $op2 {
            $($n => crate::read!(concat!("s3_0_c0_c", $m, "_", $n)),)*
            _ => 0,
        }
    };
}

/// The value of an ID register with op0 3, op1 0, CRn 0 and CRm 1 to 7; zero for others.
/// Unallocated encodings of that space read as zero by the architecture (DDI 0487, D24.3.1).
pub fn read(id: SysReg) -> u64 {
    if !id.is_feature_id() {
        return 0;
    }
    id_space!(id.crm(), id.op2(), 1 2 3 4 5 6 7)
}

/// Whether it has a PMU of the architecture (ID_AA64DFR0_EL1.PMUVer).
pub fn has_pmu() -> bool {
    !matches!(crate::read!("id_aa64dfr0_el1") >> 8 & 0xf, 0 | 0xf)
}
