//! Finds the addresses of kallsyms' names.

use super::names::Names;
use super::tokens::Tokens;
use crate::bytes::{align, word};

/// The addresses that kallsyms has.
#[derive(Debug)]
pub struct Addresses {
    /// The address of each name, in the order of the names.
    pub list: Vec<u32>,
    /// The offsets in the image from the list's start to its end.
    pub range: (usize, usize),
}

/// Finds the addresses. In front of the names are offsets and the base (4.6 to 6.3), or whole
/// addresses (older kernels, and those without CONFIG_KALLSYMS_BASE_RELATIVE); behind the tokens
/// are offsets and the base (since 6.4), or whole addresses (where `kallsyms_relative_base` is
/// gone, as in 7.2).
pub fn find(image: &[u8], tokens: &Tokens, names: &Names) -> Option<Addresses> {
    let count = names.list.len();
    let len = count.checked_mul(4)?;
    let before = |gap: usize| names.range.0.checked_sub(len.checked_add(gap)?);
    let relative = |start: usize| based(image, start, count);
    before(4)
        .and_then(relative)
        .or_else(|| relative(align(tokens.range.1)))
        .or_else(|| before(0).and_then(|start| absolute(image, start, count)))
        .or_else(|| absolute(image, align(tokens.range.1), count))
}

fn words(image: &[u8], start: usize, count: usize) -> Option<Vec<u32>> {
    let words: Vec<u32> = (0..count)
        .map_while(|n| word(image, start + 4 * n))
        .collect();
    (words.len() == count && words.is_sorted() && words.first() < words.last()).then_some(words)
}

/// Reads a list of offsets. The first one is zero, because the base is the lowest address.
fn based(image: &[u8], start: usize, count: usize) -> Option<Addresses> {
    let end = start.checked_add(count.checked_mul(4)?)?;
    let base = word(image, end)?;
    let offsets = words(image, start, count)?;
    let first = *offsets.first()?;
    let list: Vec<u32> = offsets
        .iter()
        .map_while(|offset| base.checked_add(*offset))
        .collect();
    let whole = first == 0 && list.len() == count && base >= 0x1000;
    whole.then_some(Addresses {
        list,
        range: (start, end + 4),
    })
}

fn absolute(image: &[u8], start: usize, count: usize) -> Option<Addresses> {
    let list = words(image, start, count)?;
    let whole = *list.first()? >= 0x1000;
    whole.then_some(Addresses {
        list,
        range: (start, start + 4 * count),
    })
}
