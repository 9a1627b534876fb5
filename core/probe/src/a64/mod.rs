//! A64.

mod decode;
pub(crate) mod words;

use crate::code::Code;
use crate::{Refused, Site};
use decode::Meaning;

/// The link register.
const LINK: u32 = 30;

/// Adds the words that have the effect of the instruction at the site.
pub(crate) fn emit(code: &mut Code, site: &Site<'_>) -> Result<(), Refused> {
    let at = site.address()?;
    let word = site.word()?;
    match decode::meaning(word, at, site.guarded)? {
        Meaning::Same => code.word(word),
        Meaning::Nothing => {}
        Meaning::Address { register, value } => words::constant(code, register, value),
        Meaning::Load { word, value } => {
            words::constant(code, word & 0x1f, value);
            code.word(word);
        }
        Meaning::Branch(target) => return jump(code, target),
        Meaning::Skip { word, target } => {
            code.word(word);
            jump(code, target)?;
        }
        Meaning::Call(target) => {
            words::constant(code, LINK, at.wrapping_add(4));
            return jump(code, target);
        }
        Meaning::CallRegister(word) => {
            words::constant(code, LINK, at.wrapping_add(4));
            code.word(word);
            return Ok(());
        }
    }
    let back = words::branch(code.here(), at.wrapping_add(4)).ok_or(Refused::OutOfReach)?;
    code.word(back);
    Ok(())
}

/// Adds a branch to a target of the guest's.
fn jump(code: &mut Code, target: u64) -> Result<(), Refused> {
    code.word(words::branch(code.here(), target).ok_or(Refused::TargetOutOfReach)?);
    Ok(())
}
