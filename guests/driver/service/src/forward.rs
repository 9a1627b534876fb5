//! A device of the board's that another VM has as its own: a disk, a directory or a console (virtio 1.2, 5.2, 5.3; 9P over virtio).
//!
//! A request's table of descriptors is in a slot, with addresses of the board. So it is given to the board's device as it is, and
//! nothing of a request is read here or copied.
//!
//! A client that is reset gets its memory back: requests of a disk come to their end by themselves; a console waits for a key for
//! ever, and a directory has files open. So their board's device is reset, too.
//!
//! Of a request that the board's device cannot read it wants to be reset. It is, and the client has no answer in any of the requests that were under
//! way, which it takes for errors: nobody knows which one it was.

use crate::back_end::{BackEnd, Offer, Room};
use crate::device::Device;
use crate::machine::gic;
use crate::memory::{DESCRIPTORS, LANES, Lane, PLACES, address};
use crate::wanted::{BoardDevice, Served, Wanted};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use hanok_abi::back_end::{MAX_CONFIG, mode};
use heapless::Vec;

/// The configuration of a device.
type Config = Vec<u8, MAX_CONFIG>;

/// What differs from one kind of device to another.
pub struct Kind {
    /// The device id (virtio 1.2, 5).
    id: u32,
    /// What it is called.
    name: &'static str,
    /// The features that are passed on.
    features: u64,
    /// The bytes of its configuration.
    config: usize,
    /// The queue whose requests are not done a second time if an earlier life of this VM may have done them.
    once: Option<usize>,
    /// Whether the board's device is reset with the client.
    is_reset: bool,
}

/// A disk. Its features are sizes and numbers of segments, geometry, read-only, block size, flush, topology, discard and write-zeroes.
/// Not the several queues and the cache's mode, which would have to be set by the client.
pub const DISK: Kind = Kind {
    id: 2,
    name: "disk",
    features: 1 << 1 | SEGMENTS | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 9 | 1 << 10 | 1 << 13 | 1 << 14,
    config: 60,
    once: None,
    is_reset: false,
};
/// A directory. Its feature is that the configuration has the tag by which it is mounted, with its length before it.
pub const DIRECTORY: Kind = Kind {
    id: 9,
    name: "directory",
    features: 1,
    config: 2,
    once: None,
    is_reset: true,
};
/// A console with one port. What is sent by its second queue is not sent twice.
pub const CONSOLE: Kind = Kind {
    id: 3,
    name: "console",
    features: 0,
    config: 12,
    once: Some(1),
    is_reset: true,
};

/// The feature by which a disk says how many segments a request may have, and where its configuration says so.
const SEGMENTS: u64 = 1 << 2;
const SEGMENTS_AT: usize = 12;

/// A device that is served, with `N` queues.
pub struct Forwarder<const N: usize> {
    kind: &'static Kind,
    client: BackEnd<N>,
    device: Device<N>,
    own: BoardDevice,
    lanes: [&'static Lane; N],
    to_board: u64,
    interrupt: u32,
    resets: u32,
    /// The heads that the board's device has, a bit each.
    given: [[u64; PLACES / 64]; N],
    /// How many of the next requests of `kind.once` are not done.
    skipped: u32,
}

/// So many of the lanes, from number `used` on, which then counts them.
pub fn lanes<const N: usize>(used: &mut usize) -> Option<[&'static Lane; N]> {
    let lanes = LANES.get(*used..)?.first_chunk::<N>()?;
    *used += N;
    Some(lanes.each_ref())
}

impl<const N: usize> Forwarder<N> {
    /// Starts the board's device, and offers it to the client.
    pub fn start(
        kind: &'static Kind,
        wanted: &Wanted,
        served: &Served,
        lanes: [&'static Lane; N],
    ) -> Result<Self, &'static str> {
        let own = wanted.device.ok_or("it has no device of the board")?;
        let to_board = served
            .to_board
            .ok_or("the board's devices cannot reach this VM's memory")?;
        let device = start(kind, own, lanes, to_board)?;
        let (config, features) = kind.offered(&device);
        let offer = Offer {
            features,
            config: &config,
            size: device.size,
            head: 0,
            is_direct: true,
            needs_direct: true,
            mode: mode::KEEPS,
        };
        let rooms = lanes.map(|lane| Room::new(&lane.ring, &lane.slots, DESCRIPTORS));
        let client = BackEnd::start(wanted.registers, rooms, &offer)?;
        client.listen(wanted.interrupt);
        gic::enable(own.interrupt);
        let of = wanted.client;
        match kind.id {
            id if id == DISK.id => println!("driver: a disk for {of}, {} MiB", mib(&config)),
            _ => println!("driver: a {} for {of}", kind.name),
        }
        let (resets, skipped) = (client.resets(), kind.once);
        let skipped = skipped.map_or(0, |queue| client.again(queue as u32));
        Ok(Self {
            kind,
            client,
            device,
            own,
            lanes,
            to_board,
            interrupt: wanted.interrupt,
            resets,
            given: [[0; PLACES / 64]; N],
            skipped,
        })
    }

    /// Does what there is to do. Returns whether there was nothing, and whoever has more will interrupt.
    pub fn work(&mut self) -> bool {
        for index in 0..N {
            self.forward(index);
        }
        let queues = self.device.queues.iter();
        let mut both = queues.zip(&self.client.queues);
        both.all(|(queue, requests)| queue.listen() && requests.listen())
    }

    /// Does what there is to do of one queue.
    fn forward(&mut self, index: usize) {
        let (Some(requests), Some(queue), Some(given), Some(lane)) = (
            self.client.queues.get_mut(index),
            self.device.queues.get_mut(index),
            self.given.get_mut(index),
            self.lanes.get(index),
        ) else {
            return;
        };
        while let Some((head, written)) = queue.next_done() {
            clear(given, head);
            // Of a disk's requests all is written that may be.
            let all = self.kind.id == DISK.id;
            requests.answer(head, if all { u32::MAX } else { written });
        }
        requests.tell();
        let mut skips = false;
        while let Some((head, bytes)) = requests.next_request() {
            if self.kind.once == Some(index) && self.skipped > 0 {
                self.skipped -= 1;
                skips = true;
                requests.answer(head, 0);
                continue;
            }
            let Some(slot) = lane.slots.get(usize::from(head)) else {
                continue;
            };
            if has_no_place(slot, bytes) {
                skips = true;
                requests.answer(head, 0);
                continue;
            }
            set(given, head);
            queue.add(head, address(slot).wrapping_add(self.to_board), bytes);
        }
        if skips {
            requests.tell();
        }
        queue.tell();
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        if id == self.interrupt {
            if self.client.acknowledge() {
                self.look_for_reset();
            }
        } else if id == self.own.interrupt && self.device.acknowledge() {
            self.start_anew();
        }
    }

    /// Gives back what the client has forgotten. If it is ready again, there is nothing of that, as it waits until all is given back.
    fn look_for_reset(&mut self) {
        let (resets, is_ready) = self.client.client();
        if resets == self.resets {
            return;
        }
        self.resets = resets;
        if is_ready || !self.kind.is_reset {
            return;
        }
        self.start_anew();
    }

    /// Resets the board's device, and gives back all requests without an answer.
    fn start_anew(&mut self) {
        // After its reset the board's device accesses no memory.
        match start(self.kind, self.own, self.lanes, self.to_board) {
            Ok(device) => self.device = device,
            Err(why) => {
                println!("driver: {}: {why}", self.kind.name);
                return;
            }
        }
        self.skipped = 0;
        for (requests, given) in self.client.queues.iter_mut().zip(&mut self.given) {
            for head in 0..PLACES as u16 {
                if clear(given, head) {
                    requests.answer(head, 0);
                }
            }
            for _ in 0..PLACES {
                if let Some((head, _)) = requests.next_request() {
                    requests.answer(head, 0);
                }
            }
            requests.settle();
        }
    }
}

impl Kind {
    /// The configuration and the features that are offered to the client of `device`.
    fn offered<const N: usize>(&self, device: &Device<N>) -> (Config, u64) {
        let mut bytes = self.config;
        if self.id == DIRECTORY.id {
            bytes += usize::from(u16::from_le_bytes([device.config(0), device.config(1)]));
        }
        let bytes = bytes.min(MAX_CONFIG) as u64;
        let mut config: Config = (0..bytes).map(|at| device.config(at)).collect();
        let mut features = device.features & self.features;
        let segments = config
            .get_mut(SEGMENTS_AT..)
            .and_then(|rest| rest.first_chunk_mut());
        if let Some(segments) = segments.filter(|_| self.id == DISK.id) {
            // A request has a header and a status besides.
            let most = DESCRIPTORS as u32 - 2;
            let has = features & SEGMENTS != 0;
            let own = u32::from_le_bytes(*segments);
            *segments = if has { most.min(own) } else { most }.to_le_bytes();
            features |= SEGMENTS;
        }
        (config, features)
    }
}

/// Resets and starts the board's device.
fn start<const N: usize>(
    kind: &Kind,
    own: BoardDevice,
    lanes: [&'static Lane; N],
    to_board: u64,
) -> Result<Device<N>, &'static str> {
    let queues = lanes.map(|lane| &lane.queue);
    Device::start((own.registers, kind.id), kind.features, queues, to_board)
}

/// Whether a request of `bytes` bytes of descriptors has a buffer without an address: one to be written that is not in the client's memory.
/// To the board's device it would be one at the board's first address.
fn has_no_place(slot: &[AtomicU64], bytes: u64) -> bool {
    let (descriptors, _) = slot.as_chunks::<2>();
    let count = (bytes / 16) as usize;
    let mut descriptors = descriptors.iter().take(count);
    descriptors.any(|[at, _]| at.load(Relaxed) == 0)
}

fn set(heads: &mut [u64; PLACES / 64], head: u16) {
    if let Some(word) = heads.get_mut(usize::from(head / 64)) {
        *word |= 1 << (head % 64);
    }
}

/// Whether it was in there.
fn clear(heads: &mut [u64; PLACES / 64], head: u16) -> bool {
    let Some(word) = heads.get_mut(usize::from(head / 64)) else {
        return false;
    };
    let was = *word >> (head % 64) & 1 != 0;
    *word &= !(1 << (head % 64));
    was
}

/// The capacity of a disk, which is the first eight bytes, in sectors of 512 bytes.
fn mib(config: &[u8]) -> u64 {
    let sectors = config.first_chunk().copied().map_or(0, u64::from_le_bytes);
    sectors >> 11
}
