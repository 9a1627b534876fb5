//! The virtual interrupt controller of one VM, as a pure state machine: a GICv3 without
//! LPIs, with a single security state, or a GICv2 without security extensions, as
//! `qemu-system-aarch64 -M virt,its=off` and `-M virt,gic-version=2` show them
//! (architecture: IHI 0069, "GIC Architecture Specification, GICv3 and GICv4"; IHI 0048B,
//! "GIC Architecture Specification, version 2.0").
//!
//! The guest acknowledges, ends and masks its interrupts through the CPU's own virtual interface
//! without an exit. This crate emulates the distributor, the redistributors and the SGI
//! registers, and decides which pending interrupts are in the list registers of a vCPU.
//!
//! # Two versions, one state machine
//!
//! [`Vgic::of_parts`] fixes the version of a [`Vgic`], which decides over the register
//! frames that it has: [`Frame::Dist`] and [`Frame::Redist`], or [`Frame::V2`]. Behind
//! them is the same state. Three things differ:
//!
//! - A GICv2's SPI goes to one of the CPUs of GICD_ITARGETSR; the register's write is turned
//!   into the route to the first of them, so that delivery knows routes alone.
//! - A GICv2's SGI knows its sender, and is pending once for each sender (`sgi.rs`). A list register
//!   shows one instance, with its sender in bits 34:32; while more instances wait, its EOI bit is set,
//!   so that its end makes room for the next one.
//! - A GICv2's SGIs are always enabled, and only GICD_SGIR, GICD_SPENDSGIR and GICD_CPENDSGIR
//!   change their pending state, as on QEMU.
//!
//! The core writes list registers in GICv3's format for both versions, and a GICv2's backend turns
//! them into a [`GichLr`]. Where IHI 0048B and QEMU differ, the manual is followed: bits for
//! missing CPUs stay zero in GICD_ITARGETSR and GICD_SPENDSGIR, a GICD_SGIR
//! with the reserved filter sends nothing, and registers take bytes where the manual says so,
//! and halfwords nowhere. Both groups exist, as in every GICv2; an interrupt is of group 0
//! until its guest changes that. Priorities have as many bits as the virtual interface.
//!
//! # Who may touch what
//!
//! A [`Vgic`] is protected by one lock; its holder may call everything, on any pCPU.
//! The list registers of a vCPU belong to the pCPU on which it is *resident*, and only
//! calls made there, with its [`ListRegisters`](hanok_hal::ListRegisters), touch them:
//! [`Vgic::enter`], [`Vgic::fold`], [`Vgic::maintenance`], [`Vgic::leave`] and
//! [`Vgic::inject_hardware_now`]. All other calls change the model, mark the vCPUs whose
//! list registers no longer fit it, and return them; the caller kicks those that run
//! elsewhere, and each calls `enter` before it goes back to its guest.
//!
//! **A vCPU that will not return to its guest soon (it waits in WFI, is off, or is
//! descheduled) must either still answer kicks with `enter`, or have called `leave`.** A
//! guest sees `GICD_CTLR.RWP` set until every marked vCPU has entered.
//!
//! # Where an interrupt's state is
//!
//! All state of an *unlisted* interrupt is in its bank (`bank.rs`). The pending and active state of
//! a *listed* one is in its list register, and the bank's `shown` and `active` are as old as the last
//! fold; new edges gather in `latch`, and reach the list register at the next entry. So a guest that
//! reads ISPENDR or ISACTIVER may see a stale value. Such a read marks and returns the vCPU that holds
//! the interrupt, so that a guest that polls gets the true value (the architecture allows any
//! finite delay). Call `fold` before `read`, so that the reader's own vCPU need not read twice.
//! Likewise a write to ICPENDR, ISACTIVER or ICACTIVER reaches a listed interrupt at its
//! holder's next entry, and then also undoes an acknowledgement in between.
//!
//! # Level interrupts and maintenance
//!
//! A level interrupt whose line is still high when the guest ends it must become pending again, and
//! the list register does not know the line. A maintenance interrupt at each
//! end would cost one more exit for each interrupt. Instead, the list register's EOI bit follows
//! the line: it is set while the line is high, and cleared (with a pending state that the guest has
//! not acknowledged) when the line falls. As a handler makes its device lower the line by an access
//! that exits anyway, the end of the interrupt costs an exit only if the interrupt is in fact due again.
//!
//! # More interrupts than list registers
//!
//! The most urgent interrupts are in the list registers; a more urgent one evicts a less urgent
//! pending one. The next one is found without sorting (`choice.rs`), and an
//! entry touches only those list registers that change (`fill.rs`), so that the cost of an interrupt
//! does not grow with the number of those that wait.
//!
//! While interrupts wait, the interrupt for "no list register is pending" (ICH_HCR_EL2.NPIE) is enabled:
//! the listed ones are more urgent, so those that wait are due once no listed one is pending any
//! more, whether or not acknowledged ones stay active. Rejected: the underflow
//! interrupt (ICH_HCR_EL2.UIE), which comes late while acknowledged interrupts occupy list
//! registers, so that each end would have to be reported then.
//!
//! An interrupt that the guest has acknowledged never leaves its list register before the guest has
//! deactivated it, so a deactivation always finds its interrupt, and ICH_HCR_EL2.EOIcount stays zero;
//! the price is that a guest with as many acknowledged interrupts as there are list registers gets no
//! further one until it deactivates one. As NPIE's condition then holds all the time, it is
//! disabled, and each end is reported. While interrupts wait, one that is active and pending again waits
//! with them, and is not shown as pending: its end alone would make it pending, before more urgent
//! ones. By ISACTIVER a guest can make an interrupt active without acknowledging it: a pending one may
//! evict it, and a deactivation of it then has no effect.
//!
//! # Interrupts of real devices
//!
//! A virtual interrupt with a physical one behind it is listed with HW=1: the guest's deactivation
//! deactivates the physical one without an exit. On a GICv2 this is done only while no other interrupt
//! is listed: QEMU's GICv2 does not sample the physical line after such a deactivation, and a timer that
//! is due once more by that time would never fire (a stock kernel loses its tick so). A change of the
//! maintenance interrupt's line makes it sample, which `arch/arm-common/src/gich.rs` brings about when
//! the only listed interrupt ends. If others are listed, the end is reported instead, and the
//! hypervisor's own deactivation makes QEMU sample the line. So when another interrupt joins a single
//! one with HW=1, that one is listed anew, and the maintenance interrupt is enabled only while an end is
//! to be reported ([`hanok_hal::ListRegisters::report_ends`]). If the virtual interrupt ends in another
//! way (the guest clears it, or HW=1 was not possible), [`Vgic::take_released`] gives the physical one to
//! the hypervisor to deactivate; if its device still asks, it fires again.
//!
//! So a level interrupt that waits because its guest has disabled it is released as soon as the guest
//! enables it, since its device may no longer ask by then. An edge would not fire again, and is kept.
//!
//! When a vCPU is switched out (`leave`), a pending or active interrupt keeps the physical one behind
//! it, and is listed with HW=1 at the next `enter`. A private physical interrupt belongs to the pCPU,
//! so its active state must be removed and restored with the vCPU: [`Vgic::holds_hardware`]. The state
//! of an SPI is the same for all CPUs, and stays.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "fake"))]
extern crate std;

mod bank;
#[cfg(test)]
mod bank_tests;
mod choice;
#[cfg(test)]
mod choice_tests;
mod cpu;
mod cpus;
#[cfg(test)]
mod decode_tests;
mod delivery;
#[cfg(test)]
mod delivery_tests;
mod dist;
mod dist_v2;
#[cfg(test)]
mod entry_length_tests;
#[cfg(test)]
mod entry_tests;
mod fast_path;
#[cfg(test)]
mod fast_path_table_tests;
#[cfg(test)]
mod fast_path_tests;
mod fill;
mod frame;
#[cfg(test)]
mod frame_tests;
mod gich;
mod guest_interface;
mod inject;
mod interface;
mod interface_registers;
#[cfg(test)]
mod interface_tests;
#[cfg(test)]
mod invariants;
mod listing;
mod lr;
#[cfg(test)]
mod model_test;
mod redist;
#[cfg(test)]
mod register_tests;
mod reports;
#[cfg(test)]
mod reset_tests;
#[cfg(test)]
mod route_tests;
mod senders;
mod sgi;
mod slots;
mod snapshot;
#[cfg(test)]
mod snapshot_tests;
mod state;
mod urgency;
#[cfg(test)]
mod v2_tests;

pub use cpus::CpuPart;
pub use frame::{Frame, Read};
pub use gich::GichLr;
pub use guest_interface::GuestInterface;
pub use inject::SgiRegister;
pub use interface::{Access, InterruptInput, SoftwareInterface, SoftwareInterfaceState};
pub use interface_registers::{Group, InterfaceRegister};
pub use lr::{Lr, LrState};
pub use sgi::Sgir;
pub use snapshot::Snapshot;
pub use state::{MAX_LRS, Vgic};
