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
    /// The vCPU that the trap entry has.
    ///
    /// # Safety
    /// To be called by the trap entry of EL2 or Hyp mode that [`hanok_hal::Backend::trace_exits`] has turned on, with the vCPU that is in this CPU,
    /// while no other reference to it or to the CPU's record is in use.
    #[inline(always)]
    pub unsafe fn new(vcpu: *mut Vcpu<Machine<K>>) -> Self {
        // SAFETY: by this function's contract.
        let cpu = unsafe { cpu::here_at_el2::<Machine<K>>() };
        // SAFETY: as before; the vCPU is none of the record's fields, and its pCPU owns it.
        let vcpu = unsafe { &*vcpu };
        // SAFETY: this trap entry is turned on by a tracer, which the record has before the first guest runs.
        let tracer = unsafe { cpu.tracer.unwrap_unchecked() };
        // SAFETY: a CPU that has a vCPU has its executive.
        let pcpu = unsafe { cpu.pcpu.as_ref().unwrap_unchecked() };
        Self {
            tracer,
            local: &pcpu.local,
            vcpu,
        }
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
        let current = tracer.current();
        tracer.left(current, || machine.instructions());
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
    const INSTRUCTION: u64 = Class::InstructionAbortLower as u64;
    const DATA: u64 = Class::DataAbortLower as u64;
    // One test for both, as most exits are neither.
    const EITHER: u64 = DATA | INSTRUCTION;
    const { assert!(EITHER == DATA && EITHER ^ INSTRUCTION == 4) };
    let class = esr >> 26 & 0x3f;
    if class | 4 == EITHER {
        // A fetch is of the instruction that the guest was at.
        address_of(esr, || {
            if class == DATA {
                read!("far_el2")
            } else {
                read!("elr_el2")
            }
        })
    } else {
        first
    }
}

/// The intermediate physical address of an abort of the virtual address `at`; 0 where HPFAR_EL2 does not tell it, which is so but for faults of
/// translation, of the access flag and of the address's size, and on a walk (DDI 0487, "HPFAR_EL2").
fn address_of(esr: u64, at: impl FnOnce() -> u64) -> u64 {
    const PERMISSION: u64 = 0b00_1100;
    let on_walk = esr & 1 << 7 != 0;
    if on_walk {
        fault_ipa(0, true).get()
    } else if esr & 0x3f < PERMISSION {
        fault_ipa(at(), false).get()
    } else {
        0
    }
}
