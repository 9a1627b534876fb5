//! What a trampoline does in place of an A32 instruction that was moved there.
//!
//! All but constants is relative to the PC, so that it is right wherever the image runs: before the
//! MMU is on, a kernel runs at its physical address.

use hanok_abi::trampoline::{branch, branch_target};
use hanok_decode::aarch32::{Register, UserMode};
use hanok_instructions::{Definition, Flow, decode_a32};

/// The condition "always".
const ALWAYS: u32 = 0xe000_0000;
/// The distance from an instruction's address to the PC that it reads (DDI 0406C A2.3).
const PIPELINE: u32 = 8;
const LR: u32 = 14;
const PC: u32 = 15;

/// What is done in place of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instead {
    /// A register gets this value: the instruction loads a literal.
    Constant { register: u32, value: u32 },
    /// Half of a register gets a value: this is MOVW or MOVT.
    Half(u32),
    /// LR gets the address behind the instruction, and `target` is called.
    Call { target: u32 },
    /// A branch to `target`.
    Jump { target: u32 },
    /// The instruction itself, which does not depend on its address.
    Same(u32),
}

/// The numbers with which [`Instead::words`] can make different words that do the same.
pub(super) const VARIANTS: u32 = 4;

impl Instead {
    /// What can be done in place of `word` at `at`; `None` if it has to stay there. `literal` is
    /// the value of an address of which it is certain that its content never changes.
    pub(super) fn of(word: u32, at: u32, literal: impl Fn(u32) -> Option<u32>) -> Option<Self> {
        if let Some((register, place)) = literal_load(word, at) {
            let value = literal(place)?;
            return Some(Self::Constant { register, value });
        }
        let found = decode_a32(word);
        match found.flow {
            Flow::Jump { .. } => branch_target(word, at).map(|target| Self::Jump { target }),
            Flow::Call { .. } if word >> 28 != 0xf => Some(Self::Call {
                target: found.target(at)?,
            }),
            Flow::Next if found.definition == Definition::Defined => {
                let effects = found.effects;
                let pc = effects.reads.with(effects.writes).contains(Register::PC);
                let stays = pc
                    || found.reference.is_some()
                    || found
                        .sensitive
                        .is_some_and(|found| found.user != UserMode::Legal);
                let half = word >> 28 != 0xf && matches!(word >> 20 & 0xff, 0x30 | 0x34);
                (!stays).then_some(if half {
                    Self::Half(word)
                } else {
                    Self::Same(word)
                })
            }
            _ => None,
        }
    }

    /// The words of a trampoline at `at` for the instruction at `site`; `None` where a branch does
    /// not reach. It is entered if the instruction's condition holds. The words of each `variant`
    /// below [`VARIANTS`] do the same.
    pub(super) fn words(self, variant: u32, site: u32, at: u32) -> Option<Vec<u32>> {
        let mut words = match self {
            Self::Constant { register, value } => constant(register, value, variant),
            Self::Half(word) => half(word, variant),
            Self::Call { .. } => link(site, at)?,
            Self::Jump { .. } => Vec::new(),
            Self::Same(word) => vec![word],
        };
        // NOPs keep the last word apart from what the branch back looks like.
        let pads = match self {
            Self::Same(_) => variant,
            _ => 0,
        };
        words.extend((0..pads).map(|_| NOP));
        let to = match self {
            Self::Call { target } | Self::Jump { target } => target,
            _ => site.wrapping_add(4),
        };
        let here = at.wrapping_add(4 * words.len() as u32);
        words.push(branch(ALWAYS, here, to)?);
        Some(words)
    }
}

/// MOV r0, r0, which is no hint: older CPUs have it, too.
const NOP: u32 = 0xe1a0_0000;

/// The register and the place of LDR of a literal to another register than the PC.
pub(super) fn literal_load(word: u32, at: u32) -> Option<(u32, u32)> {
    let register = word >> 12 & 0xf;
    if word & 0x0f7f_0000 != 0x051f_0000 || word >> 28 == 0xf || register == PC {
        return None;
    }
    let (base, distance) = (at.wrapping_add(PIPELINE), word & 0xfff);
    let place = if word & 1 << 23 != 0 {
        base.wrapping_add(distance)
    } else {
        base.wrapping_sub(distance)
    };
    Some((register, place))
}

/// MOVW or MOVT, without a condition's bits.
const fn movw(register: u32, half: u32) -> u32 {
    ALWAYS | 0x0300_0000 | (half & 0xf000) << 4 | register << 12 | half & 0xfff
}
const fn movt(register: u32, half: u32) -> u32 {
    movw(register, half) | 0x0040_0000
}

/// A bit of each half of a constant. Where MOVW or MOVT looks like another instruction, it gets the
/// value with this bit inverted, and EOR inverts the bit again.
const LOWER_BIT: u32 = 0x80;
const UPPER_BIT: u32 = LOWER_BIT << 16;

/// EOR of a register with [`LOWER_BIT`] or [`UPPER_BIT`] (a byte, rotated right by sixteen).
const fn invert(register: u32, upper: bool) -> u32 {
    let constant = if upper { 0x880 } else { 0x080 };
    ALWAYS | 0x0220_0000 | register << 16 | register << 12 | constant
}

fn constant(register: u32, value: u32, variant: u32) -> Vec<u32> {
    let (lower, upper) = (variant & 1 != 0, variant & 2 != 0);
    let first = value ^ if lower { LOWER_BIT } else { 0 } ^ if upper { UPPER_BIT } else { 0 };
    let mut words = vec![movw(register, first & 0xffff)];
    if first >> 16 != 0 {
        words.push(movt(register, first >> 16));
    }
    words.extend(lower.then(|| invert(register, false)));
    words.extend(upper.then(|| invert(register, true)));
    words
}

fn half(word: u32, variant: u32) -> Vec<u32> {
    let upper = word & 0x0040_0000 != 0;
    if variant == 0 {
        vec![word]
    } else {
        let inverted = word & 0x0fff_ffff ^ LOWER_BIT | ALWAYS;
        vec![inverted, invert(word >> 12 & 0xf, upper)]
    }
}

/// Instructions at `at` that give LR the address behind `site`: ADD or SUB for each eight bits of
/// the distance that are not zero.
fn link(site: u32, at: u32) -> Option<Vec<u32>> {
    let distance = site.wrapping_add(4).wrapping_sub(at.wrapping_add(PIPELINE));
    let (operation, size) = if (distance as i32) < 0 {
        (0x0240_0000, distance.wrapping_neg()) // SUB
    } else {
        (0x0280_0000, distance) // ADD
    };
    let mut words = Vec::new();
    let mut base = PC;
    for lowest in [2, 10, 18] {
        let byte = size >> lowest & 0xff;
        if byte != 0 || lowest == 18 && words.is_empty() {
            let rotated = ((32 - lowest) / 2) << 8;
            words.push(ALWAYS | operation | base << 16 | LR << 12 | rotated | byte);
            base = LR;
        }
    }
    (size >> 26 == 0).then_some(words)
}

#[cfg(test)]
mod tests;
