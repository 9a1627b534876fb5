//! Networks: a switch for each device of the board's that serves clients, and one for those that have none (virtio 1.2, 5.1).
//!
//! A client is known by the MAC address that the description gives it. Its frames are dropped if they come from another one, or
//! have a tag of a VLAN; a frame goes to the client that it is for, one for many to all of the same VLAN, and any other by the
//! board's device, which is in no VLAN. Nothing is learnt, so nobody can be made to take another's frames.
//!
//! A frame is never copied here. The hypervisor gives the first [`HEAD`] bytes of each that a client sends, in its slot, and names the
//! rest; whoever receives it is given these names. So it takes one copy from client to client, none from a client to the
//! board's device, and one from there to a client.

use crate::back_end::{BackEnd, Offer, Requests, Room};
use crate::device::Device;
use crate::memory::{
    FRAME_DESCRIPTORS, FRAME_SLOT_WORDS, FRAME_WORDS, PLACES, PortMemory, UplinkMemory, address,
};
use crate::tree::{BoardDevice, Served, Wanted};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use hanok_guest_runtime::gic;
use heapless::Vec;

/// The device id of a network interface.
const NETWORK: u32 = 1;
/// Features: the address is in the configuration, and so is the state of the link.
const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;
/// The state of a link that is up.
const UP: u16 = 1;
/// The bytes before a frame (virtio 1.2, 5.1.6), and those of a frame before its data: both addresses and the type.
const PREFIX: usize = 12;
const HEADER: usize = 14;
/// What of each frame is looked at.
const HEAD: usize = PREFIX + HEADER;
/// The most bytes of a frame with what is before it: 1,500 of data.
const LONGEST: u32 = (HEAD + 1500) as u32;
/// Types of frames with a tag (IEEE 802.1Q and 802.1ad).
const TAGS: [u16; 2] = [0x8100, 0x88a8];
/// How many frames of one client, or of the board's device, are passed on before the others have their turn.
const TURN: usize = 32;
/// How many frames wait at the most until what was received is settled.
const WAITING: usize = 64;
/// The queues of a network interface: for what it receives, and for what it sends.
const RECEIVE: usize = 0;
const SEND: usize = 1;
/// The flag of a descriptor that may be written.
const WRITE: u64 = 2 << 32;

/// The start of a frame.
struct Header([u8; HEAD]);

impl Header {
    /// Of what lies at the beginning of `words`.
    fn of(words: &[AtomicU64]) -> Self {
        let mut bytes = [0; HEAD];
        for (to, word) in bytes.chunks_mut(8).zip(words) {
            let word = word.load(Relaxed).to_le_bytes();
            to.iter_mut().zip(word).for_each(|(to, byte)| *to = byte);
        }
        Self(bytes)
    }

    fn mac(&self, at: usize) -> [u8; 6] {
        self.0
            .get(at..)
            .and_then(|bytes| bytes.first_chunk())
            .copied()
            .unwrap_or_default()
    }

    fn to(&self) -> [u8; 6] {
        self.mac(PREFIX)
    }

    fn from(&self) -> [u8; 6] {
        self.mac(PREFIX + 6)
    }

    fn has_tag(&self) -> bool {
        let [.., high, low] = self.0;
        TAGS.contains(&u16::from_be_bytes([high, low]))
    }
}

/// Sets what is before a frame: nothing is left to whoever receives it, and it is in `buffers` buffers.
fn set_prefix(words: &[AtomicU64], buffers: u16) {
    let [first, second, ..] = words else {
        return;
    };
    first.store(0, Relaxed);
    let frame = second.load(Relaxed) & 0xffff_ffff_0000_0000;
    second.store(frame | u64::from(buffers) << 16, Relaxed);
}

/// Memory of a frame, as whoever receives it is told.
#[derive(Clone, Copy)]
struct Piece {
    at: u64,
    bytes: u32,
}

/// A frame.
struct Frame {
    pieces: Vec<Piece, FRAME_DESCRIPTORS>,
    bytes: u32,
}

/// A client.
struct Port {
    name: &'static str,
    mac: [u8; 6],
    vlan: u32,
    interrupt: u32,
    back: BackEnd<2>,
    memory: &'static PortMemory,
    resets: u32,
    /// Whether it has sent with an address that is not its own.
    has_forged: bool,
}

/// A frame of a client that the hypervisor or the board's device still reads.
#[derive(Clone, Copy)]
struct Sent {
    port: u16,
    head: u16,
}

/// The board's device.
struct Uplink {
    own: BoardDevice,
    device: Device<2>,
    memory: &'static UplinkMemory,
    to_board: u64,
    /// What the device sends, by the heads of its queue, and those that are free.
    sent: [Option<Sent>; PLACES],
    free: Vec<u16, PLACES>,
}

/// A switch.
pub struct Switch {
    uplink: Option<Uplink>,
    ports: Vec<Port, 8>,
    /// What can be answered once all that was received is settled, and what the device gets then.
    done: Vec<Sent, WAITING>,
    leaving: Vec<(Sent, u16), WAITING>,
}

impl Switch {
    /// A switch with the board's device `own`, if it has one.
    pub fn start(
        own: Option<BoardDevice>,
        served: &Served,
        memory: Option<&'static UplinkMemory>,
    ) -> Result<Self, &'static str> {
        let uplink = match own {
            Some(own) => {
                let memory = memory.ok_or("there is no memory for one more device")?;
                Some(Uplink::start(own, served, memory)?)
            }
            None => None,
        };
        Ok(Self {
            uplink,
            ports: Vec::new(),
            done: Vec::new(),
            leaving: Vec::new(),
        })
    }

    /// Whether it has this device of the board, or none.
    pub fn has(&self, own: Option<BoardDevice>) -> bool {
        self.uplink.as_ref().map(|uplink| uplink.own) == own
    }

    /// Offers a client its interface.
    pub fn connect(
        &mut self,
        wanted: &Wanted,
        memory: &'static PortMemory,
    ) -> Result<(), &'static str> {
        let port = Port::start(wanted, memory, self.uplink.is_some())?;
        let way = match self.uplink {
            Some(_) => "",
            None => ", which leads to no device",
        };
        println!("driver: a network for {}{way}", wanted.client);
        self.ports.push(port).map_err(|_| "it has too many clients")
    }

    /// Does what there is to do. Returns whether there was nothing, and whoever has more will interrupt.
    pub fn work(&mut self) -> bool {
        let mut idle = self.take_back();
        for index in 0..self.ports.len() {
            idle &= self.pass_from_port(index);
        }
        let mut came = Vec::new();
        idle &= self.pass_from_uplink(&mut came);
        self.settle(&came);
        idle && self.listen()
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        for port in self.ports.iter_mut().filter(|port| port.interrupt == id) {
            port.back.acknowledge();
            port.look_for_reset();
        }
        if let Some(uplink) = &self.uplink
            && uplink.own.interrupt == id
        {
            uplink.device.acknowledge();
        }
    }

    /// Takes back what the board's device has sent. Returns whether it was nothing.
    fn take_back(&mut self) -> bool {
        let mut idle = true;
        let Some(uplink) = &mut self.uplink else {
            return idle;
        };
        while let Some((own, _)) = uplink.device.queues[SEND].next_done() {
            idle = false;
            let sent = uplink.sent.get_mut(usize::from(own)).and_then(Option::take);
            let port = sent.and_then(|sent| self.ports.get_mut(usize::from(sent.port)));
            if let (Some(sent), Some(port)) = (sent, port) {
                port.back.queues[SEND].answer(sent.head, 0);
                let _fits = uplink.free.push(own);
            }
        }
        idle
    }

    /// Passes on what a client sends. Returns whether it was nothing.
    fn pass_from_port(&mut self, index: usize) -> bool {
        for turn in 0..TURN {
            // Each frame that is passed on has a place among those that wait.
            if self.done.is_full() || self.leaving.is_full() {
                return false;
            }
            let Some(port) = self.ports.get_mut(index) else {
                return true;
            };
            let Some((head, table)) = port.back.queues[SEND].peek() else {
                return turn == 0;
            };
            let found = port.frame(head, table);
            let sent = Sent {
                port: index as u16,
                head,
            };
            let leaves = match &found {
                Some((frame, header)) => match self.deliver(Some(index), frame, header) {
                    Onward::Uplink => true,
                    Onward::Nowhere => false,
                    // The device has no place: the client waits.
                    Onward::Wait => return turn == 0,
                },
                None => false,
            };
            let Some(port) = self.ports.get_mut(index) else {
                return true;
            };
            port.back.queues[SEND].take();
            let _fits = if leaves {
                self.leaving.push((sent, table as u16)).is_ok()
            } else {
                self.done.push(sent).is_ok()
            };
        }
        false
    }

    /// Passes on what has come to the board's device; the buffers are in `came`. Returns whether it was nothing.
    fn pass_from_uplink(&mut self, came: &mut Vec<u16, TURN>) -> bool {
        while !came.is_full() {
            let Some(uplink) = &mut self.uplink else {
                break;
            };
            let Some((own, written)) = uplink.device.queues[RECEIVE].next_done() else {
                break;
            };
            let Some(words) = uplink.memory.buffers.get(usize::from(own)) else {
                continue;
            };
            let _fits = came.push(own);
            let sane = (HEAD as u32..=LONGEST).contains(&written);
            let header = Header::of(words);
            set_prefix(words, 1);
            let at = address(words).wrapping_add(uplink.to_board);
            let piece = Piece { at, bytes: written };
            if sane && !header.has_tag() {
                let pieces = Vec::from_slice(&[piece]).unwrap_or_default();
                let bytes = written;
                let _nowhere = self.deliver(None, &Frame { pieces, bytes }, &header);
            }
        }
        came.is_empty()
    }

    /// Gives a frame to those clients that it is for; `from` has sent it, or the board's device. The answer is where it goes besides.
    fn deliver(&mut self, from: Option<usize>, frame: &Frame, header: &Header) -> Onward {
        let to = header.to();
        let is_for_many = to[0] & 1 != 0;
        let vlan = from
            .and_then(|from| self.ports.get(from))
            .map_or(0, |port| port.vlan);
        let there = |(index, port): &(usize, &mut Port)| {
            Some(*index) != from && port.vlan == vlan && (is_for_many || port.mac == to)
        };
        let has_uplink = self.uplink.is_some() && from.is_some() && vlan == 0;
        let is_a_clients = self.ports.iter().any(|port| port.mac == to);
        let leaves = has_uplink && (is_for_many || !is_a_clients);
        if leaves
            && !self
                .uplink
                .as_ref()
                .is_some_and(|uplink| uplink.has_place(self.leaving.len()))
        {
            return Onward::Wait;
        }
        let ports = self.ports.iter_mut().enumerate().filter(there);
        ports.for_each(|(_, port)| port.receive(frame));
        if leaves {
            Onward::Uplink
        } else {
            Onward::Nowhere
        }
    }

    /// Has the hypervisor copy what clients have received. Then nothing that was sent is read any more but by the board's device,
    /// which gets what is for it.
    fn settle(&mut self, came: &[u16]) {
        for port in &mut self.ports {
            if !port.back.queues[RECEIVE].settle() {
                port.is_gone();
            }
        }
        if let Some(uplink) = &mut self.uplink {
            for (sent, table) in &self.leaving {
                if let Some(port) = self.ports.get(usize::from(sent.port)) {
                    uplink.send(*sent, port, (*table).into());
                }
            }
            came.iter().for_each(|own| uplink.offer_buffer(*own));
            let queues = &mut uplink.device.queues;
            queues.iter_mut().for_each(|queue| queue.tell());
        }
        self.leaving.clear();
        for sent in &self.done {
            if let Some(port) = self.ports.get_mut(usize::from(sent.port)) {
                port.back.queues[SEND].answer(sent.head, 0);
            }
        }
        self.done.clear();
        for port in &mut self.ports {
            port.back.queues[SEND].tell();
        }
    }

    fn listen(&self) -> bool {
        let mut ports = self.ports.iter();
        let mut queues = self.uplink.iter().flat_map(|uplink| &uplink.device.queues);
        ports.all(|port| port.back.queues[SEND].listen()) && queues.all(|queue| queue.listen())
    }
}

/// Where a frame goes besides the clients that it is for.
enum Onward {
    /// By the board's device.
    Uplink,
    /// Nowhere.
    Nowhere,
    /// By the board's device, which has no place now. Nobody has it yet.
    Wait,
}

impl Port {
    fn start(
        wanted: &Wanted,
        memory: &'static PortMemory,
        needs_direct: bool,
    ) -> Result<Self, &'static str> {
        let [a, b, c, d, e, f] = wanted.mac;
        let words = [[a, b, c, d], [e, f, UP as u8, 0]];
        let config = words.map(u32::from_le_bytes);
        let room = |(ring, slots)| Room::new(ring, slots, FRAME_DESCRIPTORS);
        let [receive, send] = &memory.rings;
        let [to, from] = &memory.slots;
        let offer = Offer {
            features: MAC | STATUS,
            config: &config,
            head: HEAD as u32,
            needs_direct,
        };
        let rooms = [room((receive, to)), room((send, from))];
        let back = BackEnd::start(wanted.registers, rooms, &offer)?;
        back.queues[RECEIVE].ignore();
        gic::enable(wanted.interrupt);
        Ok(Self {
            name: wanted.client,
            mac: wanted.mac,
            vlan: wanted.vlan,
            interrupt: wanted.interrupt,
            resets: back.resets(),
            back,
            memory,
            has_forged: false,
        })
    }

    /// The frame that the client sends by the request `head`, whose table of descriptors has `table` bytes; `None` if it is to be dropped.
    fn frame(&mut self, head: u16, table: u64) -> Option<(Frame, Header)> {
        let words = self.memory.slots[SEND].get(usize::from(head))?;
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
    fn receive(&mut self, frame: &Frame) {
        let requests = &mut self.back.queues[RECEIVE];
        let Some((head, table)) = requests.peek() else {
            return;
        };
        let words = self.memory.slots[RECEIVE].get(usize::from(head));
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
    fn look_for_reset(&mut self) {
        let resets = self.back.resets();
        if resets == self.resets {
            return;
        }
        self.resets = resets;
        let requests: &mut Requests = &mut self.back.queues[RECEIVE];
        for _ in 0..PLACES {
            if let Some((head, _)) = requests.next_request() {
                requests.answer(head, 0);
            }
        }
    }

    fn is_gone(&self) {
        panic!("the rings of {} were refused", self.name);
    }
}

/// The words of a slot's table of `bytes` bytes, and those of its data.
fn divided(
    words: &[AtomicU64; FRAME_SLOT_WORDS],
    bytes: u64,
) -> Option<(&[AtomicU64], &[AtomicU64])> {
    let (descriptors, data) = words.split_at_checked(2 * FRAME_DESCRIPTORS)?;
    let table = descriptors.get(..usize::try_from(bytes).ok()? / 8)?;
    Some((table, data))
}

impl Uplink {
    fn start(
        own: BoardDevice,
        served: &Served,
        memory: &'static UplinkMemory,
    ) -> Result<Self, &'static str> {
        let to_board = served
            .to_board
            .ok_or("the board's devices cannot reach this VM's memory")?;
        let [receive, send] = &memory.queues;
        let device = Device::start((own.registers, NETWORK), 0, [receive, send], to_board)?;
        gic::enable(own.interrupt);
        let mut uplink = Self {
            own,
            device,
            memory,
            to_board,
            sent: [None; PLACES],
            free: (0..PLACES as u16).collect(),
        };
        (0..PLACES as u16).for_each(|own| uplink.offer_buffer(own));
        uplink.device.queues[RECEIVE].tell();
        Ok(uplink)
    }

    /// Whether there is a place for one more frame besides so many.
    fn has_place(&self, others: usize) -> bool {
        self.free.len() > others
    }

    /// Gives the device a buffer for what comes.
    fn offer_buffer(&mut self, own: u16) {
        if let Some(words) = self.memory.buffers.get(usize::from(own)) {
            let at = address(words).wrapping_add(self.to_board);
            self.device.queues[RECEIVE].add_buffer(own, at, 8 * FRAME_WORDS as u64);
        }
    }

    /// Gives the device what a client sends by a table of so many bytes.
    fn send(&mut self, sent: Sent, port: &Port, table: u64) {
        let slots = &port.memory.slots[SEND];
        let (Some(own), Some(words)) = (self.free.pop(), slots.get(usize::from(sent.head))) else {
            return;
        };
        let (_, data) = words.split_at(2 * FRAME_DESCRIPTORS);
        set_prefix(data, 0);
        if let Some(place) = self.sent.get_mut(usize::from(own)) {
            *place = Some(sent);
        }
        let at = address(words).wrapping_add(self.to_board);
        self.device.queues[SEND].add(own, at, table);
    }
}
