//! Times as people write them: `10ms`, `1.5ms`, `250us`, `1s`; a number alone is of nanoseconds.

use alloc::format;
use alloc::string::String;

const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];
/// Longer times are of no task.
const LONGEST: u64 = 3_600_000_000_000;

/// Reads a time, in nanoseconds; none if it is not written as one, is no whole number of nanoseconds or longer than an
/// hour.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    let unit = text.get(digits.len()..)?;
    let unit = match unit {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if digits.ends_with('.') {
        return None;
    }
    let time = number(whole)?
        .checked_mul(unit)?
        .checked_add(fraction(part, unit)?)?;
    (time <= LONGEST).then_some(time)
}

/// A decimal number without a sign.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// The places behind the point, of a unit.
fn fraction(places: &str, mut unit: u64) -> Option<u64> {
    let mut sum = 0;
    for place in places.bytes() {
        if !place.is_ascii_digit() || !unit.is_multiple_of(10) {
            return None;
        }
        unit /= 10;
        sum += u64::from(place - b'0') * unit;
    }
    Some(sum)
}

/// Shows a time in the largest unit of which it is a whole number.
pub fn show(time: u64) -> String {
    let whole = |(_, unit): &&(&str, u64)| time.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().rev().find(whole).unwrap_or(&UNITS[0]);
    match time {
        0 => "0ns".into(),
        _ => format!("{}{name}", time / unit),
    }
}
