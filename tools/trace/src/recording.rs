//! From the board's records to what viewers show: the board as a machine whose tasks are vCPUs.

use crate::area::{Head, Taken};
use crate::model::{
    Event, INTERRUPTED, Machine, NO_INTERRUPT, Place, Record, SYSTEM_ERROR, State, Task,
};
use hanok_abi::trace::{Kind, Record as Raw, class};
use std::collections::BTreeMap;

/// The number of a trace's board among its machines.
const BOARD: u64 = 1;
/// A VM's vCPUs have numbers from its own number, counted from 1, times this on. Viewers take 0 for idle CPUs.
const PER_VM: i32 = 1000;
/// No task of Linux has such a priority: viewers show it, and nobody reckons with it.
const PRIORITY: i32 = 0;

/// What was recorded of a board.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What the trace says of itself.
    pub head: Head,
    /// What each pCPU recorded.
    pub rings: Vec<Ring>,
}

/// What one pCPU recorded.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// Records, the oldest first.
    pub records: Vec<Raw>,
    /// Before which of the records some were lost, and how many.
    pub gaps: Vec<(usize, u64)>,
}

impl Ring {
    fn add(&mut self, mut taken: Taken) {
        if taken.lost > 0 {
            self.gaps.push((self.records.len(), taken.lost));
        }
        self.records.append(&mut taken.records);
    }

    /// How many records were lost.
    fn lost(&self) -> u64 {
        self.gaps.iter().map(|(_, lost)| lost).sum()
    }
}

impl Recording {
    /// One in which nothing is yet.
    #[must_use]
    pub fn new(head: Head) -> Self {
        let rings = vec![Ring::default(); head.rings];
        Self { head, rings }
    }

    /// Adds what came into each ring since.
    pub fn add(&mut self, taken: Vec<Taken>) {
        for (ring, more) in self.rings.iter_mut().zip(taken) {
            ring.add(more);
        }
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rings.iter().map(|ring| ring.records.len()).sum()
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many records were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rings.iter().map(Ring::lost).sum()
    }

    /// The time in nanoseconds from the first record to the last one.
    #[must_use]
    pub fn duration(&self) -> u64 {
        let first = self.rings.iter().filter_map(|ring| ring.records.first());
        let first = first.map(|record| record.stamp).min().unwrap_or_default();
        self.head
            .nanoseconds(self.latest())
            .saturating_sub(self.head.nanoseconds(first))
    }

    /// The counter's value at the latest record; 0 if there is none.
    #[must_use]
    pub fn latest(&self) -> u64 {
        let latest = self.rings.iter().filter_map(|ring| ring.records.last());
        latest.map(|record| record.stamp).max().unwrap_or_default()
    }

    /// Drops what is more than so many nanoseconds before the latest record.
    pub fn keep_last(&mut self, nanoseconds: u64) {
        let latest = self.head.nanoseconds(self.latest());
        let from = latest.saturating_sub(nanoseconds);
        for ring in &mut self.rings {
            let old = |raw: &&Raw| self.head.nanoseconds(raw.stamp) < from;
            let dropped = ring.records.iter().take_while(old).count();
            ring.records.drain(..dropped);
            ring.gaps.retain(|(before, _)| *before > dropped);
            ring.gaps
                .iter_mut()
                .for_each(|(before, _)| *before -= dropped);
        }
    }

    /// The counter's value from which on something else was recorded than these classes of these VMs, after that had been chosen: somebody
    /// else has chosen. `None`: nobody has.
    #[must_use]
    pub fn disturbed(&self, choice: [u64; 2]) -> Option<u64> {
        let other = |ring: &Ring| {
            let chosen = ring.records.iter();
            let chosen = chosen.filter(|raw| raw.kind() == Some(Kind::Chosen));
            let mut own = chosen.skip_while(|raw| [raw.a, raw.b] != choice);
            own.find(|raw| [raw.a, raw.b] != choice)
                .map(|raw| raw.stamp)
        };
        self.rings.iter().filter_map(other).min()
    }

    /// The board, on each of whose CPUs vCPUs run as tasks.
    #[must_use]
    pub fn board(&self) -> Machine {
        let mut names = BTreeMap::from([(0, "idle".to_owned())]);
        let cpus = (0..self.rings.len() as u32).map(|cpu| Cpu::new(&self.head, cpu));
        let mut cpus: Vec<_> = cpus.collect();
        // A vCPU of a pool goes from one CPU to another: what is known of it is known in the order of time.
        let mut known = BTreeMap::new();
        for (ring, index) in self.in_order() {
            if let (Some(cpu), Some(ring)) = (cpus.get_mut(ring), self.rings.get(ring)) {
                cpu.step(ring, index, &mut known);
            }
        }
        let cpus = cpus.into_iter().zip(&self.rings).map(|(mut cpu, ring)| {
            cpu.finish(ring, &mut known);
            names.append(&mut cpu.names);
            // That a vCPU had work is told when it runs.
            cpu.done.sort_by_key(|record| record.at);
            cpu.done
        });
        Machine {
            name: "Hanok".to_owned(),
            id: BOARD,
            place: Place::Host { guests: Vec::new() },
            cpus: cpus.collect(),
            tasks: names,
        }
    }

    /// All records by their ring and their place in it, in the order of time, and in each ring's own order.
    fn in_order(&self) -> Vec<(usize, usize)> {
        let rings = self.rings.iter().enumerate();
        let mut all: Vec<_> = rings
            .flat_map(|(ring, own)| {
                let mut last = 0;
                let records = own.records.iter().enumerate();
                records.map(move |(index, raw)| {
                    // A damaged stamp must not change the order of its ring.
                    last = raw.stamp.max(last);
                    (last, ring, index)
                })
            })
            .collect();
        all.sort();
        let places = all.into_iter().map(|(_, ring, index)| (ring, index));
        places.collect()
    }
}

/// What is known of a vCPU.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// When it had its CPU last.
    left: u64,
    /// How often its budget was used up and a promise to it was not kept, as its record has it.
    counts: Option<u64>,
}

/// What is known of all vCPUs.
type All = BTreeMap<(u8, u8), Known>;

/// One pCPU's records, from the first one on.
struct Cpu<'a> {
    head: &'a Head,
    number: u32,
    /// Who runs as of the last record.
    current: Option<(u8, u8)>,
    /// Whether who runs has no work any more.
    blocked: bool,
    /// Since when who runs has had the CPU no more, if nobody has come in its place yet.
    out: Option<u64>,
    /// How many of its gaps are told.
    gaps: usize,
    /// What is recorded: classes and VMs.
    chosen: Option<[u64; 2]>,
    /// An interrupt whose handling has not ended.
    interrupt: Option<u32>,
    names: BTreeMap<i32, String>,
    done: Vec<Record>,
}

impl<'a> Cpu<'a> {
    fn new(head: &'a Head, number: u32) -> Self {
        Self {
            head,
            number,
            current: None,
            blocked: false,
            out: None,
            gaps: 0,
            chosen: None,
            interrupt: None,
            names: BTreeMap::new(),
            done: Vec::new(),
        }
    }

    /// Takes the record at this place of its ring.
    fn step(&mut self, ring: &Ring, index: usize, known: &mut All) {
        let Some(raw) = ring.records.get(index) else {
            return;
        };
        self.gaps_before(ring, index, raw.stamp, known);
        self.record(raw, known);
    }

    /// Takes what comes behind the last record.
    fn finish(&mut self, ring: &Ring, known: &mut All) {
        let last = ring.records.last().map_or(0, |raw| raw.stamp);
        self.gaps_before(ring, usize::MAX, last, known);
        self.goes_out();
    }

    fn gaps_before(&mut self, ring: &Ring, index: usize, stamp: u64, known: &mut All) {
        while let Some((before, count)) = ring.gaps.get(self.gaps)
            && *before <= index
        {
            self.gaps += 1;
            self.gap(self.head.nanoseconds(stamp), *count, known);
        }
    }

    /// Records before this time were lost. What was so before them means nothing after them.
    fn gap(&mut self, at: u64, count: u64, known: &mut All) {
        self.goes_out();
        self.interrupt = None;
        self.blocked = false;
        // A vCPU may have had turns of which nothing is known.
        known.values_mut().for_each(|known| known.left = at);
        self.put(at, Event::Lost { count });
    }

    /// Whoever had the CPU has it no more, and nobody who is recorded came in its place.
    fn goes_out(&mut self) {
        if let Some(at) = self.out.take() {
            self.goes_on(at, None);
        }
    }

    fn record(&mut self, raw: &Raw, known: &mut All) {
        let Some(kind) = raw.kind() else { return };
        let at = self.head.nanoseconds(raw.stamp);
        // Whoever comes at once is recorded with the same stamp.
        let follows = matches!(kind, Kind::SwitchIn | Kind::Idle | Kind::Spends);
        if !follows || self.out.is_some_and(|out| out < at) {
            self.goes_out();
        }
        if let Some(number) = self.interrupt.take() {
            let handled = true;
            self.put(at, Event::InterruptExit { number, handled });
        }
        match (kind, raw.vcpu()) {
            (Kind::SwitchIn, Some(vcpu)) => {
                self.out = None;
                self.wakes(vcpu, raw.a, known);
                self.goes_on(at, Some(vcpu));
            }
            (Kind::SwitchOut, Some(vcpu)) => self.leaves(at, vcpu, raw, known),
            (Kind::Decision, Some(vcpu)) => self.goes_on(at, Some(vcpu)),
            (Kind::Idle | Kind::Spends, _) => {
                self.out = None;
                self.blocked = true;
                if let Some(vcpu) = self.current {
                    known.entry(vcpu).or_default().left = at;
                }
                self.goes_on(at, None);
            }
            (Kind::Interrupt, _) => {
                self.interrupted(at, raw.a as u32);
            }
            (Kind::Chosen, _) => {
                // Whoever records may ask for the same again.
                if self.chosen.replace([raw.a, raw.b]) != Some([raw.a, raw.b]) {
                    let words = format!("records classes {:#x} of VMs {:#x}", raw.a, raw.b);
                    self.put(at, Event::Words(words));
                }
            }
            (kind, Some(vcpu)) => self.of_vcpu(at, kind, vcpu, raw),
            (_, None) => {}
        }
    }

    /// The vCPU, which has the CPU now, had work from the counter's value `since` on, if that is later than its last turn.
    fn wakes(&mut self, vcpu: (u8, u8), since: u64, known: &All) {
        let since = self.head.nanoseconds(since);
        let Some(known) = known.get(&vcpu) else {
            return;
        };
        if since > known.left {
            let (task, cpu) = (self.task(Some(vcpu)), self.number);
            self.put(since, Event::Waking { task, cpu });
        }
    }

    /// The vCPU has the CPU no more.
    fn leaves(&mut self, at: u64, vcpu: (u8, u8), raw: &Raw, known: &mut All) {
        let task = self.task(Some(vcpu));
        if self.current == Some(vcpu) {
            self.blocked |= raw.a == 0;
            self.out = Some(at);
        }
        let known = known.entry(vcpu).or_default();
        let before = std::mem::replace(&mut known.counts, (raw.b != u64::MAX).then_some(raw.b));
        known.left = at;
        let Some((before, now)) = before.zip(known.counts) else {
            return;
        };
        let [throttled, late] = [32, 0].map(|shift| {
            let count = |counts: u64| (counts >> shift) as u32;
            count(now).wrapping_sub(count(before))
        });
        if throttled > 0 {
            let (task, count) = (task.clone(), throttled);
            self.put(at, Event::Throttled { task, count });
        }
        if late > 0 {
            self.put(at, Event::Late { task, count: late });
        }
    }

    fn interrupted(&mut self, at: u64, number: u32) {
        let name = format!("interrupt {number}");
        self.put(at, Event::InterruptEntry { number, name });
        self.interrupt = Some(number);
    }

    fn of_vcpu(&mut self, at: u64, kind: Kind, vcpu: (u8, u8), raw: &Raw) {
        let event = match kind {
            // Only its interrupt is of interest.
            Kind::Interrupted if !self.records(class::EXITS) => {
                if raw.extra() < NO_INTERRUPT {
                    self.interrupted(at, raw.extra());
                }
                return;
            }
            Kind::Exit => exit(vcpu, raw, raw.extra() >> 26),
            Kind::Interrupted => exit(vcpu, raw, INTERRUPTED),
            Kind::SystemError => exit(vcpu, raw, SYSTEM_ERROR),
            Kind::Enter => Event::Entry {
                vcpu: vcpu.1.into(),
                address: raw.a,
                instructions: raw.b as u32,
            },
            Kind::Wake => Event::Waking {
                task: self.task(Some(vcpu)),
                cpu: self.number,
            },
            Kind::Block => {
                self.blocked |= self.current == Some(vcpu);
                return;
            }
            Kind::Start => Event::Words(format!("{} is started", self.task(Some(vcpu)).name)),
            Kind::Stop => Event::Words(format!("{} has ended", self.task(Some(vcpu)).name)),
            _ => return,
        };
        if matches!(
            kind,
            Kind::Exit | Kind::Interrupted | Kind::SystemError | Kind::Enter
        ) {
            // Where switches are not recorded, or none came yet, it shows who runs.
            self.goes_on(at, Some(vcpu));
        }
        self.put(at, event);
        if kind == Kind::Interrupted && raw.extra() < NO_INTERRUPT {
            self.interrupted(at, raw.extra());
        }
    }

    /// Whether events of this class are recorded, as far as that is known.
    fn records(&self, class: u32) -> bool {
        self.chosen
            .is_none_or(|[classes, _]| classes & u64::from(class) != 0)
    }

    /// The CPU goes on with `next`.
    fn goes_on(&mut self, at: u64, next: Option<(u8, u8)>) {
        let blocked = std::mem::take(&mut self.blocked);
        if self.current == next {
            return;
        }
        let previous = self.task(self.current);
        let state = match (self.current, blocked) {
            (Some(_), true) => State::Waiting,
            _ => State::Ready,
        };
        let next_task = self.task(next);
        let event = Event::Switch {
            previous,
            state,
            next: next_task,
        };
        self.put(at, event);
        self.current = next;
    }

    fn put(&mut self, at: u64, event: Event) {
        self.done.push(Record {
            at,
            task: number(self.current),
            in_interrupt: false,
            event,
        });
    }

    fn task(&mut self, vcpu: Option<(u8, u8)>) -> Task {
        let name = match vcpu {
            None => "idle".to_owned(),
            Some((vm, vcpu)) => match self.head.vms.get(usize::from(vm)) {
                Some(name) => format!("{name}.{vcpu}"),
                None => format!("vm{vm}.{vcpu}"),
            },
        };
        let number = number(vcpu);
        self.names.entry(number).or_insert_with(|| name.clone());
        Task {
            number,
            name,
            priority: PRIORITY,
        }
    }
}

/// The number of a vCPU's task, or of the idle one.
fn number(vcpu: Option<(u8, u8)>) -> i32 {
    vcpu.map_or(0, |(vm, vcpu)| {
        (i32::from(vm) + 1) * PER_VM + i32::from(vcpu)
    })
}

fn exit((_, vcpu): (u8, u8), raw: &Raw, reason: u32) -> Event {
    Event::Exit {
        vcpu: vcpu.into(),
        address: raw.a,
        reason,
        syndrome: raw.extra(),
        about: raw.b,
    }
}

#[cfg(test)]
mod tests;
