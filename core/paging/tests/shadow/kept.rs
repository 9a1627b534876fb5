//! What is common and stays when the guest invalidates everything: what its first-level descriptors still say.

use crate::guest::{FIRST_TABLES, SECOND_TABLES};
use crate::world::World;
use hanok_paging::shadow::{Doorbells, FrameKind, Invalidation, Neighbours};
use hanok_paging::short::{Access, AccessKind, Privilege};

type Large = World<12, 32>;

/// The guest's megabytes that are whole on the host, and in pieces.
const WHOLE: u32 = 1 << 20;
const PIECES: u32 = 2 << 20;
/// Spaces of one set of domains: of one table, of the other one, and of the first with another ASID.
const FIRST: usize = 1;
const OTHER_TABLE: usize = 3;
const OTHER_ASID: usize = 5;
/// A space of the first table with other domains.
const OTHER_DOMAINS: usize = 2;

const READ_WRITE: u32 = 0b11 << 10;
const PAGE: u32 = 0b11 << 4 | 0b10;

fn section(to: u32) -> u32 {
    to << 20 | READ_WRITE | 1 << 5 | 0b10
}

fn table(number: usize) -> u32 {
    SECOND_TABLES[number] as u32 | 1 << 5 | 0b01
}

/// Sets the descriptor of a megabyte in some of the first-level tables.
fn edit(world: &mut Large, tables: &[u64], at: u32, value: u32) {
    for table in tables {
        world.edit(table + u64::from(at >> 20) * 4, value);
    }
}

fn read_by(world: &mut Large, space: usize, address: u32, by: Privilege) {
    let kind = AccessKind::Read;
    let access = Access { address, kind, by };
    world.access(0, space, &access, Neighbours::None);
}

fn read(world: &mut Large, space: usize, address: u32) {
    read_by(world, space, address, Privilege::User);
}

fn is_mapped(world: &mut Large, space: usize, at: u32) -> bool {
    !world.find(0, space, Privilege::User, at).is_empty()
}

fn all(world: &mut Large) {
    world.invalidate(0, Invalidation::All);
}

/// A guest with sections at both megabytes, of which one space has read something.
fn world() -> Large {
    let mut world = Large::new(255);
    for at in [WHOLE, PIECES] {
        edit(&mut world, &FIRST_TABLES, at, section(at >> 20));
    }
    all(&mut world);
    for at in [WHOLE, PIECES, PIECES + 0x2000] {
        read(&mut world, FIRST, at);
    }
    world
}

#[test]
fn sections_and_their_pages_stay() {
    let mut world = world();
    for _ in 0..2 {
        all(&mut world);
        for space in [OTHER_ASID, OTHER_TABLE, FIRST] {
            assert!(is_mapped(&mut world, space, WHOLE + 0x1_0000));
            assert!(is_mapped(&mut world, space, PIECES));
            assert!(is_mapped(&mut world, space, PIECES + 0x2000));
            assert!(!is_mapped(&mut world, space, PIECES + 0xf000));
        }
    }
}

#[test]
fn what_the_guest_has_changed_goes() {
    for value in [
        0,
        section(0),
        table(1),
        section(1) & !READ_WRITE,
        section(1) | 1 << 17,
    ] {
        let mut world = world();
        edit(&mut world, &FIRST_TABLES, WHOLE, value);
        edit(&mut world, &FIRST_TABLES, PIECES, value);
        all(&mut world);
        for space in [FIRST, OTHER_TABLE, OTHER_ASID] {
            for at in [WHOLE, PIECES, PIECES + 0x2000] {
                assert!(!is_mapped(&mut world, space, at), "{value:#x}");
            }
        }
    }
}

/// It goes where the two invalidations are one after the other, and the change is between them.
#[test]
fn the_second_of_two_invalidations_counts() {
    let mut world = world();
    all(&mut world);
    edit(&mut world, &FIRST_TABLES, PIECES, 0);
    all(&mut world);
    assert!(!is_mapped(&mut world, FIRST, PIECES) && is_mapped(&mut world, FIRST, WHOLE));
}

#[test]
fn the_table_that_the_registers_name_is_looked_at() {
    let mut world = world();
    edit(&mut world, &FIRST_TABLES[1..], PIECES, 0);
    all(&mut world);
    assert!(!is_mapped(&mut world, OTHER_TABLE, PIECES));
    assert!(!is_mapped(&mut world, FIRST, PIECES));
    read(&mut world, FIRST, PIECES);
    all(&mut world);
    assert!(is_mapped(&mut world, FIRST, PIECES));
}

/// Both views have their entries checked, and those of other domains too.
#[test]
fn each_common_root_is_looked_at() {
    const VIEWS: [(usize, Privilege); 3] = [
        (FIRST, Privilege::Kernel),
        (FIRST, Privilege::User),
        (OTHER_DOMAINS, Privilege::User),
    ];
    let mut world = world();
    for (space, view) in VIEWS {
        read_by(&mut world, space, WHOLE, view);
        read_by(&mut world, space, PIECES, view);
    }
    edit(&mut world, &FIRST_TABLES, PIECES, 0);
    all(&mut world);
    for (space, view) in VIEWS {
        assert!(world.find(0, space, view, PIECES).is_empty());
        assert!(!world.find(0, space, view, WHOLE).is_empty());
    }
}

#[test]
fn a_megabyte_of_several_descriptors_goes() {
    let mut world = world();
    world.edit(SECOND_TABLES[1] + 4, PAGE | 3 << 12);
    edit(&mut world, &FIRST_TABLES, PIECES, table(1));
    read(&mut world, FIRST, PIECES + 0x1000);
    edit(&mut world, &FIRST_TABLES, PIECES, section(2));
    all(&mut world);
    assert!(!is_mapped(&mut world, FIRST, PIECES + 0x1000));
    // From now on the section is all there is.
    read(&mut world, FIRST, PIECES);
    edit(&mut world, &FIRST_TABLES, PIECES, section(0));
    read(&mut world, FIRST, PIECES + 0x2000);
    all(&mut world);
    assert!(!is_mapped(&mut world, FIRST, PIECES));
    read(&mut world, FIRST, PIECES);
    all(&mut world);
    assert!(is_mapped(&mut world, FIRST, PIECES));
}

/// Pages of a table that the guest's table of pages leads to are not told apart by a first-level descriptor.
#[test]
fn pages_of_the_guest_s_tables_go() {
    let mut world = world();
    world.edit(SECOND_TABLES[1] + 4, PAGE | 3 << 12);
    edit(&mut world, &FIRST_TABLES, PIECES, table(1));
    all(&mut world);
    read(&mut world, FIRST, PIECES + 0x1000);
    world.edit(SECOND_TABLES[1] + 4, 0);
    all(&mut world);
    for space in [FIRST, OTHER_TABLE] {
        assert!(!is_mapped(&mut world, space, PIECES + 0x1000));
    }
    world.edit(SECOND_TABLES[1] + 4, PAGE | 3 << 12);
    read(&mut world, FIRST, PIECES + 0x1000);
    assert!(is_mapped(&mut world, OTHER_TABLE, PIECES + 0x1000));
}

/// What the host changes meanwhile, what is set aside has to follow.
#[test]
fn frames_and_doorbells_change_between_the_invalidation_and_the_look() {
    let mut world = world();
    let kernel = Privilege::Kernel;
    world.change_frame(512, Some(FrameKind::Doorbell));
    for at in [PIECES, PIECES + 0x2000] {
        let kind = AccessKind::Write;
        let access = Access {
            address: at,
            kind,
            by: kernel,
        };
        world.access(0, FIRST, &access, Neighbours::None);
    }
    all(&mut world);
    let doorbells = Doorbells {
        first: PIECES,
        step: 1,
        count: 1,
    };
    world.close_doorbells(0, FIRST, doorbells);
    world.change_frame(512 + 2, None);
    world.change_frame(256, Some(FrameKind::Code));
    let found = world.find(0, FIRST, kernel, PIECES);
    assert!(found.iter().all(|one| !one.allows(AccessKind::Write)) && !found.is_empty());
    assert!(world.find(0, FIRST, kernel, PIECES + 0x2000).is_empty());
    for space in [FIRST, OTHER_TABLE] {
        assert!(!is_mapped(&mut world, space, PIECES + 0x2000));
        assert!(!is_mapped(&mut world, space, WHOLE));
    }
}

/// Own entries go from each root, also where it is used next for another space.
#[test]
fn what_is_not_global_goes() {
    let mut world = world();
    edit(&mut world, &FIRST_TABLES, PIECES, section(2) | 1 << 17);
    all(&mut world);
    read(&mut world, FIRST, PIECES);
    read(&mut world, OTHER_TABLE, PIECES);
    all(&mut world);
    assert!(!is_mapped(&mut world, FIRST, PIECES) && is_mapped(&mut world, FIRST, WHOLE));
    read(&mut world, FIRST, PIECES);
    world.invalidate(0, Invalidation::Asid(1));
    assert!(!is_mapped(&mut world, FIRST, PIECES) && is_mapped(&mut world, FIRST, WHOLE));
}
