//! Faults on demand, so that a test can see what protects the hypervisor from itself:
//! `hanok.selftest=NAME` among the boot loader's arguments. Only who starts the board can
//! ask for one; no guest can.

use core::hint::black_box;

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

/// Faults before the final translation.
pub fn early(bootargs: &str) {
    if wanted(bootargs) == Some("panic-early") {
        panic!("asked for by hanok.selftest");
    }
}

/// Panics where a vCPU is about to run.
pub fn running(bootargs: &str) {
    if wanted(bootargs) == Some("panic-running") {
        panic!("asked for by hanok.selftest");
    }
}

/// Whether the first guest is to meet an SError, as if the bus had raised one while it ran.
pub fn wants_serror(bootargs: &str) -> bool {
    wanted(bootargs) == Some("serror")
}

/// Whether the first vCPU that makes room for another one is to leave an SError behind, as if a
/// store of its had been answered late.
pub fn wants_late_error(bootargs: &str) -> bool {
    wanted(bootargs) == Some("late-serror")
}

/// Whether each VM but the first is to see 2 MiB of the memory of the one before it, where
/// nothing should be: what a test of their isolation must find.
pub fn wants_leak(bootargs: &str) -> bool {
    wanted(bootargs) == Some("leak")
}

/// Whether the ID registers are to answer with something else now and then.
pub fn wants_unsteady_ids(bootargs: &str) -> bool {
    wanted(bootargs) == Some("unsteady-ids")
}

/// Faults once everything is in place.
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
        // Done by the first vCPU that runs.
        Some("serror" | "late-serror" | "panic-running") => {}
        // Done where the VMs were made, and by each vCPU.
        Some("leak" | "unsteady-ids") => {}
        Some(other) => crate::fatal::refuse(format_args!(
            "hanok.selftest={other} is none of panic-early, panic, stack, write-code, run-data, hole, \
             serror, late-serror, panic-running, leak, unsteady-ids"
        )),
        None => {}
    }
}

/// Recursion without an end, that no optimizer may turn into a loop.
#[inline(never)]
#[expect(unconditional_recursion, reason = "it is to run over its stack")]
fn run_over(depth: usize) -> usize {
    let frame = black_box([depth; 32]);
    black_box(run_over(depth + 1)) + frame[depth % 32]
}
