//! What a table says of an address, and the reasons why a change of a table fails.

use crate::format::Format;
use hanok_types::{Address, Hpa, Span};
use thiserror::Error;

/// The reasons why a table was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MapError<A: Address> {
    /// An address or a length is no multiple of 4 KiB.
    #[error("not a multiple of the page size")]
    Misaligned,
    /// An input or output address has more bits than the table supports.
    #[error("beyond what the table can translate")]
    OutOfRange,
    /// This address is mapped already.
    #[error("already mapped at {:#x}", .0.get())]
    AlreadyMapped(A),
    /// This address is not mapped.
    #[error("not mapped at {:#x}", .0.get())]
    NotMapped(A),
    /// There is no frame left for another table.
    #[error("no frame left for a translation table")]
    OutOfTables,
}

/// The translation by one leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping<F: Format> {
    /// All input addresses that the leaf translates.
    pub input: Span<F::Input>,
    /// The output address of the address that was asked for; in an iteration, that of the start of
    /// `input`.
    pub output: Hpa,
    /// The level of the leaf, by the architecture's number.
    pub level: u8,
    /// The attributes of the leaf.
    pub attributes: F::Attributes,
}
