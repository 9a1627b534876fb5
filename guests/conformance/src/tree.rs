//! What the boot arguments and the device tree say of the machine.

pub use hanok_guest_runtime::tree::{Area, MAX_AREAS, Machine as Arguments};

/// What to run.
pub enum Selection<'a> {
    /// Cases by name.
    Cases(&'a str),
    /// Mark memory, and reset.
    ResetLoop,
    /// Say where everything was loaded.
    Places,
    /// Say what the registers hold that tell of features.
    Ids,
    /// Look at the board's device that the VM has, and reset.
    DeviceLives,
    /// Turn every CPU off.
    OffAll,
    /// All CPUs are started, and reached by interrupts.
    Online,
    /// Look at every address.
    Sweep,
    /// Hold a pattern in memory until a key comes, then look whether it is there.
    Hold,
    /// Harm others.
    Hostile(&'static Hostile),
    /// Try everything.
    Fuzz,
    /// Fill every register, and look whether it stays so.
    Registers,
    /// Take an interrupt of the timer every ten microseconds.
    Tick,
    /// Make the hypervisor work as long as it can be made to.
    Bounds,
}

/// Which promise counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Those of QEMU's own machine: the architecture, and the platform.
    Qemu,
    /// Those of Hanok: also what Hanok hides.
    Hanok,
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
        Some(names) => match hostile::named(names) {
            Some(hostile) => Selection::Hostile(hostile),
            None => Selection::Cases(names),
        },
        None => Selection::Cases("all"),
    }
}

/// Which promise counts.
pub fn host(arguments: &Arguments) -> Host {
    match arguments.value("conformance.host=") {
        Some("hanok") => Host::Hanok,
        _ => Host::Qemu,
    }
}
