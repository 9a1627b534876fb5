//! Times: `"500us"`, `"10ms"`, `"1s"`.

/// The microseconds that `text` means: a number and `us`, `ms` or `s`. `None` for anything
/// else, zero or too much.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim_start() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(factor).filter(|time| *time > 0)
}

/// The nanoseconds that `text` means: a number and `ns`, `us`, `ms` or `s`. `None` for
/// anything else, or too much for 64 bits.
pub(crate) fn parse_nanos(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim_start() {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
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
        for bad in [
            "",
            "10",
            "0ms",
            "-1ms",
            "1.5ms",
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
        assert_eq!(parse_nanos("18446744073709551615ns"), Some(u64::MAX));
        for bad in ["", "7", "ns", "-1ns", "1.5us", "99999999999s", "1h"] {
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
