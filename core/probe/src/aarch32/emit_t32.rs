//! The words of a slot in T32.
//!
//! A conditional branch of the guest's becomes the inverse branch over one that is always taken.

use super::words::{t32_add, t32_branch, t32_constant, t32_jump};
use super::{ALWAYS, LR, Meaning, THUMB, t32};
use crate::code::Code;
use crate::relocate::Displaced;
use crate::{ItBlock, Refused, Site};
use core::ops::Range;
use hanok_decode::aarch32::Encoding;

/// Adds the words that have the effect of the instruction at the site, and of the next one if the
/// first has only two bytes.
pub(crate) fn emit_t32(code: &mut Code, site: &Site<'_>) -> Result<Displaced, Refused> {
    match site.block {
        ItBlock::Outside => {}
        ItBlock::Inside => return Err(Refused::InItBlock),
        ItBlock::Unknown => return Err(Refused::ItBlockUnknown),
    }
    let at = site.address()? as u32;
    let first = site.t32(0)?;
    let mut displaced = Displaced::ONE;
    let second = match first {
        Encoding::Narrow(_) => Some(second(site, first, at)?),
        _ => None,
    };
    let mut bytes = first.bytes();
    if let Some(second) = second {
        bytes += second.bytes();
    }
    let behind = at.wrapping_add(bytes);
    let whole = at..behind;
    one(code, first, at, &whole)?;
    if let Some(second) = second {
        displaced.second = Some(code.here());
        one(code, second, at.wrapping_add(2), &whole)?;
    }
    displaced.bytes = bytes.into();
    code.wide(t32_branch(code.here() as u32, behind).ok_or(Refused::OutOfReach)?);
    Ok(displaced)
}

/// The second instruction, if it may be displaced. A call as the first one would return to it.
fn second(site: &Site<'_>, first: Encoding, at: u32) -> Result<Encoding, Refused> {
    let meaning = t32::decode(first, at)?;
    if !site.joined {
        return Err(Refused::TooShort);
    }
    match meaning {
        Meaning::CallRegister(_) => Err(Refused::IntoSite),
        _ => site.t32(2),
    }
}

/// Adds one instruction, whose own address is `at`. `whole` is all that is displaced.
fn one(code: &mut Code, encoding: Encoding, at: u32, whole: &Range<u32>) -> Result<(), Refused> {
    let next = at.wrapping_add(encoding.bytes()) | THUMB;
    let meaning = t32::decode(encoding, at)?;
    match meaning {
        Meaning::Same => push(code, encoding),
        Meaning::Nothing => {}
        Meaning::With {
            register,
            value,
            then,
        } => {
            t32_constant(code, register, value);
            push(code, then);
        }
        Meaning::Constant { register, value } => t32_constant(code, register, value),
        Meaning::Add { register, value } => t32_add(code, register, value),
        Meaning::Jump { condition, target } => {
            let over = |half: u16| (half | ((condition as u16) ^ 1) << 8, false);
            let test = (condition != ALWAYS).then(|| over(0xd000));
            jump(code, test, outside(target, whole)?);
        }
        Meaning::Test { inverse, target } => {
            jump(code, Some((inverse, true)), outside(target, whole)?);
        }
        Meaning::Call(target) => {
            t32_constant(code, LR, next);
            jump(code, None, outside(target, whole)?);
        }
        Meaning::CallRegister(register) => {
            t32_constant(code, LR, next);
            code.half(0x4700 | (register as u16) << 3); // bx
        }
    }
    Ok(())
}

/// The target of a branch, unless that is in the midst of what is displaced. The first
/// instruction's own address is fine, because the branch to the slot is there.
fn outside(target: u32, whole: &Range<u32>) -> Result<u32, Refused> {
    let distance = (target & !THUMB).wrapping_sub(whole.start);
    let length = whole.end.wrapping_sub(whole.start);
    if distance != 0 && distance < length {
        Err(Refused::IntoSite)
    } else {
        Ok(target)
    }
}

fn push(code: &mut Code, encoding: Encoding) {
    match encoding {
        Encoding::Narrow(half) => code.half(half),
        Encoding::Wide(both) | Encoding::A32(both) => code.wide(both),
    }
}

/// Adds a branch that is taken unless the narrow branch in `test` skips it. That is CBZ or CBNZ, or
/// else B with a condition, and has no offset yet.
fn jump(code: &mut Code, test: Option<(u16, bool)>, target: u32) {
    let from = code.size();
    if test.is_some() {
        code.half(0);
    }
    t32_jump(code, target);
    if let Some((half, compares)) = test {
        // The PC is two halfwords ahead.
        let halves = (code.size() - from) as u16 / 2 - 2;
        let offset = if compares { halves << 3 } else { halves };
        code.replace(from, (half | offset).to_le_bytes());
    }
}
