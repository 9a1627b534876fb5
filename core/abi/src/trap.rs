//! Traps: a sensitive instruction is rewritten to an SVC that holds the instruction.
//!
//! Without virtualization hardware a guest's kernel runs in User mode, and its sensitive
//! instructions are rewritten before they run. SVC always traps, keeps its condition, and has room
//! for 24 bits; in T32 it has eight, and the halfword after the SVC holds sixteen more. So the
//! instruction itself is stored there, without the bits that are the same in all instructions of
//! its kind, and the hypervisor restores it ([`original_a32`], [`original_wide`],
//! [`original_narrow`]). No table is needed, so that modules can be rewritten alone. An instruction
//! that does not fit (a block transfer with another base than SP, a large offset) is stored in a
//! table of words instead ([`Original::Index`]); only an image can have such a table.
//!
//! A format is data ([`Format`]): the bits that tell the kind, and the bits that are kept. Packing
//! and unpacking are one walk over the same list, so that one reverses the other.
//!
//! The numbers are chosen so that Linux's own SVCs are none of these: 0 for EABI, 0x900000 and from
//! 0x9f0000 on for OABI (which only programs use, and whose leading 9 is the index's). An SVC by a
//! guest's program is for the guest's kernel, whatever its number.
//!
//! In an IT block, the halfword after an SVC would execute if the condition fails. There UDF.W is
//! used instead, which has sixteen bits ([`trap_conditional`]). A CPU may raise its exception even
//! if the condition fails (DDI 0406C A2.5.3), so the handler must check ITSTATE.

/// The instruction that an SVC stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Original {
    /// This instruction: a word of A32, or two halfwords of T32, the first one in the upper half.
    Word(u32),
    /// The instruction with this number in the table that came with the image.
    Index(u32),
}

/// A kind of instructions: how it is recognised, and which bits of it are kept.
struct Format {
    /// The bits that tell the kind.
    mask: u32,
    /// The values of these bits.
    value: u32,
    /// The upper bits of the number; all bits below them are kept bits.
    prefix: u32,
    /// The kept bits: the lowest bit and the length of each field, from the highest field of the
    /// number down.
    fields: &'static [(u8, u8)],
}

const fn format(mask: u32, value: u32, prefix: u32, fields: &'static [(u8, u8)]) -> Format {
    Format {
        mask,
        value,
        prefix,
        fields,
    }
}

/// A mask of the lowest `len` bits.
const fn low(len: u8) -> u32 {
    (1 << len) - 1
}

impl Format {
    /// The number of kept bits.
    fn bits(&self) -> u8 {
        self.fields.iter().map(|(_, len)| len).sum()
    }

    fn pack(&self, word: u32) -> u32 {
        self.fields.iter().fold(0, |number, (at, len)| {
            number << len | word >> at & low(*len)
        }) | self.prefix
    }

    fn unpack(&self, number: u32) -> u32 {
        let kept = self
            .fields
            .iter()
            .rev()
            .fold((0, number), |(word, rest), (at, len)| {
                (word | (rest & low(*len)) << at, rest >> len)
            });
        self.value | kept.0
    }
}

/// The number for `word`, if one of the formats fits.
fn pack(formats: &[Format], word: u32) -> Option<u32> {
    let found = formats
        .iter()
        .find(|format| word & format.mask == format.value)?;
    Some(found.pack(word))
}

/// The word that `number` stands for.
fn unpack(formats: &[Format], number: u32) -> Option<u32> {
    let found = formats
        .iter()
        .find(|format| number >> format.bits() == format.prefix >> format.bits())?;
    Some(found.unpack(number))
}

/// Conditional A32 words. The SVC keeps their condition as its own.
#[rustfmt::skip] // one a line
const A32: [Format; 23] = [
    // MRC and MCR of CP14 and CP15.
    format(0x0f00_0e10, 0x0e00_0e10, 0xa0_0000, &[(20, 4), (16, 4), (12, 4), (8, 1), (5, 3), (0, 4)]),
    // LDRT, LDRBT, STRT, STRBT with a constant below 512.
    format(0x0f20_0e00, 0x0420_0000, 0xb0_0000, &[(22, 2), (20, 1), (16, 4), (12, 4), (0, 9)]),
    // LDRHT, LDRSBT, LDRSHT and STRHT with a constant.
    format(0x0f60_0090, 0x0060_0090, 0xc0_0000, &[(23, 1), (20, 1), (16, 4), (12, 4), (8, 4), (5, 2), (0, 4)]),
    // LDM and STM with a caret, with SP as base.
    format(0x0e4f_0000, 0x084d_0000, 0xd0_0000, &[(23, 2), (20, 2), (0, 16)]),
    // MRRC and MCRR of CP14 and CP15.
    format(0x0fe0_0e00, 0x0c40_0e00, 0xe0_0000, &[(20, 1), (16, 4), (12, 4), (8, 1), (4, 4), (0, 4)]),
    // WFI and other hints.
    format(0x0fff_fff8, 0x0320_f000, 0xf0_a000, &[(0, 3)]),
    // MSR of a constant.
    format(0x0fb0_f000, 0x0320_f000, 0xe4_0000, &[(22, 1), (16, 4), (0, 12)]),
    // LDRT, LDRBT, STRT, STRBT with a register.
    format(0x0f20_0ff0, 0x0620_0000, 0xe6_0000, &[(22, 2), (20, 1), (16, 4), (12, 4), (0, 4)]),
    // LDRHT, LDRSBT, LDRSHT and STRHT with a register.
    format(0x0f60_0f90, 0x0020_0090, 0xe7_0000, &[(23, 1), (20, 1), (16, 4), (12, 4), (5, 2), (0, 4)]),
    // Data processing to the PC with a constant below 256.
    format(0x0e10_ff00, 0x0210_f000, 0xe8_0000, &[(21, 4), (16, 4), (0, 8)]),
    // HVC.
    format(0x0ff0_00f0, 0x0140_0070, 0xe9_0000, &[(8, 12), (0, 4)]),
    // Data processing to the PC with an unshifted register.
    format(0x0e10_fff0, 0x0010_f000, 0xf0_0000, &[(21, 4), (16, 4), (0, 4)]),
    // MSR of a register.
    format(0x0fb0_fff0, 0x0120_f000, 0xf0_1000, &[(22, 1), (16, 4), (0, 4)]),
    // MRS.
    format(0x0fbf_0fff, 0x010f_0000, 0xf0_2000, &[(22, 1), (12, 4)]),
    // MRS and MSR of a register of another mode.
    format(0x0fb0_0eff, 0x0100_0200, 0xf0_3000, &[(22, 1), (16, 4), (12, 4), (8, 1)]),
    format(0x0fb0_fef0, 0x0120_f200, 0xf0_4000, &[(22, 1), (16, 4), (8, 1), (0, 4)]),
    // SMC.
    format(0x0fff_fff0, 0x0160_0070, 0xf0_8000, &[(0, 4)]),
    // ERET.
    format(0x0fff_ffff, 0x0160_006e, 0xf0_9000, &[]),
    // VMRS and VMSR.
    format(0x0fe0_0fff, 0x0ee0_0a10, 0xf0_b000, &[(20, 1), (16, 4), (12, 4)]),
    // LDM and STM of SP and LR of User mode.
    format(0x0e60_ffff, 0x0840_6000, 0xf0_c000, &[(23, 2), (20, 1), (16, 4)]),
    // LDM with a caret of only the PC.
    format(0x0e50_ffff, 0x0850_8000, 0xf0_d000, &[(23, 2), (21, 1), (16, 4)]),
    // LDMDB of registers of User mode, with any base.
    format(0x0ff0_8000, 0x0950_0000, 0xf8_0000, &[(16, 4), (0, 15)]),
    // The numbers of the table; no word has this format.
    format(0, u32::MAX, INDEX, &[(0, 20)]),
];

/// A32 words without a condition.
#[rustfmt::skip] // one a line
const UNCONDITIONAL: [Format; 3] = [
    // CPS.
    format(0xfff1_fe20, 0xf100_0000, 0xf0_5000, &[(17, 3), (6, 3), (0, 5)]),
    // RFE.
    format(0xfe50_ffff, 0xf810_0a00, 0xf0_6000, &[(23, 2), (21, 1), (16, 4)]),
    // SRS.
    format(0xfe5f_ffe0, 0xf84d_0500, 0xf0_7000, &[(23, 2), (21, 1), (0, 5)]),
];

/// T32 instructions of two halfwords.
#[rustfmt::skip] // one a line
const WIDE: [Format; 14] = [
    format(0xff00_0e10, 0xee00_0e10, 0xa0_0000, &[(20, 4), (16, 4), (12, 4), (8, 1), (5, 3), (0, 4)]),
    format(0xfe80_0f00, 0xf800_0e00, 0xb0_0000, &[(24, 1), (20, 3), (16, 4), (12, 4), (0, 8)]),
    format(0xffe0_0e00, 0xec40_0e00, 0xe0_0000, &[(20, 1), (16, 4), (12, 4), (8, 1), (4, 4), (0, 4)]),
    format(0xfff0_f000, 0xf7e0_8000, 0xe9_0000, &[(16, 4), (0, 12)]),
    // SUBS PC, LR.
    format(0xffff_ff00, 0xf3de_8f00, 0xf0_0000, &[(0, 8)]),
    format(0xffe0_f0ff, 0xf380_8000, 0xf0_1000, &[(20, 1), (16, 4), (8, 4)]),
    format(0xffef_f0ff, 0xf3ef_8000, 0xf0_2000, &[(20, 1), (8, 4)]),
    format(0xffe0_f0ef, 0xf3e0_8020, 0xf0_3000, &[(20, 1), (16, 4), (8, 4), (4, 1)]),
    format(0xffe0_f0ef, 0xf380_8020, 0xf0_4000, &[(20, 1), (16, 4), (8, 4), (4, 1)]),
    // CPS.W, and hints.
    format(0xffff_f800, 0xf3af_8000, 0xf0_5000, &[(8, 3), (5, 3), (0, 5)]),
    format(0xfe50_ffff, 0xe810_c000, 0xf0_6000, &[(23, 2), (21, 1), (16, 4)]),
    format(0xfe5f_ffe0, 0xe80d_c000, 0xf0_7000, &[(23, 2), (21, 1), (0, 5)]),
    format(0xfff0_ffff, 0xf7f0_8000, 0xf0_8000, &[(16, 4)]),
    format(0xffe0_0fff, 0xeee0_0a10, 0xf0_b000, &[(20, 1), (16, 4), (12, 4)]),
];

/// T32 instructions of one halfword; the numbers have eight bits.
#[rustfmt::skip] // one a line
const NARROW: [Format; 2] = [
    // CPS.
    format(0xffe8, 0xb660, 0x40, &[(4, 1), (0, 3)]),
    // WFI and other hints.
    format(0xff8f, 0xbf00, 0x50, &[(4, 3)]),
];

/// T32 instructions of two halfwords in an IT block; the numbers have sixteen bits.
#[rustfmt::skip] // one a line
const CONDITIONAL: [Format; 5] = [
    // LDRT and the other unprivileged forms without an offset.
    format(0xfe80_0fff, 0xf800_0e00, 0x1000, &[(24, 1), (20, 3), (16, 4), (12, 4)]),
    format(0xffe0_f0ff, 0xf380_8000, 0x2000, &[(20, 1), (16, 4), (8, 4)]),
    format(0xffef_f0ff, 0xf3ef_8000, 0x3000, &[(20, 1), (8, 4)]),
    format(0xffff_ff00, 0xf3de_8f00, 0x4000, &[(0, 8)]),
    format(0xffff_fff8, 0xf3af_8000, 0x5000, &[(0, 3)]),
];

/// SVC of A32 without a condition.
const SVC_A32: u32 = 0xef00_0000;
/// SVC of T32.
const SVC_T32: u32 = 0xdf00;
/// UDF.W.
const UDF_WIDE: u32 = 0xf7f0_a000;
/// The number of the table's first entry.
const INDEX: u32 = 0x90_0000;
/// The largest number of entries of a table.
pub const MAX_INDEX: u32 = 1 << 20;

/// The SVC for the A32 instruction `word`; `None` if an SVC cannot hold it.
pub fn trap_a32(word: u32) -> Option<u32> {
    if word >> 28 == 0xf {
        return pack(&UNCONDITIONAL, word).map(|number| SVC_A32 | number);
    }
    let condition = word & 0xf000_0000;
    pack(&A32, word).map(|number| SVC_A32 & !0xf000_0000 | condition | number)
}

/// The SVC for the A32 instruction `word`, which is number `index` of the table; `None` if the
/// table cannot have that many.
pub fn trap_by_index(word: u32, index: u32) -> Option<u32> {
    let condition = if word >> 28 == 0xf {
        0xe000_0000
    } else {
        word & 0xf000_0000
    };
    (index < MAX_INDEX).then_some(condition | SVC_A32 & !0xf000_0000 | INDEX | index)
}

/// The instruction that the A32 instruction `svc` stands for; `None` if it is no such SVC.
pub fn original_a32(svc: u32) -> Option<Original> {
    let (condition, number) = (svc & 0xf000_0000, svc & 0x00ff_ffff);
    if svc & 0x0f00_0000 != 0x0f00_0000 || condition == 0xf000_0000 {
        return None;
    }
    if number & 0xf0_0000 == INDEX {
        return Some(Original::Index(number & low(20)));
    }
    if condition == 0xe000_0000
        && let Some(word) = unpack(&UNCONDITIONAL, number)
    {
        return Some(Original::Word(word));
    }
    unpack(&A32, number).map(|word| Original::Word(word | condition))
}

/// SVC and the halfword after it for the T32 instruction `word` outside an IT block. The SVC is in
/// the upper half.
pub fn trap_wide(word: u32) -> Option<u32> {
    let number = pack(&WIDE, word)?;
    Some((SVC_T32 | number >> 16) << 16 | number & 0xffff)
}

/// The instruction that an SVC of T32 and the halfword after it stand for; the SVC is in the upper
/// half.
pub fn original_wide(both: u32) -> Option<u32> {
    let (svc, rest) = (both >> 16, both & 0xffff);
    (svc & 0xff80 == SVC_T32 | 0x80)
        .then(|| unpack(&WIDE, (svc & 0xff) << 16 | rest))
        .flatten()
}

/// The SVC for the T32 instruction `half`.
pub fn trap_narrow(half: u16) -> Option<u16> {
    pack(&NARROW, u32::from(half)).map(|number| (SVC_T32 | number) as u16)
}

/// The instruction that an SVC of T32 stands for, if that has one halfword.
pub fn original_narrow(svc: u16) -> Option<u16> {
    let svc = u32::from(svc);
    let number = (svc & 0xff00 == SVC_T32).then_some(svc & 0xff)?;
    unpack(&NARROW, number).map(|half| half as u16)
}

/// UDF.W for the T32 instruction `word` in an IT block.
pub fn trap_conditional(word: u32) -> Option<u32> {
    pack(&CONDITIONAL, word).map(|number| UDF_WIDE | number >> 12 << 16 | number & 0xfff)
}

/// The instruction that a UDF.W stands for.
pub fn original_conditional(udf: u32) -> Option<u32> {
    let number = udf >> 4 & 0xf000 | udf & 0xfff;
    (udf & 0xfff0_f000 == UDF_WIDE)
        .then(|| unpack(&CONDITIONAL, number))
        .flatten()
}

#[cfg(test)]
mod tests;
