//! Networks: a switch for each device of the board's that serves clients, and one for those that have none (virtio 1.2, 5.1).
//!
//! A client is known by the MAC address that the description gives it. Its frames are dropped if they come from another one, or
//! have a tag of a VLAN; a frame goes to the client that it is for, one for many to all of the same VLAN, and any other by the
//! board's device, which is in no VLAN. Nothing is learnt, so nobody can be made to take another's frames.
//!
//! A frame is never copied here. The hypervisor gives the first [`HEAD`] bytes of each that a client sends, in its slot, and names the
//! rest; whoever receives it is given these names. So it takes one copy from client to client, none from a client to the
//! board's device, and one from there to a client.

mod frame;
mod port;
mod uplink;

use crate::memory::{PORTS, PortMemory, UplinkMemory, address};
use crate::wanted::{BoardDevice, Served, Wanted};
use frame::{Frame, HEAD, Header, LONGEST, Piece, RECEIVE, SEND, set_prefix};
use heapless::Vec;
use port::Port;
use uplink::{Sent, Uplink};

/// How many frames of one client, or of the board's device, are passed on before the others have their turn.
const TURN: usize = 32;
/// How many frames wait at the most until what was received is settled.
const WAITING: usize = 64;

/// A switch.
pub struct Switch {
    uplink: Option<Uplink>,
    ports: Vec<Port, { PORTS.len() }>,
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
        self.take_back();
        self.offer_again();
        for index in 0..self.ports.len() {
            self.pass_from_port(index);
        }
        let mut came = Vec::new();
        self.pass_from_uplink(&mut came);
        self.settle(&came);
        self.listen()
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        for port in self.ports.iter_mut().filter(|port| port.interrupt == id) {
            if port.back.acknowledge() {
                port.look_for_reset();
            }
        }
        if let Some(uplink) = &self.uplink
            && uplink.own.interrupt == id
        {
            uplink.device.acknowledge_or_begin_again();
        }
    }

    /// Offers the interfaces again that were withdrawn, once the board's device does not use their slots any more.
    fn offer_again(&mut self) {
        for (index, port) in self
            .ports
            .iter_mut()
            .enumerate()
            .filter(|(_, port)| port.is_down)
        {
            let uses = |sent: &Sent| usize::from(sent.port) == index;
            let mut sent = self
                .uplink
                .iter()
                .flat_map(|uplink| uplink.sent.iter().flatten());
            if !sent.any(uses) {
                port.offer_again(self.uplink.is_some());
            }
        }
    }

    /// Takes back what the board's device has sent.
    fn take_back(&mut self) {
        let Some(uplink) = &mut self.uplink else {
            return;
        };
        while let Some((own, _)) = uplink.device.queues[SEND].next_done() {
            let sent = uplink.sent.get_mut(usize::from(own)).and_then(Option::take);
            let port = sent.and_then(|sent| self.ports.get_mut(usize::from(sent.port)));
            if let (Some(sent), Some(port)) = (sent, port) {
                port.back.queues[SEND].answer(sent.head, 0);
                let _fits = uplink.free.push(own);
            }
        }
    }

    /// Passes on what a client sends, or a part of it.
    fn pass_from_port(&mut self, index: usize) {
        self.set_waits(index, false);
        for _ in 0..TURN {
            // Each frame that is passed on has a place among those that wait.
            if self.done.is_full() || self.leaving.is_full() {
                return;
            }
            let Some(port) = self.ports.get_mut(index) else {
                return;
            };
            let next = port.back.queues[SEND].peek().filter(|_| !port.is_down);
            let Some((head, table)) = next else {
                return;
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
                    Onward::Wait => {
                        self.set_waits(index, true);
                        return;
                    }
                },
                None => false,
            };
            let Some(port) = self.ports.get_mut(index) else {
                return;
            };
            port.back.queues[SEND].take();
            let _fits = if leaves {
                self.leaving.push((sent, table as u16)).is_ok()
            } else {
                self.done.push(sent).is_ok()
            };
        }
    }

    fn set_waits(&mut self, index: usize, waits: bool) {
        if let Some(port) = self.ports.get_mut(index) {
            port.waits = waits;
        }
    }

    /// Passes on what has come to the board's device, or a part of it; the buffers are in `came`.
    fn pass_from_uplink(&mut self, came: &mut Vec<u16, TURN>) {
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
        let up = |port: &&mut Port| !port.is_down;
        for port in self.ports.iter_mut().filter(up) {
            if !port.back.queues[RECEIVE].settle() {
                // What it has of others must not be read any more.
                port.back.withdraw();
                port.is_down = true;
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
        let up = |port: &&mut Port| !port.is_down;
        for port in self.ports.iter_mut().filter(up) {
            port.back.queues[SEND].tell();
        }
    }

    /// Asks to be told of more. Returns whether there is nothing yet. Of a client whose next frame waits for a place of the board's
    /// device nothing is asked: the device interrupts when it has given one back.
    fn listen(&self) -> bool {
        let mut ports = self.ports.iter().filter(|port| !port.is_down);
        let mut queues = self.uplink.iter().flat_map(|uplink| &uplink.device.queues);
        let is_idle = |port: &Port| {
            let queue = &port.back.queues[SEND];
            if port.waits {
                queue.ignore();
            }
            port.waits || queue.listen()
        };
        ports.all(is_idle) && queues.all(|queue| queue.listen())
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

#[cfg(test)]
mod tests;
