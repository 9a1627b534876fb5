//! The interrupt controller that the tree names, as a guest drives it: what GICv2 and GICv3 have in
//! common under one name, the rest in `v2` and `v3`.

pub mod v2;
pub mod v3;

use crate::{cpu, mmio, timer};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use hanok_types::{GicVersion, platform};

/// The address of the distributor on the virtual platform.
pub const DIST: u64 = platform::GIC_DIST.get();
/// GICD_TYPER.
pub const TYPER: u64 = 0x0004;
/// GICx_IGROUPR0; the registers from here to [`ICFGR`] are alike in both distributors and in
/// a redistributor's SGI frame.
pub const IGROUPR: u64 = 0x0080;
/// GICx_ISENABLER0.
pub const ISENABLER: u64 = 0x0100;
/// GICx_ICENABLER0.
pub const ICENABLER: u64 = 0x0180;
/// GICx_ISPENDR0.
pub const ISPENDR: u64 = 0x0200;
/// GICx_ICPENDR0.
pub const ICPENDR: u64 = 0x0280;
/// GICx_ISACTIVER0.
pub const ISACTIVER: u64 = 0x0300;
/// GICx_ICACTIVER0.
pub const ICACTIVER: u64 = 0x0380;
/// GICx_IPRIORITYR0.
pub const IPRIORITYR: u64 = 0x0400;
/// GICx_ICFGR0.
pub const ICFGR: u64 = 0x0c00;

/// No interrupt of a device, from this number on: there is none to end.
pub const SPECIAL: u64 = 1020;
/// No interrupt is there to take.
pub const SPURIOUS: u64 = 1023;
/// The priority of an interrupt unless another one is set.
pub const PRIORITY: u8 = 0xa0;
/// The value of RPR with no interrupt active.
pub const IDLE: u64 = 0xff;

/// The interrupt controller and its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// GICv2.
    V2 {
        /// GICD.
        distributor: u64,
        /// GICC.
        cpu: u64,
    },
    /// GICv3.
    V3 {
        /// GICD.
        distributor: u64,
        /// GICR of the first CPU; the others follow.
        redistributors: u64,
    },
}

impl Layout {
    /// The controller's version.
    pub fn version(&self) -> GicVersion {
        match self {
            Self::V2 { .. } => GicVersion::V2,
            Self::V3 { .. } => GicVersion::V3,
        }
    }
}

static DISTRIBUTOR: AtomicUsize = AtomicUsize::new(DIST as usize);
/// A GICv2's CPU interface; zero with a GICv3.
static CPU_INTERFACE: AtomicUsize = AtomicUsize::new(0);
static REDISTRIBUTORS: AtomicUsize = AtomicUsize::new(platform::GIC_REDIST.get() as usize);

/// Uses this controller from now on.
pub fn install(layout: Layout) {
    match layout {
        Layout::V2 { distributor, cpu } => {
            DISTRIBUTOR.store(distributor as usize, Relaxed);
            CPU_INTERFACE.store(cpu as usize, Relaxed);
        }
        Layout::V3 {
            distributor,
            redistributors,
        } => {
            DISTRIBUTOR.store(distributor as usize, Relaxed);
            REDISTRIBUTORS.store(redistributors as usize, Relaxed);
            CPU_INTERFACE.store(0, Relaxed);
        }
    }
}

/// The controller's version.
pub fn version() -> GicVersion {
    match CPU_INTERFACE.load(Relaxed) {
        0 => GicVersion::V3,
        _ => GicVersion::V2,
    }
}

/// The distributor's address.
pub fn distributor() -> u64 {
    DISTRIBUTOR.load(Relaxed) as u64
}

/// The controller's name.
pub fn name() -> &'static str {
    match version() {
        GicVersion::V2 => "GICv2",
        GicVersion::V3 => "GICv3",
    }
}

/// Calls the function of this name in `v2` or `v3`.
macro_rules! either {
    ($name:ident ( $($v2:expr),* ) , ( $($v3:expr),* )) => {
        match version() {
            GicVersion::V2 => v2::$name($($v2),*),
            GicVersion::V3 => v3::$name($($v3),*),
        }
    };
    ($name:ident $arguments:tt) => { either!($name $arguments, $arguments) };
}

/// The address of the registers of interrupt `id`: the distributor, or with GICv3 this CPU's SGI
/// frame.
pub fn frame(id: u32) -> u64 {
    match version() {
        GicVersion::V3 if id < 32 => v3::private_frame(cpu::this().index()),
        _ => distributor(),
    }
}

/// An interrupt private to a CPU that nothing raises, and that can be disabled: a GICv2's
/// SGIs may always be enabled (IHI 0048B, 4.3.5).
pub fn unused_private() -> u32 {
    match version() {
        GicVersion::V2 => 20,
        GicVersion::V3 => 6,
    }
}

/// Turns the distributor on.
pub fn init_distributor() {
    either!(init_distributor());
}

/// Turns this CPU's interface on; every priority passes.
pub fn init_cpu(index: usize) {
    either!(init_cpu(), (index));
}

/// The interface as [`init_cpu`] leaves it: no mask, finest preemption, EOImode 0.
pub fn reset_interface() {
    either!(reset_interface());
}

/// Clears this CPU's interrupts after code that stopped half way.
pub fn recover() {
    either!(forget_active_priorities());
    reset_interface();
    write_sysreg!("cntv_ctl_el0", 0);
    write_sysreg!("cntp_ctl_el0", 0);
    (0..288).for_each(disable);
}

/// Sets the bit of interrupt `id` in the register row at `row`.
pub fn set_bit(row: u64, id: u32) {
    mmio::write32(frame(id) + row + u64::from(id / 32) * 4, 1 << (id % 32));
}

/// The bit of interrupt `id` in the register row at `row`.
pub fn bit(row: u64, id: u32) -> bool {
    mmio::read32(frame(id) + row + u64::from(id / 32) * 4) >> (id % 32) & 1 != 0
}

/// Sets the priority of interrupt `id`.
pub fn set_priority(id: u32, priority: u8) {
    mmio::write8(frame(id) + IPRIORITYR + u64::from(id), priority);
}

/// Makes interrupt `id` edge or level triggered.
pub fn set_edge(id: u32, edge: bool) {
    let register = frame(id) + ICFGR + u64::from(id / 16) * 4;
    let shift = id % 16 * 2;
    let others = mmio::read32(register) & !(3 << shift);
    mmio::write32(register, others | u32::from(edge) << (shift + 1));
}

/// Routes an SPI to CPU `index`.
pub fn route(id: u32, index: usize) {
    either!(route(id, index));
}

/// Enables interrupt `id`: in the group that is used, [`PRIORITY`], an SPI to this CPU.
pub fn enable(id: u32) {
    if id >= 32 {
        if version() == GicVersion::V3 {
            v3::regroup(id);
        }
        route(id, cpu::this().index());
    }
    set_priority(id, PRIORITY);
    set_bit(ISENABLER, id);
}

/// Disables interrupt `id`, and clears its pending and active state.
pub fn disable(id: u32) {
    set_bit(ICENABLER, id);
    unpend(id);
    set_bit(ICACTIVER, id);
}

/// Makes interrupt `id` pending.
pub fn pend(id: u32) {
    match version() {
        GicVersion::V2 => v2::pend(id),
        GicVersion::V3 => set_bit(ISPENDR, id),
    }
}

/// Makes interrupt `id` no longer pending, unless its level is high.
pub fn unpend(id: u32) {
    match version() {
        GicVersion::V2 => v2::unpend(id),
        GicVersion::V3 => set_bit(ICPENDR, id),
    }
}

/// Sends SGI `id` to this CPU.
pub fn send_self(id: u32) {
    send_to(cpu::this().index(), id);
}

/// Sends SGI `id` to CPU `index`, below 8.
pub fn send_to(index: usize, id: u32) {
    publish();
    either!(send_to(index, id));
}

/// Sends SGI `id` to all CPUs but this one.
pub fn send_others(id: u32) {
    publish();
    either!(send_others(id));
}

/// Makes earlier writes visible to the CPU that takes the interrupt.
fn publish() {
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb ishst", options(nostack)) };
}

/// Takes the most urgent pending interrupt, or [`SPURIOUS`].
pub fn acknowledge() -> u64 {
    let id = either!(acknowledge());
    // SAFETY: a barrier; the interface's state is to be up to date.
    unsafe { core::arch::asm!("dsb sy", "isb", options(nostack)) };
    id
}

/// The most urgent pending interrupt, or [`SPURIOUS`].
pub fn highest_pending() -> u64 {
    either!(highest_pending())
}

/// Ends interrupt `id`: priority drop, and deactivation in EOImode 0.
pub fn end(id: u64) {
    either!(end(id));
}

/// Deactivates interrupt `id`, in EOImode 1.
pub fn deactivate(id: u64) {
    either!(deactivate(id));
}

/// The running priority.
pub fn running_priority() -> u64 {
    either!(running_priority())
}

/// Sets the priority mask: only more urgent interrupts pass.
pub fn set_mask(priority: u8) {
    either!(set_mask(priority));
}

/// Enables the group that is used at the CPU.
pub fn set_group_enabled(on: bool) {
    either!(set_group_enabled(on));
}

/// Sets EOImode: whether the end only drops the priority.
pub fn split_end(on: bool) {
    either!(split_end(on));
}

/// Makes interrupts preempt each other only by bits 7 to `low` of their priorities. Returns whether
/// the binary point took the value.
pub fn set_group_priority(low: u64) -> bool {
    either!(set_group_priority(low))
}

/// Whether an IRQ is signalled to this CPU, masked or not.
pub fn signalled() -> bool {
    // SAFETY: a barrier, so that earlier writes have taken effect.
    unsafe { core::arch::asm!("dsb sy", "isb", options(nostack)) };
    read_sysreg!("isr_el1") & 1 << 7 != 0
}

/// Waits for a signalled interrupt. Returns whether one came.
pub fn wait_signalled() -> bool {
    timer::wait_until(signalled)
}

/// The IRQ vector: counts the interrupt, silences a known level source, calls the hook, and ends
/// the interrupt.
pub fn take_interrupt() {
    let id = acknowledge();
    if id >= SPECIAL {
        return;
    }
    let cpu = cpu::this();
    if let Some(count) = cpu.taken.get(id as usize) {
        count.fetch_add(1, Relaxed);
    }
    silence(id as u32);
    if let Some(hook) = cpu.hook() {
        hook(id as u32);
    }
    end(id);
}

fn silence(id: u32) {
    match platform_source(id) {
        Source::VirtualTimer => write_sysreg!("cntv_ctl_el0", timer::IMASK | timer::ENABLE),
        Source::PhysicalTimer => write_sysreg!("cntp_ctl_el0", timer::IMASK | timer::ENABLE),
        Source::Uart => mmio::write32(platform::UART.get() + 0x38, 0),
        Source::Rtc => mmio::write32(platform::RTC.get() + 0x10, 0),
        Source::Other => {}
    }
}

enum Source {
    VirtualTimer,
    PhysicalTimer,
    Uart,
    Rtc,
    Other,
}

fn platform_source(id: u32) -> Source {
    let id = hanok_types::IntId::new(id);
    match id {
        _ if id == platform::TIMER_VIRTUAL_IRQ => Source::VirtualTimer,
        _ if id == platform::TIMER_PHYSICAL_IRQ => Source::PhysicalTimer,
        _ if id == platform::UART_IRQ => Source::Uart,
        _ if id == platform::RTC_IRQ => Source::Rtc,
        _ => Source::Other,
    }
}
