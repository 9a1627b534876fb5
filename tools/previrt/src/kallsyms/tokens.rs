//! Finds the table of tokens and its index.

use crate::bytes::{align, half};

const TOKENS: usize = 256;
/// The size of the index in bytes: 256 halfwords.
const INDEX_LEN: usize = 2 * TOKENS;
/// The length that no token reaches (KSYM_NAME_LEN is 512).
const MAX_TOKEN: u16 = 512;

/// The tokens that names are packed by.
#[derive(Debug)]
pub struct Tokens {
    /// The bytes that each token stands for.
    list: Vec<Vec<u8>>,
    /// The offsets in the image from the table's start to the index's end.
    pub range: (usize, usize),
}

impl Tokens {
    /// The bytes that the byte of a packed name stands for.
    pub fn get(&self, byte: u8) -> &[u8] {
        self.list.get(usize::from(byte)).map_or(&[], Vec::as_slice)
    }
}

/// Finds all places that look like the tokens; a kernel has one.
pub fn find_all(image: &[u8]) -> Vec<Tokens> {
    // Compare two numbers first: nearly all places fail there.
    let begins = |bytes: &[u8]| {
        let word = bytes.try_into().map_or(0, u32::from_le_bytes);
        word as u16 == 0 && (2..MAX_TOKEN).contains(&((word >> 16) as u16))
    };
    let words = image.chunks_exact(4).enumerate();
    let found = words.filter(|(_, bytes)| begins(bytes));
    found.filter_map(|(n, _)| read(image, 4 * n)).collect()
}

/// Reads the table whose index is at `at`.
fn read(image: &[u8], at: usize) -> Option<Tokens> {
    let number = |n: usize| half(image, at + 2 * n);
    let grows = |n: usize| match (number(n - 1), number(n)) {
        (Some(first), Some(second)) => first < second && second - first <= MAX_TOKEN,
        _ => false,
    };
    if !(1..TOKENS).all(grows) {
        return None;
    }
    let index: Vec<u16> = (0..TOKENS).map_while(number).collect();
    let last = usize::from(*index.last()?);
    // The last token's length is unknown, and up to three bytes of padding follow it.
    let first = at.saturating_sub(last + usize::from(MAX_TOKEN)) & !3;
    let mut starts = (first..at.saturating_sub(last))
        .rev()
        .filter(|start| start % 4 == 0);
    starts.find_map(|start| table(image, start, at, &index))
}

fn table(image: &[u8], start: usize, end: usize, index: &[u16]) -> Option<Tokens> {
    let token = |from: u16| {
        let from = start.checked_add(usize::from(from))?;
        // The byte before each token ends the one before it.
        let alone = from == start || image.get(from - 1) == Some(&0);
        let rest = image.get(from..end)?;
        let len = rest.iter().position(|byte| *byte == 0)?;
        (alone && len > 0)
            .then(|| rest.get(..len).map(<[u8]>::to_vec))
            .flatten()
    };
    let list: Vec<Vec<u8>> = index.iter().map_while(|from| token(*from)).collect();
    let last = list.last()?.len() + usize::from(*index.last()?) + 1;
    let whole = list.len() == TOKENS && align(start + last) == end;
    let printable = list
        .iter()
        .flatten()
        .all(|byte| (0x20..0x7f).contains(byte));
    (whole && printable).then_some(Tokens {
        list,
        range: (start, end + INDEX_LEN),
    })
}
