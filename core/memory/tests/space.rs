//! Pages of a VM that are taken and given, against an array of them, and a TLB that forgets nothing by
//! itself.

use hanok_hal::fake::{FakeTableMemory, FakeTlb};
use hanok_hal::{AccessError, Tlb};
use hanok_memory::{Absence, AddressSpace, Page, PageError, Region, RegionKind, Slot, Taken};
use hanok_paging::Geometry;
use hanok_types::{GuestPage, Hpa, Ipa, PAGE_SIZE, Span};
use proptest::prelude::*;
use std::collections::BTreeMap;

const RAM: u64 = 0x4000_0000;
const HOME: u64 = 0x8000_0000;
/// Frames that are nobody's at first.
const SPARE: u64 = 0xc000_0000;
const MIB2: u64 = 2 << 20;
/// 2 MiB blocks, and some pages.
const LEN: u64 = 2 * MIB2 + 8 * PAGE_SIZE;

type Space = AddressSpace<FakeTableMemory>;

fn slots(count: usize) -> &'static mut [Option<Slot>] {
    Box::leak(vec![None; count].into_boxed_slice())
}

fn region(start: u64, host: u64, len: u64, kind: RegionKind) -> Region {
    let span = Span::new(Ipa::new(start), len).unwrap();
    let host = Hpa::new(host);
    Region { span, host, kind }
}

fn space(places: usize, tables: usize) -> Space {
    let regions = [
        region(RAM, HOME, LEN, RegionKind::Ram),
        region(0, 0x9000_0000, 0x1000, RegionKind::Rom),
        region(0x0c00_0000, 0x900_0000, 0x1000, RegionKind::Device),
    ];
    let tables = FakeTableMemory::new(tables);
    let mut tlb = FakeTlb::default();
    Space::new(Geometry::BITS_40, tables, &mut tlb, &regions, slots(places)).unwrap()
}

fn page(number: u64) -> GuestPage {
    GuestPage::of(Ipa::new(RAM + number * PAGE_SIZE)).unwrap()
}

fn take(space: &mut Space, tlb: &mut impl Tlb<Ipa>, page: GuestPage) -> Result<Hpa, PageError> {
    for _ in 0..3 {
        if let Taken::Frame(frame) = space.take(tlb, page, Absence::Taken)? {
            return Ok(frame);
        }
    }
    panic!("a block has three levels at most");
}

#[test]
fn a_space_without_slots_keeps_its_blocks() {
    let mut space = space(0, 16);
    let before = space.blocks();
    assert_eq!(before, [0, 2, 8 + 2], "RAM, ROM and a device");
    let mut tlb = FakeTlb::default();
    let taken = space.take(&mut tlb, page(3), Absence::Taken);
    assert_eq!(taken, Err(PageError::Fixed));
    assert!(space.is_fixed() && tlb.invalidated.is_empty());
    assert_eq!(space.blocks(), before);
}

#[test]
fn a_page_that_cannot_be_taken_or_given_is_an_error() {
    let mut space = space(2, 16);
    let mut tlb = FakeTlb::default();
    let frame = Hpa::new(SPARE);
    for at in [0, 0x0c00_0000, RAM + LEN, RAM - PAGE_SIZE] {
        let page = GuestPage::of(Ipa::new(at)).unwrap();
        let taken = space.take(&mut tlb, page, Absence::Taken);
        assert_eq!(taken, Err(PageError::NoMemory), "{at:#x}");
    }
    assert_eq!(
        space.give(&mut tlb, page(1), frame),
        Err(PageError::IsPresent)
    );
    assert_eq!(
        take(&mut space, &mut tlb, page(1)),
        Ok(Hpa::new(HOME + PAGE_SIZE))
    );
    assert_eq!(
        take(&mut space, &mut tlb, page(1)),
        Err(PageError::IsAbsent)
    );
    assert!(take(&mut space, &mut tlb, page(600)).is_ok());
    assert_eq!(take(&mut space, &mut tlb, page(2)), Err(PageError::TooMany));
    let odd = Hpa::new(SPARE + 8);
    assert!(matches!(
        space.give(&mut tlb, page(1), odd),
        Err(PageError::Table(_))
    ));
    assert_eq!(space.page(page(1).start()), Page::Absent);
    assert_eq!(space.give(&mut tlb, page(1), frame), Ok(()));
    assert_eq!(
        space.give(&mut tlb, page(1), frame),
        Err(PageError::IsPresent)
    );
    let within = Ipa::new(page(1).start().get() + 0x123);
    assert_eq!(space.find(within), Ok(Hpa::new(SPARE + 0x123)));
    assert_eq!(
        space.find(page(600).start()),
        Err(AccessError::Absent(page(600)))
    );
    let nowhere = Ipa::new(RAM + LEN);
    assert_eq!(space.find(nowhere), Err(AccessError::NoMemory(nowhere)));
}

#[test]
fn a_space_that_is_made_for_a_boot_has_all_its_pages_and_keeps_them() {
    let mut space = space(2, 16);
    let mut tlb = FakeTlb::default();
    assert!(take(&mut space, &mut tlb, page(1)).is_ok());
    assert!(!space.begin_making(), "a page lacks");
    assert!(take(&mut space, &mut tlb, page(2)).is_ok());
    for number in [1, 2] {
        let home = Hpa::new(HOME + number * PAGE_SIZE);
        assert_eq!(space.give(&mut tlb, page(number), home), Ok(()));
    }
    // Twice: the first one was given up.
    assert!(space.begin_making() && space.begin_making());
    let refused = Err(PageError::InMaking);
    assert_eq!(take(&mut space, &mut tlb, page(1)), refused);
    space.end_making();
    assert!(take(&mut space, &mut tlb, page(1)).is_ok());
}

#[test]
fn a_page_that_the_guest_gave_back_is_told_from_one_that_was_taken() {
    let mut space = space(1, 16);
    let mut tlb = FakeTlb::default();
    while space.take(&mut tlb, page(0), Absence::GivenBack) == Ok(Taken::Split) {}
    assert_eq!(space.page(page(0).start()), Page::GivenBack);
    assert!(space.lacks_pages());
    assert_eq!(space.give(&mut tlb, page(0), Hpa::new(HOME)), Ok(()));
    assert!(!space.lacks_pages());
    assert!(
        take(&mut space, &mut tlb, page(9)).is_ok(),
        "it has left its slot"
    );
}

#[test]
fn without_a_frame_for_a_table_nothing_is_taken() {
    // A root of two frames, and what the three regions need.
    let tables = (3..20).find(|count| {
        let made = std::panic::catch_unwind(|| space(4, *count));
        made.is_ok()
    });
    let mut space = space(4, tables.unwrap());
    let mut tlb = FakeTlb::default();
    let taken = space.take(&mut tlb, page(3), Absence::Taken);
    assert!(matches!(taken, Err(PageError::Table(_))), "{taken:?}");
    assert_eq!(
        space.page(page(3).start()),
        Page::Present(Hpa::new(HOME + 3 * PAGE_SIZE))
    );
}

/// What CPUs have cached: it forgets what it is told to, and no more.
#[derive(Default)]
struct StaleTlb(BTreeMap<Ipa, Hpa>);

impl Tlb<Ipa> for StaleTlb {
    fn invalidate(&mut self, range: Span<Ipa>) {
        self.0.retain(|at, _| !range.contains(*at));
    }
}

proptest! {
    /// Whatever a TLB still holds, no access goes to a frame after it was taken; each page is where the
    /// array says, to the hypervisor and to the guest; what is refused changes nothing.
    #[test]
    fn no_access_goes_to_a_frame_that_was_taken(
        steps in proptest::collection::vec((0..40_u64, any::<bool>(), any::<prop::sample::Index>()), 1..60)
    ) {
        // Pages of both blocks, and those behind.
        let number = |of: u64| if of < 32 { of * 33 } else { 1024 + (of - 32) };
        let mut space = space(6, 24);
        let mut tlb = StaleTlb::default();
        let home = |of: u64| Hpa::new(HOME + number(of) * PAGE_SIZE);
        let mut array: Vec<Option<Hpa>> = (0..40).map(|of| Some(home(of))).collect();
        let mut free: Vec<Hpa> = (0..4).map(|of| Hpa::new(SPARE + of * PAGE_SIZE)).collect();
        for (of, give, pick) in steps {
            let this = page(number(of));
            let there = array[of as usize];
            if give {
                let index = pick.index(free.len());
                let given = space.give(&mut tlb, this, free[index]);
                prop_assert_eq!(given.is_ok(), there.is_none());
                if given.is_ok() {
                    array[of as usize] = Some(free.swap_remove(index));
                }
            } else if let Ok(frame) = take(&mut space, &mut tlb, this) {
                prop_assert_eq!(Some(frame), there);
                free.push(frame);
                array[of as usize] = None;
            } else {
                let elsewhere = (0..40).filter(|of| array[*of as usize] != Some(home(*of)));
                prop_assert!(there.is_none() || elsewhere.count() == 6);
            }
            for (of, wanted) in array.iter().enumerate() {
                let at = page(number(of as u64)).start();
                let found = match space.page(at) {
                    Page::Present(frame) => Some(frame),
                    _ => None,
                };
                prop_assert_eq!(found, *wanted);
                let walked = space.table_mut().walk(at).map(|mapping| mapping.output);
                prop_assert_eq!(walked, *wanted);
                // The guest reads there: by what is cached, or by a walk, which is cached.
                let read = tlb.0.get(&at).copied().or(walked);
                prop_assert_eq!(read, *wanted);
                tlb.0.extend(walked.map(|frame| (at, frame)));
            }
        }
    }
}
