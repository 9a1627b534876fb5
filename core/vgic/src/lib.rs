//! The virtual interrupt controller of one VM, as a pure state machine: a GICv3 without
//! LPIs, with a single security state, or a GICv2 without security extensions, as
//! `qemu-system-aarch64 -M virt,its=off` and `-M virt,gic-version=2` show them
//! (architecture: IHI 0069, "GIC Architecture Specification, GICv3 and GICv4"; IHI 0048B,
//! "GIC Architecture Specification, version 2.0").
//!
//! The guest takes, ends and masks its interrupts through the CPU's own virtual interface
//! without an exit; what is emulated is the distributor, the redistributors and the SGI
//! registers, and what is decided here is which pending interrupts stand in the list
//! registers of a vCPU.
//!
//! # Two versions, one state machine
//!
//! Which version a [`Vgic`] is of is settled by [`Vgic::new`], and decides over the register
//! frames that there are: [`Frame::Dist`] and [`Frame::Redist`], or [`Frame::V2`]. Behind
//! them is the same state. Three things differ:
//!
//! - A GICv2's SPI goes to one of the CPUs of GICD_ITARGETSR; the register's write is turned
//!   into the route to the first of them, so that delivery knows routes alone.
//! - A GICv2's SGI knows its sender, and is pending once for each (`sgi.rs`). A list register
//!   shows one instance, its sender in bits 34:32; while more wait, its EOI bit is set, so
//!   that its end makes room for the next.
//! - A GICv2's SGIs are always enabled, and only GICD_SGIR, GICD_SPENDSGIR and GICD_CPENDSGIR
//!   change their pending state, as on QEMU.
//!
//! The core writes list registers of GICv3's format for both; [`GichLr`] is what a GICv2's
//! backend makes of them. Where IHI 0048B and QEMU differ, the manual is followed: bits for
//! CPUs that are not there do not stick in GICD_ITARGETSR and GICD_SPENDSGIR, a GICD_SGIR
//! with the reserved filter sends nothing, and registers take bytes where the manual has it
//! and halfwords nowhere. Both groups are there, as in every GICv2; an interrupt is of group 0
//! until its guest says otherwise. Priorities have as many bits as the virtual interface.
//!
//! # Who may touch what
//!
//! A [`Vgic`] stands behind one lock; whoever holds it may call everything, on any pCPU.
//! The list registers of a vCPU belong to the pCPU on which it is *resident*, and only
//! calls made there, with its [`ListRegisters`](hanok_hal::ListRegisters), touch them:
//! [`Vgic::enter`], [`Vgic::fold`], [`Vgic::maintenance`], [`Vgic::leave`] and
//! [`Vgic::inject_hardware_now`]. All other calls change the model, mark the vCPUs whose
//! list registers no longer fit it, and return them; the caller kicks those that run
//! elsewhere, and each calls `enter` before it goes back to its guest.
//!
//! **A vCPU that will not return to its guest soon (it waits in WFI, is off, or is
//! descheduled) must either still answer kicks with `enter`, or have called `leave`.** The
//! guest sees `GICD_CTLR.RWP` set until every marked vCPU has entered.
//!
//! # Where an interrupt's state is
//!
//! *Unlisted*, all of it is in its bank (`state.rs`). *Listed*, the list register holds
//! pending and active, and the bank's `shown` and `active` are as old as the last fold;
//! new edges gather in `latch` and join at the next fold. So a guest that reads ISPENDR or
//! ISACTIVER may see a stale value; such a read marks and returns the vCPU that holds the
//! interrupt, so that a guest that polls gets the truth (the architecture allows any
//! finite delay). Call `fold` before `read` to spare the reader's own pCPU the second turn.
//! Likewise a write to ICPENDR, ISACTIVER or ICACTIVER reaches a listed interrupt at its
//! holder's next entry, and then also undoes what the guest acknowledged in between.
//!
//! # Level interrupts and maintenance
//!
//! A level interrupt whose line is still high when the guest ends it must come again, and
//! the list register alone cannot know the line. Asking for a maintenance interrupt at each
//! end would cost one more exit an interrupt. Instead, the list register's EOI bit follows
//! the line: set while it is high, cleared (with a pending state not yet taken) once it
//! falls. As a handler makes its device lower the line, by an access that exits anyway,
//! the end of the interrupt costs an exit only where the interrupt is in fact due again.
//!
//! # More interrupts than list registers
//!
//! The most urgent ones stand in the list registers; a less urgent pending one is taken out
//! again for a more urgent one. Which one is next is known without sorting (`choice.rs`), and an
//! entry touches those list registers alone that change (`fill.rs`), so that the cost of an interrupt
//! does not grow with the number of those that wait.
//!
//! While some wait, the interrupt for "no list register is pending" (ICH_HCR_EL2.NPIE) is on: as those
//! that are listed are the more urgent ones, those that wait matter once none of them is pending any
//! more, whether or not what the guest has acknowledged stays active. Rejected: the underflow
//! interrupt (ICH_HCR_EL2.UIE), which comes late while acknowledged ones keep list registers
//! occupied, so that each end had to be reported then.
//!
//! An interrupt that the guest has acknowledged never leaves its list register before the guest has
//! deactivated it, so a deactivation always finds its interrupt, and ICH_HCR_EL2.EOIcount stays zero;
//! the price is that a guest with as many acknowledged interrupts as there are list registers gets no
//! further one until it deactivates one. Then the interrupt above would come again and again: it is
//! turned off, and each end is reported. One that is active and pending again waits with the others
//! while some wait, and is not shown as pending: it would become pending by its end alone, before what
//! is more urgent. ISACTIVER can make active what nobody acknowledged: that gives way to what is
//! pending, and a deactivation of it then finds nothing.
//!
//! # Interrupts of real devices
//!
//! One with a physical interrupt behind it is listed with HW=1: the guest's deactivation
//! deactivates the physical one without an exit. On a GICv2 only where it stands alone: QEMU's
//! does not look at the physical line again then, and a timer that is due once more by that time
//! would never come (a stock kernel loses its tick so). It is made to look by a change of the
//! maintenance interrupt's line, which `arch/arm-common/src/gich.rs` brings about where the only
//! interrupt ends. In company the end is reported, and the hypervisor's
//! own deactivation makes it look. So a lone one beside which another comes is listed anew, and the
//! maintenance interrupt is let through only while something is to
//! be reported ([`hanok_hal::ListRegisters::report_ends`]). Where the virtual one ends otherwise (the
//! guest clears it, or HW=1 was not possible), the physical one is reported by
//! [`Vgic::take_released`] for the hypervisor to deactivate; if its device still asks, it
//! fires again.
//!
//! So a level interrupt that waits while its guest has it disabled is given back as soon as
//! it is enabled: its device may rest by now. An edge would not come again, and is kept.
//!
//! When a vCPU is switched out (`leave`), an interrupt that is pending or active with a
//! physical one behind keeps it, and is listed with HW=1 at the next `enter`. A private
//! physical interrupt is one of the pCPU, so its active state must go and come with the
//! vCPU: [`Vgic::holds_hardware`]. An SPI's is the same for all CPUs, and stays.

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
mod entry_tests;
mod fill;
mod frame;
mod gich;
mod inject;
mod interface;
#[cfg(test)]
mod interface_tests;
#[cfg(test)]
mod invariants;
#[cfg(test)]
mod length_tests;
mod listing;
#[cfg(test)]
mod look_tests;
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
mod short;
#[cfg(test)]
mod short_tests;
mod slots;
mod snapshot;
mod state;
#[cfg(test)]
mod steady_tests;
#[cfg(test)]
mod table_tests;
mod urgency;
#[cfg(test)]
mod v2_tests;

pub use cpus::CpuPart;
pub use frame::{Frame, Read};
pub use gich::GichLr;
pub use inject::SgiRegister;
pub use interface::{Access, Group, InterfaceRegister, SoftwareInterface};
pub use lr::{Lr, LrState};
pub use sgi::Sgir;
pub use snapshot::Snapshot;
pub use state::{MAX_LRS, Vgic};
