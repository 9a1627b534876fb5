//! Frames and their owners, against an array of pages.

use hanok_memory::{FrameMap, Owner, OwnerError, Owners};
use hanok_types::{Hpa, PAGE_SIZE, Span, VmId};
use proptest::prelude::*;

/// Pages of the little board.
const PAGES: u64 = 64;
const BASE: u64 = 0x4000_0000;

fn at(page: u64) -> Hpa {
    Hpa::new(BASE + page * PAGE_SIZE)
}

fn span(page: u64, pages: u64) -> Span<Hpa> {
    Span::new(at(page), pages * PAGE_SIZE).unwrap()
}

fn owner() -> impl Strategy<Value = Owner> {
    prop::sample::select(vec![
        Owner::Free,
        Owner::Hypervisor,
        Owner::Vm(VmId::new(0)),
        Owner::Vm(VmId::new(1)),
    ])
}

/// A board whose first page is reserved, and of which a part is allocated.
fn board() -> (Owners, Vec<Option<Owner>>) {
    let mut map = FrameMap::new(&[span(0, PAGES)], &[span(0, 1)]).unwrap();
    let taken = map.allocate(5 * PAGE_SIZE, PAGE_SIZE).unwrap();
    let pages = (0..PAGES).map(|page| match at(page) {
        _ if page == 0 => None,
        at if taken.contains(at) => Some(Owner::Hypervisor),
        _ => Some(Owner::Free),
    });
    (Owners::new(&map).unwrap(), pages.collect())
}

#[test]
fn a_frame_that_was_handed_over_is_not_handed_over_twice() {
    let (mut owners, _) = board();
    let (free, vm) = (Owner::Free, Owner::Vm(VmId::new(3)));
    let frame = span(40, 1);
    assert_eq!(owners.hand_over(frame, free, vm), Ok(()));
    let again = owners.hand_over(frame, free, vm);
    assert_eq!(again, Err(OwnerError::NotTheirs(frame)));
    assert_eq!(owners.of(vm).collect::<Vec<_>>(), [frame]);
    let outside = span(PAGES, 1);
    let none = owners.hand_over(outside, free, vm);
    assert_eq!(none, Err(OwnerError::NotTheirs(outside)));
    let half = Span::new(at(41), PAGE_SIZE / 2).unwrap();
    let none = owners.hand_over(half, free, vm);
    assert_eq!(none, Err(OwnerError::Misaligned(half)));
}

#[test]
fn memory_in_too_many_pieces_is_an_error_and_nothing_changes() {
    let ram = Span::new(at(0), 4096 * PAGE_SIZE).unwrap();
    let mut owners = Owners::new(&FrameMap::new(&[ram], &[]).unwrap()).unwrap();
    let vm = Owner::Vm(VmId::new(0));
    let mut done = 0;
    while owners.hand_over(span(2 * done, 1), Owner::Free, vm) == Ok(()) {
        done += 1;
    }
    assert!((64..2048).contains(&done), "{done}");
    let next = owners.hand_over(span(2 * done, 1), Owner::Free, vm);
    assert_eq!(next, Err(OwnerError::TooManySpans));
    assert_eq!(owners.owner(at(2 * done)), Some(Owner::Free));
    assert_eq!(
        owners.hand_over(span(0, 1), vm, Owner::Free),
        Err(OwnerError::TooManySpans)
    );
}

proptest! {
    /// Each page has the owner that it was last handed to, and what is refused changes nothing.
    #[test]
    fn each_frame_has_one_owner(
        moves in proptest::collection::vec((0..PAGES, 1..9u64, owner(), owner()), 1..80)
    ) {
        let (mut owners, mut pages) = board();
        for (page, count, from, to) in moves {
            let whole = page..page + count;
            let theirs = whole.clone().all(|page| {
                pages.get(page as usize).copied().flatten() == Some(from)
            });
            let done = owners.hand_over(span(page, count), from, to);
            prop_assert_eq!(done.is_ok(), theirs, "{:?}", done);
            if theirs {
                whole.for_each(|page| pages[page as usize] = Some(to));
            }
            for (page, owner) in pages.iter().enumerate() {
                let within = Hpa::new(at(page as u64).get() + 0xabc);
                prop_assert_eq!(owners.owner(within), *owner);
            }
        }
    }
}
