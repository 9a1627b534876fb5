//! The hypervisor's own translation, and TLB maintenance for it and for stage 2.
//!
//! Physical addresses are mapped one to one; stacks and the image ([`crate::space::IMAGE_BASE`])
//! have places of their own, which `space.rs` of either architecture names. Code is read-only,
//! data is never executable, the image's own frames have no second mapping, and every stack ends
//! in addresses where nothing is mapped. Format: VMSAv8-64 for an EL2 without VHE, which is that
//! of Hyp mode's LPAE, too (DDI 0406C, B3.6).

use crate::frames::Frames;
use crate::privilege::is_deprivileged;
use crate::space::{self, GEOMETRY, REACH, STACKS};
use crate::{write, write_own};
use hanok_hal::Tlb;
#[cfg(target_arch = "arm")]
use hanok_paging::short;
use hanok_paging::{El2Stage1, MapError, Stage1Attributes, Table};
use hanok_types::{Address, CpuId, Hpa, Hva, Ipa, PAGE_SIZE, Span};

/// The distance from one CPU's stacks to the next one's.
const STRIDE: u64 = 0x4_0000;
/// The size in bytes of the normal stack, below which nothing is mapped.
pub const STACK: u64 = 0x8000;
/// The size in bytes of the emergency stack, around which nothing is mapped.
pub const EMERGENCY_STACK: u64 = 0x2000;

/// The parts of physical memory that the hypervisor maps.
pub fn reachable() -> Span<Hpa> {
    Span::new(Hpa::new(0), REACH).unwrap_or_default()
}

/// Tops of a CPU's two stacks: normal, emergency.
pub fn stack_tops(cpu: CpuId) -> (u64, u64) {
    let base = STACKS + cpu.index() as u64 * STRIDE;
    (base + 0x2_0000, base + 0x3_0000)
}

/// The hypervisor's table while it is being made.
#[derive(Debug)]
pub struct OwnTable(Format);

/// The table in the format of the level that the hypervisor runs at.
#[derive(Debug)]
enum Format {
    /// EL2's, and Hyp mode's.
    Long(Table<El2Stage1, Frames>),
    /// PL1's.
    #[cfg(target_arch = "arm")]
    Short(short::OwnTable<Frames>),
}

/// Why the hypervisor's table could not be made.
pub type OwnMapError = MapError<Hva>;

impl OwnTable {
    /// An empty table; `None` if `frames` has no frame left.
    pub fn new(frames: Frames) -> Option<Self> {
        #[cfg(target_arch = "arm")]
        if is_deprivileged() {
            return short::OwnTable::new(frames).map(Format::Short).map(Self);
        }
        Table::new(GEOMETRY, frames).map(Format::Long).map(Self)
    }

    /// Maps `len` bytes, whole pages, at `at`.
    pub fn map(
        &mut self,
        at: u64,
        to: Hpa,
        len: u64,
        rights: Stage1Attributes,
    ) -> Result<(), OwnMapError> {
        if len == 0 {
            return Ok(());
        }
        let span = Span::new(Hva::new(at), len).ok_or(MapError::OutOfRange)?;
        match &mut self.0 {
            Format::Long(table) => table.map(&mut OwnTlb, span, to, rights),
            #[cfg(target_arch = "arm")]
            Format::Short(table) => table.map(span, to, rights),
        }
    }

    /// Maps a range one to one, rounded to whole pages.
    pub fn map_in_place(
        &mut self,
        range: Span<Hpa>,
        rights: Stage1Attributes,
    ) -> Result<(), OwnMapError> {
        let start = range.start().align_down(PAGE_SIZE);
        let end = range
            .end()
            .align_up(PAGE_SIZE)
            .ok_or(MapError::OutOfRange)?;
        self.map(start.get(), start, end.get() - start.get(), rights)
    }

    /// Maps a CPU's stacks to frames at `frames`: first the normal one, then the other.
    pub fn map_stacks(&mut self, cpu: CpuId, frames: Hpa) -> Result<(), OwnMapError> {
        let (normal, emergency) = stack_tops(cpu);
        self.map(normal - STACK, frames, STACK, Stage1Attributes::DATA)?;
        let second = Hpa::new(frames.get() + STACK);
        self.map(
            emergency - EMERGENCY_STACK,
            second,
            EMERGENCY_STACK,
            Stage1Attributes::DATA,
        )
    }

    /// Maps pages, each with its offset and rights, in the megabyte `at`, and that megabyte in the `others`,
    /// too. The answer is the first-level descriptor, by which other tables can map it. `None` in Hyp mode.
    #[cfg(target_arch = "arm")]
    pub fn map_window(
        &mut self,
        at: u64,
        pages: &[(u64, Hpa, Stage1Attributes)],
        others: impl Iterator<Item = u64>,
    ) -> Result<Option<u32>, OwnMapError> {
        let Format::Short(table) = &mut self.0 else {
            return Ok(None);
        };
        for (offset, to, rights) in pages {
            let span = Span::new(Hva::new(at + offset), PAGE_SIZE);
            table.map(span.ok_or(MapError::OutOfRange)?, *to, *rights)?;
        }
        for other in others {
            table.repeat(Hva::new(at), Hva::new(other))?;
        }
        Ok(Some(table.descriptor(Hva::new(at))))
    }

    /// Physical address of the table.
    pub fn root(&self) -> Hpa {
        match &self.0 {
            Format::Long(table) => table.root(),
            #[cfg(target_arch = "arm")]
            Format::Short(table) => table.root(),
        }
    }

    /// Makes it this CPU's translation, for good.
    ///
    /// # Safety
    /// Everything in use, this code and its stack included, is mapped at its present address.
    pub unsafe fn activate(&self) {
        crate::sysreg::dsb_sy();
        #[cfg(target_arch = "arm")]
        if is_deprivileged() {
            let root = self.root().get() | space::walks();
            // SAFETY: by this function's contract, all that is in use stays where it is.
            unsafe { write_own!("ttbr0_pl1", root) };
            crate::sysreg::isb();
            space::forget_pl1_here();
            return;
        }
        // SAFETY: by this function's contract, all that is in use stays where it is.
        unsafe { write_own!("ttbr0_el2", self.root().get()) };
        crate::sysreg::isb();
        space::forget_own_here();
        forbid_writable_code();
    }
}

/// A writable page is never executed, whatever its descriptor says (SCTLR_EL2.WXN). CPUs without
/// virtualization extensions do not have that bit: there the descriptors alone decide.
pub fn forbid_writable_code() {
    const WXN: u64 = 1 << 19;
    if is_deprivileged() {
        return;
    }
    let now = crate::read!("sctlr_el2");
    // SAFETY: with the final tables no code page is writable, so nothing in use changes.
    unsafe { write_own!("sctlr_el2", now | WXN) };
    crate::sysreg::isb();
    space::forget_own_here();
}

/// TLBs of the hypervisor's own translation, on all CPUs.
#[derive(Debug)]
pub struct OwnTlb;

impl Tlb<Hva> for OwnTlb {
    fn invalidate(&mut self, range: Span<Hva>) {
        crate::sysreg::dsb_ish();
        for page in (range.start().get()..range.end().get()).step_by(PAGE_SIZE as usize) {
            space::forget_own_page(page);
        }
        crate::sysreg::dsb_ish();
        crate::sysreg::isb();
    }
}

/// TLBs of the stage 2 whose VTTBR_EL2 value this is, on all CPUs.
#[derive(Debug)]
pub struct Stage2Tlb(pub u64);

impl Tlb<Ipa> for Stage2Tlb {
    /// For one page, the stage 2 entry is invalidated by its address, and entries of both stages by the
    /// VMID, as they cannot be found by an IPA. Anything larger was a block or a table, parts of which may
    /// be cached, so all entries of the VMID are invalidated. Both operations act on the VMID of VTTBR_EL2,
    /// which may be another VM's here.
    ///
    /// At PL1 there is no stage 2 in the CPU: what TLBs hold of a guest is shadows' entries, and all go.
    fn invalidate(&mut self, range: Span<Ipa>) {
        #[cfg(target_arch = "arm")]
        if is_deprivileged() {
            return space::forget_pl1();
        }
        crate::sysreg::dsb_ish();
        let forget = || match range.len() {
            PAGE_SIZE => space::forget_guest_page(range.start()),
            _ => space::forget_current_vmid(),
        };
        if crate::read!("vttbr_el2") == self.0 {
            forget();
        } else {
            under(self.0, forget);
        }
    }
}

/// Does `maintenance` under another VTTBR_EL2. The registers of stage 1 are those of the vCPU in this CPU.
/// Stage 1 is on and its walks are off meanwhile, so that no translation is speculated under another VM's
/// VMID.
fn under(space: u64, maintenance: impl FnOnce()) {
    const STAGE_1: u64 = 1;
    let (tcr, sctlr) = (crate::read!("tcr_el1"), crate::read!("sctlr_el1"));
    let current = crate::read!("vttbr_el2");
    write!("tcr_el1", tcr | space::no_walks(tcr));
    crate::sysreg::isb();
    write!("sctlr_el1", sctlr | STAGE_1);
    crate::sysreg::isb();
    // SAFETY: no guest runs on this CPU before it is as it was.
    unsafe { write_own!("vttbr_el2", space) };
    crate::sysreg::isb();
    maintenance();
    // SAFETY: as it was before.
    unsafe { write_own!("vttbr_el2", current) };
    crate::sysreg::isb();
    write!("sctlr_el1", sctlr);
    crate::sysreg::isb();
    write!("tcr_el1", tcr);
    crate::sysreg::isb();
}

/// Invalidates the entries of all guests in the TLBs of all CPUs.
pub fn forget_all_vmids() {
    #[cfg(target_arch = "arm")]
    if is_deprivileged() {
        return space::forget_pl1();
    }
    crate::sysreg::dsb_ish();
    space::forget_every_vmid();
}
