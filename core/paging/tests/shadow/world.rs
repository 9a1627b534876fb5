//! A guest of two vCPUs on two CPUs, with the model that says what is allowed.

use crate::Step;
use crate::guest::{Guest, WINDOW, addresses, spaces};
use crate::hardware::{Cached, Cpu};
use crate::model::{KINDS, Model, VIEWS};
use hanok_hal::fake::FakeTableMemory;
use hanok_paging::shadow::{
    AsidPool, Doorbells, Filled, Forgetting, FrameKind, FrameLoss, GuestSpace, HardwareRoot,
    HostMemory, Invalidation, LatestRoot, Neighbours, Owed, Progress, RootSet, Shadow, Window,
    frames,
};
use hanok_paging::short::{Access, AccessKind, Privilege, WalkError};

const WINDOW_DESCRIPTOR: u32 = 0x7770_040e;

/// The kinds of frames that may be written.
const WRITABLE: [FrameKind; 3] = [FrameKind::Plain, FrameKind::Doorbell, FrameKind::Device];

/// A vCPU of the guest.
pub struct Vcpu<const ROOTS: usize, const TABLES: usize> {
    pub shadow: Shadow<FakeTableMemory, ROOTS, TABLES>,
    model: Model,
    /// The CPU that it ran on last.
    cpu: usize,
}

/// The guest, two vCPUs and two CPUs.
pub struct World<const ROOTS: usize, const TABLES: usize> {
    pub guest: Guest,
    spaces: Vec<GuestSpace>,
    vcpus: [Vcpu<ROOTS, TABLES>; 2],
    /// Where the window is, in each shadow.
    window: u32,
    cpus: [Cpu; 2],
    asids: [AsidPool; 2],
    /// Counts the steps.
    steps: u32,
    /// How often the guest went to its other view by itself.
    pub crossings: u32,
    /// Where it may go by itself later, too.
    known: Vec<Known>,
    /// How often it went there.
    pub returns: u32,
}

/// A root to which a vCPU may go by itself as long as nothing has become of it.
#[derive(Clone, Copy)]
struct Known {
    vcpu: usize,
    cpu: usize,
    generation: u64,
    space: usize,
    view: Privilege,
    root: HardwareRoot,
    set: RootSet,
}

impl<const ROOTS: usize, const TABLES: usize> World<ROOTS, TABLES> {
    pub fn new(last_asid: u8) -> Self {
        let (guest, spaces) = (Guest::new(), spaces());
        let vcpus = [(); 2].map(|()| {
            let memory = FakeTableMemory::new(frames(ROOTS, TABLES));
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
            window: WINDOW,
            cpus: Default::default(),
            asids: [0, 1].map(|id| AsidPool::with_last(id, last_asid)),
            steps: 0,
            crossings: 0,
            known: Vec::new(),
            returns: 0,
        }
    }

    pub fn run(&mut self, step: &Step) {
        self.steps += 1;
        match step {
            Step::Edit(edit) => {
                for at in &edit.at {
                    self.edit(*at, edit.value);
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
            Step::Close(vcpu, space, cpu) => {
                self.vcpus[*vcpu].cpu = *cpu;
                self.close_and_look(*vcpu, *space);
            }
            Step::Frame(page, kind) => self.change_frame(*page, *kind),
            Step::Window(at) => self.move_window(*at),
        }
    }

    /// Writes a word of the guest's tables. A walker may use it from now on.
    pub fn edit(&mut self, at: u64, value: u32) {
        self.guest.words.insert(at, value);
        for vcpu in &mut self.vcpus {
            vcpu.model.look(&self.guest, &self.spaces);
        }
    }

    fn move_window(&mut self, at: u32) {
        self.window = at;
        for vcpu in &mut self.vcpus {
            let owed = vcpu.shadow.move_window(Window::new(at, WINDOW_DESCRIPTOR));
            self.cpus[vcpu.cpu].pay(owed);
        }
    }

    pub fn invalidate(&mut self, number: usize, what: Invalidation) {
        let vcpu = &mut self.vcpus[number];
        let owed = vcpu.shadow.invalidate(what);
        vcpu.model.invalidate(&self.guest, &self.spaces, what);
        self.cpus[vcpu.cpu].pay(owed);
    }

    pub fn change_frame(&mut self, page: u64, kind: Option<FrameKind>) {
        let Some(before) = self.guest.change(page, kind) else {
            return;
        };
        let losses: &[FrameLoss] = match kind {
            // A frame is a device's or memory for good: this is another one.
            _ if before.kind == FrameKind::Device || kind == Some(FrameKind::Device) => {
                &[FrameLoss::Mapping]
            }
            Some(FrameKind::Device) => unreachable!(),
            None => &[FrameLoss::Mapping],
            Some(FrameKind::Plain) => &[FrameLoss::KernelExecute],
            Some(FrameKind::Code) => &[FrameLoss::Write],
            // Doorbells that were no doorbells before are made anew.
            Some(FrameKind::Sealed | FrameKind::Doorbell) => {
                &[FrameLoss::Write, FrameLoss::KernelExecute]
            }
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
        let guest = &self.guest;
        // Seldom it is not asked what may be kept.
        while self.steps % 8 != 7
            && vcpu.shadow.check_kept(space, |at| guest.words(at)) == Progress::Again
        {}
        let mut tries = 0;
        loop {
            tries += 1;
            assert!(tries <= 80, "emptying a root ends");
            if let Progress::Done(root) = vcpu.shadow.enter(space, view, asids) {
                self.cpus[vcpu.cpu].enter(&root);
                asids.paid();
                let memory = vcpu.shadow.memory();
                let window = Cpu::first(memory, &root, self.window);
                assert_eq!(window, WINDOW_DESCRIPTOR);
                return root;
            }
        }
    }

    /// A vCPU closes the doorbells of a space.
    pub fn close_doorbells(&mut self, number: usize, space: usize, doorbells: Doorbells) {
        let vcpu = &mut self.vcpus[number];
        let owed = vcpu.shadow.close_doorbells(&self.spaces[space], doorbells);
        self.cpus[vcpu.cpu].pay(owed);
    }

    /// A vCPU opens them again.
    pub fn open_doorbells(&mut self, number: usize, space: usize, doorbells: Doorbells) {
        let vcpu = &mut self.vcpus[number];
        let owed = vcpu.shadow.open_doorbells(&self.spaces[space], doorbells);
        self.cpus[vcpu.cpu].pay(owed);
    }

    /// Closes all pages of 32 megabytes: none of them is then an open doorbell for the space's kernel.
    fn close_and_look(&mut self, number: usize, space: usize) {
        let doorbells = Doorbells {
            first: 0,
            step: 1,
            count: 32 << 8,
        };
        self.close_doorbells(number, space, doorbells);
        for at in addresses() {
            for one in self.find(number, space, Privilege::Kernel, at) {
                let open = one.allows(AccessKind::Write) && self.guest.is_doorbell(one.frame);
                assert!(!open, "{space} {at:#x}: {one:?}");
            }
        }
        // Some of them stay closed; what is open then is checked by all that is found later.
        if !self.steps.is_multiple_of(3) {
            self.open_doorbells(number, space, doorbells);
        }
    }

    /// What the CPU lets through; all of it is checked against the model.
    pub fn find(&mut self, number: usize, space: usize, view: Privilege, at: u32) -> Vec<Cached> {
        let root = self.enter(number, space, view);
        if Window::new(self.window, 0).contains(at) {
            return Vec::new();
        }
        let vcpu = &self.vcpus[number];
        let found = self.cpus[vcpu.cpu].find(vcpu.shadow.memory(), &root, at);
        assert!(found.len() <= 1, "a conflict in the TLB: {found:?}");
        for one in &found {
            self.check(number, space, view, at, one);
        }
        self.forget_unknown();
        self.cross(number, space, view, at);
        self.return_to_known(number, at);
        found
    }

    /// The guest goes to the other view by itself, if it may, without [`Shadow::enter`].
    fn cross(&mut self, number: usize, space: usize, from: Privilege, at: u32) {
        let to = match from {
            Privilege::Kernel => Privilege::User,
            Privilege::User => Privilege::Kernel,
        };
        let vcpu = &mut self.vcpus[number];
        let asids = &mut self.asids[vcpu.cpu];
        let latest = vcpu.shadow.latest(to, &self.spaces[space], asids);
        let Some(latest) = latest.filter(|root| root.domains == self.spaces[space].regime.dacr)
        else {
            return;
        };
        self.crossings += 1;
        let root = hardware(&latest);
        let mut set = RootSet::NONE;
        vcpu.shadow.know(&latest, &mut set);
        self.known.push(Known {
            vcpu: number,
            cpu: vcpu.cpu,
            generation: asids.generation(),
            space,
            view: to,
            root,
            set,
        });
        self.cpus[vcpu.cpu].enter(&root);
        for one in self.cpus[vcpu.cpu].find(vcpu.shadow.memory(), &root, at) {
            self.check(number, space, to, at, &one);
        }
    }

    fn forget_unknown(&mut self) {
        let (vcpus, asids) = (&self.vcpus, &self.asids);
        self.known.retain(|one| {
            let vcpu = &vcpus[one.vcpu];
            let same = asids[one.cpu].generation() == one.generation && vcpu.cpu == one.cpu;
            same && vcpu.shadow.knows(&one.set)
        });
    }

    /// The guest goes to all roots that it knows.
    fn return_to_known(&mut self, number: usize, at: u32) {
        let mine = self.known.iter().filter(|one| one.vcpu == number);
        for one in mine.copied().collect::<Vec<_>>() {
            self.returns += 1;
            self.cpus[one.cpu].enter(&one.root);
            let memory = self.vcpus[number].shadow.memory();
            for found in self.cpus[one.cpu].find(memory, &one.root, at) {
                self.check(number, one.space, one.view, at, &found);
            }
        }
    }

    fn check(&self, number: usize, space: usize, view: Privilege, at: u32, one: &Cached) {
        let known = self.vcpus[number].model.known(space, at);
        for kind in KINDS.into_iter().filter(|kind| one.allows(*kind)) {
            let fine = known.iter().any(|translation| {
                let Some(frame) = self.guest.kind_of(translation.page, one.frame) else {
                    return false;
                };
                let is_device = frame == FrameKind::Device;
                assert!(!is_device || one.is_device(), "{at:#x}: {one:?}");
                let allowed = match (kind, view) {
                    (AccessKind::Execute, _) if is_device => false,
                    (AccessKind::Read, _) | (AccessKind::Execute, Privilege::User) => true,
                    (AccessKind::Write, _) => WRITABLE.contains(&frame),
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

    pub fn access(&mut self, vcpu: usize, space: usize, access: &Access, neighbours: Neighbours) {
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
                assert_eq!((mapping, address >> 20), (told, self.window >> 20));
                return;
            }
            (Ok(mapping), Filled::NoFrame(told)) => {
                assert_eq!(mapping, told);
                let page = hanok_types::Ipa::new(mapping.output.get() & !0xfff);
                match self.guest.page(page) {
                    None => {}
                    Some(frame) => {
                        assert_eq!((frame.kind, kind), (FrameKind::Device, AccessKind::Execute));
                    }
                }
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
            (AccessKind::Write, _) => !WRITABLE.contains(&kind),
            (AccessKind::Execute, Privilege::Kernel) => kind != FrameKind::Code,
            _ => false,
        };
        assert!(refused, "{access:?} {kind:?}");
    }

    pub fn fill(
        &mut self,
        vcpu: usize,
        space: usize,
        access: &Access,
        around: Neighbours,
    ) -> Filled {
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
    pub fn check_all(&mut self) {
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

fn hardware(latest: &LatestRoot) -> HardwareRoot {
    HardwareRoot {
        table: latest.table,
        asid: latest.asid,
        owed: Owed::Nothing,
    }
}
