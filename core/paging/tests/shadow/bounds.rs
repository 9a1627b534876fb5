//! The pools: what is taken back first, and that no call does all the work of a large change.

use hanok_hal::TableMemory;
use hanok_hal::fake::FakeTableMemory;
use hanok_paging::shadow::{
    AsidPool, Filled, Forgetting, FrameKind, FrameLoss, GuestSpace, HardwareRoot, HostFrame,
    HostMemory, Invalidation, Neighbours, Owed, Progress, Shadow, Window, frames,
};
use hanok_paging::short::{Access, AccessKind, Privilege, Pxn, ShortRegime};
use hanok_types::{Hpa, Ipa};
use std::cell::Cell;

use crate::hardware::Cpu;

const MIB: u32 = 1 << 20;

/// A guest without an MMU and with RAM everywhere, in whole megabytes or in pages.
struct Ram {
    whole: bool,
}

impl HostMemory for Ram {
    fn word(&self, _: Ipa) -> Option<u32> {
        None
    }

    fn page(&self, at: Ipa) -> Option<HostFrame> {
        let at = Hpa::new(at.get());
        Some(HostFrame {
            at,
            kind: FrameKind::Plain,
        })
    }

    fn section(&self, at: Ipa) -> Option<HostFrame> {
        self.page(at).filter(|_| self.whole)
    }
}

const PAGES: Ram = Ram { whole: false };
const WHOLE: Ram = Ram { whole: true };

/// Spaces that differ in their ASID alone.
fn space(asid: u8) -> GuestSpace {
    GuestSpace {
        regime: ShortRegime::without_mmu(Pxn::Absent),
        asid,
        confined: false,
    }
}

/// Counts the accesses to tables.
struct Counted {
    memory: FakeTableMemory,
    accesses: Cell<usize>,
}

impl Counted {
    fn count(&self) {
        self.accesses.set(self.accesses.get() + 1);
    }
}

impl TableMemory for Counted {
    fn allocate(&mut self, frames: usize) -> Option<Hpa> {
        self.memory.allocate(frames)
    }

    fn free(&mut self, table: Hpa, frames: usize) {
        self.memory.free(table, frames);
    }

    fn read(&self, table: Hpa, index: usize) -> u64 {
        self.count();
        self.memory.read(table, index)
    }

    fn write(&mut self, table: Hpa, index: usize, descriptor: u64) {
        self.count();
        self.memory.write(table, index, descriptor);
    }
}

type Small<const ROOTS: usize> = Shadow<Counted, ROOTS, 4>;

/// What a call does, of which it does at most so many accesses.
fn bounded<const ROOTS: usize, R>(
    shadow: &mut Small<ROOTS>,
    most: usize,
    call: impl FnOnce(&mut Small<ROOTS>) -> R,
) -> R {
    shadow.memory().accesses.set(0);
    let result = call(shadow);
    let accesses = shadow.memory().accesses.get();
    assert!(accesses <= most, "{accesses}");
    result
}

fn shadow<const ROOTS: usize>() -> Small<ROOTS> {
    let memory = Counted {
        memory: FakeTableMemory::new(frames(ROOTS, 4)),
        accesses: Cell::new(0),
    };
    Shadow::new(memory, Window::new(0xffe0_0000, 0x7770_040e)).unwrap()
}

fn read(address: u32) -> Access {
    Access {
        address,
        kind: AccessKind::Read,
        by: Privilege::Kernel,
    }
}

/// Fills, and counts the calls.
fn fill<const ROOTS: usize>(
    shadow: &mut Small<ROOTS>,
    asid: u8,
    address: u32,
    ram: &Ram,
) -> (usize, Filled) {
    for calls in 1.. {
        // 40 entries removed, a table cleared, and sixteen pages written.
        let once = |shadow: &mut Small<ROOTS>| {
            shadow.fill(&space(asid), &read(address), ram, Neighbours::Of16)
        };
        match bounded(shadow, 40 * 4 + 128 + 16 * 6, once) {
            Filled::Again => (),
            filled => return (calls, filled),
        }
    }
    unreachable!("it ends");
}

fn enter<const ROOTS: usize>(
    shadow: &mut Small<ROOTS>,
    asid: u8,
    pool: &mut AsidPool,
) -> HardwareRoot {
    enter_space(shadow, &space(asid), Privilege::Kernel, pool)
}

fn enter_space<const ROOTS: usize>(
    shadow: &mut Small<ROOTS>,
    space: &GuestSpace,
    view: Privilege,
    pool: &mut AsidPool,
) -> HardwareRoot {
    let once = |shadow: &mut Small<ROOTS>| shadow.enter(space, view, pool);
    match bounded(shadow, 64 * 3, once) {
        Progress::Done(root) => root,
        Progress::Again => panic!("it has a root"),
    }
}

fn is_mapped<const ROOTS: usize>(shadow: &Small<ROOTS>, root: &HardwareRoot, at: u32) -> bool {
    !Cpu::default().find(shadow.memory(), root, at).is_empty()
}

#[test]
fn a_full_root_is_emptied_in_pieces() {
    let mut shadow = shadow::<1>();
    for megabyte in 0..1000 {
        let (calls, filled) = fill(&mut shadow, 1, megabyte * MIB, &WHOLE);
        assert_eq!((calls, filled), (1, Filled::Made(Owed::Nothing)));
    }
    assert_eq!(shadow.invalidate(Invalidation::All), Owed::Nothing);
    // 40 entries are removed by one call.
    assert_eq!(fill(&mut shadow, 1, 0, &WHOLE).0, 25);
    let root = enter(&mut shadow, 1, &mut AsidPool::new(0));
    let mapped = (0..1000).filter(|megabyte| is_mapped(&shadow, &root, megabyte * MIB));
    assert!(mapped.eq([0]));
}

#[test]
fn an_instruction_finds_four_megabytes_in_the_smallest_pool() {
    let mut shadow = shadow::<1>();
    let mut pool = AsidPool::new(0);
    for megabyte in 0..40 {
        let _ = fill(&mut shadow, 1, megabyte * MIB, &PAGES);
        let root = enter(&mut shadow, 1, &mut pool);
        let mapped = (0..40).filter(|one| is_mapped(&shadow, &root, one * MIB));
        assert!(mapped.eq(megabyte.saturating_sub(3)..=megabyte));
    }
}

/// One space more than there are roots for, each used in its turn.
#[test]
fn most_of_those_that_take_turns_find_their_root() {
    const OWN: u8 = 26;
    let mut shadow = shadow::<32>();
    let mut pool = AsidPool::new(0);
    let (mut uses, mut found) = (0, 0);
    for round in 0..40 {
        for asid in 1..=OWN + 2 {
            let root = loop {
                match shadow.enter(&space(asid), Privilege::Kernel, &mut pool) {
                    Progress::Done(root) => break root,
                    Progress::Again => (),
                }
            };
            if round >= 5 {
                uses += 1;
                found += usize::from(is_mapped(&shadow, &root, 0));
            }
            let _ = fill(&mut shadow, asid, 0, &WHOLE);
        }
    }
    assert!(found > uses / 2, "{found} of {uses}");
}

#[test]
fn the_root_that_was_used_longest_ago_loses_its_tables_and_then_itself() {
    let mut shadow = shadow::<2>();
    let mut pool = AsidPool::new(0);
    for (asid, megabyte) in [(1, 0), (2, 0), (1, 1), (2, 1)] {
        let _ = fill(&mut shadow, asid, megabyte * MIB, &PAGES);
    }
    let before = enter(&mut shadow, 1, &mut pool).asid;
    let old = enter(&mut shadow, 2, &mut pool);
    // A fill uses space 1, so 2 is the older one, and its first table goes.
    let _ = fill(&mut shadow, 1, 2 * MIB, &PAGES);
    let root = enter(&mut shadow, 1, &mut pool);
    assert!((0..3).all(|megabyte| is_mapped(&shadow, &root, megabyte * MIB)));
    assert_eq!(root.asid, before);
    let root = enter(&mut shadow, 2, &mut pool);
    assert!(!is_mapped(&shadow, &root, 0) && is_mapped(&shadow, &root, MIB));
    assert_ne!(root.asid, old.asid, "a TLB may hold what is gone");
    // A third space takes the root of space 1.
    let _ = fill(&mut shadow, 3, 0, &PAGES);
    assert_eq!(enter(&mut shadow, 2, &mut pool), root);
    let root = enter(&mut shadow, 1, &mut pool);
    assert!((0..3).all(|megabyte| !is_mapped(&shadow, &root, megabyte * MIB)));
}

#[test]
fn a_space_that_was_invalidated_loses_its_tables_first() {
    let mut shadow = shadow::<3>();
    for (asid, megabyte) in [(1, 0), (1, 1), (2, 0), (2, 1)] {
        let _ = fill(&mut shadow, asid, megabyte * MIB, &PAGES);
    }
    let _ = shadow.invalidate(Invalidation::Asid(2));
    let _ = fill(&mut shadow, 3, 2 * MIB, &PAGES);
    let root = enter(&mut shadow, 1, &mut AsidPool::new(0));
    assert!((0..2).all(|megabyte| is_mapped(&shadow, &root, megabyte * MIB)));
}

#[test]
fn a_frame_is_forgotten_in_every_root_in_pieces() {
    let mut shadow = shadow::<6>();
    let mut pool = AsidPool::new(0);
    for asid in 0..4 {
        let _ = fill(&mut shadow, asid, 7 * MIB, &WHOLE);
        let _ = fill(&mut shadow, asid, (8 + u32::from(asid)) * MIB, &PAGES);
    }
    let forget = |shadow: &mut Small<6>, at: u32, loss| {
        let mut search = Forgetting::new(Hpa::new(at.into()), loss);
        // 256 entries looked at, and each of them removed.
        let once = |shadow: &mut Small<6>| shadow.forget(&mut search);
        let mut once = once;
        (1..).find(|_| bounded(shadow, 256 * 4, &mut once) == Progress::Done(()))
    };
    // What it loses nobody had.
    assert!(forget(&mut shadow, 7 * MIB + 0x5000, FrameLoss::KernelExecute).is_some());
    let root = enter(&mut shadow, 0, &mut pool);
    assert!(is_mapped(&shadow, &root, 7 * MIB));
    // Sixteen parts of each of four roots.
    let calls = forget(&mut shadow, 7 * MIB + 0x5000, FrameLoss::Write);
    assert!(calls.is_some_and(|calls| calls > 16), "{calls:?}");
    // A page is in one table; there is one table of each space.
    let _ = forget(&mut shadow, 11 * MIB, FrameLoss::Mapping);
    for asid in 0..4 {
        let root = enter(&mut shadow, asid, &mut pool);
        assert!(!is_mapped(&shadow, &root, 7 * MIB));
        let own = (8 + u32::from(asid)) * MIB;
        assert_eq!(is_mapped(&shadow, &root, own), asid != 3);
    }
}

#[test]
fn the_window_moves_and_takes_what_the_guest_had_there() {
    let mut shadow = shadow::<2>();
    let mut pool = AsidPool::new(0);
    let asked = shadow.fill(&space(1), &read(0xffe0_1000), &PAGES, Neighbours::Of4);
    assert!(matches!(asked, Filled::InWindow(_)));
    for at in [0xffd0_0000, 0xffc0_0000] {
        let _ = fill(&mut shadow, 1, at, &PAGES);
    }
    let old = enter(&mut shadow, 1, &mut pool).asid;
    let owed = shadow.move_window(Window::new(0xffd0_0000, 0x7770_140e));
    assert_eq!(owed, Owed::Everything);
    assert!(shadow.window().contains(0xffdf_ffff));
    for asid in [1, 2] {
        let root = enter(&mut shadow, asid, &mut pool);
        assert_ne!(root.asid, old);
        let first = |at| Cpu::first(shadow.memory(), &root, at);
        assert_eq!((first(0xffd0_0000), first(0xffe0_0000)), (0x7770_140e, 0));
    }
    let root = enter(&mut shadow, 1, &mut pool);
    assert!(is_mapped(&shadow, &root, 0xffc0_0000));
    let (_, filled) = fill(&mut shadow, 1, 0xffe0_1000, &PAGES);
    assert_eq!(filled, Filled::Made(Owed::Nothing));
}

/// A guest whose one table maps each megabyte to itself for all ASIDs, where there is RAM everywhere.
struct Mapped;

impl HostMemory for Mapped {
    fn word(&self, at: Ipa) -> Option<u32> {
        Some((at.get() as u32 & 0x3ffc) << 18 | 0b11 << 10 | 0b10)
    }

    fn page(&self, at: Ipa) -> Option<HostFrame> {
        WHOLE.page(at)
    }

    fn section(&self, at: Ipa) -> Option<HostFrame> {
        WHOLE.section(at)
    }
}

/// Spaces that have it.
fn mapped(asid: u8) -> GuestSpace {
    let regime = ShortRegime {
        sctlr: 1,
        dacr: 1,
        ..ShortRegime::without_mmu(Pxn::Absent)
    };
    GuestSpace {
        regime,
        ..space(asid)
    }
}

/// The guest's program reads each of so many megabytes.
fn read_all<const ROOTS: usize>(shadow: &mut Small<ROOTS>, megabytes: u32) {
    for megabyte in 0..megabytes {
        let access = Access {
            by: Privilege::User,
            ..read(megabyte * MIB)
        };
        let once =
            |shadow: &mut Small<ROOTS>| shadow.fill(&mapped(1), &access, &Mapped, Neighbours::Of16);
        let calls = (1..).find(|_| bounded(shadow, 200, once) != Filled::Again);
        assert!(calls <= Some(2));
    }
}

#[test]
fn a_new_space_gets_what_is_common_in_one_short_call() {
    let mut shadow = shadow::<6>();
    let mut pool = AsidPool::new(0);
    read_all(&mut shadow, 1000);
    for asid in 2..6 {
        let once = |shadow: &mut Small<6>| shadow.enter(&mapped(asid), Privilege::User, &mut pool);
        let Progress::Done(root) = bounded(&mut shadow, 64 * 3, once) else {
            panic!("it has a root");
        };
        let there = (0..1000).filter(|megabyte| is_mapped(&shadow, &root, megabyte * MIB));
        assert_eq!(there.count(), 64);
    }
    // A section that all have goes from all.
    let once =
        |shadow: &mut Small<6>| shadow.invalidate(Invalidation::PageOfAllAsids { at: 0x1234 });
    let owed = bounded(&mut shadow, 200, once);
    assert_eq!(owed, Owed::PageEverywhere { at: 0x1234 });
    for asid in 1..6 {
        let root = enter_space(&mut shadow, &mapped(asid), Privilege::User, &mut pool);
        assert!(!is_mapped(&shadow, &root, 0) && is_mapped(&shadow, &root, MIB));
    }
    // The fifth root and the common one are emptied piece by piece.
    assert_eq!(shadow.invalidate(Invalidation::All), Owed::Nothing);
    let mut calls = 0;
    let once = |shadow: &mut Small<6>| shadow.enter(&mapped(9), Privilege::User, &mut pool);
    let mut once = once;
    while bounded(&mut shadow, 40 * 4, &mut once) == Progress::Again {
        calls += 1;
    }
    assert!(calls >= 25, "{calls}");
}

/// A section that is not kept goes from all roots that have a copy of it. There may be many of both.
#[test]
fn what_is_not_kept_goes_in_pieces() {
    let mut shadow = shadow::<60>();
    let mut pool = AsidPool::new(0);
    read_all(&mut shadow, 60);
    for asid in 2..50 {
        enter_space(&mut shadow, &mapped(asid), Privilege::User, &mut pool);
    }
    assert_eq!(shadow.invalidate(Invalidation::All), Owed::Nothing);
    let mut calls = 0;
    // The guest's tables say something else now.
    let once = |shadow: &mut Small<60>| shadow.check_kept(&mapped(1), |_| Some([0; 16]));
    while bounded(&mut shadow, 400, once) == Progress::Again {
        calls += 1;
    }
    assert!(calls >= 60, "{calls}");
}

#[test]
fn all_frames_come_back() {
    let mut shadow = shadow::<3>();
    let _ = fill(&mut shadow, 1, 0, &PAGES);
    assert_eq!(shadow.memory().memory.in_use(), 13);
    assert_eq!(shadow.destroy().memory.in_use(), 0);
    let few = FakeTableMemory::new(4);
    assert!(Shadow::<_, 1, 4>::new(few, Window::new(0, 0)).is_none());
}
