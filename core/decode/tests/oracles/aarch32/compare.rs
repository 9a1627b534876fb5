//! The comparison.

use super::roles::{Roles, roles};
use super::sample;
use super::text::{self, InstructionSite, Text, plain};
use hanok_decode::aarch32::{Encoding, ItState, Register, Registers};
use hanok_instructions::{Definition, Flags, Flow, Instruction, decode_a32, decode_t32, mnemonic};

pub fn decode(encoding: Encoding, it: ItState) -> Instruction {
    match encoding {
        Encoding::A32(word) => decode_a32(word),
        Encoding::Narrow(half) => decode_t32(half, 0, it),
        Encoding::Wide(both) => decode_t32((both >> 16) as u16, both as u16, it),
    }
}

/// Why the reading of `text`, which stands at `address`, is not ours.
fn difference(ours: &Instruction, text: &str, address: u32) -> Option<String> {
    let said = Text::of(text);
    // LLVM prints no condition where there should be none; and names of VFP end alike.
    let defined = ours.definition == Definition::Defined;
    let conditional = (defined || matches!(ours.encoding, Encoding::A32(_)))
        && !said.name.starts_with('v')
        && said.name != "hvc"
        && said.name != "bkpt";
    if conditional && Flags::read_by(said.condition) != Flags::read_by(ours.condition) {
        return Some(format!("condition {:?}", said.condition));
    }
    if ours.definition == Definition::Undefined && !second_kind(ours.encoding) {
        // UDF, and what LLVM calls it where it has a use for it.
        let undefined = ["udf", "trap", "__brkdiv0"].contains(&said.name.as_str());
        return (!undefined).then(|| "undefined".into());
    }
    if second_kind(ours.encoding) {
        return None;
    }
    let named = ours
        .sensitive
        .map(|found| mnemonic(&found.operation).to_lowercase());
    // With the PC where it may not stand it is no exception return, but nothing.
    let none = named.is_none() && !defined && said.sets_flags;
    if named != said.sensitive() && !none {
        return Some(format!("sensitive {named:?}, not {:?}", said.sensitive()));
    }
    if let Some(found) = ours.sensitive.filter(|found| found.as_it_should_be) {
        let (mine, their) = (hanok_instructions::Text(&found).to_string(), plain(text));
        if mine != their {
            return Some(format!("text {mine:?}, not {their:?}"));
        }
    }
    if let Some(expected) = roles(&said) {
        let found = found(ours, &expected);
        if found != expected && !(ours.definition == Definition::Unpredictable && either(&said)) {
            return Some(format!("ours   {found:?}\n  theirs {expected:?}"));
        }
        // Where the PC may not stand, LLVM shows it all the same.
        let leaves = expected.writes.contains(Register::PC);
        if defined && leaves == (ours.flow == Flow::Next) {
            return Some("way".into());
        }
    }
    let place = ours
        .target(address)
        .or(ours.reference.map(|one| one.at.from(address)));
    match said.place {
        Some(_) if ours.definition == Definition::Defined && place != said.place => {
            Some(format!("place {place:x?}, not {:x?}", said.place))
        }
        _ => None,
    }
}

/// Ours in the same words, as far as `expected` tells: not of the registers and flags that an
/// exception return or another mode brings with it.
fn found(ours: &Instruction, expected: &Roles) -> Roles {
    let changes_mode = ours.effects.flags_written.control() || ours.flow == Flow::Return;
    let banked = if changes_mode {
        Registers::from_bits(0x7f00)
    } else {
        Registers::NONE
    };
    let returns = if ours.flow == Flow::Return {
        Flags::APPLICATION
    } else {
        Flags::NONE
    };
    let told = Flags::APPLICATION
        .without(expected.open)
        .without(returns.without(expected.writes_flags));
    Roles {
        reads: ours.effects.reads,
        writes: ours.effects.writes.without(banked.without(expected.writes)),
        writes_flags: ours.effects.flags_written.common(told),
        open: expected.open,
        reads_flags: ours.effects.flags_read.common(Flags::APPLICATION),
    }
}

/// Encodings of VFP and Advanced SIMD, of which the decoder does not say whether they are
/// taken (DDI 0406C A5.6, A5.7, A6.3).
fn vectors(encoding: Encoding) -> bool {
    let bits = encoding.bits();
    let extension = bits >> 26 & 0b11 == 0b11 && matches!(bits >> 8 & 0xf, 10 | 11);
    match encoding {
        Encoding::A32(_) if bits >> 28 == 0xf => {
            extension || bits >> 25 & 0b111 == 0b001 || bits >> 24 & 0xf == 0b0100
        }
        Encoding::A32(_) => extension,
        Encoding::Narrow(_) => false,
        Encoding::Wide(_) => extension || bits >> 24 & 0xf == 0xf || bits >> 24 == 0xf9,
    }
}

/// Instructions that name an operand twice, and are UNPREDICTABLE where it is not the same, or
/// imply the second of a pair, and VMRS where the PC stands for the flags of another register
/// than FPSCR: LLVM shows another of the two there.
fn either(said: &Text) -> bool {
    [
        "rev", "rev16", "revsh", "rbit", "clz", "strexd", "ldrexd", "vmrs",
    ]
    .contains(&said.name.as_str())
}

/// LDC2 and its kind of coprocessors 10 and 11, which LLVM prints: there are none (DDI 0406C
/// A8.8, LDC and so on: "SEE Advanced SIMD and Floating-point").
fn second_kind(encoding: Encoding) -> bool {
    let unconditional = match encoding {
        Encoding::A32(word) => word >> 28 == 0xf,
        Encoding::Narrow(_) => false,
        Encoding::Wide(both) => both >> 28 == 0xf,
    };
    unconditional && vectors(encoding)
}

/// Preloads that are none yet, and do nothing (A5.7.1): LLVM knows none of them.
fn unknown_preload(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::A32(word) if word >> 28 == 0xf && word >> 20 & 0xd7 == 0x41)
}

/// Compares all; `Ok` is how many both know and hold for defined.
fn compare(place: InstructionSite, encodings: &[Encoding]) -> Result<usize, String> {
    let texts = text::disassemble(place, encodings);
    let mut known = 0;
    let mut different = Vec::new();
    for (index, (encoding, text)) in encodings.iter().zip(&texts).enumerate() {
        let ours = decode(*encoding, place.it());
        let address = place.address(index) as u32;
        let why = match text {
            // What may not stand in a block, LLVM shows as if it stood in none.
            Some(_)
                if place == InstructionSite::Block && ours.definition != Definition::Defined =>
            {
                None
            }
            Some(text) => difference(&ours, text, address),
            None if ours.definition != Definition::Defined => None,
            None if vectors(*encoding) || unknown_preload(*encoding) => None,
            None => Some("no such instruction".into()),
        };
        known += usize::from(text.is_some() && ours.definition == Definition::Defined);
        if let Some(why) = why {
            different.push(format!("{encoding:x?} {text:?}: {why}"));
        }
    }
    if std::env::var_os("ALL_DIFFERENCES").is_some() {
        different.iter().for_each(|one| println!("{one}"));
    }
    match different.first() {
        None => Ok(known),
        Some(first) => Err(format!("{} differ, first {first}", different.len())),
    }
}

fn agree(place: InstructionSite, encodings: &[Encoding], at_least: usize) {
    let known = compare(place, encodings).unwrap_or_else(|error| panic!("{error}"));
    assert!(known >= at_least, "{known} known");
}

#[test]
fn a32_is_llvm_s() {
    agree(InstructionSite::A32, &sample::a32(8, 1), 34_000);
}

#[test]
fn narrow_t32_is_llvm_s() {
    agree(InstructionSite::T32, &sample::narrow(), 57_000);
}

#[test]
fn narrow_t32_in_a_block_is_llvm_s() {
    agree(InstructionSite::Block, &sample::narrow(), 50_000);
}

#[test]
fn wide_t32_is_llvm_s() {
    agree(InstructionSite::T32, &sample::wide(12, 2), 30_000);
}

#[test]
fn wide_t32_in_a_block_is_llvm_s() {
    agree(InstructionSite::Block, &sample::wide(3, 3), 5_000);
}

/// A hundred times as much as every run looks at.
#[test]
#[ignore = "millions of instructions: minutes, and an optimized build"]
fn whole_aarch32_is_llvm_s() {
    for seed in 10..20 {
        agree(InstructionSite::A32, &sample::a32(80, seed), 300_000);
        agree(InstructionSite::T32, &sample::wide(120, seed), 200_000);
        agree(InstructionSite::Block, &sample::wide(30, seed), 30_000);
    }
}
