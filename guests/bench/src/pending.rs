//! Measures what many pending interrupts cost: the timer's interrupt while others are pending, and
//! a burst of them taken one by one.
//!
//! A CPU has four to sixteen list registers. With more interrupts pending than that, a hypervisor
//! has to choose, and the more it examines for that, the longer each interrupt takes.

use crate::interrupt;
use crate::measure::Stretch;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use hanok_bench_plan::Figure;
use hanok_guest_runtime::{cpu, gic, mmio};

/// The first SPI that is used. The board's devices in use have lower ones.
const FIRST: u32 = 64;
/// A priority less urgent than the timer's.
const WAITING: u8 = 0xe0;
/// A priority mask between both: the pending SPIs are not taken.
const MASK: u8 = 0xc0;
/// The runtime's priority mask, which lets everything through.
const NO_MASK: u8 = 0xff;

/// Prints the cost of the timer's interrupt while `count` less urgent SPIs are pending, masked by
/// their priority.
pub fn beside(figure: Figure, count: u32, repeat: u32) {
    let ids = FIRST..FIRST + count;
    enable(ids.clone());
    ids.clone().for_each(|id| gic::set_priority(id, WAITING));
    gic::set_mask(MASK);
    pend(ids.clone());
    interrupt::measure(figure, repeat);
    ids.for_each(gic::disable);
    gic::set_mask(NO_MASK);
}

/// The number of SPIs of bursts that were taken.
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// Prints the cost of one of `count` SPIs that become pending together, by writes of whole words to
/// the distributor, and are then taken one after the other.
pub fn burst(figure: Figure, count: u32, repeat: u32) {
    let ids = FIRST..FIRST + count;
    enable(ids.clone());
    TAKEN.store(0, Relaxed);
    cpu::this().set_hook(Some(|_| {
        TAKEN.fetch_add(1, Relaxed);
    }));
    let stretch = Stretch {
        figure,
        repeat,
        rounds: count.into(),
    };
    let one = || {
        let end = TAKEN.load(Relaxed) + count;
        pend(ids.clone());
        cpu::with_interrupts(|| while TAKEN.load(Relaxed) != end {});
    };
    stretch.compare(one, || {});
    cpu::this().set_hook(None);
    ids.for_each(gic::disable);
}

fn enable(ids: Range<u32>) {
    ids.for_each(|id| {
        gic::set_edge(id, true);
        gic::enable(id);
    });
}

/// Makes these SPIs pending, a word of the distributor at a time.
fn pend(ids: Range<u32>) {
    for word in ids.start / 32..ids.end.div_ceil(32) {
        let first = word * 32;
        let bits = (first..first + 32).filter(|id| ids.contains(id));
        let mask = bits.fold(0, |mask, id| mask | 1 << (id - first));
        let register = gic::distributor() + gic::ISPENDR + u64::from(word) * 4;
        mmio::write32(register, mask);
    }
}
