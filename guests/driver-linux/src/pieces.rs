//! The bytes of requests, which are in pieces of a ring's memory.

use crate::memory::{Memory, SIZE};
use crate::ring::Piece;

/// The bytes of pieces; `None` if they are more than the memory has.
pub fn length(pieces: &[Piece]) -> Option<usize> {
    let total: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
    usize::try_from(total).ok().filter(|_| total <= SIZE as u64)
}

/// What is in pieces; `None` if it is not all in memory, or more than the memory has.
pub fn read_all(memory: &Memory, pieces: &[Piece]) -> Option<Vec<u8>> {
    let mut all = vec![0; length(pieces)?];
    let mut rest = &mut all[..];
    for piece in pieces {
        let (part, after) = rest.split_at_mut_checked(piece.len as usize)?;
        memory.read(piece.at, part)?;
        rest = after;
    }
    Some(all)
}

/// Writes bytes to pieces; `None` if these are not all in memory.
pub fn write_all(memory: &Memory, pieces: &[Piece], bytes: &[u8]) -> Option<()> {
    let mut rest = bytes;
    for piece in pieces {
        let (part, after) = rest.split_at_checked(piece.len as usize)?;
        memory.write(piece.at, part)?;
        rest = after;
    }
    Some(())
}
