//! The board's interrupt controller, by the board's device tree: which registers the hypervisor and
//! each CPU have of it.

use crate::arena::Arena;
use crate::fatal::refuse;
#[cfg(target_arch = "aarch64")]
use hanok_arm_common::HostGicV3;
#[cfg(target_arch = "arm")]
use hanok_arm_common::host_gic::Plain;
use hanok_arm_common::host_gic::{BoardGic, CpuFrames};
use hanok_arm_common::privilege::is_deprivileged;
#[cfg(target_arch = "arm")]
use hanok_arm_common::{AllwinnerInterrupts, SoftwareInterfaces};
use hanok_arm_common::{GicError, HostGicV2};
use hanok_config::{BoardTree, Gic};
use hanok_types::{Address, Hpa, Hva, IntId, PAGE_SIZE, Span, platform};

/// The addresses of the interrupt controller.
#[derive(Clone, Debug)]
pub enum GicFrames {
    #[cfg(target_arch = "aarch64")]
    V3 {
        distributor: Hva,
        redistributors: heapless::Vec<(Hva, u64), 8>,
        stride: Option<u64>,
    },
    V2(HostGicV2),
    #[cfg(target_arch = "arm")]
    Allwinner(AllwinnerInterrupts),
}

impl GicFrames {
    /// What the CPU with this affinity drives; the error says why there is nothing for it.
    pub fn of_cpu(&self, mpidr: u64) -> Result<CpuFrames, GicError> {
        #[cfg(not(target_arch = "aarch64"))]
        let _ = mpidr;
        Ok(match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3 {
                distributor,
                redistributors,
                stride,
            } => {
                // SAFETY: the frames are the board's GICv3, mapped for ever; each CPU drives its own.
                CpuFrames::V3(unsafe {
                    HostGicV3::find(*distributor, redistributors, *stride, mpidr)
                }?)
            }
            Self::V2(gic) => CpuFrames::V2(*gic),
            #[cfg(target_arch = "arm")]
            Self::Allwinner(gic) => CpuFrames::Allwinner(*gic),
        })
    }
}

/// The interrupt controller of this board. The arena has the CPU interfaces in software, where those are
/// used.
pub fn interface(tree: &BoardTree<'_>, arena: &mut Arena) -> BoardGic {
    #[cfg(target_arch = "aarch64")]
    let _ = &arena;
    match &tree.gic {
        #[cfg(target_arch = "aarch64")]
        Gic::V3 { .. } => BoardGic::V3,
        #[cfg(not(target_arch = "aarch64"))]
        Gic::V3 { .. } => no_gicv3(),
        Gic::V2 { .. } => {
            let gic = gicv2(tree);
            match gic.lists() {
                Some(lists) => BoardGic::V2(gic, lists),
                #[cfg(target_arch = "arm")]
                None => in_software(Plain::Gic(gic), arena),
                #[cfg(target_arch = "aarch64")]
                None => no_virtualization(),
            }
        }
        #[cfg(target_arch = "arm")]
        Gic::Allwinner(registers) => in_software(Plain::Allwinner(allwinner(registers)), arena),
    }
}

/// A controller with CPU interfaces in software.
#[cfg(target_arch = "arm")]
fn in_software(gic: Plain, arena: &mut Arena) -> BoardGic {
    match arena.put(SoftwareInterfaces::new()) {
        Some(interfaces) => BoardGic::Software(gic, interfaces),
        None => refuse(format_args!("no memory for the CPU interfaces")),
    }
}

/// An Allwinner A10's interrupt controller.
#[cfg(target_arch = "arm")]
#[inline(never)]
fn allwinner(registers: &Span<Hpa>) -> AllwinnerInterrupts {
    // SAFETY: the board's, mapped for ever, and driven from here alone.
    match unsafe { AllwinnerInterrupts::new(Hva::new(registers.start().get())) } {
        Ok(interrupts) => interrupts,
        Err(error) => refuse(format_args!("{error}")),
    }
}

/// Refuses a GICv3: it needs system registers, which no ARMv7 CPU has.
#[cfg(not(target_arch = "aarch64"))]
fn no_gicv3() -> ! {
    refuse(format_args!(
        "the board's interrupt controller is a GICv3, whose registers a 32-bit hypervisor does \
         not have: give the board a GICv2 (QEMU: -M virt,gic-version=2)"
    ))
}

/// The GIC's maintenance interrupt; if the tree names none, the architecture's number.
pub fn maintenance(tree: &BoardTree<'_>) -> IntId {
    tree.gic.maintenance().unwrap_or(IntId::new(25))
}

/// Refuses a GICv2 that has no virtual CPU interface, which guests of EL2 and Hyp mode use.
fn no_virtualization() -> ! {
    refuse(format_args!(
        "the board's GICv2 has no virtualization extensions (its device tree names no GICH \
         and GICV)"
    ))
}

/// The GICv2 of the tree. A hypervisor at PL1 does not use what it may have for virtual interrupts.
fn gicv2(tree: &BoardTree<'_>) -> HostGicV2 {
    let Gic::V2 {
        distributor,
        cpu,
        virtualization,
        ..
    } = &tree.gic
    else {
        no_virtualization();
    };
    let at = |span: &Span<Hpa>| Hva::new(span.start().get());
    let virtualization = match virtualization {
        _ if is_deprivileged() => None,
        Some((control, guest)) => {
            check_cpu_interface("GICV", guest);
            Some((at(control), maintenance(tree)))
        }
        None => no_virtualization(),
    };
    // SAFETY: the frames are the board's GICv2, mapped for ever, and driven from here alone.
    match unsafe { HostGicV2::new(at(distributor), at(cpu), virtualization) } {
        #[cfg(target_arch = "arm")]
        Ok(gic) if gic.is_joint() => gic,
        Ok(gic) => {
            check_cpu_interface("GICC", cpu);
            gic
        }
        Err(error) => refuse(format_args!("{error}")),
    }
}

/// Refuses a CPU interface that is not two pages, the second of which has GICC_DIR. A shorter one
/// lacks that register, and on a board that repeats each page sixteen times it is at another
/// address.
fn check_cpu_interface(name: &str, span: &Span<Hpa>) {
    const REPEATED: u64 = 0x2_0000;
    let sound = span.len() >= platform::GIC_V2_CPU_SIZE
        && span.len() != REPEATED
        && span.start().is_aligned(PAGE_SIZE);
    if !sound {
        refuse(format_args!(
            "the board's {name} is {:#x} bytes at {}, and not two pages side by side",
            span.len(),
            span.start()
        ));
    }
}

/// A GICv2's virtual CPU interface, which a guest has in place of the CPU interface.
pub fn virtual_cpu_interface(tree: &BoardTree<'_>) -> Option<Hpa> {
    match &tree.gic {
        Gic::V2 { .. } if is_deprivileged() => None,
        Gic::V2 { virtualization, .. } => virtualization.map(|(_, gicv)| gicv.start()),
        _ => None,
    }
}

/// The addresses of the interrupt controller's registers.
pub fn frames(tree: &BoardTree<'_>) -> GicFrames {
    match &tree.gic {
        #[cfg(not(target_arch = "aarch64"))]
        Gic::V3 { .. } => no_gicv3(),
        #[cfg(target_arch = "aarch64")]
        Gic::V3 {
            distributor,
            redistributors,
            stride,
            ..
        } => GicFrames::V3 {
            stride: *stride,
            distributor: Hva::new(distributor.start().get()),
            redistributors: redistributors
                .iter()
                .map(|span| (Hva::new(span.start().get()), span.len()))
                .collect(),
        },
        Gic::V2 { .. } => GicFrames::V2(gicv2(tree)),
        #[cfg(target_arch = "arm")]
        Gic::Allwinner(registers) => GicFrames::Allwinner(allwinner(registers)),
    }
}
