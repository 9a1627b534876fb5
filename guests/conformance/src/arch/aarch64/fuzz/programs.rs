//! Random words that EL0 runs as a program: what EL0 may not do causes an exception, after which
//! the program continues with the next instruction; a timer ends the rest.

use super::forms;
use super::forms::Operands;
use super::trip::{EL0_32_OPEN, EL0_OPEN, End, Kind, SVC, Start, THUMB};
use super::{code, space};
use crate::fuzz::places;
use crate::fuzz::random::Random;
use crate::fuzz::{Fuzzer, repair};

/// The names of programs of 64 and of 32 bits, in failures.
pub const WORDS: [&str; 2] = ["programs", "programs32"];

/// Returns whether EL0 may run A32 and T32 (ID_AA64PFR0_EL1.EL0).
pub fn has_aarch32() -> bool {
    read_sysreg!("id_aa64pfr0_el1") & 0xf == 2
}

/// How many words a program has.
const LENGTH: usize = 96;
/// How often a program may continue after an exception.
const ROUNDS: usize = 16;
/// How many microseconds a program may run at a time.
const TIME: u64 = 15;

/// SVC of AArch32, with the immediate that ends a trip.
const SVC_32: u32 = 0xef00_0000 | super::trip::ARRIVED as u32;

/// Runs one program of 64 bits.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let words: [u32; LENGTH] = core::array::from_fn(|_| word(random));
    code::put(words);
    let start = Start {
        pstate: EL0_OPEN | random.next() & FLAGS,
        ..Start::NOWHERE
    };
    run(fuzzer, random, start, 4);
}

/// Runs one program of 32 bits, A32 or T32.
pub fn step_32(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    if !fuzzer.has_aarch32 {
        return step(fuzzer, random);
    }
    let thumb = random.once_in(3);
    let words: [u32; LENGTH] = core::array::from_fn(|_| {
        if thumb {
            spare_thumb(word_thumb(random))
        } else {
            spare(word_32(random))
        }
    });
    code::put(words);
    let mode = if thumb {
        EL0_32_OPEN | THUMB
    } else {
        EL0_32_OPEN
    };
    let start = Start {
        pstate: mode | random.next() & FLAGS,
        ..Start::NOWHERE
    };
    run(fuzzer, random, start, if thumb { 2 } else { 4 });
}

/// PSTATE.N, Z, C and V.
const FLAGS: u64 = 0xf << 28;

fn run(fuzzer: &mut Fuzzer<'_>, random: &mut Random, mut start: Start, width: u64) {
    let end_of_code = space::USER_CODE + LENGTH as u64 * 4;
    repair::wakeable();
    start.pc = space::USER_CODE;
    start.x.iter_mut().for_each(|x| *x = random.next());
    for _ in 0..ROUNDS {
        for number in [0, 1, 2, 5, 8, 13] {
            start.x[number] = address(fuzzer, random);
        }
        start.sp = space::USER_DATA + random.below(4096);
        repair::alarm(TIME);
        // SAFETY: EL0 reaches its own data and devices alone, and cannot mask the timer.
        let end = unsafe { fuzzer.travel(&start) };
        judge(fuzzer, end);
        if !matches!(end.kind(), Kind::Synchronous(_)) {
            break;
        }
        start.x = end.x;
        let behind = end.pc.wrapping_add(width);
        start.pc = if (space::USER_CODE..end_of_code).contains(&behind) {
            behind
        } else {
            space::USER_CODE + random.below(LENGTH as u64) * 4
        };
    }
    repair::drain();
    fuzzer.touched = true;
}

fn judge(fuzzer: &mut Fuzzer<'_>, end: &End) {
    let from_el0 = end.vector >= 8 && end.pstate & 0xf == 0;
    let known = match end.kind() {
        Kind::Synchronous(class) => matches!(
            class,
            0x00 | 0x01 | 0x03..=0x08 | 0x0a | 0x0c..=0x0e | 0x11 | 0x15 | 0x18 | 0x19 | 0x1c | 0x1d
                | 0x20 | 0x22 | 0x24 | 0x26..=0x28 | 0x2c | 0x38 | 0x3c
        ),
        _ => true,
    };
    if !from_el0 || !known {
        let (kind, esr, pc) = (end.kind(), end.esr, end.pc);
        let (vector, pstate) = (end.vector, end.pstate);
        fuzzer.wrong(format_args!(
            "program: {kind:?} by vector {vector}, ESR {esr:#x}, ELR {pc:#x}, SPSR {pstate:#x}"
        ));
    }
}

fn address(fuzzer: &Fuzzer<'_>, random: &mut Random) -> u64 {
    match random.below(4) {
        0 => space::USER_DEVICES + places::not_memory(fuzzer.machine, random).physical % (1 << 30),
        1 => space::USER_CODE + random.below(0x2000),
        2 => random.value(),
        _ => space::USER_DATA + (random.below(4096) & !7),
    }
}

/// A random word of A64: any word, or one of a class that reaches the hypervisor more often.
fn word(random: &mut Random) -> u32 {
    let any = random.next() as u32;
    match random.below(16) {
        0..=3 => any,
        4..=6 => {
            let operands = Operands::any(random);
            forms::pick(random).instruction(&operands)
        }
        // Loads and stores of every kind (C4.1.94 of DDI 0487: op0 x1x0).
        7 | 8 => any & !(1 << 25) | 1 << 27,
        // System registers of any level, and those of EL0.
        9 => 0xd500_0000 | any & 0x3f_ffff,
        10 if any & 1 == 0 => random.pick(&TRAPPED),
        10 => 0xd51b_0000 | any & 0x20_ffff,
        11 => 0xd400_0000 | any & 0xff_ffff,
        12 => 0xd503_201f | any & 0xfe0,
        // SIMD and FP, and branches that stay near.
        13 => 0x0e00_0000 | any & 0xf1ff_ffff,
        14 => 0x5400_0000 | any & 0x3ef,
        _ => SVC,
    }
}

/// DAIF, and the timers of which EL1 gives EL0 the counters alone.
const TRAPPED: [u32; 4] = [
    0xd53b_4220, // mrs x0, daif
    0xd51b_4220, // msr daif, x0
    0xd53b_e220, // mrs x0, cntp_ctl_el0
    0xd51b_e340, // msr cntv_cval_el0, x0
];

/// A word of A32, most of them unconditional.
fn word_32(random: &mut Random) -> u32 {
    const ALWAYS: u32 = 0xe << 28;
    let any = random.next() as u32;
    match random.below(16) {
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
        _ => SVC_32,
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
    match random.below(4) {
        0 | 1 => any,
        2 => any & 0x07ff_ffff | 0xf800_0000,
        // MRC and MCR.
        _ => 0x0e10_ee00 | any & 0xf1ef_00ff,
    }
}
