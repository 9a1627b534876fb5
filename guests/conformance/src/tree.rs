//! What the boot arguments and the device tree say of the machine.

pub use hanok_guest_runtime::tree::{Area, MAX_AREAS, Machine as Arguments};

/// Which cases must hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// Those of QEMU's own machine: the architecture, and the platform.
    Qemu,
    /// Those of Hanok: also what Hanok hides.
    Hanok,
}

/// Which cases must hold.
pub fn host(arguments: &Arguments) -> Host {
    match arguments.value("conformance.host=") {
        Some("hanok") => Host::Hanok,
        _ => Host::Qemu,
    }
}
