//! Memory for trampolines behind a program's end.
//!
//! Behind Linux's `_end`, beyond `.bss`, is memory of which the kernel knows only that it is RAM: a
//! range that the device tree reserves there stays unused. A raw image does not say where its
//! `.bss` ends, but the code that clears `.bss` does. So the image is filled up with zeros to that
//! address, and a loader that takes the whole file puts everything in its place. An ELF file gets a
//! segment and a section instead ([`super::segment`]).
//!
//! Other programs use the memory behind their end for a heap or a stack, and nothing in the file
//! says so. For these programs the person who builds the guest names memory that is free
//! ([`Options::area`]).
//!
//! Position-independent programs get no trampolines: the program may move, and the trampolines
//! would not.

use super::options::Options;
use crate::area::FreeArea;
use crate::container::elf::Segment;
use crate::refusal::{Refusal, Result};
use crate::scan::{Kind, Scan};
use hanok_abi::trampoline::PAGE;
use std::ops::Range;

/// The largest size of such memory in bytes: a branch of A32 reaches no farther.
const MAX_SIZE: u32 = 32 << 20;

/// The memory behind a program's end, or at the address that the options name.
pub(super) fn behind(scan: &Scan, options: &Options) -> Result<Option<FreeArea>> {
    let start = match options.area {
        Some(start) => Some(checked(scan, start)?),
        None => scan.code.as_ref().and_then(|code| code.end),
    };
    let start = start.and_then(|end| end.checked_next_multiple_of(PAGE));
    Ok(start.and_then(|start| {
        Some(FreeArea {
            range: start..limit(&scan.segments, start)?,
            offset: match scan.kind {
                Kind::Image => start.checked_sub(scan.base?)? as usize,
                _ => scan.content.len().checked_next_multiple_of(PAGE as usize)?,
            },
            appended: true,
        })
    }))
}

/// The largest address at which memory that begins at `start` may end: the start of the next
/// segment.
fn limit(segments: &[Segment], start: u32) -> Option<u32> {
    let all = segments.iter().map(Segment::memory);
    let next = all.map(|range| range.start).filter(|at| *at >= start).min();
    let most = start.checked_add(MAX_SIZE)?;
    Some(next.map_or(most, |next| next.min(most)))
}

/// Checks an address that the options name: it must be behind the program, and no part of it.
fn checked(scan: &Scan, start: u32) -> Result<u32> {
    let wrong = |why: String| {
        Err(Refusal::new(
            format!("there can be no trampolines at {start:#x}"),
            why,
            "name the beginning of a page that nothing uses, behind the program",
        ))
    };
    if !start.is_multiple_of(PAGE) {
        return wrong("it is no page's beginning".to_owned());
    }
    let image = || {
        let base = scan.base?;
        let end = base.checked_add(u32::try_from(scan.content.len()).ok()?)?;
        Some(base..scan.code.as_ref()?.end.unwrap_or(end).max(end))
    };
    let used: Vec<Range<u32>> = match scan.kind {
        Kind::Executable if scan.movable => {
            return wrong("the program is position-independent, and may run elsewhere".to_owned());
        }
        Kind::Executable => scan.segments.iter().map(Segment::memory).collect(),
        Kind::Image => image().into_iter().collect(),
        _ => return wrong("this is no program yet: link it first".to_owned()),
    };
    let beneath = used.iter().map(|range| range.start).min().unwrap_or(0);
    match used.iter().find(|range| range.contains(&start)) {
        Some(range) => wrong(format!(
            "the program has {:#x} to {:#x} itself",
            range.start, range.end
        )),
        None if start < beneath && scan.kind == Kind::Image => {
            wrong("it is in front of the image".to_owned())
        }
        None => Ok(start),
    }
}
