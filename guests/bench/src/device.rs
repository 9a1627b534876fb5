//! Measures an interrupt of a device that the VM has for itself: a PL061 (DDI 0190B) as on QEMU's
//! `virt`. Its lowest pin is low, so that it interrupts when it is set to do so at a low level.

use crate::measure::Stretch;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_bench_plan::{Device, Figure, Options};
use hanok_guest_runtime::{cpu, gic, mmio};
use hanok_types::platform;

const DIRECTION: u64 = 0x400;
const SENSE: u64 = 0x404;
const BOTH_EDGES: u64 = 0x408;
const EVENT: u64 = 0x40c;
const ENABLE: u64 = 0x410;
const PIN: u32 = 1;

const ROUNDS: u64 = 256;

/// The address of its registers, for the handler.
static REGISTERS: AtomicU64 = AtomicU64::new(0);
/// The number of interrupts that were taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Prints the figure.
pub fn measure(options: &Options) {
    let device = options.device.unwrap_or(Device {
        registers: platform::PASS_THROUGH.get(),
        interrupt: platform::PASS_THROUGH_IRQ.get(),
    });
    let registers = device.registers;
    for register in [ENABLE, DIRECTION, BOTH_EDGES, EVENT] {
        mmio::write32(registers + register, 0);
    }
    mmio::write32(registers + SENSE, PIN);
    gic::set_edge(device.interrupt, false);
    gic::route(device.interrupt, 0);
    gic::enable(device.interrupt);
    REGISTERS.store(registers, Relaxed);
    cpu::this().set_hook(Some(|_| {
        mmio::write32(REGISTERS.load(Relaxed) + ENABLE, 0);
        TAKEN.fetch_add(1, Relaxed);
    }));
    let stretch = Stretch {
        figure: Figure::Device,
        repeat: options.repeat,
        rounds: ROUNDS,
    };
    cpu::with_interrupts(|| stretch.compare(|| rounds(registers), || {}));
    cpu::this().set_hook(None);
    gic::disable(device.interrupt);
}

fn rounds(registers: u64) {
    for _ in 0..ROUNDS {
        let before = TAKEN.load(Relaxed);
        mmio::write32(registers + ENABLE, PIN);
        while TAKEN.load(Relaxed) == before {}
    }
}
