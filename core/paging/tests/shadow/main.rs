//! Shadow tables against what the architecture's rules of TLBs allow: a guest that edits its tables
//! and invalidates what it likes, on CPUs that keep all they ever walked.
//!
//! Checked of each access: what the CPU lets through, the guest's tables said since the guest
//! invalidated the address, and the host's frame allows now; and after an abort was served, the
//! access that the guest may make gets through, to where the tables lead now.

mod bounds;
mod guest;
mod hardware;
mod model;

use guest::{Edit, Guest, WINDOW, addresses, edit, spaces};
use hanok_hal::fake::FakeTableMemory;
use hanok_paging::shadow::{
    AsidPool, Filled, Forgetting, FrameKind, FrameLoss, GuestSpace, HardwareRoot, HostMemory,
    Invalidation, Neighbours, Progress, Shadow, Window,
};
use hanok_paging::short::{Access, AccessKind, Privilege, WalkError};
use hardware::{Cached, Cpu};
use model::{KINDS, Model, VIEWS};
use proptest::prelude::*;

const WINDOW_DESCRIPTOR: u32 = 0x7770_040e;

#[derive(Clone, Debug)]
enum Step {
    Edit(Edit),
    /// By this vCPU, for itself or for both.
    Invalidate(usize, Invalidation, bool),
    /// By this vCPU, in this space, on this CPU.
    Access(usize, usize, usize, Access, Neighbours),
    /// Another frame, or none, behind a page.
    Frame(u64, Option<FrameKind>),
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
    ];
    let space = prop_oneof![2 => Just(1usize), 1 => 0..5usize];
    let kind = prop::sample::select(KINDS.to_vec());
    let by = prop::sample::select(VIEWS.to_vec());
    let access = (at(), kind, by).prop_map(|(address, kind, by)| Access { address, kind, by });
    let neighbours =
        prop::sample::select(vec![Neighbours::None, Neighbours::Of4, Neighbours::Of16]);
    let kinds = prop::option::weighted(
        0.8,
        prop::sample::select(vec![FrameKind::Plain, FrameKind::Code, FrameKind::Sealed]),
    );
    let page = prop_oneof![0..32u64, 256..288u64, 512..544u64];
    prop_oneof![
        3 => edit().prop_map(Step::Edit),
        2 => (rarely_other(), invalidation, any::<bool>())
            .prop_map(|(vcpu, what, all)| Step::Invalidate(vcpu, what, all)),
        12 => (rarely_other(), space, rarely_other(), access, neighbours).prop_map(
            |(vcpu, space, cpu, access, neighbours)| Step::Access(
                vcpu, space, cpu, access, neighbours
            )
        ),
        1 => (page, kinds).prop_map(|(page, kind)| Step::Frame(page, kind)),
    ]
}

/// One vCPU of two, or one CPU of two.
fn rarely_other() -> impl Strategy<Value = usize> {
    prop_oneof![6 => Just(0usize), 1 => Just(1)]
}

struct Vcpu<const ROOTS: usize, const TABLES: usize> {
    shadow: Shadow<FakeTableMemory, ROOTS, TABLES>,
    model: Model,
    /// The CPU that it ran on last.
    cpu: usize,
}

struct World<const ROOTS: usize, const TABLES: usize> {
    guest: Guest,
    spaces: Vec<GuestSpace>,
    vcpus: [Vcpu<ROOTS, TABLES>; 2],
    cpus: [Cpu; 2],
    asids: [AsidPool; 2],
}

impl<const ROOTS: usize, const TABLES: usize> World<ROOTS, TABLES> {
    fn new(last_asid: u8) -> Self {
        let (guest, spaces) = (Guest::new(), spaces());
        let vcpus = [(); 2].map(|()| {
            let memory = FakeTableMemory::new(ROOTS * 4 + TABLES / 4);
            let window = Window::new(WINDOW, WINDOW_DESCRIPTOR);
            let mut model = Model::default();
            model.look(&guest, &spaces);
            Vcpu {
                shadow: Shadow::new(memory, window).unwrap(),
                model,
                cpu: 0,
            }
        });
        Self {
            guest,
            spaces,
            vcpus,
            cpus: Default::default(),
            asids: [0, 1].map(|id| AsidPool::with_last(id, last_asid)),
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Edit(edit) => {
                for at in &edit.at {
                    self.guest.words.insert(*at, edit.value);
                    // A walker may see the words one by one.
                    for vcpu in &mut self.vcpus {
                        vcpu.model.look(&self.guest, &self.spaces);
                    }
                }
            }
            Step::Invalidate(vcpu, what, all) => {
                for number in 0..2 {
                    if *all || number == *vcpu {
                        self.invalidate(number, *what);
                    }
                }
            }
            Step::Access(vcpu, space, cpu, access, neighbours) => {
                self.vcpus[*vcpu].cpu = *cpu;
                self.access(*vcpu, *space, access, *neighbours);
            }
            Step::Frame(page, kind) => self.change_frame(*page, *kind),
        }
    }

    fn invalidate(&mut self, number: usize, what: Invalidation) {
        let vcpu = &mut self.vcpus[number];
        let owed = vcpu.shadow.invalidate(what);
        vcpu.model.invalidate(&self.guest, &self.spaces, what);
        self.cpus[vcpu.cpu].pay(owed);
    }

    fn change_frame(&mut self, page: u64, kind: Option<FrameKind>) {
        let Some(before) = self.guest.change(page, kind) else {
            return;
        };
        let losses: &[FrameLoss] = match kind {
            None => &[FrameLoss::Mapping],
            Some(FrameKind::Plain) => &[FrameLoss::KernelExecute],
            Some(FrameKind::Code) => &[FrameLoss::Write],
            Some(FrameKind::Sealed) => &[FrameLoss::Write, FrameLoss::KernelExecute],
        };
        for vcpu in &mut self.vcpus {
            for loss in losses {
                let mut search = Forgetting::new(before.at, *loss);
                while vcpu.shadow.forget(&mut search) == Progress::Again {}
            }
        }
    }

    fn enter(&mut self, number: usize, space: usize, view: Privilege) -> HardwareRoot {
        let vcpu = &mut self.vcpus[number];
        let asids = &mut self.asids[vcpu.cpu];
        let space = &self.spaces[space];
        let mut tries = 0;
        loop {
            tries += 1;
            assert!(tries <= 40, "emptying a root ends");
            if let Progress::Done(root) = vcpu.shadow.enter(space, view, asids) {
                self.cpus[vcpu.cpu].enter(&root);
                let memory = vcpu.shadow.memory();
                let window = Cpu::first(memory, &root, WINDOW);
                assert_eq!(window, WINDOW_DESCRIPTOR);
                return root;
            }
        }
    }

    /// What the CPU lets through; all of it is checked against the model.
    fn find(&mut self, number: usize, space: usize, view: Privilege, at: u32) -> Vec<Cached> {
        let root = self.enter(number, space, view);
        if Window::new(WINDOW, 0).contains(at) {
            return Vec::new();
        }
        let vcpu = &self.vcpus[number];
        let found = self.cpus[vcpu.cpu].find(vcpu.shadow.memory(), &root, at);
        assert!(found.len() <= 1, "a conflict in the TLB: {found:?}");
        for one in &found {
            self.check(number, space, view, at, one);
        }
        found
    }

    fn check(&self, number: usize, space: usize, view: Privilege, at: u32, one: &Cached) {
        let known = self.vcpus[number].model.known(space, at);
        for kind in KINDS.into_iter().filter(|kind| one.allows(*kind)) {
            let fine = known.iter().any(|translation| {
                let Some(frame) = self.guest.kind_of(translation.page, one.frame) else {
                    return false;
                };
                let allowed = match (kind, view) {
                    (AccessKind::Read, _) | (AccessKind::Execute, Privilege::User) => true,
                    (AccessKind::Write, _) => frame == FrameKind::Plain,
                    (AccessKind::Execute, Privilege::Kernel) => frame == FrameKind::Code,
                };
                allowed && translation.permissions.of(view).allow(kind)
            });
            assert!(
                fine,
                "{space} {view:?} {kind:?} {at:#x}: {one:?}, {known:?}"
            );
        }
    }

    fn access(&mut self, vcpu: usize, space: usize, access: &Access, neighbours: Neighbours) {
        let Access { address, kind, by } = *access;
        let found = self.find(vcpu, space, by, address);
        if !found.is_empty() && found.iter().all(|one| one.allows(kind)) {
            return;
        }
        let walked = self.spaces[space]
            .regime
            .walk(access, |at| self.guest.word(at));
        let filled = self.fill(vcpu, space, access, neighbours);
        let mapping = match (walked, filled) {
            (Err(WalkError::Fault(fault)), Filled::Fault(told)) => {
                assert_eq!(fault, told);
                return;
            }
            (Ok(mapping), Filled::InWindow(told)) => {
                assert_eq!((mapping, address >> 20), (told, WINDOW >> 20));
                return;
            }
            (Ok(mapping), Filled::NoFrame(told)) => {
                assert_eq!(mapping, told);
                let page = hanok_types::Ipa::new(mapping.output.get() & !0xfff);
                assert_eq!(self.guest.page(page), None);
                return;
            }
            (Ok(mapping), Filled::Protected(told)) => {
                assert_eq!(mapping, told);
                return self.check_protected(&mapping.output, access);
            }
            (Ok(mapping), Filled::Made(owed)) => {
                self.cpus[self.vcpus[vcpu].cpu].pay(owed);
                mapping
            }
            other => panic!("{other:?}"),
        };
        let found = self.find(vcpu, space, by, address);
        let page = mapping.output.get() >> 12;
        assert!(!found.is_empty());
        for one in found {
            assert!(one.allows(kind), "{access:?} {one:?}");
            assert!(self.guest.kind_of(page, one.frame).is_some(), "{one:?}");
        }
    }

    fn check_protected(&self, output: &hanok_types::Ipa, access: &Access) {
        let page = hanok_types::Ipa::new(output.get() & !0xfff);
        let kind = self.guest.page(page).unwrap().kind;
        let refused = match (access.kind, access.by) {
            (AccessKind::Write, _) => kind != FrameKind::Plain,
            (AccessKind::Execute, Privilege::Kernel) => kind != FrameKind::Code,
            _ => false,
        };
        assert!(refused, "{access:?} {kind:?}");
    }

    fn fill(&mut self, vcpu: usize, space: usize, access: &Access, around: Neighbours) -> Filled {
        let (guest, space) = (&self.guest, &self.spaces[space]);
        let shadow = &mut self.vcpus[vcpu].shadow;
        loop {
            match shadow.fill(space, access, guest, around) {
                Filled::Again => (),
                filled => return filled,
            }
        }
    }

    /// All that the CPUs let through now.
    fn check_all(&mut self) {
        for vcpu in 0..2 {
            for space in 0..self.spaces.len() {
                for view in VIEWS {
                    for at in addresses() {
                        self.find(vcpu, space, view, at);
                    }
                }
            }
        }
    }
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

    #[test]
    fn nor_with_small_pools(steps in prop::collection::vec(step(), 1..200)) {
        run::<3, 8>(&steps, 3);
    }
}
