//! Products of two 64-bit values, divided, without a 128-bit division where there is no need:
//! that is a call of a hundred instructions on every target.

/// `a * b / c`, rounded down; `c` is not zero (it counts as one). At most [`u64::MAX`].
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

/// Fractions of a CPU have so many bits, as many as Linux gives them: a budget of 2^44 ticks,
/// hours of any counter, times a fraction is a 64-bit value.
pub(crate) const FRACTION_BITS: u32 = 20;

/// A whole CPU.
pub(crate) const WHOLE: u64 = 1 << FRACTION_BITS;

/// `budget / period` of a CPU, rounded up.
pub(crate) fn fraction(budget: u64, period: u64) -> u64 {
    let scaled = u128::from(budget) << FRACTION_BITS;
    let up = scaled.div_ceil(u128::from(period.max(1)));
    u64::try_from(up).unwrap_or(u64::MAX)
}
