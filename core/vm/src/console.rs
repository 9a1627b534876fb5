//! The board's one serial line, shared by the VMs' serial ports and the hypervisor's words.
//!
//! *Plain*: for a terminal on a real board. The attached VM's bytes as they come, the
//! hypervisor's lines marked `hanok: `, each on a line of its own.
//!
//! *Framed*: for a program at the other end. Byte 0x10 (DLE) announces; DLE DLE is one byte
//! 0x10, so that no guest can speak in another's name. The same rules both ways:
//!
//! | DLE and | from the board | to the board |
//! |---|---|---|
//! | 0x40 | the hypervisor's text follows | keys of a person follow: for the attached VM or the prompt |
//! | 0x41 + n | VM n's text follows | bytes for VM n follow |
//! | 0x50 | keys go to the prompt | |
//! | 0x51 + n | keys go to VM n | |
//! | 0x61 + n | 256 bytes more of VM n's input are consumed: fetched, or dropped | |
//!
//! 0x50 and 0x51 + n come at the beginning, whenever it changes, and as the answer to each
//! key that may change it: `Ctrl-]`; at the prompt also CR, LF and `Ctrl-C`. Whoever waits for the
//! answer before sending more keys knows of each key where it went, and so how many bytes of
//! each VM's are on the way; at most 1024 of them fit for certain.

mod command;
mod editor;
mod guest;
mod line;
mod multiplexer;
mod voice;

#[cfg(test)]
mod tests;

pub use command::{Command, Names};
pub use guest::Buffers;
pub use multiplexer::{Arrived, Input, Multiplexer};

/// How a line that is typed at the prompt is understood: for the prompt here, and for one that a
/// program at the line's other end shows in its place (`tools/console`).
pub mod prompt {
    pub use super::command::{Problem, Request, Takes, WORDS, Word, command, parse};
}

use hanok_types::VmId;

const HYPERVISOR: u8 = 0x40;
const FIRST_VM: u8 = 0x41;

/// Whose text is on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The hypervisor's.
    Hypervisor,
    /// A VM's.
    Vm(VmId),
}

impl Channel {
    fn code(self) -> u8 {
        match self {
            Self::Hypervisor => HYPERVISOR,
            Self::Vm(vm) => FIRST_VM + vm.index() as u8,
        }
    }
}
