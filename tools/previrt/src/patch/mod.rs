//! Rewriting what was found, and undoing it.
//!
//! Only what is certain is rewritten: a doubtful word may be data, and the hypervisor finds
//! out when it is executed. Each site keeps its length, so that nothing else of the file moves,
//! and neither relocations nor tables have to be touched. Which form each gets is
//! [`form::choose`]'s; every change goes to a side file, which undoes it ([`revert`]).

mod form;
mod side;

pub use form::Form;
pub use side::{Change, Doubt, Left, SideFile};

use crate::bytes::{half, has, word};
use crate::refusal::{Refusal, Result};
use crate::scan::{Kind, Scan};
use crate::site::{Certainty, Site};
use form::Choice;
use hanok_abi::trap::{Original, original_a32, original_narrow, original_wide};
use hanok_decode::aarch32::{Encoding, Isa};

/// A rewritten file.
#[derive(Debug)]
pub struct Patched {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What was changed.
    pub side: SideFile,
}

/// Rewrites what was found in a file.
pub fn patch(scan: &Scan) -> Result<Patched> {
    refuse_patched(scan)?;
    let mut bytes = scan.content.clone();
    let mut side = SideFile::new(scan);
    // What is linked later would have its numbers twice.
    let linked = matches!(scan.kind, Kind::Image | Kind::Executable);
    for site in &scan.sites {
        let function = scan.function(site).map(str::to_owned);
        if site.certainty == Certainty::Doubtful {
            side.doubtful.push(Doubt::new(site, function));
            continue;
        }
        match form::choose(site, linked, side.words.len() as u32) {
            Choice::Change(form, is) => {
                if form == Form::Index {
                    side.words.push(site.found.encoding.bits());
                }
                write(&mut bytes, site.offset, is)?;
                side.changes.push(Change::new(site, form, is, function));
            }
            Choice::Leave(why) => side.left.push(Left::new(site, why, function)),
            Choice::Refuse(why) => return Err(refuse(site, function.as_deref(), why)),
        }
    }
    for header in &scan.headers {
        mark(&mut bytes, *header, NO_MARK, MARK)?;
        side.headers.push(*header);
    }
    side.seal(&bytes);
    Ok(Patched { bytes, side })
}

/// The last two bytes of an ELF file's identification, which are padding (gABI, "ELF
/// Identification"): with the mark the file is rewritten. An object may have no SVC that would
/// tell.
const MARK: [u8; 2] = *b"HV";
const NO_MARK: [u8; 2] = [0; 2];
const MARK_AT: usize = 14;

/// Exchanges the mark of the ELF header at `header`.
fn mark(bytes: &mut [u8], header: usize, from: [u8; 2], to: [u8; 2]) -> Result<()> {
    let rest = header
        .checked_add(MARK_AT)
        .and_then(|at| bytes.get_mut(at..));
    let there = rest.and_then(|rest| rest.first_chunk_mut());
    match there {
        Some(there) if *there == from => {
            *there = to;
            Ok(())
        }
        _ => Err(Refusal::damaged(
            "the padding of its ELF identification is not as it should be",
        )),
    }
}

fn refuse(site: &Site, function: Option<&str>, why: &str) -> Refusal {
    let name = site.found.mnemonic();
    Refusal::new(
        format!(
            "{name} at {:#x} ({}) cannot be rewritten",
            site.address,
            function.unwrap_or("?")
        ),
        why,
        "change the source, or rewrite the linked image, which can have a table",
    )
}

/// Puts an instruction at `offset`, low byte first, of T32 the first halfword first.
fn write(bytes: &mut [u8], offset: usize, encoding: Encoding) -> Result<()> {
    let (data, len) = memory_order(encoding);
    let there = offset
        .checked_add(len)
        .and_then(|end| bytes.get_mut(offset..end));
    let there = there.ok_or_else(|| Refusal::damaged("an instruction goes beyond its end"))?;
    there.copy_from_slice(data.get(..len).unwrap_or(&[]));
    Ok(())
}

fn memory_order(encoding: Encoding) -> ([u8; 4], usize) {
    match encoding {
        Encoding::A32(word) => (word.to_le_bytes(), 4),
        Encoding::Wide(both) => (both.rotate_left(16).to_le_bytes(), 4),
        Encoding::Narrow(half) => (u32::from(half).to_le_bytes(), 2),
    }
}

/// A file in which as many instructions are rewritten already as would have to be.
fn refuse_patched(scan: &Scan) -> Result<()> {
    let done = scan.trapped;
    let to_do = scan
        .sites
        .iter()
        .filter(|site| site.found.user.must_be_rewritten())
        .count();
    let marked = |header: &usize| has(&scan.content, header.saturating_add(MARK_AT), &MARK);
    if scan.headers.iter().any(marked) || done > to_do {
        return Err(Refusal::new(
            "this file is rewritten already",
            format!("it has its mark, or SVCs instead of what they stand for ({done})"),
            "give the file as it was, or undo it first with `hanok previrt unpatch`",
        ));
    }
    Ok(())
}

/// Whether `encoding` is what only a rewritten file has. The table's SVCs are not counted,
/// whose numbers Linux's old system calls have, too.
pub fn is_trap(encoding: Encoding, next: Option<u16>) -> bool {
    match encoding {
        Encoding::A32(word) => matches!(original_a32(word), Some(Original::Word(_))),
        Encoding::Narrow(svc) => {
            let wide = |next: u16| original_wide(u32::from(svc) << 16 | u32::from(next)).is_some();
            original_narrow(svc).is_some() || next.is_some_and(wide)
        }
        Encoding::Wide(_) => false,
    }
}

/// The file as it was before it was rewritten.
pub fn revert(bytes: &[u8], side: &SideFile) -> Result<Vec<u8>> {
    side.check(bytes)?;
    let mut before = bytes.to_vec();
    for change in &side.changes {
        let (isa, offset) = (change.isa(), change.offset);
        let there = match isa {
            Isa::A32 => word(bytes, offset).map(Encoding::A32),
            Isa::T32 if change.narrow => half(bytes, offset).map(Encoding::Narrow),
            Isa::T32 => word(bytes, offset).map(|both| Encoding::Wide(both.rotate_left(16))),
        };
        if there.map(Encoding::bits) != Some(change.is) {
            return Err(Refusal::new(
                format!("the file is not what the side file says at {offset:#x}"),
                "one of both was changed since",
                "rewrite the original again",
            ));
        }
        write(&mut before, offset, change.original())?;
    }
    for header in &side.headers {
        mark(&mut before, *header, MARK, NO_MARK)?;
    }
    side.check_original(&before)?;
    Ok(before)
}
