//! A GICv2's virtual interface control registers (IHI 0048B, chapter 5.3, GICH_*): the list
//! registers of this CPU, in memory.
//!
//! The core speaks the format of GICv3's list registers, and translates it.

use bitfield_struct::bitfield;
use core::ptr::NonNull;
use hanok_hal::ListRegisters;
use hanok_vgic::{GichLr, Lr};
use safe_mmio::fields::{ReadPure, ReadPureWrite};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

/// The block of registers, from its start to the last list register.
#[repr(C)]
pub(crate) struct Gich {
    hcr: ReadPureWrite<u32>,
    vtr: ReadPure<u32>,
    vmcr: ReadPureWrite<u32>,
    _reserved_0: [u32; 9],
    /// GICH_ELRSR0, of the first 32 list registers.
    elrsr: ReadPure<u32>,
    _reserved_1: [u32; 47],
    apr: ReadPureWrite<u32>,
    _reserved_2: [u32; 3],
    lr: [ReadPureWrite<u32>; MAX_LISTS],
}

const _: () = assert!(core::mem::offset_of!(Gich, elrsr) == 0x30);
const _: () = assert!(core::mem::offset_of!(Gich, apr) == 0xf0);
const _: () = assert!(core::mem::offset_of!(Gich, lr) == 0x100);

/// As many as the core uses; the architecture has up to 64, the GIC-400 has 4.
const MAX_LISTS: usize = 16;

/// GICH_HCR; the maintenance interrupts that are not used are left out.
#[bitfield(u32)]
struct Hcr {
    /// En: the virtual interface signals interrupts.
    enable: bool,
    /// UIE: a maintenance interrupt while at most one list register is in use.
    underflow: bool,
    #[bits(30)]
    __: u32,
}

/// GICH_VTR.
#[bitfield(u32)]
struct Vtr {
    /// The number of list registers, less one.
    #[bits(6)]
    lists: usize,
    #[bits(20)]
    __: u32,
    /// Bits of preemption, less one.
    #[bits(3)]
    preemption_bits: u32,
    /// Bits of priority, less one.
    #[bits(3)]
    priority_bits: u32,
}

/// The list registers of the CPU that holds it: the block is banked.
#[derive(Clone, Copy, Debug)]
pub struct GichLists {
    registers: NonNull<Gich>,
    count: usize,
}

impl GichLists {
    /// # Safety
    /// `registers` are a GICv2's GICH, mapped as device memory for ever, and no other code
    /// of this CPU drives them meanwhile.
    pub(crate) unsafe fn new(registers: NonNull<Gich>) -> Self {
        let mut this = Self {
            registers,
            count: 0,
        };
        this.count = (this.vtr().lists() + 1).min(MAX_LISTS);
        this
    }

    #[inline(always)]
    fn block(&self) -> UniqueMmioPointer<'_, Gich> {
        // SAFETY: mapped for ever, banked, and this CPU's alone (`Self::new`).
        unsafe { UniqueMmioPointer::new(self.registers) }
    }

    fn vtr(&self) -> Vtr {
        Vtr::from_bits(field_shared!(self.block(), vtr).read())
    }

    fn hcr(&self) -> Hcr {
        Hcr::from_bits(field_shared!(self.block(), hcr).read())
    }

    fn set_hcr(&self, value: Hcr) {
        let mut block = self.block();
        field!(block, hcr).write(value.into_bits());
    }

    /// Empties them all, forgets active priorities and what the guest set in its CPU
    /// interface, and turns the virtual interface off.
    pub fn reset(&mut self) {
        self.set_hcr(Hcr::new());
        (0..self.count).for_each(|index| self.write(index, 0));
        self.set_active_priorities(0);
        self.set_vmcr(0);
    }

    /// Lets the virtual interface signal interrupts, or not; the guest's accesses to it are
    /// the same either way.
    pub fn enable(&mut self, on: bool) {
        self.set_hcr(self.hcr().with_enable(on));
    }

    /// Bits of priority that the virtual interface has (GICH_VTR.PRIbits), which is 5.
    pub fn priority_bits(&self) -> u32 {
        self.vtr().priority_bits() + 1
    }

    /// What the guest set in its CPU interface (GICH_VMCR).
    #[inline]
    pub fn vmcr(&self) -> u32 {
        field_shared!(self.block(), vmcr).read()
    }

    /// Sets what [`Self::vmcr`] gave.
    #[inline]
    pub fn set_vmcr(&mut self, value: u32) {
        let mut block = self.block();
        field!(block, vmcr).write(value);
    }

    /// The priorities that the guest is serving (GICH_APR), a bit each.
    #[inline]
    pub fn active_priorities(&self) -> u32 {
        field_shared!(self.block(), apr).read()
    }

    /// Sets what [`Self::active_priorities`] gave.
    #[inline]
    pub fn set_active_priorities(&mut self, value: u32) {
        let mut block = self.block();
        field!(block, apr).write(value);
    }
}

impl ListRegisters for GichLists {
    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn read(&self, index: usize) -> u64 {
        let lr = field_shared!(self.block(), lr)
            .get(index)
            .map_or(0, |lr| lr.read());
        Lr::from(GichLr::from_bits(lr)).into_bits()
    }

    #[inline(always)]
    fn write(&mut self, index: usize, value: u64) {
        let lr = GichLr::from(Lr::from_bits(value));
        let mut block = self.block();
        if let Some(mut register) = field!(block, lr).get(index) {
            register.write(lr.into_bits());
        }
    }

    /// GICH_ELRSR0 has the meaning of ICH_ELRSR_EL2: a list register whose maintenance
    /// interrupt is due does not count as empty.
    #[inline(always)]
    fn empty(&self) -> u32 {
        field_shared!(self.block(), elrsr).read()
    }

    fn set_underflow_interrupt(&mut self, on: bool) {
        self.set_hcr(self.hcr().with_underflow(on));
    }
}
