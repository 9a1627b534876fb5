//! Where a kernel's memory ends.

use super::tables::Init;
use crate::flow::memory::Memory;
use crate::kallsyms::Symbol;

/// The largest distance from the end of a raw image to the start of `.bss`, in bytes: its
/// alignment.
const ALIGNMENT: u32 = 0x1_0000;
/// The largest size of `.bss` in bytes.
const MAX_BSS: u32 = 64 << 20;
/// The largest distance between the code that clears `.bss` and its table, in bytes.
const CLEARS: u32 = 512;

/// Finds the end of Linux's `.bss` (`_end`) in a raw image: by kallsyms, where it has the names of
/// data; else by the table of `__mmap_switched`, which clears `.bss`
/// (arch/arm/kernel/head-common.S).
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
