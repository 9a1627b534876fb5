//! Chooses the addresses that steps access.

use super::memory::SCRATCH;
use super::random::Random;
use crate::machine::Machine;
use crate::tree::Area;
use hanok_types::platform;

/// What an access to an address must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// No device: the access aborts.
    Nothing,
    /// Erased flash: all bits read as one.
    Flash,
    /// Registers that a device does not have: they read as zero.
    Quiet,
    /// A device's registers, or its edge: any result is allowed.
    Device,
    /// Free memory.
    Memory,
}

/// A physical address, and what is there.
#[derive(Clone, Copy)]
pub struct Spot {
    /// The address.
    pub physical: u64,
    /// What is there.
    pub place: Expectation,
}

const FLASH: Area = Area {
    start: platform::FLASH.get(),
    size: platform::FLASH_SIZE,
};
const VIRTIO: Area = Area {
    start: platform::VIRTIO.get(),
    size: platform::VIRTIO_SLOTS * platform::VIRTIO_STRIDE,
};
/// How far from its address an instruction may access memory.
pub const REACH: u64 = 1024;
/// The end of the addresses that stage 2 can map.
const LIMIT: u64 = 1 << 40;

/// The end of the addresses that steps access: those that stage 2 can map, and that the guest's own tables reach.
pub fn limit() -> u64 {
    crate::mmu::address_limit().min(LIMIT)
}

/// Chooses any address.
pub fn spot(machine: &Machine, random: &mut Random) -> Spot {
    match random.below(10) {
        0 => memory(random),
        1 => flash(random),
        2 => quiet(random),
        3..=5 => nothing(machine, random),
        _ => device(machine, random),
    }
}

/// Chooses any address that is not memory.
pub fn not_memory(machine: &Machine, random: &mut Random) -> Spot {
    match random.below(4) {
        0 => flash(random),
        1 => device(machine, random),
        _ => nothing(machine, random),
    }
}

/// Most accesses are aligned.
fn aligned(address: u64, random: &mut Random) -> u64 {
    match random.below(4) {
        0 => address,
        1 => address & !3,
        _ => address & !15,
    }
}

fn memory(random: &mut Random) -> Spot {
    let physical = SCRATCH.middle() - 256 + random.below(512);
    Spot {
        physical: aligned(physical, random),
        place: Expectation::Memory,
    }
}

fn flash(random: &mut Random) -> Spot {
    let physical = REACH + random.below(FLASH.size - 2 * REACH);
    Spot {
        physical: aligned(physical, random),
        place: Expectation::Flash,
    }
}

/// Behind the registers of the serial port and the clock, before their identification; and
/// behind those that a virtio transport without a device has.
fn quiet(random: &mut Random) -> Spot {
    let (start, size) = match random.below(3) {
        0 => (platform::UART.get() + 0x400, 0x700),
        1 => (platform::RTC.get() + 0x400, 0x700),
        _ => {
            let slot = random.below(platform::VIRTIO_SLOTS);
            let start = platform::VIRTIO.get() + slot * platform::VIRTIO_STRIDE;
            (start + 0x60, 0x140)
        }
    };
    Spot {
        physical: aligned(start + random.below(size), random),
        place: Expectation::Quiet,
    }
}

fn device(machine: &Machine, random: &mut Random) -> Spot {
    let count = machine.devices.len() as u64;
    let at = random.below(count + 1) as usize;
    let area = machine.devices.get(at).unwrap_or(&VIRTIO);
    let offset = match random.below(8) {
        0..=3 => random.below(0x60),
        4 => random.below(area.size.min(0x1000)),
        5 => area.size - random.below(16),
        6 => random.below(16).wrapping_neg(),
        _ => random.below(area.size),
    };
    Spot {
        physical: aligned(area.start.wrapping_add(offset), random) % limit(),
        place: Expectation::Device,
    }
}

fn nothing(machine: &Machine, random: &mut Random) -> Spot {
    loop {
        let physical = match random.below(8) {
            0 => random.next() % limit(),
            1 => machine.ram_end() + random.next() % (1 << 30),
            2 => 0x0c00_0000 + random.below(0x3400_0000),
            _ => 0x0801_0000 + random.below(0x0400_0000),
        };
        if REACH < physical && physical < limit() - REACH && !is_given(machine, physical) {
            return Spot {
                physical: aligned(physical, random),
                place: Expectation::Nothing,
            };
        }
    }
}

/// Returns whether the VM has memory or a device near the address.
fn is_given(machine: &Machine, physical: u64) -> bool {
    let others = [machine.memory(), FLASH, VIRTIO];
    let mut all = others.iter().chain(&machine.devices);
    all.any(|area| area.start < physical + REACH && physical < area.end() + REACH)
}
