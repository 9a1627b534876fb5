//! The board's GICv2: distributor, CPU interface, and the virtual interface's list registers, if it has them
//! (IHI 0048B).
//!
//! One group and one priority, as in `gicv3.rs`. A GIC without security extensions has group 0 alone. One
//! with them shows group 1 to the Non-secure state where the other has group 0, so that the same writes
//! serve both. The firmware decides which interrupts are Non-secure.
//!
//! EOImode is set: the end of an interrupt drops only its priority, so that a guest can deactivate an
//! interrupt that was handed on to it. A GICv1 does both at once (`joint`).

#[cfg(target_arch = "arm")]
mod joint;

use crate::GicError;
use crate::gich::{Gich, GichLists};
use arm_gic::gicv2::registers::{Gicc, Gicd, GicdCtlr};
use arm_gic::{IntId as GicIntId, Trigger, gicv2::GicV2};
use bitfield_struct::bitfield;
use core::ptr::NonNull;
use hanok_types::{Hva, IntId};
use safe_mmio::fields::{ReadPureWrite, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

/// Every interrupt's priority, in each byte.
const PRIORITIES: u32 = 0xa0a0_a0a0;
/// Words of 32 private interrupts.
const PRIVATE_WORDS: usize = 1;

/// GICC_CTLR, the Non-secure copy or the one without security extensions (IHI 0048B, 4.4.1).
#[bitfield(u32)]
struct CpuControl {
    enable: bool,
    __: u8,
    /// EOImodeNS.
    split: bool,
    #[bits(22)]
    __: u32,
}

/// The distributor, and the CPU interface. Registers that are banked are those of the CPU that accesses
/// them, so all CPUs may use the same value.
#[derive(Clone, Copy, Debug)]
pub struct HostGicV2 {
    distributor: NonNull<Gicd>,
    cpu: NonNull<Gicc>,
    lists: Option<GichLists>,
    /// Whether the CPU interface is a GICv1's, which drops the priority and deactivates at once.
    #[cfg(target_arch = "arm")]
    joint: bool,
}

// SAFETY: the CPU interface and what of the distributor is private are banked by CPU; what of the
// distributor is shared is written by registers that set or clear single bits, or are a byte of one
// interrupt's own, which the GIC takes from any CPU (IHI 0048B, 4.1.4); fields of several interrupts
// (GICD_ICFGR) are set while one CPU runs alone.
unsafe impl Sync for HostGicV2 {}

impl HostGicV2 {
    /// The GICv2 whose GICD and GICC lie at these addresses. `virtualization` is its GICH, if it is used,
    /// with its maintenance interrupt, which its list registers turn on and off.
    ///
    /// # Safety
    /// They are a GICv2's, of 4 KiB, 8 KiB and 4 KiB, or a GICv1's, of 4 KiB and 256 bytes, mapped as device
    /// memory for ever, and no other code drives them.
    pub unsafe fn new(
        distributor: Hva,
        cpu: Hva,
        virtualization: Option<(Hva, IntId)>,
    ) -> Result<Self, GicError> {
        let distributor = block(distributor)?;
        let cpu = block(cpu)?;
        let lists = match virtualization {
            Some((control, maintenance)) => {
                let control = block::<Gich>(control)?;
                // SAFETY: the caller's word.
                Some(unsafe { GichLists::new(control, distributor, maintenance) })
            }
            None => None,
        };
        Ok(Self {
            distributor,
            cpu,
            lists,
            #[cfg(target_arch = "arm")]
            joint: joint::is_joint(cpu),
        })
    }

    #[inline(always)]
    fn distributor(&self) -> UniqueMmioPointer<'_, Gicd> {
        // SAFETY: the frame is mapped. Several CPUs may reach it, but each write after start
        // stands alone, being of one interrupt's bit or byte, or is of this CPU's bank.
        unsafe { UniqueMmioPointer::new(self.distributor) }
    }

    #[inline(always)]
    fn cpu(&self) -> UniqueMmioPointer<'_, Gicc> {
        // SAFETY: the frame is mapped, banked, and driven by this CPU alone.
        unsafe { UniqueMmioPointer::new(self.cpu) }
    }

    fn library(&self) -> GicV2<'_> {
        // SAFETY: as `Self::distributor` and `Self::cpu`.
        unsafe { GicV2::new(self.distributor.as_ptr(), self.cpu.as_ptr()) }
    }

    /// GICD_ITARGETSR, which takes bytes (IHI 0048B, 4.3.12).
    fn targets(&self) -> UniqueMmioPointer<'_, [ReadPureWrite<u8>; 1024]> {
        let mut distributor = self.distributor();
        let targets = field!(distributor, itargetsr).ptr_nonnull().cast();
        // SAFETY: the same bytes of the same mapped frame.
        unsafe { UniqueMmioPointer::new(targets) }
    }

    /// Sets the distributor up, once: all SPIs are disabled, level-sensitive, of equal priority, and go to
    /// no CPU.
    pub fn init_distributor(&self) {
        let mut distributor = self.distributor();
        field!(distributor, ctlr).write(GicdCtlr::empty());
        let interrupts = field_shared!(distributor, typer).read().num_irqs() as usize;
        for word in PRIVATE_WORDS..interrupts / 32 {
            self.reset_word(word);
            for index in word * 2..word * 2 + 2 {
                if let Some(mut config) = field!(distributor, icfgr).get(index) {
                    config.write(0);
                }
            }
            for id in word * 32..word * 32 + 32 {
                if let Some(mut targets) = self.targets().get(id) {
                    targets.write(0);
                }
            }
        }
        // Bit 0: group 0, or group 1 as the Non-secure state sees it.
        field!(distributor, ctlr).write(GicdCtlr::EnableGrp0);
    }

    /// Sets this CPU's part up: private interrupts are disabled and of equal priority, the CPU interface is
    /// enabled for every priority, and the virtual interface is disabled.
    pub fn init_cpu(&self) {
        self.reset_word(0);
        let mut cpu = self.cpu();
        field!(cpu, pmr).write(0xff);
        let control = CpuControl::new().with_enable(true).with_split(true);
        #[cfg(target_arch = "arm")]
        let control = control.with_split(!self.joint);
        field!(cpu, ctlr).write(control.into_bits());
        if let Some(mut lists) = self.lists {
            lists.reset();
        }
    }

    /// Makes interrupts disabled, not pending, not active, of the group and the priority that all have.
    fn reset_word(&self, word: usize) {
        let mut distributor = self.distributor();
        let clear = |mut register: UniqueMmioPointer<'_, [ReadPureWrite<u32>; 32]>, value| {
            if let Some(mut register) = register.get(word) {
                register.write(value);
            }
        };
        clear(field!(distributor, icenabler), u32::MAX);
        clear(field!(distributor, icpendr), u32::MAX);
        clear(field!(distributor, icactiver), u32::MAX);
        // The register reads as zero and ignores writes if the Non-secure state must not set it.
        clear(field!(distributor, igroupr), 0);
        for index in word * 8..word * 8 + 8 {
            if let Some(mut priorities) = field!(distributor, ipriorityr).get(index) {
                priorities.write(PRIORITIES);
            }
        }
    }

    /// This CPU's bit in targets of SPIs and SGIs: read from the targets of its private
    /// interrupts, of which some may not be there. A GIC for one CPU has none.
    pub fn cpu_mask(&self) -> u8 {
        let mut targets = self.targets();
        let found = (0..32).filter_map(|id| targets.get(id).map(|byte| byte.read()));
        match found.fold(0, |all, byte| all | byte) {
            0 => 1,
            mask => mask,
        }
    }

    /// Takes the pending interrupt of the highest priority: GICC_IAR as it is read, with the id
    /// in bits 9:0 and an SGI's sender above; a special id, from 1020 on, where there is none.
    #[inline(always)]
    pub fn acknowledge(&self) -> u32 {
        let mut cpu = self.cpu();
        field!(cpu, iar).read()
    }

    /// The id of the pending interrupt of the highest priority, which stays pending: GICC_HPPIR (IHI 0048B, 4.4.6); a special
    /// id, from 1020 on, where there is none.
    pub fn pending(&self) -> u32 {
        let mut cpu = self.cpu();
        let register = field!(cpu, hppir)
            .ptr_nonnull()
            .cast::<safe_mmio::fields::ReadPure<u32>>();
        // SAFETY: the same register of the same mapped frame.
        unsafe { UniqueMmioPointer::new(register) }.read() & 0x3ff
    }

    /// Drops the priority of the interrupt that [`Self::acknowledge`] gave.
    #[inline(always)]
    pub fn drop_priority(&self, raw: u32) {
        let mut cpu = self.cpu();
        field!(cpu, eoir).write(raw);
    }

    /// Deactivates the interrupt that [`Self::acknowledge`] gave, or one with this id, so that it can fire
    /// again.
    #[inline(always)]
    pub fn deactivate(&self, raw: u32) {
        let mut cpu = self.cpu();
        let register = field!(cpu, dir).ptr_nonnull().cast::<WriteOnly<u32>>();
        // SAFETY: the same register of the same mapped frame.
        unsafe { UniqueMmioPointer::new(register) }.write(raw);
    }

    /// Sends SGI `id` to the CPUs of `targets`, a bit each as in [`Self::cpu_mask`]. They see the stores
    /// that the caller made visible before by a barrier (DSB).
    #[inline(always)]
    pub fn send_sgi(&self, id: IntId, targets: u8) {
        let value = u32::from(targets) << 16 | id.get() & 0xf;
        let mut distributor = self.distributor();
        field!(distributor, sgir).write(value);
    }

    /// Sends SGI `id` to all CPUs but this one, without their bits.
    pub fn send_sgi_to_others(&self, id: IntId) {
        const ALL_BUT_THIS: u32 = 1 << 24;
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
        let mut distributor = self.distributor();
        field!(distributor, sgir).write(ALL_BUT_THIS | id.get() & 0xf);
    }

    /// Lets an interrupt through, or not. A private one: this CPU's.
    pub fn enable(&self, interrupt: IntId, on: bool) {
        let mut distributor = self.distributor();
        if on {
            set_bit(field!(distributor, isenabler), interrupt)
        } else {
            set_bit(field!(distributor, icenabler), interrupt)
        }
    }

    /// Sends an SPI to one of the CPUs of `targets`; ignored for a private interrupt.
    pub fn route(&self, interrupt: IntId, targets: u8) {
        if !interrupt.is_private()
            && let Some(mut byte) = self.targets().get(interrupt.get() as usize)
        {
            byte.write(targets);
        }
    }

    /// Makes an interrupt active, or not. A private one: this CPU's.
    #[inline]
    pub fn set_active(&self, interrupt: IntId, active: bool) {
        #[cfg(target_arch = "arm")]
        if self.joint {
            return self.hold(interrupt.get(), active);
        }
        let mut distributor = self.distributor();
        if active {
            set_bit(field!(distributor, isactiver), interrupt)
        } else {
            set_bit(field!(distributor, icactiver), interrupt)
        }
    }

    /// Clears an SPI's pending state (GICD_ICPENDR).
    pub fn clear_pending(&self, interrupt: IntId) {
        let mut distributor = self.distributor();
        if !interrupt.is_private() {
            set_bit(field!(distributor, icpendr), interrupt);
        }
    }

    /// Makes an interrupt edge-triggered, or level. It must be off, and no other CPU may
    /// change a trigger meanwhile: 16 interrupts share a register.
    pub fn set_edge(&self, interrupt: IntId, edge: bool) {
        if let Ok(id) = GicIntId::try_from(interrupt.get()) {
            let trigger = if edge { Trigger::Edge } else { Trigger::Level };
            self.library().set_trigger(id, trigger);
        }
    }

    /// This CPU's list registers, if they are used.
    pub fn lists(&self) -> Option<GichLists> {
        self.lists
    }
}

fn block<T>(address: Hva) -> Result<NonNull<T>, GicError> {
    NonNull::new(address.get() as *mut T)
        .filter(|block| block.is_aligned())
        .ok_or(GicError::BadAddress)
}

/// Writes one to an interrupt's bit of a register in which zeros have no effect.
#[inline(always)]
fn set_bit(mut register: UniqueMmioPointer<'_, [ReadPureWrite<u32>; 32]>, interrupt: IntId) {
    let (word, bit) = (interrupt.get() / 32, interrupt.get() % 32);
    if let Some(mut word) = register.get(word as usize) {
        word.write(1 << bit);
    }
}
