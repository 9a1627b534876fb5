//! How a guest that was interrupted in a trampoline goes on.

use super::{CODE, Field, MAX_WORDS, PAGE, Register, STR, branch_target, reach, t32};

/// How a guest goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumption {
    /// Where: at the site, as if the trampoline had not begun, or behind the site. Bit 0 is set if that is T32 code, as
    /// in a branch target.
    pub to: u32,
    /// The register that is to have the value of [`Field::SCRATCH`] then.
    pub restored: Option<Register>,
}

/// How a guest goes on that was interrupted at `pc` in a trampoline. `fetch` reads words of code pages. `None` if `pc`
/// is in no trampoline.
///
/// An SVC in a trampoline counts as an interruption at the instruction after it.
pub fn resume(pc: u32, fetch: impl Fn(u32) -> Option<u32>) -> Option<Resumption> {
    if !CODE.contains(&(pc & (PAGE - 1))) {
        return None;
    }
    let (mut begins, mut restored) = (false, None);
    for number in 0..MAX_WORDS as u32 {
        let at = (pc & !3).wrapping_add(4 * number);
        let word = fetch(at)?;
        if let Some(behind) = goes_back(word, at, &fetch) {
            // The load that restores a register stands between what commits and the last branch.
            let is_done = number == 0 || number == 1 && restored.is_some();
            return Some(Resumption {
                to: if is_done {
                    behind
                } else {
                    behind.wrapping_sub(4)
                },
                restored: restored.filter(|_| !begins),
            });
        }
        match transfer_of_scratch(word, at) {
            Some(TransferOfScratch::Spill) => begins = true,
            Some(TransferOfScratch::Restore(register)) => restored = Some(register),
            None => {}
        }
    }
    None
}

/// What a trampoline does with [`Field::SCRATCH`].
enum TransferOfScratch {
    /// It stores a register there.
    Spill,
    /// It loads this register from there.
    Restore(Register),
}

fn transfer_of_scratch(word: u32, at: u32) -> Option<TransferOfScratch> {
    const RT: u32 = 0xf << 12;
    const LOADS: u32 = 1 << 20;
    if word & !(RT | LOADS) != STR | reach(at, Field::SCRATCH)? {
        return None;
    }
    Some(if word & LOADS == 0 {
        TransferOfScratch::Spill
    } else {
        TransferOfScratch::Restore((word & RT) >> 12)
    })
}

/// The target of the last instruction of a trampoline; `None` if `word` at `at` is no such
/// instruction.
fn goes_back(word: u32, at: u32, fetch: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    if word >> 24 == 0xea {
        return branch_target(word, at);
    }
    t32::literal(word, at).and_then(fetch)
}
