//! Checks the registers that a tree names: a device must have as many bytes as the hypervisor reads
//! and writes, at an aligned address. An access to missing registers faults, and so does an
//! unaligned access to a device's registers.

use super::{BoardError, BoardTree, Enable, Gic, SerialKind};
use hanok_types::{Address, Hpa, Span};

/// The size and alignment of a frame of a GICv3 in bytes (IHI 0069H, 12.1).
const GIC_V3_FRAME: u64 = 0x1_0000;
/// The size and alignment of a frame of a GICv2 (IHI 0048B, 4.1.1), and the least size of its
/// parts.
const GIC_V2_FRAME: u64 = 0x1000;
/// The size and alignment of a CPU interface of a GICv1, as the Cortex-A9's (DDI 0407, 1.5), which lacks what a
/// GICv2 has in the second page. The hypervisor asks the interface for its version.
const GIC_V1_CPU: u64 = 0x100;
/// The bytes that are used of a PL011 (DDI 0183G, 3.2: up to UARTICR), and the alignment of such
/// ports.
const PL011: (u64, u64) = (0x48, 0x100);
/// The bytes that are used of a 16550 (up to its line status), and the alignment of such ports.
#[cfg(feature = "allwinner")]
const NS16550: (u64, u64) = (0x18, 0x100);
/// The bytes that are used of an Allwinner A10's interrupt controller (up to its masks), and its alignment.
#[cfg(feature = "allwinner")]
const ALLWINNER: (u64, u64) = (0x5c, 0x400);
/// The bytes that are used of a PL031 (DDI 0224C, 3.2: RTCDR), and their alignment.
const PL031: (u64, u64) = (4, 4);

impl BoardTree<'_> {
    /// Checks all registers that the hypervisor will use.
    pub(super) fn check_registers(&self) -> Result<(), BoardError> {
        match &self.gic {
            Gic::V3 {
                distributor,
                redistributors,
                ..
            } => {
                check("GICD", distributor, (GIC_V3_FRAME, GIC_V3_FRAME))?;
                for region in redistributors {
                    check("GICR", region, (2 * GIC_V3_FRAME, GIC_V3_FRAME))?;
                }
            }
            Gic::V2 {
                distributor,
                cpu,
                virtualization,
                ..
            } => {
                check("GICD", distributor, (GIC_V2_FRAME, GIC_V2_FRAME))?;
                let least = match virtualization {
                    Some(_) => GIC_V2_FRAME,
                    None => GIC_V1_CPU,
                };
                check("GICC", cpu, (least, least))?;
                if let Some((control, guest)) = virtualization {
                    check("GICH", control, (GIC_V2_FRAME, GIC_V2_FRAME))?;
                    check("GICV", guest, (GIC_V2_FRAME, GIC_V2_FRAME))?;
                }
            }
            #[cfg(feature = "allwinner")]
            Gic::Allwinner(registers) => check("the interrupt controller", registers, ALLWINNER)?,
        }
        if let Some(console) = &self.console {
            let needed = match console.kind {
                SerialKind::Pl011 => PL011,
                #[cfg(feature = "allwinner")]
                SerialKind::Ns16550 => NS16550,
            };
            check("the serial port", &console.registers, needed)?;
        }
        if let Some(clock) = &self.rtc {
            check("the clock", clock, PL031)?;
        }
        let releases = self.cpus.iter().map(|cpu| match cpu.enable {
            Enable::SpinTable(at) => at.is_aligned(8),
            Enable::SystemFlags(at) => at.is_aligned(4),
            Enable::Psci | Enable::Unknown => true,
        });
        if releases.into_iter().all(|sound| sound) {
            Ok(())
        } else {
            Err(BoardError::Cpu)
        }
    }
}

/// Checks that `span` has the size and alignment of `needed`.
fn check(name: &'static str, span: &Span<Hpa>, needed: (u64, u64)) -> Result<(), BoardError> {
    let (bytes, align) = needed;
    if span.len() >= bytes && span.start().is_aligned(align) {
        Ok(())
    } else {
        Err(BoardError::Registers {
            name,
            at: span.start(),
            len: span.len(),
        })
    }
}
