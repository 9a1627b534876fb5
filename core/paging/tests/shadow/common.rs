//! What is global: one space has it from another, and all lose it together.

use crate::Step;
use crate::guest::{FIRST_TABLES, SECOND_TABLES};
use crate::world::World;
use hanok_paging::shadow::{Invalidation, Neighbours};
use hanok_paging::short::{Access, AccessKind, Privilege};

type Large = World<12, 32>;

/// The guest's megabyte that is in pieces on the host.
const AT: u32 = 2 << 20;
/// Spaces of one set of domains: of another table, another ASID, and both.
const FIRST: usize = 1;
const OTHERS: [usize; 3] = [3, 5, 4];

const PAGE: u32 = 0b11 << 4 | 0b10;
const NOT_GLOBAL: u32 = 1 << 11;
/// A section of the guest's at [`AT`], which everybody may write.
const LARGE: u32 = AT | 0b11 << 10 | 1 << 5 | 0b10;

/// A guest of which all spaces have one second-level table at `AT`: a global page, and one that is not.
fn world() -> Large {
    let mut world = Large::new(255);
    world.edit(SECOND_TABLES[1], PAGE | 3 << 12);
    world.edit(SECOND_TABLES[1] + 4, PAGE | NOT_GLOBAL | 5 << 12);
    for table in FIRST_TABLES {
        world.edit(table + 8, SECOND_TABLES[1] as u32 | 1 << 5 | 0b01);
    }
    world.invalidate(0, Invalidation::All);
    world
}

/// A read by programs of a space, on this CPU.
fn read(world: &mut Large, space: usize, cpu: usize, address: u32) {
    let access = Access {
        address,
        kind: AccessKind::Read,
        by: Privilege::User,
    };
    world.run(&Step::Access(0, space, cpu, access, Neighbours::None));
}

fn is_mapped(world: &mut Large, space: usize, at: u32) -> bool {
    !world.find(0, space, Privilege::User, at).is_empty()
}

#[test]
fn a_new_space_begins_with_what_is_global() {
    let mut world = world();
    read(&mut world, FIRST, 0, AT);
    for space in OTHERS {
        assert!(is_mapped(&mut world, space, AT));
        assert!(!is_mapped(&mut world, space, AT + 0x1000));
    }
    // Other domains are other rights.
    assert!(!is_mapped(&mut world, 2, AT));
}

#[test]
fn a_space_with_entries_of_its_own_there_shares_none() {
    let mut world = world();
    read(&mut world, FIRST, 0, AT);
    read(&mut world, FIRST, 0, AT + 0x1000);
    read(&mut world, OTHERS[0], 0, AT);
    assert!(!is_mapped(&mut world, OTHERS[0], AT + 0x1000));
    assert!(!is_mapped(&mut world, FIRST, AT));
    read(&mut world, FIRST, 0, AT);
    assert!(is_mapped(&mut world, FIRST, AT + 0x1000));
    world.invalidate(0, Invalidation::Page { at: AT, asid: 2 });
    for space in [FIRST, OTHERS[0], OTHERS[1]] {
        assert!(!is_mapped(&mut world, space, AT));
    }
    assert!(is_mapped(&mut world, FIRST, AT + 0x1000));
}

#[test]
fn an_asid_is_invalidated_without_what_is_global() {
    let mut world = world();
    read(&mut world, FIRST, 0, AT);
    read(&mut world, FIRST, 0, AT + 0x1000);
    read(&mut world, OTHERS[0], 0, AT);
    world.invalidate(0, Invalidation::Asid(1));
    for space in [FIRST, OTHERS[0], OTHERS[2]] {
        assert!(is_mapped(&mut world, space, AT));
    }
    assert!(!is_mapped(&mut world, FIRST, AT + 0x1000));
    world.invalidate(0, Invalidation::All);
    for space in [FIRST, OTHERS[0], OTHERS[2]] {
        assert!(!is_mapped(&mut world, space, AT));
    }
}

/// A CPU that the vCPU has left still has the entry in its TLB, under the ASID of a root that was not used since.
#[test]
fn what_went_on_one_cpu_is_not_found_on_the_one_before() {
    let mut world = world();
    read(&mut world, FIRST, 0, AT);
    read(&mut world, OTHERS[0], 1, AT);
    world.invalidate(0, Invalidation::PageOfAllAsids { at: AT });
    read(&mut world, FIRST, 0, AT + 0xf_f000);
    assert!(!is_mapped(&mut world, FIRST, AT));
}

/// A guest goes back by itself to a space of which something was invalidated while it was in another one.
#[test]
fn a_space_that_is_entered_without_the_monitor_has_lost_it_too() {
    for what in [
        Invalidation::All,
        Invalidation::Asid(1),
        Invalidation::Page { at: AT, asid: 1 },
        Invalidation::PageOfAllAsids { at: AT },
    ] {
        let mut world = world();
        let own = AT + 0x1000;
        read(&mut world, FIRST, 0, own);
        // The kernel has it, too, and then goes to its programs and back by itself.
        let access = Access {
            address: own,
            kind: AccessKind::Read,
            by: Privilege::Kernel,
        };
        world.access(0, FIRST, &access, Neighbours::None);
        assert!(is_mapped(&mut world, FIRST, own));
        read(&mut world, OTHERS[0], 0, own);
        let before = world.returns;
        assert!(is_mapped(&mut world, OTHERS[0], own));
        assert!(world.returns > before, "the first space is known");
        world.edit(SECOND_TABLES[1] + 4, 0);
        let what = match what {
            Invalidation::Page { asid, .. } => Invalidation::Page { at: own, asid },
            Invalidation::PageOfAllAsids { .. } => Invalidation::PageOfAllAsids { at: own },
            other => other,
        };
        world.invalidate(0, what);
        world.find(0, OTHERS[0], Privilege::User, own);
    }
}

/// Something large and common goes: the root that the guest may go to by itself has another ASID then, or is none.
#[test]
fn a_view_that_is_entered_without_the_monitor_has_lost_it_too() {
    let mut world = world();
    world.edit(FIRST_TABLES[0] + 8, LARGE);
    world.edit(FIRST_TABLES[1] + 8, LARGE);
    world.invalidate(0, Invalidation::All);
    read(&mut world, FIRST, 0, AT);
    read(&mut world, OTHERS[0], 0, AT);
    assert!(!world.find(0, FIRST, Privilege::User, AT).is_empty());
    for table in FIRST_TABLES {
        world.edit(table + 8, 0);
    }
    world.invalidate(0, Invalidation::PageOfAllAsids { at: AT });
    let before = world.crossings;
    assert!(world.find(0, FIRST, Privilege::Kernel, AT).is_empty());
    assert_eq!(world.crossings, before + 1);
}
