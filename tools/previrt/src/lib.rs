//! Finds every sensitive instruction of a guest for ARMv7-A, and rewrites it.
//!
//! A CPU without virtualization hardware runs a guest's kernel in User mode, where some of its
//! instructions do something else without a word. They have to be found before they run. This
//! library finds them in files, on a PC: objects, modules, archives and programs by mapping
//! symbols ([`mapped`]), a distribution's kernel image by following its code from its own
//! tables ([`image`]); and rewrites them to what traps, or to what does the right thing at once
//! ([`patch()`]). The hypervisor's run-time path does the same for code that comes later.
//!
//! Three answers there are to a word: it is an instruction, it is not, or it is doubtful.
//! What is doubtful is never rewritten.

#![forbid(unsafe_code)]

mod bytes;
pub mod container;
mod doubtful;
pub mod flow;
pub mod image;
pub mod kallsyms;
mod linked;
pub mod linux;
pub mod mapped;
pub mod patch;
mod refusal;
mod report;
mod room;
pub mod sample;
mod scan;
pub mod site;
pub mod sweep;
mod trap;
pub mod truth;

pub use container::unpack::Compression;
pub use patch::{
    Form, Options, Patched, Reserved, SideFile, Trampolines, patch, revert, rewrite, rewritten,
};
pub use refusal::{Refusal, Result};
pub use report::{Count, Entry, Report};
pub use scan::{Kind, Scan, SitePlace, scan};
