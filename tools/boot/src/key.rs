//! The random key of an image, which is one of the sources of its guests' random numbers.
//!
//! Each build makes a new key, so that two builds of one description differ. A caller that needs
//! equal images names the key.

use anyhow::{Context, Result, ensure};
use hanok_system::BuildKey;

use hanok_base::exit::{Blame, Code, Outcome};

/// No key: the hypervisor then reports that it has none.
pub const NONE: BuildKey = [0; 32];

/// The key of an image: the one that was `named`; none where time is a count of instructions, so
/// that all runs are alike; otherwise a new one.
pub fn of_image(named: Option<BuildKey>, icount: bool) -> Outcome<BuildKey> {
    match named {
        Some(key) => Ok(key),
        None if icount => Ok(NONE),
        None => new().blame(Code::Setup),
    }
}

fn new() -> Result<BuildKey> {
    let mut key = NONE;
    getrandom::fill(&mut key).context("the PC gives no random numbers for the image's key")?;
    Ok(key)
}

/// Parses a key: 64 hexadecimal digits.
pub fn parse(text: &str) -> Result<BuildKey> {
    let whole = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    ensure!(
        whole,
        "a key is 64 hexadecimal digits, such as `openssl rand -hex 32` prints"
    );
    let mut key = NONE;
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits)?, 16)?;
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_digits() {
        let digits = "00ff10".to_owned() + &"a".repeat(58);
        assert_eq!(parse(&digits).unwrap()[..4], [0, 0xff, 0x10, 0xaa]);
        for wrong in ["", "00", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_image_has_a_key_of_its_own_unless_runs_are_to_be_alike() {
        let key = |named, icount| of_image(named, icount).ok().unwrap();
        assert_ne!(key(None, false), key(None, false));
        assert_eq!(key(None, true), NONE);
        assert_eq!(key(Some([7; 32]), true), [7; 32]);
    }
}
