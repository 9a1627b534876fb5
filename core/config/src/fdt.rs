//! The nodes of a flattened tree (Devicetree Specification v0.4, chapter 5).
//!
//! A tree's structure is checked before anything else is read of it (`structure.rs`), by the same tokens. So
//! what cannot be read here is the end of what is walked over, and nothing panics: the library that
//! writes trees reads them, too, but its panics with errors in them took a fortieth of the image.

use core::ffi::CStr;
use core::iter::from_fn;

/// The length of a header.
pub(crate) const HEADER: usize = 40;

/// A flattened tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fdt<'a> {
    /// The memory reservation block, and what is behind it.
    reservations: &'a [u8],
    tokens: Tokens<'a>,
}

impl<'a> Fdt<'a> {
    /// A tree's parts, by its header; `None` where they are not in it, or not aligned.
    pub(crate) fn new(tree: &'a [u8]) -> Option<Self> {
        let field = |at| word(tree.get(at..)?).map(|value| value as usize);
        let (nodes, strings, reserved) = (field(8)?, field(12)?, field(16)?);
        if !nodes.is_multiple_of(4) || !reserved.is_multiple_of(8) || reserved < HEADER {
            return None;
        }
        let part = |start: usize, len| tree.get(start..start.checked_add(len)?);
        Some(Self {
            reservations: tree.get(reserved..nodes)?,
            tokens: Tokens {
                left: part(nodes, field(36)?)?,
                strings: part(strings, field(32)?)?,
            },
        })
    }

    /// The root; a node without a name and contents if there is none.
    pub(crate) fn root(&self) -> FdtNode<'a> {
        let mut inside = self.tokens;
        let name = match inside.next() {
            Some(Token::Begin(name)) => name,
            _ => "",
        };
        FdtNode { name, inside }
    }

    /// The structure block's tokens.
    pub(crate) fn tokens(&self) -> Tokens<'a> {
        self.tokens
    }

    /// Whether the memory reservation block has its end mark.
    pub(crate) fn ends_reservations(&self) -> bool {
        self.reservations.as_chunks().0.contains(&[0; 16])
    }

    /// The address and the size of each entry of the memory reservation block.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let entries = self.reservations.as_chunks::<8>().0.as_chunks::<2>().0;
        let entries = entries.iter().map(|entry| entry.map(u64::from_be_bytes));
        entries
            .map(|[address, size]| (address, size))
            .take_while(|entry| *entry != (0, 0))
    }
}

/// A node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FdtNode<'a> {
    name: &'a str,
    /// The tokens from its first property or child on.
    inside: Tokens<'a>,
}

impl<'a> FdtNode<'a> {
    /// The name, with the unit address.
    pub(crate) fn name(&self) -> &'a str {
        self.name
    }

    /// The name before the unit address.
    pub(crate) fn name_without_address(&self) -> &'a str {
        self.name
            .split_once('@')
            .map_or(self.name, |(name, _)| name)
    }

    /// The properties, which stand before the children: their names and values.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> + use<'a> {
        let mut tokens = self.inside;
        from_fn(move || match tokens.next()? {
            Token::Property { name, value } => Some((tokens.string(name)?, value)),
            Token::Begin(_) | Token::End => None,
        })
        .fuse()
    }

    /// The children.
    pub(crate) fn children(&self) -> impl Iterator<Item = Self> + use<'a> {
        let mut tokens = self.inside;
        let mut depth = 0u32;
        from_fn(move || {
            loop {
                match tokens.next()? {
                    Token::Begin(name) => {
                        depth += 1;
                        if depth == 1 {
                            let inside = tokens;
                            return Some(Self { name, inside });
                        }
                    }
                    Token::End => depth = depth.checked_sub(1)?,
                    Token::Property { .. } => {}
                }
            }
        })
        .fuse()
    }
}

#[cfg(feature = "write")]
impl FdtNode<'_> {
    /// The child with this name.
    pub(crate) fn child(&self, name: &str) -> Option<Self> {
        self.children().find(|child| child.name == name)
    }
}

/// A token of the structure block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token<'a> {
    /// A node begins, with its name.
    Begin(&'a str),
    /// A node ends.
    End,
    /// A property.
    Property {
        /// Where its name is among the strings.
        name: usize,
        value: &'a [u8],
    },
}

/// The tokens that are left of a structure block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tokens<'a> {
    left: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Tokens<'a> {
    /// The next token but NOPs; `None` at the block's end, and where it is damaged.
    pub(crate) fn next(&mut self) -> Option<Token<'a>> {
        loop {
            match self.word()? {
                1 => {
                    let name = text(self.left)?;
                    self.take(name.len() + 1)?;
                    return Some(Token::Begin(name));
                }
                2 => return Some(Token::End),
                3 => {
                    let (len, name) = (self.word()? as usize, self.word()? as usize);
                    let value = self.take(len)?;
                    return Some(Token::Property { name, value });
                }
                4 => {}
                _ => return None,
            }
        }
    }

    /// The string at this offset.
    pub(crate) fn string(&self, at: usize) -> Option<&'a str> {
        text(self.strings.get(at..)?)
    }

    fn word(&mut self) -> Option<u32> {
        word(self.take(4)?)
    }

    /// Takes `len` bytes, and skips those to the next multiple of four.
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.left.split_at_checked(len)?;
        self.left = rest.get(len.wrapping_neg() % 4..).unwrap_or_default();
        Some(taken)
    }
}

/// The first word of `bytes`.
pub(crate) fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().copied().map(u32::from_be_bytes)
}

/// The text up to the first NUL.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    CStr::from_bytes_until_nul(bytes).ok()?.to_str().ok()
}
