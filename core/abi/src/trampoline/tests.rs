use super::model::{Cpu, Page};
use super::*;
use crate::trap::trap_a32;
use std::vec::Vec;

const FREE: Free = Free {
    registers: 0x1000,
    flags: true,
};

/// A virtual CPU of zeros.
fn cpu() -> Cpu {
    Cpu {
        registers: [0; 15],
        flags: 0,
        page: Page::default(),
    }
}

#[test]
fn branches_come_back() {
    for (at, to) in [
        (0x8000, 0x8000),
        (0xc030_0000, 0xc020_9080),
        (0x10, 0x200_0010),
    ] {
        let word = branch(ALWAYS, at, to).expect("it reaches");
        assert_eq!(branch_target(word, at), Some(to));
    }
    assert_eq!(
        branch(ALWAYS, 0, 0x200_0008),
        None,
        "32 MB ahead, but for the pipeline"
    );
    assert_eq!(branch(ALWAYS, 0, 0x102), None, "no instruction");
    assert_eq!(branch_target(0xeb00_0000, 0), None, "BL");
}

#[test]
fn both_aliases_are_reached_from_all_of_a_code_page() {
    let fields = KNOWN.iter().map(|known| known.field);
    for field in fields.chain([
        Field::USER_SP,
        Field::PSR,
        Field::SPSR,
        Field::SCRATCH,
        Field::MASK,
    ]) {
        let places = CODE.step_by(4).map(|x| 0x1_1000 + x);
        let mut reached = places.map(|at| reach(at, field));
        assert!(reached.all(|found| found.is_some()), "{field:?}");
    }
}

#[test]
fn what_changes_the_mask_begins_where_the_pc_says_so() {
    for (word, bit) in [(CPSID_I, MASKED), (CPSIE_I, 0)] {
        let template = Template::of(word, Free::default()).expect("no register is needed");
        for at in (0x1_1080..0x1_1200).step_by(4) {
            let start = template.start(at);
            assert!(start >= at && start - at <= MASKED);
            assert_eq!(start.wrapping_add(PIPELINE) & MASKED, bit);
        }
    }
}

#[test]
fn no_two_registers_share_a_field_and_no_template_is_longer_than_it_may_be() {
    for (n, one) in KNOWN.iter().enumerate() {
        let mut others = KNOWN.iter().skip(n + 1);
        assert!(others.all(|other| other.field != one.field && other.mrc != one.mrc));
        assert!(one.field != Field::PSR && one.field != Field::SPSR);
    }
    for (word, free, spilled) in [
        (0xe10f_0000, 8, 10),
        (0xe121_f000, 8, 11),
        (0x1121_f000, 11, 15),
    ] {
        let len = |registers| {
            let found = Template::of(word, Free { registers, ..FREE });
            found.map(|found| found.len())
        };
        assert_eq!((len(0x1000), len(0)), (Some(free), Some(spilled)));
        assert!(spilled <= MAX_STEPS);
    }
}

#[test]
fn a_room_is_known_by_its_header() {
    let [a, b, c] = HEADER;
    let [triples, doorbells] = [3, 1];
    for foresees in [false, true] {
        let room = Room {
            triples,
            doorbells,
            foresees,
        };
        let [first, second] = room.words();
        assert_eq!(super::room([a, b, c, first, second]), Some(room));
    }
    assert_eq!(room([a, b, c, 3, 4]), None);
    assert_eq!(room([a, b, c, 0, 0]), None);
    assert_eq!(room([a, b, c, u32::MAX, 0]), None);
    assert_eq!(room([0, b, c, 3, 1]), None);
}

#[test]
fn what_stores_the_mask_rings() {
    let rings = |word| Template::of(word, FREE).map(|template| template.rings());
    // cpsie i, cpsid i, msr cpsr_c, r1; mrs r1, cpsr; msr spsr, r1; mcr p15, 0, r1, c3, c0, 0.
    let words = [
        0xf108_0080,
        0xf10c_0080,
        0xe121_f001,
        0xe10f_1000,
        0xe16f_f001,
        0xee03_1f10,
    ];
    let expected = [true, true, true, false, false, false];
    assert_eq!(words.map(rings), expected.map(Some));
}

#[test]
fn branches_of_t32_come_back() {
    for (site, at) in [
        (0x8000, 0x8000),
        (0xc030_0002, 0xc020_9080),
        (0, 0x100_0000),
        (0x100_0000, 4),
        (0xff_fffe, 0x12_3458),
    ] {
        let both = t32::enter(site, at).unwrap_or_else(|| panic!("{site:x} reaches {at:x}"));
        assert_eq!(t32::entered(both, site), Some(at), "{site:x} {both:x}");
    }
    // The manual's example of no distance at all: B.W to itself.
    assert_eq!(t32::enter(0x1000, 0x1000), Some(0xf7ff_bffe));
    assert_eq!(t32::enter(0, 0x100_0004), None, "16 MB ahead");
    assert_eq!(
        t32::enter(0x100_0000, 0),
        None,
        "16 MB and the pipeline back"
    );
    assert_eq!(t32::entered(0xf7ff_fffe, 0), None, "BL");
}

#[test]
fn instructions_of_t32_have_a_twin_in_a32() {
    for (both, word) in [
        (0xee1d_0f90, 0xee1d_0f90), // mrc p15, 0, r0, c13, c0, 4
        (0xf3ef_8c00, 0xe10f_c000), // mrs ip, cpsr
        (0xf3ff_8100, 0xe14f_1000), // mrs r1, spsr
        (0xf385_8100, 0xe121_f005), // msr cpsr_c, r5
        (0xf39e_8f00, 0xe16f_f00e), // msr spsr_fsxc, lr
        (0xf3af_8640, 0xf10c_0080), // cpsid.w i
        (0xf3af_8440, 0xf108_0080), // cpsie.w i
    ] {
        assert_eq!(t32::as_a32(both), Some(word), "{both:x}");
    }
    for both in [0xf3af_8003, 0xf3af_8753, 0xf3de_8f00, 0xf850_0e00] {
        assert_eq!(t32::as_a32(both), None, "{both:x}");
    }
}

#[test]
fn of_t32_it_is_longer_by_entry_and_literal() {
    for both in [0xf3ef_8000, 0xf380_8100, 0xf3af_8640, 0xee03_0f10] {
        let word = t32::as_a32(both).expect("a twin");
        let [a32, t32] = [Template::of(word, FREE), Template::of_t32(both, FREE)];
        let (a32, t32) = (a32.expect("A32"), t32.expect("T32"));
        assert_eq!(t32.len(), a32.len() + 2);
        assert!(t32.len() <= MAX_WORDS);
        let (at, site) = (t32.start(0x1_1080), 0x2_0002);
        let words: [Option<u32>; MAX_WORDS] = core::array::from_fn(|n| t32.word(n, at, site));
        assert_eq!(words.iter().flatten().count(), t32.len());
        assert_eq!(words[0], Some(0xbf00_4778));
        assert_eq!(words[t32.len() - 1], Some(site + 5));
        assert_eq!(words[t32.len() - 2], Some(0xe51f_f004), "ldr pc, [pc, #-4]");
    }
}

/// Fields are reached from the first to the last instruction of a code page that can reach one.
#[test]
fn as_far_is_reached_as_the_instruction_has_bits() {
    for field in Field::all() {
        for place in (0..=0xff0).step_by(4) {
            let alias = if field == Field::MASK {
                -0x1000
            } else {
                0x1000
            };
            let distance: i32 = alias + field.offset() as i32 - (place + 8);
            let add = if distance >= 0 { 1 << 23 } else { 0 };
            let expected = (distance.abs() < 0x1000).then_some(add + distance.unsigned_abs());
            let found = reach(0x1_1000 + place as u32, field);
            assert_eq!(found, expected, "{field:?} from {place:#x}");
        }
    }
}

#[test]
fn the_fields_are_all_there() {
    let known = KNOWN.map(|known| known.field.offset());
    let mut expected = known.to_vec();
    let others = [
        Field::USER_SP,
        Field::USER_LR,
        Field::PSR,
        Field::SPSR,
        Field::TPIDRURO,
        Field::MASK,
    ];
    expected.extend(others.map(Field::offset));
    expected.sort_unstable();
    let found: Vec<u32> = Field::all().map(Field::offset).collect();
    assert_eq!(found, expected);
    // The hypervisor writes pairs of fields.
    assert!(
        found
            .iter()
            .all(|offset| offset ^ Field::SCRATCH.offset() > 7)
    );
}

/// With the condition 0b1111 the word is another instruction (DDI 0406C A5.7): MRC2, SETEND, BLX.
#[test]
fn without_a_condition_nothing_but_cps_is_known() {
    let free = Free {
        registers: 0x1fff,
        flags: true,
    };
    let words = KNOWN.map(|known| known.mrc);
    for word in words
        .into_iter()
        .chain([0x010f_0000, 0x0121_f000, 0x014f_0000, 0x016f_f000])
    {
        assert!(Template::of(ALWAYS | word, free).is_some(), "{word:x}");
        assert_eq!(Template::of(0xf000_0000 | word, free), None, "{word:x}");
        let mut cpu = cpu();
        assert!(cpu.emulate(ALWAYS | word).is_some(), "{word:x}");
        let before = cpu;
        assert_eq!(cpu.emulate(0xf000_0000 | word), None, "{word:x}");
        assert_eq!(cpu, before);
    }
    assert_eq!(branch_target(0xfa00_0000, 0), None, "BLX");
    assert_eq!(branch_target(0xea00_0000, 0), Some(8));
}

/// The words of a trampoline where these are free.
fn words(word: u32, registers: u16, flags: bool) -> Vec<u32> {
    let template = Template::of(word, Free { registers, flags }).expect("it has one");
    let numbers = 0..template.len();
    let words = numbers.map(|number| template.word(number, 0x1_1080, 0x1_2000));
    words.map(Option::unwrap).collect()
}

/// Both ways to write I while mode and F stay, instruction by instruction.
#[test]
fn msr_is_done_by_these_instructions() {
    let words = |word, flags| words(word, 1 << 12, flags);
    let svc = trap_a32(0xe121_f005).expect("MSR traps");
    let expected = [
        0xe59f_cf80, // ldr ip, [pc, #0xf80]: mode and F
        0xe02c_c005, // eor ip, ip, r5
        0xe31c_005f, // tst ip, #0x5f
        0x1a00_0001, // bne to the SVC
        0xe50f_5118, // str r5, [pc, #-0x118]: I, through the doorbell
        0xea00_03da, // b 0x12004
        svc,
        0xea00_03d8, // b 0x12004
    ];
    assert_eq!(words(0xe121_f005, true), expected);
    let expected = [
        0xe59f_cf80, // ldr ip, [pc, #0xf80]
        0xe02c_c005, // eor ip, ip, r5
        0xe20c_c05f, // and ip, ip, #0x5f
        0xe28c_c07f, // add ip, ip, #0x7f
        0xe20c_c080, // and ip, ip, #0x80
        0xe08f_f22c, // add pc, pc, ip, lsr #4
        0xe7f0_00f0, // udf #0
        0xe50f_5124, // str r5, [pc, #-0x124]
        0xea00_03d7, // b 0x12004
        svc,
        0xea00_03d5, // b 0x12004
    ];
    assert_eq!(words(0xe121_f005, false), expected);
    // With a condition, which depends on the flags, the flags stay.
    assert_eq!(words(0x0121_f005, true), expected);
}

/// SP and LR of User mode go through two registers: free ones of STMDB, loaded ones of LDMDB.
#[test]
fn user_mode_s_registers_are_moved_by_these_instructions() {
    let expected = [
        0xe59f_1f78, // ldr r1, [pc, #0xf78]
        0xe59f_3f78, // ldr r3, [pc, #0xf78]
        0xe902_000a, // stmdb r2, {r1, r3}
        0xea00_03dc, // b 0x12004
    ];
    assert_eq!(words(0xe942_6000, 0b1110, false), expected);
    let expected = [
        0xe912_000a, // ldmdb r2, {r1, r3}
        0xe58f_1f74, // str r1, [pc, #0xf74]
        0xe58f_3f74, // str r3, [pc, #0xf74]
        0xe242_1008, // sub r1, r2, #8
        0xe911_1ffe, // ldmdb r1, {r1-r12}
        0xea00_03da, // b 0x12004
    ];
    assert_eq!(words(0xe952_7ffe, 0, false), expected);
    // No second register; R13 as the base; one register of the list; with a condition, writeback, or the PC.
    for word in [
        0xe941_6000,
        0xe94d_6000,
        0xe952_6002,
        0x0942_6000,
        0xe962_6000,
        0xe972_7ffe,
        0xe952_fffe,
    ] {
        let free = Free {
            registers: 0b110,
            flags: true,
        };
        assert_eq!(Template::of(word, free), None, "{word:x}");
    }
}

#[test]
fn a_thread_register_is_written_by_these_instructions() {
    let words = |how, registers, flags| {
        let free = Free { registers, flags };
        let template = Template::of_thread_write(0xee0d_af70, how, free)?;
        let numbers = 0..template.len();
        let words = numbers.map(|number| template.word(number, 0x1_1080, 0x1_2000));
        Some(words.map(Option::unwrap).collect::<Vec<_>>())
    };
    let expected = [
        0xe58f_afd0, // str r10, [pc, #0xfd0]
        0xee1d_cf70, // mrc p15, 0, r12, c13, c0, 3
        0xe13c_000a, // teq r12, r10
        0x0a00_03dc, // beq 0x12004
        0xee0d_af70, // mcr p15, 0, r10, c13, c0, 3
        0xea00_03da, // b 0x12004
    ];
    let foreseen = words(ThreadWrite::Foreseen, 0x1400, true);
    assert_eq!(foreseen.as_deref(), Some(&expected[..]));
    let expected = [0xe58f_afd0, 0xea00_03de];
    let deferred = words(ThreadWrite::Deferred, 0, false);
    assert_eq!(deferred.as_deref(), Some(&expected[..]));
    assert_eq!(words(ThreadWrite::Foreseen, 0x0400, true), None);
    assert_eq!(words(ThreadWrite::Foreseen, 0x1400, false), None);
    assert_eq!(words(ThreadWrite::Traps, 0x1400, true), None);
    for other in [0x0e0d_af70, 0xee1d_af70, 0xee0d_af50, 0xee0d_ff70] {
        let free = Free {
            registers: 0x1000,
            flags: true,
        };
        let template = Template::of_thread_write(other, ThreadWrite::Foreseen, free);
        assert_eq!(template, None, "{other:x}");
    }
}

/// Where no register is free, R12 is spilled, or R0.
#[test]
fn a_register_is_spilled_by_these_instructions() {
    let words = |word, flags| words(word, 0, flags);
    let svc = trap_a32(0xe121_f00c).expect("MSR traps");
    let expected = [
        0xe58f_0fd8, // str r0, [pc, #0xfd8]: SCRATCH
        0xe59f_0f7c, // ldr r0, [pc, #0xf7c]: mode and F
        0xe020_000c, // eor r0, r0, ip
        0xe310_005f, // tst r0, #0x5f
        0x1a00_0002, // bne to the second load of SCRATCH
        0xe50f_c11c, // str ip, [pc, #-0x11c]: I, through the doorbell
        0xe59f_0fc0, // ldr r0, [pc, #0xfc0]
        0xea00_03d8, // b 0x12004
        0xe59f_0fb8, // ldr r0, [pc, #0xfb8]
        svc,
        0xea00_03d5, // b 0x12004
    ];
    assert_eq!(words(0xe121_f00c, true), expected);
    let svc = trap_a32(0xe121_f005).expect("MSR traps");
    let expected = [
        0xe58f_cfd8, // str ip, [pc, #0xfd8]
        0xe59f_cf7c, // ldr ip, [pc, #0xf7c]
        0xe02c_c005, // eor ip, ip, r5
        0xe20c_c05f, // and ip, ip, #0x5f
        0xe28c_c07f, // add ip, ip, #0x7f
        0xe20c_c080, // and ip, ip, #0x80
        0xe08f_f1ac, // add pc, pc, ip, lsr #3
        0xe7f0_00f0, // udf #0
        0xe50f_5128, // str r5, [pc, #-0x128]
        0xe59f_cfb4, // ldr ip, [pc, #0xfb4]
        0xea00_03d5, // b 0x12004
        0xe7f0_00f0, // udf #0
        0xe59f_cfa8, // ldr ip, [pc, #0xfa8]
        svc,
        0xea00_03d1, // b 0x12004
    ];
    assert_eq!(words(0xe121_f005, false), expected);
}

/// What [`resume`] says of each instruction: whether the guest goes on behind the site, and whether R12 is restored.
#[test]
fn a_spilled_register_is_restored_wherever_it_is_not_its_own() {
    let resumed = |template: Option<Template>, words: u32| {
        let template = template.expect("it has one");
        let (at, site) = (0x1_1080, 0x1_2000);
        let fetch = |place: u32| template.word(((place - at) / 4) as usize, at, site);
        let each = (0..words).map(|number| {
            let Resumption { to, restored } = resume(at + 4 * number, fetch).expect("a trampoline");
            let behind = to & !1 == site + 4;
            assert!(behind || to & !1 == site, "{to:#x}");
            assert!(restored.is_none_or(|register| register == 12));
            (behind, restored.is_some())
        });
        each.collect::<Vec<_>>()
    };
    let (begins, spilled, done, back) =
        ((false, false), (false, true), (true, true), (true, false));
    let none = Free::default();
    let mut expected = std::vec![begins];
    expected.extend([spilled; 7]);
    expected.extend([done, back]);
    assert_eq!(
        resumed(Template::of(0xe10f_0000, none), 10),
        expected,
        "MRS"
    );
    // Before it the word that leaves T32, and behind it the literal.
    expected.insert(0, begins);
    let t32 = Template::of_t32(0xf3ef_8000, none);
    assert_eq!(resumed(t32, 11), expected, "MRS of T32");
    let mut expected = std::vec![begins];
    expected.extend([spilled; 8]);
    // The way back, a word that is never executed, and the load, the SVC, the branch of the other way.
    expected.extend([done, back, spilled, spilled, begins, back]);
    assert_eq!(
        resumed(Template::of(0xe121_f005, none), 15),
        expected,
        "MSR"
    );
}

/// The table of conditions (DDI 0406C A8.3), for all values of the flags.
#[test]
fn conditions_hold_as_the_manual_says() {
    for flags in 0..16u32 {
        let [n, z, c, v] = [3, 2, 1, 0].map(|bit| flags >> bit & 1 != 0);
        let expected = [
            z,            // EQ
            !z,           // NE
            c,            // CS
            !c,           // CC
            n,            // MI
            !n,           // PL
            v,            // VS
            !v,           // VC
            c && !z,      // HI
            !c || z,      // LS
            n == v,       // GE
            n != v,       // LT
            !z && n == v, // GT
            z || n != v,  // LE
            true,         // AL
        ];
        let cpu = Cpu {
            flags: flags << 28 | 0x080f_0000,
            ..cpu()
        };
        for (condition, expected) in expected.into_iter().enumerate() {
            assert_eq!(
                cpu.holds(condition as u32),
                expected,
                "{flags:x} {condition}"
            );
        }
    }
}

/// Every field is a word of its own; when pages are compared, one bit of the mask is used.
#[test]
fn a_page_s_fields_are_words_of_their_own() {
    let mut page = Page::default();
    for (index, field) in Field::all().enumerate() {
        let mut other = page;
        other.put(field, MASKED);
        assert_eq!(other.get(field), MASKED);
        assert!(!page.same(&other) && other.same(&other), "{field:?}");
        page.put(field, index as u32 + 1);
    }
    for (index, field) in Field::all().enumerate() {
        assert_eq!(page.get(field), index as u32 + 1, "{field:?}");
    }
    let mut other = page;
    other.put(Field::MASK, !MASKED);
    assert!(page.same(&other));
    other.put(Field::MASK, !0);
    assert!(!page.same(&other));
    // Other words and another mask.
    other.put(Field::PSR, !0);
    assert!(!page.same(&other));
}
