//! A virtio device of another VM, with one queue: its requests, and their answers.

use crate::memory::{DESCRIPTORS, DiskMemory, PLACES, SLOT_WORDS, Split, address};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::fence;
use hanok_abi::back_end::{control, mode, register};
use hanok_guest_runtime::mmio;

/// What is offered.
pub struct Offer {
    /// The features of the device.
    pub features: u64,
    /// Its configuration, in words.
    pub config: [u32; 15],
}

/// The device.
pub struct BackEnd {
    registers: u64,
    ring: &'static Split,
    next_available: u16,
    next_used: u16,
    told: u16,
}

impl BackEnd {
    /// Offers the device to its client.
    pub fn start(
        registers: u64,
        memory: &'static DiskMemory,
        offer: &Offer,
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
        write(register::MODE, mode::DIRECT);
        if mmio::read32(registers + register::MODE) != mode::DIRECT {
            return Err("this VM is not trusted, and its devices cannot reach its clients' memory");
        }
        pair(register::FEATURES, offer.features);
        write(register::QUEUE_SIZE, PLACES as u32);
        for (index, word) in (0..).zip(offer.config) {
            write(register::CONFIG + 4 * index, word);
        }
        write(register::CONFIG_SIZE, 4 * offer.config.len() as u32);
        write(register::QUEUE, 0);
        let places = memory.ring.places().into_iter();
        let at = [register::TABLE, register::AVAILABLE, register::USED];
        places.zip(at).for_each(|(place, at)| pair(at, place));
        pair(register::SLOTS, address(&memory.slots));
        write(register::SLOT_SIZE, 8 * SLOT_WORDS as u32);
        write(register::SLOT_DESCRIPTORS, DESCRIPTORS as u32);
        write(register::CONTROL, control::OFFER);
        if mmio::read32(registers + register::CONTROL) != control::OFFER {
            return Err("the offer was refused: its client uses what the device has not");
        }
        Ok(Self {
            registers,
            ring: &memory.ring,
            next_available: 0,
            next_used: 0,
            told: 0,
        })
    }

    /// The next request, and the bytes of its table of descriptors.
    pub fn next_request(&mut self) -> Option<(u16, u64)> {
        if self.ring.available.index.load(Acquire) == self.next_available {
            return None;
        }
        let place = usize::from(self.next_available) % PLACES;
        let head = self.ring.available.entries.get(place)?.load(Relaxed);
        let descriptor = self.ring.table.get(usize::from(head))?;
        self.next_available = self.next_available.wrapping_add(1);
        Some((head, descriptor.rest.load(Relaxed) & 0xffff_ffff))
    }

    /// Asks to be told of the next request. Returns whether there is none yet.
    pub fn listen(&self) -> bool {
        self.ring.used.event.store(self.next_available, Relaxed);
        fence(SeqCst);
        self.ring.available.index.load(Relaxed) == self.next_available
    }

    /// Answers the request `head`: all that it may write may be written.
    pub fn answer(&mut self, head: u16) {
        let place = usize::from(self.next_used) % PLACES;
        if let Some([id, written]) = self.ring.used.elements.get(place) {
            id.store(head.into(), Relaxed);
            written.store(u32::MAX, Relaxed);
        }
        self.next_used = self.next_used.wrapping_add(1);
    }

    /// Lets the hypervisor see the answers.
    pub fn tell(&mut self) {
        if self.told == self.next_used {
            return;
        }
        self.ring.used.index.store(self.next_used, Release);
        fence(SeqCst);
        let event = self.ring.available.event.load(Relaxed);
        let behind = self.next_used.wrapping_sub(event).wrapping_sub(1);
        if behind < self.next_used.wrapping_sub(self.told) {
            mmio::write32(self.registers + register::NOTIFY, 0);
        }
        self.told = self.next_used;
    }

    /// Acknowledges its interrupt.
    pub fn acknowledge(&self) {
        mmio::write32(self.registers + register::ACKNOWLEDGE, u32::MAX);
    }
}
