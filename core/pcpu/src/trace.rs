//! What the board traces, and how that changes while it runs.
//!
//! A choice is the whole board's. Whoever changes it kicks each pCPU that has vCPUs, and each pCPU takes it over at that kick: an
//! event tests a field of its pCPU's own, and pays nothing for the question whether the choice has changed.

use crate::{Board, Host, Local};
use hanok_hal::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanok_trace::{Area, Choice, Event, Source, Tracer};
use hanok_types::{CpuId, Hpa, MAX_CPUS, Span};
use hanok_vm::Clock;

/// The board's trace.
#[derive(Debug, Default)]
pub struct Traces {
    /// Its memory, and where that is, if the description gives it any.
    memory: Option<(Area, Span<Hpa>)>,
    classes: AtomicU32,
    vms: AtomicU64,
    /// Counts changes.
    changes: AtomicU32,
}

impl Traces {
    /// A trace in this memory, of which `choice` is recorded at first.
    pub fn new(area: Area, memory: Span<Hpa>, choice: Choice) -> Self {
        area.tell(choice);
        Self {
            memory: Some((area, memory)),
            classes: AtomicU32::new(choice.classes),
            vms: AtomicU64::new(choice.vms),
            changes: AtomicU32::new(0),
        }
    }

    /// Where its memory is.
    pub fn memory(&self) -> Option<Span<Hpa>> {
        self.memory.map(|(_, memory)| memory)
    }

    /// The tracer of a pCPU, which records nothing yet.
    pub(crate) fn tracer(&self, cpu: CpuId) -> Tracer {
        let tracer = |(area, _): (Area, _)| area.tracer(cpu.index());
        self.memory.map(tracer).unwrap_or_default()
    }

    fn choice(&self) -> Choice {
        Choice {
            classes: self.classes.load(Ordering::Relaxed),
            vms: self.vms.load(Ordering::Relaxed),
        }
    }
}

impl<B: Host> Board<B> {
    /// Records from now on what `choice` says, and answers whoever asked: where the trace is, or that there is none.
    pub(crate) fn trace(&self, choice: Choice) {
        let traces = &self.traces;
        let Some((area, memory)) = &traces.memory else {
            let Choice { classes, vms } = choice;
            return self.tell(format_args!("traced {classes} {vms} 0 0"));
        };
        // Who asks holds the lock of the receiving side: there is one change at a time.
        traces.classes.store(choice.classes, Ordering::Relaxed);
        traces.vms.store(choice.vms, Ordering::Relaxed);
        traces.changes.fetch_add(1, Ordering::Release);
        area.tell(choice);
        (0..MAX_CPUS as u8)
            .filter(|cpu| self.inhabited >> cpu & 1 != 0)
            .for_each(|cpu| self.machine.kick(CpuId::new(cpu)));
        let (at, bytes) = (memory.start().get(), memory.len());
        let Choice { classes, vms } = choice;
        self.tell(format_args!("traced {classes} {vms} {at} {bytes}"));
    }
}

impl<B: Host> Local<B> {
    /// Takes over what is to be traced, if that has changed. A CPU whose trap entry records exits has another one from then on.
    #[inline(always)]
    pub(crate) fn take_choice(&mut self) {
        let changes = self.board.traces.changes.load(Ordering::Acquire);
        if changes != self.choices {
            self.choices = changes;
            self.begin_tracing();
        }
    }

    /// Records what the board's trace has chosen.
    #[cold]
    #[inline(never)]
    pub fn begin_tracing(&mut self) {
        let board = self.board;
        self.tracer.choose(board.traces.choice(), board.counter());
        board
            .machine
            .trace_exits(self.tracer.records(hanok_abi::trace::class::EXITS));
    }

    /// Writes an event into the trace, of whose class events are recorded.
    #[cold]
    #[inline(never)]
    pub(crate) fn trace_event(&self, source: Option<Source>, event: Event) {
        self.tracer.record(self.board.counter(), source, event);
    }
}

#[cfg(test)]
mod tests;
