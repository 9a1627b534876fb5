//! Finds every sensitive instruction of a guest for ARMv7-A, and rewrites it.
//!
//! A CPU without virtualization hardware runs a guest's kernel in User mode, where some
//! instructions silently do something else. They have to be found before they run. This library
//! finds them in files, on a PC: in objects, modules, archives and programs by mapping symbols
//! ([`mapped`]), in a distribution's kernel image by following its code from its own tables
//! ([`image`]). It rewrites them to instructions that trap, or to instructions that do the right
//! thing at once ([`patch()`]). The hypervisor rewrites code that appears later at run time.
//!
//! A word is an instruction, or it is not, or it is doubtful. A doubtful word is never rewritten.

#![forbid(unsafe_code)]

/// A number that is raised by each change to what is found in a file or to what becomes of it, so
/// that results that are kept can be told from those of a former version.
pub const VERSION: u32 = 5;

mod area;
mod bytes;
pub mod container;
mod doubtful;
pub mod flow;
pub mod image;
pub mod kallsyms;
mod linked;
pub mod linux;
pub mod mapped;
pub mod oracle;
pub mod patch;
mod refusal;
mod report;
pub mod sample;
mod scan;
pub mod site;
pub mod sweep;
mod trap;

pub use container::unpack::Compression;
pub use patch::{
    Change, Form, Lookalikes, Options, Patched, Reserved, SideFile, Sites, Trampolines, patch,
    revert, rewrite, rewritten,
};
pub use refusal::{Refusal, Result};
pub use report::{InstructionCount, Report, ReportedSite};
pub use scan::{Kind, Scan, SitePlace, scan};
