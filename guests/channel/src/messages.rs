//! Messages from one member to another, in order, by a ring of words.
//!
//! The first word of its part of the memory is the sender's: how many words it has stored, modulo 2^32. The second is the
//! receiver's: how many it has taken. The ring is behind them. A message is a word with its bytes, and the bytes, in whole words.

use crate::words::{WORD, put, take};
use core::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Why a message is not sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no room for it now, or no message.
    Later,
    /// It is longer than the ring, or than the buffer. A message that is too long for the buffer is dropped.
    TooLong,
    /// The peer does not keep to the rules: what it says of the ring cannot be. The ring is as it was.
    Broken,
}

/// A part of the memory: the words of both ends, and the ring.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    stored: &'a AtomicU32,
    taken: &'a AtomicU32,
    ring: &'a [AtomicU32],
}

impl<'a> Part<'a> {
    /// The largest ring is a power of two, so that the count of words may wrap.
    fn new(words: &'a [AtomicU32]) -> Option<Self> {
        let [stored, taken, rest @ ..] = words else {
            return None;
        };
        let len = 1_usize.checked_shl(rest.len().checked_ilog2()?)?;
        Some(Self {
            stored,
            taken,
            ring: rest.get(..len)?,
        })
    }

    /// The words from the end of what was taken to that of what was stored, if there can be so many.
    fn between(&self, taken: u32, stored: u32) -> Result<u32, Refused> {
        let used = stored.wrapping_sub(taken);
        if used as usize > self.ring.len() {
            return Err(Refused::Broken);
        }
        Ok(used)
    }
}

/// The words of a message of so many bytes.
const fn words_of(bytes: usize) -> usize {
    1 + bytes.div_ceil(WORD)
}

/// The sending end.
#[derive(Debug)]
pub struct Sender<'a> {
    part: Part<'a>,
    stored: u32,
}

impl<'a> Sender<'a> {
    /// The sender of this part of the memory; `None` if the part has fewer than three words. It goes on where one before it was; where
    /// that cannot be, it begins anew behind what was taken.
    pub fn new(words: &'a [AtomicU32]) -> Option<Self> {
        let part = Part::new(words)?;
        let (stored, taken) = (part.stored.load(Relaxed), part.taken.load(Acquire));
        let stored = part.between(taken, stored).map_or(taken, |_| stored);
        part.stored.store(stored, Release);
        Some(Self { part, stored })
    }

    /// Sends a message. The peer is not rung.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Refused> {
        let words = words_of(message.len());
        if words > self.part.ring.len() {
            return Err(Refused::TooLong);
        }
        let taken = self.part.taken.load(Acquire);
        let used = self.part.between(taken, self.stored)?;
        if used as usize + words > self.part.ring.len() {
            return Err(Refused::Later);
        }
        put(
            self.part.ring,
            self.stored,
            &(message.len() as u32).to_le_bytes(),
        );
        put(self.part.ring, self.stored.wrapping_add(1), message);
        self.stored = self.stored.wrapping_add(words as u32);
        self.part.stored.store(self.stored, Release);
        Ok(())
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver<'a> {
    part: Part<'a>,
    taken: u32,
}

impl<'a> Receiver<'a> {
    /// The receiver of this part of the memory; `None` if the part has fewer than three words. It goes on where one before it was; where
    /// that cannot be, it begins anew with what comes next.
    pub fn new(words: &'a [AtomicU32]) -> Option<Self> {
        let part = Part::new(words)?;
        let (stored, taken) = (part.stored.load(Acquire), part.taken.load(Relaxed));
        let taken = part.between(taken, stored).map_or(stored, |_| taken);
        part.taken.store(taken, Release);
        Some(Self { part, taken })
    }

    /// Takes the next message: its bytes, which are the first of `buffer`.
    pub fn receive<'b>(&mut self, buffer: &'b mut [u8]) -> Result<&'b [u8], Refused> {
        let stored = self.part.stored.load(Acquire);
        let there = self.part.between(self.taken, stored)? as usize;
        if there == 0 {
            return Err(Refused::Later);
        }
        let mut len = [0; WORD];
        take(self.part.ring, self.taken, &mut len);
        let len = u32::from_le_bytes(len) as usize;
        if len >= self.part.ring.len() * WORD || words_of(len) > there {
            return Err(Refused::Broken);
        }
        let bytes = buffer.get_mut(..len);
        if let Some(bytes) = bytes {
            take(self.part.ring, self.taken.wrapping_add(1), bytes);
        }
        self.taken = self.taken.wrapping_add(words_of(len) as u32);
        self.part.taken.store(self.taken, Release);
        buffer.get(..len).ok_or(Refused::TooLong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn memory(words: usize) -> Vec<AtomicU32> {
        (0..words).map(|_| AtomicU32::new(0)).collect()
    }

    #[test]
    fn messages_come_in_order_round_the_end() {
        let memory = memory(2 + 16);
        let mut sender = Sender::new(&memory).unwrap();
        let mut receiver = Receiver::new(&memory).unwrap();
        let mut buffer = [0; 32];
        for number in 0..200_usize {
            let message: Vec<u8> = (0..number % 25).map(|byte| (byte + number) as u8).collect();
            assert_eq!(sender.send(&message), Ok(()));
            assert_eq!(receiver.receive(&mut buffer), Ok(&message[..]));
        }
        assert_eq!(receiver.receive(&mut buffer), Err(Refused::Later));
    }

    #[test]
    fn what_does_not_fit_waits_or_is_refused() {
        let memory = memory(2 + 9);
        let mut sender = Sender::new(&memory).unwrap();
        let mut receiver = Receiver::new(&memory).unwrap();
        assert_eq!(sender.send(&[1; 29]), Err(Refused::TooLong));
        assert_eq!(sender.send(&[1; 12]), Ok(()));
        assert_eq!(sender.send(&[2; 12]), Ok(()));
        assert_eq!(sender.send(&[]), Err(Refused::Later));
        assert_eq!(
            receiver.receive(&mut [0; 4]),
            Err(Refused::TooLong),
            "dropped"
        );
        assert_eq!(receiver.receive(&mut [0; 12]), Ok(&[2; 12][..]));
    }

    /// Whatever the peer stores, at any moment, no access leaves the ring, and nothing panics.
    #[test]
    fn a_hostile_peer_sends_nonsense_and_nothing_else() {
        let memory = memory(2 + 8);
        let mut receiver = Receiver::new(&memory).unwrap();
        let mut sender = Sender::new(&memory).unwrap();
        let mut random = 1_u64;
        let mut refused = [0; 3];
        for round in 0..100_000 {
            // Both begin anew now and then, as else nothing but the break would be tried.
            if round % 4 == 0 {
                receiver = Receiver::new(&memory).unwrap();
                sender = Sender::new(&memory).unwrap();
            }
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let value = (random >> 33) as u32;
            let value = if value & 1 == 0 {
                value % 12
            } else {
                value.wrapping_shl(value % 32)
            };
            memory[(random >> 20) as usize % memory.len()].store(value, Relaxed);
            let mut buffer = [0; 4];
            let errors = [
                receiver.receive(&mut buffer).err(),
                sender.send(&[1; 5]).err(),
            ];
            for error in errors.into_iter().flatten() {
                refused[error as usize] += 1;
            }
        }
        assert!(refused.iter().all(|count| *count > 100), "{refused:?}");
    }

    #[test]
    fn who_restarts_goes_on() {
        let memory = memory(2 + 16);
        let mut sender = Sender::new(&memory).unwrap();
        sender.send(b"one").unwrap();
        let mut sender = Sender::new(&memory).unwrap();
        sender.send(b"two").unwrap();
        let mut buffer = [0; 8];
        let mut receiver = Receiver::new(&memory).unwrap();
        assert_eq!(receiver.receive(&mut buffer), Ok(&b"one"[..]));
        let mut receiver = Receiver::new(&memory).unwrap();
        assert_eq!(receiver.receive(&mut buffer), Ok(&b"two"[..]));
        // The peer left nonsense: both begin anew.
        memory[0].store(1_000_000, Relaxed);
        assert_eq!(receiver.receive(&mut buffer), Err(Refused::Broken));
        let mut sender = Sender::new(&memory).unwrap();
        sender.send(b"new").unwrap();
        assert_eq!(receiver.receive(&mut buffer), Ok(&b"new"[..]));
    }
}
