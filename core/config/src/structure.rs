//! Whether bytes are a sound flattened tree (Devicetree Specification v0.4, chapter 5).
//!
//! The library has this check too, but refuses every tree with a node or property name
//! above the specification's 31 characters, which is most trees of real boards: 600 of the
//! 1,000 that Debian's arm64 kernel brings. So the check is made here, and the library gets
//! the bytes unchecked. It then reads without a panic if every offset, length and string
//! that it follows is sound, and that is what is proved here, in checked arithmetic.

use crate::error::Structure;

/// Nodes inside each other; real trees have under ten.
const MAX_DEPTH: u32 = 32;
const HEADER: usize = 40;

type Checked<T> = Result<T, Structure>;

/// The tree at the start of `data`, without what follows it; no more than its magic number
/// and length are looked at.
pub fn flattened(data: &[u8]) -> Checked<&[u8]> {
    let short = Structure::Short;
    let word = |at| word(data, at).map_err(|_| short);
    if word(0)? != 0xd00d_feed {
        return Err(Structure::Magic);
    }
    let len = word(4)? as usize;
    data.get(..len).filter(|_| len >= HEADER).ok_or(short)
}

/// Whether `tree`, from [`flattened`], is sound from end to end.
pub(crate) fn check(tree: &[u8]) -> Checked<()> {
    let field = |at| word(tree, at).map(|value| value as usize);
    let (nodes, strings, reserved) = (field(8)?, field(12)?, field(16)?);
    if !(field(24)?..=field(20)?).contains(&17) {
        return Err(Structure::Version);
    }
    if !nodes.is_multiple_of(4) || !reserved.is_multiple_of(8) || reserved < HEADER {
        return Err(Structure::Damaged);
    }
    reservations(tree.get(reserved..nodes).ok_or(Structure::Damaged)?)?;
    let walk = Walk {
        nodes: part(tree, nodes, field(36)?)?,
        strings: part(tree, strings, field(32)?)?,
        at: 0,
    };
    walk.whole()
}

fn part(tree: &[u8], start: usize, len: usize) -> Checked<&[u8]> {
    let end = start.checked_add(len).ok_or(Structure::Damaged)?;
    tree.get(start..end).ok_or(Structure::Damaged)
}

fn word(data: &[u8], at: usize) -> Checked<u32> {
    let bytes = data.get(at..).and_then(<[u8]>::first_chunk::<4>);
    bytes
        .map(|bytes| u32::from_be_bytes(*bytes))
        .ok_or(Structure::Damaged)
}

/// The memory reservation block must have its end mark.
fn reservations(block: &[u8]) -> Checked<()> {
    let (entries, _) = block.as_chunks::<16>();
    match entries.contains(&[0; 16]) {
        true => Ok(()),
        false => Err(Structure::Damaged),
    }
}

/// The text up to the first NUL, which must be there.
fn text(bytes: &[u8]) -> Checked<&str> {
    let text = core::ffi::CStr::from_bytes_until_nul(bytes).ok();
    text.and_then(|text| text.to_str().ok())
        .ok_or(Structure::Damaged)
}

/// A walk over the structure block.
struct Walk<'a> {
    nodes: &'a [u8],
    strings: &'a [u8],
    at: usize,
}

impl Walk<'_> {
    /// From the root's beginning to its end. A node's properties come before its children.
    fn whole(mut self) -> Checked<()> {
        let mut depth = 0;
        let mut properties = false;
        loop {
            match self.word()? {
                1 if depth < MAX_DEPTH => {
                    self.name()?;
                    depth += 1;
                    properties = true;
                }
                2 if depth > 1 => {
                    depth -= 1;
                    properties = false;
                }
                2 if depth == 1 => return Ok(()),
                3 if properties => self.property()?,
                4 if depth > 0 => {}
                _ => return Err(Structure::Damaged),
            }
        }
    }

    fn word(&mut self) -> Checked<u32> {
        let word = word(self.nodes, self.at)?;
        self.skip(4)?;
        Ok(word)
    }

    /// Goes on by `len` bytes and to the next multiple of four.
    fn skip(&mut self, len: usize) -> Checked<()> {
        let end = self.at.checked_add(len);
        let end = end.and_then(|end| end.checked_next_multiple_of(4));
        self.at = end.ok_or(Structure::Damaged)?;
        Ok(())
    }

    fn name(&mut self) -> Checked<()> {
        let name = text(self.nodes.get(self.at..).ok_or(Structure::Damaged)?)?;
        self.skip(name.len() + 1)
    }

    fn property(&mut self) -> Checked<()> {
        let len = self.word()? as usize;
        let name = self.word()? as usize;
        text(self.strings.get(name..).ok_or(Structure::Damaged)?)?;
        part(self.nodes, self.at, len)?;
        self.skip(len)
    }
}
