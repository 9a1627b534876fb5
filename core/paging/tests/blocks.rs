//! Which descriptors a mapping takes, and what is left after a change.

use hanok_hal::fake::{FakeTableMemory, FakeTlb};
use hanok_paging::{
    El2Stage1, Geometry, MapError, Stage1Attributes, Stage2, Stage2Access, Stage2Attributes, Table,
};
use hanok_types::{Hpa, Ipa, Span};

const PAGE: u64 = 1 << 12;
const MIB2: u64 = 1 << 21;
const GIB: u64 = 1 << 30;

type Guest = Table<Stage2, FakeTableMemory>;

fn guest(frames: usize) -> (Guest, FakeTlb<Ipa>) {
    let table = Table::new(Geometry::BITS_40, FakeTableMemory::new(frames)).unwrap();
    (table, FakeTlb::default())
}

fn span(start: u64, len: u64) -> Span<Ipa> {
    Span::new(Ipa::new(start), len).unwrap()
}

/// Number of leaves at levels 1, 2 and 3.
fn leaves(table: &Guest) -> [usize; 3] {
    [1, 2, 3].map(|level| table.iterate().filter(|m| m.level == level).count())
}

#[test]
fn an_aligned_gibibyte_takes_one_block_and_no_table() {
    let (mut table, mut tlb) = guest(2);
    let done = table.map(
        &mut tlb,
        span(GIB, GIB),
        Hpa::new(3 * GIB),
        Stage2Attributes::RAM,
    );
    assert_eq!(done, Ok(()));
    assert_eq!(leaves(&table), [1, 0, 0]);
    assert_eq!(table.memory().in_use(), 2, "the concatenated root alone");
    assert!(
        tlb.invalidated.is_empty(),
        "nothing was valid, nothing is broken"
    );
}

/// However many leaves a table has, it goes by one descriptor.
#[test]
fn a_whole_table_is_unmapped_at_once() {
    let (mut table, mut tlb) = guest(8);
    // Pages, as the output is not aligned, and a neighbour on either side.
    let output = Hpa::new(5 * GIB + PAGE);
    table
        .map(&mut tlb, span(GIB, 3 * MIB2), output, Stage2Attributes::RAM)
        .unwrap();
    assert_eq!(leaves(&table), [0, 0, 3 * 512]);
    table.unmap(&mut tlb, span(GIB + MIB2, MIB2)).unwrap();
    assert_eq!(tlb.invalidated, [span(GIB + MIB2, MIB2)]);
    assert_eq!(leaves(&table), [0, 0, 2 * 512]);
    // Where nothing is, nothing is broken.
    table.unmap(&mut tlb, span(GIB + MIB2, MIB2)).unwrap();
    assert_eq!(tlb.invalidated.len(), 1);
}

#[test]
fn blocks_grow_with_the_common_alignment() {
    let (mut table, mut tlb) = guest(8);
    let input = span(GIB - MIB2 - PAGE, PAGE + MIB2 + GIB + MIB2 + PAGE);
    let output = Hpa::new(5 * GIB - MIB2 - PAGE);
    table
        .map(&mut tlb, input, output, Stage2Attributes::RAM)
        .unwrap();
    assert_eq!(leaves(&table), [1, 2, 2]);
    // An output that only agrees modulo 2 MiB allows no larger block.
    let (mut table, mut tlb) = guest(8);
    table
        .map(
            &mut tlb,
            span(GIB, GIB),
            Hpa::new(MIB2),
            Stage2Attributes::RAM,
        )
        .unwrap();
    assert_eq!(leaves(&table), [0, 512, 0]);
}

#[test]
fn the_second_root_table_serves_the_upper_half() {
    let (mut table, mut tlb) = guest(2);
    let top = span((1 << 40) - GIB, GIB);
    table
        .map(&mut tlb, top, Hpa::new(0), Stage2Attributes::RAM)
        .unwrap();
    let mapping = table.walk(Ipa::new((1 << 40) - 1)).unwrap();
    assert_eq!((mapping.output, mapping.level), (Hpa::new(GIB - 1), 1));
    assert_eq!(table.walk(Ipa::new(1 << 40)), None);
    assert_eq!(table.walk(Ipa::new(u64::MAX)), None);
}

#[test]
fn a_hole_splits_and_the_rest_keeps_its_meaning() {
    let (mut table, mut tlb) = guest(4);
    table
        .map(&mut tlb, span(0, GIB), Hpa::new(GIB), Stage2Attributes::RAM)
        .unwrap();
    table.unmap(&mut tlb, span(MIB2 + 3 * PAGE, PAGE)).unwrap();
    assert_eq!(leaves(&table), [0, 511, 511]);
    assert_eq!(table.walk(Ipa::new(MIB2 + 3 * PAGE)), None);
    let beside = table.walk(Ipa::new(MIB2 + 4 * PAGE + 5)).unwrap();
    assert_eq!(beside.output, Hpa::new(GIB + MIB2 + 4 * PAGE + 5));
    // The 1 GiB block, the 2 MiB block, then the page were each broken.
    let broken: Vec<u64> = tlb.invalidated.iter().map(Span::len).collect();
    assert_eq!(broken, [GIB, MIB2, PAGE]);
}

#[test]
fn unmapping_all_gives_every_table_back() {
    let (mut table, mut tlb) = guest(6);
    let all = span(PAGE, 3 * MIB2);
    table
        .map(&mut tlb, all, Hpa::new(PAGE), Stage2Attributes::RAM)
        .unwrap();
    assert_eq!(table.memory().in_use(), 2 + 3);
    table.unmap(&mut tlb, all).unwrap();
    assert_eq!(table.memory().in_use(), 2);
    assert_eq!(table.destroy().in_use(), 0);
}

#[test]
fn a_protected_page_differs_from_its_neighbours() {
    let (mut table, mut tlb) = guest(4);
    table
        .map(&mut tlb, span(0, MIB2), Hpa::new(0), Stage2Attributes::RAM)
        .unwrap();
    table
        .protect(&mut tlb, span(PAGE, PAGE), Stage2Attributes::ROM)
        .unwrap();
    let access = |at| table.walk(Ipa::new(at)).unwrap().attributes.access;
    assert_eq!(access(0), Stage2Access::ReadWrite);
    assert_eq!(access(PAGE), Stage2Access::ReadOnly);
    assert_eq!(access(2 * PAGE), Stage2Access::ReadWrite);
}

#[test]
fn refusals_say_why_and_change_nothing() {
    let (mut table, mut tlb) = guest(4);
    let ram = Stage2Attributes::RAM;
    let mut map = |at, len, to| table.map(&mut tlb, span(at, len), Hpa::new(to), ram);
    assert_eq!(map(MIB2, PAGE, 0), Ok(()));
    assert_eq!(
        map(0, 2 * MIB2, 0),
        Err(MapError::AlreadyMapped(Ipa::new(MIB2)))
    );
    assert_eq!(map(1, PAGE, 0), Err(MapError::Misaligned));
    assert_eq!(map(0, 1, 0), Err(MapError::Misaligned));
    assert_eq!(map(0, PAGE, 8), Err(MapError::Misaligned));
    assert_eq!(
        map((1 << 40) - PAGE, 2 * PAGE, 0),
        Err(MapError::OutOfRange)
    );
    assert_eq!(
        map(0, 2 * PAGE, (1 << 48) - PAGE),
        Err(MapError::OutOfRange)
    );
    assert_eq!(
        table.protect(&mut tlb, span(MIB2, 2 * PAGE), ram),
        Err(MapError::NotMapped(Ipa::new(MIB2 + PAGE)))
    );
    assert_eq!(table.iterate().count(), 1);
}

#[test]
fn an_empty_span_is_nothing_to_do() {
    let (mut table, mut tlb) = guest(2);
    let ram = Stage2Attributes::RAM;
    table.map(&mut tlb, span(0, 0), Hpa::new(0), ram).unwrap();
    table.unmap(&mut tlb, span(0, 0)).unwrap();
    table.protect(&mut tlb, span(1 << 40, 0), ram).unwrap();
    assert_eq!(table.iterate().count(), 0);
}

#[test]
fn a_dry_pool_undoes_the_mapping() {
    // Two root frames and two tables: the third table is missing.
    let (mut table, mut tlb) = guest(4);
    let across = span(GIB - PAGE, 2 * PAGE);
    let done = table.map(&mut tlb, across, Hpa::new(0), Stage2Attributes::RAM);
    assert_eq!(done, Err(MapError::OutOfTables));
    assert_eq!(table.iterate().count(), 0);
    assert_eq!(table.memory().in_use(), 2);
}

#[test]
fn stage_1_has_no_concatenated_root() {
    let memory = FakeTableMemory::new(4);
    assert!(Table::<El2Stage1, _>::new(Geometry::BITS_40, memory).is_none());
}

#[test]
fn no_block_at_level_0() {
    let mut tlb = FakeTlb::default();
    let memory = FakeTableMemory::new(2);
    let mut table = Table::<El2Stage1, _>::new(Geometry::BITS_48, memory).unwrap();
    let all = Span::new(hanok_types::Hva::new(0), 512 * GIB).unwrap();
    table
        .map(&mut tlb, all, Hpa::new(0), Stage1Attributes::DATA)
        .unwrap();
    assert!(table.iterate().all(|m| m.level == 1));
    assert_eq!(table.iterate().count(), 512);
}
