//! A32 and T32 code.

use crate::bytes::Bytes;
use hanok_decode::aarch32::{
    Calls, Definition, Effects, Encoding, Exception, Flow, Instruction, Isa, ItState, Place, Reach,
    Register, Registers, decode_a32, decode_t32, live, sensitive,
};

/// Every encoding has an answer that holds together, and so has what is live at any place of
/// any code.
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
        found.condition.reads().without(flags_read).is_empty(),
        "{found:x?}"
    );
    assert_eq!(found.sensitive, sensitive(found.encoding, it));
    if let Some(sensitive) = found.sensitive {
        let defined = found.definition == Definition::Defined;
        assert_eq!(sensitive.as_it_should_be, defined, "{found:x?}");
        assert_eq!(sensitive.encoding, found.encoding);
        assert_eq!(sensitive.effects, found.effects);
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

/// What it jumps to is aligned as its instruction set demands.
fn goes(found: &Instruction) {
    let isa = match found.flow {
        Flow::Call { isa, .. } => isa,
        _ => found.encoding.isa(),
    };
    for address in [0, found.encoding.isa().alignment(), 0xffff_fffc] {
        if let Some(target) = found.target(address) {
            // A32's `add pc, pc, #constant` may have any.
            let computed = matches!(found.encoding, Encoding::A32(word) if word >> 25 & 7 == 1);
            assert!(computed || target % isa.alignment() == 0, "{found:x?}");
        }
    }
}

/// What is live with less supposed or less looked at is never less.
fn code(data: &[u8], isa: Isa) {
    let read = |address: u32| {
        let at = address as usize;
        let bytes = data.get(at..at + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    };
    let at = |instructions, calls| {
        live(
            Place::new(0, isa),
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
