//! A GICv1, as of the Cortex-A9: the end of an interrupt drops its priority and deactivates it at once.
//!
//! An SPI that is not deactivated yet has the lowest priority instead, which no CPU interface lets through: it
//! stands for "active", and leaves "enabled" to who has another reason to change it. (To disable the interrupt
//! would be undone by who enables it meanwhile.)

use super::{HostGicV2, PRIORITIES};
use arm_gic::gicv2::registers::Gicc;
use core::ptr::NonNull;
use safe_mmio::fields::{ReadPure, ReadPureWrite};
use safe_mmio::{UniqueMmioPointer, field};

/// The lowest priority, whatever the number of bits that the GIC has: it never passes the priority mask.
const NEVER: u8 = 0xff;
/// The first SPI.
const SPIS: u32 = 32;
/// The interrupt's id in GICC_IAR (IHI 0048B, 4.4.4).
const ID: u32 = 0x3ff;

/// Whether this is a GICv1's CPU interface, by GICC_IIDR.Architecture_version (IHI 0048B, "GICC_IIDR").
pub(super) fn is_joint(cpu: NonNull<Gicc>) -> bool {
    // SAFETY: the caller of `HostGicV2::new` says that the frame is mapped, and has no other user yet.
    let mut cpu = unsafe { UniqueMmioPointer::new(cpu) };
    let register = field!(cpu, iidr).ptr_nonnull().cast::<ReadPure<u32>>();
    // SAFETY: the same register of the same mapped frame.
    let register = unsafe { UniqueMmioPointer::new(register) };
    register.read() >> 16 & 0xf == 1
}

impl HostGicV2 {
    /// Whether this is a GICv1. Its CPU interface has 256 bytes.
    #[inline(always)]
    pub fn is_joint(&self) -> bool {
        self.joint
    }

    /// Keeps an SPI that has ended from coming again, or lets it come again. `raw` is as
    /// [`Self::acknowledge`] gave it. Private interrupts are the hypervisor's own: it runs with interrupts masked
    /// until it has served them.
    pub fn hold(&self, raw: u32, on: bool) {
        let id = raw & ID;
        if id < SPIS {
            return;
        }
        let mut distributor = self.distributor();
        let priorities = field!(distributor, ipriorityr).ptr_nonnull();
        // SAFETY: the same bytes of the same mapped frame, which takes bytes (IHI 0048B, 4.3.11).
        let mut priorities: UniqueMmioPointer<'_, [ReadPureWrite<u8>; 1024]> =
            unsafe { UniqueMmioPointer::new(priorities.cast()) };
        if let Some(mut byte) = priorities.get(id as usize) {
            byte.write(if on { NEVER } else { PRIORITIES as u8 });
        }
    }
}
