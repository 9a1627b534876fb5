//! An SD card of the board's that another VM has as its disk (virtio 1.2, 5.2).
//!
//! Its controller moves words, one by one, and reaches no memory by itself. So a request's data are in its slot, copied by
//! the hypervisor, and this VM need not be trusted. A request has no more data than a slot has room for, as the configuration says;
//! the device of a client that asks for more answers nothing of it.
//!
//! A write is answered when it is on the card: there is no cache that would have to be flushed.
//!
//! A card that fails is got ready again. One that does not get ready is left alone for a while, in which requests have errors, so that
//! a client's flood makes no other client wait. If there is another card then, all requests have errors until this VM is started again.

mod failure;
mod pl180;
mod sd;

use crate::back_end::{BackEnd, Offer, Room};
use crate::machine::{mmio, timer};
use crate::memory::{CARD_BYTES, CARD_DESCRIPTORS, CARD_PLACES, CARD_SLOTS, Lane, address};
use crate::wanted::Wanted;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use failure::Failure;
use hanok_abi::back_end::mode;
use pl180::Pl180;
use sd::{Card, Facts};

/// The magic number of a virtio transport.
const VIRTIO: u32 = u32::from_le_bytes(*b"virt");
/// Features: the sizes of segments and their number are bounded, nothing can be written, the size of blocks is told.
const SIZES: u64 = 1 << 1 | 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const BLOCK_SIZE: u64 = 1 << 6;
/// The bytes of a block, and of a segment.
const BLOCK: u32 = 512;
const SEGMENT: u32 = 4096;
/// Kinds of requests (virtio 1.2, 5.2.6).
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
/// Answers.
const OK: u8 = 0;
const FAILED: u8 = 1;
const UNSUPPORTED: u8 = 2;
/// The bytes of a request's header, and its words.
const HEADER: u32 = 16;
const HEADER_WORDS: usize = 2;
/// The words of a descriptor.
const DESCRIPTOR_WORDS: usize = 2;
/// How often a request is tried.
const TRIES: usize = 3;
/// How long a card is left alone that does not get ready, in microseconds.
const PAUSE_US: u64 = 1_000_000;
/// How long no further word is said of failures, in microseconds.
const QUIET_US: u64 = 10_000_000;

/// A request's slot: descriptors, and its data, first those that this VM may read.
type Slot = [AtomicU64];

/// The card, as a disk that is served.
pub struct CardDisk {
    client: BackEnd<1>,
    interrupt: u32,
    lane: &'static Lane,
    controller: Pl180,
    /// The card, if it is ready.
    card: Option<Card>,
    /// What it said when it was offered.
    facts: Facts,
    /// Until when it is left alone.
    paused_until: u64,
    /// Until when no word is said of failures.
    quiet_until: u64,
}

impl CardDisk {
    /// The controller at `registers`, if there is one for SD cards.
    pub fn controller(registers: u64) -> Option<Pl180> {
        let is_virtio = mmio::read32(registers) == VIRTIO;
        if is_virtio {
            None
        } else {
            Pl180::at(registers)
        }
    }

    /// Gets the card ready, and offers it to the client.
    pub fn start(
        wanted: &Wanted,
        controller: Pl180,
        lane: &'static Lane,
    ) -> Result<Self, &'static str> {
        let card = Card::start(controller).map_err(Failure::text)?;
        let facts = card.facts;
        let config = config(&facts);
        let read_only = if facts.is_read_only { READ_ONLY } else { 0 };
        let offer = Offer {
            features: SIZES | BLOCK_SIZE | read_only,
            config: &config,
            size: CARD_PLACES as u16,
            head: 0,
            is_direct: false,
            needs_direct: false,
            mode: mode::KEEPS,
        };
        let room = Room {
            ring: &lane.ring,
            slots: address(&lane.slots),
            slot_size: size_of_val(&lane.slots) / CARD_PLACES,
            descriptors: CARD_DESCRIPTORS,
        };
        let client = BackEnd::start(wanted.registers, [room], &offer)?;
        client.listen(wanted.interrupt);
        println!(
            "driver: an SD card for {}, {} MiB{}",
            wanted.client,
            facts.blocks >> 11,
            if facts.is_read_only {
                ", only to be read"
            } else {
                ""
            }
        );
        Ok(Self {
            client,
            interrupt: wanted.interrupt,
            lane,
            controller,
            card: Some(card),
            facts,
            paused_until: 0,
            quiet_until: 0,
        })
    }

    /// Carries out one request. Returns whether there was none, and the client will interrupt.
    pub fn work(&mut self) -> bool {
        let [requests] = &mut self.client.queues;
        let Some((head, bytes)) = requests.next_request() else {
            return requests.listen();
        };
        let (slots, _) = self.lane.slots.as_chunks::<CARD_SLOTS>();
        let slot = slots.get(usize::from(head)).map(|slot| slot.as_flattened());
        let written = slot.and_then(|slot| self.answer(slot, bytes as usize / 16));
        let [requests] = &mut self.client.queues;
        requests.answer(head, written.unwrap_or(0));
        requests.tell();
        false
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        if id == self.interrupt {
            self.client.take_reasons();
        }
    }

    /// Carries out the request of so many descriptors in `slot`. Returns how many bytes are written: all that may be.
    fn answer(&mut self, slot: &Slot, descriptors: usize) -> Option<u32> {
        let (readable, writable) = lengths(slot, descriptors)?;
        let last = (readable + writable.checked_sub(1)?) as usize;
        let data = slot.get(DESCRIPTOR_WORDS * CARD_DESCRIPTORS..)?;
        let status = self.carry_out(data, readable, writable);
        let (word, shift) = (data.get(last / 8)?, last % 8 * 8);
        let others = word.load(Relaxed) & !(0xff_u64 << shift);
        word.store(others | u64::from(status) << shift, Relaxed);
        Some(writable)
    }

    /// Carries out the request with these data. Returns its status.
    fn carry_out(&mut self, data: &Slot, readable: u32, writable: u32) -> u8 {
        let Some(Some(header)) = (readable >= HEADER).then(|| data.first_chunk::<HEADER_WORDS>())
        else {
            return FAILED;
        };
        let [kind, first] = header.each_ref().map(|word| word.load(Relaxed));
        let kind = kind as u32;
        let bytes = match kind {
            READ if readable == HEADER => writable - 1,
            WRITE if writable == 1 && !self.facts.is_read_only => readable - HEADER,
            READ | WRITE => return FAILED,
            FLUSH => return OK,
            _ => return UNSUPPORTED,
        };
        let end = first.checked_add(u64::from(bytes / BLOCK));
        let fits = end.is_some_and(|end| end <= self.facts.blocks);
        let words = data.get(HEADER_WORDS..HEADER_WORDS + bytes as usize / 8);
        let Some(words) = words.filter(|_| fits && bytes.is_multiple_of(BLOCK)) else {
            return FAILED;
        };
        if words.is_empty() {
            return OK;
        }
        match self.transfer(kind == WRITE, first, words) {
            Some(()) => OK,
            None => FAILED,
        }
    }

    /// Moves blocks from number `first` on, if the card does.
    fn transfer(&mut self, is_write: bool, first: u64, words: &[AtomicU64]) -> Option<()> {
        let mut failure = Failure::Data;
        for _ in 0..TRIES {
            let card = self.ready()?;
            let done = if is_write {
                card.write(first, words)
            } else {
                card.read(first, words)
            };
            match done {
                Ok(()) => return Some(()),
                Err(why) => failure = why,
            }
            self.card = None;
        }
        self.complain(failure.text());
        None
    }

    /// Says why a request failed, now and then.
    fn complain(&mut self, why: &str) {
        let now = timer::now();
        if now >= self.quiet_until {
            println!("driver: the SD card fails: {why}");
            self.quiet_until = now + timer::microseconds(QUIET_US);
        }
    }

    /// The card, got ready again if that is due.
    fn ready(&mut self) -> Option<&Card> {
        if self.card.is_none() {
            if timer::now() < self.paused_until {
                return None;
            }
            match Card::start(self.controller) {
                Ok(card) if card.facts == self.facts => self.card = Some(card),
                other => {
                    self.complain(other.map_or_else(Failure::text, |_| "there is another card"));
                    self.paused_until = timer::now() + timer::microseconds(PAUSE_US);
                }
            }
        }
        self.card.as_ref()
    }
}

/// A disk's configuration: its blocks, the most bytes of a segment, the most segments, no geometry, the bytes of a block.
fn config(facts: &Facts) -> [u8; 24] {
    let segments = CARD_BYTES as u32 / SEGMENT;
    let mut config = [0; 24];
    let words = [
        facts.blocks as u32,
        (facts.blocks >> 32) as u32,
        SEGMENT,
        segments,
        0,
        BLOCK,
    ];
    let (places, _) = config.as_chunks_mut();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    config
}

/// How many bytes this VM may read and write of a request; `None` if the slot does not have room for all.
fn lengths(slot: &Slot, descriptors: usize) -> Option<(u32, u32)> {
    let (all, _) = slot.as_chunks::<DESCRIPTOR_WORDS>();
    let (mut readable, mut writable) = (0_u32, 0_u32);
    for descriptor in all.get(..descriptors)? {
        let [at, rest] = descriptor.each_ref().map(|word| word.load(Relaxed));
        let (bytes, flags) = (rest as u32, rest >> 32);
        if at == 0 {
            return None;
        }
        // VIRTQ_DESC_F_WRITE
        let sum = if flags & 2 == 0 {
            &mut readable
        } else {
            &mut writable
        };
        *sum = sum.checked_add(bytes)?;
    }
    readable.checked_add(writable)?;
    Some((readable, writable))
}

#[cfg(test)]
mod tests;
