//! Finds the list of names, the number of names in front of it and the markers behind it.

use super::tokens::Tokens;
use crate::bytes::{align, word};

/// The largest distance between the names and the tokens, in bytes.
const WINDOW: usize = 8 << 20;
/// The number of symbols that a kernel can have.
const COUNT: std::ops::Range<usize> = 256..2_000_000;
/// The number of names for which there is one marker.
const STRIDE: usize = 256;

/// The names that kallsyms has.
#[derive(Debug)]
pub struct Names {
    /// The kind and the name of each symbol, in the order of the addresses.
    pub list: Vec<(char, String)>,
    /// The offsets in the image from the word that holds the number of names to the end of the
    /// markers.
    pub range: (usize, usize),
}

/// Finds the names that are packed by `tokens`. In every known order they are in front of the
/// tokens.
pub fn find(image: &[u8], tokens: &Tokens) -> Option<Names> {
    let end = tokens.range.0;
    let start = end.saturating_sub(WINDOW).next_multiple_of(4);
    (start..end).step_by(4).find_map(|at| {
        let count = word(image, at)? as usize;
        COUNT
            .contains(&count)
            .then(|| read(image, tokens, at, count))
            .flatten()
    })
}

/// The bytes of one packed name, and the offset of the next one. A length of more than 127 takes
/// two bytes (since 6.1).
fn packed(image: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let first = usize::from(*image.get(at)?);
    let (len, start) = match first & 0x80 {
        0 => (first, at + 1),
        _ => (
            (usize::from(*image.get(at + 1)?) << 7) | (first & 0x7f),
            at + 2,
        ),
    };
    let end = start.checked_add(len)?;
    Some((image.get(start..end).filter(|name| !name.is_empty())?, end))
}

/// Unpacks a symbol's kind and name. The name may be empty: GNU ld (2.44) gives no name to the
/// branches that it adds to a T32 kernel for an erratum of Cortex-A8 (`--fix-cortex-a8`), and
/// kallsyms takes over what `nm` shows.
fn expand(tokens: &Tokens, packed: &[u8]) -> Option<(char, String)> {
    let whole: Vec<u8> = packed
        .iter()
        .flat_map(|byte| tokens.get(*byte))
        .copied()
        .collect();
    let (kind, name) = whole.split_first()?;
    kind.is_ascii_alphabetic().then(|| {
        (
            char::from(*kind),
            String::from_utf8_lossy(name).into_owned(),
        )
    })
}

/// The letters by which `nm` names kinds of symbols.
const KINDS: &[u8] = b"aAbBcCdDgGiInNpPrRsStTuUvVwW";

/// The offset of each packed name, for at most `count` of them.
fn walk(image: &[u8], tokens: &Tokens, at: usize, count: usize) -> Option<Vec<usize>> {
    let mut starts = Vec::new();
    let mut next = at + 4;
    for _ in 0..count {
        starts.push(next);
        let (name, end) = packed(image, next)?;
        let kind = name.first().and_then(|byte| tokens.get(*byte).first())?;
        if end > tokens.range.0 || !KINDS.contains(kind) {
            return None;
        }
        next = end;
    }
    starts.push(next);
    Some(starts)
}

/// Reads the names. The markers are compared first, because most places are not the names.
fn read(image: &[u8], tokens: &Tokens, at: usize, count: usize) -> Option<Names> {
    let starts = walk(image, tokens, at, count)?;
    let first = at + 4;
    let markers = align(*starts.last()?);
    let every = starts.iter().take(count).step_by(STRIDE).enumerate();
    let right = |(n, start): (usize, &usize)| {
        word(image, markers + 4 * n).is_some_and(|marker| marker as usize == start - first)
    };
    if !every.clone().all(right) {
        return None;
    }
    let names = starts.iter().take(count).map_while(|start| {
        let (name, _) = packed(image, *start)?;
        expand(tokens, name)
    });
    let list: Vec<_> = names.collect();
    let range = (at, markers + 4 * every.count());
    (list.len() == count).then_some(Names { list, range })
}
