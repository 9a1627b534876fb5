//! The answer of the decoder.

use hanok_decode::aarch32::{Isa, ItState};

/// A distance from an instruction's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relative {
    /// The distance in bytes; the pipeline's 8 or 4 are included (DDI 0406C, A2.3).
    pub offset: i32,
    /// Whether the instruction's address is first rounded down to a multiple of four.
    pub aligned: bool,
}

impl Relative {
    /// The place's address or offset, for an instruction at `from`. The sum wraps, as the PC does.
    pub const fn from(self, from: u32) -> u32 {
        let base = if self.aligned { from & !3 } else { from };
        base.wrapping_add_signed(self.offset)
    }
}

/// Bytes that an instruction loads relative to the PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Where they are.
    pub at: Relative,
    /// How many they are: 1, 2, 4 or 8.
    pub bytes: u8,
}

/// Where execution goes on. [`Step::conditional`] says whether it may also go on behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// Behind the instruction: also of SVC, HVC and SMC, which come back.
    Next,
    /// To a place in the same instruction set.
    Jump(Relative),
    /// To a place, and mostly back.
    Call(Relative, Isa),
    /// To a place that the instruction does not name, and mostly back.
    CallElsewhere,
    /// To a place that the instruction does not name: through a register, a word of memory or a
    /// table, or by an exception return.
    Elsewhere,
    /// Nowhere: UDF, BKPT, and what the architecture does not define.
    Nowhere,
}

/// One instruction, as the flow sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its length in bytes: 2 or 4.
    pub bytes: u32,
    /// Where execution goes on.
    pub goes: Goes,
    /// Whether it depends on a condition, so that execution may go on behind it in any case.
    pub conditional: bool,
    /// What it loads relative to the PC.
    pub loads: Option<Literal>,
    /// The IT block that it opens.
    pub opens: ItState,
}

/// What a group's decoder answers; length, condition and IT block are added by the callers.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub goes: Goes,
    pub loads: Option<Literal>,
}

impl Found {
    /// Goes on behind itself.
    pub const NEXT: Self = Self::to(Goes::Next);
    /// Goes to an unknown place.
    pub const ELSEWHERE: Self = Self::to(Goes::Elsewhere);
    /// Ends the flow.
    pub const NOWHERE: Self = Self::to(Goes::Nowhere);

    /// Goes there and loads nothing.
    pub const fn to(goes: Goes) -> Self {
        Self { goes, loads: None }
    }

    /// Goes on behind itself if the architecture defines it.
    pub const fn defined(defined: bool) -> Self {
        if defined { Self::NEXT } else { Self::NOWHERE }
    }

    /// Goes to an unknown place if `leaves`, else on behind itself.
    pub const fn leaving(leaves: bool) -> Self {
        if leaves { Self::ELSEWHERE } else { Self::NEXT }
    }

    /// Loads `bytes` bytes as well.
    pub const fn loading(self, bytes: u8, at: Relative) -> Self {
        Self {
            loads: Some(Literal { at, bytes }),
            ..self
        }
    }
}

/// Whether an instruction depends on a condition of its own, besides an IT block's: a conditional
/// branch, CBZ, CBNZ.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Own {
    None,
    Condition,
}

/// The distance in bytes from an A32 instruction to the PC that it reads (DDI 0406C, A2.3).
pub(super) const A32_PIPELINE: i32 = 8;

/// The distance in bytes from a T32 instruction to the PC that it reads.
pub(super) const T32_PIPELINE: i32 = 4;

/// `distance` added to or subtracted from a PC that is `pipeline` bytes ahead.
pub(super) const fn place(up: bool, distance: u32, pipeline: i32, aligned: bool) -> Relative {
    let distance = distance.cast_signed();
    let distance = if up { distance } else { -distance };
    Relative {
        offset: pipeline + distance,
        aligned,
    }
}

/// Whether bit `number` of `word` is set.
pub(super) const fn bit(word: u32, number: u32) -> bool {
    word >> number & 1 != 0
}

/// The number of the register in the four bits from `lowest` up.
pub(super) const fn register(word: u32, lowest: u32) -> u32 {
    word >> lowest & 0xf
}

/// The number of the PC.
pub(super) const PC: u32 = 15;
