//! Edits of the guest's own tables, of short descriptors, with the TLB maintenance that the architecture asks for
//! (DDI 0406C, B3.10), changes of TTBR0, TTBR1, TTBCR, DACR and CONTEXTIDR, and accesses of each kind: every one must end as
//! a walk of the tables by the manual says.
//!
//! Eight megabytes are edited, two of them among those where a hypervisor without virtualization hardware has to be. Two
//! roots lead to them. In half of the megabytes both roots have the same descriptors, some of them global; in the other half
//! each has its own, none of them global. Each root has two ASIDs for itself.
//!
//! Now and then the maintenance is left out. Until all is invalidated, any translation may be found then, an old one or a new
//! one, and only what must hold anyway is checked.

use super::space::short::{DOMAINS, Pages, ROOT, Root, SECTION_NEVER, SECTION_NORMAL, TABLE};
use super::space::{self, USER_CODE};
use super::trip::{Kind, MASKED, SVC_CLASS, Start, USER_MASKED};
use super::{code, tlb};
use crate::fuzz::Fuzzer;
use crate::fuzz::random::Random;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The megabytes that are edited, by number. Of the first half both roots have the same.
const PLACES: [u32; 8] = [0xa00, 0xa01, 0xa02, 0xffb, 0xa04, 0xa05, 0xa06, 0xff0];
const SHARED: usize = PLACES.len() / 2;
/// The pages of memory to which all entries lead; a large page has sixteen.
const FRAMES: usize = 32;
const LARGE: usize = 16;
/// Where code begins in each of them, in words.
const CODE_AT: usize = 0x200;
/// ASIDs from 1 on, two for each root.
const ASIDS: u32 = 4;
/// Edits, and accesses after each, in a step.
const ROUNDS: u64 = 6;
const ACCESSES: u64 = 3;

/// The other root, equal to [`ROOT`] but for these megabytes.
static OTHER: Root = Root::new();
static IS_COPIED: AtomicBool = AtomicBool::new(false);
/// The second-level tables, by root and place. Those of the places that are shared are the first root's.
static TABLES: [[Pages; PLACES.len()]; 2] = [const { [const { Pages::new() }; PLACES.len()] }; 2];

/// Memory in one megabyte, aligned to large pages.
#[repr(C, align(131072))]
struct Frames([[AtomicU32; 1024]; FRAMES]);
static MEMORY: Frames = Frames([const { [const { AtomicU32::new(0) }; 1024] }; FRAMES]);

impl Frames {
    fn address(&self) -> u32 {
        core::ptr::from_ref(self).addr() as u32
    }

    fn frame(&self, number: usize) -> u32 {
        self.address() + 4096 * number as u32
    }

    fn word(&self, physical: u32) -> &AtomicU32 {
        let offset = (physical - self.address()) as usize / 4;
        &self.0[offset / 1024][offset % 1024]
    }

    /// MOVW R0, and the end of a trip.
    fn put_code(&self, number: usize, value: u32) {
        let movw = 0xe300_0000 | (value >> 12 & 0xf) << 16 | value & 0xfff;
        self.0[number][CODE_AT].store(movw, Relaxed);
        self.0[number][CODE_AT + 1].store(super::trip::ARRIVE, Relaxed);
        code::synchronize(self.frame(number) + 4 * CODE_AT as u32);
    }
}

/// The registers of the translation.
#[derive(Clone, Copy, Debug)]
struct Space {
    /// The root that leads to the places: TTBR0's, or TTBR1's if TTBCR.N is not 0.
    root: usize,
    asid: u32,
    /// TTBCR.N.
    split: u32,
    /// DACR.
    domains: u32,
}

impl Space {
    const FIRST: Self = Self {
        root: 0,
        asid: 1,
        split: 0,
        domains: DOMAINS,
    };

    fn any(random: &mut Random) -> Self {
        let root = random.below(2) as usize;
        let any = random.next() as u32;
        let domain = |number: u32| match any >> (4 * number) & 7 {
            0 => 0,
            1 => 3,
            _ => 1,
        };
        Self {
            root,
            asid: 1 + 2 * root as u32 + random.below(2) as u32,
            split: random.pick(&[0, 0, 0, 1, 2, 7]),
            domains: DOMAINS | domain(1) << 2 | domain(2) << 4 | domain(3) << 6,
        }
    }

    fn enter(self) {
        let table = |root: usize| root_of(root).address() | u64::from(space::short::WALKS);
        let other = if self.split == 0 {
            self.root
        } else {
            1 - self.root
        };
        write_sysreg!("ttbr1_32", table(self.root));
        write_sysreg!("ttbr0_32", table(other));
        write_sysreg!("contextidr_el1", self.asid.into());
        write_sysreg!("tcr_el1", self.split.into());
        write_sysreg!("dacr32_el2", self.domains.into());
    }
}

fn root_of(number: usize) -> &'static Root {
    if number == 0 { &ROOT } else { &OTHER }
}

fn table_of(root: usize, place: usize) -> &'static Pages {
    &TABLES[if place < SHARED { 0 } else { root }][place]
}

/// An access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Load,
    Store,
    Fetch,
}

/// Why there is no access: the fault status, as with long descriptors.
type Fault = u32;
const SECTION_TRANSLATION: Fault = 0x05;
const PAGE_TRANSLATION: Fault = 0x07;
const SECTION_DOMAIN: Fault = 0x3d;
const PAGE_DOMAIN: Fault = 0x3e;
const SECTION_PERMISSION: Fault = 0x0d;
const PAGE_PERMISSION: Fault = 0x0f;

/// What the tables say of an access: the walk of DDI 0406C, B3.5, and the checks of B3.7.
fn walk(space: Space, at: u32, way: Way, user: bool) -> Result<u32, Fault> {
    let first = root_of(space.root).at(at).load(Relaxed);
    let (domain, permissions, never, physical, page) = match first & 3 {
        0 => return Err(SECTION_TRANSLATION),
        1 => {
            let domain = first >> 5 & 0xf;
            let (permissions, never, physical) = second(first, at)?;
            (domain, permissions, never, physical, true)
        }
        _ => {
            let permissions = first >> 10 & 3 | first >> 13 & 4;
            let physical = first & 0xfff0_0000 | at & 0xf_ffff;
            let never = first & SECTION_NEVER != 0;
            (first >> 5 & 0xf, permissions, never, physical, false)
        }
    };
    let or = |section, of_page| if page { of_page } else { section };
    match space.domains >> (2 * domain) & 3 {
        1 => {}
        3 => return Ok(physical),
        _ => return Err(or(SECTION_DOMAIN, PAGE_DOMAIN)),
    }
    let (reads, writes) = match (permissions, user) {
        (0, _) | (1 | 5, true) => (false, false),
        (1..=3, false) | (3, true) => (true, true),
        _ => (true, false),
    };
    let allowed = match way {
        Way::Load => reads,
        Way::Store => writes,
        Way::Fetch => reads && !never,
    };
    if allowed {
        Ok(physical)
    } else {
        Err(or(SECTION_PERMISSION, PAGE_PERMISSION))
    }
}

/// The second level: permissions, execute-never, the physical address.
fn second(first: u32, at: u32) -> Result<(u32, bool, u32), Fault> {
    let table = (first & !0x3ff) as *const u32;
    // SAFETY: a first-level descriptor of ours leads to one of our tables, which are identity-mapped.
    let found = unsafe { table.add((at >> 12 & 0xff) as usize).read_volatile() };
    let permissions = found >> 4 & 3 | found >> 7 & 4;
    match found & 3 {
        0 => Err(PAGE_TRANSLATION),
        1 => {
            let physical = found & 0xffff_0000 | at & 0xffff;
            Ok((permissions, found >> 15 & 1 != 0, physical))
        }
        _ => Ok((permissions, found & 1 != 0, found & !0xfff | at & 0xfff)),
    }
}

/// One step: edits, changes of the space, accesses.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    begin(random);
    let mut space = Space::FIRST;
    space.enter();
    let mut is_dirty = false;
    for _ in 0..ROUNDS {
        if random.once_in(3) {
            space = Space::any(random);
            space.enter();
        }
        let edit = Edit::make(space, random);
        if random.once_in(6) {
            is_dirty = true;
        } else if is_dirty {
            tlb::all(random);
            is_dirty = false;
        } else {
            edit.invalidate(random);
        }
        for _ in 0..1 + random.below(ACCESSES) {
            let near = random.once_in(2).then_some(&edit);
            access(fuzzer, space, near, is_dirty, random);
        }
    }
    end();
}

/// Fills the memory and the second-level tables the first time, and the first-level descriptors each time.
fn begin(random: &mut Random) {
    if !IS_COPIED.swap(true, Relaxed) {
        for (one, other) in ROOT.0.iter().zip(&OTHER.0) {
            other.store(one.load(Relaxed), Relaxed);
        }
        mend_frames();
        for number in 0..FRAMES {
            MEMORY.put_code(number, number as u32);
        }
        for (root, place) in
            (0..2).flat_map(|root| (0..PLACES.len()).map(move |place| (root, place)))
        {
            for at in 0..FRAMES {
                let page = small_page(place, random);
                table_of(root, place).0[page_of(at) as usize].store(page, Relaxed);
            }
        }
    }
    for (place, megabyte) in PLACES.iter().enumerate() {
        for root in 0..2 {
            let domain = (random.below(4) as u32) << 5;
            let descriptor = table_of(root, place).address() as u32 | domain | TABLE;
            let to = [&ROOT, &OTHER];
            if place >= SHARED {
                to[root].at(megabyte << 20).store(descriptor, Relaxed);
            } else if root == 0 {
                for root in to {
                    root.at(megabyte << 20).store(descriptor, Relaxed);
                }
            }
        }
    }
    space::flush();
}

fn end() {
    Space::FIRST.enter();
    for place in PLACES {
        for root in [&ROOT, &OTHER] {
            root.at(place << 20).store(0, Relaxed);
        }
    }
    write_sysreg!("contextidr_el1", 0);
    write_sysreg!("ttbr1_32", 0);
    space::flush();
}

/// What was changed.
struct Edit {
    place: usize,
    /// The page; `None` if it was a first-level descriptor.
    page: Option<u32>,
    /// The descriptor before.
    before: u32,
    /// nG of it.
    was_global: bool,
}

/// The page that a number of a frame has in each megabyte: for a section that leads to the frame.
fn page_of(frame: usize) -> u32 {
    (MEMORY.frame(frame) >> 12) & 0xff
}

/// AP[2:0], none that is reserved.
fn permissions(random: &mut Random) -> u32 {
    random.pick(&[0, 1, 2, 3, 3, 3, 1, 5, 6, 7])
}

/// A descriptor of a small page, or of none.
fn small_page(place: usize, random: &mut Random) -> u32 {
    const NORMAL: u32 = 1 << 6 | 1 << 3 | 1 << 2 | 1 << 10;
    if random.once_in(6) {
        return 0;
    }
    let ap = permissions(random);
    let not_global = place >= SHARED || random.once_in(2);
    let rights = (ap & 3) << 4 | (ap & 4) << 7 | u32::from(not_global) << 11;
    let frame = MEMORY.frame(random.below(FRAMES as u64) as usize);
    frame | rights | NORMAL | 2 | u32::from(random.once_in(3))
}

impl Edit {
    fn make(space: Space, random: &mut Random) -> Self {
        let place = random.below(PLACES.len() as u64) as usize;
        let first = root_of(space.root).at(PLACES[place] << 20);
        let before = first.load(Relaxed);
        if before & 3 == TABLE && !random.once_in(3) {
            return Self::page(space, place, random);
        }
        let domain = (random.below(4) as u32) << 5;
        let not_global = place >= SHARED || random.once_in(2);
        let descriptor = match random.below(7) {
            0 => 0,
            1..=4 => table_of(space.root, place).address() as u32 | domain | TABLE,
            _ => {
                let ap = permissions(random);
                let never = if random.once_in(3) { SECTION_NEVER } else { 0 };
                let rights = (ap & 3) << 10 | (ap & 4) << 13 | u32::from(not_global) << 17;
                MEMORY.address() & 0xfff0_0000 | domain | rights | never | SECTION_NORMAL | 2
            }
        };
        if place < SHARED {
            for root in [&ROOT, &OTHER] {
                root.at(PLACES[place] << 20).store(descriptor, Relaxed);
            }
        } else {
            first.store(descriptor, Relaxed);
        }
        // A table may lead to global pages.
        let was_global = match before & 3 {
            TABLE => place < SHARED,
            _ => before >> 17 & 1 == 0,
        };
        Self {
            place,
            page: None,
            before,
            was_global,
        }
    }

    fn page(space: Space, place: usize, random: &mut Random) -> Self {
        let table = table_of(space.root, place);
        let at = random.below(FRAMES as u64) as usize;
        let large = random.once_in(4);
        let at = if large { at & !(LARGE - 1) } else { at };
        let page = page_of(at);
        let before = table.0[page as usize].load(Relaxed);
        let is_large = |word: u32| word & 3 == 1;
        if large || is_large(before) {
            let ap = permissions(random);
            let not_global = place >= SHARED || random.once_in(2);
            let rights = (ap & 3) << 4 | (ap & 4) << 7 | u32::from(not_global) << 11;
            let never = u32::from(random.once_in(3));
            let frame = random.below(FRAMES as u64) as usize;
            // All sixteen pages around, which had any descriptors.
            let first = page as usize & !(LARGE - 1);
            let frame = MEMORY.frame(frame & !(LARGE - 1));
            let word = if large {
                // TEX[0] is bit 12 here.
                frame | rights | 1 << 12 | never << 15 | 1 << 3 | 1 << 2 | 1 << 10 | 1
            } else {
                0
            };
            let pages = &table.0[first..first + LARGE];
            pages.iter().for_each(|entry| entry.store(word, Relaxed));
            return Self {
                place,
                page: None,
                before: TABLE,
                was_global: place < SHARED,
            };
        }
        let word = small_page(place, random);
        table.0[page as usize].store(word, Relaxed);
        Self {
            place,
            page: Some(page),
            before,
            was_global: before >> 11 & 1 == 0,
        }
    }

    /// Invalidates what a TLB may hold of it, by an operation that is chosen by chance among those that are enough.
    fn invalidate(&self, random: &mut Random) {
        tlb::barrier();
        if self.before & 3 == 0 && random.once_in(2) {
            // A TLB holds no fault (B3.10).
            return;
        }
        let at = PLACES[self.place] << 20;
        let is_table = self.page.is_none() && self.before & 3 == TABLE;
        let (first, count) = match self.page {
            Some(page) => (at | page << 12, 1),
            None if is_table => (at, 256),
            None => (at | (random.below(256) as u32) << 12, 1),
        };
        match random.below(6) {
            0 => tlb::all(random),
            1 if !self.was_global => (1..=ASIDS).for_each(|asid| tlb::asid(asid, random)),
            2 | 3 => tlb::pages_of_all(first, count, random),
            _ if self.was_global && !is_table => {
                tlb::pages(
                    first | (1 + random.below(ASIDS.into()) as u32),
                    count,
                    random,
                );
            }
            _ => (1..=ASIDS).for_each(|asid| tlb::pages(first | asid, count, random)),
        }
        tlb::barrier();
    }
}

/// One access and its check.
fn access(
    fuzzer: &mut Fuzzer<'_>,
    space: Space,
    near: Option<&Edit>,
    is_dirty: bool,
    random: &mut Random,
) {
    let frame = random.below(FRAMES as u64) as usize;
    let way = random.pick(&[Way::Load, Way::Store, Way::Fetch]);
    let user = random.once_in(2);
    // Not the words of code, nor those behind.
    let offset = match way {
        Way::Fetch => 4 * CODE_AT as u32,
        _ => random.below(CODE_AT as u64) as u32 * 4,
    };
    // Mostly one of the places; now and then any address where the hypervisor may be, and the guest has nothing.
    let wild = 0xff00_0000 | random.next() as u32 & 0xff_fffc;
    let at = if random.once_in(6) && walk(space, wild, way, user) == Err(SECTION_TRANSLATION) {
        wild
    } else {
        let place = near.map_or(random.pick(&PLACES), |edit| PLACES[edit.place]);
        let page = near.and_then(|edit| edit.page);
        place << 20 | page.unwrap_or(page_of(frame)) << 12 | offset
    };
    let said = walk(space, at, way, user);
    if way == Way::Fetch
        && let Ok(physical) = said
        && random.once_in(4)
    {
        // Code that is written, and executed at once.
        let number = (physical - MEMORY.address()) as usize / 4096;
        MEMORY.put_code(number, random.next() as u32 & 0xffff);
    }
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next() as u32);
    start.x[1] = at;
    // By PL1 as User mode would, or by User mode itself.
    let from_user = user && (way == Way::Fetch || random.once_in(2));
    let word = match (way, user && !from_user) {
        (Way::Load, false) => 0xe591_0000,
        (Way::Store, false) => 0xe581_0000,
        (Way::Load, true) => 0xe4b1_0000,
        (Way::Store, true) => 0xe4a1_0000,
        (Way::Fetch, _) => 0xe320_f000,
    };
    code::put([word]);
    (start.pc, start.pstate) = match (way, from_user) {
        (Way::Fetch, true) => (at, USER_MASKED),
        (Way::Fetch, false) => (at, MASKED),
        (_, true) => (USER_CODE, USER_MASKED),
        (_, false) => (space::CODE.address() as u32, MASKED),
    };
    // What is there before; a place where something else is could only be loaded from.
    let before = said.map(|physical| MEMORY.word(physical).load(Relaxed));
    // SAFETY: stores reach the frames alone, and what is fetched there is two instructions of ours.
    let end = unsafe { fuzzer.travel(&start) };
    let seen = Seen {
        at,
        way,
        said,
        before,
        start: &start,
        end,
    };
    let judged = if is_dirty {
        seen.judge_dirty()
    } else {
        seen.judge()
    };
    if let Err(what) = judged {
        fuzzer.wrong(format_args!(
            "translations: {what}: {way:?} at {at:#x}, user {user}, LDRT {}, {space:?}, expected {said:x?}: {end:?}, R0 {:#x}",
            user && !from_user,
            end.x[0]
        ));
    }
    // What was stored goes again.
    if let (Ok(physical), Way::Store) = (said, way) {
        let number = (physical - MEMORY.address()) >> 12;
        let pattern = 0xf000_0000 | number << 16 | ((physical & 0xfff) / 4);
        MEMORY.word(physical).store(pattern, Relaxed);
    }
    if is_dirty && way == Way::Store {
        mend_frames();
    }
}

/// Whatever an old translation led a store to gets its pattern again.
fn mend_frames() {
    for (number, frame) in MEMORY.0.iter().enumerate() {
        for (offset, word) in frame[..CODE_AT].iter().enumerate() {
            word.store(0xf000_0000 | (number << 16 | offset) as u32, Relaxed);
        }
    }
}

struct Seen<'a> {
    at: u32,
    way: Way,
    said: Result<u32, Fault>,
    before: Result<u32, Fault>,
    start: &'a Start,
    end: &'a super::trip::End,
}

impl Seen<'_> {
    fn judge(&self) -> Result<(), &'static str> {
        self.judge_dirty()?;
        let end = self.end;
        let (physical, before) = match (self.said, self.before) {
            (Ok(physical), Ok(before)) => (physical, before),
            (Err(status), _) | (_, Err(status)) => {
                return match end.is_abort() {
                    false => Err("no abort"),
                    // An emulator looks at the domain before the second level, the manual (B3.12.3) behind it.
                    true if status == PAGE_TRANSLATION && end.status() == PAGE_DOMAIN => Ok(()),
                    true if end.status() != status => Err("another fault"),
                    true => Ok(()),
                };
            }
        };
        if end.is_abort() {
            return Err("an abort");
        }
        let wanted = match self.way {
            Way::Load => before,
            Way::Store => self.start.x[0],
            Way::Fetch => before >> 4 & 0xf000 | before & 0xfff,
        };
        if end.x[0] != wanted {
            return Err("another value");
        }
        if self.way == Way::Store && MEMORY.word(physical).load(Relaxed) != wanted {
            return Err("another value in memory");
        }
        Ok(())
    }

    /// What must hold with whatever translations.
    fn judge_dirty(&self) -> Result<(), &'static str> {
        let end = self.end;
        let others = (1..15).any(|number| self.start.x[number] != end.x[number]);
        if others || end.is_abort() && self.start.x[0] != end.x[0] {
            return Err("another register changed");
        }
        if end.is_abort() {
            let is_fetch = end.vector == 3;
            if is_fetch != (self.way == Way::Fetch) {
                return Err("an abort of another kind");
            }
            if end.fault_address() != self.at {
                return Err("another fault address");
            }
            if !is_fetch && end.is_write() != (self.way == Way::Store) {
                return Err("another direction");
            }
            return Ok(());
        }
        match (end.kind(), self.way) {
            (_, Way::Load | Way::Store) if end.arrived() => Ok(()),
            (Kind::Synchronous(SVC_CLASS), Way::Fetch) if end.pc() == self.at + 4 => Ok(()),
            _ => Err("an exception that cannot be"),
        }
    }
}
