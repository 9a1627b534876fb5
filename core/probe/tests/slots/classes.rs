//! One instruction of each class that stays as it is, as an assembler makes them, and neighbours
//! of theirs that are none.

use crate::{relocated_a64, relocated_arm};
use hanok_probe::{InstructionSet, Refused, relocate};
use hanok_types::Gva;

/// A64.
const STAY: &[(u32, &str)] = &[
    (0xb100_1020, "adds x0, x1, #4"),
    (0x1200_1c20, "and w0, w1, #0xff"),
    (0xb210_3c20, "orr x0, x1, #0xffff0000ffff0000"),
    (0x5280_00e1, "mov w1, #7"),
    (0xf2e0_00e1, "movk x1, #7, lsl #48"),
    (0x5303_1820, "ubfx w0, w1, #3, #4"),
    (0x937d_9c20, "sbfiz x0, x1, #3, #40"),
    (0x93c2_fc20, "extr x0, x1, x2, #63"),
    (0x1382_7c20, "extr w0, w1, w2, #31"),
    (0x0a02_7c20, "and w0, w1, w2, lsl #31"),
    (0xaae2_fc20, "orn x0, x1, x2, ror #63"),
    (0x8b02_a020, "add x0, x1, x2, lsl #40"),
    (0x4b82_7c20, "sub w0, w1, w2, asr #31"),
    (0x8b22_53e0, "add x0, sp, w2, uxtw #4"),
    (0x9a02_0020, "adc x0, x1, x2"),
    (0xba01_8424, "rmif x1, #3, #4"),
    (0x3a00_082d, "setf8 w1"),
    (0xfa41_1003, "ccmp x0, x1, #3, ne"),
    (0x3a43_0803, "ccmn w0, #3, #3, eq"),
    (0x9a82_0020, "csel x0, x1, x2, eq"),
    (0x5a82_a420, "csneg w0, w1, w2, ge"),
    (0x1ac2_0820, "udiv w0, w1, w2"),
    (0x9ac2_0c20, "sdiv x0, x1, x2"),
    (0x9ac2_2020, "lsl x0, x1, x2"),
    (0x1ac2_2c20, "ror w0, w1, w2"),
    (0x1ac2_4020, "crc32b w0, w1, w2"),
    (0x1ac2_4820, "crc32w w0, w1, w2"),
    (0x9ac2_4c20, "crc32x w0, w1, x2"),
    (0x1ac2_5020, "crc32cb w0, w1, w2"),
    (0x1ac2_5820, "crc32cw w0, w1, w2"),
    (0x9ac2_5c20, "crc32cx w0, w1, x2"),
    (0x9ac2_3020, "pacga x0, x1, x2"),
    (0x5ac0_0020, "rbit w0, w1"),
    (0xdac0_0c20, "rev x0, x1"),
    (0xdac0_0820, "rev32 x0, x1"),
    (0x5ac0_1020, "clz w0, w1"),
    (0xdac0_1420, "cls x0, x1"),
    (0xdac1_0020, "pacia x0, x1"),
    (0xdac1_1c20, "autdb x0, x1"),
    (0xdac1_23e0, "paciza x0"),
    (0xdac1_3fe0, "autdzb x0"),
    (0xdac1_43e0, "xpaci x0"),
    (0xdac1_47e0, "xpacd x0"),
    (0x9b02_0c20, "madd x0, x1, x2, x3"),
    (0x1b02_8c20, "msub w0, w1, w2, w3"),
    (0x9b22_0c20, "smaddl x0, w1, w2, x3"),
    (0x9ba2_8c20, "umsubl x0, w1, w2, x3"),
    (0x9b42_7c20, "smulh x0, x1, x2"),
    (0x9bc2_7c20, "umulh x0, x1, x2"),
    (0xf980_0400, "prfm pldl1keep, [x0, #8]"),
    (0xf89f_d000, "prfum pldl1keep, [x0, #-3]"),
    (0xf8a1_7800, "prfm pldl1keep, [x0, x1, lsl #3]"),
    (0xf940_0420, "ldr x0, [x1, #8]"),
    (0xacc1_07e0, "ldp q0, q1, [sp], #32"),
    (0xf820_0041, "ldadd x0, x1, [x2]"),
    (0x88a0_7c41, "cas w0, w1, [x2]"),
    (0xc8df_fc20, "ldar x0, [x1]"),
    (0x089f_fc20, "stlrb w0, [x1]"),
    (0xf840_0820, "ldtr x0, [x1]"),
    (0x4c40_7800, "ld1 { v0.4s }, [x0]"),
    (0x1e62_2820, "fadd d0, d1, d2"),
    (0x4ea2_8420, "add v0.4s, v1.4s, v2.4s"),
    (0xd61f_0060, "br x3"),
    (0xd65f_03c0, "ret"),
    (0xd71f_0822, "braa x1, x2"),
    (0xd61f_083f, "braaz x1"),
    (0xd65f_0bff, "retaa"),
    (0xd69f_03e0, "eret"),
    (0xd503_201f, "nop"),
    (0xd503_203f, "yield"),
    (0xd503_207f, "wfi"),
    (0xd503_205f, "wfe"),
    (0xd503_209f, "sev"),
    (0xd503_221f, "esb"),
    (0xd503_229f, "csdb"),
    (0xd503_233f, "hint #25"),
    (0xd503_3f9f, "dsb sy"),
    (0xd503_3bbf, "dmb ish"),
    (0xd503_3fdf, "isb"),
    (0xd503_3f5f, "clrex"),
    (0xd503_30ff, "sb"),
    (0xd503_323f, "dsb oshnxs"),
    (0xd503_42df, "msr DAIFSet, #2"),
    (0xd500_41bf, "msr SPSel, #1"),
    (0xd500_419f, "msr PAN, #1"),
    (0xd503_415f, "msr DIT, #1"),
    (0xd500_401f, "cfinv"),
    (0xd538_d080, "mrs x0, TPIDR_EL1"),
    (0xd518_d080, "msr TPIDR_EL1, x0"),
    (0xd518_c000, "msr VBAR_EL1, x0"),
    (0xd518_2100, "msr APIAKeyLo_EL1, x0"),
    (0xd538_1000, "mrs x0, SCTLR_EL1"),
    (0xd50b_7e20, "dc civac, x0"),
    (0xd508_871f, "tlbi vmalle1"),
    (0xd508_7800, "at s1e1r, x0"),
    (0xd508_751f, "ic iallu"),
    (0xd503_1000, "wfet x0"),
    (0xd503_1020, "wfit x0"),
];

/// Words that are allocated to no instruction, each a bit or a field from one of those above.
const UNALLOCATED: &[(u32, &str)] = &[
    (0x1240_0020, "and w, with N"),
    (0x9240_fc20, "and x, with a mask of ones alone"),
    (0x3280_0001, "a move with opc 1"),
    (0x52c0_0001, "movz w, lsl #32"),
    (0x5340_0020, "ubfm w, with N"),
    (0x7300_0020, "a bit field with opc 3"),
    (0x1382_8020, "extr w, #32"),
    (0x0a02_8020, "and w, lsl #32"),
    (0x8bc2_0020, "add x, with shift 3"),
    (0x8b62_4020, "add x, extended, with opt 1"),
    (0x8b22_5420, "add x, extended by 5"),
    (0x9a02_0420, "adc, with bit 10"),
    (0xfa41_1403, "ccmp, with bit 10"),
    (0xba82_0020, "csel, with S"),
    (0x9ac2_4020, "crc32b x"),
    (0x1ac2_4c20, "crc32x w"),
    (0x5ac0_0c20, "rev x of w"),
    (0xdac1_2020, "paciza, with a modifier"),
    (0x1b22_0c20, "smaddl w"),
    (0xbb02_0c20, "madd, with S"),
    (0x9b42_8020, "smulh, with o0"),
];

fn answer(set: InstructionSet, bytes: &[u8]) -> Result<bool, Refused> {
    let site = match set {
        InstructionSet::A64 => relocated_a64::site(0x4000_0000, bytes),
        _ => relocated_arm::site(set, 0x4000_0000, bytes),
    };
    let made = relocate(&site, Gva::new(0x4000_8000))?;
    Ok(made.code.bytes().starts_with(bytes))
}

#[test]
fn what_an_assembler_makes_stays() {
    for (word, text) in STAY {
        let stays = answer(InstructionSet::A64, &word.to_le_bytes());
        assert_eq!(stays, Ok(true), "{word:#x} {text}");
    }
}

#[test]
fn what_is_unallocated_is_refused() {
    for (word, text) in UNALLOCATED {
        let stays = answer(InstructionSet::A64, &word.to_le_bytes());
        assert_eq!(stays, Err(Refused::Unknown), "{word:#x} {text}");
    }
}

/// LDRD whose index is one of its destinations, with the PC as its base; VMOV of two registers, and
/// a neighbour that is none.
#[test]
fn pairs_are_looked_at_whole() {
    let a32 = |word: u32| answer(InstructionSet::A32, &word.to_le_bytes());
    assert_eq!(a32(0xe18f_00d0), Err(Refused::NeedsRegister)); // ldrd r0, r1, [pc, r0]
    assert_eq!(a32(0xe18f_00d1), Err(Refused::NeedsRegister)); // ldrd r0, r1, [pc, r1]
    assert_eq!(a32(0xe18f_00d2), Ok(false)); // ldrd r0, r1, [pc, r2]
    assert_eq!(a32(0xec41_0b10), Ok(true)); // vmov d0, r0, r1
    assert_eq!(a32(0xec41_0b00), Err(Refused::Unknown));
}
