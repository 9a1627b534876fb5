//! Sensitive instructions of both sets by all values of the fields that decide (DDI 0406C A8.8, B9.3).

use hanok_decode::aarch32::{
    Access, Encoding, Facility, Hint, ItState, Operation, Register, ReturnFrom, Sensitive, Status,
    UserMode, sensitive, sensitive_a32, sensitive_t32,
};
use hanok_instructions::{Definition, Exception, Flow, Text, decode_t32};

fn t32(both: u32, it: u8) -> Option<Sensitive> {
    sensitive_t32((both >> 16) as u16, both as u16, ItState::from_bits(it))
}

fn right_a32(word: u32) -> Option<bool> {
    sensitive_a32(word).map(|found| found.as_it_should_be)
}

fn right_t32(both: u32) -> Option<bool> {
    t32(both, 0).map(|found| found.as_it_should_be)
}

fn text(word: u32) -> Option<String> {
    sensitive_a32(word).map(|found| Text(&found).to_string())
}

fn text_t32(both: u32) -> Option<String> {
    t32(both, 0).map(|found| Text(&found).to_string())
}

/// Whether SYSm names a register (tables B9-1 and B9-2).
fn is_banked(saved: bool, mode: u32) -> bool {
    if saved {
        [14, 16, 18, 20, 22, 28, 30].contains(&mode)
    } else {
        mode < 32 && ![7, 15, 24, 25, 26, 27].contains(&mode)
    }
}

/// MRS and MSR of A32, of the mode's own registers and of banked ones (B9.3.8 to B9.3.12).
#[test]
fn status_registers_of_a32_are_held_to_their_rules() {
    for bits in 0..1u32 << 12 {
        // Bits 11 to 8 (of which 9 is "banked"), 19 to 16; R; the register.
        let (low, high) = (bits & 0xf, bits >> 4 & 0xf);
        let (saved, n) = (
            bits >> 8 & 1,
            [0, 1, 3, 7, 8, 13, 14, 15][(bits >> 9) as usize],
        );
        let (zeros, banked, m) = (low & 0b1100, low & 0b10 != 0, low & 1);
        let known = is_banked(saved == 1, m << 4 | high);
        let word = 0xe100_0000 | saved << 22 | high << 16 | low << 8;
        // mrs
        let fixed = if banked { known } else { m == 0 && high == 15 };
        let wanted = zeros == 0 && n != 15 && fixed;
        assert_eq!(
            right_a32(word | n << 12),
            Some(wanted),
            "{:x}",
            word | n << 12
        );
        assert_eq!(right_a32(word | n << 12 | 1), Some(false));
        // msr
        let fixed = if banked { known } else { m == 0 && high != 0 };
        let wanted = zeros == 0 && n != 15 && fixed;
        let word = word | 1 << 21 | 0xf000 | n;
        assert_eq!(right_a32(word), Some(wanted), "{word:x}");
        assert_eq!(right_a32(word & !0x1000), Some(false), "{word:x}");
    }
}

/// The same of T32.
#[test]
fn status_registers_of_t32_are_held_to_their_rules() {
    for (high, n) in (0..16u32).flat_map(|high| (0..16u32).map(move |n| (high, n))) {
        for (saved, low) in [0u32, 1]
            .iter()
            .flat_map(|r| [0u32, 0x10, 0x20, 0x30, 1, 0x40, 0x2000].map(|l| (*r, l)))
        {
            let banked = low & 0x20 != 0;
            let m = low >> 4 & 1;
            let zeros = low & !0x30 == 0 && (banked || m == 0);
            let known = is_banked(saved == 1, m << 4 | high);
            let general = n != 13 && n != 15;
            // mrs
            let word = 0xf3e0_8000 | saved << 20 | high << 16 | n << 8 | low;
            let fixed = if banked { known } else { high == 15 };
            assert_eq!(right_t32(word), Some(zeros && general && fixed), "{word:x}");
            // msr
            let word = 0xf380_8000 | saved << 20 | n << 16 | high << 8 | low;
            let fixed = if banked { known } else { high != 0 };
            assert_eq!(right_t32(word), Some(zeros && general && fixed), "{word:x}");
        }
    }
    for (both, wanted) in [
        (0xf3ef_8300u32, "mrs r3, cpsr"),
        (0xf3ff_8300, "mrs r3, spsr"),
        (0xf381_8900, "msr cpsr_fc, r1"),
        (0xf391_8900, "msr spsr_fc, r1"),
        (0xf3e0_8330, "mrs r3, lr_irq"),
        (0xf3e3_8330, "mrs r3, sp_svc"),
        (0xf3e8_8320, "mrs r3, r8_fiq"),
        (0xf3f0_8330, "mrs r3, spsr_irq"),
        (0xf381_8e30, "msr elr_hyp, r1"),
    ] {
        assert_eq!(text_t32(both).as_deref(), Some(wanted));
    }
    let status = t32(0xf3ff_8300, 0).map(|found| found.operation);
    assert_eq!(
        status,
        Some(Operation::Mrs(Status::Saved, Register::from_bits(3)))
    );
}

/// CPS with two halfwords, and the hints that stand where it would change nothing (B9.3.2, A6.3.4).
#[test]
fn changes_of_state_of_t32_are_held_to_their_rules() {
    for bits in 0..1u32 << 11 {
        let (mode, masks) = (bits & 0x1f, bits >> 5 & 7);
        let (with_mode, imod) = (bits >> 8 & 1, bits >> 9);
        let word = 0xf3af_8000 | bits;
        let found = t32(word, 0);
        if imod == 0 && with_mode == 0 {
            let hint = match bits & 0xff {
                1 => Some(Hint::Yield),
                2 => Some(Hint::Wfe),
                3 => Some(Hint::Wfi),
                4 => Some(Hint::Sev),
                _ => None,
            };
            let operation = found.map(|found| found.operation);
            assert_eq!(operation, hint.map(Operation::Hint), "{word:x}");
            continue;
        }
        let unpredictable =
            mode != 0 && with_mode == 0 || (imod >> 1 == 1) == (masks == 0) || imod == 0b01;
        let Some(Operation::Cps(change)) = found.map(|found| found.operation) else {
            panic!("{word:x}");
        };
        assert_eq!(right_t32(word), Some(!unpredictable), "{word:x}");
        assert_eq!(right_t32(word & !0x1_0000), Some(false));
        assert_eq!(
            [right_t32(word | 0x800), right_t32(word | 0x2000)],
            [Some(false); 2]
        );
        let named = [change.aborts, change.irqs, change.fiqs].map(u32::from);
        assert_eq!(named, [masks >> 2, masks >> 1 & 1, masks & 1], "{word:x}");
        let changed = (with_mode == 1).then_some(mode as u8);
        assert_eq!(change.mode, changed, "{word:x}");
        let enable = [None, None, Some(true), Some(false)][imod as usize];
        if !unpredictable {
            assert_eq!(change.enable, enable, "{word:x}");
        }
    }
    assert_eq!(
        right_t32(0xf3ae_8003),
        Some(false),
        "wfi.w with a zero in brackets"
    );
    // setend be (A8.8.190)
    for half in 0xb640..0xb660u16 {
        let found = sensitive_t32(half, 0, ItState::NONE).map(|found| found.as_it_should_be);
        let wanted = half & 0x17 == 0x10;
        assert_eq!(found, Some(wanted), "{half:x}");
    }
    for low in [0u32, 0x200, 0x20, 0x100, 1, 0x0f, 0x2_0000, 0x400, 0x8_0000] {
        let wanted = low & !0x200 == 0;
        let found = (low != 0x20).then_some(wanted);
        assert_eq!(
            right_a32(0xf101_0000 | low),
            found.or(right_a32(0xf101_0020)),
            "{low:x}"
        );
    }
}

/// Where in an IT block each may stand.
#[test]
fn returns_and_calls_stand_where_a_block_lets_them() {
    let rights = |both| [0, 0x04, 0x08].map(|it| t32(both, it).unwrap().as_it_should_be);
    // subs pc, lr, #4; rfeia r1; smc #0
    for both in [0xf3de_8f04u32, 0xe991_c000, 0xf7f0_8000] {
        assert_eq!(rights(both), [true, false, true], "{both:x}");
    }
    // hvc #0; cpsid.w i
    for both in [0xf7e0_8000u32, 0xf3af_8640] {
        assert_eq!(rights(both), [true, false, false], "{both:x}");
    }
    assert_eq!(rights(0xf3ef_8300), [true; 3]);
    let flow = |both: u32| decode_t32((both >> 16) as u16, both as u16, ItState::NONE).flow;
    assert_eq!(flow(0xf7f0_8000), Flow::Exception(Exception::Monitor));
    assert_eq!(flow(0xf7e0_8000), Flow::Exception(Exception::Hypervisor));
}

/// ERET, HVC and SMC (B9.3.3, B9.3.4, B9.3.14), and what of the second space is none of them.
#[test]
fn exceptions_are_held_to_their_fixed_bits() {
    for low in 0..1u32 << 4 {
        for middle in [0u32, 1, 0x800, 0xf00, 0xfff] {
            let word = 0xe160_0060 | middle << 8 | low;
            assert_eq!(right_a32(word), Some(middle == 0 && low == 14), "{word:x}");
            let from = sensitive_a32(word).map(|found| found.operation);
            let Some(Operation::Return(back)) = from else {
                panic!("{word:x}");
            };
            assert_eq!(back.from, ReturnFrom::Eret);
            assert_eq!(right_a32(word | 0x10), Some(middle == 0), "{word:x}");
            let number = (middle << 4 | low) as u16;
            let call = |word| sensitive_a32(word).map(|found| found.operation);
            let hvc = 0xe140_0070 | middle << 8 | low;
            assert_eq!(call(hvc), Some(Operation::Hvc(number)));
            assert_eq!(
                [right_a32(hvc), right_a32(hvc & !(15 << 28))],
                [Some(true), Some(false)]
            );
            let hvc = t32(0xf7e0_8000 | low << 16 | middle, 0).map(|found| found.operation);
            assert_eq!(hvc, Some(Operation::Hvc((low << 12 | middle) as u16)));
        }
    }
    // Data processing of Advanced SIMD, which MSR would be on a condition.
    for word in [0xf320_f003u32, 0xf328_f000, 0xf360_f000, 0xf25e_f004] {
        assert_eq!(right_a32(word), None, "{word:x}");
    }
}

/// RFE and SRS of T32, and LDM as a return: a base that is loaded is not written back.
#[test]
fn blocks_have_their_direction() {
    for (both, wanted) in [
        (0xe831_c000u32, "rfedb r1!"),
        (0xe9b1_c000, "rfeia r1!"),
        (0xe80d_c013, "srsdb sp, #19"),
        (0xe9ad_c01f, "srsia sp!, #31"),
        (0xe9ad_c000, "srsia sp!, #0"),
        (0xf8b1_f004, "pldw [r1, #4]"),
        (0xf831_fc04, "pldw [r1, #-4]"),
        (0xf831_f002, "pldw [r1, r2]"),
        (0xf831_f022, "pldw [r1, r2, lsl #2]"),
        (0xf851_0e00, "ldrt r0, [r1]"),
        (0xf851_0e04, "ldrt r0, [r1, #4]"),
    ] {
        assert_eq!(text_t32(both).as_deref(), Some(wanted), "{both:x}");
    }
    for (word, wanted) in [
        (0xf931_0a00, "rfedb r1!"),
        (0xf102_0013, "cps #19"),
        (0xf10c_0080, "cpsid i"),
        (0xf10a_0093, "cpsie i, #19"),
        (0xe1b0_f06e, "rrxs pc, lr"),
        (0xe1b0_f00e, "movs pc, lr"),
        (0xe1b0_f10e, "lsls pc, lr, #2"),
        (0xf591_f000, "pldw [r1]"),
        (0xf511_f000, "pldw [r1, #-0]"),
        (0xf591_f004, "pldw [r1, #4]"),
        (0xeef0_0a10, "vmrs r0, fpsid"),
        (0xeef6_0a10, "vmrs r0, mvfr1"),
        (0xeef7_0a10, "vmrs r0, mvfr0"),
        (0xeee8_0a10, "vmsr fpexc, r0"),
        (0xeef9_0a10, "vmrs r0, fpinst"),
        (0xeefa_0a10, "vmrs r0, fpinst2"),
        (0xeef3_0a10, "vmrs r0, reserved"),
    ] {
        assert_eq!(text(word).as_deref(), Some(wanted), "{word:x}");
    }
    // ldm r1, {r1, pc} ^; ldm r1!, {r1, pc} ^; ldm r1!, {r2, pc} ^
    let rights = [0xe8d1_8002, 0xe8f1_8002, 0xe8f1_8004].map(right_a32);
    assert_eq!(rights, [Some(true), Some(false), Some(true)]);
    // Signed stores and signed words there are none; nor is IT a hint.
    for both in [0xf901_0e04u32, 0xf951_0e04, 0xf941_0e04] {
        assert_eq!(right_t32(both), None, "{both:x}");
    }
}

/// LDRT and its kind of A32 (A8.8.92 and after it).
#[test]
fn unprivileged_accesses_are_held_to_their_rules() {
    for (n, t) in [0u32, 1, 14, 15]
        .iter()
        .flat_map(|n| [0u32, 1, 14, 15].map(|t| (*n, t)))
    {
        let both = n << 16 | t << 12;
        for (word, word_stored) in [
            (0xe430_0004u32, false), // ldrt
            (0xe420_0004, true),     // strt
            (0xe470_0004, false),    // ldrbt
            (0xe460_0004, false),    // strbt
            (0xe070_00b4, false),    // ldrht
            (0xe060_00b4, false),    // strht
        ] {
            let wanted = n != 15 && n != t && (word_stored || t != 15);
            assert_eq!(right_a32(word | both), Some(wanted), "{word:x} {n} {t}");
        }
    }
}

/// VMRS and VMSR of what programs have not (B9.3.21, B9.3.22), and all else by its operands.
#[test]
fn coprocessors_are_held_to_their_operands() {
    for (number, t) in (0..16u32).flat_map(|number| (0..16u32).map(move |t| (number, t))) {
        for read in [0u32, 1] {
            let word = 0xeee0_0a10 | read << 20 | number << 16 | t << 12;
            let there = matches!(number, 0 | 8..=10) || read == 1 && matches!(number, 6 | 7);
            // FPSCR is a program's.
            let wanted = (number != 1).then_some(there && t != 15);
            assert_eq!(right_a32(word), wanted, "{word:x}");
            for brackets in [1, 8, 0x20, 0x80] {
                let wanted = wanted.map(|_| false);
                assert_eq!(right_a32(word | brackets), wanted, "{word:x}");
            }
            let Some(Operation::Coprocessor(found)) = sensitive_a32(word).map(|f| f.operation)
            else {
                continue;
            };
            assert_eq!(found.facility(), Facility::FloatingPoint);
            assert_eq!(found.is_read(), read == 1);
        }
        // The flags can be read, but of CP15; T32 has no stack pointer there.
        if number != 10 && number != 11 {
            let word = 0xee01_0010 | number << 8 | t << 12;
            assert_eq!(right_a32(word), Some(t != 15), "{word:x}");
            assert_eq!(right_t32(word), Some(t != 15 && t != 13), "{word:x}");
            let word = word | 1 << 20;
            let flags = t != 15 || number != 15;
            assert_eq!(right_a32(word), Some(flags), "{word:x}");
            assert_eq!(right_t32(word), Some(flags && t != 13), "{word:x}");
        }
    }
    // ldc and stc p14, c5, [pc]; T32 stores nothing there.
    assert_eq!(
        [right_a32(0xed9f_5e00), right_a32(0xed8f_5e00)],
        [Some(true); 2]
    );
    assert_eq!(
        [right_t32(0xed9f_5e00), right_t32(0xed8f_5e00)],
        [Some(true), Some(false)]
    );
    let read = |word| match sensitive_a32(word).map(|found| found.operation) {
        Some(Operation::Coprocessor(found)) => Some(found.is_read()),
        _ => None,
    };
    // ldc, stc p14; mrrc, mcrr, cdp p15
    assert_eq!(
        [read(0xed91_5e00), read(0xed81_5e00)],
        [Some(false), Some(true)]
    );
    let others = [0xec51_0f02, 0xec41_0f02, 0xee12_3f84].map(read);
    assert_eq!(others, [Some(true), Some(false), Some(false)]);
}

/// MCR p15, 1, r0, c2, c3, 4 is that and nothing else.
#[test]
fn a_register_of_cp15_is_known_by_its_four_numbers() {
    let coprocessor = |word| match sensitive_a32(word).map(|found| found.operation) {
        Some(Operation::Coprocessor(found)) => found,
        other => panic!("{other:?}"),
    };
    let found = coprocessor(0xee22_0f93);
    assert!(matches!(found.access, Access::Register { .. }));
    for bits in 0..1u32 << 14 {
        let [a, b, c, d] = [bits & 7, bits >> 3 & 15, bits >> 7 & 15, bits >> 11];
        let [a, b, c, d] = [a as u8, b as u8, c as u8, d as u8];
        let wanted = [a, b, c, d] == [1, 2, 3, 4];
        assert_eq!(found.is_cp15(a, b, c, d), wanted, "{bits:x}");
    }
    // Of CP14, of the second kind, of two registers.
    for word in [0xee22_0e93, 0xfe22_0f93, 0xec41_0f93] {
        assert!(!coprocessor(word).is_cp15(1, 2, 3, 4), "{word:x}");
    }
}

/// What User mode makes of it, and what a hypervisor does about that.
#[test]
fn instructions_that_silently_differ_must_be_rewritten() {
    use UserMode::{Configured, Different, Legal, Undefined, Unpredictable, Waits};
    for (user, trapped, rewritten) in [
        (Legal, false, false),
        (Undefined, true, false),
        (Configured, true, false),
        (Different, false, true),
        (Waits, false, true),
        (Unpredictable, false, true),
    ] {
        assert_eq!(
            (user.is_trapped(), user.must_be_rewritten()),
            (trapped, rewritten)
        );
    }
    // msr cpsr_f, cpsr_s, cpsr_x, cpsr_c, r0 (B1.3.3)
    let user = |word| sensitive_a32(word).map(|found| found.user);
    let found = [0xe128_f000, 0xe124_f000, 0xe122_f000, 0xe121_f000].map(user);
    assert_eq!(
        found,
        [Some(Legal), Some(Legal), Some(Different), Some(Different)]
    );
}

#[test]
fn an_encoding_of_either_set_is_asked() {
    let name = |encoding| sensitive(encoding, ItState::NONE).map(|found| Text(&found).to_string());
    assert_eq!(
        name(Encoding::A32(0xe1b0_f00e)).as_deref(),
        Some("movs pc, lr")
    );
    assert_eq!(
        name(Encoding::Wide(0xf3de_8f04)).as_deref(),
        Some("subs pc, lr, #4")
    );
    assert_eq!(name(Encoding::Narrow(0xb672)).as_deref(), Some("cpsid i"));
    assert_eq!(name(Encoding::Narrow(0xbf00)), None);
    let last = sensitive(Encoding::Wide(0xf3de_8f04), ItState::from_bits(0x18));
    assert_eq!(
        last.map(|found| Text(&found).to_string()).as_deref(),
        Some("subsne pc, lr, #4")
    );
    let found = decode_t32(0xf3de, 0x8f04, ItState::from_bits(0x04)).definition;
    assert_eq!(found, Definition::Unpredictable);
}
