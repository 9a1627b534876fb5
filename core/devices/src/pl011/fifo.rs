//! A FIFO of bytes that keeps their number in a field of its own, since each access needs it.

use super::DEPTH;

/// At most [`DEPTH`] bytes, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Fifo {
    bytes: [u8; DEPTH],
    /// The index of the oldest byte.
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

    /// Adds a byte. The answer is `false` if the FIFO is full and the byte was not taken.
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
