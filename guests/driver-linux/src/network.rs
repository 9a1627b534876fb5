//! The frames of a network's client (virtio 1.2, 5.1), and a tap interface.
//!
//! A client is known by the MAC address that the description gives it: a frame with another sender, or with a tag of a VLAN, is
//! dropped. So what bridges the interface learns nothing wrong by it. There are no checksums or segments to be made: a frame is
//! given as it is, and one that is larger than 1,500 bytes of data is dropped.

use crate::memory::Memory;
use crate::pieces::{length, read_all, write_all};
use crate::ring::{Broken, NETWORK, Offer, Request, Ring};
use crate::words::Words;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Features (virtio 1.2, 5.1.3): the configuration has the address, and the state of the link.
const MAC: u64 = 1 << 5;
const STATUS: u64 = 1 << 16;
/// The bytes before a frame (5.1.6), and those of a frame before its data.
const PREFIX: usize = 12;
const HEADER: usize = 14;
/// The most bytes of a frame.
pub const LONGEST: usize = HEADER + 1500;
/// Types of frames with a tag (IEEE 802.1Q, 802.1ad).
const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xa8]];

/// A client and its interface.
#[derive(Debug)]
pub struct Port {
    tap: OwnedFd,
    mac: [u8; 6],
    /// Requests of the client that wait for a frame.
    waiting: VecDeque<Request>,
    has_forged: bool,
    words: Words,
}

impl Port {
    /// The client with this address, at an interface that neither waits to read nor to write.
    pub const fn new(tap: OwnedFd, mac: [u8; 6], words: Words) -> Self {
        Self {
            tap,
            mac,
            waiting: VecDeque::new(),
            has_forged: false,
            words,
        }
    }

    /// What is offered to the client (virtio 1.2, 5.1.4).
    pub fn offer(&self) -> Offer {
        let [a, b, c, d, e, f] = self.mac;
        let up = [1, 0];
        let config = [[a, b, c, d], [e, f, up[0], up[1]]];
        Offer {
            features: MAC | STATUS,
            config: config.map(u32::from_le_bytes).to_vec(),
        }
    }

    /// What there is to be read from while the client waits for frames.
    pub fn wanted(&self) -> Option<BorrowedFd<'_>> {
        (!self.waiting.is_empty()).then(|| self.tap.as_fd())
    }

    /// Passes on what the client sends, as many frames as a queue has places at most. Returns how many.
    ///
    /// # Errors
    /// The queue is not as the hypervisor makes it.
    pub fn send(&mut self, ring: &mut impl Ring) -> Result<usize, Broken> {
        let memory = ring.memory();
        for count in 0..usize::from(NETWORK[1].places) {
            let Some(request) = ring.next()? else {
                return Ok(count);
            };
            if let Some(frame) = self.frame(&memory, &request) {
                // What an interface that is down, or full, does not take is lost, as on a wire.
                let _ = rustix::io::write(&self.tap, &frame);
            }
            ring.answer(request.head, 0)?;
        }
        Ok(NETWORK[1].places.into())
    }

    /// The frame that a client sends; `None` if it is to be dropped.
    fn frame(&mut self, memory: &Memory, request: &Request) -> Option<Vec<u8>> {
        let most = PREFIX + LONGEST;
        let size = length(&request.read).filter(|size| (PREFIX + HEADER..=most).contains(size));
        let bytes = size.and_then(|_| read_all(memory, &request.read))?;
        let frame = bytes.get(PREFIX..)?;
        if frame.get(6..12)? != self.mac {
            if !self.has_forged {
                self.words.say("it sends with another's address: dropped");
            }
            self.has_forged = true;
            return None;
        }
        let kind = frame.get(12..14)?;
        let tagged = TAGS.iter().any(|tag| tag == kind);
        (!tagged).then(|| frame.to_vec())
    }

    /// Gives the client what came for it, as far as it has room, as many frames as a queue has places at most. Returns how many
    /// requests and frames there were.
    ///
    /// # Errors
    /// The queue is not as the hypervisor makes it.
    pub fn receive(&mut self, ring: &mut impl Ring) -> Result<usize, Broken> {
        let memory = ring.memory();
        let mut count = self.take(ring)?;
        let mut frame = vec![0; PREFIX + LONGEST + 1];
        for _ in 0..NETWORK[0].places {
            let Some(request) = self.waiting.front() else {
                break;
            };
            let (prefix, room) = frame.split_at_mut(PREFIX);
            let size = match rustix::io::read(&self.tap, room) {
                Ok(size) if size > 0 => size,
                Err(Errno::INTR) => continue,
                _ => break,
            };
            count += 1;
            if !(HEADER..=LONGEST).contains(&size) {
                continue;
            }
            // Nothing is left to the client but to take the frame, which is in one buffer.
            prefix.fill(0);
            prefix[10] = 1;
            let bytes = frame.get(..PREFIX + size).unwrap_or_default();
            let told = put(&memory, request, bytes);
            let head = request.head;
            self.waiting.pop_front();
            ring.answer(head, told)?;
        }
        Ok(count)
    }

    /// Takes the requests that there are. Returns how many.
    fn take(&mut self, ring: &mut impl Ring) -> Result<usize, Broken> {
        let before = self.waiting.len();
        while self.waiting.len() < usize::from(NETWORK[0].places) {
            match ring.next()? {
                Some(request) => self.waiting.push_back(request),
                None => break,
            }
        }
        Ok(self.waiting.len() - before)
    }

    /// Gives back what the client, which was reset, has forgotten.
    ///
    /// # Errors
    /// The queue is not as the hypervisor makes it.
    pub fn forget(&mut self, ring: &mut impl Ring) -> Result<(), Broken> {
        self.take(ring)?;
        for request in self.waiting.drain(..) {
            ring.answer(request.head, 0)?;
        }
        Ok(())
    }
}

/// Writes bytes to a request. Returns how many: none if it has no room for them.
fn put(memory: &Memory, request: &Request, bytes: &[u8]) -> u32 {
    let mut left = bytes.len();
    let mut pieces = Vec::new();
    for piece in &request.write {
        let len = left.min(piece.len as usize);
        left -= len;
        pieces.push(crate::ring::Piece {
            at: piece.at,
            len: len as u32,
        });
        if left == 0 {
            break;
        }
    }
    let written = write_all(memory, &pieces, bytes).filter(|()| left == 0);
    written.map_or(0, |()| bytes.len() as u32)
}
