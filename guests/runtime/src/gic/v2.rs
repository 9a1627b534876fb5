//! The GICv2 (IHI 0048B): the registers of private interrupts are banked in the distributor, and
//! the CPU interface is in memory. All interrupts are in group 0, as after a reset.

use super::{ICACTIVER, ICENABLER, ICPENDR, IGROUPR, ISPENDR, distributor};
use crate::cpu::{self, MAX_CPUS};
use crate::{mmio, timer};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use hanok_types::platform;

/// GICD_ITARGETSR0.
pub const ITARGETSR: u64 = 0x800;
/// GICD_SGIR.
pub const SGIR: u64 = 0xf00;
/// GICD_CPENDSGIR0.
pub const CPENDSGIR: u64 = 0xf10;
/// GICD_SPENDSGIR0.
pub const SPENDSGIR: u64 = 0xf20;
/// ICPIDR2.
pub const PIDR2: u64 = 0xfe8;
/// GICC_CTLR.
pub const GICC_CTLR: u64 = 0x000;
/// GICC_PMR.
pub const PMR: u64 = 0x004;
/// GICC_BPR.
pub const BPR: u64 = 0x008;
/// GICC_IAR.
pub const IAR: u64 = 0x00c;
/// GICC_EOIR.
pub const EOIR: u64 = 0x010;
/// GICC_RPR.
pub const RPR: u64 = 0x014;
/// GICC_HPPIR.
pub const HPPIR: u64 = 0x018;
/// GICC_ABPR.
pub const ABPR: u64 = 0x01c;
/// GICC_IIDR.
pub const IIDR: u64 = 0x0fc;
/// GICC_DIR, in the interface's second page.
pub const DIR: u64 = 0x1000;
/// GICC_CTLR: group 0 is enabled.
pub const ENABLE_0: u32 = 1;
/// GICC_CTLR: group 1 is enabled.
pub const ENABLE_1: u32 = 1 << 1;
/// GICC_CTLR: the end only drops the priority.
pub const EOI_MODE: u32 = 1 << 9;

const APR: u64 = 0x0d0;
const ID: u64 = 0x3ff;

/// For each CPU's SGIs, the sender that GICC_IAR named: GICC_EOIR needs it.
static SENDERS: [[AtomicU32; 16]; MAX_CPUS] =
    [const { [const { AtomicU32::new(0) }; 16] }; MAX_CPUS];

/// Turns the distributor on, for both groups.
pub fn init_distributor() {
    mmio::write32(distributor(), ENABLE_0 | ENABLE_1);
}

/// Turns this CPU's interface on; every priority passes.
pub fn init_cpu() {
    for row in [ICENABLER, ICPENDR, ICACTIVER] {
        mmio::write32(distributor() + row, u32::MAX);
    }
    forget_sgis();
    mmio::write32(distributor() + IGROUPR, 0);
    reset_interface();
}

/// Clears pending SGIs, if there are any. Xen has no registers for that, and answers an access to
/// them with an abort.
fn forget_sgis() {
    const SGIS: u32 = 0xffff;
    if mmio::read32(distributor() + ISPENDR) & SGIS == 0 {
        return;
    }
    for word in 0..4 {
        mmio::write32(distributor() + CPENDSGIR + word * 4, u32::MAX);
    }
}

/// No mask, finest preemption, EOImode 0, only group 0.
pub fn reset_interface() {
    write(GICC_CTLR, ENABLE_0);
    write(PMR, 0xff);
    write(BPR, 0);
}

/// Clears the active priorities.
pub fn forget_active_priorities() {
    write(APR, 0);
}

/// Reads a register of this CPU's interface.
pub fn read(register: u64) -> u32 {
    mmio::read32(super::CPU_INTERFACE.load(Relaxed) as u64 + register)
}

/// Writes a register of this CPU's interface.
pub fn write(register: u64, value: u32) {
    mmio::write32(super::CPU_INTERFACE.load(Relaxed) as u64 + register, value);
}

/// Sends an interrupt to one CPU.
pub fn route(id: u32, index: usize) {
    target(id, 1 << index);
}

/// Sends an SPI to whichever of these CPUs takes it first.
pub fn target(id: u32, cpus: u8) {
    mmio::write8(distributor() + ITARGETSR + u64::from(id), cpus);
}

/// Makes interrupt `id` pending. GICD_ISPENDR does not do it for an SGI (4.3.7): it has a
/// sender, which is this CPU.
pub fn pend(id: u32) {
    if id < 16 {
        let sender = 1 << cpu::this().index();
        mmio::write8(distributor() + SPENDSGIR + u64::from(id), sender);
    } else {
        super::set_bit(super::ISPENDR, id);
    }
}

/// Makes interrupt `id` no longer pending.
pub fn unpend(id: u32) {
    if id < 16 {
        mmio::write8(distributor() + CPENDSGIR + u64::from(id), 0xff);
    } else {
        super::set_bit(ICPENDR, id);
    }
}

/// Sends SGI `id` to CPU `index`.
pub fn send_to(index: usize, id: u32) {
    mmio::write32(distributor() + SGIR, 1 << (16 + index) | id);
}

/// Sends SGI `id` to all CPUs but this one.
pub fn send_others(id: u32) {
    mmio::write32(distributor() + SGIR, 1 << 24 | id);
}

/// GICC_IAR without the sender, which is kept for the end.
pub fn acknowledge() -> u64 {
    let value = read(IAR);
    let id = u64::from(value) & ID;
    if let Some(sender) = senders().get(id as usize) {
        sender.store(value & !(ID as u32), Relaxed);
    }
    id
}

fn senders() -> &'static [AtomicU32; 16] {
    &SENDERS[cpu::this().index()]
}

/// The value for GICC_EOIR and GICC_DIR to end `id`.
fn with_sender(id: u64) -> u32 {
    let sender = senders()
        .get(id as usize)
        .map_or(0, |sender| sender.load(Relaxed));
    id as u32 | sender
}

/// GICC_HPPIR without the sender.
pub fn highest_pending() -> u64 {
    u64::from(read(HPPIR)) & ID
}

/// GICC_EOIR.
pub fn end(id: u64) {
    write(EOIR, with_sender(id));
    if id == platform::TIMER_VIRTUAL_IRQ.get().into() {
        move_timer_line();
    }
}

/// If the virtual timer's condition is already met again, moves its line down and up. QEMU 10 does
/// not check the lines when a virtual CPU interface deactivates an interrupt: one that was high by
/// then would not be seen before some line moves. A real GIC, and QEMU's GICv3, check them.
fn move_timer_line() {
    let control = read_sysreg!("cntv_ctl_el0");
    if control == timer::ENABLE | timer::ISTATUS {
        write_sysreg!("cntv_ctl_el0", timer::ENABLE | timer::IMASK);
        write_sysreg!("cntv_ctl_el0", timer::ENABLE);
    }
}

/// GICC_DIR.
pub fn deactivate(id: u64) {
    write(DIR, with_sender(id));
}

/// GICC_RPR.
pub fn running_priority() -> u64 {
    read(RPR).into()
}

/// GICC_PMR.
pub fn set_mask(priority: u8) {
    write(PMR, priority.into());
}

/// GICC_CTLR.EnableGrp0.
pub fn set_group_enabled(on: bool) {
    write(GICC_CTLR, if on { ENABLE_0 } else { 0 });
}

/// GICC_CTLR.EOImode.
pub fn split_end(on: bool) {
    write(GICC_CTLR, ENABLE_0 | if on { EOI_MODE } else { 0 });
}

/// Makes bits 7 to `low` of a priority its group priority (3.3.3).
/// Returns whether the binary point took the value.
pub fn set_group_priority(low: u64) -> bool {
    write(BPR, low as u32 - 1);
    u64::from(read(BPR)) == low - 1
}
