//! A client's driver and a back end, both by hand, with a shared device in between.

use super::*;
use crate::Access;
use crate::virtio::Places;
use hanok_abi::back_end::register;
use hanok_hal::fake::FakeGuestMemory;
use hanok_hal::{AccessError, GuestMemory};
use hanok_types::{Hpa, Ipa, Width};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

mod absent;
mod at_once;
mod fetch;
mod keeps;
mod stores;

const RAM: u64 = 0x4000_0000;
const SIZE: u16 = 8;
/// Where the client has its queue and its buffers, and the back end its ring and slots.
const PLACES: Places = Places {
    descriptors: RAM,
    driver: RAM + 0x400,
    device: RAM + 0x800,
};
const BUFFERS: u64 = RAM + 0x1_0000;
const SLOTS: u64 = RAM + 0x1_0000;
const SLOT_SIZE: u32 = 0x800;
const DESCRIPTORS: u16 = 8;
const RAM_SIZE: u64 = 0x2_0000;
/// What the board's addresses are above the VM's own: of the client, the driver VM, and another VM.
const ON_BOARD: [u64; 3] = [0x10_0000_0000, 0x20_0000_0000, 0x30_0000_0000];
/// Where no VM has memory.
const HOLE: u64 = 0x1000;
/// Where the driver VM and the other one have data that are in no slot.
const ELSEWHERE: u64 = RAM + 0x1_8000;

/// A VM's memory, and what the board's addresses of it are above the VM's.
#[derive(Clone)]
struct Ram(Rc<FakeGuestMemory>, u64);

impl GuestMemory for Ram {
    fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError> {
        self.0.read(at, into)
    }

    fn write(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError> {
        self.0.write(at, from)
    }

    fn load_half(&self, at: Ipa) -> Result<u16, AccessError> {
        self.0.load_half(at)
    }

    fn store_half(&self, at: Ipa, value: u16) -> Result<(), AccessError> {
        self.0.store_half(at, value)
    }
}

impl BoardMemory for Ram {
    fn on_board(&self, at: Ipa, _bytes: u32) -> Option<Hpa> {
        Some(Hpa::new(at.get() + self.1))
    }

    fn at_board(&self, at: Hpa, bytes: u32) -> Option<Ipa> {
        let there = at.get().checked_sub(self.1)?;
        let inside = there >= RAM && there + u64::from(bytes) <= RAM + RAM_SIZE;
        inside.then_some(Ipa::new(there))
    }
}

/// A device with its client and its back end.
struct World {
    device: SharedDevice,
    client: Ram,
    driver: Ram,
    other: Ram,
    /// All of them.
    memories: [Ram; 3],
    /// Where the client has its queue, and the back end its ring.
    places: Places,
    /// How many requests the client has made, and how many of them it has seen done.
    made: u16,
    seen: u16,
    /// How many requests the back end has taken, and given back, since it offered the device.
    taken: u16,
    given: u16,
}

/// A buffer of a request: its address, its bytes, and whether the device writes it.
type Buffer = (u64, u32, bool);

impl World {
    /// A world in which nobody has done anything.
    fn new(trusted: bool) -> Self {
        let memory = || Rc::new(FakeGuestMemory::new(Ipa::new(RAM), RAM_SIZE as usize));
        let memories = ON_BOARD.map(|there| Ram(memory(), there));
        let [client, driver, other] = memories.clone();
        Self {
            device: SharedDevice::new(VirtioKind::Block, Backed::ByVm { trusted }),
            client,
            driver,
            other,
            memories,
            places: PLACES,
            made: 0,
            seen: 0,
            taken: 0,
            given: 0,
        }
    }

    /// A world in which requests can be made.
    fn ready(direct: bool) -> Self {
        Self::ready_at(PLACES, direct)
    }

    /// The same with queue and ring at other places.
    fn ready_at(places: Places, direct: bool) -> Self {
        let mut world = Self {
            places,
            ..Self::new(direct)
        };
        world.offer(direct);
        assert_eq!(world.back(register::CONTROL), control::OFFER);
        world.start();
        world
    }

    fn front(&self, offset: u64, value: u32) {
        let store = Access::store(Ipa::new(offset), Width::Word, value.into());
        self.device.access_by(false, offset, store);
    }

    fn front_load(&self, offset: u64) -> u32 {
        let load = Access::load(Ipa::new(offset), Width::Word);
        self.device.access_by(false, offset, load).value as u32
    }

    fn back_store(&self, offset: u64, value: u32) {
        let store = Access::store(Ipa::new(offset), Width::Word, value.into());
        self.device.access_by(true, offset, store);
    }

    fn back(&self, offset: u64) -> u32 {
        let load = Access::load(Ipa::new(offset), Width::Word);
        self.device.access_by(true, offset, load).value as u32
    }

    /// The back end offers the device, in rings of which nothing is used.
    fn offer(&mut self, direct: bool) {
        self.offer_with(u32::from(direct) * mode::DIRECT, 8);
    }

    /// The same in this mode, with so many bytes of configuration.
    fn offer_with(&mut self, mode: u32, config_size: u32) {
        (self.taken, self.given) = (0, 0);
        for at in [self.places.driver, self.places.device] {
            let _ = self.driver.write(Ipa::new(at), &[0; 4]);
        }
        let _ = self
            .driver
            .store_half(Ipa::new(self.places.device + 4 + 8 * u64::from(SIZE)), 0);
        self.back_store(register::MODE, mode);
        self.back_store(register::QUEUE_SIZE, SIZE.into());
        self.back_store(register::CONFIG, 0x1234);
        self.back_store(register::CONFIG_SIZE, config_size);
        let places = [
            (register::TABLE, self.places.descriptors),
            (register::AVAILABLE, self.places.driver),
            (register::USED, self.places.device),
            (register::SLOTS, SLOTS),
        ];
        for (at, place) in places {
            self.back_store(at, place as u32);
        }
        self.back_store(register::SLOT_SIZE, SLOT_SIZE);
        self.back_store(register::SLOT_DESCRIPTORS, DESCRIPTORS.into());
        self.back_store(register::CONTROL, control::OFFER);
    }

    /// The client's driver starts, with an empty queue.
    fn start(&mut self) {
        (self.made, self.seen) = (0, 0);
        let _ = self.client.write(Ipa::new(RAM), &[0; 0x1000]);
        self.front(0x70, 0);
        self.front(0x70, 3);
        for half in 0..2 {
            self.front(0x14, half);
            let features = self.front_load(0x10);
            self.front(0x24, half);
            self.front(0x20, features);
        }
        self.front(0x70, 11);
        self.front(0x38, SIZE.into());
        let places = [
            self.places.descriptors,
            self.places.driver,
            self.places.device,
        ];
        for (place, at) in places.into_iter().zip([0x80, 0x90, 0xa0]) {
            self.front(at, place as u32);
        }
        self.front(0x44, 1);
        self.front(0x70, 15);
        assert_eq!(self.front_load(0x70), 15);
    }

    /// The client makes the request `head`, whose descriptors begin at `first` of its table.
    fn make(&mut self, head: u16, buffers: &[Buffer]) {
        // Tables of their own, so that any number of them may be under way.
        let table = RAM + 0x2000 + u64::from(head) * 0x100;
        for (index, (at, bytes, write)) in (0..).zip(buffers) {
            let next = (index + 1 < buffers.len() as u64) as u64;
            let flags = next | u64::from(*write) << 1;
            let rest = u64::from(*bytes) | (flags << 32) | ((index + 1) << 48);
            put(&self.client, table + 16 * index, *at, rest);
        }
        let rest = (16 * buffers.len() as u64) | (4 << 32);
        put(&self.client, RAM + 16 * u64::from(head), table, rest);
        let entry = self.places.driver + 4 + 2 * u64::from(self.made % SIZE);
        self.client.store_half(Ipa::new(entry), head).unwrap();
        self.made = self.made.wrapping_add(1);
        self.client
            .store_half(Ipa::new(self.places.driver + 2), self.made)
            .unwrap();
        self.front(0x50, 0);
    }

    /// Serves until nothing is left to do.
    fn serve(&mut self, for_driver: bool) {
        let both = (&self.client, Some(&self.driver), &self.memories[..]);
        let mut pieces = 0;
        while self.device.serve(both, for_driver, |_| {}) == Served::Some {
            pieces += 1;
            assert!(pieces < 1000, "it never ends");
        }
    }

    /// The next request that the back end finds, with its descriptors.
    fn take(&mut self) -> Option<(u16, Vec<Buffer>)> {
        let index = self
            .driver
            .load_half(Ipa::new(self.places.driver + 2))
            .unwrap();
        if index == self.taken {
            return None;
        }
        let entry = self.places.driver + 4 + 2 * u64::from(self.taken % SIZE);
        let head = self.driver.load_half(Ipa::new(entry)).unwrap();
        self.taken = self.taken.wrapping_add(1);
        let (table, rest) = get(&self.driver, RAM + 16 * u64::from(head));
        assert_eq!(rest >> 32, 4, "a table");
        assert_eq!(table, SLOTS + u64::from(head) * u64::from(SLOT_SIZE));
        let count = (rest & 0xffff_ffff) / 16;
        let parts = (0..count).map(|index| {
            let (at, rest) = get(&self.driver, table + 16 * index);
            let (bytes, flags) = (rest as u32, rest >> 32 & 0xffff);
            assert_eq!(flags & 1 != 0, index + 1 < count, "the last one ends it");
            (at, bytes, flags & 2 != 0)
        });
        Some((head, parts.collect()))
    }

    /// The back end gives the request `head` back.
    fn give(&mut self, head: u32, written: u32) {
        let entry = self.places.device + 4 + 8 * u64::from(self.given % SIZE);
        let element = u64::from(head) | (u64::from(written) << 32);
        self.driver
            .write(Ipa::new(entry), &element.to_le_bytes())
            .unwrap();
        self.given = self.given.wrapping_add(1);
        self.driver
            .store_half(Ipa::new(self.places.device + 2), self.given)
            .unwrap();
        self.back_store(register::NOTIFY, 0);
    }

    /// The next request that the client finds done.
    fn see(&mut self) -> Option<(u16, u32)> {
        let index = self
            .client
            .load_half(Ipa::new(self.places.device + 2))
            .unwrap();
        if index == self.seen {
            return None;
        }
        let entry = self.places.device + 4 + 8 * u64::from(self.seen % SIZE);
        let mut element = [0; 8];
        self.client.read(Ipa::new(entry), &mut element).unwrap();
        self.seen = self.seen.wrapping_add(1);
        let element = u64::from_le_bytes(element);
        Some((element as u16, (element >> 32) as u32))
    }
}

fn put(memory: &Ram, at: u64, first: u64, second: u64) {
    let both = [first.to_le_bytes(), second.to_le_bytes()];
    memory.write(Ipa::new(at), both.as_flattened()).unwrap();
}

fn get(memory: &Ram, at: u64) -> (u64, u64) {
    let mut both = [[0; 8]; 2];
    memory.read(Ipa::new(at), both.as_flattened_mut()).unwrap();
    (u64::from_le_bytes(both[0]), u64::from_le_bytes(both[1]))
}

fn bytes(memory: &Ram, at: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    memory.read(Ipa::new(at), &mut bytes).unwrap();
    bytes
}

/// A request with a header of 16 bytes, this much data, and a status.
fn request(data: u32, write: bool) -> [Buffer; 3] {
    [
        (BUFFERS, 16, false),
        (BUFFERS + 0x100, data, write),
        (BUFFERS + 0x2000, 1, true),
    ]
}

#[test]
fn a_request_is_copied_there_and_its_answer_back() {
    let mut world = World::ready(false);
    let header: Vec<u8> = (0..16).collect();
    world.client.write(Ipa::new(BUFFERS), &header).unwrap();
    world.make(3, &request(700, true));
    assert!(world.device.needs_attention(false));
    world.serve(false);
    assert!(world.device.lines().driver && !world.device.lines().client);
    let (head, parts) = world.take().expect("a request");
    assert_eq!((head, world.take()), (3, None));
    let data = SLOTS + 3 * u64::from(SLOT_SIZE) + 16 * u64::from(DESCRIPTORS);
    let expected = [
        (data, 16, false),
        (data + 16, 700, true),
        (data + 716, 1, true),
    ];
    assert_eq!(parts, expected);
    assert_eq!(bytes(&world.driver, data, 16), header);
    let answer: Vec<u8> = (0..701).map(|byte| byte as u8).collect();
    world.driver.write(Ipa::new(data + 16), &answer).unwrap();
    world.give(3, 701);
    world.serve(true);
    assert!(world.device.lines().client);
    assert_eq!(world.see(), Some((3, 701)));
    assert_eq!(bytes(&world.client, BUFFERS + 0x100, 700), answer[..700]);
    assert_eq!(bytes(&world.client, BUFFERS + 0x2000, 1), answer[700..]);
}

/// What counts is that the line stays raised without an access of the driver VM's, whatever its requests wait for.
#[test]
fn who_leaves_its_interrupt_alone_is_found_and_no_other() {
    let mut world = World::ready(false);
    world.back_store(register::ACKNOWLEDGE, u32::MAX);
    assert_eq!(world.device.unheeded(10, false), 0, "nothing is asked");
    world.make(0, &request(64, true));
    world.serve(false);
    assert!(world.device.lines().driver);
    assert_eq!(world.device.unheeded(1_000, false), 0, "the first look");
    assert_eq!(world.device.unheeded(1_500, false), 500);
    assert_eq!(world.device.unheeded(1_600, true), 0, "it was paused");
    assert_eq!(world.device.unheeded(1_700, false), 0);
    assert_eq!(world.device.unheeded(1_900, false), 200);
    // It looks, and does not acknowledge yet.
    let _ = world.back(register::INTERRUPT);
    assert_eq!(world.device.unheeded(2_000, false), 0);
    assert_eq!(world.device.unheeded(2_100, false), 100);
    world.back_store(register::ACKNOWLEDGE, u32::MAX);
    for now in [3_000, 4_000_000] {
        assert_eq!(world.device.unheeded(now, false), 0, "its disk is slow");
        // As it has a request, it is asked whether it lives.
        assert!(world.device.lines().driver);
        world.back_store(register::ACKNOWLEDGE, u32::MAX);
    }
    assert_eq!(world.device.unheeded(4_500_000, false), 0);
    assert_eq!(
        world.device.unheeded(4_500_300, false),
        300,
        "it hangs as it works"
    );
    let (head, _) = world.take().expect("the request");
    world.give(head.into(), u32::MAX);
    world.serve(true);
    assert_eq!(world.see().map(|(head, _)| head), Some(0));
    world.back_store(register::ACKNOWLEDGE, u32::MAX);
    assert_eq!(world.device.unheeded(4_600_000, false), 0);
    assert!(!world.device.lines().driver, "it has nothing to do");
    // Reset, it has offered nothing.
    world.make(0, &request(64, true));
    world.serve(false);
    assert_eq!(world.device.unheeded(5_000_000, false), 0);
    world.device.reset_back_end();
    assert_eq!(world.device.unheeded(9_000_000, false), 0);
}

#[test]
fn more_than_fits_is_given_to_nobody() {
    let mut world = World::ready(false);
    let claimed = u32::MAX;
    world.make(0, &request(200, true));
    world.serve(false);
    let (_, parts) = world.take().expect("a request");
    let before = bytes(&world.client, BUFFERS + 0x100 + 200, 100);
    world.driver.write(Ipa::new(parts[1].0), &[7; 300]).unwrap();
    world.give(0, claimed);
    world.serve(true);
    // The client is told what it was given, whatever the back end says.
    assert_eq!(world.see(), Some((0, 201)));
    assert_eq!(bytes(&world.client, BUFFERS + 0x100, 200), [7; 200]);
    assert_eq!(bytes(&world.client, BUFFERS + 0x100 + 200, 100), before);
    // If no slot has room for what is to be written, the back end has it elsewhere, in pieces as it likes.
    world.make(1, &request(SLOT_SIZE, true));
    world.serve(false);
    let (_, parts) = world.take().expect("a request");
    assert_eq!(parts[1], (0, SLOT_SIZE, true));
    let answer: Vec<u8> = (0..SLOT_SIZE).map(|n| n as u8 ^ 0x55).collect();
    world.driver.write(Ipa::new(ELSEWHERE), &answer).unwrap();
    let slot = SLOTS + u64::from(SLOT_SIZE);
    for (index, (at, bytes)) in [(ELSEWHERE, 700), (ELSEWHERE + 700, SLOT_SIZE - 700)]
        .into_iter()
        .enumerate()
    {
        let rest = u64::from(bytes) | 2 << 32;
        put(&world.driver, slot + 16 * index as u64, at, rest);
    }
    world.give(1, SLOT_SIZE);
    world.serve(true);
    assert_eq!(world.see(), Some((1, SLOT_SIZE)));
    let got = bytes(&world.client, BUFFERS + 0x100, SLOT_SIZE as usize);
    assert_eq!(got, answer);
    // If there is none for what is to be read, it is the client's fault: it was told how large requests may be.
    world.make(1, &request(SLOT_SIZE, false));
    world.serve(false);
    assert_eq!(world.front_load(0x70), 15 | 64);
    assert_eq!(world.take(), None);
}

#[test]
fn large_buffers_of_a_trusted_back_end_are_named_by_the_board_s_addresses() {
    let mut world = World::ready(true);
    world.make(5, &request(4096, true));
    world.serve(false);
    let (_, parts) = world.take().expect("a request");
    let data = ON_BOARD[1] + SLOTS + 5 * u64::from(SLOT_SIZE) + 16 * u64::from(DESCRIPTORS);
    let there = (ON_BOARD[0] + BUFFERS + 0x100, 4096, true);
    assert_eq!(parts, [(data, 16, false), there, (data + 16, 1, true)]);
    world
        .driver
        .write(Ipa::new(data + 16 - ON_BOARD[1]), &[9])
        .unwrap();
    world.give(5, u32::MAX);
    world.serve(true);
    assert_eq!(world.see(), Some((5, 4097)));
    assert_eq!(bytes(&world.client, BUFFERS + 0x2000, 1), [9]);
    assert_eq!(
        bytes(&world.client, BUFFERS + 0x100, 1),
        [0],
        "nothing was copied"
    );
}

#[test]
fn only_a_trusted_back_end_learns_the_board_s_addresses() {
    let mut world = World::new(false);
    world.offer(true);
    assert_eq!(world.back(register::MODE), 0);
    world.start();
    world.make(0, &request(1000, true));
    world.serve(false);
    let (_, parts) = world.take().expect("a request");
    assert!(parts.iter().all(|(at, ..)| *at < ON_BOARD[0]));
}

#[test]
fn the_head_of_a_large_buffer_is_copied_and_its_rest_named() {
    let mut world = World::new(true);
    world.back_store(register::HEAD, 26);
    world.offer(true);
    world.start();
    let frame: Vec<u8> = (0..1526_u32).map(|n| n as u8).collect();
    world.client.write(Ipa::new(BUFFERS), &frame).unwrap();
    let slot = ON_BOARD[1] + SLOTS + 16 * u64::from(DESCRIPTORS);
    let (at, there) = (BUFFERS, ON_BOARD[0] + BUFFERS);
    // In one buffer; the first of two; all of the first and some of the second, whose rest is small.
    for (head, buffers, expected) in [
        (
            0,
            vec![(at, 1526, false)],
            vec![(slot, 26, false), (there + 26, 1500, false)],
        ),
        (
            1,
            vec![(at, 12, false), (at + 12, 1514, false)],
            vec![
                (slot, 12, false),
                (slot + 12, 14, false),
                (there + 26, 1500, false),
            ],
        ),
        (
            2,
            vec![(at, 12, false), (at + 12, 70, false)],
            vec![
                (slot, 12, false),
                (slot + 12, 14, false),
                (slot + 26, 56, false),
            ],
        ),
    ] {
        world.make(head, &buffers);
        world.serve(false);
        let (_, parts) = world.take().expect("a request");
        let moved = u64::from(head) * u64::from(SLOT_SIZE);
        let in_slot = |(at, ..): &Buffer| *at >= ON_BOARD[1];
        let expected: Vec<Buffer> = expected
            .iter()
            .map(|part| {
                if in_slot(part) {
                    (part.0 + moved, part.1, part.2)
                } else {
                    *part
                }
            })
            .collect();
        assert_eq!(parts, expected);
        let first = slot + moved - ON_BOARD[1];
        assert_eq!(bytes(&world.driver, first, 26), frame[..26]);
        world.give(head.into(), 0);
        world.serve(true);
        assert_eq!(world.see(), Some((head, 0)));
    }
}

#[test]
fn a_frame_gets_from_one_client_to_another_by_one_copy() {
    let mut world = World::ready(true);
    // Into a header and a buffer of the client's: a header from the slot, and the rest from another VM.
    world.make(3, &[(BUFFERS, 12, true), (BUFFERS + 0x100, 1518, true)]);
    world.serve(false);
    world.take().expect("a request");
    let frame: Vec<u8> = (0..1500_u32).map(|n| n as u8).collect();
    world.other.write(Ipa::new(ELSEWHERE), &frame).unwrap();
    world
        .driver
        .write(Ipa::new(ELSEWHERE), &[0xee; 26])
        .unwrap();
    let slot = SLOTS + 3 * u64::from(SLOT_SIZE);
    let write = 2 << 32;
    put(&world.driver, slot, ON_BOARD[1] + ELSEWHERE, 26 | write);
    put(
        &world.driver,
        slot + 16,
        ON_BOARD[2] + ELSEWHERE,
        1500 | write,
    );
    world.give(3, 1526);
    world.serve(true);
    assert_eq!(world.see(), Some((3, 1526)));
    assert_eq!(bytes(&world.client, BUFFERS, 12), [0xee; 12]);
    let got = bytes(&world.client, BUFFERS + 0x100, 1518);
    assert_eq!(got[..14], [0xee; 14]);
    assert_eq!(got[14..1514], frame);
    assert_eq!(got[1514..], [0; 4]);
}

#[test]
fn nobody_gives_what_is_in_no_vm_or_what_it_may_not_name() {
    let beyond = ON_BOARD[2] + RAM + RAM_SIZE - 100;
    for (direct, at) in [(true, 0x1000), (true, beyond), (false, ON_BOARD[2] + RAM)] {
        let mut world = World::ready(direct);
        world.make(0, &[(BUFFERS, 1000, true)]);
        world.serve(false);
        world.take().expect("a request");
        put(&world.driver, SLOTS, at, 1000 | 2 << 32);
        world.give(0, 1000);
        world.serve(true);
        assert_eq!(world.back(register::CONTROL), control::FAILED);
        assert_eq!(world.see(), None, "it is given again");
        assert_eq!(world.front_load(0x70), 15);
    }
}

#[test]
fn a_back_end_sees_that_its_client_was_reset() {
    let world = World::ready(false);
    let client = world.back(register::CLIENT);
    assert_eq!(client & 1, 1);
    world.front(0x70, 0);
    assert_eq!(world.back(register::CLIENT), (client & !1) + 2);
}

#[test]
fn what_is_under_way_is_given_again_in_order_when_the_back_end_comes_anew() {
    for died in [false, true] {
        let mut world = World::ready(false);
        for head in [4, 2, 7, 0] {
            world.make(head, &request(64, true));
        }
        world.serve(false);
        let taken: Vec<u16> = core::iter::from_fn(|| Some(world.take()?.0)).collect();
        assert_eq!(taken, [4, 2, 7, 0]);
        world.give(2, 65);
        world.serve(true);
        assert_eq!(world.see(), Some((2, 65)));
        if died {
            world.device.reset_back_end();
        } else {
            world.back_store(register::CONTROL, control::WITHDRAW);
        }
        // What comes meanwhile waits.
        world.make(1, &request(64, true));
        world.serve(false);
        world.offer(false);
        world.serve(true);
        let taken: Vec<u16> = core::iter::from_fn(|| Some(world.take()?.0)).collect();
        assert_eq!(taken, [4, 7, 0, 1], "died: {died}");
        for head in [1, 0, 7, 4] {
            world.give(head, 65);
        }
        world.serve(true);
        let seen: Vec<u16> = core::iter::from_fn(|| Some(world.see()?.0)).collect();
        assert_eq!(seen, [1, 0, 7, 4]);
    }
}

#[test]
fn a_client_s_reset_forgets_what_is_under_way() {
    let mut world = World::ready(false);
    world.make(3, &request(64, true));
    world.serve(false);
    assert_eq!(world.take().map(|(head, _)| head), Some(3));
    world.start();
    let untouched = bytes(&world.client, BUFFERS + 0x100, 64);
    // Its slot is not used before the back end has given it back.
    world.make(3, &request(64, true));
    world.make(4, &request(64, true));
    world.serve(false);
    assert_eq!(world.take(), None);
    world
        .driver
        .write(Ipa::new(SLOTS + 3 * 0x800 + 128 + 16), &[5; 64])
        .unwrap();
    world.give(3, 65);
    world.serve(true);
    assert_eq!(world.see(), None);
    assert_eq!(bytes(&world.client, BUFFERS + 0x100, 64), untouched);
    let taken: Vec<u16> = core::iter::from_fn(|| Some(world.take()?.0)).collect();
    assert_eq!(taken, [3, 4]);
}

#[test]
fn a_client_waits_until_no_device_writes_its_memory() {
    let mut world = World::ready(true);
    world.make(3, &request(4096, true));
    world.serve(false);
    assert!(world.take().is_some() && !world.device.holds_memory());
    world.front(0x70, 0);
    assert!(world.device.holds_memory() && world.device.has_to_wait(0x70, 0, 0));
    // A back end that dies leaves the board's device as it is.
    world.device.reset_back_end();
    world.device.reset();
    assert!(world.device.holds_memory());
    world.offer(true);
    assert!(!world.device.holds_memory() && !world.device.has_to_wait(0x70, 0, 0));
    // So does the answer of each request.
    world.start();
    world.make(3, &request(4096, true));
    world.serve(true);
    assert!(world.take().is_some());
    world.device.reset();
    assert!(world.device.holds_memory());
    // Asked again and again meanwhile, it is one reset.
    let resets = world.back(register::CLIENT);
    world.device.reset();
    assert_eq!(world.back(register::CLIENT), resets);
    world.give(3, 0);
    world.serve(true);
    assert!(!world.device.holds_memory());
}

#[test]
fn a_back_end_that_lies_is_withdrawn_and_nothing_is_lost() {
    let lies: [fn(&mut World); 4] = [
        // For a request that was not made, twice, beyond the queue, more than there can be.
        |world| world.give(6, 65),
        |world| {
            world.give(3, 65);
            world.give(3, 65);
        },
        |world| world.give(300, 65),
        |world| {
            let index = Ipa::new(PLACES.device + 2);
            world
                .driver
                .store_half(index, world.given + SIZE + 1)
                .unwrap();
            world.back_store(register::NOTIFY, 0);
        },
    ];
    for (number, lie) in lies.iter().enumerate() {
        let mut world = World::ready(false);
        world.make(3, &request(64, true));
        world.make(5, &request(64, true));
        world.serve(false);
        while world.take().is_some() {}
        lie(&mut world);
        world.serve(true);
        assert_eq!(world.back(register::CONTROL), control::FAILED, "{number}");
        assert!(world.device.lines().driver);
        assert_eq!(world.front_load(0x70), 15, "the client notices nothing");
        world.offer(false);
        world.serve(true);
        while let Some((head, _)) = world.take() {
            world.give(head.into(), 65);
        }
        world.serve(true);
        let mut seen: Vec<u16> = core::iter::from_fn(|| Some(world.see()?.0)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [3, 5], "{number}");
    }
}

#[test]
fn rings_outside_memory_are_a_failure_of_the_back_end_alone() {
    let mut world = World::new(false);
    world.offer(false);
    world.back_store(register::CONTROL, control::WITHDRAW);
    world.back_store(register::SLOTS, 0x9000_0000);
    world.back_store(register::CONTROL, control::OFFER);
    world.start();
    world.make(0, &request(64, true));
    world.serve(false);
    assert_eq!(world.back(register::CONTROL), control::FAILED);
    assert_eq!(world.front_load(0x70), 15);
    let rules: [(u64, u32); 5] = [
        (register::QUEUE_SIZE, 12),
        (register::QUEUE_SIZE, 512),
        (register::SLOT_SIZE, 0x7f),
        (register::SLOT_DESCRIPTORS, 0),
        (register::TABLE, 8),
    ];
    for (at, value) in rules {
        let mut world = World::new(false);
        world.offer(false);
        world.back_store(register::CONTROL, control::WITHDRAW);
        world.back_store(at, value);
        world.back_store(register::CONTROL, control::OFFER);
        assert_eq!(world.back(register::CONTROL), control::REFUSED, "{at:#x}");
    }
}

#[test]
fn what_a_client_uses_is_not_taken_away_by_another_offer() {
    let mut world = World::new(false);
    world.back_store(register::FEATURES, 1 << 9);
    world.offer(false);
    world.start();
    world.back_store(register::CONTROL, control::WITHDRAW);
    world.back_store(register::FEATURES, 0);
    world.back_store(register::CONTROL, control::OFFER);
    assert_eq!(world.back(register::CONTROL), control::REFUSED);
    world.back_store(register::FEATURES, 1 << 9 | 1 << 5);
    world.back_store(register::CONTROL, control::OFFER);
    assert_eq!(world.back(register::CONTROL), control::OFFER);
    world.back_store(register::CONTROL, control::WITHDRAW);
    world.back_store(register::QUEUE_SIZE, 4);
    world.back_store(register::CONTROL, control::OFFER);
    assert_eq!(world.back(register::CONTROL), control::REFUSED);
}

#[test]
fn a_client_waits_for_the_first_offer_and_not_for_ever() {
    let mut world = World::new(false);
    assert!(!world.device.has_to_wait(0x08, 100, 50));
    assert!(world.device.has_to_wait(0x10, 100, 50));
    assert!(world.device.has_to_wait(0x10, 149, 50));
    assert!(!world.device.has_to_wait(0x10, 150, 50));
    assert_eq!(world.front_load(0x10), 0, "no features");
    world.offer(false);
    assert!(!world.device.has_to_wait(0x10, 0, 50));
    assert_eq!(world.front_load(0x100), 0x1234);
    world.device.reset_back_end();
    assert_eq!(world.front_load(0x100), 0x1234, "it stays as it was");
    assert!(!world.device.has_to_wait(0x10, 0, 50));
}

#[test]
fn a_client_that_breaks_a_rule_breaks_its_own_device() {
    let mut world = World::ready(false);
    // A descriptor after the end of its table.
    world.make(2, &request(64, true));
    put(
        &world.client,
        RAM + 0x2200 + 32,
        BUFFERS,
        1 | 1 << 32 | 77 << 48,
    );
    world.serve(false);
    assert_eq!(world.front_load(0x70), 15 | 64);
    assert_eq!(world.back(register::CONTROL), control::OFFER);
    // The same head twice.
    world.start();
    world.make(2, &request(64, true));
    world.make(2, &request(64, true));
    world.serve(false);
    assert_eq!(world.front_load(0x70), 15 | 64);
    world.start();
    world.serve(true);
    assert_eq!(world.front_load(0x70), 15);
}

/// Whatever happens, in whatever order, each request is done once, with the bytes that it names.
#[test]
fn each_request_is_done_exactly_once() {
    for seed in 1..200_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let direct = seed % 3 == 0;
        let mut world = World::ready(direct);
        let mut free: VecDeque<u16> = (0..SIZE).collect();
        let mut under_way: BTreeMap<u16, u32> = BTreeMap::new();
        let mut with_driver: Vec<(u16, Vec<Buffer>)> = vec![];
        let (mut made, mut done) = (0, 0);
        while done < 100 {
            match draw(12) {
                0..4 => {
                    if let Some(head) = free.pop_front() {
                        let at = BUFFERS + u64::from(head) * 0x1000;
                        let data = 1 + draw(900) as u32;
                        made += 1;
                        let mark = [made as u8; 4];
                        world.client.write(Ipa::new(at), &mark).unwrap();
                        world.make(head, &[(at, 16, false), (at + 0x100, data, true)]);
                        under_way.insert(head, data);
                    }
                }
                4 => world.serve(false),
                5..8 => {
                    world.serve(false);
                    with_driver.extend(world.take());
                }
                8..11 if !with_driver.is_empty() => {
                    let index = draw(with_driver.len() as u64) as usize;
                    let (head, parts) = with_driver.remove(index);
                    let at = |part: &Buffer| Ipa::new(part.0 & (ON_BOARD[0] - 1));
                    let header = bytes(&world.driver, at(&parts[0]).get(), 1)[0];
                    // What a device of the board's writes, or the back end into its slot.
                    let to = if direct && parts[1].1 > 64 {
                        &world.client
                    } else {
                        &world.driver
                    };
                    let answer = vec![header; parts[1].1 as usize];
                    if draw(3) == 0 {
                        // Or somewhere else, in two pieces.
                        let (memory, there) = match (direct, draw(2)) {
                            (false, _) => (&world.driver, 0),
                            (true, 0) => (&world.driver, ON_BOARD[1]),
                            (true, _) => (&world.other, ON_BOARD[2]),
                        };
                        let all = parts[1].1;
                        let first = draw(all.into()) as u32;
                        memory.write(Ipa::new(ELSEWHERE), &answer).unwrap();
                        let slot = SLOTS + u64::from(head) * u64::from(SLOT_SIZE);
                        for (index, at, count) in [(0, 0, first), (1, first, all - first)] {
                            let place = there + ELSEWHERE + u64::from(at);
                            let rest = u64::from(count) | 3 << 32;
                            put(&world.driver, slot + 16 * index, place, rest);
                        }
                    } else {
                        to.write(at(&parts[1]), &answer).unwrap();
                    }
                    world.give(head.into(), u32::MAX);
                    world.serve(true);
                }
                _ if draw(4) == 0 => {
                    world.device.reset_back_end();
                    with_driver.clear();
                    world.offer(direct);
                    world.serve(true);
                }
                _ => {}
            }
            while let Some((head, written)) = world.see() {
                let data = under_way.remove(&head).expect("one that is under way");
                assert_eq!(written, data, "seed {seed}");
                let at = BUFFERS + u64::from(head) * 0x1000;
                let mark = bytes(&world.client, at, 1)[0];
                let got = bytes(&world.client, at + 0x100, data as usize);
                assert!(got.iter().all(|byte| *byte == mark), "seed {seed}");
                free.push_back(head);
                done += 1;
            }
        }
        assert_eq!(world.front_load(0x70), 15);
    }
}

/// The driver VM has told of it, and tells no second time: the client must not wait for ever for what nobody has any more.
#[test]
fn a_request_whose_answer_does_not_get_to_its_client_is_taken_of_the_ring() {
    for direct in [true, false] {
        let mut world = World::ready(direct);
        world.make(3, &[(BUFFERS, 16, false), (HOLE, 8, true)]);
        world.serve(false);
        let (head, _) = world.take().expect("a request");
        world.give(head.into(), u32::MAX);
        world.serve(true);
        assert_eq!(world.front_load(0x70) & 64, 64, "it is broken");
        assert!(!world.device.0.lock().has_stale());
        world.front(0x70, 0);
        assert!(!world.device.holds_memory());
    }
}

/// The driver VM, which answers as it should, is not to blame for that.
#[test]
fn a_client_that_breaks_its_device_by_a_register_gets_no_answer_and_its_driver_vm_goes_on() {
    for (direct, status) in [(true, 1), (false, 3)] {
        let mut world = World::ready(direct);
        world.make(3, &request(64, true));
        world.serve(false);
        let (head, _) = world.take().expect("a request");
        // The status goes backwards.
        world.front(0x70, status);
        assert_eq!(world.front_load(0x70) & 64, 64, "it is broken");
        world.give(head.into(), u32::MAX);
        world.serve(true);
        assert_eq!(world.back(register::CONTROL), control::OFFER);
        world.front(0x70, 0);
        assert!(!world.device.holds_memory());
        world.start();
    }
}
