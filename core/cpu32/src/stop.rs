//! Why an instruction is not carried out.

use crate::Fault;

/// Why an instruction was not carried out. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is undefined here.
    Undefined,
    /// It is undefined because nothing here knows it.
    Unknown,
    /// An access faulted.
    Fault {
        address: u32,
        fault: Fault,
        write: bool,
    },
    /// An access has to wait.
    Again,
}
