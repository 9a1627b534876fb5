//! What a person types and points with, as a client has it (virtio 1.2, 5.8): one device with the keys of a keyboard and a
//! mouse.

use super::keyboard::{Event, KEY, RELATIVE, REPEAT};
use crate::back_end::{BackEnd, Offer, Room};
use crate::memory::{EVENT_DESCRIPTORS, InputMemory, PLACES};
use crate::wanted::Wanted;
use core::sync::atomic::Ordering::Relaxed;
use hanok_abi::back_end::{interrupt, mode};

/// The queues: events, and what lamps are to be lit.
const EVENTS: usize = 0;
const STATUS: usize = 1;
/// The bytes of the configuration: what is selected, the size of the answer, and behind eight bytes the answer.
const CONFIG: usize = 136;
const SIZE: usize = 2;
const ANSWER: usize = 8;
/// What the client may select (5.8.4).
const NAME: u8 = 0x01;
const IDS: u8 = 0x03;
const BITS: u8 = 0x11;
const CALLED: &[u8] = b"Hanok keyboard and mouse";
/// The bus of the ids: virtual (BUS_VIRTUAL of Linux's input.h).
const VIRTUAL: u8 = 6;
/// The keys that there are: of a keyboard, and of a mouse.
const KEYS: [core::ops::Range<u16>; 2] = [1..128, 0x110..0x113];
/// The axes of a mouse: across, down, and its wheel.
const AXES: [u16; 3] = [0, 1, 8];
/// The flag of a descriptor that may be written.
const WRITE: u64 = 2 << 32;

/// The device of a client.
pub struct Input {
    client: BackEnd<2>,
    memory: &'static InputMemory,
    interrupt: u32,
    config: [u8; CONFIG],
    resets: u32,
    /// Why its interrupt has come since the last look.
    reasons: u32,
}

impl Input {
    /// Offers it to the client.
    pub fn start(wanted: &Wanted, memory: &'static InputMemory) -> Result<Self, &'static str> {
        let config = [0; CONFIG];
        let offer = Offer {
            features: 0,
            config: &config,
            size: PLACES as u16,
            head: 0,
            is_direct: true,
            needs_direct: false,
            mode: mode::STORES,
        };
        let [events, status] = &memory.rings;
        let rooms = [
            Room::new(events, &memory.events, EVENT_DESCRIPTORS),
            Room::new(status, &memory.status, EVENT_DESCRIPTORS),
        ];
        let client = BackEnd::start(wanted.registers, rooms, &offer)?;
        client.listen(wanted.interrupt);
        let mut own = Self {
            resets: client.resets(),
            client,
            memory,
            interrupt: wanted.interrupt,
            config,
            reasons: u32::MAX,
        };
        // A store to an earlier back end may wait for its answer.
        own.answer();
        Ok(own)
    }

    /// Answers the client's store to its configuration, if one waits.
    fn answer(&mut self) {
        let Some((at, value)) = self.client.stored() else {
            return;
        };
        if let Some(place) = self.config.get_mut(at).filter(|_| at < SIZE) {
            *place = value as u8;
        }
        let [selected, part, ..] = self.config;
        self.config = [0; CONFIG];
        (self.config[0], self.config[1]) = (selected, part);
        if let Some(answer) = self.config.last_chunk_mut::<{ CONFIG - ANSWER }>() {
            self.config[SIZE] = fill(answer, selected, part) as u8;
        }
        self.client.answer(&self.config);
    }

    /// Gives the client an event. One for which it has no room is lost.
    pub fn send(&mut self, event: Event) {
        let requests = &mut self.client.queues[EVENTS];
        let Some((head, _)) = requests.next_request() else {
            return;
        };
        let slot = self.memory.events.get(usize::from(head));
        let Some([_, rest, data @ ..]) = slot else {
            return;
        };
        // The bytes of a small buffer are behind the slot's descriptors.
        let rest = rest.load(Relaxed);
        let fits = rest & WRITE != 0 && rest as u32 >= 8;
        if let Some(data) = data.get(2 * EVENT_DESCRIPTORS - 2).filter(|_| fits) {
            data.store(event.word(), Relaxed);
        }
        requests.answer(head, if fits { 8 } else { 0 });
    }

    /// Does what there is to do. Returns whether there was nothing, and the client will interrupt.
    pub fn work(&mut self) -> bool {
        let reasons = core::mem::take(&mut self.reasons);
        if reasons & interrupt::CONFIG != 0 {
            self.answer();
        }
        if reasons & interrupt::CLIENT != 0
            && let resets = self.client.resets()
            && resets != self.resets
        {
            self.resets = resets;
            // What it has forgotten is given back.
            let requests = &mut self.client.queues[EVENTS];
            for _ in 0..PLACES {
                let Some((head, _)) = requests.next_request() else {
                    break;
                };
                requests.answer(head, 0);
            }
        }
        let status = &mut self.client.queues[STATUS];
        let mut idle = true;
        while let Some((head, _)) = status.next_request() {
            status.answer(head, 0);
            idle = false;
        }
        self.client.queues.iter_mut().for_each(|queue| queue.tell());
        self.client.queues[EVENTS].ignore();
        idle && self.client.queues[STATUS].listen()
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        if id == self.interrupt {
            self.reasons |= self.client.take_reasons();
        }
    }
}

/// Writes what the client has selected. Returns its size.
fn fill(answer: &mut [u8], selected: u8, part: u8) -> usize {
    let mut put = |bytes: &[u8]| {
        answer
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, byte)| *to = *byte);
        bytes.len()
    };
    match (selected, u16::from(part)) {
        (NAME, _) => put(CALLED),
        (IDS, _) => put(&[VIRTUAL, 0, 0, 0, 0, 0, 1, 0]),
        (BITS, KEY) => KEYS
            .into_iter()
            .flatten()
            .fold(0, |_, key| bit(answer, key)),
        (BITS, RELATIVE) => AXES.into_iter().fold(0, |_, axis| bit(answer, axis)),
        (BITS, REPEAT) => 1,
        _ => 0,
    }
}

/// Sets a bit. Returns how many bytes there are up to it.
fn bit(answer: &mut [u8], number: u16) -> usize {
    let byte = usize::from(number / 8);
    if let Some(byte) = answer.get_mut(byte) {
        *byte |= 1 << (number % 8);
    }
    byte + 1
}
