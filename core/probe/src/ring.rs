//! The ring that trampolines write records into, in memory that the guest can write.
//!
//! Its header is three words of 32 bits: *head*, the number of places that writers have taken;
//! *tail*, the number of places that the reader has given back; and *lost*, the number of events
//! for which there was no place. All wrap. Record `n` has the place `n` modulo the capacity.
//!
//! A writer takes the place `head` by a load and a store exclusive, but only while `head - tail` is
//! less than the capacity. Then it writes the record, and at last, with release, the number `n + 1`
//! ([`Record::COMMIT`]). So:
//!
//! - A place has one writer at a time, on however many vCPUs, and if an interrupt's handler with a
//!   probe runs in the midst of another trampoline: the handler takes the next place.
//! - Before record `n` is whole, its place has the number of an earlier lap, `n + 1` minus a multiple of
//!   the capacity, or zero as at first. So `n + 1` says that the record is whole, and nothing else
//!   does.
//! - The reader takes records in order, and gives a place back by storing the tail (with release)
//!   once it has read it. It need not look at the head.
//!
//! A writer that overwrites the oldest record was rejected: two writers a lap apart could then have
//! one place, and a record could be whole by its number, and half of each.
//!
//! A task that the guest ends in the midst of a trampoline leaves a place that is never whole. The
//! reader has to stop using this place for good when it skips it, because the task could still
//! come back. If the guest is reset, the whole ring begins anew, with zeros.
//!
//! The guest can write anything here, so what is read is a claim like any other.

use crate::Refused;
use hanok_types::{Gva, Span};

/// A ring's place in the guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    head: Gva,
    records: Gva,
    log2: u32,
}

impl Ring {
    /// The size of the header in bytes.
    pub const HEADER: u64 = 12;
    /// The offset of the tail from the head, in bytes.
    pub const TAIL: u64 = 4;
    /// The offset of the number of lost events from the head, in bytes.
    pub const LOST: u64 = 8;
    /// The largest capacity.
    pub const MOST: u32 = 1 << 20;

    /// The ring with the header at `head`, a multiple of 16, and the records at `records`, a
    /// multiple of 32. All of it has to be mapped, as normal memory that is shared with the other
    /// vCPUs, wherever its probes run. `capacity` is a power of two, from 2 to [`Self::MOST`].
    ///
    /// # Errors
    ///
    /// [`Refused::Misaligned`] if one of these does not hold, the addresses wrap, or the two overlap.
    pub fn new(head: Gva, records: Gva, capacity: u32) -> Result<Self, Refused> {
        let bytes = u64::from(capacity) * Record::BYTES;
        let aligned = head.get() & 15 == 0 && records.get() & 31 == 0;
        let sound = capacity.is_power_of_two() && (2..=Self::MOST).contains(&capacity);
        let all = (Span::new(head, Self::HEADER), Span::new(records, bytes));
        let apart = matches!(all, (Some(header), Some(records)) if !header.overlaps(&records));
        if !(aligned && sound && apart) {
            return Err(Refused::Misaligned);
        }
        let log2 = capacity.trailing_zeros();
        Ok(Self {
            head,
            records,
            log2,
        })
    }

    /// The address of the header.
    pub const fn head(&self) -> Gva {
        self.head
    }

    /// The address of the first record.
    pub const fn records(&self) -> Gva {
        self.records
    }

    /// The number of records.
    pub const fn capacity(&self) -> u32 {
        1 << self.log2
    }

    /// The capacity's logarithm.
    pub(crate) const fn log2(&self) -> u32 {
        self.log2
    }

    /// The address of the place of record `number`.
    pub const fn place(&self, number: u32) -> Gva {
        let index = (number & (self.capacity() - 1)) as u64;
        Gva::new(self.records.get() + index * Record::BYTES)
    }

    /// The two addresses, if AArch32 state has them.
    pub(crate) fn narrow(&self) -> Result<(u32, u32), Refused> {
        let end = self.records.get() + u64::from(self.capacity()) * Record::BYTES;
        let fits = self.head.get() >> 32 == 0 && (end - 1) >> 32 == 0;
        if fits {
            Ok((self.head.get() as u32, self.records.get() as u32))
        } else {
            Err(Refused::Misaligned)
        }
    }
}

/// An event, as a trampoline has written it: `u64` stamp, `u32` number plus one, `u32` probe,
/// `u64` a, `u64` b, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The virtual counter, as it was read after the place had been taken and before the record was
    /// written. Records of several vCPUs, or of a handler and what it interrupted, may have stamps
    /// that are not in the order of their numbers.
    pub stamp: u64,
    /// The number of the probe.
    pub probe: u32,
    /// The first argument.
    pub a: u64,
    /// The second one.
    pub b: u64,
}

impl Record {
    /// The size in bytes.
    pub const BYTES: u64 = 32;
    /// The offset of the word that is written last.
    pub const COMMIT: u64 = 8;

    /// Record `number`, from the bytes of its place; `None` if it is not whole yet. The word at
    /// [`Self::COMMIT`] must have been read before the others, with acquire.
    pub fn read(bytes: &[u8; 32], number: u32) -> Option<Self> {
        let (words, _) = bytes.as_chunks();
        let [stamp, word, a, b] = *words else {
            return None;
        };
        let word = u64::from_le_bytes(word);
        (word as u32 == number.wrapping_add(1)).then_some(Self {
            stamp: u64::from_le_bytes(stamp),
            probe: (word >> 32) as u32,
            a: u64::from_le_bytes(a),
            b: u64::from_le_bytes(b),
        })
    }
}
