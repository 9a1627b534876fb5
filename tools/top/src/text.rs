//! Text for people: names, times, numbers.

/// `text` of a board, with what is no plain character shown as a code: `\x1b`. A mark that turns the
/// direction of writing is one, too.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        if character.is_control() || turns(character) {
            shown += &format!("\\x{:02x}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether a character changes the direction of what follows, or is invisible.
const fn turns(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A time in the largest unit that leaves a whole number, as descriptions have it; with at most three
/// decimals where that number would be long.
pub fn time(nanos: u64) -> String {
    let units = [
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let fits = |(size, _): &&(u64, &str)| nanos >= *size;
    let (size, unit) = units.iter().find(fits).copied().unwrap_or((1, "ns"));
    let thousandths = u128::from(nanos) * 1000 / u128::from(size);
    let decimals = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    let short = decimals.trim_end_matches('0').trim_end_matches('.');
    format!("{short}{unit}")
}

/// A time that a person typed: a number and a unit, `1.5ms`; without a unit, milliseconds.
pub fn parse_time(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let size: u64 = match unit.trim() {
        "s" => 1_000_000_000,
        "" | "ms" => 1_000_000,
        "us" | "µs" => 1_000,
        "ns" => 1,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() || part.len() > 9 {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let digits = u32::try_from(part.len()).ok()?;
    let part: u64 = if part.is_empty() {
        0
    } else {
        part.parse().ok()?
    };
    let scale = 10_u64.pow(digits);
    let part = part.checked_mul(size)?;
    // A part of a nanosecond is no time.
    if part % scale != 0 {
        return None;
    }
    whole.checked_mul(size)?.checked_add(part / scale)
}

/// A share as a percentage that is four characters wide at least.
pub fn percent(share: f64) -> String {
    // Adding zero turns the negative zero of an empty sum into a positive one.
    format!("{:.1}", (share * 100.0).clamp(0.0, 99_999.0) + 0.0)
}

/// A number with at most four digits and a unit: `12.3k`.
pub fn number(value: f64) -> String {
    match value {
        value if !value.is_finite() || value < 0.05 => "0".to_owned(),
        value if value < 10.0 => format!("{value:.1}"),
        value if value < 10_000.0 => format!("{value:.0}"),
        value if value < 1e7 => format!("{:.0}k", value / 1e3),
        value if value < 1e10 => format!("{:.0}M", value / 1e6),
        value if value < 1e13 => format!("{:.0}G", value / 1e9),
        value => format!("{value:.0e}"),
    }
}

/// A total with at most five digits and a unit.
pub fn total(value: u64) -> String {
    if value < 10_000 {
        value.to_string()
    } else {
        number(value as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_what_is_shown() {
        for (text, nanos) in [
            ("1.5ms", 1_500_000),
            ("10ms", 10_000_000),
            ("7ns", 7),
            ("250us", 250_000),
            ("2s", 2_000_000_000),
        ] {
            assert_eq!(parse_time(text), Some(nanos), "{text}");
            assert_eq!(time(nanos), text);
        }
        assert_eq!(parse_time(" 5 "), Some(5_000_000));
        assert_eq!(parse_time(".5us"), Some(500));
        assert_eq!(time(1_234_567), "1.234ms");
        assert_eq!(time(0), "0ns");
        for wrong in [
            "",
            ".",
            "x",
            "1h",
            "-1ms",
            "1.5ns",
            "1e9",
            "99999999999999s",
            "1.2.3",
        ] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_name_is_text_alone() {
        assert_eq!(shown("a\x1b[31mb\u{202e}\n"), "a\\x1b[31mb\\x202e\\x0a");
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.0, 3.25, 999.6, 12_345.0, 5e7, 2e11, f64::NAN].map(number);
        assert_eq!(all, ["0", "3.2", "1000", "12k", "50M", "200G", "0"]);
        assert_eq!(total(u64::MAX), "2e19");
        assert_eq!(percent(0.123), "12.3");
        assert_eq!(percent(-0.0), "0.0");
    }
}
