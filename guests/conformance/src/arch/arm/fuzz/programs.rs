//! Random words that User mode runs as a program: what User mode may not do causes an exception,
//! after which the program continues with the next instruction; a timer ends the rest.

use super::forms::Operands;
use super::trip::{
    ARRIVE, DATA_USER, End, FETCH_USER, Kind, SVC_CLASS, Start, THUMB, UNDEFINED, USER_OPEN,
};
use super::{code, forms, space};
use crate::fuzz::places;
use crate::fuzz::random::Random;
use crate::fuzz::{Fuzzer, repair};

/// The names of programs of A32 and of T32, in failures.
pub const WORDS: [&str; 2] = ["programs", "programsT32"];

/// Returns whether User mode may run A32 and T32.
pub fn has_aarch32() -> bool {
    true
}

/// How many words a program has.
const LENGTH: usize = 96;
/// How often a program may continue after an exception.
const ROUNDS: usize = 16;
/// How many microseconds a program may run at a time.
const TIME: u64 = 15;
/// CPSR.N, Z, C, V, Q and GE.
const FLAGS: u32 = 0x1f << 27 | 0xf << 16;

/// Runs one program of A32.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let words: [u32; LENGTH] = core::array::from_fn(|_| spare(word(random)));
    code::put(words);
    run(fuzzer, random, 0);
}

/// Runs one program of T32.
pub fn step_32(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let words: [u32; LENGTH] = core::array::from_fn(|_| spare_thumb(word_thumb(random)));
    code::put(words);
    run(fuzzer, random, THUMB);
}

fn run(fuzzer: &mut Fuzzer<'_>, random: &mut Random, thumb: u32) {
    let mut start = Start {
        pstate: USER_OPEN | thumb | random.next() as u32 & FLAGS,
        pc: space::USER_CODE,
        ..Start::NOWHERE
    };
    let width = if thumb == 0 { 4 } else { 2 };
    let end_of_code = space::USER_CODE + LENGTH as u32 * 4;
    repair::wakeable();
    start.x.iter_mut().for_each(|x| *x = random.next() as u32);
    for _ in 0..ROUNDS {
        for number in [0, 1, 2, 5, 8, 13] {
            start.x[number] = address(fuzzer, random);
        }
        repair::alarm(TIME);
        // SAFETY: User mode reaches its own data and devices alone, and cannot mask the timer.
        let end = unsafe { fuzzer.travel(&start) };
        judge(fuzzer, end);
        if !matches!(end.kind(), Kind::Synchronous(_)) {
            break;
        }
        start.x = end.x;
        let behind = end.pc().wrapping_add(width);
        start.pc = if (space::USER_CODE..end_of_code).contains(&behind) {
            behind & !(width - 1)
        } else {
            space::USER_CODE + random.below(LENGTH as u64) as u32 * 4
        };
    }
    repair::drain();
    fuzzer.touched = true;
}

fn judge(fuzzer: &mut Fuzzer<'_>, end: &End) {
    let known = match end.kind() {
        Kind::Synchronous(class) => {
            matches!(class, UNDEFINED | SVC_CLASS | FETCH_USER | DATA_USER)
        }
        _ => true,
    };
    if !end.was_user() || !known {
        fuzzer.wrong(format_args!("program: {end:?}"));
    }
}

fn address(fuzzer: &Fuzzer<'_>, random: &mut Random) -> u32 {
    match random.below(4) {
        0 => {
            let physical = places::not_memory(fuzzer.machine, random).physical;
            space::USER_DEVICES + (physical % space::USER_REACH) as u32
        }
        1 => space::USER_CODE + random.below(0x2000) as u32,
        2 => random.value() as u32,
        _ => space::USER_DATA + (random.below(4096) as u32 & !7),
    }
}

/// A word of A32, most of them unconditional.
fn word(random: &mut Random) -> u32 {
    const ALWAYS: u32 = 0xe << 28;
    let any = random.next() as u32;
    match random.below(18) {
        0..=2 => any,
        3 | 4 => any & !(0xf << 28) | ALWAYS,
        // MRC and MCR of the debug and system registers, of CP10 and CP11; MRRC and MCRR.
        5..=7 => 0xee00_0e10 | any & 0xff_f1ef,
        8 => 0xee00_0a10 | any & 0xff_f1ef,
        9 => 0xec40_0e00 | any & 0x1f_f1ff,
        // DBGDIDR, DBGDRAR, DBGDSAR: they exist at PL0.
        10 => random.pick(&[0xee10_0e10, 0xee11_0e10, 0xee12_0e10, 0xec51_0e00]),
        // HVC, SMC, WFI, WFE.
        11 => random.pick(&[0xe140_0070, 0xe160_0070, 0xe320_f003, 0xe320_f002]),
        12 | 13 => 0xe400_0000 | any & 0x3ff_ffff,
        14 => 0xe800_0000 | any & 0x7ff_ffff,
        // VFP and Advanced SIMD, with their loads and stores.
        15 => 0xf200_0000 | any & 0x1ff_ffff,
        16 => forms::pick_arm(random).instruction(&Operands::any(random)),
        _ => ARRIVE,
    }
}

/// MRRC to R15, which is UNPREDICTABLE, makes QEMU 10 stop (`gen_pc_plus_diff`): other registers
/// are chosen.
fn spare(word: u32) -> u32 {
    match word & 0x0fe0_0000 {
        0x0c40_0000 => word & !0xf_f000 | 0x1_2000,
        _ => word,
    }
}

/// The same exclusions in T32, at each halfword where an instruction may begin.
fn spare_thumb(word: u32) -> u32 {
    let half = |half: u32| {
        if half & 0xefe0 == 0xec40 {
            half ^ 0x0400
        } else {
            half
        }
    };
    half(word >> 16) << 16 | half(word & 0xffff)
}

/// Two halfwords of T32, or a long instruction.
fn word_thumb(random: &mut Random) -> u32 {
    let any = random.next() as u32;
    match random.below(6) {
        0 | 1 => any,
        2 => any & 0x07ff_ffff | 0xf800_0000,
        // MRC and MCR.
        3 => 0x0e10_ee00 | any & 0xf1ef_00ff,
        // An IT block with instructions that are allowed in one.
        4 => any & 0xffff_00ff | 0xbf00,
        // A load or store of 32 bits: its first halfword is in the lower half.
        _ => (any & 0xffff) << 16 | 0xf800 | any >> 16 & 0x1ff,
    }
}
