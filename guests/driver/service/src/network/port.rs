//! A client of a network.

use super::frame::{Frame, HEAD, Header, LONGEST, Piece, RECEIVE, set_prefix};
use crate::back_end::{BackEnd, Offer, Requests, Room};
use crate::memory::{FRAME_DESCRIPTORS, FRAME_PLACES, PortMemory};
use crate::wanted::Wanted;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use heapless::Vec;

/// Features: the address is in the configuration, and so is the state of the link.
const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;
/// The state of a link that is up.
const UP: u16 = 1;
/// The flag of a descriptor that may be written.
const WRITE: u64 = 2 << 32;

/// A client.
pub(super) struct Port {
    pub(super) registers: u64,
    pub(super) name: &'static str,
    pub(super) mac: [u8; 6],
    pub(super) vlan: u32,
    pub(super) interrupt: u32,
    pub(super) back: BackEnd<2>,
    pub(super) memory: &'static PortMemory,
    pub(super) resets: u32,
    /// Whether it has sent with an address that is not its own.
    pub(super) has_forged: bool,
    /// Whether its interface is withdrawn, as its rings were not as they must be.
    pub(super) is_down: bool,
    /// Whether the next frame that it sends waits for a place of the board's device.
    pub(super) waits: bool,
}

impl Port {
    pub(super) fn start(
        wanted: &Wanted,
        memory: &'static PortMemory,
        needs_direct: bool,
    ) -> Result<Self, &'static str> {
        let back = offer(wanted.registers, wanted.mac, memory, needs_direct)?;
        back.listen(wanted.interrupt);
        Ok(Self {
            registers: wanted.registers,
            name: wanted.client,
            mac: wanted.mac,
            vlan: wanted.vlan,
            interrupt: wanted.interrupt,
            resets: back.resets(),
            back,
            memory,
            has_forged: false,
            is_down: false,
            waits: false,
        })
    }

    /// The frame that the client sends by the request `head`, whose table of descriptors has `table` bytes; `None` if it is to be dropped.
    pub(super) fn frame(&mut self, head: u16, table: u64) -> Option<(Frame, Header)> {
        let words = self.memory.sent.get(usize::from(head))?;
        let (table, data) = divided(words, table)?;
        let mut frame = Frame {
            pieces: Vec::new(),
            bytes: 0,
        };
        for [at, rest] in table.as_chunks::<2>().0 {
            let (at, rest) = (at.load(Relaxed), rest.load(Relaxed));
            let bytes = rest as u32;
            if rest & WRITE == 0 {
                frame.bytes = frame.bytes.checked_add(bytes)?;
                frame.pieces.push(Piece { at, bytes }).ok()?;
            }
        }
        if !(HEAD as u32..=LONGEST).contains(&frame.bytes) {
            return None;
        }
        let header = Header::of(data);
        if header.from() != self.mac {
            if !self.has_forged {
                println!(
                    "driver: {} sends with another's address: dropped",
                    self.name
                );
            }
            self.has_forged = true;
            return None;
        }
        set_prefix(data, 1);
        (!header.has_tag()).then_some((frame, header))
    }

    /// Gives the client a frame, if it has room for it.
    pub(super) fn receive(&mut self, frame: &Frame) {
        let requests = &mut self.back.queues[RECEIVE];
        let next = requests.peek().filter(|_| !self.is_down);
        let Some((head, table)) = next else {
            return;
        };
        let words = self.memory.received.get(usize::from(head));
        let Some((words, (table, _))) =
            words.and_then(|words| Some((words, divided(words, table)?)))
        else {
            return;
        };
        let lengths = table.as_chunks::<2>().0.iter();
        let lengths = lengths
            .map(|[_, rest]| rest.load(Relaxed))
            .filter(|rest| rest & WRITE != 0);
        let room = lengths.fold(0_u64, |sum, rest| sum + u64::from(rest as u32));
        if room < frame.bytes.into() {
            return;
        }
        requests.take();
        for ([at, rest], piece) in words.as_chunks::<2>().0.iter().zip(&frame.pieces) {
            at.store(piece.at, Relaxed);
            rest.store(u64::from(piece.bytes) | WRITE, Relaxed);
        }
        requests.answer(head, frame.bytes);
    }

    /// Gives back what the client was to receive by requests that it has forgotten.
    pub(super) fn look_for_reset(&mut self) {
        let resets = self.back.resets();
        if resets == self.resets {
            return;
        }
        self.resets = resets;
        let requests: &mut Requests = &mut self.back.queues[RECEIVE];
        for _ in 0..FRAME_PLACES {
            if let Some((head, _)) = requests.next_request() {
                requests.answer(head, 0);
            }
        }
    }

    /// Offers the interface again, in rings of which nothing is used: what was under way is given again.
    pub(super) fn offer_again(&mut self, needs_direct: bool) {
        let rings = self.memory.rings.iter();
        rings.for_each(|ring| ring.empty(FRAME_PLACES as u16));
        // If it is refused, it is tried again as long as there is other work.
        if let Ok(back) = offer(self.registers, self.mac, self.memory, needs_direct) {
            self.back = back;
            self.is_down = false;
            println!("driver: the network of {} is offered again", self.name);
        }
    }
}

/// Offers a client an interface with this address.
fn offer(
    registers: u64,
    mac: [u8; 6],
    memory: &'static PortMemory,
    needs_direct: bool,
) -> Result<BackEnd<2>, &'static str> {
    let [a, b, c, d, e, f] = mac;
    let config = [a, b, c, d, e, f, UP as u8, 0];
    let [receive, send] = &memory.rings;
    let offer = Offer {
        features: MAC | STATUS,
        config: &config,
        size: FRAME_PLACES as u16,
        head: HEAD as u32,
        is_direct: true,
        needs_direct,
        mode: 0,
    };
    let rooms = [
        Room::new(receive, &memory.received, FRAME_DESCRIPTORS),
        Room::new(send, &memory.sent, FRAME_DESCRIPTORS),
    ];
    let back = BackEnd::start(registers, rooms, &offer)?;
    back.queues[RECEIVE].ignore();
    Ok(back)
}

/// The words of a slot's table of `bytes` bytes, and those of its data.
fn divided(words: &[AtomicU64], bytes: u64) -> Option<(&[AtomicU64], &[AtomicU64])> {
    let (descriptors, data) = words.split_at_checked(2 * FRAME_DESCRIPTORS)?;
    let table = descriptors.get(..usize::try_from(bytes).ok()? / 8)?;
    Some((table, data))
}
