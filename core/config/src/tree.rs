//! Reading of properties.

use crate::error::Structure;
use crate::fdt::{self, Fdt, FdtNode};
use crate::structure;
use hanok_types::{Address, Span};

/// The tree at the start of `data`, its structure checked.
pub(crate) fn open(data: &[u8]) -> Result<Fdt<'_>, Structure> {
    structure::check(structure::flattened(data)?)
}

/// The value of property `name`.
pub(crate) fn value<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    let mut properties = node.properties();
    let (_, value) = properties.find(|(known, _)| *known == name)?;
    Some(value)
}

/// The value of property `name` as text.
pub(crate) fn text<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a str> {
    as_text(value(node, name)?)
}

/// A value as text: UTF-8, ended by its only NUL.
pub(crate) fn as_text(value: &[u8]) -> Option<&str> {
    fdt::text(value).filter(|text| text.len() + 1 == value.len())
}

/// The strings of property `name`; none where it is missing.
pub(crate) fn strings<'a>(node: &FdtNode<'a>, name: &str) -> impl Iterator<Item = &'a str> {
    let value = value(node, name).unwrap_or_default();
    value
        .split(|byte| *byte == 0)
        .filter_map(|text| core::str::from_utf8(text).ok())
        .filter(|text| !text.is_empty())
}

/// Whether the node is compatible with `with`.
pub(crate) fn compatible(node: &FdtNode<'_>, with: &str) -> bool {
    strings(node, "compatible").any(|text| text == with)
}

/// The value of property `name` as one cell.
pub(crate) fn cell(node: &FdtNode<'_>, name: &str) -> Option<u32> {
    Some(u32::from_be_bytes(value(node, name)?.try_into().ok()?))
}

/// Takes numbers off the front of a value.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a>(pub(crate) &'a [u8]);

impl Cells<'_> {
    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next cell.
    pub(crate) fn one(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*first))
    }

    /// The next two cells.
    pub(crate) fn two(&mut self) -> Option<u64> {
        self.number(2)
    }

    /// The next `cells` cells as one number; `None` if it does not fit 64 bits.
    pub(crate) fn number(&mut self, cells: u32) -> Option<u64> {
        (0..cells).try_fold(0u64, |number, _| {
            let next = self.one()?;
            (number >> 32 == 0).then_some(number << 32 | u64::from(next))
        })
    }

    /// The next address and size of two cells each, as a range.
    pub(crate) fn span<A: Address>(&mut self) -> Option<Span<A>> {
        let start = A::new(self.two()?);
        Span::new(start, self.two()?)
    }
}
