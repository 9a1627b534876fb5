//! Targets for the decoder and the analysis of A32 and T32 code.

use crate::bytes::Bytes;
use hanok_decode::aarch32::{
    Contents, Encoding, Isa, ItState, LoadStore, Register, Registers, Slot, sensitive,
};
use hanok_instructions::{
    Calls, CodePosition, Definition, Effects, Exception, Flags, Flow, Instruction, Reach,
    decode_a32, decode_t32, live,
};

/// Every encoding has a consistent answer, and so have the live registers at any place of any code.
pub fn aarch32(data: &[u8]) {
    let mut input = Bytes(data);
    let it = ItState::from_bits(input.byte());
    ends(it);
    while !input.is_empty() {
        let word = input.word();
        let [first, second] = [(word >> 16) as u16, word as u16];
        one(&decode_a32(word), ItState::NONE);
        for it in [ItState::NONE, it] {
            let found = decode_t32(first, second, it);
            one(&found, it);
            if found.bytes() == 2 {
                assert_eq!(found, decode_t32(first, !second, it));
            }
        }
    }
    for isa in [Isa::A32, Isa::T32] {
        code(data, isa);
    }
}

/// A load or store's description is in its ranges, and no instruction has one of which the other
/// decoder says that it reads and writes nothing.
pub(crate) fn load_store(word: u32, it: u8) {
    let it = ItState::from_bits(it);
    let [first, second] = [(word >> 16) as u16, word as u16];
    let a32 = (decode_a32(word), ItState::NONE);
    for (whole, it) in [a32, (decode_t32(first, second, it), it)] {
        if let Some(access) = hanok_decode::aarch32::load_store(whole.encoding, it) {
            described(&access, &whole);
        }
    }
}

fn described(access: &LoadStore, whole: &Instruction) {
    let mut pieces = 0;
    for (piece, offset) in access.pieces(true).zip((0..).step_by(4)) {
        assert_eq!(piece.offset, offset, "{access:x?}");
        assert!(u64::from(piece.offset) + piece.general.width.bytes() <= access.bytes().into());
        if let Slot::Extension(word) = piece.slot {
            assert!(word < 64, "{access:x?}");
        }
        pieces += 1;
    }
    assert!(pieces <= 32 && access.bytes() <= 128, "{access:x?}");
    if whole.definition != Definition::Defined {
        return;
    }
    let base = access.address.base.set();
    // SRS stores to another mode's stack.
    let state = matches!(access.contents, Contents::State(_));
    assert!(
        state || whole.effects.reads.common(base) == base,
        "{access:x?}"
    );
    let writes = access.address.write_back.map_or(Registers::NONE, |_| base);
    let written = whole.effects.writes.common(writes);
    assert!(state || written == writes, "{access:x?}");
    let index = access
        .address
        .index()
        .map_or(Registers::NONE, Register::set);
    assert_eq!(whole.effects.reads.common(index), index, "{access:x?}");
    assert_eq!(access.condition, whole.condition);
}

/// A block is of at most four instructions.
fn ends(it: ItState) {
    let ended = (0..4).fold(it, |it, _| it.next());
    assert!(!ended.is_inside());
}

fn one(found: &Instruction, it: ItState) {
    let Effects {
        reads: _,
        writes,
        sets,
        flags_read,
        flags_written,
        flags_set,
    } = found.effects;
    assert_eq!(sets.without(writes), Registers::NONE, "{found:x?}");
    assert!(flags_set.without(flags_written).is_empty(), "{found:x?}");
    assert!(
        Flags::read_by(found.condition)
            .without(flags_read)
            .is_empty(),
        "{found:x?}"
    );
    assert_eq!(found.sensitive, sensitive(found.encoding, it));
    if let Some(sensitive) = found.sensitive {
        let defined = found.definition == Definition::Defined;
        assert_eq!(sensitive.as_it_should_be, defined, "{found:x?}");
        assert_eq!(sensitive.encoding, found.encoding);
        assert_eq!(hanok_instructions::effects(&sensitive), found.effects);
    }
    if found.definition == Definition::Undefined {
        assert_eq!(found.flow, Flow::Exception(Exception::Undefined));
    }
    match found.flow {
        Flow::Next | Flow::Exception(_) => {}
        _ => assert!(writes.contains(Register::PC), "{found:x?}"),
    }
    goes(found);
    ends(found.it_after(it));
}

/// A jump's target is aligned as its instruction set demands.
fn goes(found: &Instruction) {
    let isa = match found.flow {
        Flow::Call { isa, .. } => isa,
        _ => found.encoding.isa(),
    };
    for address in [0, found.encoding.isa().alignment(), 0xffff_fffc] {
        if let Some(target) = found.target(address) {
            // A32's `add pc, pc, #constant` may have any target.
            let computed = matches!(found.encoding, Encoding::A32(word) if word >> 25 & 7 == 1);
            assert!(computed || target % isa.alignment() == 0, "{found:x?}");
        }
    }
}

/// With fewer assumptions or less code looked at, never fewer registers are live.
fn code(data: &[u8], isa: Isa) {
    let read = |address: u32| {
        let at = address as usize;
        let bytes = data.get(at..at + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    };
    let at = |instructions, calls| {
        live(
            CodePosition::new(0, isa),
            Reach {
                instructions,
                calls,
            },
            read,
        )
    };
    let [unknown, standard] = [Calls::Unknown, Calls::Standard].map(|calls| at(40, calls));
    let none = at(0, Calls::Standard);
    assert_eq!(none.registers, Registers::ALL);
    for found in [unknown, standard] {
        let fixed = [Register::SP, Register::PC];
        assert!(
            fixed
                .into_iter()
                .all(|register| found.registers.contains(register))
        );
        assert!(found.flags.without(none.flags).is_empty());
    }
}

/// LDR by a register, LDRD, STM, VLDM, VLD2, LDREXD, SWP, RFE; T32's LDRD, LDM, LDRT, TBH, VSTR.
pub(crate) const ACCESSES: [u32; 13] = [
    0xe793_2101,
    0xe1c3_20d8,
    0xe92d_4010,
    0xecb1_2b04,
    0xf421_088d,
    0xe1b1_2f9f,
    0xe101_2093,
    0xf891_0a00,
    0xe9f3_2304,
    0xe8b3_0014,
    0xf853_2e04,
    0xe8d1_f012,
    0xed81_2b02,
];

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // cmp, bne, ldr literal, mrs, cpsid, mcr, ldm^, blx, pop; and T32: it, push, bl, tbb, pop.
    let a32 = [
        0xe350_0000u32,
        0x1aff_fffc,
        0xe59f_0010,
        0xe10f_0000,
        0xf10c_0080,
        0xee01_0f10,
        0xe8fd_8001,
        0xe12f_ff33,
        0xe8bd_8010,
    ];
    let t32 = [
        0xbf08u16, 0x3001, 0xb510, 0xf000, 0xf801, 0xe8df, 0xf000, 0xf3ef, 0x8000, 0xb672, 0xbd10,
    ];
    vec![
        a32.iter().flat_map(|word| word.to_le_bytes()).collect(),
        t32.iter().flat_map(|half| half.to_le_bytes()).collect(),
    ]
}
