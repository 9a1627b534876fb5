//! A client with two vCPUs (`conformance.run=virtio-racer`): while the first one makes requests, the second one changes what these
//! rest on, without a pause: descriptors, rings, headers, registers. Whatever the device reads twice may be another thing then.

use super::client::Options;
use super::client_attack::Place;
use super::memory::{
    ANSWER, AREA, AVAILABLE, DATA, Descriptor, HEADER, INDIRECT, IS_TABLE, NEXT, QUEUE, TABLE,
    USED, WRITE, buffer,
};
use super::registers::TARGETS;
use super::requests::{IN, Outcome, disk_header};
use super::transport::{
    Device, PARTS, QUEUE_NOTIFY, QUEUE_READY, QUEUE_SELECT, SIZE, STATUS, devices, reads, writes,
};
use crate::fuzz::random::Random;
use crate::machine::Machine;
use crate::mmio::write32;
use crate::{psci, smp};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use hanok_types::platform;

/// What the second vCPU does again and again.
struct Spoiler {
    name: &'static str,
    run: fn(&Target, &mut Random),
}

const fn spoiler(name: &'static str, run: fn(&Target, &mut Random)) -> Spoiler {
    Spoiler { name, run }
}

const ALL: &[Spoiler] = &[
    spoiler("addresses", |target, random| {
        let (table, index) = target.descriptor(random);
        AREA.put(table + 16 * index, target.address(random), 8);
    }),
    spoiler("lengths", |target, random| {
        let (table, index) = target.descriptor(random);
        let bytes = random.pick(&[0, 1, 16, 512, 2048, 1 << 31, u32::MAX]);
        AREA.put(table + 16 * index + 8, bytes.into(), 4);
    }),
    spoiler("flags", |target, random| {
        let (table, index) = target.descriptor(random);
        let flags = random.pick(&[0, NEXT, NEXT, NEXT | WRITE, WRITE, IS_TABLE]);
        AREA.set(table + 16 * index + 12, flags);
    }),
    spoiler("the next descriptors", |target, random| {
        let (table, index) = target.descriptor(random);
        let next = random.pick(&[0, 1, 2, 3, SIZE - 1, SIZE, u16::MAX]);
        AREA.set(table + 16 * index + 14, next);
    }),
    spoiler("whole descriptors", |target, random| {
        let (table, index) = target.descriptor(random);
        let descriptor = Descriptor {
            at: target.address(random),
            bytes: random.pick(&[1, 16, 512, 2048, 1 << 31]),
            flags: random.pick(&[0, NEXT, NEXT | WRITE, WRITE, IS_TABLE]),
            next: random.below(SIZE.into()) as u16,
        };
        AREA.describe(table, index, descriptor);
    }),
    spoiler("the ring's index", |target, random| {
        let at = target.ring(AVAILABLE) + 2;
        let by = random.pick(&[1, 1, 2, u16::MAX, SIZE, 0x8000]);
        AREA.set(at, AREA.get(at).wrapping_add(by));
    }),
    spoiler("the ring's entries", |target, random| {
        let at = target.ring(AVAILABLE) + 4 + 2 * random.below(SIZE.into());
        AREA.set(at, random.pick(&[0, 4, 8, 12, 1, SIZE, u16::MAX]));
    }),
    spoiler("the ring that is written", |target, random| {
        let at = target.ring(USED) + 2 * random.below(2 + 4 * u64::from(SIZE));
        AREA.set(at, random.next() as u16);
    }),
    spoiler("headers", |_, random| {
        let what = random.pick(&[0, 1, 4, 8, 11, u32::MAX]);
        let sector = random.pick(&[0, 1, u64::from(u32::MAX), 1 << 55, u64::MAX]);
        AREA.put(HEADER, what.into(), 8);
        AREA.put(HEADER + 8, sector, 8);
    }),
    spoiler("notifications", |target, random| {
        write32(target.at + QUEUE_NOTIFY, random.below(5) as u32);
    }),
    spoiler("resets", |target, _| write32(target.at + STATUS, 0)),
    spoiler("the status", |target, random| {
        write32(target.at + STATUS, random.pick(&[0, 1, 3, 11, 15, 15, 4]));
    }),
    spoiler("the queues' registers", |target, random| {
        write32(target.at + QUEUE_SELECT, random.below(4) as u32);
        write32(target.at + QUEUE_READY, random.below(2) as u32);
    }),
    spoiler("any register", |target, random| {
        write32(target.at + random.pick(&TARGETS), random.value() as u32);
    }),
];

/// The descriptors of a request in a table: more than are looked at in one piece of work.
const LONG: u16 = 20;
/// The milliseconds for which an answer is awaited that need not come.
const SHORT: u64 = 1;

/// For the second vCPU: whether it is over, what it does, by which seed, and about what.
static OVER: AtomicBool = AtomicBool::new(false);
static WHAT: AtomicUsize = AtomicUsize::new(0);
static SEED: AtomicU64 = AtomicU64::new(0);
static TARGET: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// How often it has done it.
static DONE: AtomicU64 = AtomicU64::new(0);

/// What is attacked.
struct Target {
    /// The device's registers.
    at: u64,
    /// The queue by which it is asked for something.
    queue: u64,
    /// The first address behind RAM.
    ram_end: u64,
}

impl Target {
    fn set(&self) {
        let all = [self.at, self.queue, self.ram_end];
        (TARGET.iter().zip(all)).for_each(|(place, value)| place.store(value, SeqCst));
    }

    fn get() -> Self {
        let [at, queue, ram_end] = TARGET.each_ref().map(|place| place.load(SeqCst));
        Self { at, queue, ram_end }
    }

    fn ring(&self, part: u64) -> u64 {
        self.queue * QUEUE + part
    }

    /// A descriptor that requests use: the table, and the index there.
    fn descriptor(&self, random: &mut Random) -> (u64, u64) {
        match random.below(3) {
            0 => (INDIRECT, random.below(LONG.into())),
            _ => (self.ring(TABLE), random.below(SIZE.into())),
        }
    }

    /// Where something is that a request may name, or where nothing is.
    fn address(&self, random: &mut Random) -> u64 {
        let data = AREA.address(DATA);
        let outside = [
            0,
            0x3000_0000,
            platform::UART.get(),
            self.at,
            self.ram_end,
            self.ram_end - 4,
            !0xf,
            u64::MAX,
        ];
        match random.below(2) {
            0 => random.pick(&[data, data, AREA.address(HEADER), AREA.address(INDIRECT)]),
            _ => random.pick(&outside),
        }
    }
}

/// Spoils, on the second vCPU.
fn spoil(_: usize) {
    let spoiler = &ALL[WHAT.load(SeqCst)];
    let target = Target::get();
    let mut random = Random::of(SEED.load(SeqCst), WHAT.load(SeqCst) as u64);
    while !OVER.load(SeqCst) {
        (spoiler.run)(&target, &mut random);
        DONE.fetch_add(1, SeqCst);
    }
}

/// What came of the requests beside one of them.
#[derive(Default)]
struct Counts {
    answers: u32,
    broken: u32,
}

/// Races on all devices.
pub fn run(machine: &Machine, options: Options) {
    let (mut count, mut done, mut failed) = (0, 0, 0);
    if machine.cpus < 2 {
        println!("FAIL virtio racer: a second vCPU is needed");
    }
    for mut device in devices() {
        count += 1;
        let name = device.name();
        let place = Place {
            ram_end: machine.ram_end(),
            queue: device.asks_by(),
        };
        AREA.set_guard();
        if let Err(why) = recovers(&mut device) {
            println!("FAIL virtio racer: {name} before all: {why}");
            failed += 1;
            continue;
        }
        for (index, spoiler) in ALL.iter().enumerate() {
            let mut counts = Counts::default();
            let outcome = race(&mut device, &place, (options, index), &mut counts);
            if let Err(why) = outcome.and_then(|()| recovers(&mut device)) {
                failed += 1;
                println!("FAIL virtio racer: {name}: {}: {why}", spoiler.name);
            }
            let Counts { answers, broken } = counts;
            println!(
                "virtio racer: {name}: {}: {answers} answers, broken {broken} times, changed {} times",
                spoiler.name,
                DONE.swap(0, SeqCst)
            );
            done += 1;
        }
    }
    println!("virtio racer: done, {count} devices, {done} races, {failed} wrong");
}

/// Makes requests while the other vCPU spoils them.
fn race(
    device: &mut Device,
    place: &Place,
    (options, what): (Options, usize),
    counts: &mut Counts,
) -> Outcome {
    let target = Target {
        at: device.at,
        queue: place.queue.into(),
        ram_end: place.ram_end,
    };
    target.set();
    SEED.store(options.seed, SeqCst);
    WHAT.store(what, SeqCst);
    OVER.store(false, SeqCst);
    device.set_up()?;
    if smp::start(1, spoil) != psci::SUCCESS {
        return Err("the other vCPU does not start");
    }
    for _ in 0..options.rounds {
        device.set_up_blindly();
        ask(device, place);
        // The ring may say what it likes.
        let answers = (0..u32::from(SIZE)).map_while(|_| device.wait_ms(place.queue, SHORT));
        counts.answers += answers.count() as u32;
        counts.broken += u32::from(device.is_broken());
    }
    OVER.store(true, SeqCst);
    if smp::wait_off(1) {
        Ok(())
    } else {
        Err("the other vCPU does not come to its end")
    }
}

/// Requests of a few descriptors of the queue's own table, and one of a long table.
fn ask(device: &mut Device, place: &Place) {
    AREA.fill(HEADER, 64, 0);
    disk_header(IN, 0);
    for index in 0..LONG {
        let (at, bytes, flags) = match index {
            0 => (HEADER, 16, 0),
            1..8 => (HEADER, 2, 0),
            _ if index + 1 == LONG => (ANSWER, 1, WRITE),
            _ => (DATA, 128, WRITE),
        };
        let next = if index + 1 == LONG { 0 } else { NEXT };
        let descriptor = Descriptor {
            next: index + 1,
            ..buffer(at, bytes, flags | next)
        };
        AREA.describe(INDIRECT, index.into(), descriptor);
    }
    let few = [reads(HEADER, 16), writes(DATA, 512), writes(ANSWER, 1)];
    let long = [buffer(INDIRECT, 16 * u32::from(LONG), IS_TABLE)];
    for queue in 0..device.queues() {
        for index in 0..SIZE / PARTS {
            let parts: &[Descriptor] = match (queue == place.queue, index % 2) {
                (false, _) => &few[1..2],
                (_, 0) => &few,
                _ => &long,
            };
            device.submit(queue, parts);
        }
    }
}

/// Resets the device, which has to serve then, and looks for memory that nobody may have written.
fn recovers(device: &mut Device) -> Outcome {
    device.set_up()?;
    device.serves()?;
    if AREA.guard_holds() {
        return Ok(());
    }
    AREA.set_guard();
    Err("memory was written that no request names")
}
