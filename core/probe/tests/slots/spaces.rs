//! Words at random, beside two decoders that know nothing of this crate: what stays as it is has
//! no PC among its operands, and what is refused or rewritten has a reason.

use crate::{relocated_a64, relocated_arm};
use hanok_decode::aarch32::{Encoding, ItState, Register};
use hanok_instructions::{
    Definition, Exception, Flow, Instruction, TableKind, decode_a32, decode_t32,
};
use hanok_probe::{InstructionSet, Refused, Site, relocate};
use hanok_types::Gva;
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv7;
use yaxpeax_arm::armv8::a64::{InstDecoder, Opcode, Operand};

/// What became of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Same,
    Rewritten,
    Refused(&'static str),
}

const AT: u64 = 0x4000_0000;
const SLOT: u64 = 0x4000_8000;

/// What becomes of an instruction of this number of bytes. In T32, one of two bytes is displaced
/// together with a NOP.
fn fate(site: &Site<'_>, bytes: usize) -> Fate {
    match relocate(site, Gva::new(SLOT)) {
        Err(why) => Fate::Refused(name(why)),
        Ok(made) => {
            // The instruction, a NOP in the place of a second one, and the branch back.
            let same = made.code.bytes().get(..bytes) == site.code.get(..bytes);
            if same && made.code.bytes().len() == 8 {
                Fate::Same
            } else {
                Fate::Rewritten
            }
        }
    }
}

fn name(why: Refused) -> &'static str {
    match why {
        Refused::Unknown => "unknown",
        Refused::Exclusive => "exclusive",
        Refused::Exception => "exception",
        Refused::ChangesTranslation => "translation",
        Refused::OpensItBlock => "it",
        Refused::TableBranch => "table",
        Refused::VectorLiteral => "vector",
        Refused::NeedsRegister => "register",
        Refused::IntoSite => "into",
        Refused::TargetOutOfReach => "far",
        _ => "other",
    }
}

/// A generator of words (SplitMix64).
struct Words(u64);

impl Words {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as u32
    }
}

/// What is relative to the PC, or takes an exception, or is exclusive, by the other decoder's name of
/// it.
fn is_never_let_through(opcode: Opcode) -> bool {
    let name = format!("{opcode:?}");
    let exclusive = [
        "LDXR", "LDXP", "LDAXR", "LDAXP", "STXR", "STXP", "STLXR", "STLXP",
    ];
    let exceptions = [
        "SVC", "HVC", "SMC", "BRK", "HLT", "DCPS", "UDF", "BL", "BLR", "BLRA",
    ];
    exclusive.iter().any(|prefix| name.starts_with(prefix))
        || exceptions.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether this other decoder, which takes reserved words for instructions, tells of one that we
/// refuse only because we do not know it.
fn a64(words: u32, seed: u64) {
    let mut random = Words(seed);
    for _ in 0..words {
        let word = random.next();
        let bytes = word.to_le_bytes();
        let ours = fate(&relocated_a64::site(AT, &bytes), 4);
        let theirs = InstDecoder::default()
            .decode(&mut U8Reader::new(&bytes))
            .ok();
        let Some(theirs) = theirs.filter(|theirs| theirs.opcode != Opcode::Invalid) else {
            // SIMD, new loads and stores, and WFET, which it does not know.
            let simd = word >> 25 & 7 == 7;
            let memory = word >> 25 & 5 == 4;
            let known = simd || memory || word & 0xffff_ffc0 == 0xd503_1000;
            assert!(
                ours != Fate::Rewritten && (ours != Fate::Same || known),
                "{word:#x}"
            );
            continue;
        };
        let relative = theirs
            .operands
            .iter()
            .any(|one| matches!(one, Operand::PCOffset(_)));
        match ours {
            Fate::Same => {
                assert!(
                    !relative && !is_never_let_through(theirs.opcode),
                    "{word:#x} {theirs}"
                );
            }
            Fate::Rewritten => assert!(relative || word >> 25 == 0x6b, "{word:#x} {theirs}"),
            Fate::Refused("vector" | "register" | "far") => {
                assert!(relative || word >> 25 == 0x6b, "{word:#x} {theirs}");
            }
            Fate::Refused(_) => {}
        }
    }
}

#[test]
fn a64_words_that_stay_have_no_pc() {
    a64(4_000_000, 1);
}

#[test]
#[ignore = "minutes"]
fn a64_words_that_stay_have_no_pc_by_the_hundred_million() {
    a64(100_000_000, 2);
}

/// What the other decoder of AArch32 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theirs {
    Same,
    Relative,
    Exception,
    Table,
    OpensBlock,
    /// UNPREDICTABLE, and the PC has no part in it.
    Unpredictable,
    Undefined,
}

fn theirs(found: &Instruction) -> Theirs {
    let pc = found.effects.reads.contains(Register::PC);
    let call = matches!(found.flow, Flow::CallRegister(_));
    let relative = found.reference.is_some() || pc || call;
    match (found.definition, found.flow) {
        (_, Flow::Exception(Exception::Undefined)) => Theirs::Undefined,
        (Definition::Unpredictable, Flow::Exception(_)) => Theirs::Undefined,
        (Definition::Unpredictable, _) if !relative => Theirs::Unpredictable,
        (Definition::Undefined | Definition::Unpredictable, _) => Theirs::Undefined,
        (_, Flow::Exception(_)) => Theirs::Exception,
        (_, Flow::Table(table))
            if matches!(table.kind, TableKind::Bytes | TableKind::Halfwords) =>
        {
            Theirs::Table
        }
        (_, Flow::Jump { .. } | Flow::Call { .. }) => Theirs::Relative,
        _ if relative => Theirs::Relative,
        _ if found.opens.is_inside() => Theirs::OpensBlock,
        _ => Theirs::Same,
    }
}

/// A coprocessor that only a CPU of its own could have, or LDC and STC of coprocessors 14 and 15,
/// the second space of coprocessor instructions, and VFP, all of which this decoder takes for
/// defined.
fn is_other_coprocessor(encoding: Encoding) -> bool {
    let word = encoding.bits();
    let (number, kind) = (word >> 8 & 15, word >> 24 & 15);
    let second = word >> 28 == 15;
    let pair = word & 0x0fe0_0000 == 0x0c40_0000;
    let vector = matches!(number, 10 | 11);
    encoding.bytes() == 4
        && matches!(kind, 12..=14)
        && (second || vector || number < 14 || kind < 14 && !pair || word & 16 == 0)
}

fn agree(ours: Fate, theirs: Theirs, encoding: Encoding) -> bool {
    match ours {
        Fate::Same => matches!(theirs, Theirs::Same | Theirs::Unpredictable),
        Fate::Rewritten => theirs == Theirs::Relative,
        Fate::Refused("register" | "vector" | "into") => {
            !matches!(theirs, Theirs::Same | Theirs::Table | Theirs::OpensBlock)
        }
        Fate::Refused("unknown") => {
            let none = matches!(theirs, Theirs::Unpredictable | Theirs::Undefined);
            none || is_other_coprocessor(encoding)
        }
        Fate::Refused("exception") => matches!(theirs, Theirs::Exception | Theirs::Undefined),
        Fate::Refused("exclusive" | "translation") => {
            !matches!(theirs, Theirs::Relative | Theirs::Exception)
        }
        Fate::Refused("table") => !matches!(theirs, Theirs::Same | Theirs::Relative),
        Fate::Refused("it") => matches!(theirs, Theirs::OpensBlock | Theirs::Unpredictable),
        Fate::Refused(_) => false,
    }
}

/// A third opinion, as text: yaxpeax-arm's. It panics at some pairs whose second register would
/// be R16. CLZ and its like have their register twice, and it looks at the second one alone.
fn third(encoding: Encoding) -> Option<String> {
    let (bits, thumb) = match encoding {
        Encoding::A32(word) if word & 0x0e10_00d0 == 0x0000_00d0 => return None,
        Encoding::A32(word) => (word, false),
        Encoding::Narrow(half) => (half.into(), true),
        Encoding::Wide(both) => (both.rotate_left(16), true),
    };
    let decoder = armv7::InstDecoder::default().with_thumb_mode(thumb);
    let found = decoder
        .decode(&mut U8Reader::new(&bits.to_le_bytes()))
        .ok()?;
    Some(found.to_string())
}

/// A memory hint that is unallocated, and does nothing (A5.7.1, A6.3.8).
fn is_unallocated_hint(encoding: Encoding) -> bool {
    match encoding {
        Encoding::A32(word) => word & 0xfd70_0000 == 0xf410_0000,
        Encoding::Wide(both) => both & 0xff7f_f000 == 0xf93f_f000,
        Encoding::Narrow(_) => false,
    }
}

/// Memory hints; BFC, which is BFI with the PC; MRC of the flags.
const MARKED: [&str; 3] = ["nop", "bfc", "mrc"];

/// Whether the decoders agree.
fn aarch32(encoding: Encoding) -> bool {
    let (set, bits) = match encoding {
        Encoding::A32(word) => (InstructionSet::A32, word),
        Encoding::Narrow(half) => (InstructionSet::T32, 0xbf00 << 16 | u32::from(half)),
        Encoding::Wide(both) => (InstructionSet::T32, both.rotate_left(16)),
    };
    let bytes = bits.to_le_bytes();
    let ours = fate(
        &relocated_arm::site(set, AT as u32, &bytes),
        encoding.bytes() as usize,
    );
    let found = match encoding {
        Encoding::A32(word) => decode_a32(word),
        Encoding::Narrow(half) => decode_t32(half, 0, ItState::NONE),
        Encoding::Wide(both) => decode_t32((both >> 16) as u16, both as u16, ItState::NONE),
    };
    if ours == Fate::Same && found.flow == Flow::Next && found.definition == Definition::Defined {
        let text = third(encoding).unwrap_or_default();
        // It prints the PC where that only tells one instruction from another.
        let mark = MARKED.iter().any(|name| text.starts_with(name));
        assert!(mark || !text.contains("pc"), "{encoding:x?} {text}");
    }
    let theirs = theirs(&found);
    let agreed = agree(ours, theirs, encoding) || is_unallocated_hint(encoding);
    if !agreed {
        println!("{encoding:x?} {ours:?} {theirs:?} {:?}", found.flow);
    }
    agreed
}

/// Words of 32 bits, as A32 and as T32: how many times the decoders do not agree.
fn words(count: u32, seed: u64) -> usize {
    let mut random = Words(seed);
    let encodings = (0..count).flat_map(|_| {
        let word = random.next();
        [
            Encoding::A32(word),
            Encoding::Wide(word % 0x1800_0000 + 0xe800_0000),
        ]
    });
    encodings
        .filter(|encoding| !aarch32(*encoding))
        .take(60)
        .count()
}

#[test]
fn aarch32_words_that_stay_have_no_pc() {
    assert_eq!(words(4_000_000, 3), 0);
    assert!((0..0xe800).map(Encoding::Narrow).all(aarch32));
}

#[test]
#[ignore = "minutes"]
fn aarch32_words_that_stay_have_no_pc_by_the_fifty_million() {
    assert_eq!(words(50_000_000, 4), 0);
}
