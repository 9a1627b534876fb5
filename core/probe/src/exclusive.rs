//! Whether a site lies between a load exclusive and its store exclusive.
//!
//! A trampoline's own exclusive accesses, and an exception's return, clear the local monitor (DDI
//! 0487, Synchronization and semaphores; DDI 0406C A3.4). If they ran each time between the two accesses, the guest's store
//! would fail each time, and its loop would never end. The distance between the two is short,
//! because few instructions may stand there; so it suffices to look at the nearest ones.

use crate::InstructionSet;
use hanok_decode::{LoadStore, decode_load_store};

/// An exclusive access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExclusiveAccess {
    Load,
    Store,
}

impl ExclusiveAccess {
    const fn of(load: bool) -> Self {
        if load { Self::Load } else { Self::Store }
    }
}

/// Whether a site may lie between a load exclusive and its store exclusive: the nearest exclusive
/// access before it is a load, or the nearest one behind it is a store. `before` has the code right
/// before the site, `behind` that from the site on; 16 instructions of each are enough for what
/// compilers make. The code is taken as it stands in memory, and branches are not followed.
///
/// In T32 code each halfword before the site is tried as the start of an instruction. So the answer
/// may be yes for other code, too, but it is never no because of that.
pub fn may_be_between_exclusives(set: InstructionSet, before: &[u8], behind: &[u8]) -> bool {
    let step = match set {
        InstructionSet::T32 => 2,
        InstructionSet::A64 | InstructionSet::A32 => 4,
    };
    let odd = before.len() % step;
    let before = before.get(odd..).unwrap_or(&[]);
    let exclusive = |bytes| exclusive(set, bytes);
    let last = windows(before, step).rev().find_map(exclusive);
    let next = windows(behind, step).find_map(exclusive);
    last == Some(ExclusiveAccess::Load) || next == Some(ExclusiveAccess::Store)
}

/// Four bytes from each multiple of `step` on.
fn windows(code: &[u8], step: usize) -> impl DoubleEndedIterator<Item = [u8; 4]> {
    let places = code.len().saturating_sub(3).div_ceil(step);
    (0..places).filter_map(move |place| code.get(place * step..)?.first_chunk().copied())
}

/// The exclusive access that these bytes are.
fn exclusive(set: InstructionSet, bytes: [u8; 4]) -> Option<ExclusiveAccess> {
    let word = u32::from_le_bytes(bytes);
    match set {
        InstructionSet::A64 => exclusive_a64(word),
        InstructionSet::A32 => exclusive_a32(word),
        InstructionSet::T32 => exclusive_t32(word.rotate_left(16)),
    }
}

/// An A64 exclusive access; the unprivileged ones (FEAT_LSUI), too.
fn exclusive_a64(word: u32) -> Option<ExclusiveAccess> {
    if word & 0xbfa0_0000 == 0x8900_0000 {
        return Some(ExclusiveAccess::of(word & 1 << 22 != 0));
    }
    match decode_load_store(word)? {
        LoadStore::Exclusive(access) => Some(ExclusiveAccess::of(access.load)),
        _ => None,
    }
}

/// LDREX, STREX and their other widths; bit 9 is clear in LDA and STL, which are not exclusive (DDI
/// 0406C A5.2.10).
pub(crate) const fn exclusive_a32(word: u32) -> Option<ExclusiveAccess> {
    if word >> 28 != 0xf && word & 0x0f80_02f0 == 0x0180_0290 {
        Some(ExclusiveAccess::of(word & 1 << 20 != 0))
    } else {
        None
    }
}

/// The same in T32, the first halfword in the upper half (DDI 0406C A6.3.6).
pub(crate) const fn exclusive_t32(both: u32) -> Option<ExclusiveAccess> {
    let word = both & 0xffe0_0000 == 0xe840_0000;
    let other = both & 0xffe0_0000 == 0xe8c0_0000 && both & 0x40 != 0;
    if word || other {
        Some(ExclusiveAccess::of(both & 1 << 20 != 0))
    } else {
        None
    }
}
