//! What a guest reads of every ID register, field by field, against a list of its own.

use crate::id_register;
use hanok_decode::SysReg;
use std::vec::Vec;

/// The registers of which a guest sees anything: CRm, op2, name, and the fields by the names of
/// DDI 0487, D24.2, four bits each from bit 0 on; AArch32's are of 32 bits. A field passes as the CPU
/// has it, if nothing is said of it; `-`: it reads as zero; `<=`: as the CPU has it, but at most that;
/// `=`: as that, whatever the CPU has. What no word stands for reads as zero, as do whole registers:
/// ID_AFR0, ID_AA64PFR2, ID_AA64ZFR0, ID_AA64SMFR0, ID_AA64FPFR0, ID_AA64DFR1 and 2, ID_AA64AFR0
/// and 1, ID_AA64ISAR3, ID_AA64MMFR4, and those without a name yet.
///
/// Hidden (ADR 1): EL2 and EL3 and all that is of them or of stage 2; SVE, SME, MTE, RAS, MPAM,
/// activity monitors, the PMU, trace, statistical profiling; transactions, LS64, and what
/// HCRX_EL2 would have to enable or a switch to save; LORegions; big-endian data.
const REGISTERS: &str = "\
1 0 ID_PFR0 State0 State1 State2 State3 CSV2<=1 -AMU DIT -RAS
1 1 ID_PFR1 ProgMod -Security -MProgMod -Virtualization GenTimer -Sec_frac -Virt_frac GIC
1 2 ID_DFR0 CopDbg=6 -CopSDbg -MMapDbg -CopTrc -MMapTrc -MProfDbg -PerfMon -TraceFilt
1 4 ID_MMFR0 VMSA PMSA OuterShr ShareLvl TCM AuxReg FCSE InnerShr
1 5 ID_MMFR1 L1HvdVA L1UniVA L1HvdSW L1UniSW L1Hvd L1Uni L1TstCln BPred
1 6 ID_MMFR2 L1HvdFg L1HvdBg L1HvdRng HvdTLB UniTLB MemBarr WFIStall HWAccFlg
1 7 ID_MMFR3 CMaintVA CMaintSW BPMaint MaintBcst PAN CohWalk CMemSz Supersec
2 0 ID_ISAR0 Swap BitCount BitField CmpBranch Coproc Debug Divide -RES0
2 1 ID_ISAR1 Endian Except Except_AR Extend IfThen Immediate Interwork Jazelle
2 2 ID_ISAR2 LoadStore MemHint MultiAccessInt Mult MultS MultU PSR_AR Reversal
2 3 ID_ISAR3 Saturate SIMD SVC SynchPrim TabBranch T32Copy TrueNOP T32EE
2 4 ID_ISAR4 Unpriv WithShifts Writeback SMC Barrier SynchPrim_frac PSR_M SWP_frac
2 5 ID_ISAR5 SEVL AES SHA1 SHA2 CRC32 -RES0 RDM VCMA
2 6 ID_MMFR4 -SpecSEI AC2 -XNX CnP HPDS LSM CCIDX -EVT
2 7 ID_ISAR6 JSCVT DP FHM SB SPECRES BF16 I8MM CLRBHB
3 0 MVFR0 SIMDReg FPSP FPDP FPTrap FPDivide FPSqrt FPShVec FPRound
3 1 MVFR1 FPFtZ FPDNaN SIMDLS SIMDInt SIMDSP SIMDHP FPHP SIMDFMAC
3 2 MVFR2 SIMDMisc FPMisc -RES0 -RES0 -RES0 -RES0 -RES0 -RES0
3 4 ID_PFR2 CSV3 SSBS -RAS_frac
3 5 ID_DFR1 -MTPMU -HPMN0
3 6 ID_MMFR5 ETS nTLBPA
4 0 ID_AA64PFR0 EL0 EL1 -EL2 -EL3 FP AdvSIMD GIC -RAS \
    -SVE -SEL2 -MPAM -AMU DIT -RME CSV2<=1 CSV3
4 1 ID_AA64PFR1 BT SSBS -MTE -RAS_frac -MPAM_frac -RES0 -SME -RNDR_trap \
    -CSV2_frac -NMI -MTE_frac -GCS -THE -MTEX -DF2 -PFAR
5 0 ID_AA64DFR0 DebugVer=6 -TraceVer -PMUVer BRPs -PMSS WRPs -SEBEP CTX_CMPs \
    -PMSVer DoubleLock -TraceFilt -TraceBuffer -MTPMU -BRBE -ExtTrcBuff -HPMN0
6 0 ID_AA64ISAR0 -RES0 AES SHA1 SHA2 CRC32 Atomic -TME RDM \
    SHA3 SM3 SM4 DP FHM TS TLB RNDR
6 1 ID_AA64ISAR1 DPB APA API JSCVT FCMA LRCPC GPA GPI \
    FRINTTS SB SPECRES BF16 DGH I8MM -XS -LS64
6 2 ID_AA64ISAR2 -WFxT RPRES GPA3 APA3 -MOPS BC PAC_frac CLRBHB \
    -SYSREG_128 -SYSINSTR_128 -PRFMSLC -PCDPHINT -RPRFM CSSC -LUT -ATS1A
7 0 ID_AA64MMFR0 PARange<=2 ASIDBits -BigEnd -SNSMem -BigEndEL0 TGran16 TGran64 TGran4 \
    -TGran16_2 -TGran64_2 -TGran4_2 ExS -RES0 -RES0 -FGT ECV<=1
7 1 ID_AA64MMFR1 HAFDBS<=2 -VMIDBits -VH HPDS -LO PAN -SpecSEI -XNX \
    -TWED ETS -HCX AFP nTLBPA -TIDCP1 -CMOW ECBHB
7 2 ID_AA64MMFR2 CnP UAO LSM -IESB VARange CCIDX -NV ST \
    AT -IDS -FWB -RES0 TTL BBM -EVT E0PD
7 3 ID_AA64MMFR3 -TCRX -SCTLRX -S1PIE -S2PIE -S1POE -S2POE -AIE -MEC \
    -D128 -D128_2 -SNERR -ANERR -RES0 -SDERR -ADERR Spec_FPACC
";

/// What a guest reads of the field that `word` stands for, of which the CPU has `host`.
fn seen(word: &str, host: u64) -> u64 {
    if word.starts_with('-') {
        return 0;
    }
    if let Some((_, most)) = word.split_once("<=") {
        return host.min(most.parse().unwrap());
    }
    match word.split_once('=') {
        Some((_, value)) => value.parse().unwrap(),
        None => host,
    }
}

/// The values of a CPU's register that are tried: of no bits, of all, and each value of each field
/// where all others are of no bits, or of all.
fn hosts() -> impl Iterator<Item = u64> {
    (0..16).flat_map(|field| {
        (0..16_u64).flat_map(move |value| {
            let others = !(0xf << (4 * field));
            [value << (4 * field), value << (4 * field) | others]
        })
    })
}

/// The words of the register with this CRm and op2.
fn words(crm: u8, op2: u8) -> Vec<&'static str> {
    let begin = std::format!("{crm} {op2} ");
    let mut rows = REGISTERS.lines().filter_map(|row| row.strip_prefix(&begin));
    let row = rows.next().unwrap_or_default();
    assert_eq!(rows.next(), None, "{begin}is there twice");
    row.split_whitespace().skip(1).collect()
}

#[test]
fn a_guest_sees_what_the_list_says() {
    let mut listed = 0;
    for (crm, op2) in (1..=7).flat_map(|crm| (0..8).map(move |op2| (crm, op2))) {
        let words = words(crm, op2);
        let fields = if crm < 4 { 8 } else { 16 };
        assert!(words.len() <= fields, "{crm} {op2}");
        listed += usize::from(!words.is_empty());
        let id = SysReg::from_fields(3, 0, 0, crm, op2);
        for host in hosts() {
            let fields = words.iter().enumerate();
            let wanted = fields.fold(0, |value, (nth, word)| {
                value + (seen(word, host >> (4 * nth) & 0xf) << (4 * nth))
            });
            assert_eq!(id_register(id, host), wanted, "{id} of {host:#x}");
        }
    }
    assert_eq!(listed, REGISTERS.lines().count());
}

/// Whatever the encoding: only the block has any.
#[test]
fn nothing_else_is_an_id_register() {
    let block = |id: SysReg| {
        let rest = (id.op0(), id.op1(), id.crn());
        rest == (3, 0, 0) && (1..=7).contains(&id.crm())
    };
    let all = (0..=u16::MAX).map(SysReg::from_bits);
    for id in all.filter(|id| !block(*id)) {
        assert_eq!(id_register(id, u64::MAX), 0, "{id}");
    }
}
