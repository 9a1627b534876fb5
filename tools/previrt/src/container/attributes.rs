//! Build attributes: for which processors a file was built (Addenda to the ABI for the Arm
//! Architecture, 3 and 4).

use crate::bytes::word;
use crate::refusal::{Refusal, Result};

const TAG_FILE: u64 = 1;
const TAG_CPU_RAW_NAME: u64 = 4;
const TAG_CPU_NAME: u64 = 5;
const TAG_CPU_ARCH_PROFILE: u64 = 7;
const TAG_COMPATIBILITY: u64 = 32;

/// Refuses what was built for the profile M, which has neither these instructions nor A32.
pub fn check(section: &[u8]) -> Result<()> {
    if profile(section) == Some(u64::from(b'M')) {
        return Err(Refusal::new(
            "this file is for a microcontroller (profile M)",
            "its processor executes T32 alone and has no privileged instructions of ARMv7-A",
            "build it for ARMv7-A, such as with -march=armv7-a",
        ));
    }
    Ok(())
}

/// Tag_CPU_arch_profile of the file, if it has one.
fn profile(section: &[u8]) -> Option<u64> {
    let mut rest = section.strip_prefix(b"A")?;
    loop {
        let (vendor, next) = split(rest)?;
        if let Some(tags) = vendor.strip_prefix(b"aeabi\0") {
            return file_tags(tags).and_then(find_profile);
        }
        rest = next;
    }
}

/// A subsection, whose length counts its own word, without that word; and what follows it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = word(bytes, 0)? as usize;
    Some((bytes.get(4..len)?, bytes.get(len..)?))
}

/// The tags of the whole file, which come first.
fn file_tags(bytes: &[u8]) -> Option<&[u8]> {
    let (tag, rest) = number(bytes)?;
    let len = word(rest, 0)? as usize;
    (tag == TAG_FILE)
        .then(|| rest.get(4..len.checked_sub(1)?))
        .flatten()
}

fn find_profile(mut rest: &[u8]) -> Option<u64> {
    while !rest.is_empty() {
        let (tag, value) = number(rest)?;
        // Odd tags above 32 and two of the low ones are strings; one is a number and a string.
        let text = matches!(tag, TAG_CPU_RAW_NAME | TAG_CPU_NAME) || tag > 32 && tag % 2 == 1;
        if tag == TAG_CPU_ARCH_PROFILE {
            return number(value).map(|(profile, _)| profile);
        }
        rest = match tag {
            TAG_COMPATIBILITY => string(number(value)?.1)?,
            _ if text => string(value)?,
            _ => number(value)?.1,
        };
    }
    None
}

/// A ULEB128 and what follows.
fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let len = bytes.iter().take(9).position(|byte| byte & 0x80 == 0)? + 1;
    let (digits, rest) = bytes.split_at_checked(len)?;
    let value = digits
        .iter()
        .rev()
        .fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, rest))
}

/// What follows a string.
fn string(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.get(end + 1..)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What GNU as writes, with `profile`.
    fn section(profile: u8) -> Vec<u8> {
        let tags = [5, b'7', b'-', profile, 0, 6, 10, 7, profile, 8, 1];
        let file = [&[1][..], &(tags.len() as u32 + 5).to_le_bytes(), &tags].concat();
        let vendor = [b"aeabi\0".as_slice(), &file].concat();
        [
            b"A".as_slice(),
            &(vendor.len() as u32 + 4).to_le_bytes(),
            &vendor,
        ]
        .concat()
    }

    #[test]
    fn profile_m_is_refused_and_a_is_not() {
        assert!(check(&section(b'A')).is_ok());
        assert!(
            check(&section(b'M'))
                .unwrap_err()
                .what
                .contains("profile M")
        );
    }

    #[test]
    fn an_end_anywhere_is_no_profile() {
        let whole = section(b'M');
        for len in 0..whole.len() - 3 {
            assert_eq!(profile(&whole[..len]), None, "{len}");
        }
    }
}
