//! What a trap entry records while exits and entries are traced.
//!
//! A backend's trap entry calls these from vectors of their own, which a CPU has while somebody wants to see its exits: the other ones
//! do not even ask. So every exit is recorded, and at its very beginning and end, whichever way it takes.

use crate::aborts::fault_ipa;
use crate::machine::{Kind as Machines, Machine};
use crate::{cpu, read};
use hanok_abi::trace::{Kind, class};
use hanok_decode::Class;
use hanok_hal::Backend;
use hanok_pcpu::{Local, Vcpu};
use hanok_trace::Tracer;

/// The id of no interrupt.
const NONE: u32 = 1023;

/// A vCPU at the trap entry, and what its CPU records.
#[allow(missing_debug_implementations)]
pub struct Traced<'a, K: Machines> {
    tracer: &'static Tracer,
    local: &'a Local<Machine<K>>,
    vcpu: &'a Vcpu<Machine<K>>,
}

impl<'a, K: Machines> Traced<'a, K> {
    /// The vCPU that the trap entry has; `None` if nothing is recorded.
    ///
    /// # Safety
    /// To be called by the trap entry of EL2 or Hyp mode, with the vCPU that is in this CPU, while no other reference to it or to the
    /// CPU's record is in use.
    #[inline(always)]
    pub unsafe fn new(vcpu: *mut Vcpu<Machine<K>>) -> Option<Self> {
        // SAFETY: by this function's contract.
        let cpu = unsafe { cpu::here_at_el2::<Machine<K>>() };
        // SAFETY: as before; the vCPU is none of the record's fields, and its pCPU owns it.
        let vcpu = unsafe { &*vcpu };
        let tracer = cpu.tracer?;
        // SAFETY: a CPU that has a vCPU has its executive.
        let pcpu = unsafe { cpu.pcpu.as_ref().unwrap_unchecked() };
        Some(Self {
            tracer,
            local: &pcpu.local,
            vcpu,
        })
    }

    /// The vCPU.
    #[inline(always)]
    pub fn vcpu(&self) -> &'a Vcpu<Machine<K>> {
        self.vcpu
    }

    /// Records, if it is one of `classes`, that the guest was left at the address in ELR_EL2.
    #[inline(always)]
    fn left(&self, kind: Kind, classes: u32, words: impl FnOnce() -> [u64; 2]) {
        let Self { tracer, local, .. } = self;
        let machine = &local.board.machine;
        tracer.left(machine.instructions());
        let current = tracer.current();
        if current & classes != 0 {
            let [extra, about] = words();
            let words = [extra, read!("elr_el2"), about];
            tracer.write_current((machine.counter(), current), kind, words);
        }
    }

    /// The guest was left by a synchronous exception, with `first` as the first register.
    #[inline(always)]
    pub fn excepted(&self, first: u64) {
        self.left(Kind::Exit, class::EXITS, || {
            let esr = read!("esr_el2");
            [esr & u64::from(u32::MAX), about(esr, first)]
        });
    }

    /// The guest was left by a physical interrupt.
    #[inline(always)]
    pub fn interrupted(&self) {
        let (classes, id) = if K::RECORDS_ENTRIES {
            let either = class::EXITS | class::INTERRUPTS;
            (either, self.local.board.machine.gic.pending())
        } else {
            (class::EXITS, NONE)
        };
        self.left(Kind::Interrupted, classes, || [id.into(), 0]);
    }

    /// The guest was left by an SError.
    #[inline(always)]
    pub fn disturbed(&self) {
        self.left(Kind::SystemError, class::EXITS, || [0, 0]);
    }

    /// The guest is entered at the address `pc`.
    #[inline(always)]
    pub fn enters(&self, pc: u64) {
        let Self {
            tracer,
            local,
            vcpu,
        } = self;
        let spent = tracer.since_left(|| local.board.machine.instructions());
        local.enters(tracer, vcpu, [pc, spent.into()]);
    }
}

/// The address of an abort, or the first argument of a call.
#[inline(always)]
fn about(esr: u64, first: u64) -> u64 {
    const DATA: u64 = Class::DataAbortLower as u64;
    const INSTRUCTION: u64 = Class::InstructionAbortLower as u64;
    match esr >> 26 & 0x3f {
        DATA | INSTRUCTION => fault_ipa(read!("far_el2"), false).get(),
        _ => first,
    }
}
