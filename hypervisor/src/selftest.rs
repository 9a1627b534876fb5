//! Faults on demand, so that a test can verify the hypervisor's protection from its own faults:
//! `hanok.selftest=NAME` among the boot loader's arguments. Only the boot loader's arguments can ask for
//! one; no guest can. Only an image built with the feature `selftest` has this code (others have
//! `no_selftest.rs`).

use crate::arena::Arena;
use crate::fatal::refuse;
use crate::layout::take;
use core::hint::black_box;
use hanok_arch::{Vcpu, exits};
use hanok_arm_common::frames::SharedFrames;
use hanok_arm_common::mmu::Stage2Tlb;
use hanok_arm_common::planted::Planted;
use hanok_arm_common::{Conduit, Firmware};
use hanok_config::VmConfig;
use hanok_memory::{FrameMap, Slot};
use hanok_paging::{Stage2, Stage2Attributes, Table, Vmid, vttbr_el2};
use hanok_pcpu::{MOVED_PAGES, PageMoves};
use hanok_types::{Hpa, Ipa, PAGE_SIZE, Span};

/// The instruction that returns: RET, and BX LR.
const RETURN_INSTRUCTION: u32 = if cfg!(target_arch = "arm") {
    0xe12f_ff1e
} else {
    0xd65f_03c0
};

fn wanted(bootargs: &str) -> Option<&str> {
    bootargs
        .split_whitespace()
        .find_map(|word| word.strip_prefix("hanok.selftest="))
}

/// Causes faults before the final translation is in place.
pub fn early(bootargs: &str) {
    if wanted(bootargs) == Some("panic-early") {
        panic!("asked for by hanok.selftest");
    }
}

/// Panics when `vcpu` is about to run, or gives it an SError first, as if the bus had raised one while it
/// ran. The answer is the vCPU to enter.
///
/// # Safety
/// As for [`exits::system_error`]; `vcpu` is what that CPU is about to enter.
pub unsafe fn running(bootargs: &str, vcpu: *mut Vcpu) -> *mut Vcpu {
    match wanted(bootargs) {
        Some("panic-running") => panic!("asked for by hanok.selftest"),
        // SAFETY: the caller's promise.
        Some("serror") => unsafe { exits::system_error() },
        _ => vcpu,
    }
}

/// The faults that the backend has to plant.
pub fn planted(bootargs: &str) -> Planted {
    let wanted = wanted(bootargs);
    Planted::new(
        wanted == Some("late-serror"),
        wanted == Some("unsteady-ids"),
    )
}

/// Lets each VM but the first access 2 MiB of the memory of the VM before it, which a test of isolation
/// must find.
pub struct Leak {
    is_wanted: bool,
    /// The memory of the VM before this one.
    before: Option<Hpa>,
}

impl Leak {
    /// If the boot loader's words want it.
    pub fn new(bootargs: &str) -> Self {
        Self {
            is_wanted: wanted(bootargs) == Some("leak"),
            before: None,
        }
    }

    /// Maps memory of the VM before into this one's stage 2, whose memory is at `own`.
    pub fn apply(&mut self, stage_2: &mut Table<Stage2, SharedFrames>, own: Hpa) {
        const HOLE: Ipa = Ipa::new(0x0b00_0000);
        let Some(other) = self.before.replace(own).filter(|_| self.is_wanted) else {
            return;
        };
        let mut tlb = Stage2Tlb(vttbr_el2(stage_2.root(), Vmid::new(0)));
        let mapped = Span::new(HOLE, 2 << 20).and_then(|hole| {
            stage_2
                .map(&mut tlb, hole, other, Stage2Attributes::RAM)
                .ok()
        });
        if mapped.is_none() {
            refuse(format_args!("hanok.selftest=leak: it cannot be mapped"));
        }
    }
}

/// Whether pages of VMs are to be taken at random and given back in other frames.
fn wants_page_moves(bootargs: &str) -> bool {
    wanted(bootargs) == Some("pages")
}

/// The movers of these pages, with frames of their own.
pub fn page_moves(bootargs: &str, free: &mut FrameMap) -> PageMoves {
    let count = if wants_page_moves(bootargs) {
        MOVED_PAGES
    } else {
        0
    };
    let frames = (0..count).map(|_| take(free, PAGE_SIZE, "hanok.selftest=pages").start());
    PageMoves::new(frames)
}

/// The number of pages of each VM that can be away from their homes.
pub const SLOTS: usize = MOVED_PAGES;

/// Room for pages of VMs that are elsewhere.
pub struct Slots(Option<&'static mut [Option<Slot>]>);

impl Slots {
    /// For each of so many VMs, if the boot loader's words want it.
    pub fn new(bootargs: &str, vms: usize, arena: &mut Arena) -> Self {
        let count = MOVED_PAGES * vms;
        let all = wants_page_moves(bootargs)
            .then(|| arena.put_all(count, (0..count).map(|_| None)))
            .flatten();
        Self(all)
    }

    /// The slots of a VM; none for a VM whose devices access its memory themselves.
    pub fn of(&mut self, config: &VmConfig) -> &'static mut [Option<Slot>] {
        if config.trusted {
            return &mut [];
        }
        let split = self
            .0
            .take()
            .and_then(|all| all.split_at_mut_checked(MOVED_PAGES));
        let Some((own, rest)) = split else {
            return &mut [];
        };
        self.0 = Some(rest);
        own
    }
}

/// Causes faults once everything is in place.
pub fn late(bootargs: &str) {
    match wanted(bootargs) {
        Some("panic") => panic!("asked for by hanok.selftest"),
        Some("stack") => {
            black_box(run_over(black_box(1)));
        }
        Some("write-code") => {
            let code = late as *const () as *mut u32;
            // SAFETY: none: it must fault, as code is read-only.
            unsafe { code.write_volatile(0) };
            panic!("hanok.selftest: code could be written");
        }
        Some("run-data") => {
            static mut RETURN: [u32; 4] = [RETURN_INSTRUCTION; 4];
            // SAFETY: none: it must fault, as data is not executable.
            let data: extern "C" fn() = unsafe { core::mem::transmute(&raw const RETURN) };
            data();
            panic!("hanok.selftest: data could be run");
        }
        Some("hole") => {
            let hole = hanok_arm_common::space::HOLE as *const u32;
            // SAFETY: none: it must fault, as nothing is mapped there.
            black_box(unsafe { hole.read_volatile() });
            panic!("hanok.selftest: a hole could be read");
        }
        Some("hvc") => {
            Firmware::new(Conduit::Hvc).system_off();
            panic!("hanok.selftest: HVC came back");
        }
        // The first vCPU that runs does it.
        Some("serror" | "late-serror" | "panic-running") => {}
        // Done where the VMs are created, and by each vCPU.
        Some("leak" | "unsteady-ids" | "pages") => {}
        Some(other) => refuse(format_args!(
            "hanok.selftest={other} is none of panic-early, panic, stack, write-code, run-data, hole, \
             hvc, serror, late-serror, panic-running, leak, unsteady-ids, pages"
        )),
        None => {}
    }
}

/// Endless recursion that no optimizer may turn into a loop.
#[inline(never)]
#[expect(unconditional_recursion, reason = "it is to run over its stack")]
fn run_over(depth: usize) -> usize {
    let frame = black_box([depth; 32]);
    black_box(run_over(depth + 1)) + frame[depth % 32]
}
