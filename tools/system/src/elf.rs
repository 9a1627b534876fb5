//! ELF files as kernels, as QEMU's `-kernel` takes them: each segment goes to its physical address,
//! and the first CPU begins at the entry with zeros in its registers. The device tree is put at the
//! start of RAM, where the program leaves space for it; there is no initramfs.
//!
//! Formats: System V gABI, chapters 4 and 5; ELF for the Arm (64-bit) Architecture.

use crate::backend::Architecture;
use crate::diagnostic::Words;
use crate::kernel::{Kernel, Part, Protocol};
use hanok_config::{MAX_BLOBS, MAX_MEMORY};
use hanok_types::{Ipa, platform};
use object::elf::{EM_AARCH64, EM_ARM, FileHeader32, FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use std::borrow::Cow;

/// The number of pieces that a VM can have loaded besides its tree.
const MOST_PARTS: usize = MAX_BLOBS - 1;
/// Segments that are closer together than this many bytes are loaded as one, with zeros in between.
const NEAR: u64 = 4096;
/// The largest number of bytes that is put between two segments.
const MOST_BETWEEN: u64 = 64 << 20;
/// The alignment of a blob's address.
const ALIGNMENT: u64 = 8;

/// Whether these bytes begin as an ELF file does.
pub(crate) fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// Whether an ELF file is one for 32-bit ARM.
pub(crate) fn is_arm(bytes: &[u8]) -> bool {
    is_one(bytes) && FileHeader32::<object::Endianness>::parse(bytes).is_ok_and(is_for_arm)
}

fn is_for_arm(header: &FileHeader32<object::Endianness>) -> bool {
    let endian = header.endian();
    endian.is_ok_and(|endian| header.e_machine(endian) == EM_ARM)
}

/// The program in an ELF file's `bytes`. The error says why it cannot be one for a VM of this
/// `architecture`.
pub(crate) fn recognise(
    bytes: &[u8],
    architecture: Architecture,
) -> Result<Kernel<'static>, Words> {
    match architecture {
        Architecture::Arm64 => {
            let of_this = read::<FileHeader64<object::Endianness>>(bytes, EM_AARCH64);
            kernel(of_this.ok_or_else(|| other(bytes, "arm64"))??, 4)
        }
        Architecture::Arm => {
            let of_this = read::<FileHeader32<object::Endianness>>(bytes, EM_ARM);
            let program = of_this.ok_or_else(|| other(bytes, "32-bit ARM"))??;
            // Bit 0 of the entry says that it is T32 code (ELF for the Arm Architecture, 5.1).
            let alignment = if program.entry & 1 == 1 { 1 } else { 4 };
            kernel(program, alignment)
        }
    }
}

/// The parts of a file that are loaded.
struct Program<'a> {
    segments: Vec<Segment<'a>>,
    /// The entry, as a physical address.
    entry: u64,
}

/// A segment: its address, the bytes that the file has of it, and its length with trailing zeros.
struct Segment<'a> {
    start: u64,
    bytes: &'a [u8],
    end: u64,
}

/// The program in a file of this class; `None` where it is for another machine.
fn read<Header: FileHeader<Endian = object::Endianness>>(
    bytes: &[u8],
    machine: object::elf::Machine,
) -> Option<Result<Program<'_>, Words>> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != machine {
        return None;
    }
    Some(match endian {
        object::Endianness::Little => program(header, endian, bytes),
        object::Endianness::Big => Err(Words::new(
            "this ELF file is big-endian",
            "a VM's CPUs, devices and device tree start little-endian",
            "build the program for little-endian",
        )),
    })
}

fn program<'a, Header: FileHeader>(
    header: &Header,
    endian: Header::Endian,
    bytes: &'a [u8],
) -> Result<Program<'a>, Words> {
    let headers = header.program_headers(endian, bytes);
    let headers = headers.map_err(|_| damaged("its program headers lie outside the file"))?;
    let virtual_entry: u64 = header.e_entry(endian).into();
    let mut entry = virtual_entry;
    let mut segments = Vec::new();
    for header in headers {
        if header.p_type(endian) != PT_LOAD {
            continue;
        }
        let [start, at, held, len] = [
            header.p_paddr(endian),
            header.p_vaddr(endian),
            header.p_filesz(endian),
            header.p_memsz(endian),
        ]
        .map(Into::<u64>::into);
        let bytes = header
            .data(endian, bytes)
            .map_err(|()| damaged(&format!("the segment for {start:#x} lies outside the file")))?;
        let end = start.checked_add(len).filter(|_| held <= len);
        let end = end.ok_or_else(|| damaged(&format!("the segment for {start:#x} has no end")))?;
        // The entry is an address where the program runs, which may differ from where it is loaded.
        if let Some(inside) = virtual_entry
            .checked_sub(at)
            .filter(|inside| *inside < held)
        {
            entry = start.wrapping_add(inside);
        }
        if len > 0 {
            segments.push(Segment { start, bytes, end });
        }
    }
    Ok(Program { segments, entry })
}

/// Checks the addresses of the segments and of the entry, and puts together what is loaded.
fn kernel(mut program: Program<'_>, alignment: u64) -> Result<Kernel<'static>, Words> {
    program.segments.sort_by_key(|segment| segment.start);
    let segments = &program.segments;
    let Some(first) = segments.first() else {
        return Err(Words::new(
            "this ELF file has nothing to load",
            "it has no segment of type PT_LOAD that is longer than zero: it may be an object file",
            "link it, and give the linked file",
        ));
    };
    for segment in segments {
        in_ram(segment)?;
    }
    if let Some([one, next]) = segments
        .array_windows()
        .find(|[one, next]| one.end > next.start)
    {
        return Err(Words::new(
            "two segments of this ELF file overlap",
            format!(
                "one is for {:#x} to {:#x}, the next one for {:#x} on, by their physical addresses",
                one.start, one.end, next.start
            ),
            "mend the linker script: each segment (p_paddr, p_memsz) needs memory of its own",
        ));
    }
    let entry = program.entry;
    let inside = |segment: &Segment<'_>| (segment.start..segment.end).contains(&entry);
    if !segments.iter().any(inside) || (alignment > 1 && !entry.is_multiple_of(alignment)) {
        return Err(Words::new(
            "this ELF file's entry is no place in it where a program can begin",
            format!("{entry:#x} is not in one of its segments, or no instruction's address"),
            "name the first instruction in the linker script, by ENTRY(...)",
        ));
    }
    let span = first.start..segments.iter().map(|segment| segment.end).fold(0, u64::max);
    Ok(Kernel {
        parts: parts(segments)?,
        entry: Ipa::new(entry),
        start: Ipa::new(span.start),
        end: Ipa::new(span.end),
        reach: Ipa::new(span.end),
        needs_more: false,
        protocol: Protocol::Elf,
    })
}

/// The end of RAM that is checked here is the platform's. The VM's own is checked later.
fn in_ram(segment: &Segment<'_>) -> Result<(), Words> {
    let (ram, end) = (platform::RAM.get(), platform::RAM.get() + MAX_MEMORY);
    if (ram..end).contains(&segment.start) && segment.end <= end {
        return Ok(());
    }
    Err(Words::new(
        "a segment of this ELF file lies outside RAM",
        format!(
            "it is for {:#x} to {:#x}, by its physical address; a VM's RAM begins at {ram:#x}",
            segment.start, segment.end
        ),
        "link it for an address in RAM, such as 0x4008_0000, or make a flat binary of it \
         (objcopy -O binary)",
    ))
}

/// The segments' bytes, in no more pieces than a VM can have: close segments are joined, and then
/// the closest of the others.
fn parts(segments: &[Segment<'_>]) -> Result<Vec<Part<'static>>, Words> {
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    for segment in segments.iter().filter(|segment| !segment.bytes.is_empty()) {
        let aligned = segment.start & !(ALIGNMENT - 1);
        match parts.last_mut() {
            Some((at, bytes)) if segment.start < *at + bytes.len() as u64 + NEAR => {
                bytes.resize((segment.start - *at) as usize, 0);
                bytes.extend(segment.bytes);
            }
            _ => {
                let mut bytes = vec![0; (segment.start - aligned) as usize];
                bytes.extend(segment.bytes);
                parts.push((aligned, bytes));
            }
        }
    }
    while parts.len() > MOST_PARTS {
        join_nearest(&mut parts)?;
    }
    let part = |(at, bytes)| Part {
        at: Ipa::new(at),
        bytes: Cow::Owned(bytes),
    };
    Ok(parts.into_iter().map(part).collect())
}

/// Joins the two neighbours with the fewest bytes between them.
fn join_nearest(parts: &mut Vec<(u64, Vec<u8>)>) -> Result<(), Words> {
    let between = |index: &usize| {
        let (at, bytes) = &parts[*index];
        parts[*index + 1].0 - at - bytes.len() as u64
    };
    let nearest = (0..parts.len() - 1).min_by_key(between);
    let nearest = nearest.filter(|index| between(index) <= MOST_BETWEEN);
    let Some(nearest) = nearest else {
        return Err(Words::new(
            "this ELF file's segments are too many and too far apart",
            format!("a VM is loaded with {MOST_PARTS} pieces at most"),
            "link the program so that its segments lie together",
        ));
    };
    let (next, more) = parts.remove(nearest + 1);
    let (at, bytes) = &mut parts[nearest];
    bytes.resize((next - *at) as usize, 0);
    bytes.extend(more);
    Ok(())
}

fn damaged(why: &str) -> Words {
    Words::new(
        "this ELF file is damaged",
        why,
        "build or download the program again",
    )
}

/// The refusal of a file for another machine.
fn other(bytes: &[u8], wanted: &str) -> Words {
    let machine = match machine(bytes) {
        Some(183) => "arm64",
        Some(40) => "32-bit ARM",
        Some(62 | 3) => "x86",
        Some(243) => "RISC-V",
        Some(_) => "another machine",
        None => "no machine",
    };
    if machine == wanted || machine == "no machine" {
        return damaged("its header is cut off, or of another class than its machine");
    }
    Words::new(
        format!("this kernel is an ELF file for {machine}"),
        format!("what the VM begins with must be a program for {wanted}"),
        format!("build the program for {wanted}"),
    )
}

/// The machine that the header names.
fn machine(bytes: &[u8]) -> Option<u16> {
    let machine = [*bytes.get(18)?, *bytes.get(19)?];
    Some(match bytes.get(5)? {
        2 => u16::from_be_bytes(machine),
        _ => u16::from_le_bytes(machine),
    })
}
