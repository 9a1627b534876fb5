//! The plan by which the hypervisor maps the board's RAM for itself.
//!
//! All RAM is mapped at its physical address as data, with four exceptions: the image's own pages
//! have no second mapping, the payload and the board's device tree are read-only, and memory that
//! the firmware reserves is not mapped at all, so that the CPU does not even access it
//! speculatively. If these ranges contradict each other, the device tree is wrong:
//! [`Kept::conflict`].

use crate::spans::{between, grow, subtract};
use crate::{FrameMap, MAX_SPANS, MemoryError};
use hanok_types::{Hpa, PAGE_SIZE, Span};
use heapless::Vec;
use thiserror::Error;

/// The largest number of ranges that the firmware reserves.
pub const MAX_KEPT: usize = 32;

/// The ranges of RAM that are not plain data.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The image's own memory.
    pub own: Span<Hpa>,
    /// The payload behind it.
    pub payload: Span<Hpa>,
    /// The board's device tree.
    pub tree: Span<Hpa>,
    /// The memory that the firmware reserves; the tree may be in it.
    pub reserved: &'a [Span<Hpa>],
}

/// The reasons why the hypervisor cannot run where it is, by the board's device tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Conflict {
    /// The image is not in RAM.
    #[error(
        "the image does not lie in the board's RAM: its header is damaged, or the board has too \
         little memory for it"
    )]
    Outside,
    /// The tree is not in RAM.
    #[error("the board's device tree does not lie in the RAM that it names")]
    TreeOutside,
    /// The firmware reserves memory that the image is in.
    #[error(
        "the board's device tree reserves {:#x} bytes at {:#x}, where the image lies",
        .0.len(), .0.start().get()
    )]
    Reserved(Span<Hpa>),
}

/// The ways in which pages of RAM are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// For reading and writing.
    Data,
    /// For reading only.
    ReadOnly,
}

/// A range of pages, and how it is mapped, if at all.
type Piece = (Span<Hpa>, Option<Use>);
/// Three pieces, and at most two for each reserved range.
type Pieces = Vec<Piece, { 3 + 2 * MAX_KEPT }>;

/// The parts of `ram` that are in `window`, which is what the hypervisor can map.
pub fn reachable(ram: &[Span<Hpa>], window: Span<Hpa>) -> impl Iterator<Item = Span<Hpa>> {
    ram.iter().filter_map(move |ram| {
        let start = ram.start().max(window.start());
        between(start, ram.end().min(window.end()))
    })
}

impl Kept<'_> {
    /// The parts of `ram` in `window` that are free: all but what is kept. Nothing between the
    /// image and its payload is free.
    pub fn free(&self, ram: &[Span<Hpa>], window: Span<Hpa>) -> Result<FrameMap, MemoryError> {
        let too_many = |_| MemoryError::TooManySpans;
        let end = self.own.end().max(self.payload.end());
        let start = self.own.start().min(self.payload.start());
        let mut reserved = Vec::<_, { MAX_KEPT + 2 }>::from_slice(self.reserved)
            .map_err(|_| MemoryError::TooManySpans)?;
        reserved
            .push(between(start, end).unwrap_or_default())
            .map_err(too_many)?;
        reserved.push(self.tree).map_err(too_many)?;
        let mut here = Vec::<_, MAX_SPANS>::new();
        for span in reachable(ram, window) {
            here.push(span).map_err(too_many)?;
        }
        FrameMap::new(&here, &reserved)
    }

    /// The reason why the hypervisor cannot go on, if there is one.
    pub fn conflict(&self, ram: &[Span<Hpa>]) -> Option<Conflict> {
        let in_ram = |part: &Span<Hpa>| ram.iter().any(|ram| ram.covers(part));
        let image = [self.own, self.payload];
        if !image.iter().all(in_ram) {
            return Some(Conflict::Outside);
        }
        if !in_ram(&self.tree) {
            return Some(Conflict::TreeOutside);
        }
        let hit = |reserved: &&Span<Hpa>| {
            let pages = grow(**reserved, PAGE_SIZE);
            pages.is_some_and(|pages| image.iter().any(|part| part.overlaps(&pages)))
        };
        self.reserved
            .iter()
            .find(hit)
            .copied()
            .map(Conflict::Reserved)
    }

    /// Calls `map` for each piece of `ram` that is to be mapped, in ascending order. Pieces are
    /// whole pages: the first and the last page of RAM are included, even if only a part of them is
    /// RAM.
    pub fn each<E>(
        &self,
        ram: Span<Hpa>,
        mut map: impl FnMut(Span<Hpa>, Use) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(ram) = grow(ram, PAGE_SIZE) else {
            return Ok(());
        };
        let mut at = ram.start();
        for (piece, what) in self.pieces() {
            let start = piece.start().max(at);
            let end = piece.end().min(ram.end());
            let Some(here) = between(start, end) else {
                continue;
            };
            if let Some(before) = between(at, start) {
                map(before, Use::Data)?;
            }
            if let Some(what) = what {
                map(here, what)?;
            }
            at = end;
        }
        between(at, ram.end()).map_or(Ok(()), |rest| map(rest, Use::Data))
    }

    /// The pieces by address.
    fn pieces(&self) -> Pieces {
        let mut pieces = Pieces::new();
        // Each piece is inserted in order: there are few, and the library's sort is 4 KB of code.
        let mut add = |span: Span<Hpa>, what| {
            let behind = |other: &Piece| other.0.start() > span.start();
            let place = pieces.iter().position(behind).unwrap_or(pieces.len());
            // There is room for all of them.
            let _ = pieces.insert(place, (span, what));
        };
        let read_only = Some(Use::ReadOnly);
        for (span, what) in [
            (self.own, None),
            (self.payload, read_only),
            (self.tree, read_only),
        ] {
            if let Some(pages) = grow(span, PAGE_SIZE) {
                add(pages, what);
            }
        }
        let tree = grow(self.tree, PAGE_SIZE).unwrap_or_default();
        let reserved = self.reserved.iter().take(MAX_KEPT);
        let pages = reserved.filter_map(|span| grow(*span, PAGE_SIZE));
        // A boot loader may also reserve the tree's memory.
        for part in pages.flat_map(|pages| subtract(pages, tree)).flatten() {
            add(part, None);
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_types::Address;
    use proptest::prelude::*;

    /// The number of pages of the small RAM in which the tests examine every page.
    const PAGES: u64 = 64;

    fn bytes() -> impl Strategy<Value = Span<Hpa>> {
        let place = (0..PAGES * PAGE_SIZE, 1..12 * PAGE_SIZE);
        place.prop_map(|(start, len)| Span::new(Hpa::new(start), len).unwrap())
    }

    fn pages(from: std::ops::Range<u64>, most: u64) -> impl Strategy<Value = Span<Hpa>> {
        (from, 1..most).prop_map(|(start, len)| {
            Span::new(Hpa::new(start * PAGE_SIZE), len * PAGE_SIZE).unwrap()
        })
    }

    fn page(number: u64) -> Span<Hpa> {
        Span::new(Hpa::new(number * PAGE_SIZE), PAGE_SIZE).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// If there is no conflict, each page of RAM is mapped at most once, and in the right way.
        #[test]
        fn each_page_is_mapped_as_what_it_is(
            ram in pages(0..8, 64),
            own in pages(0..24, 6),
            gap in 0..4u64,
            payload_len in 1..8 * PAGE_SIZE,
            tree in bytes(),
            reserved in prop::collection::vec(bytes(), 0..6),
        ) {
            let payload = Hpa::new(own.end().get() + gap * PAGE_SIZE);
            let payload = Span::new(payload, payload_len).unwrap();
            let kept = Kept { own, payload, tree, reserved: &reserved };
            let image = [own, payload];
            let apart = image.iter().all(|part| {
                let end = part.end().align_up(PAGE_SIZE).unwrap();
                tree.end() <= part.start() || tree.start() >= end
            });
            let covered = [own, payload, tree].iter().all(|part| ram.covers(part));
            let trodden = reserved.iter().any(|span| (0..PAGES * 2).any(|number| {
                let page = page(number);
                page.overlaps(span) && image.iter().any(|part| part.overlaps(&page))
            }));
            let conflict = kept.conflict(&[ram]);
            prop_assert_eq!(conflict.is_some(), !covered || trodden);
            if conflict.is_some() || !apart {
                return Ok(());
            }
            let mut seen = [None; 2 * PAGES as usize];
            kept.each(ram, |span, what| -> Result<(), ()> {
                assert!(span.start().is_aligned(PAGE_SIZE) && span.len() % PAGE_SIZE == 0);
                for number in span.start().get() / PAGE_SIZE..span.end().get() / PAGE_SIZE {
                    assert!(seen[number as usize].replace(what).is_none(), "twice");
                }
                Ok(())
            }).unwrap();
            for number in 0..2 * PAGES {
                let page = page(number);
                let wanted = if !page.overlaps(&ram) || page.overlaps(&own) {
                    None
                } else if page.overlaps(&payload) || page.overlaps(&tree) {
                    Some(Use::ReadOnly)
                } else if reserved.iter().any(|span| page.overlaps(span)) {
                    None
                } else {
                    Some(Use::Data)
                };
                prop_assert_eq!(seen[number as usize], wanted, "page {}", number);
            }
        }
    }

    #[test]
    fn the_top_of_the_address_space_is_no_wrap() {
        let top = Span::new(Hpa::new(u64::MAX - 100), 100).unwrap();
        let kept = Kept {
            own: page(1),
            payload: page(2),
            tree: page(3),
            reserved: &[top],
        };
        let mut mapped = std::vec::Vec::new();
        let ram = Span::new(Hpa::new(0), 8 * PAGE_SIZE).unwrap();
        assert_eq!(kept.conflict(&[ram]), None);
        let done: Result<(), ()> = kept.each(ram, |span, what| {
            mapped.push((span.start().get() / PAGE_SIZE, span.len() / PAGE_SIZE, what));
            Ok(())
        });
        done.unwrap();
        let wanted = [
            (0, 1, Use::Data),
            (2, 1, Use::ReadOnly),
            (3, 1, Use::ReadOnly),
            (4, 4, Use::Data),
        ];
        assert_eq!(mapped, wanted);
    }

    #[test]
    fn kept_and_unreachable_memory_is_not_free() {
        let span = |page: u64, pages: u64| {
            Span::new(Hpa::new(page * PAGE_SIZE), pages * PAGE_SIZE).unwrap()
        };
        let kept = Kept {
            own: span(10, 2),
            payload: span(14, 2),
            tree: span(20, 1),
            reserved: &[span(30, 1)],
        };
        let free = kept
            .free(&[span(8, 32), span(60, 10)], span(0, 38))
            .unwrap();
        let wanted = [span(8, 2), span(16, 4), span(21, 9), span(31, 7)];
        assert_eq!(
            free.free_spans(),
            wanted,
            "nor is what lies before the payload"
        );
        let many = [span(30, 1); MAX_KEPT + 1];
        let kept = Kept {
            reserved: &many,
            ..kept
        };
        let none = kept.free(&[span(8, 32)], span(0, 38));
        assert_eq!(none.map(|_| ()), Err(MemoryError::TooManySpans));
    }
}
