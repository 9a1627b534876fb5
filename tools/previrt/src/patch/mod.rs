//! Rewrites the sensitive instructions that were found, and undoes that.
//!
//! Only certain instructions are rewritten. A doubtful word may be data; if it is an instruction,
//! the hypervisor finds out when it is executed. Each site keeps its length, so that nothing else
//! in the file moves, and neither relocations nor tables have to be changed. [`form::choose`]
//! decides which form each site gets. Every change is noted in a side file, by which [`revert`]
//! undoes it.

mod appended;
mod form;
mod in_place;
mod lookalikes;
mod options;
mod segment;
mod side;
mod thread;

pub use crate::area::Reserved;
pub use form::{Form, Trampolines};
pub use options::{Lookalikes, Options, Sites};
pub use segment::ElfTables;
pub use side::{Change, DoubtfulWord, LeftInstruction, SideFile};

use crate::area::{Area, FreeArea, Placement, PlainPages};
use crate::bytes::{half, has, word};
use crate::refusal::{Refusal, Result};
use crate::scan::{Kind, Scan};
use crate::site::{Certainty, Site, is_tpidrurw};
use form::Choice;
use hanok_abi::trampoline::{MOST_TRIPLES, TRIPLE, Template, enter, t32};
use hanok_decode::aarch32::{Encoding, Isa};
use hanok_instructions::mnemonic;
use in_place::InPlaceCode;
use std::collections::BTreeMap;

/// A rewritten file.
#[derive(Debug)]
pub struct Patched {
    /// The file's bytes.
    pub bytes: Vec<u8>,
    /// The changes.
    pub side: SideFile,
}

/// Rewrites what was found in a file.
pub fn patch(scan: &Scan, options: impl Into<Options>) -> Result<Patched> {
    let plan = Plan::new(scan, &options.into())?;
    plan.apply(scan.content.clone())
}

/// Rewrites what was found in a file, and consumes the scan: a kernel's `vmlinux` with debugging
/// information is so large that it should be in memory once.
pub fn rewrite(scan: Scan, options: impl Into<Options>) -> Result<Patched> {
    let plan = Plan::new(&scan, &options.into())?;
    plan.apply(scan.content)
}

/// The changes to be made to a file.
struct Plan {
    side: SideFile,
    areas: Vec<Area>,
    plain: Option<PlainPages>,
    linked: bool,
    headers: Vec<usize>,
}

impl Plan {
    fn new(scan: &Scan, options: &Options) -> Result<Self> {
        refuse_patched(scan)?;
        let mut placer = TrampolinePlacer::new(scan, options)?;
        let mut sites = options.sites;
        if sites == Sites::Frequent {
            let doubt =
                |site: &Site| site.certainty == Certainty::Doubtful && is_tpidrurw(&site.found);
            let begins = placer.as_mut().is_some_and(TrampolinePlacer::begin);
            if !begins || scan.sites.iter().any(doubt) {
                (sites, placer) = (Sites::Silent, None);
            }
        }
        let mut work = Rewriting {
            scan,
            side: SideFile::new(scan),
            placer,
            sites,
        };
        work.place_ringing();
        for site in &scan.sites {
            work.site(site)?;
        }
        let Rewriting {
            mut side, placer, ..
        } = work;
        let areas = placer.map_or(Vec::new(), |placer| placer.areas);
        let plain = lookalikes::replace(scan, options, &areas, &mut side)?;
        Ok(Self {
            side,
            areas,
            plain,
            linked: scan.kind == Kind::Executable,
            headers: scan.headers.clone(),
        })
    }

    fn apply(self, mut bytes: Vec<u8>) -> Result<Patched> {
        let mut side = self.side;
        for change in &side.changes {
            write(&mut bytes, change.offset, change.encoding())?;
        }
        for area in self.areas {
            side.reserved.extend(area.close(&mut bytes)?);
        }
        if let Some(pages) = self.plain {
            side.reserved.extend(pages.close(&mut bytes)?);
        }
        if self.linked
            && let Some(area) = side.reserved.iter().find(|area| area.appended)
        {
            side.tables = Some(segment::add(&mut bytes, area)?);
        }
        for header in self.headers {
            mark(&mut bytes, header, NO_MARK, MARK)?;
            side.headers.push(header);
        }
        side.seal(&bytes);
        Ok(Patched { bytes, side })
    }
}

/// The state while a file's sites are gone through.
struct Rewriting<'a> {
    scan: &'a Scan,
    side: SideFile,
    placer: Option<TrampolinePlacer<'a>>,
    sites: Sites,
}

impl Rewriting<'_> {
    fn site(&mut self, site: &Site) -> Result<()> {
        let function = self.scan.function(site).map(str::to_owned);
        if site.certainty == Certainty::Doubtful {
            self.side.doubtful.push(DoubtfulWord::new(site, function));
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
            Choice::Leave(why) => self
                .side
                .left
                .push(LeftInstruction::new(site, why, function)),
            Choice::Refuse(why) => return Err(refuse(site, function.as_deref(), why)),
        }
        Ok(())
    }

    /// Places the trampolines that write through doorbells, before all others: as few doorbells are to be written as can be, because
    /// the hypervisor closes each when an interrupt waits.
    fn place_ringing(&mut self) {
        let Some(placer) = self
            .placer
            .as_mut()
            .filter(|_| self.sites == Sites::Frequent)
        else {
            return;
        };
        let sites = self.scan.sites.iter();
        for site in sites.filter(|site| site.certainty != Certainty::Doubtful) {
            let rings = placer
                .template(site)
                .is_some_and(|template| template.rings());
            if rings && let Some(branch) = placer.jump(site) {
                placer.ringing.insert(site.offset, branch);
            }
        }
    }

    fn choose(&mut self, site: &Site) -> Choice {
        match self.sites {
            Sites::Silent => return form::choose_silent(site),
            Sites::Frequent => {
                let branch = self.placer.as_mut().and_then(|placer| placer.jump(site));
                return form::choose_frequent(site, branch);
            }
            Sites::All => {}
        }
        // A file that is linked later would have each index twice, once from each object.
        let linked = matches!(self.scan.kind, Kind::Image | Kind::Executable);
        let choice = form::choose(site, linked, self.side.words.len() as u32);
        match (&mut self.placer, &choice) {
            (Some(placer), Choice::Change(Form::Trap | Form::Index, _)) => {
                let branch = placer.jump(site);
                branch.map_or(choice, |branch| Choice::Change(Form::Trampoline, branch))
            }
            _ => choice,
        }
    }
}

/// The size of the largest area inside a file: the hypervisor maps no more.
const LARGEST: u32 = MOST_TRIPLES * TRIPLE;

/// Gives sites their trampolines.
struct TrampolinePlacer<'a> {
    in_place: InPlaceCode<'a>,
    /// The areas of memory, in the order in which they are filled.
    areas: Vec<Area>,
    which: Trampolines,
    /// The branches to trampolines that are placed already, by the offsets of their sites.
    ringing: BTreeMap<usize, Encoding>,
}

impl<'a> TrampolinePlacer<'a> {
    /// `None` where there is no memory for trampolines, and none can be added.
    fn new(scan: &'a Scan, options: &Options) -> Result<Option<Self>> {
        if options.trampolines == Trampolines::None || options.sites == Sites::Silent {
            return Ok(None);
        }
        let extends = scan.kind == Kind::Image || ElfTables::of(&scan.content).is_some();
        let extends = extends && !options.inside;
        let appended = appended::behind(scan, options)?.filter(|_| extends);
        let Some(in_place) = InPlaceCode::of(scan, options.in_place) else {
            return Ok(None);
        };
        let found = in_place
            .unused()
            .zip(scan.base)
            .map(|(range, base)| FreeArea {
                offset: range.start.wrapping_sub(base) as usize,
                range: range.start..range.end.min(range.start.saturating_add(LARGEST)),
                appended: false,
            });
        let foresees = in_place.foresees() && options.sites == Sites::Frequent;
        let areas = found.into_iter().chain(appended);
        let areas: Vec<_> = areas.map(|free| Area::new(free, foresees)).collect();
        Ok((!areas.is_empty()).then_some(Self {
            in_place,
            areas,
            which: options.trampolines,
            ringing: BTreeMap::new(),
        }))
    }

    /// Makes the first area be one, even if it gets no trampoline. Answers whether there is room.
    fn begin(&mut self) -> bool {
        self.areas.first_mut().is_some_and(Area::begin)
    }

    /// The trampoline of a site; `None` if it can have none.
    fn template(&mut self, site: &Site) -> Option<Template> {
        let noted = self.which == Trampolines::All || !form::writes_dacr(site);
        if !noted || site.it.is_inside() || !self.in_place.is_in_place(site) {
            return None;
        }
        let free = self.in_place.free(site);
        match site.found.encoding {
            Encoding::A32(word) => Template::of(word, free).or_else(|| {
                Template::of_thread_write(word, self.in_place.thread_write(site), free)
            }),
            Encoding::Wide(both) => Template::of_t32(both, free),
            Encoding::Narrow(_) => None,
        }
    }

    /// The branch to the trampoline of a site; `None` if it can have none.
    fn jump(&mut self, site: &Site) -> Option<Encoding> {
        if let Some(branch) = self.ringing.get(&site.offset) {
            return Some(*branch);
        }
        let template = self.template(site)?;
        let encoding = site.found.encoding;
        let enter = |at| match encoding {
            Encoding::A32(word) => enter(word, site.address, at).map(Encoding::A32),
            _ => t32::enter(site.address, at).map(Encoding::Wide),
        };
        let wanted = Placement {
            template: &template,
            site: site.address,
            enter: &enter,
        };
        self.areas.iter_mut().find_map(|area| area.place(&wanted))
    }
}

/// The mark of a rewritten file, in the last two bytes of the ELF identification, which are padding
/// (gABI, "ELF Identification"). An object may have no SVC that would show that it is rewritten.
const MARK: [u8; 2] = *b"HV";
const NO_MARK: [u8; 2] = [0; 2];
const MARK_AT: usize = 14;

/// Replaces the mark of the ELF header at `header`.
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

/// Writes an instruction at `offset`, low byte first; of T32 the first halfword comes first.
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

/// Whether a file is rewritten already: by its mark, by its trampolines, or because it has at least
/// as many rewritten instructions as it has instructions to rewrite.
pub fn rewritten(scan: &Scan) -> bool {
    let must = |site: &&Site| site.found.user.must_be_rewritten();
    let to_do = scan.sites.iter().filter(must).count();
    let marked = |header: &usize| has(&scan.content, header.saturating_add(MARK_AT), &MARK);
    scan.headers.iter().any(marked) || !scan.areas.is_empty() || scan.trapped > to_do
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

/// Restores the file as it was before it was rewritten.
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
    for area in side.reserved.iter().filter(|area| !area.appended) {
        let end = area.offset.checked_add(area.len as usize);
        let there = end.and_then(|end| before.get_mut(area.offset..end));
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
