//! The GICv3 (IHI 0069H), as a guest drives it: one security state, group 1.

use crate::{cpu, mmio, timer};
use core::sync::atomic::Ordering::Relaxed;
use hanok_types::platform;

/// The distributor.
pub const DIST: u64 = platform::GIC_DIST.get();
/// GICD_CTLR.
pub const CTLR: u64 = 0x0000;
/// GICD_TYPER.
pub const TYPER: u64 = 0x0004;
/// PIDR2 of a distributor or redistributor frame.
pub const PIDR2: u64 = 0xffe8;
/// GICx_IGROUPR0; the registers from here to [`ICFGR`] are alike in the distributor and in
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
/// GICD_IROUTER0.
pub const IROUTER: u64 = 0x6000;

/// No interrupt is there to take.
pub const SPURIOUS: u64 = 1023;
/// The priority that an interrupt gets unless a case says otherwise.
pub const PRIORITY: u8 = 0xa0;
/// RPR with no interrupt active.
pub const IDLE: u64 = 0xff;

const GICR_WAKER: u64 = 0x14;
const SGI_FRAME: u64 = 0x1_0000;

/// The RD_base frame of CPU `index`.
pub fn redistributor(index: usize) -> u64 {
    platform::GIC_REDIST.get() + index as u64 * platform::GIC_REDIST_STRIDE
}

/// Where the registers of interrupt `id` are: the distributor, or this CPU's SGI frame.
pub fn frame(id: u32) -> u64 {
    if id < 32 {
        redistributor(cpu::this().index()) + SGI_FRAME
    } else {
        DIST
    }
}

/// Turns the distributor on.
pub fn init_distributor() {
    const ARE: u32 = 1 << 4;
    const GROUP_1: u32 = 1 << 1;
    mmio::write32(DIST + CTLR, ARE);
    wait_written();
    mmio::write32(DIST + CTLR, ARE | GROUP_1);
    wait_written();
}

fn wait_written() {
    const RWP: u32 = 1 << 31;
    timer::wait_until(|| mmio::read32(DIST + CTLR) & RWP == 0);
}

/// Turns this CPU's interface on: everything may come, in group 1.
pub fn init_cpu(index: usize) {
    const ASLEEP: u32 = 6;
    let base = redistributor(index);
    mmio::write32(base + GICR_WAKER, 0);
    timer::wait_until(|| mmio::read32(base + GICR_WAKER) & ASLEEP == 0);
    for row in [ICENABLER, ICPENDR, ICACTIVER] {
        mmio::write32(base + SGI_FRAME + row, u32::MAX);
    }
    mmio::write32(base + SGI_FRAME + IGROUPR, u32::MAX);
    write_sysreg!("icc_sre_el1", 7);
    reset_interface();
    write_sysreg!("icc_igrpen1_el1", 1);
}

/// The interface as [`init_cpu`] leaves it: no mask, finest preemption, EOImode 0.
pub fn reset_interface() {
    write_sysreg!("icc_pmr_el1", 0xff);
    write_sysreg!("icc_bpr1_el1", 0);
    write_sysreg!("icc_ctlr_el1", 0);
}

/// Brings this CPU's interrupts back to nothing after a case that stopped half way.
pub fn recover() {
    write_sysreg!("icc_ap1r0_el1", 0);
    reset_interface();
    (0..16).chain(32..288).for_each(disable);
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
    mmio::write64(DIST + IROUTER + u64::from(id) * 8, index as u64);
}

/// Enables interrupt `id`: group 1, [`PRIORITY`], an SPI to this CPU.
pub fn enable(id: u32) {
    if id >= 32 {
        let register = DIST + IGROUPR + u64::from(id / 32) * 4;
        mmio::write32(register, mmio::read32(register) | 1 << (id % 32));
        route(id, cpu::this().index());
    }
    set_priority(id, PRIORITY);
    set_bit(ISENABLER, id);
}

/// Disables interrupt `id`, and takes its pending and active state away.
pub fn disable(id: u32) {
    set_bit(ICENABLER, id);
    set_bit(ICPENDR, id);
    set_bit(ICACTIVER, id);
}

/// Sends SGI `id` to this CPU.
pub fn send_self(id: u32) {
    send_to(cpu::this().index(), id);
}

/// Sends SGI `id` to CPU `index`, below 16.
pub fn send_to(index: usize, id: u32) {
    sgi(u64::from(id) << 24 | 1 << index);
}

/// Sends SGI `id` to all CPUs but this one (ICC_SGI1R_EL1.IRM).
pub fn send_others(id: u32) {
    sgi(1 << 40 | u64::from(id) << 24);
}

fn sgi(value: u64) {
    // SAFETY: what was written before is to be seen by whoever takes the interrupt.
    unsafe { core::arch::asm!("dsb ishst", options(nostack)) };
    write_sysreg!("icc_sgi1r_el1", value);
}

/// Takes the most urgent pending interrupt, or [`SPURIOUS`].
pub fn acknowledge() -> u64 {
    let id = read_sysreg!("icc_iar1_el1");
    // SAFETY: a barrier; the interface's state is to be up to date.
    unsafe { core::arch::asm!("dsb sy", "isb", options(nostack)) };
    id
}

/// Ends interrupt `id`: priority drop, and deactivation in EOImode 0.
pub fn end(id: u64) {
    write_sysreg!("icc_eoir1_el1", id);
}

/// Deactivates interrupt `id`, in EOImode 1.
pub fn deactivate(id: u64) {
    write_sysreg!("icc_dir_el1", id);
}

/// The running priority.
pub fn running_priority() -> u64 {
    read_sysreg!("icc_rpr_el1")
}

/// Whether an IRQ is signalled to this CPU, masked or not.
pub fn signalled() -> bool {
    // SAFETY: a barrier, so that earlier writes have taken effect.
    unsafe { core::arch::asm!("dsb sy", "isb", options(nostack)) };
    read_sysreg!("isr_el1") & 1 << 7 != 0
}

/// Waits for a signalled interrupt; `false` where none comes.
pub fn wait_signalled() -> bool {
    timer::wait_until(signalled)
}

/// The IRQ vector: counts the interrupt, silences a level source that we know, calls the
/// hook, and ends it.
pub fn take_interrupt() -> bool {
    let id = acknowledge();
    if id >= 1020 {
        return true;
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
    true
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
