//! What a table says of an address, and why it would not change.

use crate::format::Format;
use hanok_types::{Address, Hpa, Span};
use thiserror::Error;

/// Why a table was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MapError<A: Address> {
    /// An address or a length is no multiple of 4 KiB.
    #[error("not a multiple of the page size")]
    Misaligned,
    /// An input or output address has more bits than the table can hold.
    #[error("beyond what the table can translate")]
    OutOfRange,
    /// Something is mapped here already.
    #[error("already mapped at {:#x}", .0.get())]
    AlreadyMapped(A),
    /// Nothing is mapped here.
    #[error("not mapped at {:#x}", .0.get())]
    NotMapped(A),
    /// No frame is left for a further table.
    #[error("no frame left for a translation table")]
    OutOfTables,
}

/// What one leaf says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<F: Format> {
    /// Everything that the leaf translates.
    pub input: Span<F::Input>,
    /// Where the address that was asked for goes; in an iteration, where `input` starts.
    pub output: Hpa,
    /// The level of the leaf, by the architecture's number.
    pub level: u8,
    /// What the leaf allows.
    pub attributes: F::Attributes,
}
