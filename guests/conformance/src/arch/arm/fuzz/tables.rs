//! Fuzzes stage-1 tables: the upper half's tables hold random descriptors, lie anywhere and have
//! any geometry.

use super::space::{long, short};
use super::trip::{DATA, FETCH, Kind, MASKED, Start};
use super::{code, space};
use crate::fuzz::Fuzzer;
use crate::fuzz::places;
use crate::fuzz::random::Random;
use core::sync::atomic::Ordering::Relaxed;
use hanok_guest_runtime::arch::mmu;

/// Instructions that only read, from R1 to R0: loads, ATS1C*, cache maintenance.
const READS: [u32; 9] = [
    0xe591_0000, // ldr r0, [r1]
    0xe5d1_0000, // ldrb r0, [r1]
    0xe1c1_00d0, // ldrd r0, [r1] (to r0 and r1)
    0xe191_0f9f, // ldrex r0, [r1]
    0xee07_1f18, // ATS1CPR
    0xee07_1f38, // ATS1CPW
    0xee07_1f58, // ATS1CUR
    0xee07_1f3e, // DCCIMVAC
    0xee07_1f35, // ICIMVAU
];
/// Makes accesses under one setting of the translation.
const LOOKS: u64 = 4;
/// An address beyond everything that the VM has.
const FAR: u64 = 1 << 39;

/// Chooses another set of tables and makes a few accesses through them.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    scramble(fuzzer, random);
    let anywhere = random.below(4);
    let root = match (anywhere, mmu::is_short()) {
        (0, true) => places::not_memory(fuzzer.machine, random).physical & !0x3f,
        (_, true) => short::UPPER.address() | random.next() & 0x7f,
        (0, false) => places::not_memory(fuzzer.machine, random).physical & !0xfff,
        (1, false) => (random.next() | FAR) & 0xff_ffff_f000,
        _ => space::GARBAGE.address(),
    };
    let control = random.next();
    for _ in 0..LOOKS {
        look(fuzzer, random, root, control);
    }
}

/// Fills the tables of the upper half anew, without an invalidation.
fn scramble(fuzzer: &Fuzzer<'_>, random: &mut Random) {
    if mmu::is_short() {
        let addresses = core::array::from_fn(|_| match random.below(4) {
            0 => space::GARBAGE.address() as u32,
            _ => places::not_memory(fuzzer.machine, random).physical as u32,
        });
        return short::scramble(&addresses, &core::array::from_fn(|_| random.next() as u32));
    }
    let choice: [u64; 8] = core::array::from_fn(|_| descriptor(fuzzer, random));
    for (index, word) in space::GARBAGE.0.iter().enumerate() {
        word.store(choice[index % 8], Relaxed);
    }
}

/// Chooses a descriptor that leads to another table, a device or an unmapped address; most lead to
/// this very page, so that the walk goes on. None leads to memory that could be executed or
/// written.
fn descriptor(fuzzer: &Fuzzer<'_>, random: &mut Random) -> u64 {
    let address = match random.below(4) {
        0 => places::not_memory(fuzzer.machine, random).physical,
        1 => random.next() | FAR,
        _ => space::GARBAGE.address(),
    };
    long::descriptor(address, random.next())
}

fn look(fuzzer: &mut Fuzzer<'_>, random: &mut Random, root: u64, control: u64) {
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next() as u32);
    let address = random.next() as u32 | 1 << 31;
    start.x[1] = address & !7;
    start.pstate = MASKED;
    let fetches = random.once_in(4);
    let stale = random.once_in(4);
    start.pc = if fetches {
        address & !3
    } else {
        space::CODE.address() as u32
    };
    code::put([random.pick(&READS)]);
    let end = space::with_upper(root, control, || {
        // SAFETY: the upper half is nobody's; all that is done there is reading, and what is fetched
        // is not to be run.
        let end = unsafe { fuzzer.travel(&start) };
        if !stale {
            return end;
        }
        // Other tables without an invalidation: the TLB holds translations by the former tables, or
        // none.
        scramble(fuzzer, random);
        // SAFETY: as before.
        unsafe { fuzzer.travel(&start) }
    });
    let known = match end.kind() {
        Kind::Synchronous(FETCH) => fetches,
        Kind::Synchronous(DATA) => !fetches,
        Kind::Synchronous(_) => end.arrived() && !fetches,
        _ => false,
    };
    // LDRD loads R1 too.
    let changed = |number: usize| start.x[number] != end.x[number];
    let others = (2..15).any(changed);
    if !known || others {
        fuzzer.wrong(format_args!(
            "tables at {root:#x}, TTBCR {control:#x}, address {address:#x}: {end:?}, another \
             register changed: {others}"
        ));
    }
}
