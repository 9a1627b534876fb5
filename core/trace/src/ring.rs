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
/// Words of a page.
const PER_PAGE: usize = PAGE / WORD;

type Words = &'static [AtomicUsize];
/// The words of a number.
type Number = [AtomicUsize; PER_NUMBER];
/// The numbers of a record.
type Slot = [Number; RECORD / 8];

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

    /// Stores a number at an offset in bytes.
    fn put(&self, offset: usize, number: u64) {
        if let Some(place) = self.words.as_chunks().0.get(offset / 8) {
            store(place, number);
        }
    }
}

/// Stores a number.
#[inline(always)]
fn store(place: &Number, number: u64) {
    match place.as_slice() {
        [whole] => whole.store(number as usize, Ordering::Relaxed),
        [low, high, ..] => {
            low.store(number as usize, Ordering::Relaxed);
            high.store((number >> 32) as usize, Ordering::Relaxed);
        }
        [] => {}
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
            taken: readers.get(reader::TAKEN / WORD)?,
            slots: records.as_chunks().0.as_chunks().0,
        })
    }

    /// Writes a record.
    #[inline(always)]
    fn write(&self, record: Record) {
        let written = self.written.load(Ordering::Relaxed);
        let index = written & self.slots.len().wrapping_sub(1);
        let Some([first, second, third, fourth]) = self.slots.get(index) else {
            return;
        };
        // The count that tells a reader to leave this place alone was written before; it is seen before these words are.
        fence(Ordering::Release);
        store(first, record.stamp);
        store(second, record.what);
        store(third, record.a);
        store(fourth, record.b);
        let next = written.wrapping_add(1) & u32::MAX as usize;
        self.written.store(next, Ordering::Release);
    }

    /// Writes a record, or counts it as dropped if that in its place has not been taken.
    #[cold]
    #[inline(never)]
    fn write_unless_full(&self, stamp: u64, what: u64, a: u64, b: u64) {
        if !self.is_full(self.written.load(Ordering::Relaxed)) {
            self.write(Record { stamp, what, a, b });
        }
    }

    /// Whether the reader still has to take the record in the next place. The new one is counted then.
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
    /// The vCPU that was entered last: a number of the caller's; 0: nobody's.
    entered: AtomicUsize,
    /// Its VM and itself, as [`Record::what`] has them.
    who: AtomicU32,
    /// The classes of events that are recorded of it, with [`class::KEEP`] and [`COUNTS`].
    current: AtomicU32,
    /// When its pCPU's policy had chosen it.
    decided: AtomicU64,
    /// The counter of the hypervisor's instructions when its guest was left last.
    left: AtomicU32,
    ring: Ring,
}

/// In [`Tracer::classes`]: the CPU counts the hypervisor's instructions.
const COUNTS: u32 = 1 << 17;

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

impl Tracer {
    fn new(ring: Ring) -> Self {
        Self {
            classes: AtomicU32::new(0),
            vms: AtomicU64::new(0),
            change: AtomicU32::new(0),
            entered: AtomicUsize::new(0),
            who: AtomicU32::new(0),
            current: AtomicU32::new(0),
            decided: AtomicU64::new(0),
            left: AtomicU32::new(0),
            ring,
        }
    }

    /// The classes of events that are recorded.
    #[inline(always)]
    pub fn classes(&self) -> u32 {
        self.classes.load(Ordering::Relaxed)
    }

    /// The classes of events that are recorded of the vCPU that was entered last.
    #[inline(always)]
    pub fn current(&self) -> u32 {
        self.current.load(Ordering::Relaxed)
    }

    /// Takes over a change of what is recorded, by its number. The answer is whether it is a new one.
    pub fn takes(&self, change: u32) -> bool {
        self.change.swap(change, Ordering::Relaxed) != change
    }

    /// Records from now on what `choice` says, and that this is so. `counts`: the CPU counts the hypervisor's instructions.
    pub fn choose(&self, choice: Choice, stamp: u64, counts: bool) {
        let classes = choice.classes & (class::ALL | class::KEEP);
        let with = if counts { COUNTS } else { 0 };
        self.classes.store(classes | with, Ordering::Relaxed);
        self.vms.store(choice.vms, Ordering::Relaxed);
        self.entered.store(0, Ordering::Relaxed);
        self.current.store(0, Ordering::Relaxed);
        let what = Record::what(Kind::Chosen, NO_VM, 0);
        let (a, b) = (classes.into(), choice.vms);
        self.put(classes, Record { stamp, what, a, b });
    }

    /// Notes that a guest was left, where the counter of the hypervisor's instructions had this value; it is read only where there is one,
    /// as `current` says, which is [`Self::current`].
    #[inline(always)]
    pub fn left(&self, current: u32, instructions: impl FnOnce() -> u32) {
        if current & COUNTS != 0 {
            self.left.store(instructions(), Ordering::Relaxed);
        }
    }

    /// How far that counter, which has this value now, has come since; 0 where it does not count.
    #[inline(always)]
    pub fn since_left(&self, instructions: impl FnOnce() -> u32) -> u32 {
        if self.current() & COUNTS == 0 {
            return 0;
        }
        instructions().wrapping_sub(self.left.load(Ordering::Relaxed))
    }

    /// Writes a record as these classes want it.
    #[inline(always)]
    fn put(&self, classes: u32, record: Record) {
        if classes & class::KEEP == 0 {
            self.ring.write(record);
        } else {
            // Not as a record, for which the usual way would have to keep room on the stack.
            let Record { stamp, what, a, b } = record;
            self.ring.write_unless_full(stamp, what, a, b);
        }
    }

    fn chooses(&self, vm: u8) -> bool {
        self.vms.load(Ordering::Relaxed) >> (vm & 63) & 1 != 0
    }

    /// Records something about a vCPU, if events of its VM are recorded. `extra`, `a` and `b` are what the kind says.
    pub fn write(&self, stamp: u64, (kind, source): (Kind, Source), [extra, a, b]: [u64; 3]) {
        let (vm, vcpu) = (source.vm.index() as u8, source.vcpu.index() as u8);
        if self.chooses(vm) {
            let what = Record::what(kind, vm, vcpu) | extra << 32;
            self.put(self.classes(), Record { stamp, what, a, b });
        }
    }

    /// Records something about the vCPU that was entered last. `classes` is what [`Self::current`] says.
    #[inline(always)]
    pub fn write_current(&self, (stamp, classes): (u64, u32), kind: Kind, [extra, a, b]: [u64; 3]) {
        let who = u64::from(self.who.load(Ordering::Relaxed));
        let what = who | kind as u64 | extra << 32;
        self.put(classes, Record { stamp, what, a, b });
    }

    /// Whether the vCPU that the caller knows by `number`, which is not zero, was entered last, by the decision of the instant `decided`.
    #[inline(always)]
    pub fn knows(&self, number: usize, decided: u64) -> bool {
        self.entered.load(Ordering::Relaxed) == number
            && self.decided.load(Ordering::Relaxed) == decided
    }

    /// Notes that `source`, which the caller knows by `number`, is entered, by the decision of the instant `decided`. The answer is who was
    /// entered before.
    pub fn enters(&self, source: Source, number: usize, decided: u64) -> Before {
        let (vm, vcpu) = (source.vm.index() as u8, source.vcpu.index() as u8);
        let who = u32::from(vm) << 8 | u32::from(vcpu) << 16;
        let mut classes = self.classes();
        if !self.chooses(vm) {
            classes &= COUNTS;
        }
        self.decided.store(decided, Ordering::Relaxed);
        self.current.store(classes, Ordering::Relaxed);
        let (entered, before) = (&self.entered, &self.who);
        match (
            entered.swap(number, Ordering::Relaxed),
            before.swap(who, Ordering::Relaxed),
        ) {
            (0, _) => Before::Unknown,
            (same, _) if same == number => Before::Same,
            (_, other) => Before::Other(Source {
                vm: VmId::new((other >> 8) as u8),
                vcpu: VcpuId::new((other >> 16) as u8),
            }),
        }
    }

    /// Records an event.
    pub fn record(&self, stamp: u64, source: Option<Source>, event: Event) {
        let Some((kind, a)) = event.recorded_as() else {
            return;
        };
        if matches!(event, Event::Idle | Event::Spends) {
            // Whoever is entered next is told of, even if it is the same.
            self.entered.store(0, Ordering::Relaxed);
        }
        match source {
            Some(source) => self.write(stamp, (kind, source), [0, a, 0]),
            None => {
                let (what, b) = (Record::what(kind, NO_VM, 0), 0);
                self.put(self.classes(), Record { stamp, what, a, b });
            }
        }
    }
}

#[cfg(test)]
mod tests;
