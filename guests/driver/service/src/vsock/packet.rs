//! Packets, as far as they are looked at (virtio 1.2, 5.10.6).

use crate::memory::{FRAME_DESCRIPTORS, address};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use heapless::Vec;

/// The bytes of a header.
pub(super) const HEAD: usize = 44;
/// The words that it takes.
pub(super) const HEAD_WORDS: usize = HEAD.div_ceil(8);

/// What a packet is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation(u16);

impl Operation {
    /// The connection is ended, or there is none.
    pub(super) const RESET: Self = Self(3);
}

/// A type of socket: a stream of bytes.
const STREAM: u16 = 1;

/// The header.
#[derive(Clone, Copy)]
pub(super) struct Header([u8; HEAD]);

impl Header {
    const FROM: usize = 0;
    const TO: usize = 8;
    const FROM_PORT: usize = 16;
    const TO_PORT: usize = 20;
    const BYTES: usize = 24;
    const TYPE: usize = 28;
    const OPERATION: usize = 30;

    fn part<const N: usize>(&self, at: usize) -> [u8; N] {
        let bytes = self.0.get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.copied().unwrap_or([0; N])
    }

    fn set<const N: usize>(&mut self, at: usize, to: [u8; N]) {
        if let Some(bytes) = self.0.get_mut(at..).and_then(|b| b.first_chunk_mut()) {
            *bytes = to;
        }
    }

    pub(super) fn from(&self) -> u64 {
        u64::from_le_bytes(self.part(Self::FROM))
    }

    pub(super) fn to(&self) -> u64 {
        u64::from_le_bytes(self.part(Self::TO))
    }

    /// How many bytes of data follow.
    pub(super) fn bytes(&self) -> u32 {
        u32::from_le_bytes(self.part(Self::BYTES))
    }

    pub(super) fn operation(&self) -> Operation {
        Operation(u16::from_le_bytes(self.part(Self::OPERATION)))
    }

    fn is_stream(&self) -> bool {
        u16::from_le_bytes(self.part(Self::TYPE)) == STREAM
    }

    /// Writes it, as one of a packet with so many bytes of data.
    pub(super) fn write(mut self, bytes: u32, words: &[AtomicU64]) {
        self.set(Self::BYTES, bytes.to_le_bytes());
        for (word, bytes) in words.iter().zip(self.0.chunks(8)) {
            let mut whole = [0; 8];
            whole
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, byte)| *to = *byte);
            word.store(u64::from_le_bytes(whole), Relaxed);
        }
    }
}

/// Memory of a packet's data, as whoever receives it is told.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) at: u64,
    pub(super) bytes: u32,
}

/// A packet.
pub(super) struct Packet {
    pub(super) header: Header,
    data: Vec<Piece, FRAME_DESCRIPTORS>,
    /// What is added to an address of this VM's memory, by which the hypervisor is told of it.
    pub(super) to_board: u64,
}

impl Packet {
    /// The packet of a slot with this table of descriptors, and with its header at the beginning of `data`; `None` if it breaks a rule.
    pub(super) fn of(table: &[AtomicU64], data: &[AtomicU64]) -> Option<Self> {
        let mut bytes = [0; HEAD];
        for (to, word) in bytes.chunks_mut(8).zip(data) {
            let word = word.load(Relaxed).to_le_bytes();
            to.iter_mut().zip(word).for_each(|(to, byte)| *to = byte);
        }
        let header = Header(bytes);
        let mut pieces = table.as_chunks::<2>().0.iter().map(|[at, rest]| Piece {
            at: at.load(Relaxed),
            bytes: rest.load(Relaxed) as u32,
        });
        let first = pieces.next().filter(|first| first.bytes == HEAD as u32)?;
        let data_at = address(data);
        let mut there = 0_u32;
        let mut data = Vec::new();
        for piece in pieces {
            there = there.checked_add(piece.bytes)?;
            data.push(piece).ok()?;
        }
        let is_sound = header.is_stream() && header.bytes() <= there;
        is_sound.then_some(Self {
            header,
            data,
            to_board: first.at.wrapping_sub(data_at),
        })
    }

    /// The answer that there is no such connection.
    pub(super) fn refusal(&self) -> Self {
        let old = &self.header;
        let mut header = Header([0; HEAD]);
        header.set(Header::FROM, old.to().to_le_bytes());
        header.set(Header::TO, old.from().to_le_bytes());
        header.set(Header::FROM_PORT, old.part::<4>(Header::TO_PORT));
        header.set(Header::TO_PORT, old.part::<4>(Header::FROM_PORT));
        header.set(Header::TYPE, STREAM.to_le_bytes());
        header.set(Header::OPERATION, Operation::RESET.0.to_le_bytes());
        Self {
            header,
            data: Vec::new(),
            to_board: self.to_board,
        }
    }

    /// The pieces of `count` bytes of its data from `from` on.
    pub(super) fn pieces(&self, from: u32, count: u32) -> impl Iterator<Item = Piece> {
        let (mut skipped, mut left) = (from, count);
        self.data.iter().filter_map(move |piece| {
            let skip = skipped.min(piece.bytes);
            let bytes = left.min(piece.bytes - skip);
            (skipped, left) = (skipped - skip, left - bytes);
            let at = piece.at.wrapping_add(skip.into());
            (bytes > 0).then_some(Piece { at, bytes })
        })
    }
}
