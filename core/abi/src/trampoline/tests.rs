use super::*;

const FREE: Free = Free {
    registers: 0x1000,
    flags: true,
};

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
    for field in fields.chain([Field::PSR, Field::SPSR, Field::MASK]) {
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
    for (word, len) in [(0xe10f_0000, 8), (0xe121_f000, 8), (0x1121_f000, 11)] {
        assert_eq!(Template::of(word, FREE).map(|found| found.len()), Some(len));
    }
}

#[test]
fn a_room_is_known_by_its_header() {
    let [a, b, c] = HEADER;
    assert_eq!(room([a, b, c, 3]), Some(3));
    assert_eq!(room([a, b, c, 0]), None);
    assert_eq!(room([a, b, c, u32::MAX]), None);
    assert_eq!(room([0, b, c, 3]), None);
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
