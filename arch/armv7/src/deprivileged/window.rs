//! The window: the one megabyte of the hypervisor's that is in every translation, its own and the
//! shadows, with the vectors, the code that enters and leaves guests, and a record for each pCPU.
//!
//! The code is position-independent, and is executed where the window is, not where it is linked: an
//! exit begins in the guest's shadow, in which nothing else of the hypervisor is mapped, and only its
//! last instructions run in the hypervisor's own translation.
//!
//! While a guest runs, the stack pointer of each privileged mode is the pCPU's record. The guest is in
//! User mode, so that its R13 and R14 are the User bank. An exception from any other mode is the
//! hypervisor's own fault, and goes on to the vectors of such.
//!
//! Between the two translations stands ASID 0, which neither has, so that no entry of one is cached
//! under the ASID of the other (DDI 0406C, B3.10.4). The code is in `window_code.rs`, the record in `record.rs`.

use super::common::pay;
use super::record::{OWN_ASID, RECORD_PAGES, Record, STRIDE, UserRegisters};
use super::window_code::{hanok_window, hanok_window_enter, hanok_window_records};
use crate::{maintain, read, write, write_own};
use core::arch::asm;
use hanok_arm_common::cpu;
use hanok_arm_common::sysreg::{dsb_sy, isb};
use hanok_deprivileged::{Crossing, KnownSpaces, Place};
use hanok_paging::shadow::{AsidPool, Owed};
use hanok_types::PAGE_SIZE;

/// The offset of the records in the window.
const RECORDS: u64 = PAGE_SIZE;
/// The offsets in the window of what vCPUs have there.
pub const PAGES: core::ops::Range<u64> = RECORDS + RECORD_PAGES * PAGE_SIZE..1 << 20;

/// A page that the window shows, by its linked address, and its offset in the window.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The linked address.
    pub linked: u64,
    /// The offset in the window.
    pub offset: u64,
}

/// The page with the code.
pub fn code() -> Part {
    Part {
        linked: &raw const hanok_window as u64 & !(PAGE_SIZE - 1),
        offset: 0,
    }
}

/// The first of [`RECORD_PAGES`] pages with the records.
pub fn records() -> Part {
    Part {
        linked: &raw const hanok_window_records as u64,
        offset: RECORDS,
    }
}

/// This CPU's record, in the window.
pub fn record() -> *mut Record {
    let window = read!("vbar_pl1") & !(PAGE_SIZE - 1);
    (window + RECORDS + cpu::own_id().index() as u64 * STRIDE) as *mut Record
}

/// Sets up this CPU's record in the window, and points its exceptions there. `stack` is the top of its
/// stack; `handler` takes the guest's exits.
pub fn install(stack: u64, handler: extern "C" fn(*mut Record, u32) -> !) {
    let own_table = read!("ttbr0_pl1") as u32;
    move_to(Place::FIRST);
    let record = record();
    // SAFETY: a place in the window's frames that is this CPU's alone, and aligned.
    unsafe {
        record.write(Record {
            guest: UserRegisters::default(),
            own_table,
            guest_table: own_table,
            guest_asid: 0,
            stack: stack as u32,
            handler: handler as *const () as u32,
            faults: crate::supervisor::vectors(),
            fault: 0,
            word: 0,
            spare: 0,
            page: 0,
            crossing: Crossing::NONE,
            counters: counters(),
            known: KnownSpaces::NONE,
            asids: AsidPool::with_last(cpu::own_id().index() as u8, OWN_ASID - 1),
        });
    }
    write!("contextidr_el1", OWN_ASID.into());
    isb();
    maintain!(0 8 7 0, 0); // TLBIALL
    dsb_sy();
    isb();
}

/// The counters of this CPU that are what guests are to read, by the bits of CNTKCTL. The physical one is; the virtual one
/// only if whatever ran before has left no offset between the two.
fn counters() -> u32 {
    const PHYSICAL: u32 = 1;
    const VIRTUAL: u32 = 1 << 1;
    if !crate::has_generic_timer() {
        return 0;
    }
    isb();
    let before = read!("cntpct_el0");
    isb();
    let between = read!("cntvct_el0");
    isb();
    let after = read!("cntpct_el0");
    if (before..=after).contains(&between) {
        PHYSICAL | VIRTUAL
    } else {
        PHYSICAL
    }
}

/// Points this CPU's exceptions at the window in this place, if they are not yet.
pub fn move_to(place: Place) {
    let vectors = u64::from(place.address()) | &raw const hanok_window as u64 & (PAGE_SIZE - 1);
    if read!("vbar_pl1") == vectors {
        return;
    }
    // SAFETY: the window is mapped at this address, and its vectors are 32-byte aligned.
    unsafe { write_own!("vbar_pl1", vectors) };
    // Between two translations the window executes under ASID 0, and what a CPU fetched ahead then by the tables of a guest
    // with its window elsewhere may be in the TLB.
    pay(Owed::Everything);
    // SAFETY: the stack pointers of the modes that exceptions are taken to, which nothing else uses.
    unsafe {
        asm!(
            "cps #0x11", "mov sp, {record}",
            "cps #0x12", "mov sp, {record}",
            "cps #0x17", "mov sp, {record}",
            "cps #0x1b", "mov sp, {record}",
            "cps #0x13",
            record = in(reg) record(),
            options(nostack, preserves_flags)
        );
    }
}

/// Enters the guest whose registers are in `record`.
///
/// # Safety
/// The record is this CPU's and complete; no data on the caller's stack is needed again.
pub unsafe fn go(record: &mut Record) -> ! {
    let distance = (&raw const hanok_window_enter) as usize - (&raw const hanok_window) as usize;
    let enter = read!("vbar_pl1") as usize + distance;
    // SAFETY: the window's own code; the rest is by this function's contract.
    unsafe { asm!("bx {enter}", enter = in(reg) enter, in("r0") record, options(noreturn)) }
}
