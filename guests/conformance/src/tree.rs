//! What the boot arguments and the device tree say of the machine.

pub use hanok_guest_runtime::tree::{Area, MAX_AREAS, Machine as Arguments};

/// Which promise counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Host {
    /// QEMU's own machine: the architecture, and the platform.
    Qemu,
    /// Hanok: also what it hides.
    Hanok,
}

/// Which promise counts.
pub fn host(arguments: &Arguments) -> Host {
    match arguments.value("conformance.host=") {
        Some("hanok") => Host::Hanok,
        _ => Host::Qemu,
    }
}
