//! The backend `deprivileged`: a guest, kernel and programs alike, in User mode of a CPU without
//! virtualization extensions ([ADR 15](../../../../docs/adr/0015-without-virtualization-hardware.md)).
//!
//! What an exception of the guest means is decided in `core/deprivileged`; here guests are entered and
//! left (`window.rs`), and what was decided is carried out (`exits.rs`).

mod at_once;
mod common;
mod exits;
mod memory;
mod record;
mod vcpu;
mod window;
mod window_code;

pub(crate) use exits::enter;
pub use exits::install;
pub use hanok_deprivileged::{Code, CodePage, CodePages, Member, Place, Seat, Slot};
pub use record::RECORD_PAGES;
pub use vcpu::{Deprivileged, FRAMES, identity};
pub use window::{PAGES, code, records};
