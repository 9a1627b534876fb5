//! Each CPU's own state, reached through TPIDR_EL1.

pub use crate::arch::cpu::{mask, restore, save_and_mask, unmask};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

/// How many CPUs the program can use.
pub const MAX_CPUS: usize = hanok_types::MAX_VCPUS;
/// Bytes of each CPU's stack.
pub const STACK_SIZE: usize = 0x8000;
/// How many such stacks the first CPU has, where a program keeps what it works on: 128 KiB.
pub const STACKS_OF_FIRST: usize = 4;
/// The number of interrupts that have a counter each.
pub const COUNTED: usize = 96;

/// One CPU's state. Only the CPU itself and its exception handler write it, so that no order
/// between CPUs is needed; others may read the counters.
#[repr(C)]
pub struct Cpu {
    /// The address to continue at after a synchronous exception; zero where none is expected.
    pub recover: AtomicUsize,
    /// ESR_EL1 of the caught exception.
    pub esr: AtomicUsize,
    /// FAR_EL1 of the caught exception.
    pub far: AtomicUsize,
    /// ELR_EL1 of the caught exception: the instruction's address.
    pub elr: AtomicUsize,
    /// SPSR of the caught exception: the CPU's state.
    pub state: AtomicUsize,
    /// Whether an exception was caught.
    pub caught: AtomicBool,
    /// How often each interrupt was taken.
    pub taken: [AtomicU32; COUNTED],
    /// A further function to call for an interrupt: a `fn(u32)`, or zero.
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

    /// Notes a caught exception.
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

    /// Sets the counters to zero.
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

/// Makes `index` this CPU's number, and installs the vectors.
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

/// Enables interrupts while `f` runs.
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
