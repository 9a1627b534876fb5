//! The hypervisor's own short descriptors, read by the walk that guests' tables are read with.

use hanok_hal::TableMemory;
use hanok_hal::fake::FakeTableMemory;
use hanok_paging::short::{
    Access, AccessKind, GuestMapping, MappingSize, MemoryType, OwnTable, Privilege, Pxn,
    ShortRegime,
};
use hanok_paging::{MapError, Stage1Attributes};
use hanok_types::{Hpa, Hva, Ipa, Span};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
/// Three megabytes, the last of which ends the address space.
const START: u64 = (1 << 32) - 3 * MIB;

fn span(start: u64, len: u64) -> Span<Hva> {
    Span::new(Hva::new(start), len).unwrap()
}

fn word(memory: &FakeTableMemory, root: Hpa, at: Ipa) -> u32 {
    // The frames of the first level are one table of the memory.
    let first = at.get().wrapping_sub(root.get()) < 0x4000;
    let table = if first { root.get() } else { at.get() & !0xfff };
    let offset = at.get() - table;
    let pair = memory.read(Hpa::new(table), (offset / 8) as usize);
    (pair >> (offset % 8 * 8)) as u32
}

fn walk(table: &OwnTable<FakeTableMemory>, address: u64, by: Privilege) -> Option<GuestMapping> {
    let regime = ShortRegime {
        sctlr: 1,
        ttbr0: table.root().get() as u32,
        dacr: 1,
        ..ShortRegime::without_mmu(Pxn::Absent)
    };
    let access = Access {
        address: address as u32,
        kind: AccessKind::Read,
        by,
    };
    let read = |at| Some(word(table.memory(), table.root(), at));
    regime.walk(&access, read).ok()
}

fn check(table: &OwnTable<FakeTableMemory>, at: u64, expected: Option<(u64, Stage1Attributes)>) {
    assert_eq!(walk(table, at, Privilege::User), None);
    let found = walk(table, at, Privilege::Kernel);
    let translated = table.translate(Hva::new(at));
    assert_eq!(translated.map(Hpa::get), expected.map(|(to, _)| to));
    let Some((to, attributes)) = expected else {
        assert_eq!(found, None);
        return;
    };
    let found = found.unwrap();
    let rights = found.permissions.kernel;
    let (memory, write, execute) = match attributes {
        Stage1Attributes::TEXT => (MemoryType::WRITE_BACK, false, true),
        Stage1Attributes::RODATA => (MemoryType::WRITE_BACK, false, false),
        Stage1Attributes::DATA => (MemoryType::WRITE_BACK, true, false),
        _ => (MemoryType::DEVICE, true, false),
    };
    assert_eq!((found.output.get(), found.memory), (to, memory));
    assert_eq!((rights.write, rights.execute), (write, execute));
    assert!(!found.global);
}

fn attributes() -> impl Strategy<Value = Stage1Attributes> {
    use Stage1Attributes as A;
    prop::sample::select(vec![A::TEXT, A::RODATA, A::DATA, A::DEVICE])
}

/// How many pages are mapped at once.
fn pages() -> impl Strategy<Value = u64> {
    prop_oneof![1..20u64, Just(256), 200..600u64]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn what_is_mapped_is_translated(
        maps in prop::collection::vec((0..768u64, pages(), any::<bool>(), attributes()), 1..8),
    ) {
        let mut table = OwnTable::new(FakeTableMemory::new(5)).unwrap();
        let mut model = BTreeMap::new();
        for (page, len, aligned, attributes) in maps {
            let len = len.min(768 - page);
            let at = START + page * 0x1000;
            let base = 0x4000_0000 + if aligned { 0 } else { 0x3000 };
            let to = Hpa::new(base + page * 0x1000);
            let done = table.map(span(at, len * 0x1000), to, attributes);
            let free = !(page..page + len).any(|page| model.contains_key(&page));
            prop_assert_eq!(done.is_ok(), free);
            for page in page..page + len {
                // After an error, what is below the address that failed may be mapped.
                let mapped = table.translate(Hva::new(START + page * 0x1000)).is_some();
                if mapped {
                    model.entry(page).or_insert((base + page * 0x1000, attributes));
                }
            }
        }
        for page in 0..768 {
            check(&table, START + page * 0x1000, model.get(&page).copied());
        }
    }
}

#[test]
fn sections_where_both_are_aligned() {
    let mut table = OwnTable::new(FakeTableMemory::new(5)).unwrap();
    let input = span(START, 2 * MIB + 0x1000);
    table
        .map(input, Hpa::new(0x4010_0000), Stage1Attributes::DATA)
        .unwrap();
    let size = |at| walk(&table, at, Privilege::Kernel).unwrap().size;
    assert_eq!(size(START), MappingSize::Section);
    assert_eq!(size(START + MIB), MappingSize::Section);
    assert_eq!(size(START + 2 * MIB), MappingSize::Small);
    assert_eq!(table.memory().in_use(), 5);
}

#[test]
fn four_second_level_tables_are_in_a_page() {
    let mut table = OwnTable::new(FakeTableMemory::new(5)).unwrap();
    let mut map = |megabyte: u64| {
        let input = span(megabyte * MIB, 0x1000);
        table.map(input, Hpa::new(0x4000_0000), Stage1Attributes::TEXT)
    };
    for megabyte in 0..4 {
        assert_eq!(map(megabyte), Ok(()));
    }
    assert_eq!(map(4), Err(MapError::OutOfTables));
    assert!(OwnTable::new(FakeTableMemory::new(3)).is_none());
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_mapped() {
    let mut table = OwnTable::new(FakeTableMemory::new(5)).unwrap();
    let mut map =
        |start, len, to| table.map(span(start, len), Hpa::new(to), Stage1Attributes::DATA);
    assert_eq!(map(0x800, 0x1000, 0), Err(MapError::Misaligned));
    assert_eq!(map(0x1000, 0x800, 0), Err(MapError::Misaligned));
    assert_eq!(map(0x1000, 0x1000, 0x10), Err(MapError::Misaligned));
    assert_eq!(map(START, 4 * MIB, 0), Err(MapError::OutOfRange));
    assert_eq!(map(0, 2 * MIB, (1 << 32) - MIB), Err(MapError::OutOfRange));
    assert_eq!(map(START, 3 * MIB, START), Ok(()));
    assert_eq!(
        map(START + MIB, MIB, 0),
        Err(MapError::AlreadyMapped(Hva::new(START + MIB)))
    );
    assert_eq!(table.translate(Hva::new(1 << 32)), None);
}

/// The tables of a CPU that may leave shareable memory out of its caches.
#[derive(Debug)]
struct Alone(FakeTableMemory);

impl TableMemory for Alone {
    fn allocate(&mut self, frames: usize) -> Option<Hpa> {
        self.0.allocate(frames)
    }

    fn free(&mut self, table: Hpa, frames: usize) {
        self.0.free(table, frames);
    }

    fn read(&self, table: Hpa, index: usize) -> u64 {
        self.0.read(table, index)
    }

    fn write(&mut self, table: Hpa, index: usize, descriptor: u64) {
        self.0.write(table, index, descriptor);
    }

    fn shares(&self) -> bool {
        false
    }
}

#[test]
fn ram_is_shareable_unless_the_cpu_is_alone() {
    fn is_shareable<M: TableMemory>(memory: M) -> bool {
        const S: u32 = 1 << 16;
        let mut table = OwnTable::new(memory).unwrap();
        let to = Hpa::new(0x4010_0000);
        table
            .map(span(START, MIB), to, Stage1Attributes::DATA)
            .unwrap();
        table.descriptor(Hva::new(START)) & S != 0
    }
    assert!(is_shareable(FakeTableMemory::new(5)));
    assert!(!is_shareable(Alone(FakeTableMemory::new(5))));
}
