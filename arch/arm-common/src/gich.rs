//! A GICv2's virtual interface control registers (IHI 0048B, chapter 5.3, GICH_*): the list
//! registers of this CPU, in memory.
//!
//! The core speaks the format of GICv3's list registers, and translates it.
//!
//! # The guard
//!
//! QEMU's GICv2 (10.0) does not look at its physical interrupts again when a guest ends a virtual
//! one that is tied to one of them (HW = 1), so that a level that is high by then is lost; the
//! architecture has it pending at once (IHI 0048B, 3.2.4, and GICH_LR<n>.HW). QEMU does look whenever
//! one of the GIC's inputs changes, and the maintenance interrupt is such an input, enabled or not.
//! So the last list register holds an active interrupt that is never ended, the guard, and the underflow
//! interrupt is raised, but not enabled in the distributor: where one other list register is in use, its end is an
//! underflow, the line rises, and the GIC looks. With three in use nothing would change at an end,
//! which is why the core ties a virtual interrupt to a physical one only where it stands alone,
//! and has its end reported otherwise. A GIC that follows the architecture loses nothing by this
//! but a list register.

use arm_gic::gicv2::registers::Gicd;
use bitfield_struct::bitfield;
use core::ptr::NonNull;
use hanok_hal::ListRegisters;
use hanok_types::IntId;
use hanok_vgic::{GichLr, Lr, LrState};
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

/// As many as the core uses; the architecture has up to 64, the GIC-400 has 4.
const MAX_LISTS: usize = 16;

/// GICH_HCR; the maintenance interrupts that are not used are left out.
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

/// The list registers of the CPU that holds it: the block is banked.
#[derive(Clone, Copy, Debug)]
pub struct GichLists {
    registers: NonNull<Gich>,
    distributor: NonNull<Gicd>,
    /// Those that the core uses; the guard stands in the next one.
    count: u8,
    /// The maintenance interrupt, a private one.
    maintenance: u8,
}

// SAFETY: the block is banked by CPU, and so is the maintenance interrupt's enable.
unsafe impl Sync for GichLists {}

/// What stands in the guard's list register: active, so that it is never signalled, and of an id
/// that no guest's interrupt has.
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
        // All but the last of them. One that is not there ignores the guard.
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

    /// Puts the guard in its place, from where a guest can take it by ending an interrupt that
    /// it was never given: at each turn of a vCPU, so that this harms none but itself.
    fn set_guard(&mut self) {
        let mut block = self.block();
        if let Some(mut register) = field!(block, lr).get(self.count.into()) {
            register.write(GUARD.into_bits());
        }
    }

    /// Lets the maintenance interrupt through to this CPU, or not.
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

    /// Empties them all, forgets active priorities and what the guest set in its CPU
    /// interface, and turns the virtual interface and the maintenance interrupt off.
    pub fn reset(&mut self) {
        self.enable_maintenance(false);
        self.set_hcr(Hcr::new().with_underflow(true));
        (0..self.count()).for_each(|index| self.write(index, 0));
        self.set_guard();
        self.set_active_priorities(0);
        self.set_vmcr(0);
    }

    /// Lets the virtual interface signal interrupts, or not; the guest's accesses to it are
    /// the same either way.
    pub fn enable(&mut self, on: bool) {
        self.set_hcr(self.hcr().with_enable(on));
        if on {
            self.set_guard();
        }
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

    /// While they are off, underflow is on for the guard's sake.
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
