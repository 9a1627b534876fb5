//! Arithmetic of spans: differences, and the blocks within one.

use hanok_types::{Address, Hpa, Span};

/// From `start` to `end`; `None` where that is empty or backwards.
pub(crate) fn between(start: Hpa, end: Hpa) -> Option<Span<Hpa>> {
    let len = end.get().checked_sub(start.get())?;
    Span::new(start, len).filter(|span| !span.is_empty())
}

/// What of `span` lies before and after `hole`.
pub(crate) fn subtract(span: Span<Hpa>, hole: Span<Hpa>) -> [Option<Span<Hpa>>; 2] {
    if !span.overlaps(&hole) {
        return [Some(span), None];
    }
    [
        between(span.start(), hole.start()),
        between(hole.end(), span.end()),
    ]
}

/// Rounded inwards to multiples of `align`; `None` where nothing is left.
pub(crate) fn shrink(span: Span<Hpa>, align: u64) -> Option<Span<Hpa>> {
    between(span.start().align_up(align)?, span.end().align_down(align))
}

/// Rounded outwards to multiples of `align`, at the top of the address space as far as
/// that goes; `None` for an empty one.
pub(crate) fn grow(span: Span<Hpa>, align: u64) -> Option<Span<Hpa>> {
    if span.is_empty() {
        return None;
    }
    let top = Hpa::new(u64::MAX).align_down(align);
    let end = span.end().align_up(align).unwrap_or(top);
    between(span.start().align_down(align), end)
}

/// How many aligned blocks of `size` lie within.
pub(crate) fn blocks(span: Span<Hpa>, size: u64) -> u64 {
    shrink(span, size).map_or(0, |inner| inner.len() / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_that_are_aligned_and_whole() {
        let span = between(Hpa::new(0x1fff), Hpa::new(0x8001)).expect("it is not empty");
        let counts = [0x1000, 0x2000, 0x4000, 0x8000].map(|size| blocks(span, size));
        assert_eq!(counts, [6, 3, 1, 0]);
    }
}
