//! Round trips to the hypervisor and back: calls, and a register that it emulates.

use crate::measure::{Stretch, not_here};
use core::arch::asm;
use hanok_abi::hypercall;
use hanok_bench_plan::Figure;
use hanok_guest_runtime::console::Sink;
use hanok_guest_runtime::tree::Machine;
use hanok_guest_runtime::{gic, psci, xen};

/// Hanok's hypercall that does nothing, and answers zero.
const HANOK_NULL: u64 = hypercall::NULL as u64;

const ROUNDS: u64 = 1024;

/// So many rounds of a call with X0 and X16. An empty instruction makes it the loop without the
/// call, to compare with.
macro_rules! rounds {
    ($name:ident, $call:literal) => {
        pub fn $name(rounds: u64, x0: u64, x16: u64) {
            // SAFETY: a call that is known to do nothing but answer; it may change X0 to X17
            // (DEN 0028, 2.6). The counter is in none of them.
            unsafe {
                asm!(
                    "2:",
                    "mov x0, {x0}",
                    "mov x16, {x16}",
                    $call,
                    "subs {rounds}, {rounds}, #1",
                    "b.ne 2b",
                    rounds = inout(reg) rounds => _,
                    x0 = in(reg) x0,
                    x16 = in(reg) x16,
                    out("x0") _, inout("x1") 0_u64 => _, inout("x2") 0_u64 => _,
                    inout("x3") 0_u64 => _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
                    out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _,
                    out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _,
                );
            }
        }
    };
}

rounds!(hvc, "hvc #0");
rounds!(xen_hvc, "hvc #0xea1");
rounds!(nothing, "");

/// Whether an SMCCC call is understood: HVC is not UNDEFINED, and the answer is not the calling
/// convention's for an unknown function (DEN 0028, 5.2).
pub fn understood(function: u64) -> bool {
    let mut x0 = function;
    // SAFETY: the caller asks for functions that change nothing; they may change X0 to X17.
    let result = unsafe {
        probe!("hvc #0";
            inout("x0") x0, inout("x1") 0_u64 => _, inout("x2") 0_u64 => _,
            inout("x3") 0_u64 => _, out("x4") _, out("x5") _, out("x6") _, out("x7") _,
            out("x8") _, out("x9") _, out("x10") _, out("x11") _, out("x12") _,
            out("x13") _, out("x14") _, out("x15") _, out("x16") _, out("x17") _,
        )
    };
    result.is_ok() && psci::status(x0) != psci::NOT_SUPPORTED
}

/// Who may be there to be called.
pub enum Hypervisor {
    /// Xen, by its own convention.
    Xen,
    /// Hanok, KVM or nobody: told apart by what they answer.
    Other,
}

impl Hypervisor {
    /// What the tree says of it.
    pub fn of(machine: &Machine) -> Self {
        match machine.console {
            Sink::Xen => Self::Xen,
            Sink::Pl011(_) => Self::Other,
        }
    }

    /// The cheapest call that there is.
    pub fn null(&self, repeat: u32) {
        let stretch = stretch(Figure::Hypercall, repeat);
        match self {
            Self::Xen => {
                let call = || xen_hvc(ROUNDS, xen::VERSION, xen::XEN_VERSION);
                stretch.compare(call, || nothing(ROUNDS, xen::VERSION, xen::XEN_VERSION));
            }
            Self::Other if understood(HANOK_NULL) => smccc(stretch, HANOK_NULL),
            Self::Other => not_here(Figure::Hypercall, "nobody knows the call"),
        }
    }
}

/// SMCCC_VERSION.
pub fn smccc_version(repeat: u32) {
    if understood(psci::SMCCC_VERSION) {
        smccc(stretch(Figure::SmcccVersion, repeat), psci::SMCCC_VERSION);
    } else {
        not_here(Figure::SmcccVersion, "nobody knows the call");
    }
}

/// GICD_TYPER: a hypervisor emulates it, since the distributor belongs to all.
pub fn distributor_read(repeat: u32) {
    let address = gic::distributor() + gic::TYPER;
    let read = || {
        // SAFETY: a read of a device register without a side effect.
        unsafe {
            asm!(
                "2:",
                "ldr {value:w}, [{address}]",
                "subs {rounds}, {rounds}, #1",
                "b.ne 2b",
                rounds = inout(reg) ROUNDS => _,
                value = out(reg) _,
                address = in(reg) address,
            );
        }
    };
    let nothing = || {
        // SAFETY: counts.
        unsafe { asm!("2:", "subs {0}, {0}, #1", "b.ne 2b", inout(reg) ROUNDS => _) };
    };
    stretch(Figure::GicdRead, repeat).compare(read, nothing);
}

fn smccc(stretch: Stretch, function: u64) {
    stretch.compare(|| hvc(ROUNDS, function, 0), || nothing(ROUNDS, function, 0));
}

fn stretch(figure: Figure, repeat: u32) -> Stretch {
    Stretch {
        figure,
        repeat,
        rounds: ROUNDS,
    }
}
