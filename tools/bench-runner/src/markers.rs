//! Programs that execute a marker, for the script in Linux to say when instructions are counted from outside.

use hanok_artifacts::initramfs;
use hanok_profile::code::{A32, A64, Instructions};
use hanok_system::Architecture;

/// The initramfs `bytes` with programs that execute a marker and end, for the script in Linux to run around a row.
pub fn with_markers(mut bytes: Vec<u8>, architecture: Architecture) -> Vec<u8> {
    let program = |marker: fn(&Instructions) -> u32| match architecture {
        Architecture::Arm64 => program_64(marker(&A64)),
        Architecture::Arm => program_32(marker(&A32)),
    };
    let markers = [
        ("bench/mark-begin".to_owned(), program(|set| set.begin)),
        ("bench/mark-end".to_owned(), program(|set| set.end)),
    ];
    bytes.extend(initramfs::archive_of(&markers));
    bytes
}

/// A static 32-bit ELF file of four instructions: `marker`, then exit(0).
fn program_32(marker: u32) -> Vec<u8> {
    const HEADERS: u32 = 52 + 32;
    const PLACE: u32 = 0x1_0000;
    // mov r0, #0; mov r7, #1; svc #0
    let code = [marker, 0xe3a0_0000, 0xe3a0_7001, 0xef00_0000];
    let size = HEADERS + 4 * code.len() as u32;
    // ET_EXEC for EM_ARM, version, entry, program headers, no section headers.
    let first = [40 << 16 | 2, 1, PLACE + HEADERS, 52, 0];
    // EABI version 5; sizes of headers; one program header; no section headers.
    let second = [0x0500_0000, 32 << 16 | 52, 1, 0];
    // PT_LOAD, readable and executable: the whole file.
    let segment = [1, 0, PLACE, PLACE, size, size, 5, 4096];
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    let words = [&first[..], &second, &segment, &code].concat();
    file.extend(words.into_iter().flat_map(u32::to_le_bytes));
    file
}

/// A static 64-bit ELF file of four instructions: `marker`, then exit(0).
fn program_64(marker: u32) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const PLACE: u64 = 0x40_0000;
    // mov x0, #0; mov x8, #93; svc #0
    let code = [marker, 0xd280_0000, 0xd280_0ba8, 0xd400_0001];
    let size = HEADERS + 4 * code.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let longs = |file: &mut Vec<u8>, values: &[u64]| {
        values
            .iter()
            .for_each(|value| file.extend(value.to_le_bytes()));
    };
    // ET_EXEC for EM_AARCH64; entry, program headers, no section headers.
    longs(
        &mut file,
        &[1 << 32 | 183 << 16 | 2, PLACE + HEADERS, 64, 0],
    );
    // No flags; sizes of headers; one program header.
    longs(&mut file, &[56 << 48 | 64 << 32, 1]);
    // PT_LOAD, readable and executable: the whole file.
    longs(&mut file, &[5 << 32 | 1, 0, PLACE, PLACE, size, size, 4096]);
    file.extend(code.into_iter().flat_map(u32::to_le_bytes));
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_programs_are_elf_files() {
        use object::{Object, ObjectSegment};
        for (bytes, marker, architecture) in [
            (program_64(A64.end), A64.end, object::Architecture::Aarch64),
            (program_32(A32.end), A32.end, object::Architecture::Arm),
        ] {
            let file = object::File::parse(&*bytes).unwrap();
            assert_eq!(file.architecture(), architecture);
            let segment = file.segments().next().unwrap();
            let offset = (file.entry() - segment.address()) as usize;
            let code = &segment.data().unwrap()[offset..];
            assert_eq!(code[..4], marker.to_le_bytes());
            assert_eq!(code.len(), 16);
        }
    }
}
