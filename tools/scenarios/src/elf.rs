//! Checks facts about the hypervisor's binary, whatever compiler made it: it uses a guest's
//! floating-point registers only where it switches them, no part of it is both writable and
//! executable, it is small, and a boot loader can read its header. Of the largest program of guests/: its header says how much
//! memory it takes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use hanok_system::{Architecture, KernelSizes};
use object::read::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use object::{File, SectionFlags, SectionKind, SegmentFlags, elf};

use crate::step::{Tally, TestStep};
use hanok_artifacts::cargo::{self, Variant};
use hanok_artifacts::image;
use hanok_base::ui;

/// The steps.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "image",
        run: |root| tally(check(root)),
    },
    TestStep {
        name: "guest-memory",
        run: |root| tally(guest_memory(root)),
    },
];

/// How many facts hold, or why one does not.
fn tally(checked: Result<usize>) -> Tally {
    match checked {
        Ok(passed) => Tally {
            passed,
            ..Tally::default()
        },
        Err(error) => Tally::fail(format!("{error:#}")),
    }
}

/// The largest size of the flat binary in bytes, of the 64-bit image and of the 32-bit one, which has two
/// backends.
const LARGEST: [usize; 2] = [348_160, 417_792];
/// The same of the 64-bit image with pools.
const LARGEST_WITH_POOLS: usize = 356_352;
/// The functions that work with floating-point registers.
const MAY_USE_FP: [&str; 2] = ["hanok_fp_save", "hanok_fp_load"];

/// Checks all facts; returns how many hold.
fn check(root: &Path) -> Result<usize> {
    let flat = cargo::hypervisor(root)?;
    let words = sound(flat, &cargo::hypervisor_elf(root))?;
    let arm64 = Architecture::Arm64;
    let pools = cargo::variant_of(root, arm64, Variant::Pools)?;
    sound(pools, &cargo::variant_elf_of(root, arm64, Variant::Pools)).context("with pools")?;
    let flat_32 = cargo::hypervisor_of(root, Architecture::Arm)?;
    let [largest, largest_32] = LARGEST;
    for (flat, largest) in [
        (flat, largest),
        (flat_32, largest_32),
        (pools, LARGEST_WITH_POOLS),
    ] {
        ensure!(
            flat.len() <= largest,
            "the flat image has {} bytes, more than {largest}",
            flat.len()
        );
    }
    eprintln!(
        "{}",
        ui::dim(&format!(
            "     {words} instructions, flat image {} bytes, of the 32-bit one {}, with pools {}",
            flat.len(),
            flat_32.len(),
            pools.len()
        ))
    );
    Ok(9)
}

/// The distance of a 32-bit program of guests/ from the start of RAM, where it runs, in bytes (`guests/runtime/image-arm.ld`).
const GUEST_OFFSET: u64 = 8 << 20;

/// Checks that a 32-bit program says in its header how much memory it takes up to its end: by that the device tree is put behind it, or
/// the VM is refused as too small. The driver VM is the largest one. Returns how many facts hold.
fn guest_memory(root: &Path) -> Result<usize> {
    let bytes = cargo::guest_elf(root, "driver", cargo::target(Architecture::Arm))?;
    let elf = File::parse(&*bytes).context("the ELF file is damaged")?;
    let starts = elf.segments().map(|segment| segment.address());
    let ends = elf
        .segments()
        .map(|segment| segment.address() + segment.size());
    let (start, end) = starts.min().zip(ends.max()).context("nothing is loaded")?;
    let flat = image::flatten(&bytes)?;
    let sizes = KernelSizes::of(&flat).context("the header has no table of tags")?;
    let said = (
        sizes.text_offset,
        u64::from(sizes.kernel) + u64::from(sizes.bss),
    );
    ensure!(
        said.0.map(u64::from) == Some(GUEST_OFFSET),
        "the header says that it runs at {:#x?} of RAM",
        said.0
    );
    ensure!(
        said.1 >= end - start,
        "the header says {:#x} bytes of memory, of {:#x}",
        said.1,
        end - start
    );
    Ok(2)
}

/// Checks a 64-bit image. Returns how many instructions were examined.
fn sound(flat: &[u8], elf: &Path) -> Result<usize> {
    let bytes = fs::read(elf)?;
    let elf = File::parse(&*bytes).context("the ELF file is damaged")?;
    let words = no_floating_point(&elf)?;
    no_section_is_both(&elf)?;
    header(flat)?;
    Ok(words)
}

/// Checks that no instruction outside the switch uses a floating-point register. Returns how many
/// were examined.
fn no_floating_point(elf: &File) -> Result<usize> {
    let mut looked_at = 0;
    let mut seen = Vec::new();
    for section in elf
        .sections()
        .filter(|section| section.kind() == SectionKind::Text)
    {
        let data = section.data()?;
        let marks = marks(elf, section.index());
        for (index, word) in data.chunks_exact(4).enumerate() {
            let address = section.address() + 4 * index as u64;
            let word = u32::from_le_bytes(word.try_into()?);
            if !is_code(&marks, address) {
                continue;
            }
            looked_at += 1;
            if !uses_fp(word) {
                continue;
            }
            let function = function_at(elf, address).unwrap_or("no function");
            if MAY_USE_FP.contains(&function) {
                seen.push(function);
            } else {
                bail!("{address:#x} in {function}: {word:#010x} uses a floating-point register");
            }
        }
    }
    // If these were not found, the search would see nothing, or the switch would be gone.
    for function in MAY_USE_FP {
        ensure!(
            seen.contains(&function),
            "no floating-point instruction in {function}"
        );
    }
    ensure!(looked_at > 1000, "only {looked_at} instructions were found");
    Ok(looked_at)
}

/// The addresses where code and data begin, by the mapping symbols of the ELF for the Arm
/// architecture (`$x`, `$d`).
fn marks(elf: &File, section: object::SectionIndex) -> Vec<(u64, bool)> {
    let mut marks: Vec<_> = elf
        .symbols()
        .filter(|symbol| symbol.section_index() == Some(section))
        .filter_map(|symbol| {
            let name = symbol.name().ok()?;
            let code = match name.split('.').next()? {
                "$x" => true,
                "$d" => false,
                _ => return None,
            };
            Some((symbol.address(), code))
        })
        .collect();
    marks.sort();
    marks
}

/// Bytes that no symbol calls data are taken for code.
fn is_code(marks: &[(u64, bool)], address: u64) -> bool {
    let after = marks.partition_point(|(start, _)| *start <= address);
    after == 0 || marks[after - 1].1
}

/// The function whose symbol is the last before `address`.
fn function_at<'a>(elf: &'a File, address: u64) -> Option<&'a str> {
    let named = elf.symbols().filter_map(|symbol| {
        let name = symbol.name().ok()?;
        let fits = symbol.address() <= address && !name.starts_with('$') && !name.is_empty();
        fits.then_some((symbol.address(), name))
    });
    let (_, name) = named.max_by_key(|(start, _)| *start)?;
    Some(name)
}

/// Whether an A64 instruction uses a floating-point, SIMD or SVE register: top-level op0 is
/// x111 (data processing of them), x1x0 with V, bit 26, set (their loads and stores), or
/// 0010 (SVE) (DDI 0487, C4.1).
fn uses_fp(word: u32) -> bool {
    let op0 = (word >> 25) & 0b1111;
    let vector = word & (1 << 26) != 0;
    op0 & 0b0111 == 0b0111 || op0 & 0b0101 == 0b0100 && vector || op0 == 0b0010
}

fn no_section_is_both(elf: &File) -> Result<()> {
    for section in elf.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        let both = elf::SHF_WRITE | elf::SHF_EXECINSTR;
        ensure!(
            sh_flags & both != both,
            "section {} is writable and executable",
            section.name().unwrap_or("?")
        );
    }
    for segment in elf.segments() {
        let SegmentFlags::Elf { p_flags, .. } = segment.flags() else {
            continue;
        };
        let both = elf::PF_W | elf::PF_X;
        ensure!(
            p_flags & both != both,
            "the segment at {:#x} is writable and executable",
            segment.address()
        );
    }
    Ok(())
}

/// The header of an arm64 Linux Image (Documentation/arch/arm64/booting.rst).
fn header(flat: &[u8]) -> Result<()> {
    let field = |at: usize| -> Result<u64> {
        let bytes = flat.get(at..).and_then(|rest| rest.first_chunk());
        Ok(u64::from_le_bytes(
            *bytes.context("the image is too short")?,
        ))
    };
    let code = field(0)? as u32;
    ensure!(
        code >> 26 == 0b00_0101,
        "the first word {code:#x} is no branch"
    );
    let target = u64::from(code & 0x03ff_ffff) * 4;
    ensure!(
        (64..flat.len() as u64).contains(&target),
        "the first branch goes to {target:#x}"
    );
    ensure!(
        flat.get(56..60) == Some(b"ARM\x64"),
        "the magic number is missing"
    );
    ensure!(
        field(8)? & 0x1f_ffff == 0,
        "text_offset is {:#x}",
        field(8)?
    );
    let (size, flags) = (field(16)?, field(24)?);
    ensure!(
        size >= flat.len() as u64,
        "image_size {size:#x} is less than the file"
    );
    ensure!(
        flags & 1 == 0 && flags & 0b110 == 0b010,
        "flags {flags:#x}: not little-endian, 4K"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_is_known() {
        // fmov d0, #1.0; add v0.4s, v0.4s, v0.4s; ldr q0, [x0]; stp q0, q1, [x0]; ldr d0, 8;
        // dup v0.2d, x1; ld1 {v0.16b}, [x0]; scvtf d0, x0; ptrue p0.b; st1 one lane
        for word in [
            0x1e6e_1000,
            0x4ea0_8400,
            0x3dc0_0000,
            0xad00_0400,
            0x5c00_0040,
            0x4e08_0c20,
            0x4c40_7000,
            0x9e62_0000,
            0x2518_e3e0,
            0x0d00_8000,
        ] {
            assert!(uses_fp(word), "{word:#x}");
        }
        // nop; ldr x0, [x0]; stp x0, x1, [sp]; ldr x0, 8; add x0, x0, x1; mrs x0, fpcr;
        // ldxr x0, [x1]; b .; movz; madd; csel; casal x0, x1, [x2]; svc
        for word in [
            0xd503_201f,
            0xf940_0000,
            0xa900_07e0,
            0x5800_0040,
            0x8b01_0000,
            0xd53b_4400,
            0xc85f_7c20,
            0x1400_0000,
            0xd280_0000,
            0x9b01_7c00,
            0x9a81_0000,
            0xc8e0_fc41,
            0xd400_0001,
        ] {
            assert!(!uses_fp(word), "{word:#x}");
        }
    }

    #[test]
    fn data_in_code_is_left_out() {
        let marks = [(0x10, true), (0x20, false), (0x28, true)];
        let of = |address| is_code(&marks, address);
        assert_eq!(
            [of(0), of(0x10), of(0x24), of(0x28)],
            [true, true, false, true]
        );
    }

    #[test]
    fn a_header_is_judged() {
        assert!(header(&[0; 128]).is_err());
        let mut flat = vec![0; 128];
        flat[0..4].copy_from_slice(&(0x1400_0000u32 + 16).to_le_bytes());
        flat[16..24].copy_from_slice(&4096u64.to_le_bytes());
        flat[24..32].copy_from_slice(&0b1010u64.to_le_bytes());
        flat[56..60].copy_from_slice(b"ARM\x64");
        header(&flat).unwrap();
        flat[16] = 1;
        flat[17] = 0;
        assert!(header(&flat).is_err());
    }
}
