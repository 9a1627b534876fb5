//! Fuzzes jumps to addresses where there is no code.

use super::space;
use super::trip::{FETCH, FETCH_USER, Kind, MASKED, Start, THUMB, UNDEFINED, USER_MASKED};
use crate::fuzz::Fuzzer;
use crate::fuzz::places;
use crate::fuzz::random::Random;

/// Makes one jump and checks the exception.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next() as u32);
    let physical = places::not_memory(fuzzer.machine, random).physical & !3;
    aim(&mut start, physical, random);
    // SAFETY: no instruction is where it goes: a device or nothing gives none, memory there holds
    // what is none.
    let end = unsafe { fuzzer.travel(&start) };
    let pc = start.pc;
    let known = matches!(
        end.kind(),
        Kind::Synchronous(UNDEFINED | FETCH | FETCH_USER)
    );
    if !known || end.pc() != pc || start.x != end.x {
        let mode = start.pstate;
        fuzzer.wrong(format_args!("jump to {pc:#x} by {mode:#x}: {end:?}"));
    }
}

/// Chooses a physical address and the mapping by which the jump goes to it.
fn aim(start: &mut Start, physical: u64, random: &mut Random) {
    let offset = physical as u32 & 0xfff;
    let thumb = if random.once_in(3) { THUMB } else { 0 };
    // An instruction of T32 may begin at each halfword.
    let half = if thumb != 0 && random.once_in(2) {
        2
    } else {
        0
    };
    (start.pc, start.pstate) = match random.below(9) {
        0..=2 => (
            space::window(physical, false) + offset + half,
            MASKED | thumb,
        ),
        3 | 4 => (
            space::window(physical, true) + offset + half,
            USER_MASKED | thumb,
        ),
        5 if physical >> 32 == 0 => {
            // With the MMU off, addresses are physical.
            start.sctlr = space::SCTLR & !1;
            (physical as u32, MASKED | thumb)
        }
        // Memory with a word that is an instruction neither in A32 nor in T32.
        6 => (undefined(random), MASKED),
        7 => {
            let page = space::window(space::ZEROS.address(), true);
            (page + (undefined(random) & 0xfff), USER_MASKED)
        }
        // An address that is not mapped.
        _ => {
            let at = space::USER_DATA + (4 << 12) + random.below(0x10_0000) as u32;
            (at & !3, MASKED | thumb)
        }
    };
}

fn undefined(random: &mut Random) -> u32 {
    space::ZEROS.address() as u32 + (random.below(4096) as u32 & !3)
}
