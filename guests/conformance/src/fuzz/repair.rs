//! Restores after a step what the next one needs: the console, the vCPU's own registers, its
//! interrupts.

use crate::arch::fuzz::{space, trip};
use crate::{gic, mmio, timer};
use hanok_types::{GicVersion, platform};

const TIMER: u32 = platform::TIMER_VIRTUAL_IRQ.get();
/// How many interrupts are taken before all are disabled.
const PATIENCE: u32 = 64;

/// Sets up the console, whatever a step wrote to its registers (DDI 0183, 3.3).
pub fn console() {
    const LCR_H: u64 = 0x2c;
    const CR: u64 = 0x30;
    const IMSC: u64 = 0x38;
    const DMACR: u64 = 0x48;
    let uart = platform::UART.get();
    for (register, value) in [(CR, 0), (IMSC, 0), (DMACR, 0), (LCR_H, 0x70), (CR, 0x301)] {
        mmio::write32(uart + register, value);
    }
}

/// Sets the vCPU's own registers to the fuzzer's values.
pub fn registers(this: u64) {
    space::own_registers(trip::vectors(), this);
    timers();
    interface();
}

/// Turns both timers off.
pub fn timers() {
    write_sysreg!("cntv_ctl_el0", 0);
    write_sysreg!("cntp_ctl_el0", 0);
}

/// Sets the CPU interface to signal every priority, with no interrupt active in it.
pub fn interface() {
    if gic::version() == GicVersion::V3 {
        write_sysreg!("icc_sre_el1", 7);
        write_sysreg!("icc_ap0r0_el1", 0);
        write_sysreg!("icc_ap1r0_el1", 0);
        write_sysreg!("icc_igrpen0_el1", 1);
        write_sysreg!("icc_igrpen1_el1", 1);
    } else {
        gic::v2::forget_active_priorities();
    }
    gic::reset_interface();
}

/// Makes sure that the virtual timer will wake this CPU: its interrupt is enabled and inactive, and
/// the CPU interface signals it.
pub fn wakeable() {
    let frame = gic::frame(TIMER);
    match gic::version() {
        GicVersion::V3 => {
            mmio::write32(gic::distributor(), FORWARD_V3);
            mmio::write32(gic::v3::redistributor(0) + GICR_WAKER, 0);
            mmio::write32(frame + gic::IGROUPR, u32::MAX);
        }
        GicVersion::V2 => {
            mmio::write32(gic::distributor(), FORWARD_V2);
            mmio::write32(frame + gic::IGROUPR, 0);
        }
    }
    interface();
    gic::set_bit(gic::ICACTIVER, TIMER);
    gic::set_priority(TIMER, gic::PRIORITY);
    gic::set_bit(gic::ISENABLER, TIMER);
}

/// GICR_WAKER, which lets a CPU's interface sleep (IHI 0069, 12.11).
const GICR_WAKER: u64 = 0x14;
/// What [`wakeable`] and [`give_timer`] write to GICD_CTLR.
const FORWARD_V3: u32 = 0x13;
const FORWARD_V2: u32 = 3;

/// Returns whether the virtual timer's interrupt can be signalled to CPU `index`, which was started
/// and has its CPU interface as a start leaves it. A GICv2's private interrupts are inaccessible
/// from other CPUs.
pub fn hears_timer(index: usize) -> bool {
    const PROCESSOR_SLEEP: u32 = 2;
    let forwards = mmio::read32(gic::distributor());
    if gic::version() == GicVersion::V2 {
        return forwards & 1 != 0;
    }
    let base = gic::v3::redistributor(index);
    let frame = gic::v3::private_frame(index);
    let has = |row: u64| mmio::read32(frame + row) & 1 << TIMER != 0;
    let priority = mmio::read32(frame + gic::IPRIORITYR + u64::from(TIMER & !3)) >> (TIMER % 4 * 8);
    forwards & 2 != 0
        && mmio::read32(base + GICR_WAKER) & PROCESSOR_SLEEP == 0
        && has(gic::IGROUPR)
        && has(gic::ISENABLER)
        && !has(gic::ISACTIVER)
        && u64::from(priority & 0xff) < gic::IDLE & 0xf8
}

/// Enables the virtual timer's interrupt of CPU `index` again.
pub fn give_timer(index: usize) {
    if gic::version() == GicVersion::V2 {
        mmio::write32(gic::distributor(), FORWARD_V2);
        return;
    }
    mmio::write32(gic::distributor(), FORWARD_V3);
    mmio::write32(gic::v3::redistributor(index) + GICR_WAKER, 0);
    let frame = gic::v3::private_frame(index);
    mmio::write32(frame + gic::IGROUPR, u32::MAX);
    mmio::write32(frame + gic::ICACTIVER, u32::MAX);
    let priorities = frame + gic::IPRIORITYR + u64::from(TIMER & !3);
    mmio::write32(priorities, u32::from_ne_bytes([gic::PRIORITY; 4]));
    mmio::write32(frame + gic::ISENABLER, 1 << TIMER);
}

/// Lets the virtual timer fire after so many microseconds.
pub fn alarm(microseconds: u64) {
    write_sysreg!(
        "cntv_cval_el0",
        timer::now() + timer::microseconds(microseconds)
    );
    write_sysreg!("cntv_ctl_el0", timer::ENABLE);
}

/// Takes the pending interrupts; those that do not end are disabled. Returns how many were taken.
pub fn drain() -> u32 {
    timers();
    let mut taken = 0;
    while signalled() && taken < PATIENCE {
        take();
        taken += 1;
    }
    if signalled() {
        disable_all();
    }
    taken
}

/// ISR_EL1: IRQ or FIQ.
fn signalled() -> bool {
    // SAFETY: a barrier, so that earlier writes have taken effect.
    unsafe { core::arch::asm!("dsb sy", "isb", options(nostack)) };
    read_sysreg!("isr_el1") & 3 << 6 != 0
}

/// Takes one interrupt of either group, and disables it.
pub fn take() {
    if gic::version() == GicVersion::V3 {
        let id = read_sysreg!("icc_iar0_el1");
        if id < 1020 {
            silence(id as u32);
            write_sysreg!("icc_eoir0_el1", id);
            return;
        }
    }
    let id = gic::acknowledge();
    if id < 1020 {
        silence(id as u32);
        gic::end(id);
        return;
    }
    // An interrupt is signalled and cannot be acknowledged: it is of the group that only the other
    // acknowledge register returns.
    if gic::version() == GicVersion::V2 {
        const AIAR: u64 = 0x20;
        const AEOIR: u64 = 0x24;
        let id = gic::v2::read(AIAR);
        if id & 0x3ff < 1020 {
            silence(id & 0x3ff);
            gic::v2::write(AEOIR, id);
        }
    }
}

fn silence(id: u32) {
    match hanok_types::IntId::new(id) {
        id if id == platform::UART_IRQ => console(),
        id if id == platform::RTC_IRQ => mmio::write32(platform::RTC.get() + 0x10, 0),
        _ => {}
    }
}

/// No interrupt is enabled, pending or active.
fn disable_all() {
    interface();
    for word in 0..9 {
        for row in [gic::ICENABLER, gic::ICPENDR, gic::ICACTIVER] {
            let frame = if word == 0 {
                gic::frame(0)
            } else {
                gic::distributor()
            };
            mmio::write32(frame + row + word * 4, u32::MAX);
        }
    }
    if gic::version() == GicVersion::V2 {
        for word in 0..4 {
            mmio::write32(gic::distributor() + gic::v2::CPENDSGIR + word * 4, u32::MAX);
        }
    }
}
