//! A FIFO of bytes, of which how many there are is known without arithmetic: each access asks.

use super::DEPTH;

/// At most [`DEPTH`] bytes, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    bytes: [u8; DEPTH],
    /// Where the oldest one is.
    first: u8,
    len: u8,
}

impl Fifo {
    pub const fn new() -> Self {
        Self {
            bytes: [0; DEPTH],
            first: 0,
            len: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len.into()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a byte; `false`, and the byte is not taken, where the FIFO is full.
    pub fn push(&mut self, byte: u8) -> bool {
        let has_room = self.len() < DEPTH;
        if has_room {
            self.bytes[(usize::from(self.first) + self.len()) % DEPTH] = byte;
            self.len += 1;
        }
        has_room
    }

    /// The oldest byte.
    pub fn front(&self) -> Option<u8> {
        (!self.is_empty()).then(|| self.bytes[usize::from(self.first) % DEPTH])
    }

    /// Takes the oldest byte out.
    pub fn pop(&mut self) -> Option<u8> {
        let byte = self.front()?;
        self.first = self.first.wrapping_add(1);
        self.len -= 1;
        Some(byte)
    }
}

const _: () = assert!(DEPTH.is_power_of_two() && DEPTH < 256, "`first` wraps");

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn it_is_a_queue_of_so_many_bytes_wherever_it_begins() {
        let (mut fifo, mut queue) = (Fifo::new(), VecDeque::new());
        // More come than go, then more go than come, often enough for `first` to wrap.
        for n in 0..2000_u32 {
            let comes = n / 40 % 2 == 0 && n % 3 != 0 || n % 5 == 0;
            if comes {
                let taken = fifo.push(n as u8);
                assert_eq!(taken, queue.len() < DEPTH);
                if taken {
                    queue.push_back(n as u8);
                }
            } else {
                assert_eq!(fifo.pop(), queue.pop_front());
            }
            assert_eq!(fifo.front(), queue.front().copied());
            assert_eq!(
                (fifo.len(), fifo.is_empty()),
                (queue.len(), queue.is_empty())
            );
        }
    }
}
