//! The trace in memory, written.
//!
//! Each pCPU has a ring of its own, of which it is the only writer, so that a record takes no lock and no pCPU waits for
//! another one. Whoever reads may do so at any time, on another CPU or outside the machine; what it has to know is said in
//! [`hanok_abi::trace`]. Two orders make that true: a record's words are written after the count that makes its place
//! a stale one, and the new count after the words.
//!
//! Rejected: records of different lengths, which a reader that was overtaken cannot find the beginning of; a lock or
//! an atomic addition on a ring that several pCPUs share; a sequence number in each record, which takes a word of it.

use crate::{Event, Source};
use hanok_abi::trace::{
    self, Kind, MAGIC, NAME, NO_VM, PAGE, RECORD, Record, VERSION, area_size, class, head, reader,
    ring,
};
use hanok_hal::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use hanok_types::{VcpuId, VmId};

/// The bytes of a word that the CPU writes at once.
const WORD: usize = size_of::<usize>();
/// Words of a number of 64 bits.
const PER_NUMBER: usize = 8 / WORD;
/// Words of a record.
const PER_RECORD: usize = RECORD / WORD;
/// Words of a page.
const PER_PAGE: usize = PAGE / WORD;

type Words = &'static [AtomicUsize];
type Slot = [AtomicUsize; PER_RECORD];

/// What a reader is told of the whole board.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a, N> {
    /// The number of pCPUs.
    pub rings: usize,
    /// The number of records of each ring, a power of two.
    pub records: usize,
    /// The counter's frequency in Hz.
    pub frequency: u64,
    /// [`hanok_abi::trace::AARCH64`] or [`hanok_abi::trace::AARCH32`].
    pub architecture: u64,
    /// The VMs' names, in the description's order.
    pub names: &'a [N],
}

/// The memory of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    words: Words,
    records: usize,
}

impl Area {
    /// Lays an area for these facts into `words`. `None`: there are too few of them, or the facts contradict themselves.
    pub fn lay<N: AsRef<str>>(words: Words, facts: Facts<'_, N>) -> Option<Self> {
        let Facts { rings, records, .. } = facts;
        if !records.is_power_of_two() || words.len() < area_size(rings, records) / WORD {
            return None;
        }
        let area = Self { words, records };
        area.words
            .iter()
            .take(PER_PAGE)
            .for_each(|word| word.store(0, Ordering::Relaxed));
        let numbers = [
            (head::VERSION, VERSION),
            (head::RINGS, rings as u64),
            (head::RECORDS, records as u64),
            (head::FREQUENCY, facts.frequency),
            (head::VMS, facts.names.len() as u64),
            (head::ARCHITECTURE, facts.architecture),
        ];
        for (offset, number) in numbers {
            area.put(offset, number);
        }
        for (index, name) in facts.names.iter().enumerate() {
            let mut bytes = [0; NAME];
            for (place, byte) in bytes.iter_mut().zip(name.as_ref().bytes()) {
                *place = byte;
            }
            for (part, bytes) in bytes.as_chunks::<8>().0.iter().enumerate() {
                let offset = head::NAMES + index * NAME + part * 8;
                area.put(offset, u64::from_le_bytes(*bytes));
            }
        }
        // Who looks for an area finds one that is whole.
        fence(Ordering::Release);
        area.put(head::MAGIC, MAGIC);
        Some(area)
    }

    /// The tracer of the pCPU with this index, whose ring is emptied, and which records nothing yet; `None` if there is no such ring.
    pub fn tracer(&self, index: usize) -> Option<Tracer> {
        let size = trace::ring_size(self.records) / WORD;
        let start = PER_PAGE + index * size;
        let ring = self.words.get(start..start + size).and_then(Ring::new);
        ring.map(Tracer::new)
    }

    /// Tells readers what is recorded from now on.
    pub fn tell(&self, choice: Choice) {
        self.put(head::CLASSES, choice.classes.into());
        self.put(head::CHOSEN, choice.vms);
    }

    fn put(&self, offset: usize, number: u64) {
        put(self.words, offset, number);
    }
}

/// Stores a number at an offset in bytes.
#[inline(always)]
fn put(words: &[AtomicUsize], offset: usize, number: u64) {
    let places = words.iter().skip(offset / WORD).take(PER_NUMBER);
    for (part, place) in places.enumerate() {
        place.store((number >> (part * WORD * 8)) as usize, Ordering::Relaxed);
    }
}

/// What is to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Classes of events ([`hanok_abi::trace::class`]).
    pub classes: u32,
    /// The VMs whose events are recorded, a bit each. Events that are about no VM are recorded whatever it is.
    pub vms: u64,
}

/// One pCPU's ring.
#[derive(Clone, Copy, Debug)]
struct Ring {
    written: &'static AtomicUsize,
    dropped: &'static AtomicUsize,
    keeps: &'static AtomicUsize,
    taken: &'static AtomicUsize,
    slots: &'static [Slot],
}

impl Ring {
    fn new(words: Words) -> Option<Self> {
        let (own, rest) = words.split_at_checked(PER_PAGE)?;
        let (readers, records) = rest.split_at_checked(PER_PAGE)?;
        let pages = own.iter().chain(readers);
        pages.for_each(|word| word.store(0, Ordering::Relaxed));
        Some(Self {
            written: own.get(ring::WRITTEN / WORD)?,
            dropped: own.get(ring::DROPPED / WORD)?,
            keeps: readers.get(reader::KEEPS / WORD)?,
            taken: readers.get(reader::TAKEN / WORD)?,
            slots: records.as_chunks().0,
        })
    }

    /// Writes a record, or counts it as dropped.
    #[inline(always)]
    fn write(&self, record: Record) {
        let written = self.written.load(Ordering::Relaxed);
        let index = written & self.slots.len().wrapping_sub(1);
        let Some(slot) = self.slots.get(index) else {
            return;
        };
        if self.keeps.load(Ordering::Relaxed) != 0 && self.is_full(written) {
            return;
        }
        // The count that tells a reader to leave this place alone was written before; it is seen before these words are.
        fence(Ordering::Release);
        let Record { stamp, what, a, b } = record;
        put(slot, 0, stamp);
        put(slot, 8, what);
        put(slot, 16, a);
        put(slot, 24, b);
        let next = written.wrapping_add(1) & u32::MAX as usize;
        self.written.store(next, Ordering::Release);
    }

    /// Whether the reader still has to take the record in the next place. The new one is counted then.
    #[cold]
    #[inline(never)]
    fn is_full(&self, written: usize) -> bool {
        // What the reader has read was read before it said so.
        let taken = self.taken.load(Ordering::Acquire);
        let full = written.wrapping_sub(taken) as u32 as usize >= self.slots.len();
        if full {
            let dropped = self.dropped.load(Ordering::Relaxed);
            let next = dropped.wrapping_add(1) & u32::MAX as usize;
            self.dropped.store(next, Ordering::Relaxed);
        }
        full
    }
}

/// What one pCPU records, and where. That pCPU alone uses it: the atomics let all tracers be in one place, and what each event tests,
/// [`Self::classes`], be kept apart in the pCPU's own record, where a whole tracer would move fields that each exit needs out
/// of the reach of short instructions.
#[derive(Debug)]
pub struct Tracer {
    classes: AtomicU32,
    vms: AtomicU64,
    /// The number of the change of what is recorded that it took over last.
    change: AtomicU32,
    /// The counter of the hypervisor's instructions when the last guest was left.
    left: AtomicU32,
    /// The vCPU that was entered last, and when its pCPU's policy had chosen it.
    entered: AtomicU32,
    decided: AtomicU64,
    ring: Ring,
}

/// Which vCPU was entered before another one, or the same one by another decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It is not known: nothing was recorded yet, or the pCPU slept.
    Unknown,
    /// The same.
    Same,
    /// Another one.
    Other(Source),
}

/// [`Tracer::entered`]: no vCPU.
const NOBODY: u32 = u32::MAX;

impl Tracer {
    fn new(ring: Ring) -> Self {
        Self {
            classes: AtomicU32::new(0),
            vms: AtomicU64::new(0),
            change: AtomicU32::new(0),
            left: AtomicU32::new(0),
            entered: AtomicU32::new(NOBODY),
            decided: AtomicU64::new(0),
            ring,
        }
    }

    /// The classes of events that are recorded.
    #[inline(always)]
    pub fn classes(&self) -> u32 {
        self.classes.load(Ordering::Relaxed)
    }

    /// Takes over a change of what is recorded, by its number. The answer is whether it is a new one.
    pub fn takes(&self, change: u32) -> bool {
        self.change.swap(change, Ordering::Relaxed) != change
    }

    /// Records from now on what `choice` says, and that this is so.
    pub fn choose(&self, choice: Choice, stamp: u64) {
        let classes = choice.classes & class::ALL;
        self.classes.store(classes, Ordering::Relaxed);
        self.vms.store(choice.vms, Ordering::Relaxed);
        self.entered.store(NOBODY, Ordering::Relaxed);
        let what = Record::what(Kind::Chosen, NO_VM, 0);
        let (a, b) = (classes.into(), choice.vms);
        self.ring.write(Record { stamp, what, a, b });
    }

    /// Notes that a guest was left, where the counter of the hypervisor's instructions had this value.
    #[inline(always)]
    pub fn left(&self, instructions: u32) {
        self.left.store(instructions, Ordering::Relaxed);
    }

    /// How far that counter has come since.
    #[inline(always)]
    pub fn since_left(&self, instructions: u32) -> u32 {
        instructions.wrapping_sub(self.left.load(Ordering::Relaxed))
    }

    /// Records something about a vCPU, if events of its VM are recorded. `extra`, `a` and `b` are what the kind says.
    #[inline(always)]
    pub fn write(&self, stamp: u64, (kind, source): (Kind, Source), [extra, a, b]: [u64; 3]) {
        let (vm, vcpu) = (source.vm.index() as u8, source.vcpu.index() as u8);
        if self.vms.load(Ordering::Relaxed) >> (vm & 63) & 1 == 0 {
            return;
        }
        let what = Record::what(kind, vm, vcpu) | extra << 32;
        self.ring.write(Record { stamp, what, a, b });
    }

    /// Notes that `source` is entered, which the policy chose at the instant `decided`. The answer is whether that is another decision
    /// than at the last entry, and if so who was entered then. For a trap entry that records this in the executive's place.
    #[inline(always)]
    pub fn enters(&self, source: Source, decided: u64) -> Option<Before> {
        let who = (source.vm.index() as u32) << 8 | source.vcpu.index() as u32;
        let before = self.entered.load(Ordering::Relaxed);
        if before == who && self.decided.load(Ordering::Relaxed) == decided {
            return None;
        }
        self.entered.store(who, Ordering::Relaxed);
        self.decided.store(decided, Ordering::Relaxed);
        Some(match before {
            NOBODY => Before::Unknown,
            same if same == who => Before::Same,
            other => Before::Other(Source {
                vm: VmId::new((other >> 8) as u8),
                vcpu: VcpuId::new(other as u8),
            }),
        })
    }

    /// Records an event.
    pub fn record(&self, stamp: u64, source: Option<Source>, event: Event) {
        let Some((kind, a)) = event.recorded_as() else {
            return;
        };
        if matches!(event, Event::Idle | Event::Spends) {
            // Whoever is entered next is told of, even if it is the same.
            self.entered.store(NOBODY, Ordering::Relaxed);
        }
        match source {
            Some(source) => self.write(stamp, (kind, source), [0, a, 0]),
            None => {
                let (what, b) = (Record::what(kind, NO_VM, 0), 0);
                self.ring.write(Record { stamp, what, a, b });
            }
        }
    }
}

#[cfg(test)]
mod tests;
