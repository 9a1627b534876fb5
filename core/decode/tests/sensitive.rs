//! The published sensitive instructions, each with an encoding of it as an assembler makes it.

use hanok_decode::aarch32::{Class, ItState, Sensitive, UserMode, sensitive_a32, sensitive_t32};
use hanok_instructions::{Text, mnemonic};

/// Name, class, what User mode makes of it, its A32 word and its T32 halfwords, where it has
/// such an encoding.
type Row = (&'static str, Class, UserMode, Option<u32>, Option<u32>);

use Class::{Block, Coprocessor, DataProcessing, Exception, Shift, StatusRegister, Unprivileged};
use UserMode::{Different, Undefined, Unpredictable};

/// The 48, in the order in which they were published.
const PUBLISHED: [Row; 48] = [
    (
        "ADCS",
        DataProcessing,
        Unpredictable,
        Some(0xe2b1_f004),
        None,
    ),
    (
        "ADDS",
        DataProcessing,
        Unpredictable,
        Some(0xe29e_f004),
        None,
    ),
    (
        "ANDS",
        DataProcessing,
        Unpredictable,
        Some(0xe21e_f004),
        None,
    ),
    (
        "BICS",
        DataProcessing,
        Unpredictable,
        Some(0xe3de_f003),
        None,
    ),
    (
        "EORS",
        DataProcessing,
        Unpredictable,
        Some(0xe03e_f001),
        None,
    ),
    (
        "ORRS",
        DataProcessing,
        Unpredictable,
        Some(0xe19e_f001),
        None,
    ),
    (
        "RSBS",
        DataProcessing,
        Unpredictable,
        Some(0xe07e_f001),
        None,
    ),
    (
        "RSCS",
        DataProcessing,
        Unpredictable,
        Some(0xe2fe_f001),
        None,
    ),
    (
        "SBCS",
        DataProcessing,
        Unpredictable,
        Some(0xe2de_f001),
        None,
    ),
    (
        "SUBS",
        DataProcessing,
        Unpredictable,
        Some(0xe25e_f004),
        Some(0xf3de_8f04),
    ),
    (
        "MOVS",
        DataProcessing,
        Unpredictable,
        Some(0xe1b0_f00e),
        None,
    ),
    (
        "MVNS",
        DataProcessing,
        Unpredictable,
        Some(0xe1f0_f00e),
        None,
    ),
    ("ASRS", Shift, Unpredictable, Some(0xe1b0_f0ce), None),
    ("LSLS", Shift, Unpredictable, Some(0xe1b0_f08e), None),
    ("LSRS", Shift, Unpredictable, Some(0xe1b0_f0ae), None),
    ("RORS", Shift, Unpredictable, Some(0xe1b0_f0ee), None),
    ("RRXS", Shift, Unpredictable, Some(0xe1b0_f06e), None),
    (
        "CPS",
        StatusRegister,
        Different,
        Some(0xf10c_0080),
        Some(0xb672),
    ),
    (
        "MRS",
        StatusRegister,
        Different,
        Some(0xe10f_0000),
        Some(0xf3ef_8000),
    ),
    (
        "MSR",
        StatusRegister,
        Different,
        Some(0xe121_f000),
        Some(0xf380_8100),
    ),
    (
        "LDRT",
        Unprivileged,
        Different,
        Some(0xe4b1_0004),
        Some(0xf851_0e04),
    ),
    (
        "LDRHT",
        Unprivileged,
        Different,
        Some(0xe0f1_00b4),
        Some(0xf831_0e04),
    ),
    (
        "LDRSHT",
        Unprivileged,
        Different,
        Some(0xe0f1_00f4),
        Some(0xf931_0e04),
    ),
    (
        "LDRBT",
        Unprivileged,
        Different,
        Some(0xe4f1_0004),
        Some(0xf811_0e04),
    ),
    (
        "LDRSBT",
        Unprivileged,
        Different,
        Some(0xe0b1_00d2),
        Some(0xf911_0e04),
    ),
    (
        "STRT",
        Unprivileged,
        Different,
        Some(0xe4a1_0004),
        Some(0xf841_0e04),
    ),
    (
        "STRHT",
        Unprivileged,
        Different,
        Some(0xe0e1_00b4),
        Some(0xf821_0e04),
    ),
    (
        "STRBT",
        Unprivileged,
        Different,
        Some(0xe6e1_0002),
        Some(0xf801_0e04),
    ),
    ("LDM", Block, Unpredictable, Some(0xe8fd_8001), None),
    ("LDM", Block, Unpredictable, Some(0xe8dd_7fff), None),
    ("STM", Block, Unpredictable, Some(0xe8cd_7fff), None),
    (
        "RFE",
        Exception,
        Unpredictable,
        Some(0xf8bd_0a00),
        Some(0xe9bd_c000),
    ),
    (
        "SMC",
        Exception,
        Undefined,
        Some(0xe160_0070),
        Some(0xf7f0_8000),
    ),
    (
        "SRS",
        Exception,
        Unpredictable,
        Some(0xf96d_0513),
        Some(0xe82d_c013),
    ),
    (
        "CDP",
        Coprocessor,
        Undefined,
        Some(0xee12_3f84),
        Some(0xee12_3f84),
    ),
    (
        "CDP2",
        Coprocessor,
        Undefined,
        Some(0xfe12_3784),
        Some(0xfe12_3784),
    ),
    (
        "MCR",
        Coprocessor,
        Undefined,
        Some(0xee01_0f10),
        Some(0xee01_0f10),
    ),
    (
        "MCR2",
        Coprocessor,
        Undefined,
        Some(0xfe01_0710),
        Some(0xfe01_0710),
    ),
    (
        "MCRR",
        Coprocessor,
        Undefined,
        Some(0xec41_0f02),
        Some(0xec41_0f02),
    ),
    (
        "MCRR2",
        Coprocessor,
        Undefined,
        Some(0xfc41_0702),
        Some(0xfc41_0702),
    ),
    (
        "MRC",
        Coprocessor,
        Undefined,
        Some(0xee11_0f10),
        Some(0xee11_0f10),
    ),
    (
        "MRC2",
        Coprocessor,
        Undefined,
        Some(0xfe11_0710),
        Some(0xfe11_0710),
    ),
    (
        "MRRC",
        Coprocessor,
        Undefined,
        Some(0xec51_0f02),
        Some(0xec51_0f02),
    ),
    (
        "MRRC2",
        Coprocessor,
        Undefined,
        Some(0xfc51_0702),
        Some(0xfc51_0702),
    ),
    (
        "LDC",
        Coprocessor,
        Undefined,
        Some(0xed91_0f01),
        Some(0xed91_0f01),
    ),
    (
        "LDC2",
        Coprocessor,
        Undefined,
        Some(0xfd91_0701),
        Some(0xfd91_0701),
    ),
    (
        "STC",
        Coprocessor,
        Undefined,
        Some(0xed81_0f01),
        Some(0xed81_0f01),
    ),
    (
        "STC2",
        Coprocessor,
        Undefined,
        Some(0xfd81_0701),
        Some(0xfd81_0701),
    ),
];

fn t32(bits: u32) -> Option<Sensitive> {
    let (first, second) = match bits >> 16 {
        0 => (bits as u16, 0),
        first => (first as u16, bits as u16),
    };
    sensitive_t32(first, second, ItState::NONE)
}

#[test]
fn all_48_are_known() {
    for (name, class, user, a32, thumb) in PUBLISHED {
        let found = [a32.and_then(sensitive_a32), thumb.and_then(t32)];
        assert_eq!(
            found.map(|one| one.is_some()),
            [a32, thumb].map(|one| one.is_some()),
            "{name}"
        );
        for one in found.into_iter().flatten() {
            assert_eq!(
                (mnemonic(&one.operation), one.class(), one.user),
                (name, class, user),
                "{one:?}"
            );
            assert!(one.as_it_should_be, "{one:?}");
        }
    }
}

#[test]
fn each_published_class_has_as_many_as_were_published() {
    let counted = Class::ALL.map(|class| PUBLISHED.iter().filter(|row| row.1 == class).count());
    assert_eq!(counted, [12, 5, 3, 8, 3, 3, 14, 0, 0, 0]);
}

#[test]
fn they_are_written_as_an_assembler_reads_them() {
    let texts = [
        (0xe25e_f004, "subs pc, lr, #4"),
        (0x11b0_f0ce, "asrsne pc, lr, #1"),
        (0xf10e_0093, "cpsid i, #19"),
        (0xe129_f002, "msr cpsr_fc, r2"),
        (0xe106_0200, "mrs r0, lr_usr"),
        (0xe6b1_0002, "ldrt r0, [r1], r2"),
        (0xe8fd_8001, "ldm sp!, {r0, pc} ^"),
        (0xf96d_0513, "srsdb sp!, #19"),
        (0xee1d_0f90, "mrc p15, #0, r0, c13, c0, #4"),
        (0xed91_0f01, "ldc p15, c0, [r1, #4]"),
    ];
    for (word, text) in texts {
        assert_eq!(
            sensitive_a32(word)
                .map(|found| Text(&found).to_string())
                .as_deref(),
            Some(text)
        );
    }
}

/// MSR (immediate) that would change nothing (DDI 0406C A5.2.11); who waits is to be known.
#[test]
fn hints_of_a32_are_told_from_msr() {
    for (word, name) in [
        (0xe320_f001, Some("YIELD")),
        (0xe320_f002, Some("WFE")),
        (0xe320_f003, Some("WFI")),
        (0xe320_f004, Some("SEV")),
        (0xe320_f000, None), // nop
        (0xe320_f0f0, None), // dbg
        (0xe321_f003, Some("MSR")),
        (0xe360_f003, Some("MSR")),
    ] {
        let found = sensitive_a32(word);
        let class = name.map(|name| match name {
            "MSR" => StatusRegister,
            _ => Class::Hint,
        });
        let said = found.map(|found| (mnemonic(&found.operation), found.class()));
        assert_eq!(said, name.zip(class), "{word:x}");
    }
    let sound = |word| sensitive_a32(word).map(|found| found.as_it_should_be);
    assert_eq!(sound(0xe320_f003), Some(true));
    assert_eq!(sound(0xe320_e003), Some(false));
    assert_eq!(sound(0xe321_f003), Some(true));
    // SPSR with no field to write.
    assert_eq!(sound(0xe360_f003), Some(false));
}

/// What of CP14 User mode may reach where the system says so: DBGDSCR.UDCCdis (C6.4.1), TEECR.XED
/// (B4.1), JOSCR.CD (A2.10).
#[test]
fn debug_thumbee_and_jazelle_are_as_configured_in_user_mode() {
    use UserMode::Configured;
    let register = |opc1: u32, crn: u32, crm: u32, opc2: u32, read: bool| {
        0xee00_1e10 | u32::from(read) << 20 | opc1 << 21 | crn << 16 | opc2 << 5 | crm
    };
    for (word, user) in [
        (register(0, 0, 5, 0, true), Configured), // DBGDTRRXint
        (register(0, 0, 5, 0, false), Configured),
        (register(0, 0, 0, 0, true), Configured), // DBGDIDR
        (register(0, 0, 0, 0, false), Undefined),
        (register(0, 0, 1, 0, true), Configured), // DBGDSCRint
        (register(0, 0, 1, 0, false), Undefined),
        (register(0, 1, 0, 0, true), Configured), // DBGDRAR
        (register(0, 2, 0, 0, true), Configured), // DBGDSAR
        (register(0, 2, 0, 0, false), Undefined),
        (register(0, 3, 0, 0, true), Undefined),
        (register(0, 0, 2, 2, true), Undefined), // DBGDSCRext
        (register(1, 7, 3, 5, false), Configured), // trace
        (register(6, 0, 0, 0, true), Configured), // TEECR
        (register(6, 0, 0, 0, false), Undefined),
        (register(6, 1, 0, 0, false), Configured), // TEEHBR
        (register(6, 2, 0, 0, true), Undefined),
        (register(7, 0, 0, 0, true), Configured),  // JIDR
        (register(7, 1, 0, 0, true), Undefined),   // JOSCR
        (register(7, 2, 0, 0, false), Configured), // JMCR
        (register(7, 2, 0, 1, false), Undefined),
        (0xec51_0e01, Configured), // mrrc p14, #0, r0, r1, c1
        (0xec51_0e02, Configured),
        (0xec51_0e03, Undefined),
        (0xec51_0e11, Undefined),
        (0xec41_0e01, Undefined),  // mcrr
        (0xed91_5e00, Configured), // ldc p14, c5, [r1]
        (0xed91_4e00, Undefined),
        (0xedd1_5e00, Undefined), // ldcl
        // The second kinds have none.
        (register(0, 0, 5, 0, true) | 0xf000_0000, Undefined),
    ] {
        let found = sensitive_a32(word).map(|found| found.user);
        assert_eq!(found, Some(user), "{word:x}");
    }
}

/// What of CP15 User mode may do, and what the system may open or close to it (DDI 0406C B3.17,
/// B4.1, B8.1).
#[test]
fn registers_of_cp15_are_as_the_manual_says_in_user_mode() {
    use UserMode::{Configured, Legal};
    let register = |crn: u32, crm: u32, opc2: u32, read: bool| {
        0xee00_1f10 | u32::from(read) << 20 | crn << 16 | opc2 << 5 | crm
    };
    for (row, write, read) in [
        ((7, 5, 4), Legal, Undefined),  // CP15ISB
        ((7, 10, 4), Legal, Undefined), // CP15DSB
        ((7, 10, 5), Legal, Undefined), // CP15DMB
        ((7, 10, 1), Undefined, Undefined),
        ((13, 0, 1), Undefined, Undefined),   // CONTEXTIDR
        ((13, 0, 2), Legal, Legal),           // TPIDRURW
        ((13, 0, 3), Undefined, Legal),       // TPIDRURO
        ((13, 0, 4), Undefined, Undefined),   // TPIDRPRW
        ((9, 12, 0), Configured, Configured), // PMCR
        ((9, 13, 2), Configured, Configured),
        ((9, 14, 0), Undefined, Legal),     // PMUSERENR
        ((9, 14, 1), Undefined, Undefined), // PMINTENSET
        ((9, 14, 2), Undefined, Undefined), // PMINTENCLR
        ((9, 14, 3), Configured, Configured),
        ((9, 11, 0), Undefined, Undefined),
        ((14, 0, 0), Undefined, Configured),  // CNTFRQ
        ((14, 1, 0), Undefined, Undefined),   // CNTKCTL
        ((14, 2, 0), Configured, Configured), // CNTP_TVAL
        ((14, 3, 1), Configured, Configured), // CNTV_CTL
        ((14, 2, 2), Undefined, Undefined),
        ((14, 7, 0), Undefined, Undefined),
        ((14, 8, 0), Configured, Configured),  // PMEVCNTR0
        ((14, 15, 7), Configured, Configured), // PMCCFILTR
        ((11, 0, 0), Configured, Configured),
        ((15, 0, 0), Configured, Configured),
        ((1, 0, 0), Undefined, Undefined), // SCTLR
    ] {
        let (crn, crm, opc2) = row;
        let user = |read| sensitive_a32(register(crn, crm, opc2, read)).map(|found| found.user);
        assert_eq!(
            [user(false), user(true)],
            [Some(write), Some(read)],
            "{row:?}"
        );
    }
}

/// MRS of each banked register (DDI 0406C B9.3.9, table B9-1): SYSm is R and M1.
#[test]
fn banked_registers_have_their_names() {
    let names = [
        "r8_usr", "r9_usr", "r10_usr", "r11_usr", "r12_usr", "sp_usr", "lr_usr", "", "r8_fiq",
        "r9_fiq", "r10_fiq", "r11_fiq", "r12_fiq", "sp_fiq", "lr_fiq", "", "lr_irq", "sp_irq",
        "lr_svc", "sp_svc", "lr_abt", "sp_abt", "lr_und", "sp_und", "", "", "", "", "lr_mon",
        "sp_mon", "elr_hyp", "sp_hyp",
    ];
    for (mode, name) in (0..).zip(names) {
        let word = 0xe100_0200 | (mode & 0xf) << 16 | (mode >> 4) << 8;
        let found = sensitive_a32(word).unwrap();
        assert_eq!(found.as_it_should_be, !name.is_empty(), "{mode}");
        if found.as_it_should_be {
            assert_eq!(Text(&found).to_string(), format!("mrs r0, {name}"));
        }
    }
    for (mode, name) in [
        (14, "fiq"),
        (16, "irq"),
        (18, "svc"),
        (20, "abt"),
        (22, "und"),
        (28, "mon"),
        (30, "hyp"),
    ] {
        let word = 0xe140_0200 | (mode & 0xf) << 16 | (mode >> 4) << 8;
        let text = sensitive_a32(word).map(|found| Text(&found).to_string());
        assert_eq!(text, Some(format!("mrs r0, spsr_{name}")));
    }
}
