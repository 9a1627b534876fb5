//! The virtual platform that every VM sees: the addresses and interrupts of its devices, as on
//! `qemu-system-aarch64 -M virt` (QEMU 10), whatever the real board has.

use crate::{IntId, Ipa};

/// Two banks of flash, 64 MiB each, for a firmware and its variables; what is not in use reads as erased.
pub const FLASH: Ipa = Ipa::new(0);
/// Bytes of both banks.
pub const FLASH_SIZE: u64 = 0x0800_0000;
/// The interrupt controller's distributor.
pub const GIC_DIST: Ipa = Ipa::new(0x0800_0000);
/// Bytes of the distributor.
pub const GIC_DIST_SIZE: u64 = 0x1_0000;
/// Bytes of a GICv2's distributor that answer; it begins where a GICv3's does.
pub const GIC_V2_DIST_SIZE: u64 = 0x1000;
/// The size that the device tree gives for a GICv2's distributor, and for its CPU interface. Only a
/// part of that answers. Some kernels map or require all 64 KiB; nothing is behind the part that
/// answers, as on QEMU.
pub const GIC_V2_FRAME_SIZE: u64 = 0x1_0000;
/// A GICv2's CPU interface.
pub const GIC_V2_CPU: Ipa = Ipa::new(0x0801_0000);
/// Bytes of a GICv2's CPU interface that answer: two pages, the second one for GICC_DIR.
pub const GIC_V2_CPU_SIZE: u64 = 0x2000;
/// GICv3 redistributors, two 64 KiB frames a vCPU.
pub const GIC_REDIST: Ipa = Ipa::new(0x080a_0000);
/// Bytes of one vCPU's redistributor: RD_base and SGI_base.
pub const GIC_REDIST_STRIDE: u64 = 0x2_0000;
/// The PL011 serial port.
pub const UART: Ipa = Ipa::new(0x0900_0000);
/// The PL011's interrupt, triggered by level.
pub const UART_IRQ: IntId = IntId::spi(1);
/// The PL031 real-time clock.
pub const RTC: Ipa = Ipa::new(0x0901_0000);
/// The PL031's interrupt, triggered by level.
pub const RTC_IRQ: IntId = IntId::spi(2);
/// The configuration that a firmware asks for.
pub const FW_CFG: Ipa = Ipa::new(0x0902_0000);
/// Bytes of its registers: data and selector. QEMU has one more, at which the device writes to memory.
pub const FW_CFG_SIZE: u64 = 0x10;
/// Bytes of a PrimeCell's register frame.
pub const PRIMECELL_SIZE: u64 = 0x1000;
/// The page that tells 64-bit guests the time that was stolen from their vCPUs (DEN0057A): where QEMU has it
/// under KVM.
pub const STOLEN: Ipa = Ipa::new(0x090a_0000);
/// The first virtio-mmio transport.
pub const VIRTIO: Ipa = Ipa::new(0x0a00_0000);
/// Bytes from one virtio-mmio transport to the next.
pub const VIRTIO_STRIDE: u64 = 0x200;
/// The number of virtio-mmio transports.
pub const VIRTIO_SLOTS: u64 = 32;
/// The interrupt of the first transport, triggered by edge; the others follow.
pub const VIRTIO_IRQ: IntId = IntId::spi(16);
/// The registers of a driver VM's first back end; the others follow. QEMU's `virt` has nothing there.
pub const BACK_END: Ipa = Ipa::new(0x0b10_0000);
/// Bytes of one back end's registers, which have a page of their own, so that a program can be given them alone.
pub const BACK_END_SIZE: u64 = 0x1000;
/// The number of back ends that a driver VM can have.
pub const BACK_ENDS: u64 = 16;
/// The interrupt of the first back end, triggered by level; the others follow.
pub const BACK_END_IRQ: IntId = IntId::spi(192);
/// The registers of the first channel between VMs; the others follow, a page each. QEMU's `virt` has nothing there.
pub const CHANNEL: Ipa = Ipa::new(0x0b00_0000);
/// The number of channels that a system can have.
pub const CHANNELS: usize = 64;
/// The interrupt of the first channel, triggered by level; the others follow. QEMU's `virt` has these for MSIs, if it has a
/// GICv2m.
pub const CHANNEL_IRQ: IntId = IntId::spi(48);
/// The start of the window for the channels' memory: on QEMU's `virt` that of PCIe, of which a VM has none.
pub const CHANNEL_MEMORY: Ipa = Ipa::new(0x2000_0000);
/// Bytes of that window.
pub const CHANNEL_MEMORY_SIZE: u64 = 0x1000_0000;
/// The start of the area for registers of real devices that VMs have for themselves, each at pages
/// of its own: the platform bus of QEMU's `virt`.
pub const PASS_THROUGH: Ipa = Ipa::new(0x0c00_0000);
/// Bytes of that area.
pub const PASS_THROUGH_SIZE: u64 = 0x0200_0000;
/// The first interrupt for real devices that VMs have for themselves; the others follow.
pub const PASS_THROUGH_IRQ: IntId = IntId::spi(112);
/// The number of these interrupts.
pub const PASS_THROUGH_IRQS: u32 = 64;
/// RAM.
pub const RAM: Ipa = Ipa::new(0x4000_0000);
/// The number of SPIs that the interrupt controller has.
pub const SPIS: u32 = 256;

/// The secure physical timer, which the tree describes and which never interrupts.
pub const TIMER_SECURE_IRQ: IntId = IntId::ppi(13);
/// EL1 physical timer.
pub const TIMER_PHYSICAL_IRQ: IntId = IntId::ppi(14);
/// EL1 virtual timer.
pub const TIMER_VIRTUAL_IRQ: IntId = IntId::ppi(11);
/// The EL2 physical timer, which the tree describes and which never interrupts.
pub const TIMER_HYP_IRQ: IntId = IntId::ppi(10);
