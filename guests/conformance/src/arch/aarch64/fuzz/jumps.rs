//! Fuzzes jumps to addresses where there is no code.

use super::space;
use super::trip::{EL0_32_OPEN, EL0_OPEN, EL1_MASKED, EL1_ON_SP0, Kind, Start, THUMB};
use crate::fuzz::Fuzzer;
use crate::fuzz::places;
use crate::fuzz::random::Random;

/// PSTATE.I and F.
const MASKED: u64 = 0xc0;
/// PSTATE.IL: an illegal state.
const ILLEGAL: u64 = 1 << 20;

/// Makes one jump and checks the exception.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next());
    start.sp = random.value();
    let physical = match random.below(8) {
        // Zero is no instruction.
        0 => space::ZEROS.address() + (random.below(4096) & !3),
        _ => places::not_memory(fuzzer.machine, random).physical & !3,
    };
    aim(fuzzer, &mut start, physical, random);
    // SAFETY: no instruction is where it goes: a device holds none, memory there is zero.
    let end = unsafe { fuzzer.travel(&start) };
    let (kind, pc) = (end.kind(), start.pc);
    // The exceptions allowed: UNDEFINED, an illegal state, aborts of a fetch, a misaligned PC.
    let known = matches!(kind, Kind::Synchronous(0x00 | 0x0e | 0x20 | 0x21 | 0x22));
    if !known {
        let (esr, at) = (end.esr, end.pc);
        fuzzer.wrong(format_args!(
            "jump to {pc:#x}: {kind:?}, ESR {esr:#x}, ELR {at:#x}"
        ));
    } else if end.pc != pc || start.x != end.x && start.pstate & EL0_32_OPEN == 0 {
        let at = end.pc;
        fuzzer.wrong(format_args!(
            "jump to {pc:#x}: ELR {at:#x}, or a register changed"
        ));
    }
}

/// Chooses a physical address and the mapping by which the jump goes to it.
fn aim(fuzzer: &Fuzzer<'_>, start: &mut Start, physical: u64, random: &mut Random) {
    let page = physical & 0xfff;
    (start.pc, start.pstate) = match random.below(10) {
        0 | 1 => (space::window(physical, false) + page, EL1_MASKED),
        2 => (space::window(physical, true) + page, EL0_OPEN | MASKED),
        3 if fuzzer.has_aarch32 => {
            let thumb = if random.once_in(2) { THUMB } else { 0 };
            // Zero is an instruction of A32.
            let physical = places::not_memory(fuzzer.machine, random).physical & !3;
            let at = space::window(physical, true) + (physical & 0xfff);
            (at, EL0_32_OPEN | MASKED | thumb)
        }
        4 => {
            // With the MMU off, addresses are physical.
            start.sctlr = space::SCTLR & !1;
            (physical, EL1_MASKED)
        }
        5..=7 => {
            // The target must be executable memory: elsewhere QEMU reports the abort first.
            let odd = space::ZEROS.address() + (physical & 0xffc) + 1 + random.below(3);
            (odd, EL1_MASKED)
        }
        8 => (
            places::not_memory(fuzzer.machine, random).physical,
            EL1_ON_SP0,
        ),
        _ => {
            let illegal = if random.once_in(4) { ILLEGAL } else { 0 };
            (anywhere(random), EL1_MASKED | illegal)
        }
    };
}

/// Chooses an address that is not mapped: of the upper half, or outside both halves.
fn anywhere(random: &mut Random) -> u64 {
    random.next() | 1 << 47 | 1 << 55
}
