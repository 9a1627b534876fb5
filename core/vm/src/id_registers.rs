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

/// ID_AA64DFR0_EL1.DebugVer and ID_DFR0_EL1.CopDbg of a CPU with the Armv8 debug architecture,
/// whatever the CPU has beyond it.
const DEBUG_ARMV8: u64 = 6;

/// The most that each field may be in the register with this CRm and op2 (op0 3, op1 0, CRn 0). A field
/// has four bits, and so a digit here: with F the CPU's value passes, with 0 the feature is hidden.
fn limits(crm: u8, op2: u8) -> u64 {
    match (crm, op2) {
        // ID_PFR0: State0 to State3, DIT; CSV2 as in ID_AA64PFR0. Not AMU, RAS.
        (1, 0) => 0x0f01_ffff,
        // ID_PFR1: ProgMod, GenTimer, GIC. Not Security, Virtualization.
        (1, 1) => 0xf00f_000f,
        // ID_DFR0: CopDbg.
        (1, 2) => DEBUG_ARMV8,
        // ID_MMFR0 to 3; ID_ISAR1 to 4 and 6; MVFR0 and 1: no field has to be hidden.
        (1, 4..=7) | (2, 1..=4 | 7) | (3, 0 | 1) => 0xffff_ffff,
        // ID_ISAR0: Swap to Divide.
        (2, 0) => 0x0fff_ffff,
        // ID_ISAR5: SEVL to CRC32, RDM, VCMA.
        (2, 5) => 0xff0f_ffff,
        // ID_MMFR4: AC2, CnP, HPDS, LSM, CCIDX. Not SpecSEI of RAS, XNX of stage 2, EVT of EL2.
        (2, 6) => 0x0fff_f0f0,
        // MVFR2: SIMDMisc, FPMisc. ID_PFR2: SSBS, CSV3. ID_MMFR5: ETS, nTLBPA. ID_AA64PFR1: BT, SSBS.
        (3, 2 | 4 | 6) | (4, 1) => 0xff,
        // ID_AA64PFR0: EL0, EL1, FP, AdvSIMD, GIC, DIT; CSV2 without SCXTNUM; CSV3.
        (4, 0) => 0xf10f_0000_0fff_00ff,
        // ID_AA64DFR0: DebugVer, BRPs, WRPs, CTX_CMPs, DoubleLock.
        (5, 0) => 0x00f0_f0f0_f000 | DEBUG_ARMV8,
        // ID_AA64ISAR0: AES, SHA1, SHA2, CRC32, Atomic; RDM, SHA3, SM3, SM4, DP, FHM, TS, TLB, RNDR.
        (6, 0) => 0xffff_ffff_f0ff_fff0,
        // ID_AA64ISAR1: DPB, APA, API, JSCVT, FCMA, LRCPC, GPA, GPI, FRINTTS, SB, SPECRES, BF16, DGH,
        // I8MM.
        (6, 1) => 0x00ff_ffff_ffff_ffff,
        // ID_AA64ISAR2: RPRES, GPA3, APA3, BC, PAC_frac, CLRBHB, CSSC.
        (6, 2) => 0x00f0_0000_fff0_fff0,
        // ID_AA64MMFR0: PARange of stage 2's 40 bits, ASIDBits, granules, ExS, ECV's counters.
        (7, 0) => 0x1000_f000_fff0_00f2,
        // ID_AA64MMFR1: HAFDBS, HPDS, PAN, ETS, AFP, nTLBPA, ECBHB.
        (7, 1) => 0xf00f_f0f0_00f0_f002,
        // ID_AA64MMFR2: CnP, UAO, LSM, VARange, CCIDX, ST, AT, TTL, BBM, E0PD.
        (7, 2) => 0xf0ff_000f_f0ff_0fff,
        // ID_AA64MMFR3: Spec_FPACC.
        (7, 3) => 0xf000_0000_0000_0000,
        // All other registers, allocated or not, read as zero (DDI 0487, D24.3.1).
        _ => 0,
    }
}

/// The value of ID register `id` for a guest, if the CPU's own is `host`.
pub fn id_register(id: SysReg, host: u64) -> u64 {
    if !id.is_feature_id() {
        return 0;
    }
    // A guest has the one debug architecture that is emulated here, on every CPU.
    let host = match (id.crm(), id.op2()) {
        (1, 2) | (5, 0) => host & !0xf | DEBUG_ARMV8,
        _ => host,
    };
    let limits = limits(id.crm(), id.op2());
    let field = |at: u32| (host >> at & 0xf).min(limits >> at & 0xf) << at;
    (0..u64::BITS).step_by(4).map(field).sum()
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
    fn a_field_passes_up_to_its_limit() {
        for (crm, op2) in (0..16).flat_map(|crm| (0..8).map(move |op2| (crm, op2))) {
            let id = register(crm, op2);
            let all = id_register(id, u64::MAX);
            assert_eq!(all, limits(crm, op2), "CRm {crm} op2 {op2}");
            for digit in 0..=0xf_u64 {
                let passed = id_register(id, digit * 0x1111_1111_1111_1111);
                for at in (0..64).step_by(4) {
                    let (found, limit) = (passed >> at & 0xf, all >> at & 0xf);
                    let fixed = at == 0 && matches!((crm, op2), (1, 2) | (5, 0));
                    let wanted = if fixed { 6 } else { digit.min(limit) };
                    assert_eq!(found, wanted, "CRm {crm} op2 {op2} bit {at}");
                }
            }
        }
    }
}
