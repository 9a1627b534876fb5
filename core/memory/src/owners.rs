//! The owner of each frame, from the end of boot on.
//!
//! The owners are a sorted list of spans, without a heap: at boot there is a handful of spans, and a page
//! that goes to another owner adds two at most. A frame changes its owner by [`Owners::hand_over`] alone,
//! whose caller names the former owner. Where that is wrong, the caller gets an error and nothing changes.
//!
//! Kept true: spans do not overlap, so that each frame has exactly one owner; two spans that touch have
//! different owners; together the spans are always the RAM less what was reserved.
//!
//! Rejected: a byte for each frame (a megabyte for each 4 GiB of RAM, of which a system whose VMs keep
//! their memory uses a hundred bytes).

use crate::spans::{between, subtract};
use crate::{FrameMap, MAX_SPANS};
use hanok_types::{Address, Hpa, PAGE_SIZE, Span, VmId};
use heapless::Vec;
use thiserror::Error;

/// Spans of one owner each, at most: those of a board at boot, free or not, and two for each of 64 pages
/// that are elsewhere.
pub const MAX_OWNED: usize = 3 * MAX_SPANS + 128;

/// The owner of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The frame is free.
    Free,
    /// The hypervisor: the frame holds its data, stacks and tables, or what it keeps for VMs.
    Hypervisor,
    /// A VM: the frame is of its RAM, or of its firmware.
    Vm(VmId),
}

/// Why frames were not handed over. Their owners are what they were before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OwnerError {
    /// Some of the frames are not owned by the owner that was named.
    #[error("{:#x} bytes at {:#x} have another owner", .0.len(), .0.start().get())]
    NotTheirs(Span<Hpa>),
    /// The span is not of whole pages.
    #[error("{:#x} bytes at {:#x} are no whole pages", .0.len(), .0.start().get())]
    Misaligned(Span<Hpa>),
    /// There is no room for more spans.
    #[error("memory is in too many pieces")]
    TooManySpans,
}

type Owned = (Span<Hpa>, Owner);

/// The owner of each frame; by default no frame has one.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    /// Sorted.
    spans: Vec<Owned, MAX_OWNED>,
}

impl Owners {
    /// The owners as boot leaves them: what was allocated is the hypervisor's, the rest is free.
    pub fn new(map: &FrameMap) -> Result<Self, OwnerError> {
        let mut owners = Self { spans: Vec::new() };
        for span in map.all_spans() {
            owners.insert(*span, Owner::Hypervisor)?;
        }
        for span in map.free_spans() {
            owners.hand_over(*span, Owner::Hypervisor, Owner::Free)?;
        }
        Ok(owners)
    }

    /// The owner of the frame with this address; `None` where there is no RAM, or it was reserved.
    pub fn owner(&self, at: Hpa) -> Option<Owner> {
        let (span, owner) = self.spans.get(self.first_behind(at).checked_sub(1)?)?;
        span.contains(at).then_some(*owner)
    }

    /// Makes `to` the owner of the frames of `span`, which are all owned by `from`.
    pub fn hand_over(&mut self, span: Span<Hpa>, from: Owner, to: Owner) -> Result<(), OwnerError> {
        if !span.start().is_aligned(PAGE_SIZE) || !span.end().is_aligned(PAGE_SIZE) {
            return Err(OwnerError::Misaligned(span));
        }
        let index = self.first_behind(span.start()).checked_sub(1);
        let index = index.ok_or(OwnerError::NotTheirs(span))?;
        let (whole, owner) = *self.spans.get(index).ok_or(OwnerError::NotTheirs(span))?;
        if owner != from || span.is_empty() || !whole.covers(&span) {
            return Err(OwnerError::NotTheirs(span));
        }
        // The list becomes longer by two spans at most.
        if self.spans.len() + 2 > MAX_OWNED {
            return Err(OwnerError::TooManySpans);
        }
        self.spans.remove(index);
        for rest in subtract(whole, span).into_iter().flatten() {
            self.insert(rest, from)?;
        }
        self.insert(span, to)
    }

    /// The spans of one owner, lowest first.
    pub fn of(&self, owner: Owner) -> impl Iterator<Item = Span<Hpa>> {
        let theirs = self.spans.iter().filter(move |(_, of)| *of == owner);
        theirs.map(|(span, _)| *span)
    }

    /// The index of the first span that begins behind `at`.
    fn first_behind(&self, at: Hpa) -> usize {
        self.spans.partition_point(|(span, _)| span.start() <= at)
    }

    /// Adds a span that is not in the list, and joins it with the spans of the same owner that it touches.
    fn insert(&mut self, span: Span<Hpa>, owner: Owner) -> Result<(), OwnerError> {
        let mut index = self.first_behind(span.start());
        let mut joined = span;
        if let Some((before, of)) = index.checked_sub(1).and_then(|at| self.spans.get(at))
            && *of == owner
            && before.end() == span.start()
        {
            joined = between(before.start(), span.end()).unwrap_or(span);
            index -= 1;
            self.spans.remove(index);
        }
        if let Some((behind, of)) = self.spans.get(index)
            && *of == owner
            && behind.start() == span.end()
        {
            joined = between(joined.start(), behind.end()).unwrap_or(joined);
            self.spans.remove(index);
        }
        self.spans
            .insert(index, (joined, owner))
            .map_err(|_| OwnerError::TooManySpans)
    }
}
