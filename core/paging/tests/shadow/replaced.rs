//! What random steps meet seldom: an entry of one kind in the place of another one.

use crate::guest::{FIRST_TABLES, SECOND_TABLES};
use crate::world::World;
use hanok_paging::shadow::{Doorbells, Filled, FrameKind, Invalidation, Neighbours};
use hanok_paging::short::{Access, AccessKind, Privilege};

type Large = World<12, 32>;

/// Of domain 1, read-only or not, for kernel and programs, accessed.
const READ_ONLY: u32 = 1 << 15 | 0b11 << 10;
const READ_WRITE: u32 = 0b11 << 10;
const PAGE_READ_WRITE: u32 = 0b11 << 4 | 0b10;
const LARGE_READ_WRITE: u32 = 0b11 << 4 | 0b01;

/// The guest's megabyte that is whole on the host.
const AT: u32 = 1 << 20;
const FIRST: u64 = FIRST_TABLES[0] + 4;

fn section(to: u32, rights: u32) -> u32 {
    to << 20 | rights | 1 << 5 | 0b10
}

fn table(number: usize) -> u32 {
    SECOND_TABLES[number] as u32 | 1 << 5 | 0b01
}

fn access(world: &mut Large, address: u32, kind: AccessKind, by: Privilege) {
    let access = Access { address, kind, by };
    world.access(0, 1, &access, Neighbours::None);
}

fn write(world: &mut Large, address: u32) {
    access(world, address, AccessKind::Write, Privilege::User);
}

fn read(world: &mut Large, address: u32) {
    access(world, address, AccessKind::Read, Privilege::User);
}

fn is_mapped(world: &mut Large, at: u32) -> bool {
    !world.find(0, 1, Privilege::User, at).is_empty()
}

#[test]
fn pages_in_the_place_of_a_section_and_the_reverse() {
    let mut world = Large::new(255);
    world.edit(FIRST, section(1, READ_ONLY));
    read(&mut world, AT);
    assert!(is_mapped(&mut world, AT + 0xf_f000));
    world.edit(SECOND_TABLES[1], PAGE_READ_WRITE | 3 << 12);
    world.edit(FIRST, table(1));
    // The CPU still has the section, which refuses this.
    write(&mut world, AT);
    assert!(!is_mapped(&mut world, AT + 0xf_f000));
    world.edit(FIRST, section(1, READ_WRITE));
    read(&mut world, AT + 0x1000);
    assert!(is_mapped(&mut world, AT + 0xf_f000));
    write(&mut world, AT);
}

#[test]
fn pieces_of_a_large_page_go_at_once_even_among_small_ones() {
    let mut world = Large::new(255);
    for page in 0..16 {
        world.edit(SECOND_TABLES[1] + page * 4, LARGE_READ_WRITE);
    }
    world.edit(SECOND_TABLES[1] + 16 * 4, PAGE_READ_WRITE | 3 << 12);
    world.edit(FIRST, table(1));
    world.invalidate(0, Invalidation::All);
    for page in [0, 1, 16] {
        write(&mut world, AT + (page << 12));
    }
    let at = AT + 0xf000;
    world.invalidate(0, Invalidation::Page { at, asid: 1 });
    assert!(!is_mapped(&mut world, AT) && !is_mapped(&mut world, AT + 0x1000));
    assert!(is_mapped(&mut world, AT + 0x1_0000));
}

#[test]
fn pages_of_a_section_go_at_once() {
    let mut world = Large::new(255);
    // This megabyte is in pieces on the host.
    world.edit(FIRST, section(2, READ_WRITE));
    world.invalidate(0, Invalidation::All);
    for page in [0, 1, 255] {
        write(&mut world, AT + (page << 12));
    }
    world.invalidate(0, Invalidation::PageOfAllAsids { at: AT + 0x5000 });
    assert!(
        [0, 1, 255]
            .iter()
            .all(|page| !is_mapped(&mut world, AT + (page << 12)))
    );
}

#[test]
fn a_frame_is_code_and_then_plain_again() {
    let mut world = Large::new(255);
    let at = AT + 0x1000;
    let kernel = |world: &mut Large, kind| {
        let access = Access {
            address: at,
            kind,
            by: Privilege::Kernel,
        };
        match world.fill(0, 1, &access, Neighbours::None) {
            Filled::Made(_) => true,
            Filled::Protected(_) => false,
            other => panic!("{other:?}"),
        }
    };
    world.edit(FIRST, section(1, READ_WRITE));
    write(&mut world, at);
    assert!(!kernel(&mut world, AccessKind::Execute));
    world.change_frame(257, Some(FrameKind::Code));
    // Neither is the page writable, nor the section around it there.
    assert!(!is_mapped(&mut world, at) && !is_mapped(&mut world, AT));
    access(&mut world, at, AccessKind::Execute, Privilege::Kernel);
    access(&mut world, at, AccessKind::Execute, Privilege::User);
    assert!(!kernel(&mut world, AccessKind::Write));
    world.change_frame(257, Some(FrameKind::Plain));
    assert!(world.find(0, 1, Privilege::Kernel, at).is_empty());
    assert!(is_mapped(&mut world, at), "programs lose nothing by it");
    access(&mut world, at, AccessKind::Write, Privilege::Kernel);
    access(&mut world, at, AccessKind::Write, Privilege::User);
}

/// Doorbells: those that were made are read-only once they are closed, for the kernel alone, and
/// writable again after the next abort.
#[test]
fn closed_doorbells_can_be_read_until_they_are_filled_anew() {
    let mut world = Large::new(255);
    world.edit(FIRST, section(1, READ_WRITE));
    for page in [256, 258, 272] {
        world.change_frame(page, Some(FrameKind::Doorbell));
    }
    let kernel = |world: &mut Large, page: u32| {
        let found = world.find(0, 1, Privilege::Kernel, AT + (page << 12));
        found.first().map(|one| one.allows(AccessKind::Write))
    };
    for page in [0, 1, 2, 15] {
        access(
            &mut world,
            AT + (page << 12),
            AccessKind::Write,
            Privilege::Kernel,
        );
    }
    write(&mut world, AT);
    let doorbells = Doorbells {
        first: AT,
        step: 2,
        count: 9,
    };
    for _ in 0..2 {
        world.close_doorbells(0, 1, doorbells);
        let found = [0, 1, 2, 15, 16].map(|page| kernel(&mut world, page));
        let (open, closed) = (Some(true), Some(false));
        assert_eq!(found, [closed, open, closed, open, None]);
    }
    let programs = world.find(0, 1, Privilege::User, AT);
    assert!(programs.iter().all(|one| one.allows(AccessKind::Write)) && !programs.is_empty());
    access(&mut world, AT, AccessKind::Write, Privilege::Kernel);
    assert_eq!(kernel(&mut world, 0), Some(true));
    assert_eq!(kernel(&mut world, 2), Some(false));
    world.close_doorbells(0, 1, doorbells);
    assert_eq!(kernel(&mut world, 0), Some(false));
}

/// Doorbells that were closed and are opened again, but for one that was made anew as read-only.
#[test]
fn closed_doorbells_are_opened_as_they_were() {
    let mut world = Large::new(255);
    world.edit(FIRST, section(1, READ_WRITE));
    let pages = [0, 1, 2, 15];
    for page in pages {
        world.change_frame(256 + page, Some(FrameKind::Doorbell));
    }
    let at = |page: u64| AT + ((page as u32) << 12);
    let open = |world: &mut Large| {
        pages.map(|page| {
            let found = world.find(0, 1, Privilege::Kernel, at(page));
            found.first().map(|one| one.allows(AccessKind::Write))
        })
    };
    for page in pages {
        access(&mut world, at(page), AccessKind::Write, Privilege::Kernel);
    }
    let doorbells = Doorbells {
        first: AT,
        step: 1,
        count: 17,
    };
    for _ in 0..2 {
        world.close_doorbells(0, 1, doorbells);
        assert_eq!(open(&mut world), [Some(false); 4]);
        world.open_doorbells(0, 1, doorbells);
        assert_eq!(open(&mut world), [Some(true); 4]);
    }
    world.close_doorbells(0, 1, doorbells);
    world.change_frame(258, Some(FrameKind::Sealed));
    access(&mut world, at(2), AccessKind::Read, Privilege::Kernel);
    world.open_doorbells(0, 1, doorbells);
    let wanted = [true, true, false, true].map(Some);
    assert_eq!(open(&mut world), wanted);
}
