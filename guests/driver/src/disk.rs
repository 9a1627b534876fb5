//! A disk of the board's that another VM has as its own (virtio 1.2, 5.2).
//!
//! A request's table of descriptors is in a slot, with addresses of the board. So it is given to the board's device as it is, and
//! nothing of a request is read here or copied.

use crate::back_end::{BackEnd, Offer, Room};
use crate::device::Device;
use crate::memory::{DESCRIPTORS, DiskMemory, PLACES, address};
use crate::tree::{Served, Wanted};
use hanok_guest_runtime::gic;

/// The device id of a disk.
const BLOCK: u32 = 2;
/// The features that are passed on: sizes and numbers of segments, geometry, read-only, block size, flush, topology, discard and write-zeroes.
/// Not the several queues and the cache's mode, which would have to be set by the client.
const FEATURES: u64 =
    1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 9 | 1 << 10 | 1 << 13 | 1 << 14;
/// The feature by which a disk says how many segments a request may have, and the word of its configuration that says so.
const SEGMENTS: u64 = 1 << 2;
const SEGMENTS_WORD: usize = 3;

/// A disk that is served.
pub struct Disk {
    client: BackEnd<1>,
    device: Device<1>,
    /// The board's address of the slots, and the size of one.
    slots: u64,
    slot_size: u64,
    interrupts: [u32; 2],
}

impl Disk {
    /// Starts the board's disk, and offers it to the client.
    pub fn start(
        wanted: &Wanted,
        served: &Served,
        memory: &'static DiskMemory,
    ) -> Result<Self, &'static str> {
        let own = wanted.device.ok_or("it has no device of the board")?;
        let to_board = served
            .to_board
            .ok_or("the board's devices cannot reach this VM's memory")?;
        let at = (own.registers, BLOCK);
        let device = Device::start(at, FEATURES, [&memory.queue], to_board)?;
        device.has_places(PLACES)?;
        let mut config = [0; 15];
        for (index, word) in (0..).zip(&mut config) {
            *word = device.config(4 * index);
        }
        // A request has a header and a status besides.
        let most = DESCRIPTORS as u32 - 2;
        if let Some(segments) = config.get_mut(SEGMENTS_WORD) {
            let has = device.features & SEGMENTS != 0;
            *segments = if has { most.min(*segments) } else { most };
        }
        let features = device.features & FEATURES | SEGMENTS;
        let room = Room::new(&memory.ring, &memory.slots, DESCRIPTORS);
        let offer = Offer {
            features,
            config: &config,
            head: 0,
            needs_direct: true,
        };
        let client = BackEnd::start(wanted.registers, [room], &offer)?;
        let interrupts = [wanted.interrupt, own.interrupt];
        interrupts.iter().for_each(|id| gic::enable(*id));
        println!(
            "driver: a disk for {}, {} MiB",
            wanted.client,
            config_mib(&config)
        );
        Ok(Self {
            client,
            device,
            slots: address(&memory.slots).wrapping_add(to_board),
            slot_size: size_of_val(&memory.slots[0]) as u64,
            interrupts,
        })
    }

    /// Does what there is to do. Returns whether there was nothing, and whoever has more will interrupt.
    pub fn work(&mut self) -> bool {
        let mut idle = true;
        let ([requests], [queue]) = (&mut self.client.queues, &mut self.device.queues);
        while let Some((head, _)) = queue.next_done() {
            // Of a disk's requests all is written that may be.
            requests.answer(head, u32::MAX);
            idle = false;
        }
        requests.tell();
        while let Some((head, bytes)) = requests.next_request() {
            let table = self.slots + u64::from(head) * self.slot_size;
            queue.add(head, table, bytes);
            idle = false;
        }
        queue.tell();
        idle && queue.listen() && requests.listen()
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        let [client, device] = self.interrupts;
        if id == client {
            self.client.acknowledge();
        } else if id == device {
            self.device.acknowledge();
        }
    }
}

/// The capacity, which is the first two words, in sectors of 512 bytes.
fn config_mib(config: &[u32; 15]) -> u64 {
    let [low, high, ..] = *config;
    (u64::from(high) << 32 | u64::from(low)) >> 11
}
