//! What VMs and vCPUs need beside all else where they run without virtualization extensions.

use crate::VmUnit;
use crate::arena::Arena;
use crate::fatal::refuse;
use crate::layout::take;
use core::cell::OnceCell;
use hanok_arch::HostContext;
use hanok_arch::deprivileged::{Code, CodePage, CodePages, Deprivileged, FRAMES, Slot, identity};
use hanok_arm_common::frames::Frames;
use hanok_hal::{Mutex, VmMemory};
use hanok_types::PAGE_SIZE;

/// The number of a VM's frames with doubtful words that are looked after at a time.
const SLOTS: usize = 512;

/// One VM's part, which its first vCPU makes.
#[derive(Debug)]
pub struct VmPart {
    window: Option<u32>,
    code: OnceCell<&'static Mutex<Code>>,
}

impl VmPart {
    /// Nothing yet. `window` is the first-level descriptor of the window in guests' translations, where they
    /// have one.
    pub fn new(window: Option<u32>) -> Self {
        Self {
            window,
            code: OnceCell::new(),
        }
    }

    /// Completes the context of a vCPU of `unit` with this affinity.
    pub fn complete(
        &self,
        context: &mut HostContext,
        unit: &VmUnit,
        mpidr: u64,
        arena: &mut Arena,
    ) {
        let Some(window) = self.window else {
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
            Deprivileged::new(identity, code, frames, window)
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
    let slots = arena.put_all(SLOTS, (0..SLOTS).map(|_| Slot::EMPTY))?;
    let code = arena.put(Mutex::new(Code::new(
        [Some(ram), flash],
        slots,
        unit.vm.config().rewritten,
        unit.vm.config().trampolines,
    )))?;
    Some(code)
}
