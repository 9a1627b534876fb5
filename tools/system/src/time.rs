//! Times: `"500us"`, `"10ms"`, `"1.5s"`.

/// The microseconds that `text` means: a number and `us`, `ms` or `s`. `None` for anything
/// else, zero, no whole number of microseconds, or too much.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let factor = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return None,
    };
    decimal(number, factor).filter(|time| *time > 0)
}

/// The nanoseconds that `text` means: a number and `ns`, `us`, `ms` or `s`. `None` for
/// anything else, no whole number of nanoseconds, or too much for 64 bits.
pub fn parse_nanos(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    let factor = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    decimal(number, factor)
}

/// Splits `text` into the number in front and the unit.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    (number, unit.trim_start())
}

/// `number`, which may have digits behind a point, times `factor`. `None` where that is no whole
/// number or does not fit.
pub(crate) fn decimal(number: &str, factor: u64) -> Option<u64> {
    let (before, behind) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    if !digits(before) || !digits(behind) {
        return None;
    }
    let behind = behind.trim_end_matches('0');
    let places = 10u64.checked_pow(u32::try_from(behind.len()).ok()?)?;
    let parts = match behind {
        "" => 0,
        behind => behind.parse::<u64>().ok()?.checked_mul(factor)?,
    };
    let whole = before.parse::<u64>().ok()?.checked_mul(factor)?;
    match parts % places {
        0 => whole.checked_add(parts / places),
        _ => None,
    }
}

/// `micros` in the largest unit that leaves a whole number.
pub(crate) fn show(micros: u64) -> String {
    let units = [(1_000_000, "s"), (1_000, "ms"), (1, "us")];
    let whole = units
        .into_iter()
        .find(|(factor, _)| micros.is_multiple_of(*factor));
    let (factor, unit) = whole.unwrap_or((1, "us"));
    format!("{}{unit}", micros / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(parse("500us"), Some(500));
        assert_eq!(parse("10 ms"), Some(10_000));
        assert_eq!(parse("1s"), Some(1_000_000));
        assert_eq!(parse("1.5ms"), Some(1_500));
        assert_eq!(parse("0.25 s"), Some(250_000));
        for bad in [
            "",
            "10",
            "0ms",
            "-1ms",
            "1.5us",
            "1.ms",
            ".5ms",
            "1.5.0ms",
            "ms",
            "1m",
            "99999999999999999999s",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_schedule_s_times_go_down_to_nanoseconds() {
        assert_eq!(parse_nanos("0ns"), Some(0));
        assert_eq!(parse_nanos("800 ns"), Some(800));
        assert_eq!(parse_nanos("250us"), Some(250_000));
        assert_eq!(parse_nanos("1.5us"), Some(1_500));
        assert_eq!(parse_nanos("0.000000001s"), Some(1));
        assert_eq!(parse_nanos("18446744073.709551615s"), Some(u64::MAX));
        assert_eq!(parse_nanos("18446744073709551615ns"), Some(u64::MAX));
        for bad in ["", "7", "ns", "-1ns", "1.5ns", "99999999999s", "1h", ".5us"] {
            assert_eq!(parse_nanos(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_shown_as_they_would_be_written() {
        for text in ["500us", "10ms", "1s", "1500us"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }
}
