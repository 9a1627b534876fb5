//! The trace in a board's memory, read from outside: from the memory of an emulator while it runs, or from a copy of it.
//!
//! Whatever the memory has is taken for damaged until it is checked: a guest may have written to it, or it may be cut off.

use hanok_abi::trace::{
    MAGIC, NAME, PAGE, RECORD, Record, VERSION, area_size, head, ring, ring_size,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use thiserror::Error;

/// The most rings, VMs, and records of a ring that a trace may have.
const MOST_RINGS: u64 = 64;
const MOST_VMS: u64 = 64;
const MOST_RECORDS: u64 = 1 << 20;

/// Why there is no trace.
#[derive(Debug, Error)]
pub enum AreaError {
    /// The memory does not begin as a trace does.
    #[error("there is no trace at {0:#x}")]
    NoTrace(u64),
    /// It is of another version.
    #[error("the trace has version {0}, and this program reads version {VERSION}")]
    Version(u64),
    /// A number cannot be.
    #[error("the trace is damaged: {0} {1}")]
    Damaged(u64, &'static str),
    /// The memory cannot be read, or ends too early.
    #[error("the memory of the trace cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// What a trace says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of pCPUs.
    pub rings: usize,
    /// The number of records of each one's ring.
    pub records: usize,
    /// The counter's frequency in Hz.
    pub frequency: u64,
    /// Whether the hypervisor's CPU has 64 bits.
    pub is_64_bit: bool,
    /// The names of the VMs.
    pub vms: Vec<String>,
    /// What was recorded when this was read: classes of events, and VMs, a bit each.
    pub chosen: [u64; 2],
}

impl Head {
    /// The head of the trace at this offset of a file.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn read(file: &File, at: u64) -> Result<Self, AreaError> {
        let mut page = [0; PAGE];
        file.read_exact_at(&mut page, at)?;
        let number = |offset: usize| {
            let bytes = page.get(offset..offset + 8);
            bytes
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u64::from_le_bytes)
        };
        if number(head::MAGIC) != MAGIC {
            return Err(AreaError::NoTrace(at));
        }
        if number(head::VERSION) != VERSION {
            return Err(AreaError::Version(number(head::VERSION)));
        }
        let within = |offset: usize, most: u64, what| match number(offset) {
            count if (1..=most).contains(&count) => Ok(count),
            count => Err(AreaError::Damaged(count, what)),
        };
        let rings = within(head::RINGS, MOST_RINGS, "rings")?;
        let records = within(head::RECORDS, MOST_RECORDS, "records in each ring")?;
        if !records.is_power_of_two() {
            return Err(AreaError::Damaged(records, "records in each ring"));
        }
        let frequency = within(head::FREQUENCY, u64::MAX, "Hz")?;
        let vms = within(head::VMS, MOST_VMS, "VMs")?;
        let name = |index: u64| {
            let start = head::NAMES + index as usize * NAME;
            let bytes = page.get(start..start + NAME).unwrap_or_default();
            let plain = bytes.iter().take_while(|byte| **byte != 0);
            let plain = plain.map(|byte| if byte.is_ascii_graphic() { *byte } else { b'?' });
            plain.map(char::from).collect()
        };
        Ok(Self {
            rings: rings as usize,
            records: records as usize,
            frequency,
            is_64_bit: number(head::ARCHITECTURE) == hanok_abi::trace::AARCH64,
            chosen: [number(head::CLASSES), number(head::CHOSEN)],
            vms: (0..vms).map(name).collect(),
        })
    }

    /// The size in bytes of the whole trace.
    pub fn size(&self) -> u64 {
        area_size(self.rings, self.records) as u64
    }

    /// A value of the counter, in nanoseconds.
    pub fn nanoseconds(&self, stamp: u64) -> u64 {
        let nanoseconds = u128::from(stamp) * 1_000_000_000 / u128::from(self.frequency);
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }
}

/// What came into one ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Records, the oldest first.
    pub records: Vec<Record>,
    /// How many before them were written over.
    pub lost: u64,
}

/// A trace that is being read, perhaps while it is written.
#[derive(Debug)]
pub struct Follower {
    file: File,
    at: u64,
    head: Head,
    /// The number of the next record of each ring, modulo 2^32.
    next: Vec<u32>,
}

impl Follower {
    /// Reads from the oldest record on that each ring still has.
    ///
    /// # Errors
    /// There is no trace, or it cannot be read.
    pub fn from_oldest(file: File, at: u64) -> Result<Self, AreaError> {
        let mut follower = Self::from_now(file, at)?;
        let records = follower.head.records as u32;
        for next in &mut follower.next {
            // A count that has wrapped cannot be told from a small one: then a few seconds are left out.
            *next = next.saturating_sub(records - 1);
        }
        Ok(follower)
    }

    /// Reads what is recorded from now on.
    ///
    /// # Errors
    /// There is no trace, or it cannot be read.
    pub fn from_now(file: File, at: u64) -> Result<Self, AreaError> {
        let head = Head::read(&file, at)?;
        let mut follower = Self {
            file,
            at,
            head,
            next: Vec::new(),
        };
        for index in 0..follower.head.rings {
            let written = follower.written(index)?;
            follower.next.push(written);
        }
        Ok(follower)
    }

    /// What the trace says of itself.
    pub fn head(&self) -> &Head {
        &self.head
    }

    fn ring(&self, index: usize) -> u64 {
        self.at + (PAGE + index * ring_size(self.head.records)) as u64
    }

    fn written(&self, index: usize) -> Result<u32, AreaError> {
        let mut bytes = [0; 4];
        let at = self.ring(index) + ring::WRITTEN as u64;
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// What came into each ring since the last call.
    ///
    /// # Errors
    /// The memory cannot be read any more.
    pub fn take(&mut self) -> Result<Vec<Taken>, AreaError> {
        (0..self.head.rings)
            .map(|index| self.take_from(index))
            .collect()
    }

    fn take_from(&mut self, index: usize) -> Result<Taken, AreaError> {
        let records = self.head.records as u32;
        let written = self.written(index)?;
        let Some(next) = self.next.get(index).copied() else {
            return Ok(Taken::default());
        };
        // As the record after the last one may be half written, one place less has a whole one.
        let from = |written: u32| match written.wrapping_sub(next) {
            new if new >= records => written.wrapping_sub(records - 1),
            _ => next,
        };
        let first = from(written);
        let mut bytes = vec![0; written.wrapping_sub(first) as usize * RECORD];
        let place = (first & (records - 1)) as usize;
        let until_end = ((records as usize - place) * RECORD).min(bytes.len());
        let (before, behind) = bytes.split_at_mut(until_end);
        let start = self.ring(index) + 2 * PAGE as u64;
        self.file
            .read_exact_at(before, start + (place * RECORD) as u64)?;
        self.file.read_exact_at(behind, start)?;
        // What was written over meanwhile is known by now.
        let whole = from(self.written(index)?);
        let overtaken = whole.wrapping_sub(first).min(written.wrapping_sub(first));
        let copied = bytes.as_chunks::<RECORD>().0.iter();
        let whole = copied.skip(overtaken as usize);
        if let Some(next) = self.next.get_mut(index) {
            *next = written;
        }
        Ok(Taken {
            records: whole.map(Record::from_bytes).collect(),
            lost: u64::from(first.wrapping_sub(next)) + u64::from(overtaken),
        })
    }
}

#[cfg(test)]
mod tests;
