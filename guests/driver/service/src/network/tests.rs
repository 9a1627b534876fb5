use super::Switch;
use super::frame::{PREFIX, RECEIVE, SEND};
use crate::fake::client::{Client, leaked};
use crate::fake::{Registers, install, mmio, said};
use crate::memory::{FRAME_DESCRIPTORS, FRAME_PLACES, PLACES, PortMemory, UplinkMemory, address};
use crate::wanted::{BoardDevice, Served};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// The flag of a descriptor that may be written.
const WRITE: u64 = 2 << 32;
/// The bytes of a frame with what is before it.
const BYTES: u32 = 100;
/// Where the board's device is.
const DEVICE: u64 = 0x0a00_0000;
/// An address that nobody of the switch has.
const OUTSIDE: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x35, 2];

/// A virtio device of the board's, which answers nothing by itself (virtio 1.2, 4.2.2).
#[derive(Default)]
struct Board {
    values: BTreeMap<u64, u32>,
}

impl Registers for Board {
    fn read(&mut self, offset: u64) -> u32 {
        match offset {
            0x000 => u32::from_le_bytes(*b"virt"),
            0x004 => 2,
            0x008 => 1,
            // All features, of which the driver takes those that it knows.
            0x010 => u32::MAX,
            0x034 => PLACES as u32,
            _ => self.values.get(&offset).copied().unwrap_or(0),
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        self.values.insert(offset, value);
    }
}

/// A client with its memory.
struct End {
    client: Client,
    memory: &'static PortMemory,
    sent: u16,
    offered: u16,
}

impl End {
    /// Sends a frame, by which the first words are known.
    fn send(&mut self, from: [u8; 6], to: [u8; 6], kind: u16) {
        let words = &self.memory.sent[usize::from(self.sent)];
        let (table, data) = words.split_at(2 * FRAME_DESCRIPTORS);
        let mut bytes = [0_u8; 32];
        bytes[PREFIX..PREFIX + 6].copy_from_slice(&to);
        bytes[PREFIX + 6..PREFIX + 12].copy_from_slice(&from);
        bytes[PREFIX + 12..PREFIX + 14].copy_from_slice(&kind.to_be_bytes());
        for (word, part) in data.iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*part), Relaxed);
        }
        table[0].store(address(data), Relaxed);
        table[1].store(BYTES.into(), Relaxed);
        self.client.give(SEND, self.sent, 16);
        self.sent = (self.sent + 1) % FRAME_PLACES as u16;
    }

    /// Gives `count` buffers for whole frames.
    fn offer(&mut self, count: usize) {
        for _ in 0..count {
            let words: &[AtomicU64] = &self.memory.received[usize::from(self.offered)];
            words[1].store(2048 | WRITE, Relaxed);
            self.client.give(RECEIVE, self.offered, 16);
            self.offered = (self.offered + 1) % FRAME_PLACES as u16;
        }
    }

    fn mac(&self) -> [u8; 6] {
        self.client.wanted.mac
    }

    /// How many frames that it sent are done with, and how many it received.
    fn done(&self) -> (usize, usize) {
        let received = self.client.answers(RECEIVE);
        assert!(received.iter().all(|(_, written)| *written == BYTES));
        (self.client.answers(SEND).len(), received.len())
    }
}

/// A switch with `N` clients; with a device of the board's, whose memory is in the answer.
fn switch<const N: usize>(has_uplink: bool) -> (Switch, [End; N], &'static UplinkMemory) {
    let uplink = leaked(UplinkMemory::new());
    let own = BoardDevice {
        registers: DEVICE,
        interrupt: 99,
    };
    install(
        DEVICE..DEVICE + 0x200,
        Rc::new(RefCell::new(Board::default())),
    );
    let served = Served {
        back_ends: heapless::Vec::new(),
        screens: heapless::Vec::new(),
        to_board: Some(0),
    };
    let own = has_uplink.then_some(own);
    let mut switch = Switch::start(own, &served, Some(uplink)).expect("it starts");
    let ends = core::array::from_fn(|number| {
        let memory = leaked(PortMemory::new());
        let rings = memory.rings.each_ref();
        let client = Client::new(number as u32, rings, FRAME_PLACES as u16);
        switch
            .connect(&client.wanted, memory)
            .expect("there is a place");
        End {
            client,
            memory,
            sent: 0,
            offered: 0,
        }
    });
    said();
    (switch, ends, uplink)
}

/// The board's device has sent all that it was given.
fn send_all(uplink: &UplinkMemory) -> usize {
    let queue = &uplink.queues[SEND];
    let mut count = 0;
    while queue.used.index.load(Relaxed) != queue.available.index.load(Relaxed) {
        let index = queue.used.index.load(Relaxed);
        let place = usize::from(index) % PLACES;
        let head = queue.available.entries[place].load(Relaxed);
        queue.used.elements[place][0].store(head.into(), Relaxed);
        queue.used.index.store(index.wrapping_add(1), Relaxed);
        count += 1;
    }
    count
}

/// Works until there is nothing to do, and returns in how many passes.
fn passes(switch: &mut Switch) -> usize {
    const MOST: usize = 100;
    let pass = (1..MOST).find(|_| switch.work());
    pass.expect("the driver VM comes to rest")
}

#[test]
fn frames_get_to_those_they_are_for() {
    let (mut switch, [mut first, mut second, mut third], uplink) = switch(true);
    for end in [&mut first, &mut second, &mut third] {
        end.offer(8);
    }
    first.send(first.mac(), second.mac(), 0x800);
    first.send(first.mac(), [0xff; 6], 0x806);
    first.send(first.mac(), OUTSIDE, 0x800);
    passes(&mut switch);
    assert_eq!(send_all(uplink), 2, "for all, and for somebody outside");
    passes(&mut switch);
    assert_eq!(first.done(), (3, 0));
    assert_eq!(second.done(), (0, 2));
    assert_eq!(third.done(), (0, 1));
    // In another one's name, with a tag: nowhere.
    first.send(second.mac(), third.mac(), 0x800);
    first.send(first.mac(), third.mac(), 0x8100);
    passes(&mut switch);
    assert_eq!((first.done(), third.done()), ((2, 0), (0, 0)));
    assert_eq!(
        said(),
        ["driver: client sends with another's address: dropped"]
    );
}

#[test]
fn who_waits_for_a_place_of_the_device_is_not_looked_at() {
    let (mut switch, [mut first, mut second, mut third], uplink) = switch(true);
    // Two clients take all places of the device, which sends nothing for now.
    for end in [&mut first, &mut second] {
        (0..FRAME_PLACES).for_each(|_| end.send(end.mac(), OUTSIDE, 0x800));
    }
    passes(&mut switch);
    assert!(third.client.is_heard(SEND), "it has sent nothing yet");
    third.send(third.mac(), OUTSIDE, 0x800);
    assert_eq!(passes(&mut switch), 1, "one look, and the driver VM sleeps");
    assert_eq!(third.done(), (0, 0));
    // More of its frames wake nobody; others are served.
    assert!(!third.client.is_heard(SEND));
    third.send(third.mac(), first.mac(), 0x800);
    assert!(!third.client.is_heard(SEND));
    assert!(first.client.is_heard(SEND));
    third.offer(1);
    assert_eq!(send_all(uplink), 2 * FRAME_PLACES);
    passes(&mut switch);
    assert_eq!(
        (first.done().0, second.done().0),
        (FRAME_PLACES, FRAME_PLACES)
    );
    assert_eq!(
        third.client.answers(SEND).len(),
        1,
        "the second one; the first one is the device's"
    );
    assert!(third.client.is_heard(SEND));
    assert_eq!(send_all(uplink), 1);
    passes(&mut switch);
    assert_eq!(third.done(), (1, 0));
}

/// Whether the machine begins again at interrupt `id`.
fn begins_again(switch: &mut Switch, id: u32) -> bool {
    catch_unwind(AssertUnwindSafe(|| switch.interrupted(id))).is_err()
}

#[test]
fn a_refused_back_end_and_a_device_that_does_nothing_any_more_begin_again() {
    let (mut switch, [first, second], _) = switch(true);
    let second = second.client;
    assert!(!begins_again(&mut switch, first.client.wanted.interrupt));
    assert!(!begins_again(&mut switch, second.wanted.interrupt));
    second.refuse();
    assert!(!begins_again(&mut switch, first.client.wanted.interrupt));
    assert!(begins_again(&mut switch, second.wanted.interrupt));
    // The device's reasons for an interrupt, and its status.
    let device = |reasons, status| {
        mmio::write32(DEVICE + 0x060, reasons);
        mmio::write32(DEVICE + 0x070, status);
    };
    device(3, 15);
    assert!(!begins_again(&mut switch, 99), "its configuration changed");
    device(3, 15 | 64);
    assert!(begins_again(&mut switch, 99));
}
