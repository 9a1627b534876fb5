//! What the boot arguments ask for.

use crate::hostile;
use crate::machine::{Host, Selection};
pub use hanok_guest_runtime::tree::{Area, MAX_AREAS, Machine as Arguments};

/// What `conformance.run` says; all cases where it says nothing.
pub fn selection(arguments: &Arguments) -> Selection<'static> {
    match arguments.value("conformance.run=") {
        Some("reset-loop") => Selection::ResetLoop,
        Some("off-all") => Selection::OffAll,
        Some("sweep") => Selection::Sweep,
        Some("hold") => Selection::Hold,
        Some("fuzz") => Selection::Fuzz,
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
