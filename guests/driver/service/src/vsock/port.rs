//! A client of the switch.

use super::packet::{HEAD, HEAD_WORDS, Packet, Piece};
use crate::back_end::{BackEnd, Offer, Room as Places};
use crate::memory::{FRAME_DESCRIPTORS, SOCKET_PLACES, SocketMemory, address};
use crate::wanted::Wanted;
use core::sync::atomic::Ordering::Relaxed;

/// The queues: for what the client receives, for what it sends, and for what happens to all its connections.
pub(super) const RECEIVE: usize = 0;
pub(super) const SEND: usize = 1;
pub(super) const EVENT: usize = 2;
/// The flag of a descriptor that may be written.
const WRITE: u64 = 2 << 32;
/// The event that all connections are gone (virtio 1.2, 5.10.6.7), and its bytes.
const TRANSPORT_RESET: u64 = 0;
const EVENT_BYTES: u32 = 4;

/// A client.
pub(super) struct Port {
    registers: u64,
    name: &'static str,
    pub(super) cid: u64,
    pub(super) interrupt: u32,
    pub(super) back: BackEnd<3>,
    memory: &'static SocketMemory,
    resets: u32,
    /// Whether its driver is ready.
    pub(super) is_ready: bool,
    /// Whether it has sent with a CID that is not its own.
    has_forged: bool,
    /// Whether its device is withdrawn, as its rings were not as they must be.
    pub(super) is_down: bool,
    /// Whether it had no buffer for longer than senders wait, and has none yet.
    pub(super) is_stuck: bool,
    /// How much of the data of the packet that it sends is passed on, and since when it waits for more.
    pub(super) passed: u32,
    pub(super) waits_since: Option<u64>,
    /// Whether it has to be told that its connections are gone, and how many of the packets that come next are of these.
    has_loss: bool,
    lost: u32,
}

/// Whether there was room for something.
pub(super) enum Room {
    /// For so many bytes of data.
    For(u32),
    /// There was none.
    None,
}

impl Port {
    pub(super) fn start(
        wanted: &Wanted,
        memory: &'static SocketMemory,
    ) -> Result<Self, &'static str> {
        let back = offer(wanted.registers, wanted.cid, memory)?;
        back.listen(wanted.interrupt);
        let (resets, is_ready) = back.client();
        let mut port = Self {
            registers: wanted.registers,
            name: wanted.client,
            cid: wanted.cid,
            interrupt: wanted.interrupt,
            back,
            memory,
            resets,
            is_ready,
            has_forged: false,
            is_down: false,
            is_stuck: false,
            passed: 0,
            waits_since: None,
            has_loss: false,
            lost: 0,
        };
        port.look_for_loss();
        Ok(port)
    }

    /// What an earlier back end had of the client's: it may have passed it on.
    fn look_for_loss(&mut self) {
        self.lost = self.back.again(SEND as u32);
        self.has_loss = self.lost + self.back.again(RECEIVE as u32) > 0;
    }

    /// The packet that the client sends by the request `head`, whose table of descriptors has `table` bytes; `None` if it is to be dropped.
    pub(super) fn packet(&mut self, head: u16, table: u64) -> Option<Packet> {
        if self.lost > 0 {
            self.lost -= 1;
            return None;
        }
        let words = self.memory.sent.get(usize::from(head))?;
        let (descriptors, data) = words.split_at_checked(2 * FRAME_DESCRIPTORS)?;
        let table = descriptors.get(..usize::try_from(table).ok()? / 8)?;
        let packet = Packet::of(table, data)?;
        if packet.header.from() == self.cid {
            return Some(packet);
        }
        if !self.has_forged {
            println!("driver: {} sends with another's CID: dropped", self.name);
        }
        self.has_forged = true;
        None
    }

    /// Gives the client the data of a packet from `from` on, as far as its next buffer has room.
    pub(super) fn receive(&mut self, packet: &Packet, from: u32) -> Room {
        let requests = &mut self.back.queues[RECEIVE];
        let left = packet.header.bytes().saturating_sub(from);
        for _ in 0..SOCKET_PLACES {
            let Some((head, table)) = requests.next_request() else {
                break;
            };
            self.is_stuck = false;
            let Some(words) = self.memory.received.get(usize::from(head)) else {
                break;
            };
            let (descriptors, own) = words.split_at(2 * FRAME_DESCRIPTORS);
            let count = usize::try_from(table).unwrap_or(0) / 16;
            let lengths = descriptors.as_chunks::<2>().0.iter().take(count);
            let lengths = lengths.map(|[_, rest]| rest.load(Relaxed));
            let writes = lengths.filter(|rest| rest & WRITE != 0);
            let room = writes.fold(0_u32, |sum, rest| sum.saturating_add(rest as u32));
            let bytes = left.min(room.saturating_sub(HEAD as u32));
            if room < HEAD as u32 || bytes == 0 && left > 0 {
                // It has no room for anything.
                requests.answer(head, 0);
                continue;
            }
            packet.header.write(bytes, own);
            let header = Piece {
                at: address(own).wrapping_add(packet.to_board),
                bytes: HEAD as u32,
            };
            let pieces = core::iter::once(header).chain(packet.pieces(from, bytes));
            for ([at, rest], piece) in descriptors.as_chunks::<2>().0.iter().zip(pieces) {
                at.store(piece.at, Relaxed);
                rest.store(u64::from(piece.bytes) | WRITE, Relaxed);
            }
            requests.answer(head, HEAD as u32 + bytes);
            return Room::For(bytes);
        }
        Room::None
    }

    /// Tells the client that its connections are gone, if they are.
    pub(super) fn tell_of_loss(&mut self) {
        if !self.has_loss {
            return;
        }
        let events = &mut self.back.queues[EVENT];
        let Some((head, _)) = events.next_request() else {
            return;
        };
        if let Some([_, _, data, _]) = self.memory.events.get(usize::from(head)) {
            data.store(TRANSPORT_RESET, Relaxed);
        }
        events.answer(head, EVENT_BYTES);
        self.has_loss = false;
    }

    /// Looks whether the client has forgotten its requests, and gives them back. If it is ready again, there are none of these, as it
    /// waits until all are given back.
    pub(super) fn look_for_reset(&mut self) {
        let (resets, is_ready) = self.back.client();
        self.is_ready = is_ready;
        if resets == self.resets {
            return;
        }
        self.resets = resets;
        (self.passed, self.waits_since) = (0, None);
        (self.lost, self.has_loss) = (0, false);
        if is_ready {
            return;
        }
        for requests in &mut self.back.queues {
            for _ in 0..SOCKET_PLACES {
                if let Some((head, _)) = requests.next_request() {
                    requests.answer(head, 0);
                }
            }
            requests.settle();
        }
    }

    /// Offers the device again, if it was withdrawn: in rings of which nothing is used.
    pub(super) fn offer_again(&mut self) {
        if !self.is_down {
            return;
        }
        let rings = self.memory.rings.iter();
        rings.for_each(|ring| ring.empty(SOCKET_PLACES as u16));
        // If it is refused, it is tried again as long as there is other work.
        if let Ok(back) = offer(self.registers, self.cid, self.memory) {
            self.back = back;
            self.is_down = false;
            (self.passed, self.waits_since) = (0, None);
            self.look_for_loss();
            println!("driver: the sockets of {} are offered again", self.name);
        }
    }

    /// Asks to be told of packets. Returns whether there is none yet.
    pub(super) fn listen(&self) -> bool {
        let [_, send, event] = &self.back.queues;
        self.is_down || send.listen() && (!self.has_loss || event.listen())
    }
}

/// Offers a client sockets with this CID.
fn offer(
    registers: u64,
    cid: u64,
    memory: &'static SocketMemory,
) -> Result<BackEnd<3>, &'static str> {
    let [receive, send, event] = &memory.rings;
    let offer = Offer {
        features: 0,
        config: &cid.to_le_bytes(),
        size: SOCKET_PLACES as u16,
        head: HEAD as u32,
        is_direct: true,
        needs_direct: true,
        mode: 0,
    };
    let rooms = [
        Places::new(receive, &memory.received, FRAME_DESCRIPTORS),
        Places::new(send, &memory.sent, FRAME_DESCRIPTORS),
        Places::new(event, &memory.events, 1),
    ];
    let back = BackEnd::start(registers, rooms, &offer)?;
    back.queues[RECEIVE].ignore();
    back.queues[EVENT].ignore();
    Ok(back)
}

const _: () = assert!(HEAD_WORDS <= crate::memory::HEADER_WORDS);
