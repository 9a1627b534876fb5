//! Recovers the names of functions from a kernel image that has lost its symbol table.
//!
//! A kernel keeps the names of its functions for its own use (kallsyms), compressed. There are 256
//! tokens, and each byte of a name stands for one; a list of names; a marker for each 256th name;
//! and addresses, since 4.6 as offsets from the lowest. Nothing that is known from outside points
//! to them, so they are found by their own form, which leaves no doubt: an index of 256 growing
//! numbers, each of which is the start of a string in the table before it ([`tokens`]), and a list
//! of names whose every 256th starts where the markers say ([`names`]). Two orders are known: up to
//! 6.3 the addresses come first, since 6.4 last (scripts/kallsyms.c of Linux).

mod addresses;
mod names;
mod tokens;

use crate::refusal::{Refusal, Result};

/// A symbol of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The symbol's address. Bit 0 is clear for a Thumb function, too.
    pub address: u32,
    /// The symbol's kind, as `nm` writes it: `T`, `t`, `W` for code.
    pub kind: char,
    /// The symbol's name.
    pub name: String,
}

impl Symbol {
    /// Whether the symbol's kind says that it is code.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, 't' | 'T' | 'w' | 'W')
    }
}

/// The symbols that kallsyms has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kallsyms {
    /// All symbols, by address.
    pub symbols: Vec<Symbol>,
    /// The offsets in the image at which kallsyms' tables begin and end.
    pub range: (usize, usize),
}

/// Recovers the kallsyms of an uncompressed kernel image.
pub fn recover(image: &[u8]) -> Result<Kallsyms> {
    let mut refusal = missing();
    for tokens in tokens::find_all(image) {
        let Some(names) = names::find(image, &tokens) else {
            continue;
        };
        match addresses::find(image, &tokens, &names) {
            Some(addresses) => return Ok(join(&tokens, names, addresses)),
            None => refusal = without_addresses(names.list.len()),
        }
    }
    Err(refusal)
}

fn join(tokens: &tokens::Tokens, names: names::Names, addresses: addresses::Addresses) -> Kallsyms {
    let start = names.range.0.min(addresses.range.0);
    let end = tokens.range.1.max(addresses.range.1);
    let mut symbols: Vec<_> = names
        .list
        .into_iter()
        .zip(addresses.list)
        .map(|((kind, name), address)| Symbol {
            address,
            kind,
            name,
        })
        .collect();
    symbols.sort_by_key(|symbol| symbol.address);
    Kallsyms {
        symbols,
        range: (start, end),
    }
}

fn missing() -> Refusal {
    Refusal::new(
        "this image has no symbols",
        "its functions are found by the kernel's own list of names (kallsyms), which is not there",
        "give the vmlinux of the same build, or build the kernel with CONFIG_KALLSYMS=y",
    )
}

fn without_addresses(names: usize) -> Refusal {
    Refusal::new(
        "this image's symbols have no addresses",
        format!(
            "kallsyms has {names} names, and no list of addresses where Linux up to 7.2 has it"
        ),
        "give the vmlinux of the same build",
    )
}
