//! Checks that bytes are a sound flattened tree (Devicetree Specification v0.4, chapter 5).
//!
//! The library that writes trees has this check, too, but refuses every tree with a node or property name above the
//! specification's 31 characters. Most trees of real boards have such names: 600 of the 1,000 that
//! come with Debian's arm64 kernel. So the check is made here.

use crate::error::Structure;
use crate::fdt::{Fdt, HEADER, Token, Tokens, word};

/// The largest depth of nodes; real trees have less than ten.
const MAX_DEPTH: u32 = 32;

type Checked<T> = Result<T, Structure>;

/// The tree at the start of `data`, without what follows it. Only its magic number and its length
/// are checked.
pub fn flattened(data: &[u8]) -> Checked<&[u8]> {
    if field(data, 0)? != 0xd00d_feed {
        return Err(Structure::Magic);
    }
    let len = field(data, 4)? as usize;
    let tree = data.get(..len).filter(|_| len >= HEADER);
    tree.ok_or(Structure::Short)
}

fn field(data: &[u8], at: usize) -> Checked<u32> {
    let field = data.get(at..).and_then(word);
    field.ok_or(Structure::Short)
}

/// `tree`, from [`flattened`], if it is completely sound.
pub(crate) fn check(tree: &[u8]) -> Checked<Fdt<'_>> {
    if !(field(tree, 24)?..=field(tree, 20)?).contains(&17) {
        return Err(Structure::Version);
    }
    let fdt = Fdt::new(tree).filter(|fdt| fdt.ends_reservations() && is_whole(fdt.tokens()));
    fdt.ok_or(Structure::Damaged)
}

/// Whether the tokens are those of one node and what is in it. The properties of a node come before its
/// children.
fn is_whole(mut tokens: Tokens<'_>) -> bool {
    let mut depth = 0;
    let mut properties = false;
    while let Some(token) = tokens.next() {
        match token {
            Token::Begin(_) if depth < MAX_DEPTH => {
                depth += 1;
                properties = true;
            }
            Token::End if depth > 1 => {
                depth -= 1;
                properties = false;
            }
            Token::End => return depth == 1,
            Token::Property { name, .. } if properties && tokens.string(name).is_some() => {}
            Token::Begin(_) | Token::Property { .. } => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fdt::FdtNode;
    use dtoolkit::{Node, Property, fdt};
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

    /// The tokens after the node that `tokens` begin with, by the specification's grammar (5.4.2). The
    /// numbers of its nodes and properties are added to `count`.
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

    /// Finds what the library finds in the same node, and counts its nodes and properties.
    fn found(node: FdtNode<'_>, same: fdt::FdtNode<'_>) -> (usize, usize) {
        assert_eq!(node.name(), same.name());
        let (own, known): (Vec<_>, Vec<_>) =
            (node.properties().collect(), same.properties().collect());
        let pairs = known.iter().map(|known| (known.name(), known.value()));
        assert!(pairs.eq(own.iter().copied()));
        let (children, same): (Vec<_>, Vec<_>) =
            (node.children().collect(), same.children().collect());
        assert_eq!(children.len(), same.len());
        let children = children
            .into_iter()
            .zip(same)
            .map(|(child, same)| found(child, same));
        children.fold((1, own.len()), |sum, child| {
            (sum.0 + child.0, sum.1 + child.1)
        })
    }

    #[test]
    fn the_library_finds_the_same_in_trees_of_boards() {
        let trees = [
            &include_bytes!("../tests/data/virt-gicv2.dtb")[..],
            include_bytes!("../tests/data/virt-max.dtb"),
        ];
        for tree in trees {
            let tree = flattened(tree).unwrap();
            let fdt = check(tree).unwrap();
            let library = fdt::Fdt::new_unchecked(tree);
            let (nodes, properties) = found(fdt.root(), library.root());
            assert!(nodes > 20 && properties > 100, "{nodes} {properties}");
            let reserved = library.memory_reservations();
            assert!(
                fdt.reservations()
                    .eq(reserved.map(|entry| (entry.address(), entry.size())))
            );
        }
    }

    #[test]
    fn reservations_end_at_their_mark() {
        let mut tree = tree(40, 40 + 48, &[BEGIN, END]);
        tree[47] = 1;
        tree[55] = 2;
        assert!(check(&tree).unwrap().reservations().eq([(1, 2)]));
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
                let nops = tokens.iter().take_while(|token| **token == NOP).count();
                let expected = node(&tokens[nops..], &mut count).is_some();
                let tree = tree(40, 56, &tokens);
                assert_eq!(check(&tree).is_ok(), expected, "{tokens:?}");
                if expected {
                    let root = check(&tree).unwrap().root();
                    // The library takes the block's first word for the root.
                    let without_nops = self::tree(40, 56, &tokens[nops..]);
                    let same = fdt::Fdt::new_unchecked(&without_nops).root();
                    assert_eq!(found(root, same), count, "{tokens:?}");
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
