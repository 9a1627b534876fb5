//! Free and allocated spans of RAM.

use crate::spans::{between, blocks, grow, shrink, subtract};
use hanok_types::{Address, Hpa, Ipa, PAGE_SIZE, Span};
use heapless::Vec;
use thiserror::Error;

/// In how many pieces the RAM may be, and what of it is free: memory and firmware of 64 VMs have room, were
/// none of them beside another.
pub const MAX_SPANS: usize = 128;

const GIB: u64 = 1 << 30;
const MIB2: u64 = 2 << 20;

/// The reasons why a request for memory failed. The map is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MemoryError {
    /// Zero bytes were asked for.
    #[error("zero bytes of memory asked for")]
    Empty,
    /// The alignment is no power of two.
    #[error("alignment {0:#x} is no power of two")]
    BadAlignment(u64),
    /// No hole is large enough at this alignment.
    #[error("no free span is large enough; the largest has {largest:#x} bytes")]
    NoHole {
        /// The size of the largest free span in bytes, whatever its alignment.
        largest: u64,
    },
    /// There are more than [`MAX_SPANS`] pieces of RAM or allocated spans.
    #[error("too many spans of memory")]
    TooManySpans,
    /// This span, which was to be freed, was not allocated.
    #[error("{:#x} bytes at {:#x} were not allocated", .0.len(), .0.start().get())]
    NotAllocated(Span<Hpa>),
}

/// The free and the allocated spans of a board's RAM.
#[derive(Clone, Debug, Default)]
pub struct FrameMap {
    /// All that can be allocated. Sorted; no two touch.
    all: Vec<Span<Hpa>, MAX_SPANS>,
    /// What of it is free. Sorted; no two touch.
    free: Vec<Span<Hpa>, MAX_SPANS>,
}

/// The addresses that equal `residue` modulo `modulus`, a power of two.
#[derive(Clone, Copy)]
struct Lattice {
    modulus: u64,
    residue: u64,
}

impl Lattice {
    /// The lowest address of the lattice that is `address` or above.
    fn up(self, address: Hpa) -> Option<Hpa> {
        let gap = self.residue.wrapping_sub(address.get()) & (self.modulus - 1);
        address.checked_add(gap)
    }

    /// The highest address of the lattice that is `address` or below.
    fn down(self, address: Hpa) -> Option<Hpa> {
        let gap = address.get().wrapping_sub(self.residue) & (self.modulus - 1);
        address.get().checked_sub(gap).map(Hpa::new)
    }
}

/// The cost of a placement, the most important part first: the large blocks that are cut, the
/// medium ones that are cut, the size of the hole (the smallest is best) and the address (the
/// lowest is best).
type Cost = (u64, u64, u64, Hpa);

impl FrameMap {
    /// A map of all of `ram` except `reserved`, in whole pages: a page that is RAM only in part is
    /// not used, and a page that is reserved in part is reserved. Spans of `ram` may touch and
    /// overlap.
    pub fn new(ram: &[Span<Hpa>], reserved: &[Span<Hpa>]) -> Result<Self, MemoryError> {
        let mut map = Self::default();
        for span in ram {
            if let Some(pages) = shrink(*span, PAGE_SIZE) {
                withdraw(&mut map.free, pages)?;
                insert(&mut map.free, pages)?;
            }
        }
        for span in reserved {
            if let Some(pages) = grow(*span, PAGE_SIZE) {
                withdraw(&mut map.free, pages)?;
            }
        }
        map.all = map.free.clone();
        Ok(map)
    }

    /// Allocates `len` bytes, rounded up to pages, at a multiple of `align`, a power of two (an
    /// alignment of less than a page means a page). Of all places, the best is the one that cuts
    /// the fewest aligned 1 GiB blocks, then 2 MiB blocks, in the smallest hole.
    pub fn allocate(&mut self, len: u64, align: u64) -> Result<Span<Hpa>, MemoryError> {
        if !align.is_power_of_two() {
            return Err(MemoryError::BadAlignment(align));
        }
        let lattice = Lattice {
            modulus: align.max(PAGE_SIZE),
            residue: 0,
        };
        self.allocate_on(self.rounded(len)?, lattice)
    }

    /// Allocates `len` bytes, rounded up to pages, for a guest that has them at `ipa`. The host
    /// address equals `ipa` modulo 1 GiB if the guest's range contains an aligned 1 GiB block and
    /// such a place is free; else modulo 2 MiB under the same conditions; else modulo a page.
    pub fn allocate_for_guest(&mut self, len: u64, ipa: Ipa) -> Result<Span<Hpa>, MemoryError> {
        let len = self.rounded(len)?;
        let guest = Span::new(Hpa::new(ipa.get()), len).ok_or(self.no_hole())?;
        let mut done = Err(self.no_hole());
        for modulus in [GIB, MIB2, PAGE_SIZE] {
            if done == Err(self.no_hole()) && blocks(guest, modulus) > 0 {
                let residue = ipa.get() & (modulus - 1);
                done = self.allocate_on(len, Lattice { modulus, residue });
            }
        }
        done
    }

    /// Gives back what was allocated, or whole pages of it.
    pub fn free(&mut self, span: Span<Hpa>) -> Result<(), MemoryError> {
        let pages = shrink(span, PAGE_SIZE) == Some(span);
        let known = pages && self.all.iter().any(|all| all.covers(&span));
        if !known || self.free.iter().any(|free| free.overlaps(&span)) {
            return Err(MemoryError::NotAllocated(span));
        }
        insert(&mut self.free, span)
    }

    /// The free spans in ascending order.
    pub fn free_spans(&self) -> &[Span<Hpa>] {
        &self.free
    }

    /// All memory, free or allocated, lowest first.
    pub fn all_spans(&self) -> &[Span<Hpa>] {
        &self.all
    }

    /// The number of free bytes.
    pub fn free_bytes(&self) -> u64 {
        self.free.iter().map(Span::len).sum()
    }

    fn no_hole(&self) -> MemoryError {
        let largest = self.free.iter().map(Span::len).max().unwrap_or(0);
        MemoryError::NoHole { largest }
    }

    fn rounded(&self, len: u64) -> Result<u64, MemoryError> {
        match len.checked_next_multiple_of(PAGE_SIZE) {
            Some(0) => Err(MemoryError::Empty),
            Some(pages) => Ok(pages),
            None => Err(self.no_hole()),
        }
    }

    fn allocate_on(&mut self, len: u64, lattice: Lattice) -> Result<Span<Hpa>, MemoryError> {
        let span = self.best(len, lattice).ok_or(self.no_hole())?;
        withdraw(&mut self.free, span)?;
        Ok(span)
    }

    /// The place with the least cost. In each hole only the lowest and the highest place are
    /// examined, since the others would split the hole more often.
    fn best(&self, len: u64, lattice: Lattice) -> Option<Span<Hpa>> {
        let places = self.free.iter().flat_map(|hole| {
            let low = lattice.up(hole.start());
            let last = hole.end().get().checked_sub(len).map(Hpa::new);
            let high = last.and_then(|start| lattice.down(start));
            [low, high].map(|start| priced(*hole, Span::new(start?, len)?))
        });
        places
            .flatten()
            .min_by_key(|(cost, _)| *cost)
            .map(|(_, span)| span)
    }
}

/// Takes `taken` out of `spans`, wherever it meets them.
fn withdraw(spans: &mut Vec<Span<Hpa>, MAX_SPANS>, taken: Span<Hpa>) -> Result<(), MemoryError> {
    let mut left = Vec::new();
    let pieces = spans.iter().flat_map(|span| subtract(*span, taken));
    for piece in pieces.flatten() {
        left.push(piece).map_err(|_| MemoryError::TooManySpans)?;
    }
    *spans = left;
    Ok(())
}

/// Adds `span`, of which `spans` have nothing, and joins it with what it touches.
fn insert(spans: &mut Vec<Span<Hpa>, MAX_SPANS>, span: Span<Hpa>) -> Result<(), MemoryError> {
    let at = spans.partition_point(|other| other.end() < span.start());
    let mut joined = span;
    while let Some(other) = spans.get(at).filter(|o| o.start() <= joined.end()) {
        let start = joined.start().min(other.start());
        let end = joined.end().max(other.end());
        joined = between(start, end).unwrap_or(joined);
        spans.remove(at);
    }
    spans
        .insert(at, joined)
        .map_err(|_| MemoryError::TooManySpans)
}

/// The cost of taking `span` out of `hole`; `None` if `span` is not inside.
fn priced(hole: Span<Hpa>, span: Span<Hpa>) -> Option<(Cost, Span<Hpa>)> {
    if !hole.covers(&span) {
        return None;
    }
    let cut = |size| {
        let left = subtract(hole, span).into_iter().flatten();
        blocks(hole, size) - left.map(|rest| blocks(rest, size)).sum::<u64>()
    };
    Some(((cut(GIB), cut(MIB2), hole.len(), span.start()), span))
}
