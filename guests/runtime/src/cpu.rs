//! What each CPU keeps for itself, reached through TPIDR_EL1.

use crate::arch::cpu::{mask, unmask};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// How many CPUs the program can use.
pub const MAX_CPUS: usize = hanok_types::MAX_VCPUS;
/// Bytes of each CPU's stack.
pub const STACK_SIZE: usize = 0x8000;
/// Interrupts that are counted each by itself.
pub const COUNTED: usize = 96;

/// One CPU's state. Only the CPU itself and its exception handler write it, so no order
/// between CPUs is needed; others may look at the counters.
#[repr(C)]
pub struct Cpu {
    /// Where to go on after a synchronous exception; zero where none is expected.
    pub recover: AtomicUsize,
    /// The exception that was caught, as ESR_EL1 says it.
    pub esr: AtomicUsize,
    /// The address that it was about.
    pub far: AtomicUsize,
    /// The instruction.
    pub elr: AtomicUsize,
    /// The CPU's state then: SPSR.
    pub state: AtomicUsize,
    /// Whether one was caught.
    pub caught: AtomicBool,
    /// How often each interrupt was taken.
    pub taken: [AtomicU32; COUNTED],
    /// What else to do for an interrupt: a `fn(u32)`, or zero.
    hook: AtomicUsize,
    index: AtomicUsize,
}

impl Cpu {
    const fn new() -> Self {
        Self {
            recover: AtomicUsize::new(0),
            esr: AtomicUsize::new(0),
            far: AtomicUsize::new(0),
            elr: AtomicUsize::new(0),
            state: AtomicUsize::new(0),
            caught: AtomicBool::new(false),
            taken: [const { AtomicU32::new(0) }; COUNTED],
            hook: AtomicUsize::new(0),
            index: AtomicUsize::new(0),
        }
    }

    /// This CPU's number.
    pub fn index(&self) -> usize {
        self.index.load(Relaxed)
    }

    /// Notes the exception that was caught.
    pub fn note(&self, esr: u64, far: u64, elr: u64) {
        self.esr.store(esr as usize, Relaxed);
        self.far.store(far as usize, Relaxed);
        self.elr.store(elr as usize, Relaxed);
        self.caught.store(true, Relaxed);
    }

    /// How often interrupt `id` was taken.
    pub fn count(&self, id: u32) -> u32 {
        self.taken[id as usize].load(Relaxed)
    }

    /// Starts the counters anew.
    pub fn forget_interrupts(&self) {
        for count in &self.taken {
            count.store(0, Relaxed);
        }
    }

    /// Calls `hook` for each interrupt taken from now on.
    pub fn set_hook(&self, hook: Option<fn(u32)>) {
        self.hook
            .store(hook.map_or(0, |hook| hook as usize), Relaxed);
    }

    /// The hook, if there is one.
    pub fn hook(&self) -> Option<fn(u32)> {
        let hook = self.hook.load(Relaxed);
        // SAFETY: `set_hook` alone stores here, and stores such functions or zero.
        (hook != 0).then(|| unsafe { core::mem::transmute::<usize, fn(u32)>(hook) })
    }
}

static CPUS: [Cpu; MAX_CPUS] = [const { Cpu::new() }; MAX_CPUS];

/// Makes `index` this CPU's number, and its vectors ours.
pub fn install(index: usize) {
    let cpu = &CPUS[index];
    cpu.index.store(index, Relaxed);
    write_sysreg!("tpidr_el1", core::ptr::from_ref(cpu).addr() as u64);
    write_sysreg!("vbar_el1", crate::arch::vectors::address());
}

/// This CPU.
pub fn this() -> &'static Cpu {
    let cpu = read_sysreg!("tpidr_el1") as usize as *const Cpu;
    // SAFETY: `install` put a static's address there, before anything else runs.
    unsafe { &*cpu }
}

/// CPU `index`.
pub fn of(index: usize) -> &'static Cpu {
    &CPUS[index]
}

/// Lets interrupts in while `f` runs.
pub fn with_interrupts<T>(f: impl FnOnce() -> T) -> T {
    unmask();
    let result = f();
    mask();
    result
}

/// Waits for an interrupt, masked or not.
pub fn wait_for_interrupt() {
    // SAFETY: WFI changes no state.
    unsafe { core::arch::asm!("dsb sy", "wfi", options(nostack)) };
}
