//! Random operations against a map of pages.

use hanok_hal::TableMemory;
use hanok_hal::fake::{FakeTableMemory, FakeTlb};
use hanok_paging::{Geometry, MapError, Stage2, Stage2Attributes, Table};
use hanok_types::{Hpa, Ipa, Span};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

const PAGE: u64 = 1 << 12;
const ROOT_FRAMES: usize = 2;

/// Pages in use lie around the border of two 1 GiB blocks, so that every size occurs.
const WINDOW: u64 = (1 << 30) - (2 << 21);
const PAGES: u64 = 4 << 9;

#[derive(Clone, Debug)]
enum Operation {
    Map(Span<Ipa>, Hpa, Stage2Attributes),
    Unmap(Span<Ipa>),
    Protect(Span<Ipa>, Stage2Attributes),
}

fn page_span() -> impl Strategy<Value = Span<Ipa>> {
    let start = prop_oneof![0..PAGES, (0..4u64).prop_map(|block| block << 9)];
    let len = prop_oneof![0..16u64, 0..PAGES, Just(512), Just(1024)];
    (start, len).prop_map(|(start, len)| {
        let len = len.min(PAGES - start);
        Span::new(Ipa::new(WINDOW + start * PAGE), len * PAGE).unwrap()
    })
}

fn attributes() -> impl Strategy<Value = Stage2Attributes> {
    prop_oneof![
        Just(Stage2Attributes::RAM),
        Just(Stage2Attributes::ROM),
        Just(Stage2Attributes::DEVICE)
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    // The output is congruent to the input modulo 2 MiB in half of the cases.
    let map = (page_span(), 0..4u64, any::<bool>(), attributes()).prop_map(
        |(span, pages, same, attributes)| {
            let shift = if same { 0 } else { pages * PAGE };
            Operation::Map(span, Hpa::new(span.start().get() + shift), attributes)
        },
    );
    let protect = (page_span(), attributes()).prop_map(|(s, a)| Operation::Protect(s, a));
    prop_oneof![3 => map, 2 => page_span().prop_map(Operation::Unmap), 1 => protect]
}

/// Page by page: what the table should say.
#[derive(Default)]
struct Model(BTreeMap<u64, (Hpa, Stage2Attributes)>);

impl Model {
    fn pages(span: &Span<Ipa>) -> impl Iterator<Item = u64> + use<> {
        (span.start().get()..span.end().get()).step_by(PAGE as usize)
    }

    fn apply(&mut self, operation: &Operation) -> Result<(), MapError<Ipa>> {
        match operation {
            Operation::Map(span, output, attributes) => {
                if let Some(page) = Self::pages(span).find(|page| self.0.contains_key(page)) {
                    return Err(MapError::AlreadyMapped(Ipa::new(page)));
                }
                for page in Self::pages(span) {
                    let to = output.get() + (page - span.start().get());
                    self.0.insert(page, (Hpa::new(to), *attributes));
                }
            }
            Operation::Unmap(span) => self.0.retain(|page, _| !span.contains(Ipa::new(*page))),
            Operation::Protect(span, attributes) => {
                if let Some(page) = Self::pages(span).find(|page| !self.0.contains_key(page)) {
                    return Err(MapError::NotMapped(Ipa::new(page)));
                }
                for page in Self::pages(span) {
                    self.0.get_mut(&page).unwrap().1 = *attributes;
                }
            }
        }
        Ok(())
    }
}

/// Pages that a leaf covers, as the model keeps them.
fn flatten<M: TableMemory>(table: &Table<Stage2, M>) -> BTreeMap<u64, (Hpa, Stage2Attributes)> {
    let mut pages = BTreeMap::new();
    for mapping in table.iterate() {
        for page in Model::pages(&mapping.input) {
            let to = mapping.output.get() + (page - mapping.input.start().get());
            assert!(
                pages
                    .insert(page, (Hpa::new(to), mapping.attributes))
                    .is_none()
            );
        }
    }
    pages
}

/// How many tables the leaves need: one for each GiB that has smaller leaves, and one for each
/// 2 MiB that has pages.
fn tables_below_root<M: TableMemory>(table: &Table<Stage2, M>) -> usize {
    let regions = |above: u8, shift: u32| {
        let small = table.iterate().filter(|leaf| leaf.level > above);
        let all = small.map(|leaf| leaf.input.start().get() >> shift);
        all.collect::<BTreeSet<_>>().len()
    };
    regions(1, 30) + regions(2, 21)
}

/// What is written, and what the TLB was told, in order.
#[derive(Default)]
struct Log {
    /// Valid descriptors by place, as a walker may have cached them.
    cached: BTreeMap<(Hpa, usize), u64>,
    /// Places broken since the last invalidation.
    broken: Vec<(Hpa, usize)>,
}

/// Checks break-before-make on every write.
struct CheckedMemory {
    frames: FakeTableMemory,
    log: Rc<RefCell<Log>>,
}

impl TableMemory for CheckedMemory {
    fn allocate(&mut self, frames: usize) -> Option<Hpa> {
        self.frames.allocate(frames)
    }

    fn free(&mut self, table: Hpa, frames: usize) {
        let mut log = self.log.borrow_mut();
        assert!(log.broken.is_empty(), "freed before the TLB forgot");
        log.cached.retain(|(at, _), _| *at != table);
        self.frames.free(table, frames);
    }

    fn read(&self, table: Hpa, index: usize) -> u64 {
        self.frames.read(table, index)
    }

    fn write(&mut self, table: Hpa, index: usize, descriptor: u64) {
        let mut log = self.log.borrow_mut();
        let place = (table, index);
        if descriptor == 0 {
            log.broken.push(place);
        } else {
            let old = log.cached.insert(place, descriptor);
            assert!(old.is_none(), "valid to valid without a break");
        }
        self.frames.write(table, index, descriptor);
    }
}

struct CheckedTlb(Rc<RefCell<Log>>);

impl hanok_hal::Tlb<Ipa> for CheckedTlb {
    fn invalidate(&mut self, _: Span<Ipa>) {
        let mut log = self.0.borrow_mut();
        for place in std::mem::take(&mut log.broken) {
            log.cached.remove(&place);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn agrees_with_the_model(operations in prop::collection::vec(operation(), 1..20)) {
        let mut tlb = FakeTlb::default();
        let memory = FakeTableMemory::new(64);
        let mut table = Table::new(Geometry::BITS_40, memory).unwrap();
        let mut model = Model::default();
        for operation in &operations {
            prop_assert_eq!(apply(&mut table, &mut tlb, operation), model.apply(operation));
            prop_assert_eq!(&flatten(&table), &model.0);
            prop_assert_eq!(table.memory().in_use(), ROOT_FRAMES + tables_below_root(&table));
        }
        let everything = Span::new(Ipa::new(0), 1 << 40).unwrap();
        table.unmap(&mut tlb, everything).unwrap();
        prop_assert_eq!(table.memory().in_use(), ROOT_FRAMES);
        prop_assert_eq!(table.destroy().in_use(), 0);
    }

    #[test]
    fn a_tiny_pool_changes_nothing_and_loses_nothing(
        operations in prop::collection::vec(operation(), 1..20),
        frames in ROOT_FRAMES..ROOT_FRAMES + 5,
    ) {
        let mut tlb = FakeTlb::default();
        let memory = FakeTableMemory::new(frames);
        let mut table = Table::new(Geometry::BITS_40, memory).unwrap();
        let mut model = Model::default();
        for operation in &operations {
            match apply(&mut table, &mut tlb, operation) {
                Err(MapError::OutOfTables) => {}
                done => prop_assert_eq!(done, model.apply(operation)),
            }
            prop_assert_eq!(&flatten(&table), &model.0);
        }
        prop_assert_eq!(table.destroy().in_use(), 0);
    }

    #[test]
    fn breaks_before_it_makes(operations in prop::collection::vec(operation(), 1..20)) {
        let log = Rc::new(RefCell::new(Log::default()));
        let frames = FakeTableMemory::new(64);
        let memory = CheckedMemory { frames, log: log.clone() };
        let mut tlb = CheckedTlb(log.clone());
        let mut table = Table::new(Geometry::BITS_40, memory).unwrap();
        for operation in &operations {
            let _ = apply(&mut table, &mut tlb, operation);
            prop_assert!(log.borrow().broken.is_empty());
        }
    }
}

fn apply<M: TableMemory>(
    table: &mut Table<Stage2, M>,
    tlb: &mut impl hanok_hal::Tlb<Ipa>,
    operation: &Operation,
) -> Result<(), MapError<Ipa>> {
    match operation {
        Operation::Map(span, output, attributes) => table.map(tlb, *span, *output, *attributes),
        Operation::Unmap(span) => table.unmap(tlb, *span),
        Operation::Protect(span, attributes) => table.protect(tlb, *span, *attributes),
    }
}
