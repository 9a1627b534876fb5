//! Attacks while the device works: all places of its queues have a request, and what these rest on goes elsewhere.

use super::client_attack::After::Any;
use super::client_attack::{Attack, Place, attack};
use super::memory::{
    ANSWER, AREA, AVAILABLE, DATA, Descriptor, HEADER, IS_TABLE, NEXT, QUEUE, TABLE, USED, WRITE,
};
use super::requests::{IN, OUT, Outcome, VSOCK, disk_header};
use super::transport::{Device, PARTS, SIZE, reads, writes};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use hanok_types::platform;

/// All of them.
pub const ALL: &[Attack] = &[
    attack("buffers that leave RAM under way", Any, |device, place| {
        each(device, place, |_, _| HOLE)
    }),
    attack(
        "buffers that get into a device under way",
        Any,
        |device, place| each(device, place, |_, _| UART),
    ),
    attack(
        "buffers that get into the device's registers under way",
        Any,
        |device, place| each(device, place, |device, _| device.at),
    ),
    attack(
        "buffers that get into flash under way",
        Any,
        |device, place| each(device, place, |_, _| 0),
    ),
    attack(
        "buffers that get across the end of RAM under way",
        Any,
        |device, place| each(device, place, |_, place| place.ram_end - 4),
    ),
    attack("buffers that wrap under way", Any, |device, place| {
        each(device, place, |_, _| !7)
    }),
    attack("buffers that grow under way", Any, |device, place| {
        change(device, place, |found| found.bytes = u32::MAX)
    }),
    attack("buffers that are gone under way", Any, |device, place| {
        change(device, place, |found| found.bytes = 0)
    }),
    attack(
        "buffers that change their direction under way",
        Any,
        |device, place| change(device, place, |found| found.flags ^= WRITE),
    ),
    attack("a loop that closes under way", Any, |device, place| {
        change(device, place, |found| {
            (found.flags, found.next) = (found.flags | NEXT, 0)
        })
    }),
    attack(
        "a next descriptor that is gone under way",
        Any,
        |device, place| {
            change(device, place, |found| {
                (found.flags, found.next) = (found.flags | NEXT, u16::MAX)
            })
        },
    ),
    attack(
        "buffers that become tables under way",
        Any,
        |device, place| change(device, place, |found| found.flags = IS_TABLE),
    ),
    attack("a ring that is spoilt under way", Any, rings),
    attack("a header that changes under way", Any, header),
];

/// Where nothing is, and where a device is.
const HOLE: u64 = 0x3000_0000;
const UART: u64 = platform::UART.get();
/// The milliseconds for which an answer is awaited that need not come.
const SHORT: u64 = 5;

/// How many requests were without an answer when they were changed.
pub static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

/// Makes as many requests of each queue as there is room for.
fn ask(device: &mut Device, place: &Place) {
    AREA.fill(HEADER, 64, 0);
    disk_header(IN, 0);
    let all = [reads(HEADER, 16), writes(DATA, 2048), writes(ANSWER, 1)];
    // A socket is asked when its buffers have changed.
    let is_later = |queue| device.kind == VSOCK && queue == place.queue;
    let queues = (0..device.queues()).filter(|queue| !is_later(*queue));
    for queue in queues.collect::<heapless::Vec<_, 4>>() {
        let parts = if queue == place.queue {
            &all
        } else {
            &all[1..2]
        };
        for _ in 0..SIZE / PARTS {
            device.submit(queue, parts);
        }
    }
}

/// Counts what is under way, has the device go on, and gives it some time.
fn go_on(device: &mut Device, place: &Place) -> Outcome {
    for queue in 0..device.queues() {
        let used = AREA.get(u64::from(queue) * QUEUE + USED + 2);
        let open = device.next[queue as usize].wrapping_sub(used);
        UNDER_WAY.fetch_add(open.min(SIZE).into(), Relaxed);
    }
    if device.kind == VSOCK {
        // Its answer gets into one of the buffers.
        device.connect();
    }
    (0..device.queues()).for_each(|queue| device.notify(queue));
    device.wait_ms(place.queue, SHORT);
    Ok(())
}

/// Changes all descriptors that are under way.
fn change(device: &mut Device, place: &Place, change: impl Fn(&mut Descriptor)) -> Outcome {
    ask(device, place);
    for queue in 0..u64::from(device.queues()) {
        for index in 0..SIZE.into() {
            let table = queue * QUEUE + TABLE;
            let mut found = AREA.described(table, index);
            change(&mut found);
            AREA.describe(table, index, found);
        }
    }
    go_on(device, place)
}

/// All buffers get to where `to` says.
fn each(device: &mut Device, place: &Place, to: fn(&Device, &Place) -> u64) -> Outcome {
    let at = to(device, place);
    change(device, place, |found| found.at = at)
}

fn rings(device: &mut Device, place: &Place) -> Outcome {
    for value in [0, u16::MAX, 0x8000, SIZE] {
        device.set_up()?;
        ask(device, place);
        for queue in 0..u64::from(device.queues()) {
            let ring = queue * QUEUE;
            AREA.fill(ring + USED, 4 + 8 * u64::from(SIZE), 0xff);
            AREA.set(ring + AVAILABLE + 2, value);
            (0..SIZE.into()).for_each(|at| AREA.set(ring + AVAILABLE + 4 + 2 * at, value));
        }
        go_on(device, place)?;
    }
    Ok(())
}

/// What a disk is asked for: other sectors, and other things.
fn header(device: &mut Device, place: &Place) -> Outcome {
    for (what, sector) in [(OUT, u32::MAX), (IN, 1 << 31), (4, 0), (u32::MAX, u32::MAX)] {
        device.set_up()?;
        ask(device, place);
        disk_header(what, sector);
        go_on(device, place)?;
    }
    Ok(())
}
