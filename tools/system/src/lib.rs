//! A system described in TOML: reading it, refusing what cannot work with line, reason and
//! remedy, and building the one image that a board boots.
//!
//! [`load`] reads a description and its board; [`Description::artifacts`] says which
//! kernels and initramfs it needs; whoever resolved those hands their bytes to
//! [`Description::build`]. [`load_schedule`] reads the tasks of a system and what its VMs are
//! promised.
//! The keys of both files are in docs/describe-a-system.md.

#![forbid(unsafe_code)]

mod board;
mod cores;
mod description;
mod devices;
mod diagnostic;
mod draft;
mod image;
mod kernel;
mod layout;
mod rules;
mod schedule;
mod size;
mod source;
mod table;
mod time;
mod tree_cores;
mod zimage;

pub use board::{Architecture, Board, Limits, Qemu, boards};
pub use description::{Artifacts, Description, Files, Vm, load, parse};
pub use devices::check_devices;
pub use diagnostic::Diagnostic;
pub use image::Key;
pub use schedule::{Schedule, load_schedule, parse_schedule};
pub use source::{Boot, DtbRef, FirmwareRef, Flavour, InitramfsRef, KernelRef, Modules};
pub use tree_cores::with_cores;
