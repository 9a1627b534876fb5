//! What the boot arguments ask this guest to run.

use crate::hostile::{self, Hostile};
use crate::tree::Arguments;
use crate::virtio::{self, Role};

/// What the payload runs.
pub enum Selection<'a> {
    /// Cases by name.
    Cases(&'a str),
    /// Mark memory, and reset.
    ResetLoop,
    /// Print where everything was loaded.
    Places,
    /// Print the registers that identify features.
    Ids,
    /// Check the device of the board that the VM has, and reset.
    DeviceLives,
    /// Turn every CPU off.
    OffAll,
    /// Start all CPUs, and reach each by interrupts.
    Online,
    /// Access every address.
    Sweep,
    /// Fill memory with a pattern until a key comes, then check it.
    Hold,
    /// Attack other VMs.
    Hostile(&'static Hostile),
    /// Attack devices that VMs share, or be beside that.
    Virtio(Role),
    /// Run the fuzzer.
    Fuzz,
    /// Fill every register, and check that each keeps its value.
    Registers,
    /// Take an interrupt of the timer every ten microseconds.
    Tick,
    /// Measure what makes the hypervisor work longest.
    Bounds,
}

/// What `conformance.run` says; all cases where it says nothing.
pub fn selection(arguments: &Arguments) -> Selection<'static> {
    match arguments.value("conformance.run=") {
        Some("reset-loop") => Selection::ResetLoop,
        Some("ids") => Selection::Ids,
        Some("places") => Selection::Places,
        Some("device-lives") => Selection::DeviceLives,
        Some("off-all") => Selection::OffAll,
        Some("online") => Selection::Online,
        Some("sweep") => Selection::Sweep,
        Some("hold") => Selection::Hold,
        Some("fuzz") => Selection::Fuzz,
        Some("registers") => Selection::Registers,
        Some("tick") => Selection::Tick,
        Some("bounds") => Selection::Bounds,
        Some(names) => match (hostile::named(names), virtio::named(names)) {
            (Some(hostile), _) => Selection::Hostile(hostile),
            (_, Some(role)) => Selection::Virtio(role),
            _ => Selection::Cases(names),
        },
        None => Selection::Cases("all"),
    }
}
