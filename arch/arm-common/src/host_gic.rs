//! Physical interrupts, by the CPU interface of the board's GICv3 or GICv2. CPUs of ARMv7 have no
//! system registers of a GICv3, so that a 32-bit hypervisor drives a GICv2 alone.
//!
//! With both versions, ending an interrupt drops its priority, and deactivating it is another operation, so
//! that a guest can do it for the interrupts that were handed on to it (IHI 0069H, 4.8.1; IHI 0048B,
//! 3.2.1). A GICv3's interface is system registers, a GICv2's is memory that each CPU sees at the same
//! place.

#[cfg(target_arch = "arm")]
use crate::AllwinnerInterrupts;
#[cfg(target_arch = "aarch64")]
use crate::lists::HardwareLists;
use crate::lists::HostLists;
#[cfg(target_arch = "arm")]
use crate::software::SoftwareInterfaces;
use crate::{GichLists, HostGicV2};
#[cfg(target_arch = "aarch64")]
use crate::{HostGicV3, read, write};
use core::sync::atomic::{AtomicU8, Ordering};
use hanok_hal::{HostGic, Taken};
use hanok_types::{CpuId, GicVersion, IntId, MAX_CPUS};

/// The SGI by which one pCPU makes another leave its guest, or wake.
pub const KICK: IntId = IntId::new(0);

/// The CPU interface by which a CPU acknowledges and ends its interrupts, and sends one to others.
#[derive(Clone, Copy, Debug)]
pub enum BoardGic {
    /// GICv3's system registers.
    #[cfg(target_arch = "aarch64")]
    V3,
    /// GICv2's memory, and its list registers.
    V2(HostGicV2, GichLists),
    /// Another controller's memory, and list registers in software.
    #[cfg(target_arch = "arm")]
    Software(Plain, &'static SoftwareInterfaces),
}

impl BoardGic {
    /// The id of this CPU's pending interrupt of the highest priority, which stays pending; one from 1020 on where there is none.
    #[inline(always)]
    pub fn pending(&self) -> u32 {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3 => read!("icc_hppir1_el1") as u32,
            Self::V2(gic, _) => gic.pending(),
            #[cfg(target_arch = "arm")]
            Self::Software(..) => 1023,
        }
    }
}

/// The operations on interrupts of a CPU interface whose version is known.
pub trait CpuInterface: Copy {
    /// The GIC's version.
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
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub struct SystemRegisters;

#[cfg(target_arch = "aarch64")]
impl CpuInterface for SystemRegisters {
    const VERSION: GicVersion = GicVersion::V3;

    #[inline(always)]
    fn acknowledge(self) -> Taken {
        Taken::new(read!("icc_iar1_el1") as u32)
    }

    #[inline(always)]
    fn drop_priority(self, taken: Taken) {
        write!("icc_eoir1_el1", u64::from(taken.raw()));
    }

    #[inline(always)]
    fn end(self, taken: Taken) {
        write!("icc_dir_el1", u64::from(taken.raw()));
    }
}

impl CpuInterface for HostGicV2 {
    const VERSION: GicVersion = GicVersion::V2;

    #[inline(always)]
    fn acknowledge(self) -> Taken {
        Taken::new(HostGicV2::acknowledge(&self))
    }

    #[inline(always)]
    fn drop_priority(self, taken: Taken) {
        HostGicV2::drop_priority(&self, taken.raw());
    }

    #[inline(always)]
    fn end(self, taken: Taken) {
        self.deactivate(taken.raw());
    }
}

/// The interface of a controller without virtualization extensions.
#[cfg(target_arch = "arm")]
#[derive(Clone, Copy, Debug)]
pub enum Plain {
    /// A GICv2, or a GICv1.
    Gic(HostGicV2),
    /// An Allwinner A10's.
    Allwinner(AllwinnerInterrupts),
}

#[cfg(target_arch = "arm")]
impl Plain {
    /// Takes the kick that was noted, or an interrupt.
    fn acknowledge_any(self, interfaces: &SoftwareInterfaces) -> Taken {
        if interfaces.take_kick() {
            Taken::new(KICK.get())
        } else {
            self.acknowledge()
        }
    }

    /// Sends the kick to the CPUs of `targets`, or where there is one CPU, to that.
    #[cold]
    #[inline(never)]
    fn kick(&self, targets: u8, interfaces: &SoftwareInterfaces) {
        match self {
            Self::Gic(gic) => gic.send_sgi(KICK, targets),
            Self::Allwinner(_) => interfaces.kick(),
        }
    }
}

#[cfg(target_arch = "arm")]
impl CpuInterface for Plain {
    const VERSION: GicVersion = GicVersion::V2;

    #[inline(always)]
    fn acknowledge(self) -> Taken {
        match self {
            Self::Gic(gic) => CpuInterface::acknowledge(gic),
            Self::Allwinner(interrupts) => interrupts.acknowledge(),
        }
    }

    fn drop_priority(self, taken: Taken) {
        match self {
            Self::Gic(gic) => {
                HostGicV2::drop_priority(&gic, taken.raw());
                if gic.is_joint() {
                    gic.hold(taken.raw(), true);
                }
            }
            Self::Allwinner(interrupts) => interrupts.drop_priority(taken),
        }
    }

    fn end(self, taken: Taken) {
        match self {
            Self::Gic(gic) if gic.is_joint() => gic.hold(taken.raw(), false),
            Self::Gic(gic) => gic.deactivate(taken.raw()),
            Self::Allwinner(interrupts) => interrupts.end(taken),
        }
    }
}

/// Calls either interface.
macro_rules! of_either {
    ($self:ident, $gic:ident => $call:expr) => {
        match $self {
            #[cfg(target_arch = "aarch64")]
            Self::V3 => {
                let $gic = SystemRegisters;
                $call
            }
            Self::V2(gic, _) => {
                let $gic = *gic;
                $call
            }
            #[cfg(target_arch = "arm")]
            Self::Software(gic, _) => {
                let $gic = *gic;
                $call
            }
        }
    };
}

impl BoardGic {
    /// Takes the pending interrupt of the highest priority, if there is one.
    #[cfg_attr(target_arch = "arm", inline(never))]
    pub fn acknowledge(&self) -> Option<Taken> {
        let taken = match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3 => SystemRegisters.acknowledge(),
            Self::V2(gic, _) => CpuInterface::acknowledge(*gic),
            #[cfg(target_arch = "arm")]
            Self::Software(gic, interfaces) => gic.acknowledge_any(interfaces),
        };
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
        self.end(Taken::new(interrupt.get()));
    }

    /// Sends the kick to a CPU.
    #[inline(always)]
    pub fn kick(&self, to: &Target) {
        // Stores for the other CPU are visible before it wakes.
        crate::sysreg::dsb_ish();
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3 => {
                write!("icc_sgi1r_el1", to.sgi);
                crate::sysreg::isb();
            }
            Self::V2(gic, _) => gic.send_sgi(KICK, to.mask()),
            #[cfg(target_arch = "arm")]
            Self::Software(gic, interfaces) => gic.kick(to.mask(), interfaces),
        }
    }

    /// Whether a kick waits that is no interrupt: no guest may be entered, and the CPU may not sleep, before it was
    /// acknowledged.
    #[inline(always)]
    pub fn is_kicked(&self) -> bool {
        match self {
            #[cfg(target_arch = "arm")]
            Self::Software(_, interfaces) => interfaces.is_kicked(),
            _ => false,
        }
    }

    /// Wakes CPUs that sleep before they have started. It is done by a GICv2 alone, as no other board needs
    /// it.
    pub fn wake_others(&self) {
        crate::sysreg::dsb_sy();
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3 => {}
            Self::V2(gic, _) => gic.send_sgi_to_others(KICK),
            #[cfg(target_arch = "arm")]
            Self::Software(Plain::Gic(gic), _) => gic.send_sgi_to_others(KICK),
            #[cfg(target_arch = "arm")]
            Self::Software(..) => {}
        }
    }

    /// This CPU's list registers.
    #[inline(always)]
    pub fn lists(&self) -> HostLists {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::V3 => HostLists::V3(HardwareLists),
            Self::V2(_, lists) => HostLists::V2(*lists),
            #[cfg(target_arch = "arm")]
            Self::Software(_, interfaces) => HostLists::Software(interfaces.here()),
        }
    }

    /// The GIC and its list registers, at an exit that Hyp mode has taken: no question is asked.
    ///
    /// # Safety
    /// This CPU is in Hyp mode, where the GIC is one with list registers.
    #[cfg(target_arch = "arm")]
    #[inline(always)]
    pub unsafe fn at_hyp(&self) -> (HostGicV2, GichLists) {
        match self {
            Self::V2(gic, lists) => (*gic, *lists),
            // SAFETY: by this function's contract.
            Self::Software(..) => unsafe { core::hint::unreachable_unchecked() },
        }
    }
}

/// The names of a CPU as a target of interrupts. The size is a power of two, so that an index is only
/// shifted.
#[derive(Debug, Default)]
#[repr(align(32))]
pub struct Target {
    /// Its affinity.
    mpidr: u64,
    /// ICC_SGI1R_EL1 for the kick to it, on a GICv3.
    #[cfg(target_arch = "aarch64")]
    sgi: u64,
    /// The CPU's bit on a GICv2, which only the CPU itself can find out; zero until then.
    mask: AtomicU8,
}

impl Target {
    /// The CPU with this affinity.
    pub const fn new(mpidr: u64) -> Self {
        Self {
            mpidr,
            #[cfg(target_arch = "aarch64")]
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

#[cfg(target_arch = "aarch64")]
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

/// The names of all CPUs, by their index.
pub type Targets = heapless::Vec<Target, MAX_CPUS>;

/// The addresses of one CPU's part of the board's interrupt controller.
#[derive(Clone, Copy, Debug)]
pub enum CpuFrames {
    /// The distributor and this CPU's redistributor.
    #[cfg(target_arch = "aarch64")]
    V3(HostGicV3),
    /// The distributor, whose banked registers are this CPU's.
    V2(HostGicV2),
    /// An Allwinner A10's, which has one CPU.
    #[cfg(target_arch = "arm")]
    Allwinner(AllwinnerInterrupts),
}

/// One CPU's part of the board's interrupt controller.
#[derive(Clone, Copy, Debug)]
pub struct CpuGic {
    frames: CpuFrames,
    targets: &'static Targets,
}

/// Calls either kind.
macro_rules! of_frames {
    ($self:ident, $gic:ident => $call:expr) => {
        match &$self.frames {
            #[cfg(target_arch = "aarch64")]
            CpuFrames::V3($gic) => $call,
            CpuFrames::V2($gic) => $call,
            #[cfg(target_arch = "arm")]
            CpuFrames::Allwinner($gic) => $call,
        }
    };
}

impl CpuGic {
    /// Makes it of its frames, on a board whose CPUs have these names.
    pub fn new(frames: CpuFrames, targets: &'static Targets) -> Self {
        Self { frames, targets }
    }

    /// Sets up the part of the whole board, once.
    pub fn init_board(&self) {
        of_frames!(self, gic => gic.init_distributor());
    }

    /// Sets up the part of this CPU, whose number is `me`: all priorities are enabled, and priority drop
    /// and deactivation are separate.
    pub fn init_cpu(&self, me: CpuId) {
        match &self.frames {
            #[cfg(target_arch = "aarch64")]
            CpuFrames::V3(gic) => {
                gic.init_redistributor();
                init_system_registers();
            }
            CpuFrames::V2(gic) => {
                gic.init_cpu();
                if let Some(me) = self.targets.get(me.index()) {
                    me.mask.store(gic.cpu_mask(), Ordering::Relaxed);
                }
            }
            #[cfg(target_arch = "arm")]
            CpuFrames::Allwinner(_) => {}
        }
    }
}

impl HostGic for CpuGic {
    fn enable(&self, interrupt: IntId, on: bool) {
        of_frames!(self, gic => gic.enable(interrupt, on));
    }

    fn route(&self, interrupt: IntId, to: CpuId) {
        let Some(to) = self.targets.get(to.index()) else {
            return;
        };
        match &self.frames {
            #[cfg(target_arch = "aarch64")]
            CpuFrames::V3(gic) => gic.route(interrupt, to.mpidr),
            CpuFrames::V2(gic) => gic.route(interrupt, to.mask()),
            #[cfg(target_arch = "arm")]
            CpuFrames::Allwinner(_) => {}
        }
    }

    fn set_active(&self, interrupt: IntId, on: bool) {
        of_frames!(self, gic => gic.set_active(interrupt, on));
        // The writes take effect in this CPU before the next instructions.
        crate::sysreg::dsb_sy();
    }

    fn clear_pending(&self, interrupt: IntId) {
        of_frames!(self, gic => gic.clear_pending(interrupt));
    }

    fn set_edge(&self, interrupt: IntId, edge: bool) {
        of_frames!(self, gic => gic.set_edge(interrupt, edge));
    }
}

#[cfg(target_arch = "aarch64")]
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
