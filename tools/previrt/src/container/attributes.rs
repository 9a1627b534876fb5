//! Build attributes: for which processors a file was built (Addenda to the ABI for the Arm
//! Architecture, 3 and 4).

use crate::refusal::{Refusal, Result};
use object::elf::{self, FileHeader32};
use object::endian::LittleEndian;
use object::read::elf::{AttributeReader, AttributesSection};

/// Tags of the vendor "aeabi" (the same, 3.2 and 3.3.2).
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

/// Reads Tag_CPU_arch_profile of the whole file, whose tags come first. `None` where the section is
/// damaged.
fn profile(section: &[u8]) -> Option<u64> {
    let section =
        AttributesSection::<FileHeader32<LittleEndian>>::new(LittleEndian, section).ok()?;
    let mut vendors = section.subsections().ok()?;
    while let Some(vendor) = vendors.next().ok()? {
        if vendor.vendor() == b"aeabi" {
            let first = vendor.subsubsections().next().ok()??;
            let of_file = first.tag() == elf::Tag_File;
            return of_file.then(|| find_profile(first.attributes())).flatten();
        }
    }
    None
}

fn find_profile(mut tags: AttributeReader<'_>) -> Option<u64> {
    while let Some(tag) = tags.read_tag().ok()? {
        match tag {
            TAG_CPU_ARCH_PROFILE => return tags.read_integer().ok(),
            TAG_COMPATIBILITY => {
                tags.read_integer().ok()?;
                tags.read_string().ok()?;
            }
            // The values of odd tags above 32, and of two low ones, are strings.
            _ if tag == TAG_CPU_RAW_NAME || tag == TAG_CPU_NAME || tag > 32 && tag % 2 == 1 => {
                tags.read_string().ok()?;
            }
            _ => {
                tags.read_integer().ok()?;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The section that GNU as writes for a file of this `profile`.
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
