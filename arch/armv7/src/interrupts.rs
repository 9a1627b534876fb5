//! Physical interrupts, by the CPU interface of the board's GICv2.
//!
//! Ending an interrupt drops its priority, and deactivating it is a step of its own, so that a
//! guest can do it for the interrupts it was handed (IHI 0048B, 3.2.1). CPUs of ARMv7 have no
//! system registers of a GICv3; the types are those of the 64-bit backend without that half.

use crate::lists::HostLists;
use core::sync::atomic::{AtomicU8, Ordering};
use hanok_arm_common::{GichLists, HostGicV2};
use hanok_types::IntId;

/// The SGI by which one pCPU makes another look up.
pub const KICK: IntId = IntId::new(0);

/// How a CPU takes and ends its interrupts, and sends others one.
#[derive(Clone, Copy, Debug)]
pub enum Interface {
    /// GICv2's memory, and its list registers.
    V2(HostGicV2, GichLists),
}

/// An interrupt that was acknowledged: its id, and the CPU that sent it.
#[derive(Clone, Copy, Debug)]
pub struct Taken(u32);

impl Taken {
    /// Acknowledges the pending interrupt of the highest priority; [`Self::is_none`] where there
    /// is none.
    #[inline(always)]
    pub fn now(gic: &HostGicV2) -> Self {
        Self(gic.acknowledge())
    }

    /// Whether nothing was pending: the special ids (IHI 0048B, 3.2.5).
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 & 0x3ff >= 1020
    }

    /// Which.
    #[inline(always)]
    pub fn id(self) -> IntId {
        IntId::new(self.0 & 0x3ff)
    }

    /// Deactivates it, so that it can come again.
    #[inline(always)]
    pub fn end(self, gic: &HostGicV2) {
        gic.deactivate(self.0);
    }
}

impl Interface {
    fn gic(&self) -> &HostGicV2 {
        let Self::V2(gic, _) = self;
        gic
    }

    /// Takes the pending interrupt of the highest priority, if there is one.
    #[inline(always)]
    pub fn acknowledge(&self) -> Option<Taken> {
        let taken = Taken::now(self.gic());
        (!taken.is_none()).then_some(taken)
    }

    /// Drops its priority.
    #[inline(always)]
    pub fn drop_priority(&self, taken: Taken) {
        self.gic().drop_priority(taken.0);
    }

    /// Deactivates it, so that it can come again.
    #[inline(always)]
    pub fn end(&self, taken: Taken) {
        self.gic().deactivate(taken.0);
    }

    /// Deactivates an interrupt that is no SGI; without effect where it is not active.
    #[inline(always)]
    pub fn deactivate(&self, interrupt: IntId) {
        self.end(Taken(interrupt.get()));
    }

    /// Sends the kick to a CPU.
    #[inline(always)]
    pub fn kick(&self, to: &Target) {
        // What was written for the other CPU is visible before it is woken.
        crate::sysreg::dsb_ish();
        self.gic().send_sgi(KICK, to.mask());
    }

    /// Wakes CPUs that sleep before they have started.
    pub fn wake_others(&self) {
        crate::sysreg::dsb_sy();
        self.gic().send_sgi_to_others(KICK);
    }

    /// This CPU's list registers.
    #[inline(always)]
    pub fn lists(&self) -> HostLists {
        let Self::V2(_, lists) = self;
        HostLists::V2(*lists)
    }
}

/// How a CPU is named when an interrupt is sent to it.
#[derive(Debug, Default)]
pub struct Target {
    /// Its affinity.
    mpidr: u64,
    /// Its bit, which the CPU itself alone can find out.
    mask: AtomicU8,
}

impl Target {
    /// The CPU with this affinity.
    pub const fn new(mpidr: u64) -> Self {
        Self {
            mpidr,
            mask: AtomicU8::new(0),
        }
    }

    /// Its affinity.
    pub fn mpidr(&self) -> u64 {
        self.mpidr
    }

    fn mask(&self) -> u8 {
        self.mask.load(Ordering::Relaxed)
    }
}

/// One CPU's part of the board's interrupt controller.
#[derive(Clone, Copy, Debug)]
pub enum CpuGic {
    /// The distributor, and what of it is banked.
    V2(HostGicV2),
}

impl CpuGic {
    fn gic(&self) -> &HostGicV2 {
        let Self::V2(gic) = self;
        gic
    }

    /// Sets up what is the whole board's. Once.
    pub fn init_board(&self) {
        self.gic().init_distributor();
    }

    /// Sets up what is this CPU's, which others call `me`: all priorities let through,
    /// ending in two steps.
    pub fn init_cpu(&self, me: &Target) {
        self.gic().init_cpu();
        me.mask.store(self.gic().cpu_mask(), Ordering::Relaxed);
    }

    /// Lets an interrupt through, or not. A private one: this CPU's.
    pub fn enable(&self, interrupt: IntId, on: bool) {
        self.gic().enable(interrupt, on);
    }

    /// Sends an SPI to the CPU that `to` names.
    pub fn route(&self, interrupt: IntId, to: &Target) {
        self.gic().route(interrupt, to.mask());
    }

    /// Makes an interrupt active without its having fired, so that it does not fire until
    /// it is deactivated; or takes that back.
    pub fn set_active(&self, interrupt: IntId, on: bool) {
        self.gic().set_active(interrupt, on);
    }

    /// Forgets that an SPI is pending; one whose line is high is so again at once.
    pub fn clear_pending(&self, interrupt: IntId) {
        self.gic().clear_pending(interrupt);
    }

    /// Whether an SPI is triggered by an edge or by a level.
    pub fn set_edge(&self, interrupt: IntId, edge: bool) {
        self.gic().set_edge(interrupt, edge);
    }
}
