//! The words of a slot in A32.

use super::words::{a32_add, a32_branch, a32_constant, a32_jump};
use super::{ALWAYS, LR, Meaning, a32};
use crate::Refused;
use crate::code::Code;
use hanok_decode::aarch32::Encoding;

/// Adds the words that have the effect of the instruction `word` at the address `at`.
pub(crate) fn emit_a32(code: &mut Code, word: u32, at: u32) -> Result<(), Refused> {
    let condition = (word >> 28).min(ALWAYS);
    let behind = at.wrapping_add(4);
    match a32::decode(word, at)? {
        Meaning::Same => code.word(word),
        Meaning::Nothing => {}
        Meaning::With {
            register,
            value,
            then,
        } => {
            a32_constant(code, condition, register, value);
            code.word(Encoding::bits(then));
        }
        Meaning::Constant { register, value } => a32_constant(code, condition, register, value),
        Meaning::Add { register, value } => a32_add(code, condition, register, value),
        Meaning::Jump { condition, target } => return jump(code, condition, target, behind),
        Meaning::Call(target) => {
            a32_constant(code, condition, LR, behind);
            return jump(code, condition, target, behind);
        }
        Meaning::CallRegister(register) => {
            a32_constant(code, condition, LR, behind);
            code.word(condition << 28 | 0x012f_ff10 | register); // bx
        }
        Meaning::Test { .. } => return Err(Refused::Unknown),
    }
    back(code, behind)
}

/// Adds the branch behind the site.
fn back(code: &mut Code, behind: u32) -> Result<(), Refused> {
    code.word(a32_branch(code.here() as u32, behind).ok_or(Refused::OutOfReach)?);
    Ok(())
}

/// Adds a branch of the guest's, which has its condition, and the branch behind the site.
fn jump(code: &mut Code, condition: u32, target: u32, behind: u32) -> Result<(), Refused> {
    if condition == ALWAYS {
        a32_jump(code, target);
        return Ok(());
    }
    let near = a32_branch(code.here() as u32, target);
    if let Some(word) = near {
        code.word(word & 0x0fff_ffff | condition << 28);
        return back(code, behind);
    }
    code.word(condition << 28 | 0x059f_f000); // ldr pc, [pc]
    back(code, behind)?;
    code.word(target);
    Ok(())
}
