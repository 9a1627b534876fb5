//! What the board traces, and how that changes while it runs.
//!
//! A choice is the whole board's. Whoever changes it kicks each pCPU, and each takes it over at that kick: an
//! event tests a field of its pCPU's own, and pays nothing for the question whether the choice has changed.

use crate::{Board, Host, Local, Vcpu};
use hanok_abi::trace::{Kind, class};
use hanok_hal::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use hanok_trace::{Area, Before, Choice, Event, Readiness, Source, Tracer};
use hanok_types::{CpuId, Hpa, MAX_CPUS, Span, VcpuId, VmId};
use hanok_vm::Clock;

/// The board's trace.
#[derive(Debug, Default)]
pub struct Traces {
    /// Its memory, and where that is, if the description gives it any.
    memory: Option<(Area, Span<Hpa>)>,
    /// The tracer of each pCPU.
    tracers: &'static [Tracer],
    classes: AtomicU32,
    vms: AtomicU64,
    /// Counts changes, from 1 on if there is a trace.
    changes: AtomicU32,
    /// A vCPU of each pCPU, as [`Traces::lives_on`] notes it; 0: none.
    residents: Residents,
}

/// For each pCPU one of its vCPUs: the only one, where it has one alone.
#[derive(Debug)]
struct Residents([AtomicU32; MAX_CPUS]);

impl Default for Residents {
    fn default() -> Self {
        Self([const { AtomicU32::new(0) }; MAX_CPUS])
    }
}

impl Traces {
    /// A trace in this memory, of whose rings these are the tracers, and of which `choice` is recorded at first.
    pub fn new(area: Area, memory: Span<Hpa>, tracers: &'static [Tracer], choice: Choice) -> Self {
        area.tell(choice);
        Self {
            memory: Some((area, memory)),
            tracers,
            classes: AtomicU32::new(choice.classes),
            vms: AtomicU64::new(choice.vms),
            changes: AtomicU32::new(1),
            residents: Residents::default(),
        }
    }

    /// Where its memory is.
    pub fn memory(&self) -> Option<Span<Hpa>> {
        self.memory.map(|(_, memory)| memory)
    }

    /// The tracer of a pCPU.
    fn tracer(&self, cpu: CpuId) -> Option<&'static Tracer> {
        self.tracers.get(cpu.index())
    }

    /// Notes that a pCPU, which has its vCPUs for good, has this one.
    pub(crate) fn lives_on(&self, cpu: CpuId, source: Source) {
        let number = (source.vm.index() << 8 | source.vcpu.index()) as u32;
        if let Some(resident) = self.residents.0.get(cpu.index()) {
            resident.store(number + 1, Ordering::Relaxed);
        }
    }

    /// The vCPU that was noted.
    fn resident(&self, cpu: usize) -> Option<Source> {
        let number = self.residents.0.get(cpu)?.load(Ordering::Relaxed);
        let number = number.checked_sub(1)?;
        Some(Source {
            vm: VmId::new((number >> 8) as u8),
            vcpu: VcpuId::new(number as u8),
        })
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
        let Some((area, _)) = &traces.memory else {
            return self.tell_trace(choice);
        };
        // Who asks holds the lock of the receiving side: there is one change at a time.
        traces.classes.store(choice.classes, Ordering::Relaxed);
        traces.vms.store(choice.vms, Ordering::Relaxed);
        traces.changes.fetch_add(1, Ordering::Release);
        area.tell(choice);
        for cpu in 0..traces.tracers.len() {
            // A kick alone could be taken for that of an interrupt which is posted at the same time, and be done by the short way.
            if let Some(source) = traces.resident(cpu)
                && let Some(unit) = self.vms.get(source.vm.index())
            {
                unit.vm.requests(source.vcpu).ask_attention();
            }
            self.machine.kick(CpuId::new(cpu as u8));
        }
        self.tell_trace(choice);
    }

    /// Says where the trace is, beside the numbers by which whoever asks knows the answer.
    pub(crate) fn tell_trace(&self, Choice { classes, vms }: Choice) {
        let memory = self.traces.memory().unwrap_or_default();
        let (at, bytes) = (memory.start().get(), memory.len());
        self.tell(format_args!("traced {classes} {vms} {at} {bytes}"));
    }
}

impl<B: Host> Local<B> {
    /// Takes over what is to be traced, if that has changed. A CPU whose trap entry records exits has another one from then on.
    #[inline(always)]
    pub(crate) fn take_choice(&mut self) {
        let traces = &self.board.traces;
        if traces.changes.load(Ordering::Acquire) != 0 {
            self.begin_tracing();
        }
    }

    /// Records what the board's trace has chosen.
    #[cold]
    #[inline(never)]
    pub fn begin_tracing(&mut self) {
        let board = self.board;
        let Some(tracer) = self.tracer() else { return };
        let changes = board.traces.changes.load(Ordering::Acquire);
        if !tracer.takes(changes) {
            return;
        }
        let counts = board.counts_instructions;
        tracer.choose(board.traces.choice(), board.counter(), counts);
        self.traced = tracer.classes();
        let entries = if B::RECORDS_ENTRIES {
            class::EXITS | class::SWITCHES | class::WAKES | class::INTERRUPTS
        } else {
            class::EXITS
        };
        board.machine.trace_exits(self.traced & entries != 0);
    }

    /// Writes an event into the trace, of whose class events are recorded.
    #[cold]
    #[inline(never)]
    pub(crate) fn trace_event(&self, source: Option<Source>, event: Event) {
        if let Some(tracer) = self.tracer() {
            tracer.record(self.board.counter(), source, event);
        }
    }

    /// Records that `vcpu` is entered at `pc`, after so many instructions of the hypervisor, and before that, for a backend that records
    /// it in the executive's place, what led to it: the policy chose anew, and perhaps another vCPU.
    #[inline(always)]
    pub fn enters(&self, tracer: &Tracer, vcpu: &Vcpu<B>, [pc, spent]: [u64; 2]) {
        let number = core::ptr::from_ref(vcpu).addr();
        if !tracer.knows(number, self.decided) {
            return self.enters_anew(tracer, vcpu, [pc, spent]);
        }
        self.trace_entry(tracer, [pc, spent]);
    }

    #[inline(always)]
    fn trace_entry(&self, tracer: &Tracer, [pc, spent]: [u64; 2]) {
        let classes = tracer.current();
        if classes & class::EXITS != 0 {
            let now = (self.board.counter(), classes);
            tracer.write_current(now, Kind::Enter, [0, pc, spent]);
        }
    }

    #[inline(never)]
    fn enters_anew(&self, tracer: &Tracer, vcpu: &Vcpu<B>, entry: [u64; 2]) {
        let number = core::ptr::from_ref(vcpu).addr();
        let before = tracer.enters(vcpu.source(), number, self.decided);
        self.trace_decision(tracer, vcpu, before);
        self.trace_entry(tracer, entry);
    }

    fn trace_decision(&self, tracer: &Tracer, vcpu: &Vcpu<B>, before: Before) {
        let (now, source) = (self.board.counter(), vcpu.source());
        if !B::RECORDS_ENTRIES || tracer.classes() & (class::SWITCHES | class::WAKES) == 0 {
            return;
        }
        if let Before::Other(before) = before {
            tracer.write(now, (Kind::SwitchOut, before), self.account_of(before));
        }
        if before != Before::Same {
            tracer.write(now, (Kind::SwitchIn, source), [0, vcpu.waits_since, 0]);
        }
        let until = self.deadline.ticks().unwrap_or(u64::MAX);
        tracer.write(now, (Kind::Decision, source), [0, until, 0]);
    }

    /// What the record of a vCPU that was taken out says of it.
    fn account_of(&self, source: Source) -> [u64; 3] {
        let unit = self.board.vms.get(source.vm.index());
        let Some(unit) = unit.filter(|unit| source.vcpu.index() < unit.vm.vcpus()) else {
            return [0, u64::MAX, u64::MAX];
        };
        let account = unit.vm.account(source.vcpu);
        let has_work = account.readiness() == Readiness::Ready;
        let counts = u64::from(account.throttled()) << 32 | u64::from(account.late());
        [0, has_work.into(), counts]
    }

    /// Where it records events, for a trap entry that does so itself.
    #[inline(always)]
    pub fn tracer(&self) -> Option<&'static Tracer> {
        self.board.traces.tracer(self.id)
    }
}

#[cfg(test)]
mod tests;
