//! Arithmetic of spans: differences, and the blocks inside a span.

use hanok_types::{Address, Hpa, Span};

/// The span from `start` to `end`; `None` if it is empty or `end` is before `start`.
pub(crate) fn between(start: Hpa, end: Hpa) -> Option<Span<Hpa>> {
    let len = end.get().checked_sub(start.get())?;
    Span::new(start, len).filter(|span| !span.is_empty())
}

/// The parts of `span` before and after `hole`.
pub(crate) fn subtract(span: Span<Hpa>, hole: Span<Hpa>) -> [Option<Span<Hpa>>; 2] {
    if !span.overlaps(&hole) {
        return [Some(span), None];
    }
    [
        between(span.start(), hole.start()),
        between(hole.end(), span.end()),
    ]
}

/// `span` shrunk to multiples of `align`; `None` if nothing is left.
pub(crate) fn shrink(span: Span<Hpa>, align: u64) -> Option<Span<Hpa>> {
    between(span.start().align_up(align)?, span.end().align_down(align))
}

/// `span` grown to multiples of `align`, as far as the address space goes; `None` if `span` is
/// empty.
pub(crate) fn grow(span: Span<Hpa>, align: u64) -> Option<Span<Hpa>> {
    if span.is_empty() {
        return None;
    }
    let top = Hpa::new(u64::MAX).align_down(align);
    let end = span.end().align_up(align).unwrap_or(top);
    between(span.start().align_down(align), end)
}

/// The number of aligned blocks of `size` inside `span`.
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
