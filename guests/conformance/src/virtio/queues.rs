//! Attacks by what is in a queue, and by where it is (virtio 1.2, 2.7).

use super::client_attack::After::{Any, Broken, Live, Walked};
use super::client_attack::{Attack, Place, attack};
use super::memory::{
    ANSWER, AREA, AVAILABLE, DATA, Descriptor, HEADER, INDIRECT as TABLE_AT, INNER, IS_TABLE, LONG,
    NEXT, QUEUE, TABLE, USED, WRITE, buffer,
};
use super::requests::{
    BLOCK, CONSOLE, DISK_HEADER, DONE, IN, INPUT, NETWORK, OUT, Outcome, VSOCK, disk_header,
};
use super::transport::{Device, EVENT_INDEX, INDIRECT, SIZE, VERSION_1, reads, writes};
use hanok_types::platform;

/// All of them.
pub const ALL: &[Attack] = &[
    attack("a queue outside RAM", Broken, |device, place| {
        at(device, place, HOLE)
    }),
    attack("a queue in a device", Broken, |device, place| {
        at(device, place, UART)
    }),
    attack("a queue in its own registers", Broken, |device, place| {
        let own = device.at & !0xfff;
        at(device, place, own)
    }),
    attack(
        "a queue at the end of all addresses",
        Broken,
        |device, place| at(device, place, !0xfff),
    ),
    attack("a queue at the first address", Broken, |device, place| {
        at(device, place, 0)
    }),
    attack("a queue across the end of RAM", Broken, across_end),
    attack("a queue that wraps", Any, wraps),
    attack("a queue that is not aligned", Any, not_aligned),
    attack("a queue whose parts overlap", Any, overlapping),
    attack("a queue over another one", Any, over_another),
    attack("an index that jumps", Broken, |device, place| {
        jump(device, place, SIZE + 1)
    }),
    attack("an index far away", Broken, |device, place| {
        jump(device, place, 0x8000)
    }),
    attack("an index that goes backwards", Broken, |device, place| {
        jump(device, place, u16::MAX)
    }),
    attack("a first descriptor that is not there", Broken, absent_head),
    attack("a request that comes twice", Any, twice),
    attack("a used ring that is written", Live, written_used),
    attack("wishes of an index far away", Any, wishes),
    attack("a loop of descriptors", Walked, |device, place| {
        chain(device, place, true)
    }),
    attack("a next descriptor that is not there", Walked, absent_next),
    attack("too many descriptors", Walked, too_many),
    attack("a table in a table", Broken, nested),
    attack(
        "a table that is followed by a descriptor",
        Broken,
        table_and_next,
    ),
    attack("tables of no whole number of descriptors", Any, odd_tables),
    attack("a table that was not agreed on", Broken, no_tables),
    attack("a table outside RAM", Broken, table_outside),
    attack("a table that names itself", Walked, table_of_itself),
    attack("a buffer to read after one to write", Walked, order),
    attack("a buffer that wraps", Broken, buffer_wraps),
    attack("buffers of 4 GiB together", Any, too_long),
    attack("a request of no bytes", Any, empty),
    attack("a request without a header", Any, no_header),
    attack("a header alone", Any, header_alone),
    attack("a header in single bytes", Any, scattered),
    attack("buffers to read outside RAM", Any, read_outside),
    attack("buffers to write outside RAM", Any, write_outside),
    attack("buffers across the end of RAM", Any, across_ram),
    attack("all of RAM as a buffer", Any, whole_ram),
];

/// Where nothing is, and where a device is.
const HOLE: u64 = 0x3000_0000;
const UART: u64 = platform::UART.get();

impl Device {
    /// The queue by which it is asked for something.
    pub fn asks_by(&self) -> u32 {
        match self.kind {
            NETWORK | CONSOLE | INPUT | VSOCK => 1,
            _ => 0,
        }
    }
}

/// Agrees on features, makes the queue at `places`, and asks for something.
fn with_queue(device: &mut Device, place: &Place, places: [u64; 3]) -> Outcome {
    device.agree(VERSION_1 | INDIRECT)?;
    device.make_queues(Some(place.queue));
    device.make_queue(place.queue, SIZE.into(), places);
    device.go();
    device.submit(place.queue, &[reads(HEADER, 16), writes(DATA, 16)]);
    Ok(())
}

fn at(device: &mut Device, place: &Place, at: u64) -> Outcome {
    with_queue(device, place, [at, at + 0x400, at + 0x800])?;
    device.set_up()?;
    let [table, available, used] = Device::places(place.queue);
    // Each part alone. What is elsewhere is found when it is used.
    with_queue(device, place, [table, available, at + 0x800])?;
    with_queue(device, place, [at, available, used])?;
    device.set_up()?;
    with_queue(device, place, [table, at + 0x400, used])
}

fn across_end(device: &mut Device, place: &Place) -> Outcome {
    let [table, _, used] = Device::places(place.queue);
    with_queue(device, place, [table, place.ram_end - 2, used])
}

fn wraps(device: &mut Device, place: &Place) -> Outcome {
    let [table, available, used] = Device::places(place.queue);
    with_queue(device, place, [!0xf, available, used])?;
    with_queue(device, place, [table, !1, used])?;
    with_queue(device, place, [table, available, !3])
}

fn not_aligned(device: &mut Device, place: &Place) -> Outcome {
    let [table, available, used] = Device::places(place.queue);
    with_queue(device, place, [table + 8, available, used])?;
    with_queue(device, place, [table, available + 1, used])?;
    with_queue(device, place, [table, available, used + 2])
}

fn overlapping(device: &mut Device, place: &Place) -> Outcome {
    let [table, available, _] = Device::places(place.queue);
    with_queue(device, place, [table; 3])?;
    with_queue(device, place, [table, available, available])?;
    with_queue(device, place, [available, available, available + 4])?;
    // The rings are where the buffers are.
    let data = AREA.address(DATA);
    with_queue(device, place, [table, data, data])
}

fn over_another(device: &mut Device, place: &Place) -> Outcome {
    let other = Device::places(place.queue ^ 1);
    with_queue(device, place, other)?;
    device.submit(place.queue ^ 1, &[reads(HEADER, 16), writes(DATA, 16)]);
    device.notify(place.queue);
    Ok(())
}

fn ring(place: &Place, part: u64) -> u64 {
    u64::from(place.queue) * QUEUE + part
}

fn jump(device: &mut Device, place: &Place, by: u16) -> Outcome {
    AREA.set(ring(place, AVAILABLE) + 2, by);
    device.notify(place.queue);
    Ok(())
}

fn absent_head(device: &mut Device, place: &Place) -> Outcome {
    device.publish(place.queue, SIZE);
    device.notify(place.queue);
    Ok(())
}

fn twice(device: &mut Device, place: &Place) -> Outcome {
    AREA.describe(ring(place, TABLE), 0, reads(HEADER, 16));
    for _ in 0..SIZE {
        device.publish(place.queue, 0);
    }
    device.notify(place.queue);
    device.notify(place.queue);
    Ok(())
}

/// The device writes its ring, and does not read it.
fn written_used(_: &mut Device, place: &Place) -> Outcome {
    let used = ring(place, USED);
    AREA.fill(used, 4 + 8 * u64::from(SIZE), 0xff);
    AREA.set(used, 0);
    AREA.set(used + 2, 0);
    Ok(())
}

/// Where the driver wants to be told, by an index that is nowhere near.
fn wishes(device: &mut Device, place: &Place) -> Outcome {
    device.set_up_with(VERSION_1 | INDIRECT | EVENT_INDEX)?;
    let event = ring(place, AVAILABLE) + 4 + 2 * u64::from(SIZE);
    for index in [0x8000, u16::MAX, 1, 0] {
        AREA.set(event, index);
        device.submit(place.queue, &[reads(HEADER, 16), writes(DATA, 16)]);
    }
    Ok(())
}

/// A request of these descriptors in the queue's table.
fn request(device: &mut Device, place: &Place, descriptors: &[Descriptor]) {
    for (index, descriptor) in (0..).zip(descriptors) {
        AREA.describe(ring(place, TABLE), index, *descriptor);
    }
    device.publish(place.queue, 0);
    device.notify(place.queue);
}

/// A request of the descriptors of a table, of `bytes` bytes.
fn table(device: &mut Device, place: &Place, at: u64, bytes: u32) {
    request(device, place, &[buffer(at, bytes, IS_TABLE)]);
}

/// Descriptors that lead from one to the next, the last one to the first one if it is a loop.
fn chain(device: &mut Device, place: &Place, is_loop: bool) -> Outcome {
    for index in 0..SIZE {
        let next = (index + 1) % SIZE;
        let flags = if next == 0 && !is_loop { 0 } else { NEXT };
        let descriptor = Descriptor {
            next,
            ..buffer(HEADER, 2, flags)
        };
        AREA.describe(ring(place, TABLE), index.into(), descriptor);
    }
    device.publish(place.queue, 0);
    device.notify(place.queue);
    Ok(())
}

fn absent_next(device: &mut Device, place: &Place) -> Outcome {
    let next = SIZE;
    request(
        device,
        place,
        &[Descriptor {
            next,
            ..buffer(HEADER, 16, NEXT)
        }],
    );
    Ok(())
}

/// A table of 1,025 descriptors, which all are of the request.
fn too_many(device: &mut Device, place: &Place) -> Outcome {
    let count = 1025;
    for index in 0..count {
        let next = index + 1;
        let flags = if next == count { 0 } else { NEXT };
        let descriptor = Descriptor {
            next,
            ..buffer(HEADER, 2, flags)
        };
        AREA.describe(LONG, index.into(), descriptor);
    }
    table(device, place, LONG, u32::from(count) * 16);
    Ok(())
}

fn nested(device: &mut Device, place: &Place) -> Outcome {
    AREA.describe(INNER, 0, reads(HEADER, 16));
    AREA.describe(TABLE_AT, 0, buffer(INNER, 16, IS_TABLE));
    table(device, place, TABLE_AT, 16);
    Ok(())
}

fn table_and_next(device: &mut Device, place: &Place) -> Outcome {
    AREA.describe(TABLE_AT, 0, reads(HEADER, 16));
    let first = Descriptor {
        next: 1,
        ..buffer(TABLE_AT, 16, IS_TABLE | NEXT)
    };
    request(device, place, &[first, writes(DATA, 16)]);
    Ok(())
}

fn odd_tables(device: &mut Device, place: &Place) -> Outcome {
    for bytes in [0, 1, 15, 17, 0x1_0001, u32::MAX, u32::MAX - 15, 1 << 31] {
        device.set_up()?;
        AREA.describe(TABLE_AT, 0, reads(HEADER, 16));
        table(device, place, TABLE_AT, bytes);
        if !device.is_broken() {
            return Err("a table of no whole number of descriptors, or of too many");
        }
    }
    Ok(())
}

fn no_tables(device: &mut Device, place: &Place) -> Outcome {
    device.set_up_with(VERSION_1)?;
    AREA.describe(TABLE_AT, 0, reads(HEADER, 16));
    table(device, place, TABLE_AT, 16);
    Ok(())
}

fn table_outside(device: &mut Device, place: &Place) -> Outcome {
    for at in [UART, u64::MAX - 15, place.ram_end, HOLE] {
        device.set_up()?;
        request(
            device,
            place,
            &[Descriptor {
                at,
                ..buffer(0, 16, IS_TABLE)
            }],
        );
    }
    Ok(())
}

/// The queue's own table is the one that the descriptor names.
fn table_of_itself(device: &mut Device, place: &Place) -> Outcome {
    table(device, place, ring(place, TABLE), 16);
    Ok(())
}

fn order(device: &mut Device, place: &Place) -> Outcome {
    let first = Descriptor {
        next: 1,
        ..buffer(DATA, 16, WRITE | NEXT)
    };
    request(device, place, &[first, reads(HEADER, 16)]);
    Ok(())
}

fn buffer_wraps(device: &mut Device, place: &Place) -> Outcome {
    let at = u64::MAX - 15;
    request(
        device,
        place,
        &[Descriptor {
            at,
            ..writes(0, 32)
        }],
    );
    Ok(())
}

fn too_long(device: &mut Device, place: &Place) -> Outcome {
    let half = |flags| Descriptor {
        next: 1,
        ..buffer(DATA, 1 << 31, flags)
    };
    request(device, place, &[half(NEXT), half(0)]);
    device.set_up()?;
    request(device, place, &[half(NEXT | WRITE), half(WRITE)]);
    Ok(())
}

fn empty(device: &mut Device, place: &Place) -> Outcome {
    let first = Descriptor {
        next: 1,
        ..buffer(HEADER, 0, NEXT)
    };
    request(device, place, &[first, writes(DATA, 0)]);
    Ok(())
}

/// The device is not asked for what it could do: there is no room for the answer, or no question.
fn no_header(device: &mut Device, place: &Place) -> Outcome {
    request(device, place, &[writes(DATA, 1)]);
    device.wait_ms(place.queue, SHORT);
    device.set_up()?;
    request(device, place, &[reads(HEADER, 2)]);
    device.wait_ms(place.queue, SHORT);
    device.set_up()?;
    let first = Descriptor {
        next: 1,
        ..buffer(HEADER, 3, NEXT)
    };
    request(device, place, &[first, writes(ANSWER, 1)]);
    device.wait_ms(place.queue, SHORT);
    Ok(())
}

fn header_alone(device: &mut Device, place: &Place) -> Outcome {
    for what in [IN, OUT, 4, 8, 11, 13, 77] {
        device.set_up()?;
        disk_header(what, 0);
        request(device, place, &[reads(HEADER, DISK_HEADER)]);
        device.wait_ms(place.queue, SHORT);
    }
    Ok(())
}

/// The header in single bytes, then an answer in single bytes.
fn scattered(device: &mut Device, place: &Place) -> Outcome {
    disk_header(IN, 0);
    for index in 0..48 {
        let next = if index == 47 { 0 } else { NEXT };
        let at = if index < 16 { HEADER } else { DATA } + u64::from(index);
        let flags = if index < 16 { next } else { next | WRITE };
        let descriptor = Descriptor {
            next: index + 1,
            ..buffer(at, 1, flags)
        };
        AREA.describe(TABLE_AT, index.into(), descriptor);
    }
    table(device, place, TABLE_AT, 48 * 16);
    device.wait_ms(place.queue, SHORT);
    Ok(())
}

/// A request, as of a disk, whose data are at `at`. A disk must not say that it is done.
fn data_at(device: &mut Device, place: &Place, what: u32, (at, bytes): (u64, u32)) -> Outcome {
    device.set_up()?;
    disk_header(what, 0);
    let flags = if what == IN { WRITE } else { 0 };
    let first = Descriptor {
        next: 1,
        ..buffer(HEADER, DISK_HEADER, NEXT)
    };
    let data = Descriptor {
        at,
        bytes,
        flags: flags | NEXT,
        next: 2,
    };
    request(device, place, &[first, data, writes(ANSWER, 1)]);
    device.wait_ms(place.queue, SHORT);
    match (device.kind, AREA.byte(ANSWER)) {
        (BLOCK, DONE) => Err("the disk says that it has read or written where no memory is"),
        _ => Ok(()),
    }
}

fn read_outside(device: &mut Device, place: &Place) -> Outcome {
    for at in [HOLE, UART, 0, place.ram_end, !0xfff] {
        data_at(device, place, OUT, (at, 512))?;
    }
    data_at(device, place, OUT, (HOLE, 8))
}

fn write_outside(device: &mut Device, place: &Place) -> Outcome {
    for at in [HOLE, UART, 0, place.ram_end, !0xfff] {
        data_at(device, place, IN, (at, 512))?;
        data_at(device, place, IN, (at, 4096))?;
    }
    data_at(device, place, IN, (HOLE, 8))
}

fn across_ram(device: &mut Device, place: &Place) -> Outcome {
    let end = place.ram_end;
    data_at(device, place, OUT, (end - 256, 512))?;
    data_at(device, place, OUT, (end - 4, 8))?;
    data_at(device, place, IN, (end - 4, 512))
}

/// More than RAM has: to be read, and to be written.
fn whole_ram(device: &mut Device, place: &Place) -> Outcome {
    data_at(device, place, OUT, (AREA.address(0), 1 << 30))?;
    data_at(device, place, IN, (AREA.address(DATA), 1 << 30))
}

/// The milliseconds for which an answer is awaited that need not come.
const SHORT: u64 = 20;
