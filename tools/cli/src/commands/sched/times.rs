//! Times for people.
//!
//! A description's times are shown as they are written there, `Nanos` in the largest unit that
//! leaves a whole number. The result of a simulation may be any number, such as `12000520us`, whose
//! digits a reader would have to count.

/// `nanos` nanoseconds, exactly, in the largest unit of which it has at least one: `12.00052 s`.
pub fn readable(nanos: u64) -> String {
    let units = [(9, "s"), (6, "ms"), (3, "us"), (0, "ns")];
    let fits = |(digits, _): &(usize, &str)| nanos >= power(*digits);
    let (digits, unit) = units.into_iter().find(fits).unwrap_or((0, "ns"));
    let (whole, rest) = (nanos / power(digits), nanos % power(digits));
    match rest {
        0 => format!("{whole} {unit}"),
        rest => {
            let decimals = format!("{rest:0digits$}");
            format!("{whole}.{} {unit}", decimals.trim_end_matches('0'))
        }
    }
}

fn power(digits: usize) -> u64 {
    (0..digits).fold(1, |power, _| power * 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_exact_and_has_its_largest_unit() {
        for (nanos, text) in [
            (0, "0 ns"),
            (7, "7 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (13_500_000, "13.5 ms"),
            (1_000_001, "1.000001 ms"),
            (999_999_999, "999.999999 ms"),
            (12_000_520_000, "12.00052 s"),
            (40_000_500_000, "40.0005 s"),
            (u64::MAX, "18446744073.709551615 s"),
        ] {
            assert_eq!(readable(nanos), text);
        }
    }
}
