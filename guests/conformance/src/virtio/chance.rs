//! Rounds by chance: registers, queues and tables of descriptors filled with what the seed says.

use super::memory::{
    AREA, AVAILABLE, BYTES, DATA, Descriptor, GUARD, HEADER, INDIRECT, INNER, IS_TABLE, NEXT,
    QUEUE, QUEUES, TABLE, WRITE,
};
use super::registers::TARGETS;
use super::requests::Outcome;
use super::transport::{CONFIG, Device, SIZE, STATUS};
use crate::fuzz::random::Random;
use hanok_types::platform;

/// How often something is stored in a round.
const STEPS: u64 = 24;
/// The most stores to the configuration in a round: a back end may have to answer each.
const CONFIG_STORES: u64 = 2;

/// A round on a device that serves, which is of any state then.
pub fn round(device: &mut Device, seed: u64, index: u64) -> Outcome {
    let mut random = Random::of(seed ^ u64::from(device.kind) << 32, index);
    device.set_up()?;
    let queues = u64::from(device.queues()).clamp(1, QUEUES);
    for queue in 0..queues {
        fill(queue, &mut random);
    }
    for _ in 0..STEPS {
        match random.below(8) {
            0 => {
                let register = random.pick(&TARGETS);
                device.write(register, random.value() as u32);
            }
            1 => {
                let register = random.below(CONFIG / 4) * 4;
                // A reset would end the round.
                if register != STATUS {
                    device.write(register, random.value() as u32);
                }
            }
            2 => drop(device.read(random.below(CONFIG / 4) * 4)),
            3 => fill(random.below(queues), &mut random),
            _ => {
                let queue = random.below(queues);
                let at = queue * QUEUE + AVAILABLE + 2;
                let by = if random.once_in(8) {
                    random.next() as u16
                } else {
                    random.below(4) as u16
                };
                AREA.set(at, AREA.get(at).wrapping_add(by));
                device.notify(queue as u32);
            }
        }
    }
    for _ in 0..random.below(CONFIG_STORES + 1) {
        device.write(CONFIG + random.below(64) * 4, random.value() as u32);
    }
    Ok(())
}

/// Fills the table and the ring of a queue, and the tables that descriptors name.
fn fill(queue: u64, random: &mut Random) {
    AREA.fill_by_chance(HEADER, 64, random);
    let own = queue * QUEUE;
    for table in [own + TABLE, INDIRECT, INNER] {
        for index in 0..SIZE {
            AREA.describe(table, index.into(), descriptor(random));
        }
    }
    for entry in 0..u64::from(SIZE) {
        let head = if random.once_in(16) {
            random.next() as u16
        } else {
            random.below(SIZE.into()) as u16
        };
        AREA.set(own + AVAILABLE + 4 + 2 * entry, head);
    }
}

/// A descriptor. If the device writes all of it that is RAM, that is a page that may be written.
fn descriptor(random: &mut Random) -> Descriptor {
    let outside = [
        0,
        0x3000_0000,
        platform::UART.get(),
        !0xfff,
        u64::MAX,
        AREA.address(BYTES) + (1 << 34),
    ];
    let lengths = [0, 1, 2, 15, 16, 32, 64, 65, 512, 1024, 2048];
    let (at, bytes) = match random.below(8) {
        0 => (random.pick(&outside), random.value() as u32),
        1 => (
            AREA.address(random.pick(&[INDIRECT, INNER])),
            16 * random.below(u64::from(SIZE) + 2) as u32,
        ),
        2 => (AREA.address(HEADER), 16),
        // More than RAM has: nobody can write that.
        3 => (AREA.address(DATA), 0x8000_0000 | random.next() as u32),
        _ => (
            AREA.address(DATA + random.below((GUARD - DATA) / 2)),
            random.pick(&lengths),
        ),
    };
    Descriptor {
        at,
        bytes,
        flags: if random.once_in(16) {
            random.next() as u16
        } else {
            random.pick(&[0, NEXT, NEXT, WRITE, NEXT | WRITE, IS_TABLE])
        },
        next: if random.once_in(16) {
            random.next() as u16
        } else {
            random.below(SIZE.into()) as u16
        },
    }
}
