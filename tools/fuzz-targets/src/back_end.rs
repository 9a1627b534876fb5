//! A target for a device that two VMs share: a client and a back end that keep no rule, with the hypervisor in between.
//!
//! What is promised is taken from the standard and from `hanok_abi::back_end`, not from the code:
//!
//! - The client's memory is read where its queue, its tables and its buffers to read are, and written where its buffers to
//!   write and its ring of used chains are; the back end's is written where its ring and its slots are. No other VM's is touched, but
//!   to be read where a trusted back end names it.
//! - A request is given back once at the most for each time that it was made.
//! - Work ends: nobody is served for ever.
//! - Nothing lasts that either has done: after a reset of both, a request gets there and back.

use crate::bytes::Bytes;
use hanok_abi::back_end::{client, control, mode, register};
use hanok_config::VirtioKind;
use hanok_devices::Access;
use hanok_devices::virtio::{Backed, BoardMemory, Served, SharedDevice};
use hanok_hal::fake::FakeGuestMemory;
use hanok_hal::{AccessError, GuestMemory};
use hanok_types::{Hpa, Ipa, PAGE_SIZE, Width};
use std::ops::Range;
use std::rc::Rc;

const RAM: u64 = 0x4000_0000;
const RAM_SIZE: u64 = 16 * PAGE_SIZE;
const RAM_END: u64 = RAM + RAM_SIZE;
const SIZE: u16 = 8;
/// The parts of a queue, of the client's as of the ring: the table, the ring of the driver's side, and that of the device's.
const TABLE: u64 = RAM;
const AVAILABLE: u64 = RAM + 0x400;
const USED: u64 = RAM + 0x800;
const USED_END: u64 = USED + 6 + 8 * SIZE as u64;
/// The client's tables of descriptors, one for each head.
const TABLES: u64 = RAM + 0x1000;
const DESCRIPTORS: u64 = 8;
/// Its buffers to read, what no request names, and its buffers to write, which end its memory.
const READ: Range<u64> = RAM + 0x4000..RAM + 0x6000;
const WRITE: Range<u64> = RAM + 0xc000..RAM_END;
/// The back end's slots, and what is its own.
const SLOTS: Range<u64> = RAM + 0x4000..RAM + 0x4000 + SLOT_SIZE * SIZE as u64;
const SLOT_SIZE: u64 = 0x400;
/// What the board's addresses of each VM's memory are above the VM's.
const ON_BOARD: [u64; 3] = [0x10_0000_0000, 0x20_0000_0000, 0x30_0000_0000];
/// More pieces than any work has: each is four steps of 512 bytes or a descriptor, of at most eight requests and eight answers.
const PIECES: usize = 20_000;

/// A VM's memory, with the ranges that the hypervisor may read and write there.
struct Memory {
    bytes: FakeGuestMemory,
    on_board: u64,
    read: Vec<Range<u64>>,
    write: Vec<Range<u64>>,
}

#[derive(Clone)]
struct Ram(Rc<Memory>);

impl Ram {
    fn new(on_board: u64, read: &[Range<u64>], write: &[Range<u64>]) -> Self {
        Self(Rc::new(Memory {
            bytes: FakeGuestMemory::new(Ipa::new(RAM), RAM_SIZE as usize),
            on_board,
            read: read.to_vec(),
            write: write.to_vec(),
        }))
    }

    /// What there is of `bytes` bytes at `at` is in one of the ranges.
    fn check(&self, what: &str, ranges: &[Range<u64>], at: Ipa, bytes: usize) {
        let (start, end) = (at.get(), at.get().saturating_add(bytes as u64));
        let is_there = start >= RAM && end <= RAM_END;
        let named = |range: &Range<u64>| start >= range.start && end <= range.end;
        let fits = !is_there || bytes == 0 || ranges.iter().any(named);
        assert!(fits, "{what} at {start:#x}..{end:#x}");
    }

    /// The VM accesses its own memory: a page that is missing comes.
    fn touch(&self, at: u64) {
        let page = at & !(PAGE_SIZE - 1);
        for page in [page, page + PAGE_SIZE] {
            self.0.bytes.give_page(Ipa::new(page));
        }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.touch(at);
        let _ = self.0.bytes.write(Ipa::new(at), bytes);
    }

    fn half(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.get(at))
    }

    fn get<const N: usize>(&self, at: u64) -> [u8; N] {
        self.touch(at);
        let mut bytes = [0; N];
        let _ = self.0.bytes.read(Ipa::new(at), &mut bytes);
        bytes
    }
}

impl GuestMemory for Ram {
    fn read(&self, at: Ipa, into: &mut [u8]) -> Result<(), AccessError> {
        self.check("a read", &self.0.read, at, into.len());
        self.0.bytes.read(at, into)
    }

    fn write(&self, at: Ipa, from: &[u8]) -> Result<(), AccessError> {
        self.check("a write", &self.0.write, at, from.len());
        self.0.bytes.write(at, from)
    }

    fn load_half(&self, at: Ipa) -> Result<u16, AccessError> {
        self.check("a read", &self.0.read, at, 2);
        self.0.bytes.load_half(at)
    }

    fn store_half(&self, at: Ipa, value: u16) -> Result<(), AccessError> {
        self.check("a write", &self.0.write, at, 2);
        self.0.bytes.store_half(at, value)
    }
}

impl BoardMemory for Ram {
    fn on_board(&self, at: Ipa, bytes: u32) -> Option<Hpa> {
        let end = at.get().checked_add(bytes.into())?;
        (at.get() >= RAM && end <= RAM_END).then(|| Hpa::new(at.get() + self.0.on_board))
    }

    fn at_board(&self, at: Hpa, bytes: u32) -> Option<Ipa> {
        let there = Ipa::new(at.get().checked_sub(self.0.on_board)?);
        self.on_board(there, bytes).map(|_| there)
    }
}

/// The device with its two ends, and another VM.
struct World {
    device: SharedDevice,
    trusted: bool,
    memories: [Ram; 3],
    /// How often each request was made and not given back since the device's reset.
    made: [u32; SIZE as usize],
    /// How many used chains the client has counted.
    seen: u16,
    /// Whether the client has broken a rule by which what it has made cannot be counted.
    uncounted: bool,
}

impl World {
    fn new(trusted: bool) -> Self {
        let queue = [TABLE..TABLE + 16 * u64::from(SIZE), AVAILABLE..USED_END];
        let tables = TABLES..TABLES + 16 * DESCRIPTORS * u64::from(SIZE);
        let of_client = [&queue[..], &[tables, READ]].concat();
        let all = RAM..RAM_END;
        // A trusted back end may name any VM's memory as where its data are.
        let others = if trusted { vec![all.clone()] } else { vec![] };
        let of_client = if trusted {
            vec![all.clone()]
        } else {
            of_client
        };
        let written = [AVAILABLE..AVAILABLE + 0x100, TABLE..TABLE + 0x80, SLOTS];
        let memories = [
            Ram::new(ON_BOARD[0], &of_client, &[WRITE, USED..USED_END]),
            Ram::new(ON_BOARD[1], &[all], &written),
            Ram::new(ON_BOARD[2], &others, &[]),
        ];
        Self {
            device: SharedDevice::new(VirtioKind::Block, Backed::ByVm { trusted }),
            trusted,
            memories,
            made: [0; SIZE as usize],
            seen: 0,
            uncounted: false,
        }
    }

    fn client(&self) -> &Ram {
        &self.memories[0]
    }

    fn driver(&self) -> &Ram {
        &self.memories[1]
    }

    fn front(&mut self, offset: u64, value: u32) {
        let store = Access::store(Ipa::new(offset), Width::Word, value.into());
        self.reach(false, offset, store);
        if offset == 0x70 && value as u8 == 0 {
            self.forget();
        }
    }

    /// The client's requests are forgotten with the device's reset.
    fn forget(&mut self) {
        (self.made, self.seen, self.uncounted) = ([0; SIZE as usize], 0, false);
        self.client().put(AVAILABLE, &[0; 4]);
        self.client().put(USED, &[0; 4]);
    }

    fn back(&self, offset: u64, value: u32) {
        let store = Access::store(Ipa::new(offset), Width::Word, value.into());
        self.reach(true, offset, store);
    }

    fn back_load(&self, offset: u64) -> u32 {
        let load = Access::load(Ipa::new(offset), Width::Word);
        self.reach(true, offset, load) as u32
    }

    /// An access as a VM's exit makes it: by the short way, if there is one.
    fn reach(&self, for_driver: bool, offset: u64, access: Access) -> u64 {
        match self.device.at_once(for_driver, offset, access) {
            Some(done) => done.value,
            None => self.device.access_by(for_driver, offset, access).value,
        }
    }

    /// The client's driver starts.
    fn start(&mut self) {
        let choices = [
            (0x70, 0),
            (0x70, 3),
            (0x24, 0),
            (0x20, 3 << 28),
            (0x24, 1),
            (0x20, 1),
            (0x70, 11),
            (0x30, 0),
            (0x38, SIZE.into()),
            (0x80, TABLE as u32),
            (0x90, AVAILABLE as u32),
            (0xa0, USED as u32),
            (0x44, 1),
            (0x70, 15),
        ];
        for (offset, value) in choices {
            self.front(offset, value);
        }
    }

    /// The back end offers the device.
    fn offer(&self) {
        self.driver().put(AVAILABLE, &[0; 4]);
        self.driver().put(USED, &[0; 4]);
        let registers = [
            (register::CONTROL, control::WITHDRAW),
            (register::MODE, u32::from(self.trusted) * mode::DIRECT),
            (register::QUEUE_SIZE, SIZE.into()),
            (register::QUEUE, 0),
            (register::TABLE, TABLE as u32),
            (register::AVAILABLE, AVAILABLE as u32),
            (register::USED, USED as u32),
            (register::SLOTS, SLOTS.start as u32),
            (register::SLOT_SIZE, SLOT_SIZE as u32),
            (register::SLOT_DESCRIPTORS, DESCRIPTORS as u32),
            (register::CONTROL, control::OFFER),
        ];
        for (offset, value) in registers {
            self.back(offset, value);
        }
    }

    /// Serves until nothing is left; pages that are missing come.
    fn serve(&mut self, for_driver: bool) {
        let mut ends = (0..PIECES).map(|_| {
            let both = (self.client(), Some(self.driver()), &self.memories[..]);
            self.device.serve(both, for_driver, |_| {})
        });
        let end = ends.find_map(|served| match served {
            Served::Some => None,
            Served::All => Some(None),
            Served::Absent(page) => Some(Some(page)),
        });
        if let Some(page) = end.expect("work that ends") {
            let memories = self.memories.iter();
            memories.for_each(|memory| memory.0.bytes.give_page(page.start()));
        }
        self.see();
    }

    /// The client looks at what is done.
    fn see(&mut self) {
        let used = self.client().half(USED + 2);
        while self.seen != used {
            let entry = USED + 4 + 8 * u64::from(self.seen % SIZE);
            let head = u32::from_le_bytes(self.client().get(entry));
            let made = self.made.get_mut(head as usize).expect("a head");
            assert!(self.uncounted || *made > 0, "{head} is given back again");
            *made = made.saturating_sub(1);
            self.seen = self.seen.wrapping_add(1);
        }
    }

    /// The client makes the request `head`.
    fn make(&mut self, head: u16) {
        let index = self.client().half(AVAILABLE + 2);
        let entry = AVAILABLE + 4 + 2 * u64::from(index % SIZE);
        self.client().put(entry, &head.to_le_bytes());
        self.client()
            .put(AVAILABLE + 2, &index.wrapping_add(1).to_le_bytes());
        if let Some(made) = self.made.get_mut(usize::from(head)) {
            *made += 1;
        }
    }

    /// The client writes a descriptor; where one to write is, there is a buffer to write or no memory.
    fn describe(&self, at: u64, input: &mut Bytes<'_>) {
        let flags = u64::from(input.byte() % 8);
        let beyond = [RAM - 0x100, RAM_END, u64::MAX - 0x20][usize::from(input.byte() % 3)];
        let part = if flags & 2 != 0 { WRITE } else { READ };
        let (place, most) = match (flags & 4 != 0, input.byte() % 8) {
            (_, 0) => (beyond, u64::from(u32::MAX)),
            (true, _) => (TABLES + 128 * u64::from(input.byte() % 8), 128),
            (false, _) => {
                let within = u64::from(input.half()) % (part.end - part.start);
                (part.start + within, part.end - part.start - within)
            }
        };
        // Lengths that wrap: the buffers to write end the memory.
        let bytes = match input.byte() % 8 {
            0 if flags & 2 != 0 && flags & 4 == 0 => u64::from(input.word()),
            1 if flags & 4 != 0 => u64::from(input.byte()) % 129,
            _ => (u64::from(input.half()) & !15).min(most),
        };
        let next = u64::from(input.byte() % 10);
        let rest = bytes | flags << 32 | next << 48;
        self.client().put(at, &place.to_le_bytes());
        self.client().put(at + 8, &rest.to_le_bytes());
    }

    /// A request of two buffers, by which each end keeps the rules, gets there and back.
    fn is_whole(&mut self) {
        let pages = (0..RAM_SIZE / PAGE_SIZE).map(|page| Ipa::new(RAM + page * PAGE_SIZE));
        for page in pages {
            self.memories
                .iter()
                .for_each(|memory| memory.0.bytes.give_page(page));
        }
        self.device.reset_back_end();
        self.device.reset();
        self.forget();
        self.offer();
        assert_eq!(self.back_load(register::CONTROL), control::OFFER);
        self.start();
        assert_eq!(self.back_load(register::CLIENT) & client::LIVE, 1);
        let [out, back] = [(READ.start, 5, 1), (WRITE.start, 3, 2)];
        self.client().put(out.0, b"there");
        for (index, (at, bytes, flags)) in [out, back].into_iter().enumerate() {
            let here = TABLE + 16 * index as u64;
            let rest = bytes | flags << 32 | 1 << 48;
            self.client().put(here, &u64::to_le_bytes(at));
            self.client().put(here + 8, &u64::to_le_bytes(rest));
        }
        self.make(0);
        self.front(0x50, 0);
        self.serve(false);
        assert_eq!(self.driver().half(AVAILABLE + 2), 1);
        let data = SLOTS.start + 16 * DESCRIPTORS;
        assert_eq!(&self.driver().get::<5>(data), b"there");
        let to = u64::from_le_bytes(self.driver().get(SLOTS.start + 16));
        let own = u64::from(self.trusted) * ON_BOARD[1];
        self.driver().put(to - own, b"yes");
        self.give(0, 3);
        self.serve(true);
        assert_eq!((self.seen, self.made[0]), (1, 0));
        assert_eq!(&self.client().get::<3>(WRITE.start), b"yes");
    }

    /// The back end gives `head` back.
    fn give(&self, head: u32, written: u32) {
        let index = self.driver().half(USED + 2);
        let entry = USED + 4 + 8 * u64::from(index % SIZE);
        self.driver().put(entry, &head.to_le_bytes());
        self.driver().put(entry + 4, &written.to_le_bytes());
        self.driver()
            .put(USED + 2, &index.wrapping_add(1).to_le_bytes());
        self.back(register::NOTIFY, 0);
    }

    /// What the client does next.
    fn client_acts(&mut self, input: &mut Bytes<'_>) {
        match input.byte() % 8 {
            0..3 => {
                let (head, index) = (input.byte() % 9, input.byte() % 8);
                let table = TABLES + 128 * u64::from(head % 8);
                let at = match input.byte() % 3 {
                    0 => TABLE + 16 * u64::from(head % 8),
                    _ => table + 16 * u64::from(index),
                };
                self.describe(at, input);
            }
            3..5 => {
                self.make((input.byte() % 9).into());
                self.front(0x50, 0);
            }
            5 => {
                // An index that jumps: the entries between are what they are.
                let index = self.client().half(AVAILABLE + 2);
                let index = index.wrapping_add(input.half());
                self.client().put(AVAILABLE + 2, &index.to_le_bytes());
                self.uncounted = true;
                self.front(0x50, input.byte().into());
            }
            6 => {
                // Any register but the places of the queue, which are elsewhere or nowhere.
                let offset = u64::from(input.byte()) * 4;
                let value = match offset {
                    0x38 => [0, 3, 512][usize::from(input.byte() % 3)],
                    0x80..0xa8 => {
                        [0, RAM as u32 - 16, RAM_END as u32][usize::from(input.byte() % 3)]
                    }
                    _ => input.word() % 32,
                };
                self.front(offset, if offset == 0xa0 { USED as u32 } else { value });
            }
            _ if input.flag() => {
                self.device.reset();
                self.forget();
            }
            _ => self.start(),
        }
    }

    /// What the back end does next.
    fn back_end_acts(&mut self, input: &mut Bytes<'_>) {
        match input.byte() % 8 {
            0..3 => {
                let head = u32::from(input.byte() % 9);
                let written = [0, 1, 0x200, u32::MAX][usize::from(input.byte() % 4)];
                self.give(head, written);
            }
            3 => {
                // Its slots and its rings have anything.
                let within = u64::from(input.half()) % (SLOTS.end - RAM);
                self.driver()
                    .put(RAM + within, &input.double().to_le_bytes());
            }
            4 => {
                // A descriptor that names any VM's memory, or none.
                let slot = SLOTS.start + SLOT_SIZE * u64::from(input.byte() % 8);
                let above =
                    [0, ON_BOARD[0], ON_BOARD[1], ON_BOARD[2]][usize::from(input.byte() % 4)];
                let at = above + RAM + u64::from(input.half()) * 2;
                let rest = u64::from(input.half()) | 3 << 32;
                let index = u64::from(input.byte() % 8);
                self.driver().put(slot + 16 * index, &at.to_le_bytes());
                self.driver()
                    .put(slot + 16 * index + 8, &rest.to_le_bytes());
            }
            5 => {
                let offset = u64::from(input.byte()) * 4;
                let of_places = (register::TABLE..register::SLOT_SIZE).contains(&offset);
                // What is offered is at its places, or is refused.
                let value = if of_places { 1 } else { input.word() % 512 };
                let moved = offset == register::SLOT_SIZE || offset == register::SLOT_DESCRIPTORS;
                if !moved && (offset, value) != (register::CONTROL, control::OFFER) {
                    self.back(offset, value);
                }
            }
            6 => {
                let index = self.driver().half(USED + 2);
                let index = index.wrapping_add(input.half());
                self.driver().put(USED + 2, &index.to_le_bytes());
                self.back(register::NOTIFY, input.byte().into());
            }
            _ if input.flag() => self.device.reset_back_end(),
            _ => self.offer(),
        }
    }
}

/// A client and a back end do anything.
pub fn back_end(data: &[u8]) {
    let mut input = Bytes(data);
    let mut world = World::new(input.flag());
    world.offer();
    world.start();
    while !input.is_empty() {
        match input.byte() % 8 {
            0..3 => world.client_acts(&mut input),
            3..5 => world.back_end_acts(&mut input),
            5 => world.serve(false),
            6 => world.serve(true),
            _ => {
                let page = u64::from(input.byte()) % (RAM_SIZE / PAGE_SIZE);
                let memory = &world.memories[usize::from(input.byte() % 2)];
                memory.0.bytes.take_page(Ipa::new(RAM + page * PAGE_SIZE));
            }
        }
    }
    world.is_whole();
}

/// A request that gets there and back, and one that is given back twice, for a fuzzer to begin with.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // A descriptor to read 16 bytes, the request, and its way to the back end.
    let there = vec![0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 16, 0, 0, 0, 3, 0, 5];
    let back = vec![3, 0, 0, 0, 6];
    let of = |trusted: u8, parts: &[&Vec<u8>]| {
        let mut all = vec![trusted];
        parts.iter().for_each(|part| all.extend(*part));
        all
    };
    vec![
        of(0, &[&there, &back]),
        of(1, &[&there, &back, &back]),
        of(0, &[&there, &back, &there, &back]),
    ]
}
