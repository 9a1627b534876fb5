//! Products of two 64-bit values, divided by a third. A 128-bit division is avoided if it is not
//! needed: on every target it is a call of a hundred instructions.

/// `a * b / c`, rounded down, and at most [`u64::MAX`]. A `c` of zero counts as one.
pub(crate) fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    let c = c.max(1);
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => {
            let quotient = u128::from(a) * u128::from(b) / u128::from(c);
            u64::try_from(quotient).unwrap_or(u64::MAX)
        }
    }
}

/// The number of bits in a fraction of a CPU, the same as in Linux. With it, a budget of up to 2^44
/// ticks, which is hours of any counter, times a fraction is a 64-bit value.
pub(crate) const FRACTION_BITS: u32 = 20;

/// The fraction that is a whole CPU.
pub(crate) const WHOLE: u64 = 1 << FRACTION_BITS;

/// `budget / period` as a fraction of a CPU, rounded up.
pub(crate) fn fraction(budget: u64, period: u64) -> u64 {
    let scaled = u128::from(budget) << FRACTION_BITS;
    let up = scaled.div_ceil(u128::from(period.max(1)));
    u64::try_from(up).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether `q` is the largest number with `q * c <= a * b`, or the largest that fits.
    fn is_quotient(q: u64, a: u64, b: u64, c: u64) -> bool {
        let (product, c) = (u128::from(a) * u128::from(b), u128::from(c.max(1)));
        let low = u128::from(q) * c;
        let next = low + c;
        low <= product && (product < next || q == u64::MAX)
    }

    #[test]
    fn products_beyond_64_bits_are_divided_too() {
        let edges = [
            0,
            1,
            2,
            3,
            1 << 31,
            (1 << 32) - 1,
            1 << 32,
            (1 << 32) + 1,
            1 << 63,
        ];
        let edges = edges.into_iter().chain([u64::MAX - 1, u64::MAX]);
        for a in edges.clone() {
            for b in edges.clone() {
                for c in edges.clone() {
                    assert!(is_quotient(mul_div(a, b, c), a, b, c), "{a} * {b} / {c}");
                }
            }
        }
        assert_eq!(mul_div(u64::MAX, 6, 3), u64::MAX);
        assert_eq!(mul_div(u64::MAX, 3, 6), u64::MAX / 2);
    }

    proptest! {
        #[test]
        fn any_product_is_divided(a in any::<u64>(), b in any::<u64>(), c in any::<u64>(), shift in 0..64) {
            let c = c >> shift;
            prop_assert!(is_quotient(mul_div(a, b, c), a, b, c));
        }
    }
}
