//! Tests what sensitive instructions read and write.

use hanok_decode::aarch32::{Registers, sensitive_a32};
use hanok_instructions::{Effects, Flags, effects as effects_of};

/// What each kind reads and writes, exactly: code that takes a register as free relies on it.
#[test]
fn effects_are_those_of_each_kind() {
    const NONE: Effects = Effects::NONE;
    let control = Flags::new().with_control(true);
    let c = Flags::new().with_c(true);
    let set = |numbers: &[u16]| {
        let bits = numbers.iter().fold(0, |bits, number| bits | 1 << number);
        Registers::from_bits(bits)
    };
    let banked = Registers::from_bits(0x7f00);
    let leaves = |effects: Effects| {
        let gone = effects.setting(set(&[15])).perhaps_writing(banked);
        gone.setting_flags(Flags::ALL)
    };
    let r0 = NONE.reading(set(&[0]));
    let flags = Flags::NZCV.with_q(true);
    let mode = NONE.perhaps_writing_flags(control).perhaps_writing(banked);
    for (word, effects) in [
        // cpsid i; cps #19; cpsid i, #19
        (0xf10c_0080, NONE.perhaps_writing_flags(control)),
        (0xf102_0013, mode),
        (0xf10e_0093, mode),
        // mrs r3, cpsr; mrs r3, spsr; mrs r3, lr_usr; msr lr_usr, r0
        (
            0xe10f_3000,
            NONE.reading_flags(Flags::ALL).setting(set(&[3])),
        ),
        (0xe14f_3000, NONE.setting(set(&[3]))),
        (0xe106_3200, NONE.setting(set(&[3]))),
        (0xe126_f200, r0),
        // msr spsr_fsxc, r0; msr cpsr_f, r0; cpsr_s; cpsr_x; cpsr_c; msr cpsr_fc, #0
        (0xe16f_f000, r0),
        (0xe128_f000, r0.setting_flags(flags)),
        (0xe124_f000, r0.setting_flags(Flags::new().with_ge(true))),
        (0xe122_f000, r0.perhaps_writing_flags(control.with_e(true))),
        (0xe121_f000, mode.reading(set(&[0]))),
        (0xe329_f000, mode.setting_flags(flags)),
        // wfi; setend be
        (0xe320_f003, NONE),
        (0xf101_0200, NONE.setting_flags(Flags::new().with_e(true))),
        // rfeia r1; rfeia r1!; srsdb sp, #19; srsdb sp!, #19
        (0xf891_0a00, leaves(NONE.reading(set(&[1])))),
        (
            0xf8b1_0a00,
            leaves(NONE.reading(set(&[1])).setting(set(&[1]))),
        ),
        (0xf94d_0513, NONE.reading(set(&[13, 14]))),
        (
            0xf96d_0513,
            NONE.reading(set(&[13, 14])).perhaps_writing(set(&[13])),
        ),
        // subs pc, lr, #4; movs pc, lr; movs pc, r2, rrx; adcs pc, r1, r2
        (0xe25e_f004, leaves(NONE.reading(set(&[14])))),
        (0xe1b0_f00e, leaves(NONE.reading(set(&[14])))),
        (
            0xe1b0_f062,
            leaves(NONE.reading(set(&[2])).reading_flags(c)),
        ),
        (
            0xe0b1_f002,
            leaves(NONE.reading(set(&[1, 2])).reading_flags(c)),
        ),
        // ldrt r0, [r1], r2; strt r0, [r1], #4; smc #0
        (
            0xe6b1_0002,
            NONE.reading(set(&[1, 2])).setting(set(&[0, 1])),
        ),
        (0xe4a1_0004, NONE.reading(set(&[0, 1])).setting(set(&[1]))),
        (0xe160_0070, Effects::UNKNOWN),
    ] {
        let found = sensitive_a32(word).map(|found| effects_of(&found));
        assert_eq!(found, Some(effects), "{word:x}");
    }
    // The flags of the condition are read as well.
    let found = sensitive_a32(0x0320_f003).map(|found| effects_of(&found).flags_read);
    assert_eq!(found, Some(Flags::new().with_z(true)));
}
