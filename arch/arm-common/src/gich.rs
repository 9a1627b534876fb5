//! A GICv2's virtual interface control registers (IHI 0048B, chapter 5.3, GICH_*): the list
//! registers of this CPU, in memory.
//!
//! The core speaks the format of GICv3's list registers, and translates it.
//!
//! # The guard
//!
//! QEMU's GICv2 (10.0) does not sample its physical interrupts when a guest ends a virtual one with HW = 1,
//! so that a level that is high by then is lost; by the architecture it is pending at once (IHI 0048B,
//! 3.2.4, and GICH_LR<n>.HW). QEMU does sample them whenever one of the GIC's inputs changes, and the
//! maintenance interrupt is such an input, enabled or not. So the last list register holds an active
//! interrupt that is never ended, the guard, and the underflow interrupt is raised, but not enabled in the
//! distributor. If one other list register is in use, its end is an underflow, the line rises, and the GIC
//! samples. With three in use, an end would change nothing. This is why the core sets HW = 1 only for an
//! interrupt that is the only listed one, and has its end reported otherwise. A GIC that follows the
//! architecture loses nothing by this but a list register.

use arm_gic::gicv2::registers::Gicd;
use bitfield_struct::bitfield;
use core::ptr::NonNull;
use hanok_hal::ListRegisters;
use hanok_types::IntId;
use hanok_vgic::{GichLr, GuestInterface, Lr, LrState};
use safe_mmio::fields::{ReadPure, ReadPureWrite};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

/// The block of registers, from its start to the last list register.
#[repr(C)]
pub(crate) struct Gich {
    hcr: ReadPureWrite<u32>,
    vtr: ReadPure<u32>,
    vmcr: ReadPureWrite<u32>,
    _reserved_0: [u32; 5],
    /// GICH_EISR0, of the first 32 list registers.
    eisr: ReadPure<u32>,
    _reserved_3: [u32; 3],
    /// GICH_ELRSR0, of the first 32 list registers.
    elrsr: ReadPure<u32>,
    _reserved_1: [u32; 47],
    apr: ReadPureWrite<u32>,
    _reserved_2: [u32; 3],
    lr: [ReadPureWrite<u32>; MAX_LISTS],
}

const _: () = assert!(core::mem::offset_of!(Gich, eisr) == 0x20);
const _: () = assert!(core::mem::offset_of!(Gich, elrsr) == 0x30);
const _: () = assert!(core::mem::offset_of!(Gich, apr) == 0xf0);
const _: () = assert!(core::mem::offset_of!(Gich, lr) == 0x100);

/// The list registers that the core uses; the architecture has up to 64, the GIC-400 has 4.
const MAX_LISTS: usize = 16;

/// GICH_HCR, without the maintenance interrupts that are not used.
#[bitfield(u32)]
struct Hcr {
    /// En: the virtual interface signals interrupts.
    enable: bool,
    /// UIE: a maintenance interrupt while at most one list register is in use.
    underflow: bool,
    __: bool,
    /// NPIE: a maintenance interrupt while no list register is pending.
    none_pending: bool,
    #[bits(28)]
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

/// The list registers of the CPU that holds this value, as the block is banked.
#[derive(Clone, Copy, Debug)]
pub struct GichLists {
    registers: NonNull<Gich>,
    distributor: NonNull<Gicd>,
    /// The number that the core uses; the guard is in the next one.
    count: u8,
    /// The maintenance interrupt, a private one.
    maintenance: u8,
}

// SAFETY: the block is banked by CPU, and so is the maintenance interrupt's enable.
unsafe impl Sync for GichLists {}

/// The value of the guard's list register: active, so that it is never signalled, and with an id that no
/// guest's interrupt has.
const GUARD: GichLr = GichLr::new()
    .with_virtual_id(1019)
    .with_priority(0x1f)
    .with_state(LrState::Active);

impl GichLists {
    /// # Safety
    /// `registers` are a GICv2's GICH, mapped as device memory for ever, and no other code
    /// of this CPU drives them meanwhile; `distributor` is its GICD, in which no other code
    /// turns `maintenance` on or off.
    pub(crate) unsafe fn new(
        registers: NonNull<Gich>,
        distributor: NonNull<Gicd>,
        maintenance: IntId,
    ) -> Self {
        let mut this = Self {
            registers,
            distributor,
            count: 0,
            maintenance: (maintenance.get() % 32) as u8,
        };
        // All list registers but the last. A list register that does not exist ignores the guard.
        this.count = this.vtr().lists().clamp(1, MAX_LISTS - 1) as u8;
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

    /// Puts the guard in its list register. A guest can remove it by ending an interrupt that it never
    /// acknowledged, so it is put there at each turn of a vCPU, and the removal harms that vCPU alone.
    fn set_guard(&mut self) {
        let mut block = self.block();
        if let Some(mut register) = field!(block, lr).get(self.count.into()) {
            register.write(GUARD.into_bits());
        }
    }

    /// Enables or disables the maintenance interrupt for this CPU in the distributor.
    fn enable_maintenance(&mut self, on: bool) {
        // SAFETY: the frame is mapped for ever; the word of private interrupts is banked, and a
        // zero in it changes nothing.
        let mut distributor = unsafe { UniqueMmioPointer::new(self.distributor) };
        let mut words = if on {
            field!(distributor, isenabler)
        } else {
            field!(distributor, icenabler)
        };
        if let Some(mut word) = words.get(0) {
            word.write(1 << self.maintenance);
        }
    }

    /// Empties all list registers, resets the active priorities and the guest's settings of its CPU
    /// interface, and disables the virtual interface and the maintenance interrupt.
    pub fn reset(&mut self) {
        self.enable_maintenance(false);
        self.set_hcr(Hcr::new().with_underflow(true));
        (0..self.count()).for_each(|index| self.write(index, 0));
        self.set_guard();
        self.set_active_priorities(0);
        self.set_vmcr(0);
    }

    /// Enables or disables the virtual interface, which then signals interrupts or does not. The guest's
    /// accesses to it work in both cases.
    pub fn enable(&mut self, on: bool) {
        self.set_hcr(self.hcr().with_enable(on));
        if on {
            self.set_guard();
        }
    }

    /// The number of bits of priority of the virtual interface (GICH_VTR.PRIbits), which is 5.
    pub fn priority_bits(&self) -> u32 {
        self.vtr().priority_bits() + 1
    }

    /// The guest's settings of its CPU interface (GICH_VMCR).
    #[inline]
    pub fn vmcr(&self) -> u32 {
        field_shared!(self.block(), vmcr).read()
    }

    /// Restores the answer of [`Self::vmcr`].
    #[inline]
    pub fn set_vmcr(&mut self, value: u32) {
        let mut block = self.block();
        field!(block, vmcr).write(value);
    }

    /// The priorities of the interrupts that are active (GICH_APR), a bit each.
    #[inline]
    pub fn active_priorities(&self) -> u32 {
        field_shared!(self.block(), apr).read()
    }

    /// Restores the answer of [`Self::active_priorities`].
    #[inline]
    pub fn set_active_priorities(&mut self, value: u32) {
        let mut block = self.block();
        field!(block, apr).write(value);
    }
}

impl GuestInterface for GichLists {}

impl ListRegisters for GichLists {
    #[inline(always)]
    fn count(&self) -> usize {
        self.count.into()
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

    /// GICH_EISR0 has the meaning of ICH_EISR_EL2.
    #[inline(always)]
    fn ended(&self) -> u32 {
        field_shared!(self.block(), eisr).read()
    }

    fn set_none_pending_interrupt(&mut self, on: bool) {
        self.set_hcr(self.hcr().with_none_pending(on));
    }

    /// While reports are disabled, the underflow interrupt is raised for the guard.
    fn report_ends(&mut self, on: bool) {
        if !on {
            self.enable_maintenance(false);
        }
        self.set_hcr(self.hcr().with_underflow(!on));
        if on {
            self.enable_maintenance(true);
        }
    }
}
