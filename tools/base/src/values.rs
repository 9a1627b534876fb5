//! The values of options. An error says what would be accepted, with an example. (The messages of
//! `str::parse` do not.)

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// The result of a value parser.
type Parsed<T> = Result<T, String>;

/// A whole number within `range`; `what` is what is counted, and `example` is an example of the
/// option.
pub fn whole<T: FromStr + PartialOrd + Display + Clone>(
    range: RangeInclusive<T>,
    what: &'static str,
    example: &'static str,
) -> impl Fn(&str) -> Parsed<T> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("{what} is a whole number from {least} to {most}, such as {example}")
        })
    }
}

/// A board's number of cores.
pub fn cores(text: &str) -> Parsed<u64> {
    let cores = text.parse().ok().filter(|cores| *cores > 0);
    cores.ok_or_else(|| {
        "a board has a whole number of cores, at least one, such as --cores 4; `hanok boards` says how \
         many it may have"
            .to_owned()
    })
}

/// A size in bytes: `512M`, `2G`, `1048576`.
pub fn size(text: &str) -> Parsed<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..].to_ascii_lowercase()[..] {
        "" => Some(0),
        "k" | "kb" | "kib" => Some(10),
        "m" | "mb" | "mib" => Some(20),
        "g" | "gb" | "gib" => Some(30),
        _ => None,
    };
    let whole = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    match shift {
        Some(shift) if whole => {
            let number: Option<u64> = digits.parse().ok();
            let bytes = number.and_then(|number| number.checked_mul(1 << shift));
            bytes.ok_or_else(|| "that is more than 64 bits hold; a size is such as 2G".to_owned())
        }
        _ => {
            Err("a size is a whole number with K, M or G behind it, such as 512M or 2G".to_owned())
        }
    }
}

/// The longest time in seconds, some 30 years: beyond what the clock can represent there is no end.
const LONGEST: f64 = 1e9;

/// A time in seconds.
pub fn seconds(text: &str) -> Parsed<Duration> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= LONGEST);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| {
        format!("a time is a number of seconds from 0 to {LONGEST}, such as 120 or 0.5")
    })
}

/// A percentage, which may be above 100.
pub fn percent(text: &str) -> Parsed<f64> {
    let percent = text.parse().ok();
    let sound = percent.filter(|percent: &f64| percent.is_finite() && *percent >= 0.0);
    sound.ok_or_else(|| "a percentage is a number from 0, such as 1 or 0.5".to_owned())
}

/// A TCP port's number.
pub fn port(text: &str) -> Parsed<u16> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| {
        "a port is a number from 1 to 65535, such as --gdb 1234; a description stands before --gdb, \
         or after --gdb=1234"
            .to_owned()
    })
}

/// An address with a port, at which a server listens.
pub fn listening(text: &str) -> Parsed<SocketAddr> {
    let address = text.parse();
    address.map_err(|_| {
        "an address is one of IP with a port, such as 127.0.0.1:8421; port 0 is any free one"
            .to_owned()
    })
}

/// The speed of a serial line.
pub fn baud(text: &str) -> Parsed<u32> {
    whole(50..=4_000_000, "a speed in bits a second", "--baud 115200")(text)
}

/// An address of 32 bits, in hexadecimal.
pub fn hexadecimal(text: &str) -> Parsed<u32> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let sound = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let address = u32::from_str_radix(digits, 16).ok().filter(|_| sound);
    address.ok_or_else(|| {
        "an address has up to 8 hexadecimal digits, 0x before them or not, such as 0x40800000"
            .to_owned()
    })
}

/// The name of a VM, and a file.
pub fn console(text: &str) -> Parsed<(String, PathBuf)> {
    match text.split_once('=') {
        Some((vm, file)) if !vm.is_empty() && !file.is_empty() => Ok((vm.into(), file.into())),
        _ => Err("write it as VM=FILE, such as linux=linux.txt".to_owned()),
    }
}

/// A text that can be awaited: it must not be empty, because an empty text is in anything.
pub fn awaited(text: &str) -> Parsed<String> {
    match text {
        "" => Err("an empty text comes at once: await what is said, such as 'login: '".to_owned()),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(size("512M"), Ok(512 << 20));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("4096"), Ok(4096));
        for bad in ["", "M", "1T", "-1", "+1", "1.5G", "x", "99999999999G"] {
            assert!(size(bad).unwrap_err().contains("such as"), "{bad}");
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for bad in ["abc", "", "-1", "nan", "inf", "1e18", "5s"] {
            assert!(seconds(bad).unwrap_err().contains("such as 120"), "{bad}");
        }
    }

    #[test]
    fn numbers_have_bounds() {
        let times = whole(1..=100, "how often", "3");
        assert_eq!((times("1"), times("100")), (Ok(1_u32), Ok(100)));
        for bad in ["0", "101", "-1", "x", "1.5", ""] {
            let said = times(bad).unwrap_err();
            assert_eq!(said, "how often is a whole number from 1 to 100, such as 3");
        }
        assert_eq!(percent("0.5"), Ok(0.5));
        for bad in ["-1", "nan", "inf", "x", "5%"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_are_hexadecimal() {
        assert_eq!(hexadecimal("0x40800000"), Ok(0x4080_0000));
        assert_eq!(hexadecimal("ffffffff"), Ok(u32::MAX));
        for bad in ["", "0x", "0x0x1", "+1", "-1", "100000000", "4g"] {
            assert!(hexadecimal(bad).is_err(), "{bad}");
        }
    }
}
