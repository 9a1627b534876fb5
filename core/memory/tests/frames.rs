//! Where spans go, and that none is lost or given twice.

use hanok_memory::{FrameMap, MAX_SPANS, MemoryError};
use hanok_types::{Address, Hpa, Ipa, PAGE_SIZE, Span};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const RAM: Ipa = hanok_types::platform::RAM;

fn span(start: u64, len: u64) -> Span<Hpa> {
    Span::new(Hpa::new(start), len).unwrap()
}

fn map(ram: &[(u64, u64)], reserved: &[(u64, u64)]) -> FrameMap {
    let spans = |of: &[(u64, u64)]| of.iter().map(|(s, l)| span(*s, *l)).collect::<Vec<_>>();
    FrameMap::new(&spans(ram), &spans(reserved)).unwrap()
}

#[test]
fn reservations_cut_whole_pages() {
    let map = map(&[(0x4000_0800, 0x1_0000)], &[(0x4000_3fff, 2), (0, 0x10)]);
    assert_eq!(
        map.free_spans(),
        [span(0x4000_1000, 0x2000), span(0x4000_5000, 0xb000)]
    );
}

#[test]
fn touching_and_overlapping_banks_are_one() {
    let map = map(&[(GIB, GIB), (2 * GIB, GIB), (GIB + MIB, 3 * GIB)], &[]);
    assert_eq!(map.free_spans(), [span(GIB, 3 * GIB + MIB)]);
}

#[test]
fn a_guest_gets_a_gibibyte_block_where_one_is_free() {
    // As on QEMU virt with 3 GiB: the hypervisor sits at the start of RAM.
    let mut map = map(&[(GIB, 3 * GIB)], &[(GIB, 16 * MIB)]);
    let guest = map.allocate_for_guest(GIB, RAM).unwrap();
    assert_eq!(guest, span(2 * GIB, GIB));
    let next = map.allocate_for_guest(GIB, RAM).unwrap();
    assert_eq!(next, span(3 * GIB, GIB));
    let none = map.allocate_for_guest(GIB, RAM);
    let largest = GIB - 16 * MIB;
    assert_eq!(none, Err(MemoryError::NoHole { largest }));
}

#[test]
fn else_2_mib_and_else_pages() {
    // 1.5 GiB free, but no aligned gibibyte in it that a guest at 1 GiB could use.
    let mut map = map(&[(GIB + 3 * MIB, GIB + 100 * MIB)], &[]);
    let guest = map.allocate_for_guest(GIB + 64 * MIB, RAM).unwrap();
    assert!(guest.start().is_aligned(2 * MIB) && !guest.start().is_aligned(GIB));
    // A guest of 3 MiB in a hole that holds it only off the 2 MiB lattice.
    let mut map = self::map(&[(GIB + MIB, 3 * MIB)], &[]);
    let guest = map.allocate_for_guest(3 * MIB, RAM).unwrap();
    assert_eq!(guest, span(GIB + MIB, 3 * MIB));
}

#[test]
fn a_small_guest_leaves_the_large_blocks_whole() {
    let mut map = map(&[(GIB, 2 * GIB)], &[(GIB, MIB)]);
    let small = map.allocate_for_guest(64 * MIB, RAM).unwrap();
    assert!(small.end() <= Hpa::new(2 * GIB));
    let table = map.allocate(PAGE_SIZE, PAGE_SIZE).unwrap();
    assert!(
        table.end() <= Hpa::new(GIB + 2 * MIB),
        "in the odd mebibyte"
    );
    assert!(map.allocate_for_guest(GIB, RAM).is_ok());
}

#[test]
fn pages_come_from_the_end_that_cuts_no_large_block() {
    for hole in [
        (GIB, GIB + 512 * MIB),
        (2 * GIB - 512 * MIB, GIB + 512 * MIB),
    ] {
        let mut map = map(&[hole], &[]);
        map.allocate(PAGE_SIZE, PAGE_SIZE).unwrap();
        assert!(map.allocate(GIB, GIB).is_ok());
    }
}

#[test]
fn a_guest_s_offset_is_kept() {
    let mut map = map(&[(GIB, 2 * GIB)], &[]);
    let ipa = Ipa::new(0x4000_0000 + 3 * PAGE_SIZE);
    let guest = map.allocate_for_guest(8 * MIB, ipa).unwrap();
    assert_eq!(guest.start().get() % (2 * MIB), 3 * PAGE_SIZE);
}

#[test]
fn refusals() {
    let mut map = map(&[(GIB, MIB)], &[]);
    assert_eq!(map.allocate(0, 1), Err(MemoryError::Empty));
    assert_eq!(map.allocate(1, 3), Err(MemoryError::BadAlignment(3)));
    assert_eq!(map.allocate(1, 0), Err(MemoryError::BadAlignment(0)));
    let none = Err(MemoryError::NoHole { largest: MIB });
    assert_eq!(map.allocate(u64::MAX, 1), none);
    assert_eq!(map.allocate(MIB + 1, 1), none);
    assert_eq!(map.allocate(1, 1 << 63), none);
    assert_eq!(map.allocate_for_guest(MIB, Ipa::new(u64::MAX)), none);
    let foreign = span(GIB, PAGE_SIZE);
    assert_eq!(map.free(foreign), Err(MemoryError::NotAllocated(foreign)));
}

#[test]
fn a_span_is_freed_once() {
    let mut map = map(&[(GIB, MIB)], &[]);
    let page = map.allocate(1, 1).unwrap();
    assert_eq!(map.free(page), Ok(()));
    assert_eq!(map.free(page), Err(MemoryError::NotAllocated(page)));
    assert_eq!(map.free_spans(), [span(GIB, MIB)]);
}

#[test]
fn the_list_of_spans_is_finite() {
    let mut map = map(&[(GIB, GIB)], &[]);
    let mut refused = None;
    for _ in 0..=MAX_SPANS {
        refused = map.allocate(PAGE_SIZE, 4 * PAGE_SIZE).err();
    }
    assert_eq!(refused, Some(MemoryError::TooManySpans));
    assert_eq!(map.free_spans().len(), MAX_SPANS);
    let pieces: Vec<_> = (0..=MAX_SPANS as u64)
        .map(|i| span(i * 0x2000, 0x1000))
        .collect();
    let many = FrameMap::new(&pieces, &[]);
    assert!(matches!(many, Err(MemoryError::TooManySpans)));
}

#[test]
fn the_top_of_the_address_space() {
    let map = map(&[(u64::MAX - 0x1fff, 0x1fff)], &[(u64::MAX - 8, 8)]);
    assert_eq!(map.free_spans(), [span(u64::MAX - 0x1fff, 0x1000)]);
}

#[derive(Clone, Debug)]
enum Operation {
    Allocate(u64, u64),
    ForGuest(u64, u64),
    Free(prop::sample::Index),
}

fn operation() -> impl Strategy<Value = Operation> {
    let len = || prop_oneof![1..64 * PAGE_SIZE, 1..32 * MIB, 1..2 * GIB];
    prop_oneof![
        (len(), 0..32u32).prop_map(|(len, log2)| Operation::Allocate(len, 1 << log2)),
        (len(), 0..1u64 << 20).prop_map(|(len, page)| Operation::ForGuest(len, page << 12)),
        any::<prop::sample::Index>().prop_map(Operation::Free),
    ]
}

fn regions(size: u64) -> impl Strategy<Value = Vec<Span<Hpa>>> {
    let region = (0..8 * GIB, 0..size).prop_map(|(start, len)| span(start, len));
    prop::collection::vec(region, 0..6)
}

fn check(map: &FrameMap, ram: &[Span<Hpa>], reserved: &[Span<Hpa>], total: u64) {
    let all = map.all_spans();
    assert_eq!(all.iter().map(Span::len).sum::<u64>(), total);
    let free = map.free_spans();
    for list in [all, free] {
        assert!(list.windows(2).all(|pair| pair[0].end() < pair[1].start()));
    }
    assert!(
        free.iter()
            .all(|free| all.iter().any(|all| all.covers(free)))
    );
    for span in all {
        assert!(reserved.iter().all(|hole| !hole.overlaps(span)));
        let inside: Vec<_> = ram.iter().filter(|bank| bank.overlaps(span)).collect();
        assert!(inside.iter().any(|bank| bank.contains(span.start())));
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_or_given_twice(
        ram in regions(3 * GIB),
        reserved in regions(64 * MIB),
        operations in prop::collection::vec(operation(), 0..60),
    ) {
        let mut map = FrameMap::new(&ram, &reserved).unwrap();
        let total = map.free_bytes();
        let before = map.free_spans().to_vec();
        let mut allocated = Vec::new();
        for operation in operations {
            apply(&mut map, operation, &mut allocated);
            check(&map, &ram, &reserved, total);
            let lent: u64 = allocated.iter().map(Span::len).sum();
            prop_assert_eq!(map.free_bytes() + lent, total);
        }
        for span in allocated {
            prop_assert_eq!(map.free(span), Ok(()));
            prop_assert_eq!(map.free(span), Err(MemoryError::NotAllocated(span)));
        }
        prop_assert_eq!(map.free_spans(), before);
    }
}

fn apply(map: &mut FrameMap, operation: Operation, allocated: &mut Vec<Span<Hpa>>) {
    match operation {
        Operation::Allocate(len, align) => {
            if let Ok(got) = map.allocate(len, align) {
                assert!(got.start().is_aligned(align));
                assert_eq!(got.len(), len.next_multiple_of(PAGE_SIZE));
                allocated.push(got);
            }
        }
        Operation::ForGuest(len, ipa) => {
            let roomy = map
                .free_spans()
                .iter()
                .any(|hole| hole.len() >= len + 4 * MIB);
            if let Ok(got) = map.allocate_for_guest(len, Ipa::new(ipa)) {
                let agrees = (got.start().get() ^ ipa).is_multiple_of(2 * MIB);
                assert!(agrees || !roomy || len < 4 * MIB);
                allocated.push(got);
            }
        }
        Operation::Free(index) if !allocated.is_empty() => {
            let span = allocated.swap_remove(index.index(allocated.len()));
            // By parts, as well as all at once.
            let page = self::span(span.start().get(), PAGE_SIZE);
            assert_eq!(map.free(page), Ok(()));
            let rest = span.len() - PAGE_SIZE;
            if rest > 0 {
                let rest = self::span(page.end().get(), rest);
                assert_eq!(map.free(rest), Ok(()));
            }
        }
        Operation::Free(_) => {}
    }
}
