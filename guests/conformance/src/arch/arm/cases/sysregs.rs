//! Registers of coprocessor 15 (DDI 0406C, B3.17): what is there, what is hidden, what is
//! undefined.

use crate::arch::code::{Register, cp15, execute, mcrr, mrrc};
use crate::case::{Case, Failure, Outcome, case, hanok_case};
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::probe::{Fault, class, status};
use crate::psci;
use crate::tree::Host;
use hanok_guest_runtime::arch::mmu::{has_long, is_short};

/// A call of the hypervisor during which other vCPUs of the core run.
const YIELD: u32 = 0xc600_0001;

pub const CASES: &[Case] = &[
    case("id-space", 1, id_space),
    case("id-pair-space", 1, id_pair_space),
    case("id-main", 1, id_main),
    case("id-features", 1, id_features),
    case("id-write", 1, id_write),
    hanok_case("pmu-zero", 1, pmu_zero),
    case("sysreg-unallocated", 1, unallocated),
    case("sysreg-coprocessors", 1, coprocessors),
    case("sysreg-hyp", 1, hyp),
    case("sysreg-pl1", 1, pl1),
    case("sysreg-both-widths", 1, both_widths),
    case("sysreg-cache-ids", 1, cache_ids),
    case("sysreg-cache-ops", 1, cache_ops),
    case("sysreg-translate", 1, translate),
    case("sysreg-fcseidr", 1, fcseidr),
];

fn read(register: Register) -> Result<u32, Fault> {
    // SAFETY: MRC changes R0 alone.
    unsafe { execute(&[register.read()], 0) }
}

/// # Safety
///
/// Nobody relies on the register.
unsafe fn write(register: Register, value: u32) -> Result<u32, Fault> {
    // SAFETY: the caller's promise.
    unsafe { execute(&[register.write()], value) }
}

/// The ID register with this CRm and opc2 (coprocessor 15, opc1 0, CRn 0).
pub fn feature_id(crm: u32, opc2: u32) -> Result<u64, Fault> {
    read(cp15(0, 0, crm, opc2)).map(u64::from)
}

fn field(value: u64, low: u32) -> u64 {
    value >> low & 0xf
}

fn expect_undefined(result: Result<u32, Fault>, what: core::fmt::Arguments<'_>) -> Outcome {
    match result {
        Err(fault) if fault.class() == class::UNDEFINED => Ok(()),
        other => Err(Failure::wrong(format_args!("{what}: {other:x?}"))),
    }
}

fn expect_no_register(register: Register) -> Outcome {
    expect_undefined(read(register), format_args!("{register:?}"))
}

/// All encodings of CRn 0 return a value or are undefined, the same each time; the registers that
/// the CPUID scheme names (B7.1) return a value.
fn id_space(_: &Machine) -> Outcome {
    for opc1 in 0..8 {
        for (crm, opc2) in (0..16).flat_map(|crm| (0..8).map(move |opc2| (crm, opc2))) {
            let register = cp15(opc1, 0, crm, opc2);
            let (first, again) = (read(register), read(register));
            match (first, again) {
                (Ok(first), Ok(again)) if first == again => {}
                (Err(fault), Err(_)) if fault.class() == class::UNDEFINED => {
                    let named = opc1 == 0 && (crm < 2 || crm == 2 && opc2 < 6);
                    check!(!named, "{register:?}: undefined");
                }
                other => return Err(Failure::wrong(format_args!("{register:?}: {other:x?}"))),
            }
        }
    }
    Ok(())
}

/// All 64-bit registers return a value or are undefined.
fn id_pair_space(_: &Machine) -> Outcome {
    for opc1 in 0..16 {
        for crm in 0..16 {
            // SAFETY: MRRC changes R0 and R1 alone.
            let result = unsafe { execute(&[mrrc(opc1, crm)], 0) };
            // TTBR0, TTBR1, PAR; CNTPCT, CNTVCT, the timers' compare values.
            let translates = matches!((opc1, crm), (0 | 1, 2) | (0, 7));
            let named = translates && has_long() || matches!((opc1, crm), (0..=3, 14));
            match result {
                Ok(_) => {}
                Err(fault) if fault.class() == class::UNDEFINED => {
                    check!(!named, "MRRC {opc1} c{crm}: undefined");
                }
                Err(fault) => return Err(Failure::wrong(format_args!("{opc1} {crm}: {fault:?}"))),
            }
        }
    }
    Ok(())
}

/// MIDR's part number of a Cortex-A8 (DDI 0344, "Main ID Register").
const CORTEX_A8: u64 = 0xc08;

fn id_main(_: &Machine) -> Outcome {
    let midr = read_sysreg!("midr_el1");
    let part = midr >> 4 & 0xfff;
    check!(part != 0 && part != 0xfff, "MIDR part {part:#x}");
    // Its alias (B4.1.105).
    let alias = read(cp15(0, 0, 0, 7)).map(u64::from);
    check!(matches!(alias, Ok(alias) if alias == midr), "{alias:x?}");
    let affinity = read_sysreg!("mpidr_el1");
    check_eq!(affinity & 0x00ff_ffff, 0, "MPIDR of the first vCPU");
    // A Cortex-A8 has no Multiprocessing Extensions.
    let multiprocessing = part != CORTEX_A8;
    let format = affinity & 1 << 31 != 0;
    check!(format == multiprocessing, "MPIDR {affinity:#x}: MP format");
    check!(affinity & 1 << 30 == 0, "MPIDR {affinity:#x}: uniprocessor");
    Ok(())
}

/// A32 and Thumb-2, the generic timer, long descriptors, which a VM has where it may translate by
/// them. Without a hypervisor no Security and no Virtualization Extensions; a CPU model may show a
/// VM what its hypervisor has (docs/differences.md).
fn id_features(machine: &Machine) -> Outcome {
    let pfr0 = read_sysreg!("id_pfr0_el1");
    check_eq!(field(pfr0, 0), 1, "A32");
    check_eq!(field(pfr0, 4), 3, "Thumb-2");
    let pfr1 = read_sysreg!("id_pfr1_el1");
    check_eq!(field(pfr1, 16), 1, "the generic timer");
    if machine.host == Host::Qemu {
        check_eq!((field(pfr1, 4), field(pfr1, 12)), (0, 0), "extensions");
    }
    let descriptors = if machine.host == Host::Qemu { 5 } else { 3 };
    let found = field(read_sysreg!("id_mmfr0_el1"), 0);
    check!(found >= descriptors, "descriptors: {found}");
    Ok(())
}

/// Identification is read-only.
fn id_write(_: &Machine) -> Outcome {
    for (crm, opc2) in [(0, 0), (0, 5), (1, 0), (1, 4), (2, 0)] {
        let register = cp15(0, 0, crm, opc2);
        // SAFETY: it is undefined.
        expect_undefined(unsafe { write(register, 0) }, format_args!("{register:?}"))?;
    }
    Ok(())
}

/// PMCR, PMCNTENSET, PMOVSR, PMSELR, PMCCNTR, PMXEVTYPER, PMXEVCNTR, PMUSERENR, PMINTENSET,
/// PMOVSSET: a 32-bit CPU says in ID_DFR0 that it has performance monitors, and no hypervisor can
/// hide that, so programs use these registers. In a VM they count nothing and store nothing.
fn pmu_zero(_: &Machine) -> Outcome {
    let registers = [
        (12, 0),
        (12, 1),
        (12, 3),
        (12, 5),
        (13, 0),
        (13, 1),
        (13, 2),
        (14, 0),
        (14, 1),
        (14, 3),
    ];
    for (crm, opc2) in registers {
        let register = cp15(0, 9, crm, opc2);
        // SAFETY: it is ignored.
        let written = unsafe { write(register, u32::MAX) };
        check!(written.is_ok(), "{register:?}: {written:?}");
        check_eq!(read(register).ok(), Some(0), "{register:?}");
    }
    Ok(())
}

fn unallocated(_: &Machine) -> Outcome {
    let registers = [
        cp15(0, 4, 0, 0),
        cp15(0, 8, 0, 0),
        cp15(7, 0, 0, 0),
        cp15(3, 6, 0, 0),
        cp15(0, 14, 0, 7),
        cp15(5, 14, 0, 0),
    ];
    for register in registers {
        expect_no_register(register)?;
        // SAFETY: it is undefined.
        expect_undefined(unsafe { write(register, 0) }, format_args!("{register:?}"))?;
    }
    for (opc1, crm) in [(0, 0), (5, 2), (9, 14), (15, 15)] {
        // SAFETY: it is undefined.
        let result = unsafe { execute(&[mcrr(opc1, crm)], 0) };
        expect_undefined(result, format_args!("MCRR {opc1} c{crm}"))?;
    }
    Ok(())
}

/// Coprocessors that do not exist are undefined, by each of their instructions: MRC, MCR, CDP, LDC,
/// STC, MRRC.
fn coprocessors(_: &Machine) -> Outcome {
    for number in (0..8).chain([9, 12, 13]) {
        let words = [
            0xee10_0010,
            0xee00_0010,
            0xee00_0000,
            0xed90_0000,
            0xed80_0000,
            0xec51_0000,
        ];
        for word in words {
            let word = word | number << 8;
            // SAFETY: it is undefined; with R0 zero it would reach flash.
            let result = unsafe { execute(&[word], 0) };
            expect_undefined(result, format_args!("{word:#x}"))?;
        }
    }
    Ok(())
}

/// HCR, HSR, HVBAR, VTCR, VPIDR, CNTHCTL, HTPIDR; SCR and MVBAR of Monitor mode; VTTBR, CNTVOFF
/// and CNTHP_CVAL.
fn hyp(_: &Machine) -> Outcome {
    let registers = [
        cp15(4, 1, 1, 0),
        cp15(4, 5, 2, 0),
        cp15(4, 12, 0, 0),
        cp15(4, 2, 1, 2),
        cp15(4, 0, 0, 0),
        cp15(4, 14, 1, 0),
        cp15(4, 13, 0, 2),
        cp15(0, 1, 1, 0),
        cp15(0, 12, 0, 1),
    ];
    for register in registers {
        expect_no_register(register)?;
        // SAFETY: it is undefined.
        expect_undefined(unsafe { write(register, 0) }, format_args!("{register:?}"))?;
    }
    for (opc1, crm) in [(6, 2), (4, 14), (6, 14)] {
        for word in [mrrc(opc1, crm), mcrr(opc1, crm)] {
            // SAFETY: as above.
            let result = unsafe { execute(&[word], 0) };
            expect_undefined(result, format_args!("{word:#x}"))?;
        }
    }
    Ok(())
}

/// A register in which an operating system keeps its own data holds what was written to it, also
/// over a call.
fn pl1(_: &Machine) -> Outcome {
    let registers = [
        (cp15(0, 13, 0, 2), u32::MAX),   // TPIDRURW
        (cp15(0, 13, 0, 3), u32::MAX),   // TPIDRURO
        (cp15(0, 13, 0, 1), u32::MAX),   // CONTEXTIDR
        (cp15(0, 7, 4, 0), 0xffff_f001), // PAR, 32 bits
        (cp15(0, 3, 0, 0), u32::MAX),    // DACR
        (cp15(0, 6, 0, 0), u32::MAX),    // DFAR
        (cp15(0, 6, 0, 2), u32::MAX),    // IFAR
        (cp15(0, 10, 3, 0), 0),          // AMAIR0
        (cp15(0, 5, 1, 0), 0),           // ADFSR
    ];
    // AMAIR0 is the long descriptors'.
    let there = |(register, _): &(Register, u32)| has_long() || *register != cp15(0, 10, 3, 0);
    let registers = || registers.into_iter().filter(there);
    // DACR keeps this program's own domain as it is, which counts with short descriptors.
    for value in [0xa5a5_5a01, 0x1234_5001] {
        for (register, _) in registers() {
            // SAFETY: the payload does not use it.
            let written = unsafe { write(register, value) };
            check!(written.is_ok(), "{register:?}: {written:?}");
        }
        psci::call(psci::VERSION, 0, 0, 0);
        for (register, held) in registers() {
            let back = read(register).map(|back| back & held);
            check!(
                matches!(back, Ok(back) if back == value & held),
                "{register:?}: {back:x?} of {value:#x}"
            );
        }
    }
    Ok(())
}

/// TTBR0 and PAR by MRC are the lower halves of what MRRC gives, where they have 64 bits.
fn both_widths(_: &Machine) -> Outcome {
    if !has_long() {
        for word in [mrrc(0, 2), mrrc(0, 7)] {
            // SAFETY: it is undefined.
            expect_undefined(unsafe { execute(&[word], 0) }, format_args!("{word:#x}"))?;
        }
        return Ok(());
    }
    let whole = read_sysreg!("ttbr0_el1");
    let half = read(cp15(0, 2, 0, 0));
    check!(
        matches!(half, Ok(half) if half == whole as u32),
        "TTBR0: {half:x?} of {whole:#x}"
    );
    write_sysreg!("par_el1", 0x12_3456_7001);
    let whole = read_sysreg!("par_el1");
    let half = read(cp15(0, 7, 4, 0));
    check!(
        matches!(half, Ok(half) if half == whole as u32),
        "PAR: {half:x?} of {whole:#x}"
    );
    Ok(())
}

/// Each cache that CLIDR names has a CCSIDR; CTR is of this architecture.
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
    // 0b10; bit 29 belongs to it on Armv7, and is DIC on Armv8 (DDI 0487, G8.2, CTR).
    check_eq!(read_sysreg!("ctr_el0") >> 30, 2, "CTR's format");
    Ok(())
}

/// Cleans the first level by set and way, as firmware does; by address; and the whole cache.
fn cache_ops(_: &Machine) -> Outcome {
    let line = 0_u32;
    let at = core::ptr::from_ref(&line);
    // SAFETY: cleaning and cleaning with invalidation lose nothing. DCCISW, DCCSW, DCCIMVAC,
    // DCCMVAC, DCCMVAU, ICIALLU, ICIALLUIS, BPIALL, BPIALLIS, and the barriers CP15ISB, CP15DSB
    // and CP15DMB, which assemblers warn of.
    let result = unsafe {
        probe!("mcr p15, 0, {zero}, c7, c14, 2", "mcr p15, 0, {zero}, c7, c10, 2",
            "mcr p15, 0, {at}, c7, c14, 1", "mcr p15, 0, {at}, c7, c10, 1",
            "mcr p15, 0, {at}, c7, c11, 1", "mcr p15, 0, {zero}, c7, c5, 0",
            "mcr p15, 0, {zero}, c7, c1, 0", "mcr p15, 0, {zero}, c7, c5, 6",
            "mcr p15, 0, {zero}, c7, c1, 6",
            ".inst 0xee070f95", ".inst 0xee070f9a", ".inst 0xee070fba";
            zero = in(reg) 0, at = in(reg) at)
    };
    check!(result.is_ok(), "{result:?}");
    Ok(())
}

/// ATS1CPR returns the guest's own physical address, and reports a fault (B4.1.112).
fn translate(_: &Machine) -> Outcome {
    let good = mmu::map(2, 0x0900_0000, Kind::Device);
    let bad = mmu::unmap(3);
    let par = translated(good);
    check_eq!(par & 1, 0, "PAR.F of a mapped page");
    check_eq!(par & 0x00ff_ffff_f000, 0x0900_0000, "PAR.PA");
    let par = translated(bad);
    // FS of a page's translation fault (B3.13.3).
    let fault = if is_short() {
        0b00111
    } else {
        status::TRANSLATION + 3
    };
    check_eq!(par & 0x7f, fault << 1 | 1, "PAR of an unmapped page");
    Ok(())
}

fn translated(address: u64) -> u64 {
    // SAFETY: a translation changes PAR alone.
    unsafe { core::arch::asm!("mcr p15, 0, {0}, c7, c8, 0", "isb", in(reg) address as u32) };
    if is_short() {
        read_sysreg!("par_32")
    } else {
        read_sysreg!("par_el1")
    }
}

/// FCSEIDR, which moves addresses below 32 MiB, holds the guest's own value, whatever other VMs use
/// its core meanwhile; or it is read-only (D11.2) and zero.
fn fcseidr(_: &Machine) -> Outcome {
    const FCSEIDR: Register = cp15(0, 13, 0, 0);
    const ROUNDS: u32 = 1000;
    check!(
        matches!(read(FCSEIDR), Ok(0)),
        "{:x?} at first",
        read(FCSEIDR)
    );
    for round in 1..=ROUNDS {
        // Bits 31:25 are the process identifier.
        let wanted = round << 25;
        // SAFETY: nothing of this program is below 32 MiB.
        let written = unsafe { write(FCSEIDR, wanted) };
        check!(written.is_ok(), "{written:x?}");
        let kept = read(FCSEIDR);
        // A call during which another VM runs, if there is one; natively the call does not exist.
        psci::call(u64::from(YIELD), 0, 0, 0);
        let after = read(FCSEIDR);
        check!(
            after == kept && (kept == Ok(wanted) || kept == Ok(0)),
            "round {round}: {wanted:#x} written, {kept:x?}, and {after:x?} after another VM's turn"
        );
    }
    // SAFETY: as above.
    let cleared = unsafe { write(FCSEIDR, 0) };
    check!(cleared.is_ok(), "{cleared:x?}");
    Ok(())
}
