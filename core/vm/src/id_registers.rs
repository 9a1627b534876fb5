//! The ID registers of a VM: the CPU features that its guest sees.
//!
//! This is an allow-list: a field passes only if it is named here, so that a feature of a CPU newer
//! than this code is hidden until it has been examined. Hidden on purpose are EL2 and EL3, SVE,
//! SME, MTE, RAS, MPAM, activity monitors, the PMU, trace, statistical profiling, transactions,
//! LS64, and all features whose registers EL2 would have to enable (HCRX_EL2) or to switch; and
//! big-endian data, since the models of devices know little-endian data only. Passed are FP and
//! SIMD, crypto, atomics, pointer authentication (whose keys are switched with the vCPU), BTI,
//! breakpoints and watchpoints, 32-bit EL0.
//!
//! Field positions: DDI 0487, D24.2, under each register's name.

use hanok_decode::SysReg;

/// How a field of four bits passes.
#[derive(Clone, Copy)]
enum Field {
    /// The CPU's value.
    Keep(u32),
    /// The CPU's value, but at most this one.
    AtMost(u32, u64),
    /// The lowest field has this value, whatever the CPU has.
    Fixed(u64),
}
use Field::{AtMost, Fixed, Keep};

const PFR0: &[Field] =
    // EL0, EL1, FP, AdvSIMD, GIC, DIT; CSV2 without SCXTNUM; CSV3.
    &[
        Keep(0),
        Keep(4),
        Keep(16),
        Keep(20),
        Keep(24),
        Keep(48),
        AtMost(56, 1),
        Keep(60),
    ];
// BT, SSBS.
const PFR1: &[Field] = &[Keep(0), Keep(4)];
const DFR0: &[Field] =
    // Armv8 debug, BRPs, WRPs, CTX_CMPs, DoubleLock.
    &[Fixed(6), Keep(12), Keep(20), Keep(28), Keep(36)];
const ISAR0: &[Field] = &[
    // AES, SHA1, SHA2, CRC32, Atomic.
    Keep(4),
    Keep(8),
    Keep(12),
    Keep(16),
    Keep(20),
    // RDM, SHA3, SM3, SM4, DP, FHM, TS, TLB, RNDR.
    Keep(28),
    Keep(32),
    Keep(36),
    Keep(40),
    Keep(44),
    Keep(48),
    Keep(52),
    Keep(56),
    Keep(60),
];
const ISAR1: &[Field] = &[
    // DPB, APA, API, JSCVT, FCMA, LRCPC, GPA, GPI.
    Keep(0),
    Keep(4),
    Keep(8),
    Keep(12),
    Keep(16),
    Keep(20),
    Keep(24),
    Keep(28),
    // FRINTTS, SB, SPECRES, BF16, DGH, I8MM.
    Keep(32),
    Keep(36),
    Keep(40),
    Keep(44),
    Keep(48),
    Keep(52),
];
const ISAR2: &[Field] =
    // RPRES, GPA3, APA3, BC, PAC_frac, CLRBHB, CSSC.
    &[
        Keep(4),
        Keep(8),
        Keep(12),
        Keep(20),
        Keep(24),
        Keep(28),
        Keep(52),
    ];
const MMFR0: &[Field] = &[
    // PARange of stage 2's 40 bits, ASIDBits, granules, ExS, ECV's counters.
    AtMost(0, 2),
    Keep(4),
    Keep(20),
    Keep(24),
    Keep(28),
    Keep(44),
    AtMost(60, 1),
];
const MMFR1: &[Field] =
    // HAFDBS, HPDS, PAN, ETS, AFP, nTLBPA, ECBHB.
    &[
        AtMost(0, 2),
        Keep(12),
        Keep(20),
        Keep(36),
        Keep(44),
        Keep(48),
        Keep(60),
    ];
const MMFR2: &[Field] = &[
    // CnP, UAO, LSM, VARange, CCIDX, ST, AT, TTL, BBM, E0PD.
    Keep(0),
    Keep(4),
    Keep(8),
    Keep(16),
    Keep(20),
    Keep(28),
    Keep(32),
    Keep(48),
    Keep(52),
    Keep(60),
];
/// AArch32 registers that have no field to hide.
const WHOLE: &[Field] = &[
    Keep(0),
    Keep(4),
    Keep(8),
    Keep(12),
    Keep(16),
    Keep(20),
    Keep(24),
    Keep(28),
];
// Swap to Divide.
const ISAR0_32: &[Field] = &[
    Keep(0),
    Keep(4),
    Keep(8),
    Keep(12),
    Keep(16),
    Keep(20),
    Keep(24),
];
// SEVL to CRC32, RDM, VCMA.
const ISAR5_32: &[Field] = &[
    Keep(0),
    Keep(4),
    Keep(8),
    Keep(12),
    Keep(16),
    Keep(24),
    Keep(28),
];
// AC2, CnP, HPDS, LSM, CCIDX. Not SpecSEI of RAS, XNX of stage 2, EVT of EL2.
const MMFR4_32: &[Field] = &[Keep(4), Keep(12), Keep(16), Keep(20), Keep(24)];
// SIMDMisc, FPMisc.
const MVFR2_32: &[Field] = &[Keep(0), Keep(4)];
// State0 to State3; CSV2 as in PFR0; DIT. Not AMU, RAS.
const PFR0_32: &[Field] = &[Keep(0), Keep(4), Keep(8), Keep(12), AtMost(16, 1), Keep(24)];
// ProgMod, GenTimer, GIC. Not Security, Virtualization.
const PFR1_32: &[Field] = &[Keep(0), Keep(16), Keep(28)];
// CopDbg of Armv8; nothing else.
const DFR0_32: &[Field] = &[Fixed(6)];
// ETS, nTLBPA.
const MMFR5_32: &[Field] = &[Keep(0), Keep(4)];
// Spec_FPACC.
const MMFR3: &[Field] = &[Keep(60)];
// SSBS, CSV3.
const PFR2_32: &[Field] = &[Keep(0), Keep(4)];

/// The fields that pass in the register with this CRm and op2 (op0 3, op1 0, CRn 0).
fn fields(crm: u8, op2: u8) -> &'static [Field] {
    match (crm, op2) {
        (1, 0) => PFR0_32,
        (1, 1) => PFR1_32,
        (1, 2) => DFR0_32,
        // ID_MMFR0 to 3; ID_ISAR1 to 4 and 6; MVFR0 and 1.
        (1, 4..=7) | (2, 1..=4 | 7) | (3, 0 | 1) => WHOLE,
        (2, 0) => ISAR0_32,
        (2, 5) => ISAR5_32,
        (2, 6) => MMFR4_32,
        (3, 2) => MVFR2_32,
        (3, 4) => PFR2_32,
        (3, 6) => MMFR5_32,
        (4, 0) => PFR0,
        (4, 1) => PFR1,
        (5, 0) => DFR0,
        (6, 0) => ISAR0,
        (6, 1) => ISAR1,
        (6, 2) => ISAR2,
        (7, 0) => MMFR0,
        (7, 1) => MMFR1,
        (7, 2) => MMFR2,
        (7, 3) => MMFR3,
        // All other registers, allocated or not, read as zero (DDI 0487, D24.3.1).
        _ => &[],
    }
}

/// The value of ID register `id` for a guest, if the CPU's own is `host`.
pub fn id_register(id: SysReg, host: u64) -> u64 {
    if !id.is_feature_id() {
        return 0;
    }
    let passes = |field: &Field| match *field {
        Keep(at) => host & (0xf << at),
        AtMost(at, most) => (host >> at & 0xf).min(most) << at,
        Fixed(value) => value,
    };
    fields(id.crm(), id.op2())
        .iter()
        .map(passes)
        .fold(0, |value, field| value | field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(crm: u8, op2: u8) -> SysReg {
        SysReg::from_fields(3, 0, 0, crm, op2)
    }

    #[test]
    fn hidden_features_read_as_absent() {
        let all = u64::MAX;
        let pfr0 = id_register(register(4, 0), all);
        // EL2, EL3, RAS, SVE, SEL2, MPAM, AMU, RME.
        for at in [8, 12, 28, 32, 36, 40, 44, 52] {
            assert_eq!(pfr0 >> at & 0xf, 0, "ID_AA64PFR0_EL1 bit {at}");
        }
        // MPAM_frac.
        assert_eq!(id_register(register(4, 1), all) >> 16 & 0xf, 0);
        let dfr0 = id_register(register(5, 0), all);
        assert_eq!(dfr0 >> 8 & 0xf, 0, "PMUVer");
        assert_eq!(dfr0 & 0xf, 6, "DebugVer");
        // MTE, SME.
        assert_eq!(id_register(register(4, 1), all) & 0xf00_0f00, 0);
        assert_eq!(id_register(register(4, 4), all), 0, "ID_AA64ZFR0_EL1");
        assert_eq!(id_register(register(4, 5), all), 0, "ID_AA64SMFR0_EL1");
    }

    #[test]
    fn the_physical_range_is_stage_2_s() {
        assert_eq!(id_register(register(7, 0), 0x5) & 0xf, 2);
        assert_eq!(id_register(register(7, 0), 0x1) & 0xf, 1);
    }

    #[test]
    fn every_encoding_of_the_space_answers() {
        for crm in 0..16 {
            for op2 in 0..8 {
                id_register(register(crm, op2), u64::MAX);
            }
        }
        assert_eq!(
            id_register(SysReg::from_fields(3, 0, 1, 0, 0), u64::MAX),
            0,
            "not an ID register"
        );
    }

    #[test]
    fn fields_are_named_once() {
        for crm in 1..=7 {
            for op2 in 0..8 {
                let mut seen = 0_u64;
                for field in fields(crm, op2) {
                    let at = match *field {
                        Keep(at) | AtMost(at, _) => at,
                        Fixed(_) => 0,
                    };
                    assert_eq!(seen & 0xf << at, 0, "CRm {crm} op2 {op2} bit {at} twice");
                    seen |= 0xf << at;
                }
            }
        }
    }
}
