//! Frames, as far as they are looked at.

use crate::memory::FRAME_DESCRIPTORS;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use heapless::Vec;

/// The bytes before a frame (virtio 1.2, 5.1.6), and those of a frame before its data: both addresses and the type.
pub(super) const PREFIX: usize = 12;
pub(super) const HEADER: usize = 14;
/// What of each frame is looked at.
pub(super) const HEAD: usize = PREFIX + HEADER;
/// The most bytes of a frame with what is before it: 1,500 of data.
pub(super) const LONGEST: u32 = (HEAD + 1500) as u32;
/// Types of frames with a tag (IEEE 802.1Q and 802.1ad).
pub(super) const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// The queues of a network interface: for what it receives, and for what it sends.
pub(super) const RECEIVE: usize = 0;
pub(super) const SEND: usize = 1;

/// The start of a frame.
pub(super) struct Header([u8; HEAD]);

impl Header {
    /// Of what lies at the beginning of `words`.
    pub(super) fn of(words: &[AtomicU64]) -> Self {
        let mut bytes = [0; HEAD];
        for (to, word) in bytes.chunks_mut(8).zip(words) {
            let word = word.load(Relaxed).to_le_bytes();
            to.iter_mut().zip(word).for_each(|(to, byte)| *to = byte);
        }
        Self(bytes)
    }

    pub(super) fn mac(&self, at: usize) -> [u8; 6] {
        self.0
            .get(at..)
            .and_then(|bytes| bytes.first_chunk())
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn to(&self) -> [u8; 6] {
        self.mac(PREFIX)
    }

    pub(super) fn from(&self) -> [u8; 6] {
        self.mac(PREFIX + 6)
    }

    pub(super) fn has_tag(&self) -> bool {
        let [.., high, low] = self.0;
        TAGS.contains(&u16::from_be_bytes([high, low]))
    }
}

/// Sets what is before a frame: nothing is left to whoever receives it, and it is in `buffers` buffers.
pub(super) fn set_prefix(words: &[AtomicU64], buffers: u16) {
    let [first, second, ..] = words else {
        return;
    };
    first.store(0, Relaxed);
    let frame = second.load(Relaxed) & 0xffff_ffff_0000_0000;
    second.store(frame | u64::from(buffers) << 16, Relaxed);
}

/// Memory of a frame, as whoever receives it is told.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) at: u64,
    pub(super) bytes: u32,
}

/// A frame.
pub(super) struct Frame {
    pub(super) pieces: Vec<Piece, FRAME_DESCRIPTORS>,
    pub(super) bytes: u32,
}
