//! The GICv3 (IHI 0069H): a redistributor for each CPU, the CPU interface in system
//! registers. All interrupts are of group 1.

use super::{ICACTIVER, ICENABLER, ICPENDR, IGROUPR, REDISTRIBUTORS, distributor};
use crate::smp::affinity;
use crate::{mmio, timer};
use core::sync::atomic::Ordering::Relaxed;
use hanok_types::platform;

/// PIDR2 of a distributor or redistributor frame.
pub const PIDR2: u64 = 0xffe8;
/// GICD_IROUTER0.
pub const IROUTER: u64 = 0x6000;

const CTLR: u64 = 0x0000;
const GICR_WAKER: u64 = 0x14;
const SGI_FRAME: u64 = 0x1_0000;

/// The RD_base frame of CPU `index`.
pub fn redistributor(index: usize) -> u64 {
    REDISTRIBUTORS.load(Relaxed) as u64 + index as u64 * platform::GIC_REDIST_STRIDE
}

/// The SGI_base frame of CPU `index`, which has the registers of its private interrupts.
pub fn private_frame(index: usize) -> u64 {
    redistributor(index) + SGI_FRAME
}

/// Turns the distributor on.
pub fn init_distributor() {
    const ARE: u32 = 1 << 4;
    const GROUP_1: u32 = 1 << 1;
    mmio::write32(distributor() + CTLR, ARE);
    wait_written();
    mmio::write32(distributor() + CTLR, ARE | GROUP_1);
    wait_written();
}

fn wait_written() {
    const RWP: u32 = 1 << 31;
    timer::wait_until(|| mmio::read32(distributor() + CTLR) & RWP == 0);
}

/// Turns this CPU's interface on; every priority passes.
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

/// No mask, finest preemption, EOImode 0.
pub fn reset_interface() {
    write_sysreg!("icc_pmr_el1", 0xff);
    write_sysreg!("icc_bpr1_el1", 0);
    write_sysreg!("icc_ctlr_el1", 0);
}

/// Clears the active priorities.
pub fn forget_active_priorities() {
    write_sysreg!("icc_ap1r0_el1", 0);
}

/// Puts an SPI into group 1.
pub fn regroup(id: u32) {
    let register = distributor() + IGROUPR + u64::from(id / 32) * 4;
    mmio::write32(register, mmio::read32(register) | 1 << (id % 32));
}

/// Routes an SPI to CPU `index`.
pub fn route(id: u32, index: usize) {
    mmio::write64(distributor() + IROUTER + u64::from(id) * 8, affinity(index));
}

/// Sends SGI `id` to CPU `index`.
pub fn send_to(index: usize, id: u32) {
    let (aff1, aff0) = (affinity(index) >> 8, affinity(index) & 0xff);
    write_sysreg!(
        "icc_sgi1r_el1",
        u64::from(id) << 24 | aff1 << 16 | 1 << aff0
    );
}

/// Sends SGI `id` to all CPUs but this one (ICC_SGI1R_EL1.IRM).
pub fn send_others(id: u32) {
    write_sysreg!("icc_sgi1r_el1", 1 << 40 | u64::from(id) << 24);
}

/// ICC_IAR1_EL1.
pub fn acknowledge() -> u64 {
    read_sysreg!("icc_iar1_el1")
}

/// ICC_HPPIR1_EL1.
pub fn highest_pending() -> u64 {
    read_sysreg!("icc_hppir1_el1")
}

/// ICC_EOIR1_EL1.
pub fn end(id: u64) {
    write_sysreg!("icc_eoir1_el1", id);
}

/// ICC_DIR_EL1.
pub fn deactivate(id: u64) {
    write_sysreg!("icc_dir_el1", id);
}

/// ICC_RPR_EL1.
pub fn running_priority() -> u64 {
    read_sysreg!("icc_rpr_el1")
}

/// ICC_PMR_EL1.
pub fn set_mask(priority: u8) {
    write_sysreg!("icc_pmr_el1", u64::from(priority));
}

/// ICC_IGRPEN1_EL1.
pub fn set_group_enabled(on: bool) {
    write_sysreg!("icc_igrpen1_el1", u64::from(on));
}

/// ICC_CTLR_EL1.EOImode.
pub fn split_end(on: bool) {
    write_sysreg!("icc_ctlr_el1", u64::from(on) << 1);
}

/// Makes bits 7 to `low` of a priority its group priority (IHI 0069H, 4.8.3: BPR1 counts one more
/// than BPR0).
/// Returns whether the binary point took the value.
pub fn set_group_priority(low: u64) -> bool {
    write_sysreg!("icc_bpr1_el1", low);
    read_sysreg!("icc_bpr1_el1") == low
}
