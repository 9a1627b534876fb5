//! The board's GICv3: distributor and redistributors.
//!
//! One security state, all interrupts in group 1, one priority: the hypervisor runs with
//! interrupts masked, so none of its interrupts ever preempts another.

use arm_gic::Trigger;
use arm_gic::gicv3::registers::{Gicd, GicrSgi};
use arm_gic::gicv3::{GicDistributor, GicRedistributor};
use core::fmt;
use core::ptr::NonNull;
use hanok_types::{Hva, IntId};
use safe_mmio::fields::ReadPureWrite;
use safe_mmio::{UniqueMmioPointer, field};

/// The redistributor for a CPU was not found, or does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GicError {
    /// No frame of the region names this affinity.
    NoRedistributor {
        /// MPIDR_EL1 of the CPU.
        mpidr: u64,
    },
    /// An address of the device tree is zero or not aligned.
    BadAddress,
}

impl fmt::Display for GicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRedistributor { mpidr } => {
                write!(
                    f,
                    "no GICv3 redistributor for the CPU with affinity {mpidr:#x}"
                )
            }
            Self::BadAddress => f.write_str("the GIC's address in the device tree is not usable"),
        }
    }
}

/// The distributor and one CPU's redistributor.
#[derive(Clone, Copy, Debug)]
pub struct HostGicV3 {
    distributor: NonNull<Gicd>,
    redistributor: NonNull<GicrSgi>,
}

/// MPIDR_EL1's affinity fields: Aff3, Aff2, Aff1, Aff0.
const AFFINITY: u64 = 0xff_00ff_ffff;

impl HostGicV3 {
    /// Finds the redistributor of the CPU with `mpidr` among the frames of `redistributors`
    /// (start and length in bytes of each region): each is `stride` bytes behind the one before,
    /// or else two frames or, with virtual LPIs, four (IHI 0069H, 12.10); the last one of a region
    /// says so (GICR_TYPER.Last).
    ///
    /// # Safety
    /// `distributor` and the regions are those of a GICv3, mapped as device memory for ever,
    /// and no other code drives this CPU's redistributor.
    pub unsafe fn find(
        distributor: Hva,
        redistributors: &[(Hva, u64)],
        stride: Option<u64>,
        mpidr: u64,
    ) -> Result<Self, GicError> {
        let distributor =
            NonNull::new(distributor.get() as *mut Gicd).ok_or(GicError::BadAddress)?;
        const TWO_FRAMES: u64 = size_of::<GicrSgi>() as u64;
        for (start, len) in redistributors {
            let mut offset = 0;
            while offset + TWO_FRAMES <= *len {
                let at = start.get() + offset;
                let redistributor = NonNull::new(at as *mut GicrSgi).ok_or(GicError::BadAddress)?;
                let found = Self {
                    distributor,
                    redistributor,
                };
                let typer = found.with_redistributor(|gic| gic.typer());
                if typer.core_mpidr() == mpidr & AFFINITY {
                    return Ok(found);
                }
                // There may be nothing after the last one, although the region is longer.
                if typer.last_redistributor() {
                    break;
                }
                let frames = if typer.virtual_lpis_supported() { 2 } else { 1 };
                offset += stride.unwrap_or(frames * TWO_FRAMES);
            }
        }
        Err(GicError::NoRedistributor { mpidr })
    }

    fn with_redistributor<R>(&self, act: impl FnOnce(&mut GicRedistributor<'_>) -> R) -> R {
        // SAFETY: the frame is mapped, and driven by this CPU alone, one call at a time.
        act(&mut GicRedistributor::new(unsafe {
            UniqueMmioPointer::new(self.redistributor)
        }))
    }

    fn with_distributor<R>(&self, act: impl FnOnce(&mut GicDistributor<'_>) -> R) -> R {
        // SAFETY: the frame is mapped. Several CPUs may reach it, but what is written after
        // start are set-enable and clear-enable registers, of which each write stands alone.
        act(&mut GicDistributor::new(unsafe {
            UniqueMmioPointer::new(self.distributor)
        }))
    }

    /// Sets the distributor up, once: affinity routing is enabled, and all SPIs are in group 1, disabled
    /// and level-sensitive.
    pub fn init_distributor(&self) {
        self.with_distributor(|gic| {
            gic.enable_all_interrupts(false);
            gic.configure_default_settings();
        });
    }

    /// Wakes this CPU's redistributor, whose SGIs and PPIs are then in group 1 and disabled.
    pub fn init_redistributor(&self) {
        self.with_redistributor(|gic| {
            // An error means that it was awake already.
            let _ = gic.mark_core_awake();
            gic.configure_default_settings();
        });
    }

    /// Lets an interrupt through, or not. A private one: this CPU's.
    pub fn enable(&self, interrupt: IntId, on: bool) {
        let Ok(id) = arm_gic::IntId::try_from(interrupt.get()) else {
            return;
        };
        // The id's kind chooses the right block, so no call can fail.
        let _ = if interrupt.is_private() {
            self.with_redistributor(|gic| gic.enable_interrupt(id, on))
        } else {
            self.with_distributor(|gic| gic.enable_interrupt(id, on))
        };
    }

    /// Sends an SPI to the CPU with `mpidr`.
    pub fn route(&self, interrupt: IntId, mpidr: u64) {
        let Ok(id) = arm_gic::IntId::try_from(interrupt.get()) else {
            return;
        };
        let _ = self.with_distributor(|gic| gic.set_routing(id, Some(mpidr & AFFINITY)));
    }

    /// Makes an interrupt active without its having fired, so that it does not fire until it
    /// is deactivated; or takes that back. A private one: this CPU's.
    #[inline]
    pub fn set_active(&self, interrupt: IntId, active: bool) {
        let (word, bit) = ((interrupt.get() / 32) as usize, interrupt.get() % 32);
        let set = |mut register: UniqueMmioPointer<'_, [ReadPureWrite<u32>]>| {
            if let Some(mut register) = register.get(word) {
                register.write(1 << bit);
            }
        };
        if interrupt.is_private() {
            // SAFETY: the frame is mapped, and driven by this CPU alone, one call at a time.
            let mut frame = unsafe { UniqueMmioPointer::new(self.redistributor) };
            let mut frame = field!(frame, sgi);
            if active {
                set(field!(frame, isactiver).into())
            } else {
                set(field!(frame, icactiver).into())
            }
        } else {
            // SAFETY: the frame is mapped, and a write changes what it has a one for.
            let mut frame = unsafe { UniqueMmioPointer::new(self.distributor) };
            if active {
                set(field!(frame, isactiver).into())
            } else {
                set(field!(frame, icactiver).into())
            }
        }
    }

    /// Clears an SPI's pending state (GICD_ICPENDR).
    pub fn clear_pending(&self, interrupt: IntId) {
        let (word, bit) = ((interrupt.get() / 32) as usize, interrupt.get() % 32);
        // SAFETY: the frame is mapped, and a write changes what it has a one for.
        let mut frame = unsafe { UniqueMmioPointer::new(self.distributor) };
        let mut registers: UniqueMmioPointer<'_, [ReadPureWrite<u32>]> =
            field!(frame, icpendr).into();
        if let Some(mut register) = registers.get(word).filter(|_| !interrupt.is_private()) {
            register.write(1 << bit);
        }
    }

    /// Makes an interrupt edge-triggered, or level. It must be off, and no other CPU may
    /// change an SPI's trigger meanwhile: 16 interrupts share a register.
    pub fn set_edge(&self, interrupt: IntId, edge: bool) {
        let Ok(id) = arm_gic::IntId::try_from(interrupt.get()) else {
            return;
        };
        let trigger = if edge { Trigger::Edge } else { Trigger::Level };
        let _ = if interrupt.is_private() {
            self.with_redistributor(|gic| gic.set_trigger(id, trigger))
        } else {
            self.with_distributor(|gic| gic.set_trigger(id, trigger))
        };
    }
}
