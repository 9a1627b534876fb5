//! Fuzzes stage-1 tables: the upper half's tables hold random descriptors, lie anywhere and have
//! any geometry.

use super::trip::{EL1_MASKED, Kind, Start};
use super::{code, space};
use crate::fuzz::Fuzzer;
use crate::fuzz::places;
use crate::fuzz::random::Random;
use core::sync::atomic::Ordering::Relaxed;

/// Instructions that only read, from X1 to X0: loads, AT, cache maintenance.
const READS: [u32; 9] = [
    0xf940_0020, // ldr x0, [x1]
    0x3940_0020, // ldrb w0, [x1]
    0xa940_0820, // ldp x0, x2, [x1]
    0xc85f_7c20, // ldxr x0, [x1]
    0xd508_7801, // at s1e1r, x1
    0xd508_7821, // at s1e1w, x1
    0xd508_7841, // at s1e0r, x1
    0xd50b_7e21, // dc civac, x1
    0xd50b_7521, // ic ivau, x1
];
/// Makes accesses under one setting of the translation.
const LOOKS: u64 = 4;

/// Chooses another set of tables and makes a few accesses through them.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let choice: [u64; 8] = core::array::from_fn(|_| descriptor(fuzzer, random));
    for (index, word) in space::GARBAGE.0.iter().enumerate() {
        word.store(choice[index % 8], Relaxed);
    }
    let root = match random.below(4) {
        0 => places::not_memory(fuzzer.machine, random).physical,
        1 => random.next() | 1 << 47,
        _ => space::GARBAGE.address(),
    };
    let tcr = random.next();
    for _ in 0..LOOKS {
        look(fuzzer, random, root, tcr);
    }
}

/// Chooses a descriptor that leads to another table, a device or an unmapped address; most lead to
/// this very page, so that the walk goes on. None leads to memory that could be executed or
/// written.
fn descriptor(fuzzer: &Fuzzer<'_>, random: &mut Random) -> u64 {
    let address = match random.below(4) {
        0 => places::not_memory(fuzzer.machine, random).physical,
        1 => random.next() | 1 << 47,
        _ => space::GARBAGE.address(),
    };
    space::descriptor(address, random.next())
}

fn look(fuzzer: &mut Fuzzer<'_>, random: &mut Random, root: u64, tcr: u64) {
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next());
    // Most values of T1SZ leave fewer than 48 bits: the bits above are ones.
    let size = tcr >> 16 & 0x3f;
    let address = random.next() | u64::MAX.checked_shl(64 - size.max(16) as u32).unwrap_or(0);
    start.x[1] = address & !7;
    start.pstate = EL1_MASKED;
    let fetches = random.once_in(4);
    let stale = random.once_in(4).then(|| descriptor(fuzzer, random));
    start.pc = if fetches {
        address & !3
    } else {
        space::CODE.address()
    };
    code::put([random.pick(&READS)]);
    let end = space::with_upper(root, tcr, || {
        // SAFETY: the upper half is nobody's; all that is done there is reading, and what is fetched
        // is not to be run.
        let end = unsafe { fuzzer.travel(&start) };
        let Some(descriptor) = stale else {
            return end;
        };
        // Other tables without an invalidation: the TLB holds translations by the former tables, or
        // none.
        for word in &space::GARBAGE.0 {
            word.store(descriptor, Relaxed);
        }
        // SAFETY: as before.
        unsafe { fuzzer.travel(&start) }
    });
    let known = match end.kind() {
        // A misaligned PC is allowed only for an address that was cut; the other exceptions are as
        // the table says.
        Kind::Synchronous(0x21 | 0x22) => fetches,
        Kind::Synchronous(0x25) => !fetches,
        Kind::Synchronous(_) => end.arrived() && !fetches,
        _ => false,
    };
    let changed = |number: usize| start.x[number] != end.x[number];
    let others = (3..31).chain([1]).any(changed);
    if !known || others {
        let (kind, esr) = (end.kind(), end.esr);
        fuzzer.wrong(format_args!(
            "tables at {root:#x}, TCR {tcr:#x}, address {address:#x}: {kind:?}, ESR {esr:#x}, \
             another register changed: {others}"
        ));
    }
}
