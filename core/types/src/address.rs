//! Address newtypes and ranges of them.

use core::fmt;

/// What all kinds of addresses have in common. Only the newtypes of this module implement it.
pub trait Address: Copy + Ord + fmt::Debug {
    /// The address with this number.
    fn new(raw: u64) -> Self;
    /// The address as a number.
    fn get(self) -> u64;

    /// `self + bytes`; `None` if the sum needs more than 64 bits.
    fn checked_add(self, bytes: u64) -> Option<Self> {
        self.get().checked_add(bytes).map(Self::new)
    }

    /// The address rounded down to a multiple of `align`, a power of two.
    fn align_down(self, align: u64) -> Self {
        Self::new(self.get() & !(align - 1))
    }

    /// The address rounded up to a multiple of `align`, a power of two; `None` if that needs more
    /// than 64 bits.
    fn align_up(self, align: u64) -> Option<Self> {
        self.get()
            .checked_add(align - 1)
            .map(|raw| Self::new(raw & !(align - 1)))
    }

    /// Whether the address is a multiple of `align`, a power of two.
    fn is_aligned(self, align: u64) -> bool {
        self.get() & (align - 1) == 0
    }
}

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The address with this number.
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// The address as a number.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl Address for $name {
            fn new(raw: u64) -> Self {
                Self(raw)
            }

            fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }
    };
}

address! {
    /// A host-physical address: an address on the board's bus.
    Hpa
}
address! {
    /// An intermediate physical address: what a guest takes for a physical address.
    Ipa
}
address! {
    /// A guest-virtual address, which the guest's own stage 1 translates.
    Gva
}
address! {
    /// A virtual address of the hypervisor, which its own stage 1 translates.
    Hva
}

/// A range of addresses from `start`, inclusive, to `start + len`, exclusive. It never wraps
/// around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span<A> {
    start: A,
    len: u64,
}

impl<A: Address> Span<A> {
    /// The `len` bytes from `start`; `None` if the last byte's address needs more than 64 bits.
    pub fn new(start: A, len: u64) -> Option<Self> {
        start.get().checked_add(len).map(|_| Self { start, len })
    }

    /// The first address.
    pub fn start(&self) -> A {
        self.start
    }

    /// The first address after the range.
    pub fn end(&self) -> A {
        A::new(self.start.get() + self.len)
    }

    /// The length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the range has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `address` is in the range.
    pub fn contains(&self, address: A) -> bool {
        self.offset_of(address).is_some()
    }

    /// The distance of `address` from the start, in bytes; `None` if it is outside.
    pub fn offset_of(&self, address: A) -> Option<u64> {
        address
            .get()
            .checked_sub(self.start.get())
            .filter(|offset| *offset < self.len)
    }

    /// Whether all of `other` is in the range. An empty one is if its start is.
    pub fn covers(&self, other: &Self) -> bool {
        other.start >= self.start && other.end() <= self.end()
    }

    /// Whether the two ranges share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end() && other.start < self.end() && self.len > 0 && other.len > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, len: u64) -> Span<Ipa> {
        Span::new(Ipa::new(start), len).unwrap()
    }

    #[test]
    fn a_span_that_wraps_is_refused() {
        assert!(Span::new(Ipa::new(u64::MAX), 2).is_none());
        assert!(Span::new(Ipa::new(u64::MAX), 0).is_some());
    }

    #[test]
    fn neighbours_do_not_overlap() {
        assert!(!span(0, 0x1000).overlaps(&span(0x1000, 0x1000)));
        assert!(span(0, 0x1001).overlaps(&span(0x1000, 0x1000)));
        assert!(!span(0x1000, 0).overlaps(&span(0, 0x4000)));
    }

    #[test]
    fn the_end_is_outside() {
        assert_eq!(span(0x1000, 0x10).offset_of(Ipa::new(0x100f)), Some(15));
        assert_eq!(span(0x1000, 0x10).offset_of(Ipa::new(0x1010)), None);
        assert_eq!(span(0x1000, 0x10).offset_of(Ipa::new(0xfff)), None);
    }

    #[test]
    fn alignment_goes_to_the_multiple_beside() {
        for at in [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, u64::MAX - 0xfff] {
            let below = Hpa::new(at).align_down(0x1000).get();
            assert!(
                below <= at && at - below < 0x1000 && below.is_multiple_of(0x1000),
                "{at:#x}"
            );
            let above = Hpa::new(at).align_up(0x1000).unwrap().get();
            assert!(
                above >= at && above - at < 0x1000 && above.is_multiple_of(0x1000),
                "{at:#x}"
            );
        }
    }

    #[test]
    fn align_up_at_the_top_is_none() {
        assert_eq!(Hpa::new(u64::MAX).align_up(4096), None);
        assert_eq!(Hpa::new(1).align_up(4096), Some(Hpa::new(4096)));
    }

    /// Every pair of small ranges, compared byte by byte.
    #[test]
    fn ranges_relate_as_their_bytes_do() {
        let all = || (0..7u64).flat_map(|start| (0..5).map(move |len| (start, len)));
        for (start, len) in all() {
            let one = span(start, len);
            let has = |at: u64| at >= start && at < start + len;
            assert_eq!((one.start().get(), one.len()), (start, len));
            assert_eq!((one.end().get(), one.is_empty()), (start + len, len == 0));
            for at in 0..12 {
                assert_eq!(one.contains(Ipa::new(at)), has(at), "{one:?} {at}");
                let offset = has(at).then(|| at - start);
                assert_eq!(one.offset_of(Ipa::new(at)), offset, "{one:?} {at}");
            }
            for (other_start, other_len) in all() {
                let other = span(other_start, other_len);
                let mut bytes = other_start..other_start + other_len;
                assert_eq!(
                    one.overlaps(&other),
                    bytes.clone().any(has),
                    "{one:?} {other:?}"
                );
                let covers = match other_len {
                    // The end of a range is a place for an empty range, too.
                    0 => other_start >= start && other_start <= start + len,
                    _ => bytes.all(has),
                };
                assert_eq!(one.covers(&other), covers, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn only_multiples_are_aligned() {
        for at in 0..64 {
            for align in [1, 2, 8, 32] {
                let aligned = at % align == 0;
                assert_eq!(Gva::new(at).is_aligned(align), aligned, "{at} {align}");
            }
        }
        assert_eq!(Hva::new(5).checked_add(3), Some(Hva::new(8)));
        assert_eq!(Hva::new(5).checked_add(u64::MAX - 4), None);
    }
}
