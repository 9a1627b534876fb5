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
//! | 0x3e | keys go to the prompt | |
//! | 0x3f | the hypervisor's text follows | keys of a person follow: for the attached VM or the prompt |
//! | 0x40 + n | VM n's text follows | bytes for VM n follow |
//! | 0x80 + n | keys go to VM n | |
//! | 0xc0 + n | 256 bytes more of VM n's input are consumed: fetched, or dropped | |
//!
//! 0x3e and 0x80 + n come at the beginning, whenever it changes, and as the answer to each
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

pub use command::{Command, Name, Names};
pub use guest::{Buffers, PortQueues, Said};
pub use multiplexer::{Input, Multiplexer};

/// How a line that is typed at the prompt is understood: for the prompt here, and for one that a
/// program at the line's other end shows in its place (`tools/console`).
pub mod prompt {
    pub use super::command::{Problem, Request, Takes, WORDS, Word, command, parse};
}

use hanok_types::{MAX_VMS, VmId};

const HYPERVISOR: u8 = 0x3f;
const FIRST_VM: u8 = 0x40;

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
            Self::Vm(vm) => FIRST_VM + vm.index() as u8 % MAX_VMS as u8,
        }
    }
}
