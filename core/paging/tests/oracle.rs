//! Descriptors against those of the crate aarch64-paging.

use aarch64_paging::descriptor::{El23Attributes, Stage2Attributes as OracleStage2};
use aarch64_paging::linearmap::LinearMap;
use aarch64_paging::paging::{El2, MemoryRegion, Stage2 as OracleRegime, TranslationRegime};
use hanok_hal::TableMemory;
use hanok_hal::fake::{FakeTableMemory, FakeTlb};
use hanok_paging::{
    El2Stage1, Format, Geometry, Stage1Attributes, Stage2, Stage2Attributes, Table,
};
use hanok_types::{Address, Hpa, Span};
use proptest::prelude::*;

/// A leaf's first input address, level and descriptor.
type Leaf = (u64, usize, u64);

/// Reads the raw descriptors below `table`.
fn raw(memory: &impl TableMemory, geometry: &Geometry, root: Hpa) -> Vec<Leaf> {
    fn visit(
        memory: &impl TableMemory,
        geometry: &Geometry,
        (table, depth, base): (Hpa, usize, u64),
        found: &mut Vec<Leaf>,
    ) {
        let level = geometry.levels()[depth];
        for index in 0..level.entries() {
            let descriptor = memory.read(table, index);
            let start = base + index as u64 * level.size();
            match (descriptor & 3, level.number) {
                (3, 0..=2) => {
                    let next = Hpa::new(descriptor & 0xffff_ffff_f000);
                    visit(memory, geometry, (next, depth + 1, start), found);
                }
                (0, _) => {}
                _ => found.push((start, level.number.into(), descriptor)),
            }
        }
    }
    let mut found = Vec::new();
    visit(memory, geometry, (root, 0, 0), &mut found);
    found
}

fn ours<F: Format>(
    geometry: Geometry,
    [input, output, len]: [u64; 3],
    a: F::Attributes,
) -> Vec<Leaf> {
    let mut table = Table::<F, _>::new(geometry, FakeTableMemory::new(64)).unwrap();
    let span = Span::new(F::Input::new(input), len).unwrap();
    let invalidated = Vec::new();
    let mut tlb = FakeTlb { invalidated };
    table.map(&mut tlb, span, Hpa::new(output), a).unwrap();
    raw(table.memory(), table.geometry(), table.root())
}

fn theirs<R>(
    geometry: &Geometry,
    regime: R,
    [input, output, len]: [u64; 3],
    flags: R::Attributes,
) -> Vec<Leaf>
where
    R: TranslationRegime<Asid = (), VaRange = ()>,
    R::Attributes: Into<Bits>,
{
    let root = usize::from(geometry.root().number);
    let mut map = LinearMap::new(root, output as isize - input as isize, regime);
    let region = MemoryRegion::new(input as usize, (input + len) as usize);
    map.map_range(&region, flags).unwrap();
    let mut found = Vec::new();
    map.walk_range(&region, &mut |range, descriptor, level| {
        if descriptor.is_valid() && (level == 3 || !descriptor.is_table_or_page()) {
            let Bits(flags) = descriptor.flags().into();
            let bits = flags | descriptor.output_address().0 as u64;
            found.push((range.start().0 as u64, level, bits));
        }
        Ok(())
    })
    .unwrap();
    found
}

struct Bits(u64);

impl From<El23Attributes> for Bits {
    fn from(flags: El23Attributes) -> Self {
        Self(flags.bits() as u64)
    }
}

impl From<OracleStage2> for Bits {
    fn from(flags: OracleStage2) -> Self {
        Self(flags.bits() as u64)
    }
}

fn stage1() -> impl Strategy<Value = (Stage1Attributes, El23Attributes)> {
    type E = El23Attributes;
    let common = E::VALID | E::ACCESSED | E::USER_RES1;
    let normal = common | E::ATTRIBUTE_INDEX_0 | E::INNER_SHAREABLE;
    let device = common | E::ATTRIBUTE_INDEX_1 | E::OUTER_SHAREABLE | E::XN;
    prop_oneof![
        Just((Stage1Attributes::TEXT, normal | E::READ_ONLY)),
        Just((Stage1Attributes::RODATA, normal | E::READ_ONLY | E::XN)),
        Just((Stage1Attributes::DATA, normal | E::XN)),
        Just((Stage1Attributes::DEVICE, device)),
    ]
}

fn stage2() -> impl Strategy<Value = (Stage2Attributes, OracleStage2)> {
    type E = OracleStage2;
    let common = E::VALID | E::ACCESS_FLAG;
    let normal = common | E::MEMATTR_NORMAL_INNER_WB | E::MEMATTR_NORMAL_OUTER_WB | E::SH_INNER;
    let device = common | E::MEMATTR_DEVICE_nGnRE | E::SH_OUTER | E::S2AP_ACCESS_RW | E::XN;
    prop_oneof![
        Just((Stage2Attributes::RAM, normal | E::S2AP_ACCESS_RW)),
        Just((Stage2Attributes::ROM, normal | E::S2AP_ACCESS_RO)),
        Just((Stage2Attributes::DEVICE, device)),
    ]
}

/// Input, output and length; the offset is a multiple of a page, 2 MiB or 1 GiB.
fn range() -> impl Strategy<Value = [u64; 3]> {
    let unit = prop_oneof![Just(12), Just(21), Just(30)];
    (0..1u64 << 18, 1..3000u64, 0..40u64, unit, any::<bool>()).prop_map(
        |(start, pages, offset, unit, rounded)| {
            let input = if rounded { start >> 9 << 9 } else { start } << 12;
            [input, input + (offset << unit), pages << 12]
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn stage_1_at_el2(range in range(), (a, oracle) in stage1(), deep in any::<bool>()) {
        let geometry = if deep { Geometry::BITS_48 } else { Geometry::BITS_39 };
        prop_assert_eq!(
            ours::<El2Stage1>(geometry, range, a),
            theirs(&geometry, El2, range, oracle)
        );
    }

    #[test]
    fn stage_2_of_39_bits(range in range(), (a, oracle) in stage2()) {
        let geometry = Geometry::BITS_39;
        prop_assert_eq!(
            ours::<Stage2>(geometry, range, a),
            theirs(&geometry, OracleRegime, range, oracle)
        );
    }
}

#[test]
fn a_gibibyte_block_is_the_oracle_s() {
    let range = [1 << 30, 3 << 30, 2 << 30];
    let geometry = Geometry::BITS_39;
    let flags = El23Attributes::VALID
        | El23Attributes::ACCESSED
        | El23Attributes::USER_RES1
        | El23Attributes::INNER_SHAREABLE
        | El23Attributes::XN;
    let found = ours::<El2Stage1>(geometry, range, Stage1Attributes::DATA);
    assert_eq!(found.len(), 2);
    assert_eq!(found, theirs(&geometry, El2, range, flags));
}
