//! The walker against the naive reading of the tables, at the borders of every level.
//!
//! Three answers for an address are compared: what was asked for (a list of changes, the last
//! one that matters wins), what [`Table::walk`] says, and what a CPU would find: a walk over the
//! raw descriptors that knows the control register and the manual, and nothing of this
//! crate's formats.

use hanok_hal::TableMemory;
use hanok_hal::fake::{FakeTableMemory, FakeTlb};
use hanok_paging::{
    El2Stage1, Format, Geometry, MapError, PaRange, Stage1Access, Stage1Attributes, Stage1Memory,
    Stage2, Stage2Access, Stage2Attributes, Stage2Execute, Stage2Memory, Table, tcr_el2, vtcr_el2,
};
use hanok_types::{Address, Hpa, Span};
use proptest::prelude::*;

const PAGE: u64 = 1 << 12;

/// A regime as the manual has it.
trait Regime: Format {
    /// The level where a walk starts and the bits of an address, from the control register.
    fn start(geometry: &Geometry) -> (u32, u32);
    /// What a leaf's attribute bits say.
    fn attributes(descriptor: u64) -> Self::Attributes;
    /// Some that differ from each other.
    fn choices() -> Vec<Self::Attributes>;
}

impl Regime for Stage2 {
    /// VTCR_EL2: T0SZ, and SL0, which for 4 KiB is 2, 1 or 0 for level 0, 1 or 2.
    fn start(geometry: &Geometry) -> (u32, u32) {
        let vtcr = vtcr_el2(geometry, PaRange::BITS_48);
        (2 - (vtcr >> 6 & 3) as u32, 64 - (vtcr & 0x3f) as u32)
    }

    /// MemAttr [5:2], S2AP [7:6], XN [54:53] (DDI 0487 D8.3).
    fn attributes(descriptor: u64) -> Stage2Attributes {
        Stage2Attributes {
            memory: match descriptor >> 2 & 0xf {
                0b1111 => Stage2Memory::Normal,
                0b0101 => Stage2Memory::NormalNonCacheable,
                0b0001 => Stage2Memory::Device,
                other => panic!("MemAttr {other:#b}"),
            },
            access: match descriptor >> 6 & 3 {
                0 => Stage2Access::None,
                1 => Stage2Access::ReadOnly,
                2 => Stage2Access::WriteOnly,
                _ => Stage2Access::ReadWrite,
            },
            execute: match descriptor >> 53 & 3 {
                0 => Stage2Execute::All,
                1 => Stage2Execute::El0Only,
                2 => Stage2Execute::Never,
                _ => Stage2Execute::El1Only,
            },
        }
    }

    fn choices() -> Vec<Stage2Attributes> {
        let odd = Stage2Attributes {
            memory: Stage2Memory::NormalNonCacheable,
            access: Stage2Access::WriteOnly,
            execute: Stage2Execute::El1Only,
        };
        let none = Stage2Attributes {
            access: Stage2Access::None,
            execute: Stage2Execute::El0Only,
            ..odd
        };
        vec![
            Stage2Attributes::RAM,
            Stage2Attributes::ROM,
            Stage2Attributes::DEVICE,
            odd,
            none,
        ]
    }
}

impl Regime for El2Stage1 {
    /// TCR_EL2.T0SZ; the start level is the first with an index (D8.2, 4 KiB granule).
    fn start(geometry: &Geometry) -> (u32, u32) {
        let bits = 64 - (tcr_el2(geometry, PaRange::BITS_48) & 0x3f) as u32;
        let level = match bits {
            40..=48 => 0,
            31..=39 => 1,
            22..=30 => 2,
            _ => 3,
        };
        (level, bits)
    }

    /// AttrIndx [4:2], AP[2] bit 7, XN bit 54; MAIR_EL2 has Normal at 0 and Device at 1.
    fn attributes(descriptor: u64) -> Stage1Attributes {
        Stage1Attributes {
            memory: match descriptor >> 2 & 7 {
                0 => Stage1Memory::Normal,
                1 => Stage1Memory::Device,
                other => panic!("AttrIndx {other}"),
            },
            access: match (descriptor >> 7 & 1, descriptor >> 54 & 1) {
                (0, 1) => Stage1Access::ReadWrite,
                (1, 1) => Stage1Access::ReadOnly,
                (1, 0) => Stage1Access::ReadExecute,
                _ => panic!("writable and executable"),
            },
        }
    }

    fn choices() -> Vec<Stage1Attributes> {
        vec![
            Stage1Attributes::TEXT,
            Stage1Attributes::RODATA,
            Stage1Attributes::DATA,
            Stage1Attributes::DEVICE,
        ]
    }
}

/// Where an address goes, by a leaf of which level.
type Found<F> = Option<(u64, u32, <F as Format>::Attributes)>;

/// What a CPU finds (DDI 0487 D8.2 and D8.3): 4 KiB granule, 48-bit output addresses.
fn hardware<F: Regime>(table: &Table<F, FakeTableMemory>, address: u64) -> Found<F> {
    let (start, bits) = F::start(table.geometry());
    if address >> bits != 0 {
        return None;
    }
    let mut at = table.root();
    for level in start..=3 {
        let low = 12 + 9 * (3 - level);
        // Concatenated roots have more than nine bits of index.
        let high = if level == start { bits } else { low + 9 };
        let index = (address & ((1 << high) - 1)) >> low;
        let descriptor = table.memory().read(at, index as usize);
        let output = descriptor & 0xffff_ffff_f000;
        match (descriptor & 3, level) {
            (0b11, 0..=2) => at = Hpa::new(output),
            (0b11, 3) | (0b01, 1 | 2) => {
                assert_eq!(output % (1 << low), 0, "RES0 bits of a block's address");
                assert_eq!(descriptor >> 52 & 1, 0, "the contiguous hint is not used");
                assert_eq!(descriptor >> 10 & 1, 1, "the access flag");
                let inside = address & ((1 << low) - 1);
                return Some((output | inside, level, F::attributes(descriptor)));
            }
            (0b00, _) => return None,
            _ => panic!("{descriptor:#x} at level {level} is reserved"),
        }
    }
    None
}

#[derive(Clone, Copy, Debug)]
enum Change<A> {
    Map(u64, A),
    Unmap,
    Protect(A),
}

/// What was done, oldest first.
type Changes<A> = Vec<(u64, u64, Change<A>)>;

/// Where the changes lead an address.
fn expected<A: Copy>(changes: &Changes<A>, address: u64) -> Option<(u64, A)> {
    let mut protected = None;
    let here = |&&(start, len, _): &&(u64, u64, Change<A>)| address.wrapping_sub(start) < len;
    for (start, _, change) in changes.iter().rev().filter(here) {
        match *change {
            Change::Unmap => return None,
            Change::Protect(attributes) => protected = protected.or(Some(attributes)),
            Change::Map(output, attributes) => {
                return Some((output + (address - start), protected.unwrap_or(attributes)));
            }
        }
    }
    None
}

/// A place near a border: of which level, which one, how many pages beside it.
type LeafPlace = (u32, u64, i64);

fn place() -> impl Strategy<Value = LeafPlace> {
    (
        prop::sample::select([12, 21, 30, 39].to_vec()),
        0..6u64,
        -3..4i64,
    )
}

fn address((shift, number, pages): LeafPlace, geometry: &Geometry) -> u64 {
    let top = geometry.input_size();
    // The last ones count from the top.
    let border = match number {
        5 => top,
        4 => top.saturating_sub(1 << shift),
        number => number << shift,
    };
    border.saturating_add_signed(pages * PAGE as i64)
}

/// What to do, from one place to another, and where to: as aligned as the source or less.
#[derive(Clone, Debug)]
struct Wish {
    from: LeafPlace,
    to: LeafPlace,
    kind: u8,
    attributes: usize,
    output: (u32, u64),
}

fn wish() -> impl Strategy<Value = Wish> {
    let output = (prop::sample::select([12, 21, 30].to_vec()), 0..5u64);
    (place(), place(), 0..6u8, 0..5usize, output).prop_map(
        |(from, to, kind, attributes, output)| Wish {
            from,
            to,
            kind,
            attributes,
            output,
        },
    )
}

fn change<F: Regime>(
    table: &mut Table<F, FakeTableMemory>,
    wish: &Wish,
    changes: &mut Changes<F::Attributes>,
) -> Result<(), MapError<F::Input>> {
    let [one, other] = [wish.from, wish.to].map(|place| address(place, table.geometry()));
    let (start, len) = (one.min(other), one.abs_diff(other));
    let choices = F::choices();
    let attributes = choices[wish.attributes % choices.len()];
    let span = Span::new(F::Input::new(start), len).expect("no wrap");
    let mut tlb = FakeTlb {
        invalidated: Vec::new(),
    };
    let change = match wish.kind {
        0..=2 => {
            let (shift, number) = wish.output;
            let output = start + (number << shift);
            table.map(&mut tlb, span, Hpa::new(output), attributes)?;
            Change::Map(output, attributes)
        }
        3 | 4 => {
            table.unmap(&mut tlb, span)?;
            Change::Unmap
        }
        _ => {
            table.protect(&mut tlb, span, attributes)?;
            Change::Protect(attributes)
        }
    };
    changes.push((start, len, change));
    Ok(())
}

/// Beside every border of every level, and of every change.
fn probes<A>(changes: &Changes<A>, geometry: &Geometry) -> Vec<u64> {
    let mut borders = vec![0, geometry.input_size()];
    for shift in [12, 21, 30, 39] {
        borders.extend((1..5).map(|number| number << shift));
        borders.push(geometry.input_size().saturating_sub(1 << shift));
    }
    borders.extend(
        changes
            .iter()
            .flat_map(|(start, len, _)| [*start, start + len]),
    );
    let beside = |border: u64| [border.wrapping_sub(1), border, border + 1, border ^ PAGE];
    borders.into_iter().flat_map(beside).collect()
}

fn agree<F: Regime>(geometry: Geometry, wishes: &[Wish]) -> Result<(), TestCaseError>
where
    F::Attributes: PartialEq,
{
    let memory = FakeTableMemory::new(geometry.root().frames() + 24);
    let mut table = Table::<F, _>::new(geometry, memory).expect("the shape exists");
    let mut changes = Vec::new();
    for wish in wishes {
        // What is refused changes nothing, which the probes see.
        let _ = change(&mut table, wish, &mut changes);
        for address in probes(&changes, &geometry) {
            let found = hardware(&table, address);
            let walked = table.walk(F::Input::new(address));
            let walked = walked.map(|mapping| {
                assert!(mapping.input.contains(F::Input::new(address)));
                (
                    mapping.output.get(),
                    u32::from(mapping.level),
                    mapping.attributes,
                )
            });
            prop_assert_eq!(&walked, &found, "{:#x}", address);
            let meant = found.map(|(output, _, attributes)| (output, attributes));
            prop_assert_eq!(meant, expected(&changes, address), "{:#x}", address);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn stage_2(wishes in prop::collection::vec(wish(), 1..12), shape in 0..3usize) {
        let shapes = [Geometry::BITS_39, Geometry::BITS_40, Geometry::BITS_48];
        agree::<Stage2>(shapes[shape], &wishes)?;
    }

    #[test]
    fn stage_1(wishes in prop::collection::vec(wish(), 1..12), deep: bool) {
        let shape = if deep { Geometry::BITS_48 } else { Geometry::BITS_39 };
        agree::<El2Stage1>(shape, &wishes)?;
    }
}

/// The strategy does reach leaves of every size, refusals for want of tables included.
#[test]
fn the_wishes_reach_every_level() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut levels = [0; 4];
    let mut refused = 0;
    for _ in 0..300 {
        let memory = FakeTableMemory::new(26);
        let mut table = Table::<Stage2, _>::new(Geometry::BITS_48, memory).expect("a root");
        let mut changes = Vec::new();
        for _ in 0..4 {
            let wish = wish().new_tree(&mut runner).expect("a wish").current();
            let done = change(&mut table, &wish, &mut changes);
            refused += usize::from(done == Err(MapError::OutOfTables));
        }
        for mapping in table.iterate().take(64) {
            levels[usize::from(mapping.level)] += 1;
        }
    }
    assert_eq!(levels[0], 0, "there are no blocks at level 0");
    assert!(levels[1..].iter().all(|count| *count > 50), "{levels:?}");
    assert!(refused > 20, "{refused}");
}
