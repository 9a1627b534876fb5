//! The code from the loader's jump to the run time, and the translation.
//!
//! The Linux ARM boot protocol: r2 has the device tree's address, the MMU and the data cache are
//! off, the CPU is in Supervisor mode. The image begins as a zImage does, and first copies itself
//! to where it was linked. Then aarch32-rt's own start code follows, which clears memory and makes
//! the stacks. The tree's address is kept where that code does not clear.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use aarch32_cpu::mmu::{AccessPermissions, L1Section, MemoryRegionAttributes, SectionAttributes};
use aarch32_cpu::register::dacr::DomainAccess;
use aarch32_cpu::register::ttbr0::Region;
use aarch32_cpu::register::{BpIAll, Dacr, Iciallu, Sctlr, TlbIAll, Ttbr0};
use arbitrary_int::u4;

core::arch::global_asm!(
    r#"
    .pushsection .head, "ax"
    .arm
    .global _start
_start:
    .rept   8
    mov     r0, r0
    .endr
    b       1f
    .word   0x016f2818              // a zImage
    .word   0                       // that may be loaded anywhere
    .word   __image_loaded_end - _start

1:  cpsid   aif
    adr     r9, _start
    ldr     r0, =_start
    ldr     r1, =__image_loaded_end
    cmp     r9, r0
    beq     3f
2:  cmp     r0, r1
    ldmialo r9!, {{r3-r6}}          // the end is a multiple of 16
    stmialo r0!, {{r3-r6}}
    blo     2b
    mov     r3, #0
    mcr     p15, 0, r3, c7, c5, 0   // ICIALLU
    dsb
    isb
3:  ldr     r0, ={tree}
    str     r2, [r0]
    ldr     pc, =_default_start
    .ltorg
    .popsection
    "#,
    tree = sym TREE,
);

/// The loader's r2.
#[unsafe(link_section = ".uninit")]
static TREE: Left = Left(UnsafeCell::new(MaybeUninit::uninit()));

#[repr(transparent)]
struct Left(UnsafeCell<MaybeUninit<usize>>);

// SAFETY: written by the first instructions alone.
unsafe impl Sync for Left {}

/// The device tree's address.
pub fn tree() -> usize {
    // SAFETY: the first instructions wrote it, and nobody after them.
    unsafe { TREE.0.get().read().assume_init() }
}

/// CBAR of Cortex-A7 and A15 (DDI 0438, "Configuration Base Address Register"): where drivers of
/// such boards find their interrupt controller if there is no tree.
pub fn peripherals() -> u32 {
    let value: u32;
    // SAFETY: a read without effect.
    unsafe { asm!("mrc p15, 4, {}, c15, c0, 0", out(reg) value, options(nomem, nostack)) };
    value
}

/// The start of RAM; devices are below it.
const RAM: u32 = 0x4000_0000;
const SECTION: u32 = 1 << 20;

/// The first-level table: one entry for each MiB.
#[repr(C, align(16384))]
struct Table([AtomicU32; 4096]);

static TABLE: Table = Table([const { AtomicU32::new(0) }; 4096]);

/// Device memory, which is not executable.
const DEVICE: SectionAttributes = SectionAttributes {
    non_global: false,
    p_bit: false,
    shareable: true,
    access: AccessPermissions::PrivilegedOnly,
    memory_attrs: MemoryRegionAttributes::ShareableDevice.as_raw(),
    domain: u4::new(0),
    execute_never: true,
};

/// RAM: write-back, write-allocate, shareable.
const NORMAL: SectionAttributes = SectionAttributes {
    memory_attrs: MemoryRegionAttributes::OuterAndInnerWriteBackWriteAlloc.as_raw(),
    execute_never: false,
    ..DEVICE
};

/// Turns the translation on: addresses map to themselves, with devices below RAM. Without it all
/// memory is Strongly-ordered, where atomics need not work (DDI 0406C, A3.4.5).
pub fn translate() {
    for (index, entry) in (0_u32..).zip(&TABLE.0) {
        let address = index * SECTION;
        let attributes = if address < RAM { DEVICE } else { NORMAL };
        let section = L1Section::new_with_addr_and_attrs(address, attributes);
        entry.store(section.raw_value(), Relaxed);
    }
    let client = Dacr::new_with_raw_value(0).with_d(0, DomainAccess::Client);
    let walks = Ttbr0::new_with_raw_value(0)
        .with_irgn(true)
        .with_rgn(Region::WriteBackWriteAllocCacheable)
        .with_s(true)
        .with_address((&raw const TABLE).addr());
    // SAFETY: the table maps all that is used where it is; nothing was cached before, and what
    // TLBs and predictors hold is thrown away first.
    unsafe {
        asm!("dsb", "mcr p15, 0, {}, c2, c0, 2", in(reg) 0, options(nostack)); // TTBCR: TTBR0 alone
        TlbIAll::write();
        Iciallu::write();
        BpIAll::write();
        Ttbr0::write(walks);
        Dacr::write(client);
        asm!("dsb", "isb", options(nostack));
    }
    Sctlr::modify(|sctlr| {
        sctlr.set_v(false); // vectors by VBAR
        sctlr.set_a(false);
        sctlr.set_i(true);
        sctlr.set_z(true);
        sctlr.set_c(true);
        sctlr.set_m(true);
    });
}
