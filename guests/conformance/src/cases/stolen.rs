//! Stolen time by the standard calls (DEN0057A), which QEMU has under KVM alone, and guests in AArch32 nowhere.

use crate::arch::access;
use crate::case::{Case, Outcome, hanok_case};
use crate::cases::holes::expect_abort;
use crate::machine::Machine;
use crate::mmu::{self, Kind};
use crate::psci::{self, call, status};
use crate::{smp, timer};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    hanok_case("stolen-calls", 1, calls),
    hanok_case("stolen-read-only", 1, read_only),
    hanok_case("stolen-own", 2, own),
];

const ARCH_FEATURES: u64 = 0x8000_0001;
const FEATURES: u64 = 0xc500_0020;
const ST: u64 = 0xc500_0021;
/// The same numbers with 32-bit arguments: no calls.
const NARROW: [u64; 2] = [0x8500_0020, 0x8500_0021];
/// Bytes of a structure.
const STRUCTURE: u64 = 64;
const PAGE: u64 = platform::STOLEN.get();
const THERE: bool = cfg!(target_arch = "aarch64");

fn calls(_: &Machine) -> Outcome {
    let known = if THERE {
        psci::SUCCESS
    } else {
        psci::NOT_SUPPORTED
    };
    let found = status(call(ARCH_FEATURES, FEATURES, 0, 0));
    check_eq!(found, known, "SMCCC_ARCH_FEATURES");
    for function in [FEATURES, ST] {
        let found = status(call(FEATURES, function, 0, 0));
        check_eq!(found, known, "PV_TIME_FEATURES of {function:#x}");
    }
    for none in [0, FEATURES - 1, ST + 1, NARROW[0], NARROW[1]] {
        let found = status(call(FEATURES, none, 0, 0));
        check_eq!(found, psci::NOT_SUPPORTED, "PV_TIME_FEATURES of {none:#x}");
        let found = status(call(none, FEATURES, 0, 0));
        check_eq!(found, psci::NOT_SUPPORTED, "{none:#x}");
    }
    let at = call(ST, 0, 0, 0);
    if THERE {
        check_eq!(at, PAGE, "PV_TIME_ST");
    } else {
        check_eq!(status(at), psci::NOT_SUPPORTED, "PV_TIME_ST");
    }
    Ok(())
}

fn read_only(_: &Machine) -> Outcome {
    // For stores, too: it is the VM's own translation that refuses them.
    let first = mmu::map(0, PAGE, Kind::Device);
    let last = first + 0xff8;
    if !THERE {
        // SAFETY: a load, of which nothing is used.
        let found = unsafe { access::load(first, 4) }.map(drop);
        return expect_abort(found, false, first, PAGE);
    }
    for (at, host) in [(first, PAGE), (first + 8, PAGE + 8), (last, PAGE + 0xff8)] {
        // SAFETY: a load of memory that is there to be read.
        let before = unsafe { access::load(at, 8) };
        check!(before.is_ok(), "{host:#x}: {before:?}");
        // SAFETY: a store that is refused.
        let stored = unsafe { access::store(at, 8, 1 << 40) };
        expect_abort(stored, true, at, host)?;
        // SAFETY: as above.
        let after = unsafe { access::load(at, 8) };
        check!(
            after.is_ok_and(|value| value < 1 << 40),
            "{host:#x}: {after:?}"
        );
    }
    // Revision and attributes.
    // SAFETY: as above.
    let head = unsafe { access::load(first, 8) };
    check!(head.is_ok_and(|head| head == 0), "{head:?}");
    Ok(())
}

static FOUND: AtomicU64 = AtomicU64::new(0);

/// Another vCPU has another structure, and the time in each grows by no more than goes by.
fn own(_: &Machine) -> Outcome {
    fn ask(_: usize) {
        FOUND.store(call(ST, 0, 0, 0), Relaxed);
    }
    if !THERE {
        return Ok(());
    }
    check_eq!(call(ST, 0, 0, 0), PAGE, "of vCPU 0");
    check_eq!(smp::start(1, ask), psci::SUCCESS, "CPU_ON");
    check!(smp::wait_off(1), "vCPU 1 does not end");
    check_eq!(FOUND.load(Relaxed), PAGE + STRUCTURE, "of vCPU 1");
    let at = mmu::map(0, PAGE, Kind::ReadOnly);
    // SAFETY: a load of memory that is there to be read.
    let stolen = || unsafe { access::load(at + 8, 8) }.unwrap_or(u64::MAX);
    let (before, began) = (stolen(), timer::now());
    while timer::now() < began + timer::frequency() / 20 {}
    let (grown, passed) = (stolen().wrapping_sub(before), timer::now() - began);
    check!(
        grown / 1000 <= passed * 1000 / (timer::frequency() / 1000).max(1),
        "{grown} ns in {passed} ticks"
    );
    Ok(())
}
