//! Short descriptors (DDI 0406C, B3.5): how aborts are reported while a guest translates by them,
//! as most 32-bit systems do.

use crate::arch::access;
use crate::case::{Case, Failure, Outcome, case};
use crate::machine::Machine;
use crate::probe::{Fault, class, status};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use hanok_guest_runtime::arch::mmu;

pub const CASES: &[Case] = &[
    case("short-hole", 1, hole),
    case("short-walk", 1, walk),
    case("short-unmapped", 1, unmapped),
];

/// A first-level table.
#[repr(C, align(16384))]
struct Table([AtomicU32; 4096]);

static TABLE: Table = Table([const { AtomicU32::new(0) }; 4096]);

/// Sections: PL1 may read and write; devices cannot be run.
const SECTION: u32 = 2 | 1 << 10;
const DEVICE: u32 = SECTION | 1 << 2 | 1 << 4;
const NORMAL: u32 = SECTION | 1 << 3 | 1 << 2 | 1 << 12 | 1 << 16;
/// A second-level table.
const POINTER: u32 = 1;
const MEGABYTE: u32 = 20;

/// The fault status as the vectors name it, who take the short format's codes alone (B3.13.3): FS
/// 0b0101 and 0b1110.
const TRANSLATION_SECTION: u64 = status::TRANSLATION + 1;
const EXTERNAL_WALK_2: u64 = status::EXTERNAL_WALK + 3;

/// Addresses: an unmapped physical address, one whose table is missing, and one without a mapping.
const HOLE: u32 = 0x0b00_0000;
const NO_TABLE: u32 = 0xa000_0000;
const UNMAPPED: u32 = 0xa010_0000;

fn build() {
    for (index, entry) in (0..).zip(&TABLE.0) {
        let kind = if index < 1024 { DEVICE } else { NORMAL };
        entry.store(index << MEGABYTE | kind, Relaxed);
    }
    let at = |address: u32| &TABLE.0[(address >> MEGABYTE) as usize];
    at(NO_TABLE).store(HOLE | POINTER, Relaxed);
    at(UNMAPPED).store(0, Relaxed);
}

/// Exchanges TTBR0 and TTBCR with the MMU off meanwhile; both translations map this program to
/// itself.
fn translate_by(table: u64, control: u64) {
    // SAFETY: no memory is used between the two changes of SCTLR but this code.
    unsafe {
        asm!(
            "dsb",
            "mrc p15, 0, {state}, c1, c0, 0", // SCTLR
            "bic {other}, {state}, #5",       // C, M
            "mcr p15, 0, {other}, c1, c0, 0",
            "isb",
            "mcr p15, 0, {control}, c2, c0, 2", // TTBCR
            "isb",
            "cmp {wide}, #0",
            "mcrrne p15, 0, {low}, {high}, c2", // TTBR0
            "mcreq p15, 0, {low}, c2, c0, 0",
            "mcr p15, 0, {low}, c8, c7, 0",     // TLBIALL
            "dsb",
            "isb",
            "mcr p15, 0, {state}, c1, c0, 0",
            "isb",
            low = in(reg) table as u32,
            high = in(reg) (table >> 32) as u32,
            wide = in(reg) u32::from(mmu::has_long()),
            control = in(reg) control as u32,
            state = out(reg) _,
            other = out(reg) _,
        );
    }
}

/// Runs `work` under short descriptors.
fn under_short<T>(work: impl FnOnce() -> T) -> T {
    const WALKS: u64 = 1 << 6 | 1 << 3 | 1 << 1;
    build();
    let table = if mmu::has_long() {
        read_sysreg!("ttbr0_el1")
    } else {
        read_sysreg!("ttbr0_32")
    };
    let control = read_sysreg!("tcr_el1");
    let domains = read_sysreg!("dacr32_el2");
    write_sysreg!("dacr32_el2", 1);
    translate_by((&raw const TABLE).addr() as u64 | WALKS, 0);
    let result = work();
    translate_by(table, control);
    write_sysreg!("dacr32_el2", domains);
    result
}

/// The status, whether it was a write, and the address.
fn told<T>(result: Result<T, Fault>) -> Result<(u64, bool, u64), Failure> {
    match result {
        Err(fault) if matches!(fault.class(), class::DATA | class::FETCH) => {
            Ok((fault.status(), fault.is_write(), fault.far))
        }
        Err(fault) => Err(Failure::wrong(format_args!("{fault:?}"))),
        Ok(_) => Err(Failure::wrong(format_args!("no abort"))),
    }
}

/// The external abort of a load, a store and a fetch is reported with the short format's code.
fn hole(_: &Machine) -> Outcome {
    let at = u64::from(HOLE) + 0x40;
    // SAFETY: nothing is there.
    let (load, store) = under_short(|| unsafe { (access::load(at, 4), access::store(at, 2, 0)) });
    check_eq!(told(load)?, (status::EXTERNAL, false, at), "load");
    check_eq!(told(store)?, (status::EXTERNAL, true, at), "store");
    let fetch = under_short(|| {
        // Devices may be executed during this case.
        let entry = &TABLE.0[(HOLE >> MEGABYTE) as usize];
        entry.store(HOLE | NORMAL, Relaxed);
        // SAFETY: a barrier and a TLB invalidation; then nothing is there to run.
        unsafe {
            asm!("dsb", "mcr p15, 0, {0}, c8, c7, 0", "dsb", "isb", in(reg) 0);
            access::jump(at)
        }
    });
    let (status, _, far) = told(fetch)?;
    check_eq!((status, far), (status::EXTERNAL, at), "fetch");
    Ok(())
}

/// The second-level table is at an unmapped address.
fn walk(_: &Machine) -> Outcome {
    let at = u64::from(NO_TABLE) + 0x1040;
    // SAFETY: nothing is there.
    let load = under_short(|| unsafe { access::load(at, 4) });
    check_eq!(told(load)?, (EXTERNAL_WALK_2, false, at), "load");
    Ok(())
}

/// The guest takes the faults of its own translation.
fn unmapped(_: &Machine) -> Outcome {
    let at = u64::from(UNMAPPED) + 8;
    // SAFETY: nothing is there.
    let store = under_short(|| unsafe { access::store(at, 4, 0) });
    check_eq!(told(store)?, (TRANSLATION_SECTION, true, at), "store");
    Ok(())
}
