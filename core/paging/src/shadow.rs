//! Shadow tables: what a guest's short descriptors say, in tables that a CPU without
//! virtualization hardware can walk while the guest, kernel and programs alike, runs in User mode.
//!
//! A [`Shadow`] belongs to one vCPU. It holds *roots*, first-level tables, each for one view (what
//! the kernel may reach, or what programs may) of one guest space, and second-level tables below
//! them. What is global is kept once, in *common* roots, for all spaces that may use it. Both kinds of
//! table come from pools of a fixed size. The roots used last are kept; when a pool is dry,
//! the oldest is taken back. That costs the guest time and nothing else.
//!
//! Kept true:
//! - An entry says no more than a walk of the guest's tables said since the guest last invalidated
//!   the address, and no more than the host's frame behind it allows. No write to the guest's
//!   tables is noticed, as none is by a TLB (DDI 0406C, B3.9 and B3.10).
//! - In the kernel's view nothing is both writable and executable: [`FrameKind`] has no such value.
//! - The window, a megabyte of the hypervisor's, is in every root and never the guest's.
//! - What a hardware TLB may hold under the ASID of a root is in that root. A change that takes
//!   something away says by [`Owed`] what has to be invalidated, or takes the ASID from the
//!   root: the next [`Shadow::enter`] gives it one that no TLB knows. So a change of many
//!   entries costs no maintenance until the ASIDs are used up.
//! - No call does more than a bounded amount of work. A root that is taken back, or whose
//!   space was invalidated, is emptied piece by piece before it is used again.
//!
//! No CPU may walk a shadow while one of its functions runs: an exit has gone to the hypervisor's
//! own tables and ASID 0. So an entry may change to another one without break-before-make, if what
//! is owed is done before the guest is entered. And after every function the guest is entered by
//! [`Shadow::enter`] alone, as the root or its ASID may be others.
//!
//! The fields of registers that the entries suppose: SCTLR.TRE and AFE clear, TTBCR 0, DACR
//! [`SHADOW_DACR`].
//!
//! The domains mean nothing to the CPU here, since User mode is a client of all of them. They
//! note for each megabyte how much one descriptor of the guest's maps there at most, and
//! whether anything is global: an invalidation by address has to find all that stems from the
//! guest's descriptor, of which the shadow may hold pieces.
//!
//! DACR is part of what makes a space, as are the other registers of a walk: a guest that changes
//! it goes to another root, and back to the one it had. Rejected: removing the entries of a domain
//! that changes, since a kernel that keeps itself out of its programs' memory changes it twice for
//! each access to that.

mod asid;
mod choice;
mod common;
mod doorbells;
mod entries;
mod fill;
mod forget;
mod host;
mod index;
mod invalidate;
mod keep;
mod origin;
mod owed;
mod root_set;
mod roots;
mod tables;

pub use asid::AsidPool;
pub use doorbells::Doorbells;
pub use fill::{Filled, Neighbours};
pub use forget::{Forgetting, FrameLoss};
pub use host::{FrameKind, HostFrame, HostMemory, UNCERTAIN};
pub use invalidate::Invalidation;
pub use origin::SHADOW_DACR;
pub use owed::{Owed, Progress};
pub use root_set::RootSet;
pub use roots::GuestSpace;

use crate::short::{Privilege, Words};
use choice::Choice;
use hanok_hal::TableMemory;
use hanok_types::{Hpa, PAGE_SIZE};
use index::RootIndex;
use root_set::MOST_ROOTS;
use roots::{Holders, Owner, Root};
use tables::Tables;

/// The frames of a first-level table.
const ROOT_FRAMES: usize = 4;
/// The second-level tables in a frame.
const TABLES_IN_FRAME: usize = 4;
/// How many first-level entries of a root are removed in one call at most.
const SWEEP: usize = 40;

/// The megabyte that is the hypervisor's in every root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    index: usize,
    descriptor: u32,
}

impl Window {
    /// The megabyte around `address`, with its first-level descriptor: for PL1 alone, in domain 0.
    pub const fn new(address: u32, descriptor: u32) -> Self {
        Self {
            index: first_index(address),
            descriptor,
        }
    }

    /// Whether `address` is in the window.
    pub const fn contains(&self, address: u32) -> bool {
        first_index(address) == self.index
    }
}

/// The root of a view that was used last, which most uses ask for again.
#[derive(Clone, Copy, Debug)]
struct Latest {
    number: usize,
    /// When the root got its owner.
    owned: u64,
    /// The space, as it was asked for.
    space: GuestSpace,
}

/// What the CPU's registers are to hold while the guest runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardwareRoot {
    /// The first-level table, for TTBR0.
    pub table: Hpa,
    /// The ASID, for CONTEXTIDR. It is never 0.
    pub asid: u8,
    /// What has to be invalidated on this CPU before the guest runs.
    pub owed: Owed,
}

/// The root that a view was entered with last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatestRoot {
    /// The first-level table, for TTBR0.
    pub table: Hpa,
    /// The ASID, for CONTEXTIDR.
    pub asid: u8,
    /// The guest's DACR that it was made for.
    pub domains: u32,
    number: u8,
}

/// The shadow tables of one vCPU: `ROOTS` first-level tables of 16 KiB, at least one, and `TABLES`
/// second-level ones of 1 KiB, a power of two. Four of these are the least: an instruction may need
/// two pages of code and two of data, in four megabytes.
#[derive(Debug)]
pub struct Shadow<M, const ROOTS: usize, const TABLES: usize> {
    memory: M,
    window: Window,
    roots: [Root; ROOTS],
    index: RootIndex<ROOTS>,
    holders: Holders,
    /// The roots in which an entry may stem from a supersection.
    supersections: RootSet,
    tables: Tables<TABLES>,
    /// Counts uses of roots and tables, to find the oldest.
    clock: u64,
    /// The roots that are no common ones and have no own entries of before the latest invalidation.
    purged: RootSet,
    /// How many descriptors of the common roots [`Self::check_kept`] has looked at since.
    checked: usize,
    /// The root that each view had last: the kernel's, programs', and the kernel's while it is confined.
    latest: [Option<Latest>; 3],
    /// The pool of ASIDs of the CPU that the vCPU was entered on last.
    pool: u8,
    /// The roots of which [`Self::know`] still holds.
    known: RootSet,
    /// The root for which an entry was made last.
    filled: usize,
    choice: Choice,
}

/// The frames of a [`Shadow`]: in blocks of 4, but for those of the second-level tables.
pub const fn frames(roots: usize, tables: usize) -> usize {
    (roots + common::number(roots)) * ROOT_FRAMES + tables / TABLES_IN_FRAME
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// Empty shadow tables, in frames below 4 GiB of `memory`; `None` if that has too few.
    pub fn new(mut memory: M, window: Window) -> Option<Self> {
        const {
            assert!(ROOTS >= 1 && ROOTS <= MOST_ROOTS);
            assert!(TABLES >= 4 && TABLES <= 1 << 15 && TABLES.is_power_of_two());
        }
        let tables = Tables::new(memory.allocate(TABLES / TABLES_IN_FRAME)?);
        let mut roots = core::array::from_fn(|_| Root::new());
        for root in &mut roots {
            root.table = memory.allocate(ROOT_FRAMES)?;
            memory.set_word(root.table, window.index, window.descriptor);
        }
        for root in &mut roots[..Self::COMMON] {
            root.sources = memory.allocate(ROOT_FRAMES)?;
        }
        Some(Self {
            memory,
            window,
            roots,
            index: RootIndex::NONE,
            holders: Holders::NONE,
            supersections: RootSet::NONE,
            tables,
            clock: 0,
            purged: RootSet::NONE,
            checked: usize::MAX,
            latest: [None; 3],
            pool: 0,
            known: RootSet::NONE,
            filled: 0,
            choice: Choice::NONE,
        })
    }

    /// Frees all tables. No CPU may walk them any more, and no TLB may hold entries of them.
    pub fn destroy(mut self) -> M {
        for root in &self.roots {
            self.memory.free(root.table, ROOT_FRAMES);
        }
        for root in &self.roots[..Self::COMMON] {
            self.memory.free(root.sources, ROOT_FRAMES);
        }
        self.memory
            .free(self.tables.base(), TABLES / TABLES_IN_FRAME);
        self.memory
    }

    /// The memory that the tables are in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The memory that the tables are in, for what else is in it.
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.memory
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// The root for this view of a guest space, and its ASID from the pool of this CPU. It is to be
    /// called each time before the guest runs. [`Progress::Again`]: the root that it gets still has
    /// to be emptied, and the call is to be made once more.
    pub fn enter(
        &mut self,
        space: &GuestSpace,
        view: Privilege,
        asids: &mut AsidPool,
    ) -> Progress<HardwareRoot> {
        if self.has_unchecked() {
            (0..Self::COMMON).for_each(|number| self.disown(number));
            self.checked = usize::MAX;
        }
        let Progress::Done(number) = self.root_of(space, view, false) else {
            return Progress::Again;
        };
        if self.pool != asids.id() {
            // What was invalidated for all ASIDs was invalidated on the CPU that the vCPU has left.
            self.pool = asids.id();
            let common = &mut self.roots[..Self::COMMON];
            common.iter_mut().for_each(Root::lose);
            self.known = RootSet::NONE;
        }
        let root = self.with_losses(number);
        let before = root.tag;
        let (asid, owed) = asids.renew(&mut root.tag);
        if self.roots[number].tag != before {
            self.unknow(number);
        }
        let root = &self.roots[number];
        Progress::Done(HardwareRoot {
            table: root.table,
            asid,
            owed,
        })
    }

    /// The root that a view, not confined, was entered with last, if it is of this space but for DACR, is there still,
    /// and has an ASID of this CPU or can get one for which nothing is owed. As long as no other function is called, the guest may
    /// go there by itself. To be called after [`Self::enter`].
    pub fn latest(
        &mut self,
        view: Privilege,
        space: &GuestSpace,
        asids: &mut AsidPool,
    ) -> Option<LatestRoot> {
        let place = match view {
            Privilege::Kernel => 0,
            Privilege::User => 1,
        };
        let latest = self.latest[place].as_ref()?;
        let (number, domains) = (latest.number, latest.space.regime.dacr);
        let root = self.roots.get(number)?;
        let there = root.owner.is_some()
            && root.owned == latest.owned
            && (number < Self::COMMON || self.is_purged(number));
        if !there || !latest.space.is_but_for_domains(space) || self.pool != asids.id() {
            return None;
        }
        let root = self.with_losses(number);
        let found = LatestRoot {
            table: root.table,
            asid: asids.renew_quietly(&mut root.tag)?,
            domains,
            number: number as u8,
        };
        self.use_now(number);
        Some(found)
    }

    /// Lets the guest go by itself to a root that [`Self::latest`] has just answered, whatever other function is called, as long as
    /// [`Self::knows`] it and the ASIDs are of the same [`AsidPool::generation`]. The root is added to `roots`.
    pub fn know(&mut self, root: &LatestRoot, roots: &mut RootSet) {
        self.known.insert(root.number.into());
        roots.insert(root.number.into());
    }

    /// Whether all roots of a set are as they were when they were made known.
    pub fn knows(&self, roots: &RootSet) -> bool {
        self.known.has_all(roots)
    }

    /// Whether the root for which [`Self::fill`] made an entry last is the one with this TTBR0, whatever the attributes of walks.
    pub fn is_filled(&self, table: u32) -> bool {
        let root = self.roots.get(self.filled);
        root.is_some_and(|root| root.table.get() == u64::from(table & !0x3fff))
    }

    /// Whether the kernel's view, not confined, was entered last by the root with this TTBR0, whatever the attributes of walks.
    pub fn has_latest(&self, table: u32) -> bool {
        let latest = self.latest[0].as_ref();
        let root = latest.and_then(|latest| self.roots.get(latest.number));
        root.is_some_and(|root| root.table.get() == u64::from(table & !0x3fff))
    }

    /// A root, or what it has from its common one, is not as it was: the guest may not go there by itself any more.
    fn unknow(&mut self, number: usize) {
        if number < Self::COMMON {
            self.known = RootSet::NONE;
        } else {
            self.known.remove(number);
        }
    }

    /// Entries of a root are gone that TLBs may hold.
    fn lose(&mut self, number: usize) {
        self.roots[number].lose();
        self.unknow(number);
    }

    /// Moves the window. What the guest had in the new megabyte goes from all roots.
    pub fn move_window(&mut self, window: Window) -> Owed {
        for number in 0..ROOTS {
            let old = self.window.index;
            self.memory.set_word(self.roots[number].table, old, 0);
            self.remove_first(number, window.index);
            let root = &mut self.roots[number];
            self.memory
                .set_word(root.table, window.index, window.descriptor);
            self.lose(number);
        }
        self.window = window;
        // The old window may be in a TLB as a global entry.
        Owed::Everything
    }

    /// The number of the root for a view of a space. It is the space's `own`, and is taken if there is none; or by which the guest
    /// may run: for the kernel that is the common one as long as the space has none of its own. Linux has spaces for a moment in
    /// which it uses nothing but what is global.
    #[inline(never)]
    fn root_of(&mut self, space: &GuestSpace, view: Privilege, own: bool) -> Progress<usize> {
        if let Some(number) = self.latest_root(space, view) {
            let common = number < Self::COMMON;
            if common && !own || !common && self.is_purged(number) {
                self.touch(number);
                return Progress::Done(number);
            }
        }
        let owner = Owner::new(space, view);
        let number = match self.find_root(&owner) {
            Some(number) => number,
            None if !own
                && view == Privilege::Kernel
                && let Some(common) = self.common_of(space, view) =>
            {
                self.enters(space, view, common);
                return Progress::Done(common);
            }
            None => match self.new_root(owner) {
                Progress::Done(number) => number,
                Progress::Again => return Progress::Again,
            },
        };
        if !self.is_purged(number) && self.purge(number) == Progress::Again {
            return Progress::Again;
        }
        self.enters(space, view, number);
        Progress::Done(number)
    }

    /// A view of a space has this root, which is used now.
    fn enters(&mut self, space: &GuestSpace, view: Privilege, number: usize) {
        self.touch(number);
        self.latest[latest(space, view)] = Some(Latest {
            number,
            owned: self.roots[number].owned,
            space: *space,
        });
    }

    /// The root, which has no ASID any more if its common one has lost something since it got it.
    fn with_losses(&mut self, number: usize) -> &mut Root {
        let common = self.roots[number].common;
        let losses = common.map(|common| self.roots[common].losses);
        let root = &mut self.roots[number];
        if let Some(losses) = losses
            && losses != root.losses
        {
            (root.tag, root.losses) = (None, losses);
        }
        root
    }

    /// The root is used now, and with it its common one.
    fn touch(&mut self, number: usize) {
        self.clock += 1;
        self.use_now(number);
    }

    /// The root is used as lately as any.
    fn use_now(&mut self, number: usize) {
        self.roots[number].used = self.clock;
        if let Some(common) = self.roots[number].common {
            self.roots[common].used = self.clock;
        }
    }

    fn find_root(&self, owner: &Owner) -> Option<usize> {
        let is_meant = |number: usize| self.roots[number].owner == Some(*owner);
        self.index.find(owner.mark(), is_meant)
    }

    /// A root for this owner, with what is common.
    fn new_root(&mut self, owner: Owner) -> Progress<usize> {
        let Progress::Done(common) = self.take_common(&owner) else {
            return Progress::Again;
        };
        let number = self.root_for(&owner, common);
        if common.is_none() || self.roots[number].common != common {
            self.disown(number);
            if self.sweep(number) == Progress::Again {
                return Progress::Again;
            }
            self.roots[number].common = common;
        }
        // The copies that are left in it are as good in the new space.
        if self.purge(number) == Progress::Again {
            return Progress::Again;
        }
        self.clock += 1;
        self.taken();
        let root = &mut self.roots[number];
        (root.owner, root.owned) = (Some(owner), self.clock);
        self.index.put(number, owner.mark());
        Progress::Done(number)
    }

    /// The root that this view had last, if it is still this space's.
    fn latest_root(&self, space: &GuestSpace, view: Privilege) -> Option<usize> {
        let latest = self.latest[latest(space, view)].as_ref()?;
        let root = self.roots.get(latest.number)?;
        let same = root.owner.is_some() && root.owned == latest.owned;
        (same && latest.space == *space).then_some(latest.number)
    }

    /// Removes some of the entries of a root without an owner; done if none is left.
    #[inline(never)]
    fn sweep(&mut self, number: usize) -> Progress<()> {
        let mut first = 0;
        for _ in 0..SWEEP {
            let Some(index) = self.roots[number].filled.next(first) else {
                break;
            };
            self.remove_first(number, index);
            first = index + 1;
        }
        if !self.roots[number].filled.is_empty() {
            return Progress::Again;
        }
        self.roots[number].emptied();
        self.supersections.remove(number);
        Progress::Done(())
    }
}

/// The place in [`Shadow::latest`].
const fn latest(space: &GuestSpace, view: Privilege) -> usize {
    match view {
        Privilege::Kernel if space.confined => 2,
        Privilege::Kernel => 0,
        Privilege::User => 1,
    }
}

/// The index of the first-level descriptor for `address`.
const fn first_index(address: u32) -> usize {
    (address >> 20) as usize
}

/// The index of the second-level descriptor for `address`.
const fn second_index(address: u32) -> usize {
    (address >> 12) as usize & 0xff
}

/// The number of a frame.
const fn frame_number(frame: Hpa) -> u64 {
    frame.get() / PAGE_SIZE
}
