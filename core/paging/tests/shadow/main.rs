//! Shadow tables against what the architecture's rules of TLBs allow: a guest that edits its tables
//! and invalidates what it likes, on CPUs that keep all they ever walked.
//!
//! Checked of each access: what the CPU lets through, the guest's tables said since the guest
//! invalidated the address, and the host's frame allows now; and after an abort was served, the
//! access that the guest may make gets through, to where the tables lead now.

mod bounds;
mod common;
mod guest;
mod hardware;
mod kept;
mod model;
mod replaced;
mod world;

use guest::{Edit, MEGABYTES, SPACES, addresses, edit};
use hanok_paging::shadow::{FrameKind, Invalidation, Neighbours};
use hanok_paging::short::Access;
use model::{KINDS, VIEWS};
use proptest::prelude::*;
use world::World;

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    Edit(Edit),
    /// By this vCPU, for itself or for both.
    Invalidate(usize, Invalidation, bool),
    /// By this vCPU, in this space, on this CPU.
    Access(usize, usize, usize, Access, Neighbours),
    /// Another frame, or none, behind a page.
    Frame(u64, Option<FrameKind>),
    /// This vCPU, on this CPU, closes the doorbells of a space.
    Close(usize, usize, usize),
    /// The window goes to this megabyte.
    Window(u32),
}

fn step() -> impl Strategy<Value = Step> {
    // Few places are looked at often, so that what happens to them has a history.
    let at = || {
        let all = prop::sample::select(addresses().collect::<Vec<_>>());
        let few = prop::sample::select(vec![0x0, 0x1000, 1 << 20, 2 << 20, 0x20_1000]);
        prop_oneof![1 => all, 3 => few]
    };
    let asid = 0..3u8;
    let invalidation = prop_oneof![
        1 => Just(Invalidation::All),
        2 => asid.clone().prop_map(Invalidation::Asid),
        8 => (at(), asid).prop_map(|(at, asid)| Invalidation::Page { at, asid }),
        4 => at().prop_map(|at| Invalidation::PageOfAllAsids { at }),
        8 => (at(), prop_oneof![4 => 1..280u16, 1 => 1..2000u16], prop::option::of(0..3u8)).prop_map(
            |(at, count, asid)| Invalidation::Pages { at, count, asid }
        ),
    ];
    let space = || prop_oneof![2 => Just(1usize), 2 => 0..SPACES];
    let kind = prop::sample::select(KINDS.to_vec());
    let by = prop::sample::select(VIEWS.to_vec());
    let access = (at(), kind, by).prop_map(|(address, kind, by)| Access { address, kind, by });
    let neighbours =
        prop::sample::select(vec![Neighbours::None, Neighbours::Of4, Neighbours::Of16]);
    let kinds = prop::option::weighted(
        0.8,
        prop::sample::select(vec![
            FrameKind::Plain,
            FrameKind::Code,
            FrameKind::Sealed,
            FrameKind::Device,
            FrameKind::Doorbell,
        ]),
    );
    let page = prop_oneof![0..32u64, 256..288u64, 512..544u64];
    let window = prop::sample::select(MEGABYTES.to_vec());
    prop_oneof![
        3 => edit().prop_map(Step::Edit),
        2 => (rarely_other(), invalidation, any::<bool>())
            .prop_map(|(vcpu, what, all)| Step::Invalidate(vcpu, what, all)),
        12 => (rarely_other(), space(), rarely_other(), access, neighbours).prop_map(
            |(vcpu, space, cpu, access, neighbours)| Step::Access(
                vcpu, space, cpu, access, neighbours
            )
        ),
        2 => (page, kinds).prop_map(|(page, kind)| Step::Frame(page, kind)),
        1 => (rarely_other(), space(), rarely_other())
            .prop_map(|(vcpu, space, cpu)| Step::Close(vcpu, space, cpu)),
        1 => window.prop_map(|megabyte| Step::Window(megabyte << 20)),
    ]
}

/// One vCPU of two, or one CPU of two.
fn rarely_other() -> impl Strategy<Value = usize> {
    prop_oneof![6 => Just(0usize), 1 => Just(1)]
}

fn run<const ROOTS: usize, const TABLES: usize>(steps: &[Step], last_asid: u8) {
    let mut world = World::<ROOTS, TABLES>::new(last_asid);
    for step in steps {
        world.run(step);
    }
    world.check_all();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn no_more_than_a_tlb_may_hold(steps in prop::collection::vec(step(), 1..200)) {
        run::<12, 32>(&steps, 255);
    }

    #[test]
    fn nor_with_the_smallest_pools(steps in prop::collection::vec(step(), 1..200)) {
        run::<1, 4>(&steps, 1);
    }

    /// With one and with four common roots.
    #[test]
    fn nor_where_little_is_common(steps in prop::collection::vec(step(), 1..200)) {
        run::<5, 8>(&steps, 7);
        run::<16, 8>(&steps, 30);
    }

    #[test]
    fn nor_with_small_pools(steps in prop::collection::vec(step(), 1..200)) {
        run::<3, 8>(&steps, 3);
    }
}
