use super::*;

/// No number belongs to two formats, and no bit of a format both tells the kind and is kept.
fn sound(formats: &[Format], bits: u8) {
    for (n, one) in formats.iter().enumerate() {
        let kept = one.fields.iter().fold(0, |all, (at, len)| {
            assert_eq!(all & low(*len) << at, 0, "{n}");
            all | low(*len) << at
        });
        if one.mask != 0 {
            let condition = if one.mask >> 28 == 0 { 0xf000_0000 } else { 0 };
            let halves = if bits == 8 { 0xffff_0000 } else { 0 };
            assert_eq!(kept & one.mask, 0, "{n}");
            assert_eq!(
                kept | one.mask | condition | halves,
                u32::MAX,
                "{n}: {kept:x}"
            );
        }
        assert_eq!(one.prefix & low(one.bits()), 0, "{n}");
        assert!(one.prefix >> bits == 0 && one.prefix >> (bits - 1) == u32::from(bits == 24));
        for other in formats.iter().take(n) {
            let common = one.bits().max(other.bits());
            assert_ne!(one.prefix >> common, other.prefix >> common, "{n}");
        }
    }
}

#[test]
fn the_formats_are_sound() {
    sound(&A32, 24);
    sound(&UNCONDITIONAL, 24);
    sound(&WIDE, 24);
    sound(&NARROW, 8);
    sound(&CONDITIONAL, 16);
    for conditional in &A32 {
        for other in &UNCONDITIONAL {
            let common = conditional.bits().max(other.bits());
            assert_ne!(conditional.prefix >> common, other.prefix >> common);
        }
    }
}

#[test]
fn what_linux_has_comes_back() {
    let words = [
        0xee1d_0f90, // mrc p15, 0, r0, c13, c0, 4
        0x1e03_0f10, // mcrne p15, 0, r0, c3, c0, 0
        0xf10c_0080, // cpsid i
        0xf102_0013, // cps #19
        0xe10f_c000, // mrs ip, cpsr
        0xe14f_0000, // mrs r0, spsr
        0xe121_f000, // msr cpsr_c, r0
        0xe16f_f00e, // msr spsr_fsxc, lr
        0xe321_f0d3, // msr cpsr_c, #0xd3
        0xe1b0_f00e, // movs pc, lr
        0xe25e_f004, // subs pc, lr, #4
        0xe8dd_7fff, // ldm sp, {r0-lr}^
        0xe952_7fff, // ldmdb r2, {r0-lr}^
        0xe940_6000, // stmdb r0, {sp, lr}^
        0xe8d8_8000, // ldm r8, {pc}^
        0xe4b0_1000, // ldrt r1, [r0], #0
        0xe0f0_10b2, // ldrht r1, [r0], #2
        0xe160_0070, // smc #0
        0xe140_ea71, // hvc #0xea1
        0xe160_006e, // eret
        0xe320_f003, // wfi
        0xeef8_1a10, // vmrs r1, fpexc
        0xec51_0f1e, // mrrc p15, 1, r0, r1, c14
        0xe12e_f30e, // msr elr_hyp, lr
        0xf8bd_0a00, // rfeia sp!
        0xf96d_0513, // srsdb sp!, #19
    ];
    for word in words {
        let svc = trap_a32(word).unwrap_or_else(|| panic!("{word:x} has no SVC"));
        assert_eq!(
            original_a32(svc),
            Some(Original::Word(word)),
            "{word:x}: {svc:x}"
        );
    }
}

#[test]
fn linux_own_calls_are_none_of_these() {
    assert_eq!(original_a32(0xef00_0000), None);
    assert_eq!(original_a32(0xef12_3456), None);
    assert!(matches!(
        original_a32(0xef90_0077),
        Some(Original::Index(_))
    ));
    assert_eq!(original_narrow(0xdf00), None);
}

#[test]
fn the_table_is_reached_by_its_number() {
    let word = 0x18d0_7fff;
    assert_eq!(trap_a32(word), None);
    let svc = trap_by_index(word, 77).expect("there is room");
    assert_eq!(
        (svc >> 28, original_a32(svc)),
        (1, Some(Original::Index(77)))
    );
    assert_eq!(trap_by_index(word, MAX_INDEX), None);
}

#[test]
fn what_t32_has_comes_back() {
    for word in [
        0xee1d_0f90, // mrc p15, 0, r0, c13, c0, 4
        0xf850_1e04, // ldrt r1, [r0, #4]
        0xec51_0f1e, // mrrc p15, 1, r0, r1, c14
        0xf7e0_8ea1, // hvc #0xea1
        0xf3de_8f04, // subs pc, lr, #4
        0xf385_8100, // msr cpsr_c, r5
        0xf3ff_8100, // mrs r1, spsr
        0xf3af_8640, // cpsid.w i
        0xf3af_8003, // wfi.w
        0xe9bd_c000, // rfeia sp!
        0xe82d_c013, // srsdb sp!, #19
        0xf7f0_8000, // smc #0
        0xeef8_1a10, // vmrs r1, fpexc
    ] {
        let both = trap_wide(word).unwrap_or_else(|| panic!("{word:x} has no SVC"));
        assert_eq!(original_wide(both), Some(word), "{word:x}: {both:x}");
    }
    // cpsid i, cpsie if, wfi, sev
    for half in [0xb672, 0xb663, 0xbf30, 0xbf40] {
        let svc = trap_narrow(half).unwrap_or_else(|| panic!("{half:x} has no SVC"));
        assert_eq!(original_narrow(svc), Some(half), "{half:x}: {svc:x}");
    }
    for word in [
        0xf850_1e00, // ldrt r1, [r0]
        0xf385_8100, // msr cpsr_c, r5
        0xf3ff_8100, // mrs r1, spsr
        0xf3de_8f04, // subs pc, lr, #4
        0xf3af_8003, // wfi.w
    ] {
        let udf = trap_conditional(word).unwrap_or_else(|| panic!("{word:x} has no UDF"));
        assert_eq!(original_conditional(udf), Some(word), "{word:x}: {udf:x}");
    }
}

/// Other instructions stand for nothing: neither those that are no SVC or UDF.W, nor SVC and UDF.W
/// with other numbers.
#[test]
fn only_those_that_trap_stand_for_another() {
    for high in 0..=0xffff_u32 {
        for low in [0, 0x1f10, 0xa000, 0xf000, 0xffff] {
            let both = high << 16 | low;
            assert!(original_wide(both).is_none() || high & 0xff80 == 0xdf80);
            let is_udf = high & 0xfff0 == 0xf7f0 && low & 0xf000 == 0xa000;
            assert!(original_conditional(both).is_none() || is_udf, "{both:x}");
        }
        assert!(original_narrow(high as u16).is_none() || high >> 8 == 0xdf);
    }
}

#[test]
fn without_a_condition_the_table_s_number_is_always_reached() {
    for (word, condition) in [(0xf8b0_0a00, 0xe), (0xe8d0_7fff, 0xe), (0x08d0_7fff, 0)] {
        let svc = trap_by_index(word, MAX_INDEX - 1).expect("there is room");
        let last = Some(Original::Index(MAX_INDEX - 1));
        assert_eq!((svc >> 28, original_a32(svc)), (condition, last));
    }
}

/// The number of words that `formats` can hold.
fn words(formats: &[Format]) -> u32 {
    let kinds = formats.iter().filter(|format| format.mask != 0);
    kinds.map(|format| 1 << format.bits()).sum()
}

#[test]
fn every_word_comes_back_as_itself() {
    let [mut a32, mut wide, mut narrow, mut conditional] = [0; 4];
    for number in 0x80_0000..0x100_0000_u32 {
        if let Some(Original::Word(word)) = original_a32(SVC_A32 | number) {
            let again = trap_a32(word).and_then(original_a32);
            assert_eq!(again, Some(Original::Word(word)), "{word:x}");
            a32 += 1;
        }
        let both = (SVC_T32 | number >> 16) << 16 | number & 0xffff;
        if let Some(word) = original_wide(both) {
            assert_eq!(
                trap_wide(word).and_then(original_wide),
                Some(word),
                "{word:x}"
            );
            wide += 1;
        }
    }
    for number in 0..=u16::MAX {
        let udf = UDF_WIDE | u32::from(number >> 12) << 16 | u32::from(number & 0xfff);
        if let Some(word) = original_conditional(udf) {
            let again = trap_conditional(word).and_then(original_conditional);
            assert_eq!(again, Some(word), "{word:x}");
            conditional += 1;
        }
        if let Some(half) = original_narrow(number) {
            let again = trap_narrow(half).and_then(original_narrow);
            assert_eq!(again, Some(half), "{half:x}");
            narrow += 1;
        }
    }
    assert_eq!(a32, words(&A32) + words(&UNCONDITIONAL));
    let expected = [&WIDE[..], &NARROW, &CONDITIONAL].map(words);
    assert_eq!([wide, narrow, conditional], expected);
}
