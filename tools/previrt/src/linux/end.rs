//! Where a kernel's memory ends.

use super::tables::Init;
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;

/// From where a raw image ends to where `.bss` begins are at most so many bytes: its alignment.
const ALIGNMENT: u32 = 0x1_0000;
/// `.bss` is not larger.
const MAX_BSS: u32 = 64 << 20;
/// The code that clears `.bss` and its table are not longer.
const CLEARS: u32 = 512;

/// Where Linux's `.bss` ends, of a raw image: `_end`, where kallsyms has data's names; else
/// from the table of `__mmap_switched`, which clears it (arch/arm/kernel/head-common.S).
pub(crate) fn find(memory: Memory<'_>, symbols: &[Symbol], init: Option<&Init>) -> Option<u32> {
    let named = |name: &str| symbols.iter().find(|symbol| symbol.name == name);
    let file = memory.address(memory.bytes.len());
    if let Some(end) = named("_end").filter(|end| end.address >= file) {
        return Some(end.address);
    }
    let switched = named("__mmap_switched").map(|code| code.address);
    let code = switched.or_else(|| init?.switched)? & !3;
    let begins = file..file.checked_add(ALIGNMENT)?;
    let mut words = (code..code.checked_add(CLEARS)?).step_by(4);
    words.find_map(|at| {
        let (from, to) = (memory.word(at)?, memory.word(at.wrapping_add(4))?);
        let size = to.checked_sub(from)?;
        (begins.contains(&from) && (1..MAX_BSS).contains(&size)).then_some(to)
    })
}
