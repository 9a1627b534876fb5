//! Rewriting what was found, and undoing it.
//!
//! Only what is certain is rewritten: a doubtful word may be data, and the hypervisor finds
//! out when it is executed. Each site keeps its length, so that nothing else of the file moves,
//! and neither relocations nor tables have to be touched. Which form each gets is
//! [`form::choose`]'s; every change goes to a side file, which undoes it ([`revert`]).

mod form;
mod made;
mod options;
mod segment;
mod side;
mod steady;

pub use crate::room::Reserved;
pub use form::{Form, Trampolines};
pub use options::Options;
pub use segment::Tables;
pub use side::{Change, Doubt, Left, SideFile};

use crate::bytes::{half, has, word};
use crate::refusal::{Refusal, Result};
use crate::room::{Free, Room, Wanted};
use crate::scan::{Kind, Scan};
use crate::site::{Certainty, Site};
use form::Choice;
use hanok_abi::trampoline::{Template, enter, t32};
use hanok_decode::aarch32::{Encoding, Isa};
use hanok_instructions::mnemonic;
use steady::Steady;

/// A rewritten file.
#[derive(Debug)]
pub struct Patched {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What was changed.
    pub side: SideFile,
}

/// Rewrites what was found in a file.
pub fn patch(scan: &Scan, options: impl Into<Options>) -> Result<Patched> {
    let plan = Plan::new(scan, &options.into())?;
    plan.apply(scan.content.clone())
}

/// Rewrites what was found in a file, which is not kept: a kernel's `vmlinux` with what a debugger
/// needs is so large that it should be in memory once.
pub fn rewrite(scan: Scan, options: impl Into<Options>) -> Result<Patched> {
    let plan = Plan::new(&scan, &options.into())?;
    plan.apply(scan.content)
}

/// What is to be changed in a file.
struct Plan {
    side: SideFile,
    rooms: Vec<Room>,
    linked: bool,
    headers: Vec<usize>,
}

impl Plan {
    fn new(scan: &Scan, options: &Options) -> Result<Self> {
        refuse_patched(scan)?;
        let mut work = Work {
            scan,
            side: SideFile::new(scan),
            jumps: Jumps::new(scan, options)?,
        };
        for site in &scan.sites {
            work.site(site)?;
        }
        let Work { side, jumps, .. } = work;
        Ok(Self {
            side,
            rooms: jumps.map_or(Vec::new(), |jumps| jumps.rooms),
            linked: scan.kind == Kind::Executable,
            headers: scan.headers.clone(),
        })
    }

    fn apply(self, mut bytes: Vec<u8>) -> Result<Patched> {
        let mut side = self.side;
        for change in &side.changes {
            write(&mut bytes, change.offset, change.encoding())?;
        }
        for room in self.rooms {
            side.reserved.extend(room.close(&mut bytes)?);
        }
        if self.linked
            && let Some(room) = side.reserved.iter().find(|room| room.made)
        {
            side.tables = Some(segment::add(&mut bytes, room)?);
        }
        for header in self.headers {
            mark(&mut bytes, header, NO_MARK, MARK)?;
            side.headers.push(header);
        }
        side.seal(&bytes);
        Ok(Patched { bytes, side })
    }
}

/// A file that is looked through for what to change.
struct Work<'a> {
    scan: &'a Scan,
    side: SideFile,
    jumps: Option<Jumps<'a>>,
}

impl Work<'_> {
    fn site(&mut self, site: &Site) -> Result<()> {
        let function = self.scan.function(site).map(str::to_owned);
        if site.certainty == Certainty::Doubtful {
            self.side.doubtful.push(Doubt::new(site, function));
            return Ok(());
        }
        match self.choose(site) {
            Choice::Change(form, is) => {
                if form == Form::Index {
                    self.side.words.push(site.found.encoding.bits());
                }
                self.side
                    .changes
                    .push(Change::new(site, form, is, function));
            }
            Choice::Leave(why) => self.side.left.push(Left::new(site, why, function)),
            Choice::Refuse(why) => return Err(refuse(site, function.as_deref(), why)),
        }
        Ok(())
    }

    fn choose(&mut self, site: &Site) -> Choice {
        // What is linked later would have its numbers twice.
        let linked = matches!(self.scan.kind, Kind::Image | Kind::Executable);
        let choice = form::choose(site, linked, self.side.words.len() as u32);
        match (&mut self.jumps, &choice) {
            (Some(jumps), Choice::Change(Form::Trap | Form::Index, _)) => {
                let branch = jumps.jump(site);
                branch.map_or(choice, |branch| Choice::Change(Form::Trampoline, branch))
            }
            _ => choice,
        }
    }
}

/// What gives sites their trampolines.
struct Jumps<'a> {
    steady: Steady<'a>,
    /// In the order in which they are filled.
    rooms: Vec<Room>,
    which: Trampolines,
}

impl<'a> Jumps<'a> {
    /// Where there is room for them, or can be.
    fn new(scan: &'a Scan, options: &Options) -> Result<Option<Self>> {
        if options.trampolines == Trampolines::None {
            return Ok(None);
        }
        let extends = scan.kind == Kind::Image || Tables::of(&scan.content).is_some();
        let made = made::behind(scan, options)?.filter(|_| extends);
        let Some(steady) = Steady::of(scan, options.in_place) else {
            return Ok(None);
        };
        let found = steady.room().zip(scan.base).map(|(range, base)| Free {
            offset: range.start.wrapping_sub(base) as usize,
            range,
            made: false,
        });
        let rooms: Vec<_> = found.into_iter().chain(made).map(Room::new).collect();
        Ok((!rooms.is_empty()).then_some(Self {
            steady,
            rooms,
            which: options.trampolines,
        }))
    }

    /// The branch to the trampoline of a site that can have one.
    fn jump(&mut self, site: &Site) -> Option<Encoding> {
        let noted = self.which == Trampolines::All || !form::writes_dacr(site);
        if !noted || site.it.is_inside() || !self.steady.stays(site) {
            return None;
        }
        let (encoding, free) = (site.found.encoding, self.steady.free(site));
        let template = match encoding {
            Encoding::A32(word) => Template::of(word, free),
            Encoding::Wide(both) => Template::of_t32(both, free),
            Encoding::Narrow(_) => None,
        };
        let enter = |at| match encoding {
            Encoding::A32(word) => enter(word, site.address, at).map(Encoding::A32),
            _ => t32::enter(site.address, at).map(Encoding::Wide),
        };
        let wanted = Wanted {
            template: &template?,
            site: site.address,
            enter: &enter,
        };
        self.rooms.iter_mut().find_map(|room| room.place(&wanted))
    }
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
    let name = mnemonic(&site.found.operation);
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

/// Whether a file is rewritten already: by its mark or its room of trampolines, or as many of its
/// instructions are as would have to be.
pub fn rewritten(scan: &Scan) -> bool {
    let must = |site: &&Site| site.found.user.must_be_rewritten();
    let to_do = scan.sites.iter().filter(must).count();
    let marked = |header: &usize| has(&scan.content, header.saturating_add(MARK_AT), &MARK);
    scan.headers.iter().any(marked) || !scan.rooms.is_empty() || scan.trapped > to_do
}

fn refuse_patched(scan: &Scan) -> Result<()> {
    if rewritten(scan) {
        let done = scan.trapped;
        return Err(Refusal::new(
            "this file is rewritten already",
            format!("it has its mark, or SVCs instead of what they stand for ({done})"),
            "give the file as it was, undo it first with `hanok previrt unpatch`, or say --if-needed",
        ));
    }
    Ok(())
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
    for room in side.reserved.iter().filter(|room| !room.made) {
        let end = room.offset.checked_add(room.len as usize);
        let there = end.and_then(|end| before.get_mut(room.offset..end));
        let there = there.ok_or_else(|| Refusal::damaged("its trampolines go beyond its end"))?;
        there.fill(0);
    }
    if let Some(tables) = &side.tables {
        tables.write(&mut before)?;
    }
    before.truncate(side.len);
    side.check_original(&before)?;
    Ok(before)
}
