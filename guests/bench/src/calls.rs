//! Round trips to the hypervisor and back: calls, and a register that it emulates.

use crate::arch::{count, hvc, nothing, reads, understood, xen_hvc};
use crate::measure::{Stretch, not_here};
use hanok_abi::hypercall;
use hanok_bench_plan::Figure;
use hanok_guest_runtime::console::Sink;
use hanok_guest_runtime::tree::Machine;
use hanok_guest_runtime::{gic, psci, xen};

/// Hanok's hypercall that does nothing, and answers zero.
const HANOK_NULL: u64 = hypercall::NULL as u64;

const ROUNDS: u64 = 1024;

/// The hypervisor that can be called.
pub enum Hypervisor {
    /// Xen, by its own convention.
    Xen,
    /// Hanok, KVM or none: their answers tell them apart.
    Other,
}

impl Hypervisor {
    /// The hypervisor that the tree names.
    pub fn of(machine: &Machine) -> Self {
        match machine.console {
            Sink::Xen => Self::Xen,
            Sink::Pl011(_) | Sink::SbsaUart(_) => Self::Other,
        }
    }

    /// Measures the cheapest call of this hypervisor.
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

/// Measures a read of GICD_TYPER, which a hypervisor emulates, because all share the distributor.
pub fn distributor_read(repeat: u32) {
    let address = gic::distributor() + gic::TYPER;
    let (read, nothing) = (|| reads(ROUNDS, address), || count(ROUNDS));
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
