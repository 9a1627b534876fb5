//! Sizes: `"512M"`, `"2G"`.

/// The bytes that `text` means: a number and K, M or G, which are powers of 1024; a following `iB`
/// or `B` changes nothing. `None` for anything else, zero or too much.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start() {
        "K" | "KB" | "KiB" => 10,
        "M" | "MB" | "MiB" => 20,
        "G" | "GB" | "GiB" => 30,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(1 << shift).filter(|size| *size > 0)
}

/// `size` bytes in the largest unit that leaves a whole number, or rounded up to MiB.
pub(crate) fn show(size: u64) -> String {
    let units = [(30, 'G'), (20, 'M'), (10, 'K')];
    let whole = units
        .into_iter()
        .find(|(shift, _)| size > 0 && size.is_multiple_of(1 << shift));
    match whole {
        Some((shift, unit)) if size >> shift < 1 << 14 => format!("{}{unit}", size >> shift),
        _ if size >= 1 << 20 => format!("{}M", size.div_ceil(1 << 20)),
        _ => format!("{size} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit() {
        assert_eq!(parse("512M"), Some(512 << 20));
        assert_eq!(parse("2 GiB"), Some(2 << 30));
        for bad in [
            "",
            "512",
            "0M",
            "-1M",
            "1.5G",
            "1T",
            "M",
            "99999999999G",
            "1 M M",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_as_they_would_be_written() {
        assert_eq!(show(512 << 20), "512M");
        assert_eq!(show(3 << 30), "3G");
        assert_eq!(show(0x12_3456), "2M");
        assert_eq!(show(100), "100 bytes");
    }
}
