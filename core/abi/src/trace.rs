//! The trace as it lies in memory: who has that memory (a debugger, an emulator's file, an agent in a VM, a dump after a
//! crash) can read it without asking the hypervisor.
//!
//! The trace is one stretch of memory, the *area*. Its first page is the head, with all that a reader must know. Then
//! comes the ring of each pCPU: a page that its pCPU alone writes ([`ring`]), a page that the reader alone writes
//! ([`reader`]), and the records. All numbers are little-endian and have 64 bits, whatever the CPU has; offsets are in bytes.
//!
//! A ring holds the latest [`head::RECORDS`] records. Record number N, counted from the ring's beginning, is at the place N modulo that
//! number. A reader copies records, and then reads [`ring::WRITTEN`] once more: of what it copied, only numbers above
//! `WRITTEN - RECORDS` are whole, as the record after the last one may be half written. Counts wrap at 2^32.

/// The first eight bytes of an area.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HanokTrc");
/// The version of what this module says.
pub const VERSION: u64 = 1;
/// The size of the head, and of each ring's two pages.
pub const PAGE: usize = 4096;
/// The size of a record.
pub const RECORD: usize = 32;
/// The bytes of a VM's name, zeros after it.
pub const NAME: usize = 32;

/// Offsets in the area's head.
pub mod head {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 8;
    /// The number of rings, one for each pCPU.
    pub const RINGS: usize = 16;
    /// The number of records of each ring, a power of two.
    pub const RECORDS: usize = 24;
    /// The frequency of the counter that stamps are of, in Hz.
    pub const FREQUENCY: usize = 32;
    /// The number of VMs.
    pub const VMS: usize = 40;
    /// Which CPU the hypervisor runs on: [`super::AARCH64`] or [`super::AARCH32`]. It says what a syndrome means.
    pub const ARCHITECTURE: usize = 48;
    /// The classes of events that are recorded now.
    pub const CLASSES: usize = 56;
    /// The VMs whose events are recorded, a bit each.
    pub const CHOSEN: usize = 64;
    /// The names of the VMs, [`super::NAME`] bytes each.
    pub const NAMES: usize = 1024;
}

/// [`head::ARCHITECTURE`]: ESR_EL2.
pub const AARCH64: u64 = 64;
/// [`head::ARCHITECTURE`]: HSR.
pub const AARCH32: u64 = 32;

/// Offsets in the page of a ring that its pCPU writes.
pub mod ring {
    /// How many records were written since the beginning; 32 bits.
    pub const WRITTEN: usize = 0;
    /// How many records were not written, as the reader had not taken those in their places; 32 bits.
    pub const DROPPED: usize = 8;
}

/// Offsets in the page of a ring that the reader writes.
pub mod reader {
    /// How many records the reader has taken, if it wants them kept ([`super::class::KEEP`]); 32 bits.
    pub const TAKEN: usize = 0;
}

/// The size of a ring of `records` records.
pub const fn ring_size(records: usize) -> usize {
    2 * PAGE + records * RECORD
}

/// The size of an area.
pub const fn area_size(rings: usize, records: usize) -> usize {
    PAGE + rings * ring_size(records)
}

/// Classes of events, by which a person chooses what is recorded; a bit each.
pub mod class {
    /// Exits of guests and entries: [`super::Kind::Exit`], [`super::Kind::Interrupted`], [`super::Kind::SystemError`],
    /// [`super::Kind::Enter`].
    pub const EXITS: u32 = 1;
    /// Which vCPU a pCPU has, and what its policy decides.
    pub const SWITCHES: u32 = 2;
    /// When a vCPU has work, and when it has none any more.
    pub const WAKES: u32 = 4;
    /// Physical interrupts.
    pub const INTERRUPTS: u32 = 8;
    /// Starts and ends of vCPUs.
    pub const LIFE: u32 = 16;
    /// All of them.
    pub const ALL: u32 = 31;

    /// No class, but a wish that comes with them: a record that the reader has not taken ([`super::reader::TAKEN`]) is never written over; the
    /// new one is dropped instead, and counted ([`super::ring::DROPPED`]).
    pub const KEEP: u32 = 1 << 16;

    /// The words by which people name them.
    pub const WORDS: [(&str, u32); 5] = [
        ("exits", EXITS),
        ("switches", SWITCHES),
        ("wakes", WAKES),
        ("interrupts", INTERRUPTS),
        ("life", LIFE),
    ];
}

/// What a record is about. Its number is the lowest byte of [`Record::what`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The guest was left by a synchronous exception. The upper half of `what` is the syndrome, `a` the guest's program
    /// counter, and `b` the intermediate physical address of an abort, 0 where the CPU does not tell it, or else the first argument register.
    Exit = 1,
    /// The guest was left by a physical interrupt. `a` is its program counter, and the upper half of `what` the number of the
    /// interrupt that was pending then, or 1023 where that is not known or it went away.
    Interrupted = 2,
    /// The guest was left by an SError. `a` is its program counter.
    SystemError = 3,
    /// The guest is entered. `a` is its program counter, and `b` the number of instructions of the hypervisor since the guest
    /// that this pCPU had before was left; zero where the CPU does not count them.
    Enter = 4,
    /// The vCPU has the pCPU from now on. `a` is the instant from which on it had work, where that is known, or zero. It may be older than
    /// its last turn, and means nothing then.
    SwitchIn = 5,
    /// The vCPU has the pCPU no more. `a` is 1 if it still has work, or 0, and `b` has how often its budget was used up in the upper half,
    /// and how many promises to it were not kept in the lower one; all ones where nothing of this is known.
    SwitchOut = 6,
    /// The vCPU has work from now on. Most backends tell it by [`Self::SwitchIn`] alone.
    Wake = 7,
    /// The vCPU has no work any more. Most backends tell it by [`Self::SwitchOut`] alone.
    Block = 8,
    /// The vCPU was started in its VM.
    Start = 9,
    /// The vCPU left its VM.
    Stop = 10,
    /// The policy chose the vCPU. `a` is the instant, in ticks of the counter, at which it is to be asked again; all ones: never.
    Decision = 11,
    /// No vCPU has work.
    Idle = 12,
    /// No vCPU is to run, but one without work spends its budget.
    Spends = 13,
    /// A physical interrupt, whose number is `a`, was taken.
    Interrupt = 14,
    /// What is recorded changes: `a` has the classes, `b` the VMs. The hypervisor's start is one, too.
    Chosen = 15,
}

impl Kind {
    /// All kinds, by their numbers.
    pub const ALL: [Self; 15] = {
        use Kind::*;
        [
            Exit,
            Interrupted,
            SystemError,
            Enter,
            SwitchIn,
            SwitchOut,
            Wake,
            Block,
            Start,
            Stop,
            Decision,
            Idle,
            Spends,
            Interrupt,
            Chosen,
        ]
    };

    /// The kind with this number.
    pub fn of(number: u8) -> Option<Self> {
        let index = usize::from(number).checked_sub(1)?;
        Self::ALL.get(index).copied()
    }
}

/// The VM of a record that is about none.
pub const NO_VM: u8 = 0xff;

/// A record, in the order of its words in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// The counter's value. It never falls within a ring.
    pub stamp: u64,
    /// Kind, VM and vCPU, from the lowest byte on; a byte of zeros; and 32 bits that depend on the kind.
    pub what: u64,
    /// Depends on the kind.
    pub a: u64,
    /// Depends on the kind.
    pub b: u64,
}

impl Record {
    /// [`Self::what`] of a kind about a vCPU.
    #[inline(always)]
    pub const fn what(kind: Kind, vm: u8, vcpu: u8) -> u64 {
        kind as u64 | (vm as u64) << 8 | (vcpu as u64) << 16
    }

    /// What the record is about; `None`: nothing that this version knows.
    pub fn kind(&self) -> Option<Kind> {
        Kind::of(self.what as u8)
    }

    /// The VM by its index in the description, and the vCPU; `None`: it is about none.
    pub fn vcpu(&self) -> Option<(u8, u8)> {
        let [_, vm, vcpu, ..] = self.what.to_le_bytes();
        (vm != NO_VM).then_some((vm, vcpu))
    }

    /// The upper half of [`Self::what`].
    pub fn extra(&self) -> u32 {
        (self.what >> 32) as u32
    }

    /// The record in these bytes.
    pub fn from_bytes(bytes: &[u8; RECORD]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
        Self {
            stamp: word(0),
            what: word(1),
            a: word(2),
            b: word(3),
        }
    }

    /// The record's bytes.
    pub fn to_bytes(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let words = [self.stamp, self.what, self.a, self.b];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_the_numbers_by_which_they_are_found() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1);
            assert_eq!(Kind::of(kind as u8), Some(kind));
        }
        assert_eq!(Kind::of(0), None);
        assert_eq!(Kind::of(16), None);
    }

    #[test]
    fn a_record_comes_back_from_its_bytes() {
        let record = Record {
            stamp: 0x0102_0304_0506_0708,
            what: Record::what(Kind::Exit, 3, 7) | 0x5600_0000 << 32,
            a: 0xffff_8000_1234_5678,
            b: u64::MAX,
        };
        let bytes = record.to_bytes();
        assert_eq!(bytes[..8], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(bytes[8..16], [1, 3, 7, 0, 0, 0, 0, 0x56]);
        let back = Record::from_bytes(&bytes);
        assert_eq!(back, record);
        assert_eq!(back.kind(), Some(Kind::Exit));
        assert_eq!(back.vcpu(), Some((3, 7)));
        assert_eq!(back.extra(), 0x5600_0000);
        let none = Record {
            what: Record::what(Kind::Idle, NO_VM, 0),
            ..record
        };
        assert_eq!(none.vcpu(), None);
    }

    #[test]
    fn classes_are_bits_of_their_own() {
        let all = class::WORDS.iter().fold(0, |all, (_, bit)| {
            assert_eq!(all & bit, 0);
            all | bit
        });
        assert_eq!(all, class::ALL);
    }
}
