//! What VMs and vCPUs need beside all else where they run without virtualization extensions.

use crate::VmUnit;
use crate::arena::Arena;
use crate::fatal::refuse;
use crate::layout::take;
use core::cell::OnceCell;
use hanok_arch::HostContext;
use hanok_arch::deprivileged::{
    Code, CodePage, CodePages, Deprivileged, FRAMES, Member, PAGES, Place, Seat, Slot, identity,
};
use hanok_arm_common::frames::Frames;
use hanok_arm_common::mmu::OwnTable;
use hanok_hal::{Mutex, VmMemory};
use hanok_paging::Stage1Attributes;
use hanok_types::{Hpa, PAGE_SIZE, VcpuId};

/// The number of a VM's frames with doubtful words that are looked after at a time.
const SLOTS: usize = 512;

/// The window in guests' translations.
#[derive(Debug)]
pub struct Window<'a> {
    /// Its first-level descriptor; `None` if they have none.
    descriptor: Option<u32>,
    table: &'a mut OwnTable,
    /// The pages that vCPUs have there are below this offset.
    next: u64,
}

impl<'a> Window<'a> {
    /// The window with this descriptor, which `table` maps, too.
    pub fn new(descriptor: Option<u32>, table: &'a mut OwnTable) -> Self {
        Self {
            descriptor,
            table,
            next: PAGES.start,
        }
    }

    /// Shows a frame there. The answer is its offset, or 0 if there is no place.
    fn show(&mut self, frame: Hpa) -> u32 {
        let offset = self.next;
        let at = u64::from(Place::FIRST.address()) + offset;
        let data = Stage1Attributes::DATA;
        if !PAGES.contains(&offset) || self.table.map(at, frame, PAGE_SIZE, data).is_err() {
            return 0;
        }
        self.next += PAGE_SIZE;
        offset as u32
    }
}

/// One VM's part, which its first vCPU makes.
#[derive(Debug, Default)]
pub struct VmPart {
    shared: OnceCell<(&'static Mutex<Code>, &'static [Seat])>,
}

impl VmPart {
    /// Completes the context of the vCPU of `unit` with this number and affinity.
    pub fn complete(
        &self,
        context: &mut HostContext,
        unit: &VmUnit,
        (vcpu, mpidr): (VcpuId, u64),
        arena: &mut Arena,
        window: &mut Window<'_>,
    ) {
        let Some(descriptor) = window.descriptor else {
            return;
        };
        let name = &unit.vm.config().name;
        let (code, seats) = *self.shared.get_or_init(|| match shared(unit, arena) {
            Some(shared) => shared,
            None => refuse(format_args!(
                "vm {name}: no memory for what is known of its code"
            )),
        });
        let block = take(
            &mut arena.free,
            FRAMES * PAGE_SIZE,
            "a vCPU's shadow tables",
        );
        // SAFETY: free RAM, mapped in place, taken for tables alone.
        let frames = arena.put(Mutex::new(unsafe { Frames::new(block.start(), FRAMES, 0) }));
        let own = frames.and_then(|frames| {
            let identity = identity(mpidr as u32, !seats.is_empty());
            let member = Member::new(seats, vcpu.index());
            let mut own = Deprivileged::new(identity, member, code, frames, descriptor)?;
            own.page_in_window = window.show(own.monitor.page());
            Some(own)
        });
        context.deprivileged = own.and_then(|own| arena.put(own));
        if context.deprivileged.is_none() {
            refuse(format_args!(
                "vm {name}: no memory for a vCPU's shadow tables"
            ));
        }
    }
}

/// What is known of a VM's code: nothing; and the seats of its vCPUs, if it has several.
fn shared(unit: &VmUnit, arena: &mut Arena) -> Option<(&'static Mutex<Code>, &'static [Seat])> {
    let mut pages = |memory: &hanok_arm_common::ram::GuestRam| {
        let count = memory.ipa().len().div_ceil(PAGE_SIZE) as usize;
        let all = arena.put_all(count, (0..count).map(|_| CodePage::default()))?;
        Some(CodePages::new(memory.ipa(), all))
    };
    let ram = pages(&unit.ram)?;
    let flash = match &unit.flash {
        Some(flash) => Some(pages(flash)?),
        None => None,
    };
    let slots = arena.put_all(SLOTS, (0..SLOTS).map(|_| Slot::empty()))?;
    let code = arena.put(Mutex::new(Code::new(
        [Some(ram), flash],
        slots,
        unit.vm.config().rewritten,
        unit.vm.config().trampolines,
    )))?;
    let seats: &[Seat] = match unit.vm.vcpus() {
        1 => &[],
        vcpus => arena.put_all(vcpus, (0..vcpus).map(|_| Seat::default()))?,
    };
    Some((code, seats))
}
