//! The board's one serial line, which the VMs' serial ports and the hypervisor's text share.
//!
//! *Plain* form, for a terminal on a real board: the attached VM's bytes unchanged, and the
//! hypervisor's lines, each with the mark `hanok: ` and on a line of its own.
//!
//! *Framed* form, for a program at the other end: byte 0x10 (DLE) begins an announcement, and DLE
//! DLE means one byte 0x10, so that no guest can send text in another VM's name. The rules are the
//! same in both directions:
//!
//! | DLE and | from the board | to the board |
//! |---|---|---|
//! | 0x3d | an answer to a request follows | a request follows |
//! | 0x3e | keys go to the prompt | |
//! | 0x3f | the hypervisor's text follows | keys of the user follow: for the attached VM or the prompt |
//! | 0x40 + n | VM n's text follows | bytes for VM n follow |
//! | 0x80 + n | keys go to VM n | |
//! | 0xc0 + n | 256 bytes more of VM n's input are consumed: fetched, or dropped | |
//!
//! 0x3e and 0x80 + n come at the beginning, whenever it changes, and as the answer to each key that may
//! change it: `Ctrl-]`; at the prompt also CR, LF and `Ctrl-C`. A program that waits for the answer before
//! it sends more keys knows where each key went, and so how many bytes for each VM are on the way; at least
//! 1024 of them always fit.

mod command;
mod editor;
mod guest;
mod line;
mod multiplexer;
mod request;
mod voice;

#[cfg(test)]
mod tests;

pub use command::{Command, Name, Names};
pub use guest::{Buffers, PortQueues, Said};
pub use multiplexer::{Arrived, Input, Multiplexer, ReportPiece};
pub use request::Request;

/// The rules by which a line that is typed at the prompt is understood. This prompt uses them, and
/// the one that a program at the other end shows in its place (`tools/console`).
pub mod prompt {
    pub use super::command::{Problem, Request, Takes, WORDS, Word, command, parse};
}

use hanok_types::{MAX_VMS, VmId};

const REPORT: u8 = 0x3d;
const HYPERVISOR: u8 = 0x3f;
const FIRST_VM: u8 = 0x40;

/// The source of text on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The hypervisor's answers to requests.
    Report,
    /// The hypervisor.
    Hypervisor,
    /// This VM.
    Vm(VmId),
}

impl Channel {
    fn code(self) -> u8 {
        match self {
            Self::Report => REPORT,
            Self::Hypervisor => HYPERVISOR,
            Self::Vm(vm) => FIRST_VM + vm.index() as u8 % MAX_VMS as u8,
        }
    }
}
