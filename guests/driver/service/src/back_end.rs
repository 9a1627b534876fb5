//! A virtio device of another VM: the requests of its queues, and their answers.

use crate::begin_again;
use crate::machine::{gic, mmio};
use crate::memory::{Split, address};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use hanok_abi::back_end::{client, control, interrupt, mode, register};

/// How often the hypervisor is asked to take answers.
const TRIES: usize = 3;

/// What is offered.
pub struct Offer<'a> {
    /// The features of the device.
    pub features: u64,
    /// Its configuration.
    pub config: &'a [u8],
    /// The size of each queue, [`MAX_QUEUE_SIZE`](hanok_abi::back_end::MAX_QUEUE_SIZE) at the most.
    pub size: u16,
    /// How many bytes of what this VM may read of a request it wants to see in any case.
    pub head: u32,
    /// Whether larger buffers are named by their addresses on the board, where this VM may have that.
    pub is_direct: bool,
    /// Whether a device of the board has to reach the clients' memory.
    pub needs_direct: bool,
    /// Bits of [`mode`] that it has beside the one for a trusted VM.
    pub mode: u32,
}

/// Where one queue has its ring and its slots.
pub struct Room {
    pub ring: &'static Split,
    pub slots: u64,
    pub slot_size: usize,
    pub descriptors: usize,
}

impl Room {
    /// The room of a queue with these slots of so many descriptors.
    pub fn new<T, const N: usize>(
        ring: &'static Split,
        slots: &'static [T; N],
        descriptors: usize,
    ) -> Self {
        Self {
            ring,
            slots: address(slots),
            slot_size: size_of::<T>(),
            descriptors,
        }
    }
}

/// The device, with `N` queues.
pub struct BackEnd<const N: usize> {
    registers: u64,
    /// Its queues.
    pub queues: [Requests; N],
}

impl<const N: usize> BackEnd<N> {
    /// Offers the device to its client.
    pub fn start(
        registers: u64,
        rooms: [Room; N],
        offer: &Offer<'_>,
    ) -> Result<Self, &'static str> {
        let write = |offset, value| mmio::write32(registers + offset, value);
        let pair = |offset, value: u64| {
            write(offset, value as u32);
            write(offset + 4, (value >> 32) as u32);
        };
        if mmio::read32(registers + register::ID) != register::MAGIC {
            return Err("there is no back end");
        }
        write(register::CONTROL, control::WITHDRAW);
        let direct = if offer.is_direct { mode::DIRECT } else { 0 };
        write(register::MODE, direct | offer.mode);
        let mode = mmio::read32(registers + register::MODE);
        if offer.needs_direct && mode & mode::DIRECT == 0 {
            return Err("this VM is not trusted, and its devices cannot reach its clients' memory");
        }
        write(register::HEAD, offer.head);
        pair(register::FEATURES, offer.features);
        write(register::QUEUE_SIZE, offer.size.into());
        write_config(registers, offer.config);
        write(register::CONFIG_SIZE, offer.config.len() as u32);
        for (index, room) in (0..).zip(&rooms) {
            write(register::QUEUE, index);
            let places = room.ring.places().into_iter();
            let at = [register::TABLE, register::AVAILABLE, register::USED];
            places.zip(at).for_each(|(place, at)| pair(at, place));
            pair(register::SLOTS, room.slots);
            write(register::SLOT_SIZE, room.slot_size as u32);
            write(register::SLOT_DESCRIPTORS, room.descriptors as u32);
        }
        write(register::CONTROL, control::OFFER);
        if mmio::read32(registers + register::CONTROL) != control::OFFER {
            return Err("the offer was refused: its client uses what the device has not");
        }
        let mut index = 0;
        let queues = rooms.map(|room| {
            let queue = Requests {
                notify: registers + register::NOTIFY,
                index,
                ring: room.ring,
                size: offer.size,
                next_available: 0,
                next_used: 0,
                told: 0,
            };
            index += 1;
            queue
        });
        Ok(Self { registers, queues })
    }

    /// Lets interrupt `id` come, which is its own, from now on: for what was told before, everything is to be looked at once.
    pub fn listen(&self, id: u32) {
        // By edges, an interrupt's end is no work for the hypervisor.
        gic::set_edge(id, true);
        gic::enable(id);
        // The line may have risen before.
        self.take_reasons();
    }

    /// Why its interrupt has come (`hanok_abi::back_end::interrupt`), which this acknowledges. If it is that the hypervisor has found a fault
    /// in a ring or an answer of this program's, everything begins again: the client waits for a device that keeps the rules.
    pub fn take_reasons(&self) -> u32 {
        let read = |offset| mmio::read32(self.registers + offset);
        let reasons = read(register::TAKE);
        if reasons & interrupt::CLIENT != 0 && read(register::CONTROL) == control::FAILED {
            begin_again("the hypervisor has refused what it said of a client's requests");
        }
        reasons
    }

    /// Acknowledges its interrupt. Returns whether the client's driver may have become ready, or have been reset.
    pub fn acknowledge(&self) -> bool {
        self.take_reasons() & interrupt::CLIENT != 0
    }

    /// The client's store to its configuration that waits for an answer: where, and what.
    pub fn stored(&self) -> Option<(usize, u32)> {
        let stored = mmio::read32(self.registers + register::STORED);
        let value = mmio::read32(self.registers + register::VALUE);
        (stored != 0).then_some(((stored & 0xffff) as usize, value))
    }

    /// Answers it: the client has this configuration now.
    pub fn answer(&self, config: &[u8]) {
        write_config(self.registers, config);
        mmio::write32(self.registers + register::ANSWER, 0);
    }

    /// Copies bytes from `from` in the client's memory to `to` in this VM's. Returns whether all could be copied.
    pub fn fetch(&self, from: u64, to: u64, bytes: u32) -> bool {
        let write = |offset, value| mmio::write32(self.registers + offset, value);
        for (at, value) in [(register::FETCH_FROM, from), (register::FETCH_TO, to)] {
            write(at, value as u32);
            write(at + 4, (value >> 32) as u32);
        }
        write(register::FETCH, bytes);
        mmio::read32(self.registers + register::FETCH) == 0
    }

    /// Withdraws the device: the rings and what they name are not read any more.
    pub fn withdraw(&self) {
        mmio::write32(self.registers + register::CONTROL, control::WITHDRAW);
    }

    /// A number that changes whenever the client has forgotten its requests.
    pub fn resets(&self) -> u32 {
        self.client().0
    }

    /// The same number, and whether the client's driver is ready.
    pub fn client(&self) -> (u32, bool) {
        let value = mmio::read32(self.registers + register::CLIENT);
        (value >> 1, value & client::LIVE != 0)
    }

    /// How many requests of queue `index` come first that an earlier back end may have done.
    pub fn again(&self, index: u32) -> u32 {
        mmio::write32(self.registers + register::QUEUE, index);
        mmio::read32(self.registers + register::AGAIN)
    }
}

/// Writes the device's configuration.
fn write_config(registers: u64, config: &[u8]) {
    for (index, bytes) in (0..).zip(config.chunks(4)) {
        let mut word = [0; 4];
        word.iter_mut()
            .zip(bytes)
            .for_each(|(to, byte)| *to = *byte);
        let at = registers + register::CONFIG + 4 * index;
        mmio::write32(at, u32::from_le_bytes(word));
    }
}

/// The requests of one queue.
pub struct Requests {
    notify: u64,
    index: u32,
    ring: &'static Split,
    size: u16,
    next_available: u16,
    next_used: u16,
    told: u16,
}

impl Requests {
    /// The next request, and the bytes of its table of descriptors. It stays the next one until [`Self::take`].
    pub fn peek(&self) -> Option<(u16, u64)> {
        if self.ring.available.index.load(Acquire) == self.next_available {
            return None;
        }
        let place = usize::from(self.next_available % self.size);
        let head = self.ring.available.entries.get(place)?.load(Relaxed);
        let descriptor = self.ring.table.get(usize::from(head))?;
        Some((head, descriptor.rest.load(Relaxed) & 0xffff_ffff))
    }

    /// Goes on to the request after the next one.
    pub fn take(&mut self) {
        self.next_available = self.next_available.wrapping_add(1);
    }

    /// The next request, which is taken.
    pub fn next_request(&mut self) -> Option<(u16, u64)> {
        let found = self.peek()?;
        self.take();
        Some(found)
    }

    /// Asks to be told of the next request. Returns whether there is none yet.
    pub fn listen(&self) -> bool {
        self.ring.set_device_event(self.size, self.next_available);
        fence(SeqCst);
        self.ring.available.index.load(Relaxed) == self.next_available
    }

    /// Asks not to be told of requests.
    pub fn ignore(&self) {
        let behind = self.next_available.wrapping_sub(1);
        self.ring.set_device_event(self.size, behind);
    }

    /// Answers the request `head`: the first `written` bytes that it may write are written.
    pub fn answer(&mut self, head: u16, written: u32) {
        let place = usize::from(self.next_used % self.size);
        if let Some([id, bytes]) = self.ring.used.elements.get(place) {
            id.store(head.into(), Relaxed);
            bytes.store(written, Relaxed);
        }
        self.next_used = self.next_used.wrapping_add(1);
    }

    /// Lets the hypervisor see the answers.
    pub fn tell(&mut self) {
        if self.show() {
            let event = self.ring.driver_event(self.size).load(Relaxed);
            let behind = self.next_used.wrapping_sub(event).wrapping_sub(1);
            if behind < self.next_used.wrapping_sub(self.told) {
                mmio::write32(self.notify, self.index);
            }
            self.told = self.next_used;
        }
    }

    /// Lets the hypervisor take the answers now. Returns whether it has: then it does not read any more what they name.
    pub fn settle(&mut self) -> bool {
        let taken = |own: &Self| own.ring.driver_event(own.size).load(Acquire) == own.next_used;
        if !self.show() {
            return taken(self);
        }
        self.told = self.next_used;
        // A client whose queue is broken ends the first go: what it has forgotten is taken by the next one.
        (0..TRIES).any(|_| {
            mmio::write32(self.notify, self.index);
            taken(self)
        })
    }

    /// Shows the index. Returns whether it is another one than before.
    fn show(&self) -> bool {
        if self.told == self.next_used {
            return false;
        }
        self.ring.used.index.store(self.next_used, Release);
        fence(SeqCst);
        true
    }
}
