//! What VMs and vCPUs need beside all else where they run without virtualization extensions.

use crate::VmUnit;
use crate::arena::Arena;
use crate::fatal::refuse;
use crate::layout::take;
use core::cell::OnceCell;
use hanok_arch::HostContext;
use hanok_arch::deprivileged::{
    Code, CodePage, CodePages, Deprivileged, FRAMES, PAGES, Place, Slot, identity,
};
use hanok_arm_common::frames::Frames;
use hanok_arm_common::mmu::OwnTable;
use hanok_hal::{Mutex, VmMemory};
use hanok_paging::Stage1Attributes;
use hanok_types::{Hpa, PAGE_SIZE};

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
    code: OnceCell<&'static Mutex<Code>>,
}

impl VmPart {
    /// Completes the context of a vCPU of `unit` with this affinity.
    pub fn complete(
        &self,
        context: &mut HostContext,
        unit: &VmUnit,
        mpidr: u64,
        arena: &mut Arena,
        window: &mut Window<'_>,
    ) {
        let Some(descriptor) = window.descriptor else {
            return;
        };
        let name = &unit.vm.config().name;
        if unit.vm.vcpus() > 1 {
            refuse(format_args!(
                "vm {name}: it has {} vCPUs, and without virtualization extensions a VM has one so far: \
                 give it one",
                unit.vm.vcpus()
            ));
        }
        let code = *self.code.get_or_init(|| match code(unit, arena) {
            Some(code) => code,
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
            let identity = identity(mpidr as u32);
            let mut own = Deprivileged::new(identity, code, frames, descriptor)?;
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

/// What is known of a VM's code: nothing.
fn code(unit: &VmUnit, arena: &mut Arena) -> Option<&'static Mutex<Code>> {
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
    Some(code)
}
