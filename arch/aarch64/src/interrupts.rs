//! Physical interrupts, by the CPU interface of the board's GICv3 or GICv2.
//!
//! Either way ending an interrupt drops its priority, and deactivating it is a step of its
//! own, so that a guest can do it for the interrupts it was handed (IHI 0069H, 4.8.1;
//! IHI 0048B, 3.2.1). A GICv3's interface is system registers, a GICv2's is memory that each
//! CPU sees at the same place.

use crate::lists::{HardwareLists, HostLists};
use crate::{read, write};
use core::sync::atomic::{AtomicU8, Ordering};
use hanok_arm_common::{GichLists, HostGicV2, HostGicV3};
use hanok_types::{GicVersion, IntId};

/// The SGI by which one pCPU makes another look up.
pub const KICK: IntId = IntId::new(0);

/// How a CPU takes and ends its interrupts, and sends others one.
#[derive(Clone, Copy, Debug)]
pub enum Interface {
    /// GICv3's system registers.
    V3,
    /// GICv2's memory, and its list registers.
    V2(HostGicV2, GichLists),
}

/// An interrupt that was acknowledged: its id, and on a GICv2 the CPU that sent it.
#[derive(Clone, Copy, Debug)]
pub struct Taken(u32);

impl Taken {
    /// Whether nothing was pending: the special ids (IHI 0069H, 2.2.1; IHI 0048B, 3.2.5).
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.0 & 0x3ff >= 1020
    }

    /// Which.
    #[inline(always)]
    pub fn id(self) -> IntId {
        // No id from 1024 on (an LPI) is ever enabled.
        IntId::new(self.0 & 0x3ff)
    }
}

/// How interrupts are taken and ended on a GIC whose version is known.
pub trait CpuInterface: Copy {
    /// Which.
    const VERSION: GicVersion;

    /// Takes the pending interrupt of the highest priority; [`Taken::is_none`] where there is
    /// none.
    fn acknowledge(self) -> Taken;

    /// Drops its priority.
    fn drop_priority(self, taken: Taken);

    /// Deactivates it, so that it can come again.
    fn end(self, taken: Taken);
}

/// A GICv3's interface.
#[derive(Clone, Copy, Debug)]
pub struct SystemRegisters;

impl CpuInterface for SystemRegisters {
    const VERSION: GicVersion = GicVersion::V3;

    #[inline(always)]
    fn acknowledge(self) -> Taken {
        Taken(read!("icc_iar1_el1") as u32)
    }

    #[inline(always)]
    fn drop_priority(self, taken: Taken) {
        write!("icc_eoir1_el1", u64::from(taken.0));
    }

    #[inline(always)]
    fn end(self, taken: Taken) {
        write!("icc_dir_el1", u64::from(taken.0));
    }
}

impl CpuInterface for HostGicV2 {
    const VERSION: GicVersion = GicVersion::V2;

    #[inline(always)]
    fn acknowledge(self) -> Taken {
        Taken(HostGicV2::acknowledge(&self))
    }

    #[inline(always)]
    fn drop_priority(self, taken: Taken) {
        HostGicV2::drop_priority(&self, taken.0);
    }

    #[inline(always)]
    fn end(self, taken: Taken) {
        self.deactivate(taken.0);
    }
}

/// What either interface does.
macro_rules! of_either {
    ($self:ident, $gic:ident => $call:expr) => {
        match $self {
            Self::V3 => {
                let $gic = SystemRegisters;
                $call
            }
            Self::V2(gic, _) => {
                let $gic = *gic;
                $call
            }
        }
    };
}

impl Interface {
    /// Takes the pending interrupt of the highest priority, if there is one.
    pub fn acknowledge(&self) -> Option<Taken> {
        let taken = of_either!(self, gic => CpuInterface::acknowledge(gic));
        (!taken.is_none()).then_some(taken)
    }

    /// Drops its priority.
    pub fn drop_priority(&self, taken: Taken) {
        of_either!(self, gic => CpuInterface::drop_priority(gic, taken));
    }

    /// Deactivates it, so that it can come again.
    #[inline(always)]
    pub fn end(&self, taken: Taken) {
        of_either!(self, gic => CpuInterface::end(gic, taken));
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
        match self {
            Self::V3 => {
                write!("icc_sgi1r_el1", to.sgi);
                crate::sysreg::isb();
            }
            Self::V2(gic, _) => gic.send_sgi(KICK, to.mask()),
        }
    }

    /// This CPU's list registers.
    #[inline(always)]
    pub fn lists(&self) -> HostLists {
        match self {
            Self::V3 => HostLists::V3(HardwareLists),
            Self::V2(_, lists) => HostLists::V2(*lists),
        }
    }
}

/// How a CPU is named when an interrupt is sent to it.
#[derive(Debug, Default)]
pub struct Target {
    /// Its affinity.
    mpidr: u64,
    /// ICC_SGI1R_EL1 for the kick to it, on a GICv3.
    sgi: u64,
    /// By its bit, on a GICv2, which the CPU itself alone can find out.
    mask: AtomicU8,
}

impl Target {
    /// The CPU with this affinity.
    pub const fn new(mpidr: u64) -> Self {
        Self {
            mpidr,
            sgi: sgi_to(mpidr),
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

/// ICC_SGI1R_EL1 for [`KICK`] to one CPU (IHI 0069H, 12.2).
const fn sgi_to(mpidr: u64) -> u64 {
    let (aff0, aff1) = (mpidr & 0xff, mpidr >> 8 & 0xff);
    let (aff2, aff3) = (mpidr >> 16 & 0xff, mpidr >> 32 & 0xff);
    aff3 << 48
        | (aff0 >> 4) << 44
        | aff2 << 32
        | (KICK.get() as u64) << 24
        | aff1 << 16
        | 1 << (aff0 & 0xf)
}

/// One CPU's part of the board's interrupt controller.
#[derive(Clone, Copy, Debug)]
pub enum CpuGic {
    /// The distributor and this CPU's redistributor.
    V3(HostGicV3),
    /// The distributor, and what of it is banked.
    V2(HostGicV2),
}

impl CpuGic {
    /// Sets up what is the whole board's. Once.
    pub fn init_board(&self) {
        match self {
            Self::V3(gic) => gic.init_distributor(),
            Self::V2(gic) => gic.init_distributor(),
        }
    }

    /// Sets up what is this CPU's, which others call `me`: all priorities let through,
    /// ending in two steps.
    pub fn init_cpu(&self, me: &Target) {
        match self {
            Self::V3(gic) => {
                gic.init_redistributor();
                init_system_registers();
            }
            Self::V2(gic) => {
                gic.init_cpu();
                me.mask.store(gic.cpu_mask(), Ordering::Relaxed);
            }
        }
    }

    /// Lets an interrupt through, or not. A private one: this CPU's.
    pub fn enable(&self, interrupt: IntId, on: bool) {
        match self {
            Self::V3(gic) => gic.enable(interrupt, on),
            Self::V2(gic) => gic.enable(interrupt, on),
        }
    }

    /// Sends an SPI to the CPU that `to` names.
    pub fn route(&self, interrupt: IntId, to: &Target) {
        match self {
            Self::V3(gic) => gic.route(interrupt, to.mpidr),
            Self::V2(gic) => gic.route(interrupt, to.mask()),
        }
    }

    /// Makes an interrupt active without its having fired, so that it does not fire until
    /// it is deactivated; or takes that back.
    pub fn set_active(&self, interrupt: IntId, on: bool) {
        match self {
            Self::V3(gic) => gic.set_active(interrupt, on),
            Self::V2(gic) => gic.set_active(interrupt, on),
        }
    }

    /// Forgets that an SPI is pending; one whose line is high is so again at once.
    pub fn clear_pending(&self, interrupt: IntId) {
        match self {
            Self::V3(gic) => gic.clear_pending(interrupt),
            Self::V2(gic) => gic.clear_pending(interrupt),
        }
    }

    /// Whether an SPI is triggered by an edge or by a level.
    pub fn set_edge(&self, interrupt: IntId, edge: bool) {
        match self {
            Self::V3(gic) => gic.set_edge(interrupt, edge),
            Self::V2(gic) => gic.set_edge(interrupt, edge),
        }
    }
}

/// GICv3: all priorities, group 1, EOI mode 1.
fn init_system_registers() {
    // SRE, no bypass, EL1 may use the (virtual) interface.
    write!("icc_sre_el2", 0b1111);
    crate::sysreg::isb();
    write!("icc_ctlr_el1", 1 << 1);
    write!("icc_pmr_el1", 0xff);
    write!("icc_bpr1_el1", 0);
    write!("icc_igrpen1_el1", 1);
    crate::sysreg::isb();
}
