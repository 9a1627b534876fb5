//! Sockets between clients (virtio 1.2, 5.10): a switch that passes packets on by their context ids, "CIDs".
//!
//! It looks at the header of each packet, of which the client cannot change anything afterwards: one with another client's CID as its source is
//! dropped, and one for nobody is answered with a reset of the connection, as for a port at which nobody listens. A packet is not lost, other
//! than a frame of a network: if the receiver has no buffer, the sender waits, for [`PATIENCE`] seconds at most.
//!
//! If this VM was reset, nobody knows which packets got to their receivers. So each client is told that its connections are gone (5.10.6.7).

mod packet;
mod port;

use crate::machine::timer;
use crate::memory::{SOCKETS, SocketMemory};
use crate::wanted::Wanted;
use heapless::Vec;
use packet::{Operation, Packet};
use port::{EVENT, Port, RECEIVE, Room, SEND};

/// How many packets of one client are passed on before the others have their turn.
const TURN: usize = 32;
/// The most packets that wait until what was received is settled.
const WAITING: usize = 64;
/// How many seconds a sender waits for a receiver without buffers.
const PATIENCE: u64 = 1;

/// A switch.
#[derive(Default)]
pub struct Sockets {
    ports: Vec<Port, { SOCKETS.len() }>,
    /// What can be answered once all that was received is settled: the client's index and the request.
    done: Vec<(usize, u16), WAITING>,
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is passed on, answered or dropped.
    Done,
    /// Its receiver has no buffer now.
    Waits,
}

impl Sockets {
    /// Offers a client its sockets.
    pub fn connect(
        &mut self,
        wanted: &Wanted,
        memory: &'static SocketMemory,
    ) -> Result<(), &'static str> {
        let port = Port::start(wanted, memory)?;
        println!("driver: sockets for {}, CID {}", wanted.client, wanted.cid);
        self.ports.push(port).map_err(|_| "it has too many clients")
    }

    /// Does what there is to do. Returns whether there was nothing, and whoever has more will interrupt.
    pub fn work(&mut self) -> bool {
        self.ports.iter_mut().for_each(Port::offer_again);
        let mut idle = true;
        for index in 0..self.ports.len() {
            idle &= self.pass(index);
        }
        self.settle();
        idle && self.ports.iter().all(Port::listen)
    }

    /// Interrupt `id` has come.
    pub fn interrupted(&mut self, id: u32) {
        for port in self.ports.iter_mut().filter(|port| port.interrupt == id) {
            if port.back.acknowledge() {
                port.look_for_reset();
            }
        }
    }

    /// Passes on what a client sends. Returns whether it was nothing.
    fn pass(&mut self, index: usize) -> bool {
        for turn in 0..TURN {
            if self.done.is_full() {
                return false;
            }
            let Some(port) = self.ports.get_mut(index) else {
                return true;
            };
            let next = port.back.queues[SEND].peek().filter(|_| !port.is_down);
            let Some((head, table)) = next else {
                return turn == 0;
            };
            let packet = port.packet(head, table);
            if let Some(packet) = packet
                && self.deliver(index, &packet) == Fate::Waits
            {
                // There is no interrupt for the end of its patience.
                return false;
            }
            let Some(port) = self.ports.get_mut(index) else {
                return true;
            };
            (port.passed, port.waits_since) = (0, None);
            port.back.queues[SEND].take();
            let _fits = self.done.push((index, head));
        }
        false
    }

    /// Gives a packet of client `from` to its receiver.
    fn deliver(&mut self, from: usize, packet: &Packet) -> Fate {
        let mut ports = self.ports.iter();
        let is_it = |port: &Port| port.cid == packet.header.to() && port.is_ready && !port.is_down;
        let Some(to) = ports.position(is_it) else {
            return self.refuse(from, packet);
        };
        let Some(mut passed) = self.ports.get(from).map(|port| port.passed) else {
            return Fate::Done;
        };
        loop {
            let Some(receiver) = self.ports.get_mut(to) else {
                return Fate::Done;
            };
            match receiver.receive(packet, passed) {
                Room::For(bytes) => passed += bytes,
                Room::None => break,
            }
            if passed >= packet.header.bytes() {
                return Fate::Done;
            }
        }
        let is_stuck = self.ports.get(to).is_some_and(|port| port.is_stuck);
        let Some(sender) = self.ports.get_mut(from) else {
            return Fate::Done;
        };
        sender.passed = passed;
        let now = timer::now();
        let since = *sender.waits_since.get_or_insert(now);
        let longest = PATIENCE * timer::frequency();
        if !is_stuck && now.wrapping_sub(since) < longest {
            return Fate::Waits;
        }
        if let Some(receiver) = self.ports.get_mut(to) {
            receiver.is_stuck = true;
        }
        self.refuse(from, packet)
    }

    /// Answers a packet that gets nowhere.
    fn refuse(&mut self, from: usize, packet: &Packet) -> Fate {
        if packet.header.operation() != Operation::RESET
            && let Some(sender) = self.ports.get_mut(from)
        {
            // Without a buffer for it there is none.
            let _ = sender.receive(&packet.refusal(), 0);
        }
        Fate::Done
    }

    /// Has the hypervisor copy what clients have received. Then nothing that was sent is read any more.
    fn settle(&mut self) {
        for port in self.ports.iter_mut().filter(|port| !port.is_down) {
            if !port.back.queues[RECEIVE].settle() {
                // What it has of others must not be read any more.
                port.back.withdraw();
                port.is_down = true;
            }
            port.tell_of_loss();
        }
        for (index, head) in &self.done {
            if let Some(port) = self.ports.get_mut(*index) {
                port.back.queues[SEND].answer(*head, 0);
            }
        }
        self.done.clear();
        for port in self.ports.iter_mut().filter(|port| !port.is_down) {
            port.back.queues[SEND].tell();
            port.back.queues[EVENT].tell();
        }
    }
}

#[cfg(test)]
mod tests;
