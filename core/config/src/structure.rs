//! Checks that bytes are a sound flattened tree (Devicetree Specification v0.4, chapter 5).
//!
//! The library has this check, too, but refuses every tree with a node or property name above the
//! specification's 31 characters. Most trees of real boards have such names: 600 of the 1,000 that
//! come with Debian's arm64 kernel. So the check is made here, and the library gets the bytes
//! unchecked. It then reads without a panic if every offset, length and string that it follows is
//! sound, and exactly that is checked here, in checked arithmetic.

use crate::error::Structure;

/// The largest depth of nodes; real trees have less than ten.
const MAX_DEPTH: u32 = 32;
const HEADER: usize = 40;

type Checked<T> = Result<T, Structure>;

/// The tree at the start of `data`, without what follows it. Only its magic number and its length
/// are checked.
pub fn flattened(data: &[u8]) -> Checked<&[u8]> {
    let short = Structure::Short;
    let word = |at| word(data, at).map_err(|_| short);
    if word(0)? != 0xd00d_feed {
        return Err(Structure::Magic);
    }
    let len = word(4)? as usize;
    data.get(..len).filter(|_| len >= HEADER).ok_or(short)
}

/// Checks that `tree`, from [`flattened`], is completely sound.
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

/// Checks that the memory reservation block has its end mark.
fn reservations(block: &[u8]) -> Checked<()> {
    let (entries, _) = block.as_chunks::<16>();
    if entries.contains(&[0; 16]) {
        Ok(())
    } else {
        Err(Structure::Damaged)
    }
}

/// The text up to the first NUL, which must exist.
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
    /// Walks from the root's beginning to its end. The properties of a node come before its
    /// children. A NOP before the root, which the format allows, is refused, because the library
    /// takes the first word of the block for the root.
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

    /// Skips `len` bytes, and to the next multiple of four.
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

#[cfg(test)]
mod tests {
    use super::*;
    use dtoolkit::Node;
    use dtoolkit::fdt::{Fdt, FdtNode};
    use std::vec::Vec;

    const BEGIN: u32 = 1;
    const END: u32 = 2;
    const PROP: u32 = 3;
    const NOP: u32 = 4;
    const LAST: u32 = 9;

    /// A tree with these tokens, with the reservations and the structure block at these offsets.
    /// Nodes have no names; properties are called "a" and have six bytes.
    fn tree(reserved: usize, nodes: usize, tokens: &[u32]) -> Vec<u8> {
        let mut block = Vec::new();
        for token in tokens {
            block.extend(token.to_be_bytes());
            match *token {
                BEGIN => block.extend([0; 4]),
                PROP => block.extend([0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 0]),
                _ => {}
            }
        }
        let strings = nodes + block.len();
        let len = strings + 2;
        let fields = [0xd00d_feed, len, nodes, strings, reserved, 17, 16, 0, 2];
        let fields = fields.into_iter().chain([block.len()]);
        let mut tree: Vec<u8> = fields
            .flat_map(|field| (field as u32).to_be_bytes())
            .collect();
        tree.resize(nodes, 0);
        tree.extend(block);
        tree.extend(*b"a\0");
        tree
    }

    fn is_sound(reserved: usize, nodes: usize, tokens: &[u32]) -> bool {
        let tree = tree(reserved, nodes, tokens);
        check(flattened(&tree).unwrap()).is_ok()
    }

    /// The tokens after the node that `tokens` begin with, by the specification's grammar (5.4.2),
    /// without NOPs before the root. The numbers of its nodes and properties are added to `count`.
    fn node<'a>(tokens: &'a [u32], count: &mut (usize, usize)) -> Option<&'a [u32]> {
        let mut rest = tokens.strip_prefix(&[BEGIN])?;
        count.0 += 1;
        while let [token @ (PROP | NOP), after @ ..] = rest {
            count.1 += usize::from(*token == PROP);
            rest = after;
        }
        loop {
            rest = match rest {
                [END, after @ ..] => return Some(after),
                [NOP, after @ ..] => after,
                _ => node(rest, count)?,
            };
        }
    }

    /// The numbers of nodes and properties that the library finds.
    fn found(node: FdtNode<'_>) -> (usize, usize) {
        let own = (1, node.properties().count());
        let children = node.children().map(found);
        children.fold(own, |sum, child| (sum.0 + child.0, sum.1 + child.1))
    }

    #[test]
    fn tokens_are_sound_by_the_grammar_alone() {
        const TOKENS: [u32; 5] = [BEGIN, END, PROP, NOP, LAST];
        let mut sound = 0;
        for len in 0..=6u32 {
            for number in 0..5usize.pow(len) {
                let token = |place| TOKENS[number / 5usize.pow(place) % 5];
                let tokens: Vec<u32> = (0..len).map(token).collect();
                let mut count = (0, 0);
                let expected = node(&tokens, &mut count).is_some();
                let tree = tree(40, 56, &tokens);
                assert_eq!(check(&tree).is_ok(), expected, "{tokens:?}");
                if expected {
                    let root = Fdt::new_unchecked(&tree).root();
                    assert_eq!(found(root), count, "{tokens:?}");
                    sound += 1;
                }
            }
        }
        assert!(sound > 1000, "{sound}");
    }

    #[test]
    fn nodes_are_as_deep_as_is_allowed() {
        let nested = |depth: usize| [[BEGIN].repeat(depth), [END].repeat(depth)].concat();
        let most = MAX_DEPTH as usize;
        assert!(is_sound(40, 56, &nested(most)));
        assert!(!is_sound(40, 56, &nested(most + 1)));
    }

    /// Reservations and nodes may begin at their alignments (5.6) after the header, with the
    /// reservations' end mark between them.
    #[test]
    fn blocks_are_aligned_and_behind_the_header() {
        let is_sound = |reserved, nodes| is_sound(reserved, nodes, &[BEGIN, PROP, END, LAST]);
        for reserved in 0..=112 {
            for nodes in 96..=108 {
                let aligned = reserved % 8 == 0 && nodes % 4 == 0;
                let expected = aligned && reserved >= 40 && reserved + 16 <= nodes;
                assert_eq!(is_sound(reserved, nodes), expected, "{reserved} {nodes}");
            }
        }
    }
}
