//! System registers (DDI 0487, D19): what is there, what is hidden, what is undefined.

use crate::arch::code::{execute, mrs, msr};
use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use crate::tree::Host;
use hanok_types::GicVersion;

pub const CASES: &[Case] = &[
    case("id-space", 1, id_space),
    case("id-main", 1, id_main),
    case("id-write", 1, id_write),
    case("id-el", 1, id_el),
    hanok_case("id-hidden", 1, id_hidden),
    hanok_case("pmu-undefined", 1, pmu_undefined),
    case("sysreg-unallocated", 1, unallocated),
    case("sysreg-el2", 1, el2),
    case("sysreg-el1", 1, el1),
    case("sysreg-cache-ids", 1, cache_ids),
    case("sysreg-cache-ops", 1, cache_ops),
    case("sysreg-translate", 1, translate),
    case("sysreg-feature-traps", 1, feature_traps),
];

type Encoding = (u32, u32, u32, u32, u32);

fn read(encoding: Encoding) -> Result<u64, Fault> {
    let (op0, op1, crn, crm, op2) = encoding;
    // SAFETY: MRS X0 changes X0 alone.
    unsafe { execute(&[mrs(op0, op1, crn, crm, op2)], 0) }
}

/// The ID register with this CRm and op2 (op0 3, op1 0, CRn 0).
pub fn feature_id(crm: u32, op2: u32) -> Result<u64, Fault> {
    read((3, 0, 0, crm, op2))
}

fn field(value: u64, low: u32) -> u64 {
    value >> low & 0xf
}

/// ID registers without a meaning read as zero (DDI 0487, D19.1, "op0==3, op1==0, CRn==0, CRm 1 to
/// 7").
fn id_space(_: &Machine) -> Outcome {
    for crm in 1..8 {
        for op2 in 0..8 {
            if let Err(fault) = read((3, 0, 0, crm, op2)) {
                return Err(Failure::wrong(format_args!(
                    "CRm {crm}, op2 {op2}: {fault:?}"
                )));
            }
        }
    }
    Ok(())
}

fn id_main(_: &Machine) -> Outcome {
    let part = read_sysreg!("midr_el1") >> 4 & 0xfff;
    check!(part != 0 && part != 0xfff, "MIDR part {part:#x}");
    let affinity = read_sysreg!("mpidr_el1");
    check_eq!(affinity & 0xff_00ff_ffff, 0, "MPIDR of the first vCPU");
    check!(affinity & 1 << 31 != 0, "MPIDR {affinity:#x}: RES1");
    check!(affinity & 1 << 30 == 0, "MPIDR {affinity:#x}: uniprocessor");
    read((3, 0, 0, 0, 6)).map_err(|fault| Failure::wrong(format_args!("REVIDR: {fault:?}")))?;
    Ok(())
}

/// ID registers are read-only: a write is undefined.
fn id_write(_: &Machine) -> Outcome {
    for (op0, op1, crn, crm, op2) in [(3, 0, 0, 0, 0), (3, 0, 0, 4, 0), (3, 0, 0, 7, 0)] {
        // SAFETY: it is undefined.
        let result = unsafe { execute(&[msr(op0, op1, crn, crm, op2)], 0) };
        expect_undefined(result, (op0, op1, crn, crm, op2))?;
    }
    Ok(())
}

/// The ID registers say: EL0 and EL1 of 64 bits; no EL2, no EL3; a GICv3 with system registers.
fn id_el(machine: &Machine) -> Outcome {
    let pfr0 = read_sysreg!("id_aa64pfr0_el1");
    check!(
        field(pfr0, 0) >= 1 && field(pfr0, 4) >= 1,
        "EL0 and EL1: {pfr0:#x}"
    );
    check_eq!(field(pfr0, 8), 0, "EL2");
    check_eq!(field(pfr0, 12), 0, "EL3");
    check!(matches!(field(pfr0, 16), 0 | 1), "FP: {pfr0:#x}");
    check_eq!(field(pfr0, 16), field(pfr0, 20), "FP and SIMD");
    let in_registers = matches!(field(pfr0, 24), 1 | 3);
    check_eq!(
        in_registers,
        machine.gic == GicVersion::V3,
        "GIC: {pfr0:#x}"
    );
    let mmfr0 = read_sysreg!("id_aa64mmfr0_el1");
    check!(field(mmfr0, 28) != 0xf, "4 KiB pages: {mmfr0:#x}");
    check!(field(read_sysreg!("id_aa64dfr0_el1"), 0) >= 6, "debug");
    Ok(())
}

fn expect_undefined(result: Result<u64, Fault>, encoding: Encoding) -> Outcome {
    match result {
        Err(fault) if fault.class() == class::UNDEFINED => Ok(()),
        other => Err(Failure::wrong(format_args!("{encoding:?}: {other:x?}"))),
    }
}

fn id_hidden(_: &Machine) -> Outcome {
    let pmu = field(read_sysreg!("id_aa64dfr0_el1"), 8);
    check!(matches!(pmu, 0 | 0xf), "PMUVer {pmu}");
    check_eq!(field(read_sysreg!("id_aa64pfr0_el1"), 32), 0, "SVE");
    let pfr1 = read((3, 0, 0, 4, 1)).unwrap_or(u64::MAX);
    check_eq!(field(pfr1, 24), 0, "SME");
    check_eq!(read((3, 0, 0, 4, 4)).unwrap_or(1), 0, "ID_AA64ZFR0");
    check_eq!(read((3, 0, 0, 4, 5)).unwrap_or(1), 0, "ID_AA64SMFR0");
    // Checks ZCR_EL1 and SMCR_EL1 too.
    expect_unusable((3, 0, 1, 2, 0))?;
    expect_unusable((3, 0, 1, 2, 6))?;
    instructions_hidden()
}

/// CPACR_EL1 that lets all through: FPEN, ZEN, SMEN.
const ALL_OPEN: u64 = 3 << 20 | 3 << 16 | 3 << 24;

/// The register is undefined; or, where the CPU has the feature that the hypervisor hides, the
/// guest's own CPACR_EL1 traps the access, which the CPU checks first (docs/differences.md). With
/// CPACR_EL1 open, the access meets the hypervisor's trap, and the register must not exist.
fn expect_unusable(encoding: Encoding) -> Outcome {
    match read(encoding) {
        Err(fault) if matches!(fault.class(), class::SVE_DISABLED | class::SME_DISABLED) => {}
        result => expect_undefined(result, encoding)?,
    }
    write_sysreg!("cpacr_el1", ALL_OPEN);
    let open = read(encoding);
    write_sysreg!("cpacr_el1", 0);
    expect_undefined(open, encoding)
}

/// RDVL and RDSVL X0, #1, with CPACR_EL1 open.
fn instructions_hidden() -> Outcome {
    for (name, word) in [("RDVL", 0x04bf_5020), ("RDSVL", 0x04bf_5820)] {
        write_sysreg!("cpacr_el1", ALL_OPEN);
        // SAFETY: changes X0 alone.
        let result = unsafe { execute(&[word], 0) };
        write_sysreg!("cpacr_el1", 0);
        match result {
            Err(fault) if fault.class() == class::UNDEFINED => {}
            other => return Err(Failure::wrong(format_args!("{name}: {other:x?}"))),
        }
    }
    Ok(())
}

/// PMCR_EL0, PMCCNTR_EL0, PMCNTENSET_EL0, PMINTENSET_EL1, PMEVCNTR0_EL0.
fn pmu_undefined(_: &Machine) -> Outcome {
    let registers = [
        (3, 3, 9, 12, 0),
        (3, 3, 9, 13, 0),
        (3, 3, 9, 12, 1),
        (3, 0, 9, 14, 1),
        (3, 3, 14, 8, 0),
    ];
    registers
        .into_iter()
        .try_for_each(|encoding| expect_undefined(read(encoding), encoding))
}

fn unallocated(_: &Machine) -> Outcome {
    let encodings = [
        (3, 0, 3, 0, 0),
        (3, 3, 3, 0, 0),
        (3, 0, 8, 0, 0),
        (3, 7, 0, 0, 0),
        (3, 3, 14, 0, 7),
        (2, 1, 15, 0, 0),
        (2, 5, 0, 0, 0),
    ];
    for encoding in encodings {
        expect_undefined(read(encoding), encoding)?;
        let (op0, op1, crn, crm, op2) = encoding;
        // SAFETY: it is undefined.
        let written = unsafe { execute(&[msr(op0, op1, crn, crm, op2)], 0) };
        expect_undefined(written, encoding)?;
    }
    Ok(())
}

/// HCR_EL2, ESR_EL2, VTTBR_EL2, TTBR0_EL2, CNTHCTL_EL2, SP_EL1, ICH_HCR_EL2, SCTLR_EL12,
/// SCR_EL3.
fn el2(_: &Machine) -> Outcome {
    let encodings = [
        (3, 4, 1, 1, 0),
        (3, 4, 5, 2, 0),
        (3, 4, 2, 1, 0),
        (3, 4, 2, 0, 0),
        (3, 4, 14, 1, 0),
        (3, 4, 4, 1, 0),
        (3, 4, 12, 11, 0),
        (3, 5, 1, 0, 0),
        (3, 6, 1, 1, 0),
    ];
    encodings
        .into_iter()
        .try_for_each(|encoding| expect_undefined(read(encoding), encoding))
}

/// A register in which an operating system keeps its own data holds what was written to it.
fn el1(_: &Machine) -> Outcome {
    for (op0, op1, crn, crm, op2) in [
        (3, 3, 13, 0, 2), // TPIDR_EL0
        (3, 3, 13, 0, 3), // TPIDRRO_EL0
        (3, 0, 5, 1, 0),  // AFSR0_EL1 (may be RES0)
        (3, 0, 7, 4, 0),  // PAR_EL1
        (3, 0, 13, 0, 1), // CONTEXTIDR_EL1
    ] {
        // SAFETY: registers that the payload does not use.
        let written = unsafe { execute(&[msr(op0, op1, crn, crm, op2)], 0) };
        check!(written.is_ok(), "MSR {op1} {crn} {crm} {op2}: {written:?}");
        let back = read((op0, op1, crn, crm, op2));
        check!(back.is_ok(), "MRS {op1} {crn} {crm} {op2}: {back:?}");
    }
    write_sysreg!("tpidr_el0", 0x1234_5678_9abc_def0);
    crate::psci::call(crate::psci::VERSION, 0, 0, 0);
    check_eq!(
        read_sysreg!("tpidr_el0"),
        0x1234_5678_9abc_def0,
        "TPIDR_EL0 over an HVC"
    );
    Ok(())
}

/// Each cache that CLIDR names has a CCSIDR; CTR is readable.
fn cache_ids(_: &Machine) -> Outcome {
    let clidr = read_sysreg!("clidr_el1");
    for level in 0..7 {
        let kind = clidr >> (level * 3) & 7;
        if kind == 0 {
            break;
        }
        write_sysreg!("csselr_el1", level << 1);
        check_eq!(read_sysreg!("csselr_el1"), level << 1, "CSSELR");
        let _ = read_sysreg!("ccsidr_el1");
    }
    check!(read_sysreg!("ctr_el0") & 1 << 31 != 0, "CTR_EL0: RES1");
    check!(read_sysreg!("dczid_el0") & 0xf <= 9, "DCZID_EL0");
    Ok(())
}

/// Cleans the first level by set and way, as firmware does, and by address.
fn cache_ops(_: &Machine) -> Outcome {
    let line = 0_u64;
    let at = core::ptr::from_ref(&line);
    // SAFETY: cleaning and cleaning with invalidation lose nothing.
    let result = unsafe {
        probe!("dc cisw, {zero}", "dc csw, {zero}", "dc civac, {at}", "dc cvac, {at}",
            "dc cvau, {at}", "ic iallu", "ic ialluis", "dsb sy", "isb";
            zero = in(reg) 0_u64, at = in(reg) at)
    };
    check!(result.is_ok(), "{result:?}");
    Ok(())
}

/// AT returns the guest's own physical address, and reports a fault (DDI 0487, PAR_EL1).
fn translate(_: &Machine) -> Outcome {
    let good = mmu::map(2, 0x0900_0000, Kind::Device);
    let bad = mmu::unmap(3);
    let par = translated(good);
    check_eq!(par & 1, 0, "PAR.F of a mapped page");
    check_eq!(par & 0x000f_ffff_ffff_f000, 0x0900_0000, "PAR.PA");
    let par = translated(bad);
    check_eq!(
        par & 0x7f,
        (status::TRANSLATION + 3) << 1 | 1,
        "PAR of an unmapped page"
    );
    Ok(())
}

fn translated(address: u64) -> u64 {
    // SAFETY: a translation changes PAR_EL1 alone.
    unsafe { core::arch::asm!("at s1e1r, {0}", "isb", in(reg) address) };
    read_sysreg!("par_el1")
}

/// Features that the ID registers name can be used, and features that they do not name are
/// undefined: pointer authentication keys, RNDR, allocation tags.
fn feature_traps(machine: &Machine) -> Outcome {
    let isar1 = read_sysreg!("id_aa64isar1_el1");
    let keys = [4, 8, 24, 28].iter().any(|low| field(isar1, *low) != 0);
    let isar2 = read((3, 0, 0, 6, 2)).unwrap_or(0);
    let keys = keys || field(isar2, 8) != 0 || field(isar2, 12) != 0;
    agree(keys, (3, 0, 2, 1, 0), "APIAKeyLo_EL1")?;
    let random = field(read_sysreg!("id_aa64isar0_el1"), 60) != 0;
    agree(random, (3, 3, 2, 4, 0), "RNDR")?;
    let tags = field(read((3, 0, 0, 4, 1)).unwrap_or(0), 8) >= 2;
    agree(tags, (3, 0, 1, 0, 6), "GCR_EL1")?;
    let vectors = field(read_sysreg!("id_aa64pfr0_el1"), 32) != 0;
    if !vectors && machine.host == Host::Hanok {
        return expect_unusable((3, 0, 1, 2, 0));
    }
    agree_unless_fp_trap(vectors, (3, 0, 1, 2, 0), "ZCR_EL1")
}

fn agree(there: bool, encoding: Encoding, name: &str) -> Outcome {
    let result = read(encoding);
    if there {
        check!(result.is_ok(), "{name}: named, and {result:x?}");
        return Ok(());
    }
    expect_undefined(result, encoding)
}

/// As [`agree`], where CPACR_EL1 may trap the register for the guest itself.
fn agree_unless_fp_trap(there: bool, encoding: Encoding, name: &str) -> Outcome {
    match read(encoding) {
        Err(fault) if there && fault.class() == class::SVE_DISABLED => Ok(()),
        _ => agree(there, encoding, name),
    }
}
