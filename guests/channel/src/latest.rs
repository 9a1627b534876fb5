//! The latest value of something, from one member to any number of others, which may be ones that only read.
//!
//! The first word of its part of the memory is a number that is odd while the value behind it is being stored. Who reads a value
//! between two equal even numbers has a whole one.

use crate::words::{WORD, put, take};
use core::sync::atomic::{
    AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence,
};

/// The end that says the value.
#[derive(Debug)]
pub struct Publisher<'a> {
    number: &'a AtomicU32,
    value: &'a [AtomicU32],
    /// The own count, which nobody else can change.
    next: u32,
}

impl<'a> Publisher<'a> {
    /// The publisher of this part of the memory; `None` if it is shorter than two words.
    pub fn new(words: &'a [AtomicU32]) -> Option<Self> {
        let (number, value) = words.split_first().filter(|(_, value)| !value.is_empty())?;
        // It may have been interrupted in the middle of a value.
        let next = number.load(Relaxed) & !1;
        Some(Self {
            number,
            value,
            next,
        })
    }

    /// Says the value, of which as much is kept as there is room for.
    pub fn publish(&mut self, value: &[u8]) {
        let len = value.len().min(self.value.len() * WORD);
        self.number.store(self.next.wrapping_add(1), Relaxed);
        fence(Release);
        put(self.value, 0, value.get(..len).unwrap_or_default());
        self.next = self.next.wrapping_add(2);
        self.number.store(self.next, Release);
    }
}

/// An end that reads the value.
#[derive(Clone, Copy, Debug)]
pub struct Watcher<'a> {
    number: &'a AtomicU32,
    value: &'a [AtomicU32],
}

impl<'a> Watcher<'a> {
    /// A watcher of this part of the memory; `None` if it is shorter than two words.
    pub fn new(words: &'a [AtomicU32]) -> Option<Self> {
        let (number, value) = words.split_first().filter(|(_, value)| !value.is_empty())?;
        Some(Self { number, value })
    }

    /// Reads the value into `value`, and answers how many there have been, modulo 2^31. `None` if it was just being stored:
    /// a publisher that stops in the middle of one leaves it so. It is for the caller to decide how often it tries.
    pub fn read(&self, value: &mut [u8]) -> Option<u32> {
        let before = self.number.load(Acquire);
        let len = value.len().min(self.value.len() * WORD);
        take(self.value, 0, value.get_mut(..len)?);
        fence(Acquire);
        let after = self.number.load(Relaxed);
        (before == after && before & 1 == 0).then_some(before / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_whole_or_none() {
        let memory = [const { AtomicU32::new(0) }; 4];
        let (mut publisher, watcher) = (
            Publisher::new(&memory).unwrap(),
            Watcher::new(&memory).unwrap(),
        );
        let mut value = [0; 6];
        assert_eq!(watcher.read(&mut value), Some(0));
        publisher.publish(b"123456");
        assert_eq!((watcher.read(&mut value), &value), (Some(1), b"123456"));
        memory[0].store(3, Relaxed);
        assert_eq!(watcher.read(&mut value), None, "it is being stored");
        let mut publisher = Publisher::new(&memory).unwrap();
        publisher.publish(b"again!");
        assert_eq!((watcher.read(&mut value), &value), (Some(2), b"again!"));
    }

    #[test]
    fn readers_beside_the_publisher_see_no_mixture() {
        static MEMORY: [AtomicU32; 5] = [const { AtomicU32::new(0) }; 5];
        let publisher = std::thread::spawn(|| {
            let mut publisher = Publisher::new(&MEMORY).unwrap();
            for number in 0..20_000_u32 {
                publisher.publish(&[number as u8; 16]);
            }
        });
        let watcher = Watcher::new(&MEMORY).unwrap();
        let mut value = [0; 16];
        while !publisher.is_finished() {
            if watcher.read(&mut value).is_some() {
                assert!(value.iter().all(|byte| *byte == value[0]), "{value:?}");
            }
        }
        publisher.join().unwrap();
    }
}
