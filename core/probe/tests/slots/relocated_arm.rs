//! A32 and T32: an instruction at its site and its slot do the same.

use crate::arm::{Cpu, Registers};
use crate::memory::Memory;
use hanok_probe::{InstructionSet, ItBlock, Refused, Relocated, Site, relocate};
use hanok_types::Gva;
use proptest::prelude::*;

pub fn site(set: InstructionSet, at: u32, code: &[u8]) -> Site<'_> {
    Site {
        set,
        at: Gva::new(at.into()),
        code,
        guarded: false,
        block: ItBlock::Outside,
        joined: true,
    }
}

pub fn registers() -> impl Strategy<Value = Registers> {
    let one = prop_oneof![Just(0), any::<u32>(), any::<u32>()];
    (proptest::array::uniform15(one), 0u32..16).prop_map(|(mut r, nzcv)| {
        r[13] &= !7;
        let cpsr = nzcv << 28 | 0x1d3;
        Registers {
            r,
            pc: 0,
            cpsr,
            thumb: false,
        }
    })
}

/// A site and a slot that reach each other.
pub fn places(mask: u32, most: u32) -> impl Strategy<Value = (u32, u32)> {
    let base = prop_oneof![
        Just(0x8000u32),
        Just(0xc010_0000),
        Just(0xffff_f000),
        any::<u32>()
    ];
    (base, any::<u8>(), 0x200..most).prop_map(move |(base, more, distance)| {
        let site = base.wrapping_add(more.into()) & !mask;
        (site, site.wrapping_add(distance & !mask))
    })
}

/// A word with random bits under the mask.
fn near(word: u32, mask: u32) -> impl Strategy<Value = u32> {
    any::<u32>().prop_map(move |any| word | any & mask)
}

/// Data processing, without the tests that set no flags: those are MSR and others.
fn data(word: u32, mask: u32) -> impl Strategy<Value = u32> {
    let is_none = |word: u32| word & 0x0190_0000 == 0x0100_0000;
    near(word, mask).prop_map(move |word| if is_none(word) { word | 1 << 20 } else { word })
}

/// A32 words, most of which read the PC, under any condition.
fn words() -> impl Strategy<Value = u32> {
    let words = prop_oneof![
        data(0x000f_0000, 0x01f0_ffef), // Rn
        data(0x0000_000f, 0x01ff_ffe0), // Rm
        near(0x008f_0000, 0x0000_f00f), // add rd, pc, rm
        data(0x020f_0000, 0x01f0_ffff),
        near(0x028f_0000, 0x00c0_ffff), // adr
        near(0x01a0_000f, 0x0000_f000), // mov rd, pc
        near(0x051f_0000, 0x00c0_ffff), // ldr, ldrb of a literal
        near(0x050f_0000, 0x00c0_ffff), // str
        near(0x071f_0000, 0x00c0_ffef), // ldr with an index
        near(0x015f_0090, 0x0080_ff6f), // ldrh, ldrsb, ldrsh
        near(0x011f_0090, 0x0080_f06f),
        near(0x014f_00d0, 0x0080_ff2f), // ldrd, strd
        near(0x0a00_0000, 0x01ff_ffff), // b, bl
        near(0x0a00_0000, 0x0100_ffff),
        near(0x012f_ff10, 0x0000_002f), // bx, blx
        near(0x0280_0000, 0x000f_ffff), // add
        near(0x0590_0000, 0x000f_ffff), // ldr
        near(0x01a0_f000, 0x0000_000f), // mov pc, rm
    ];
    let conditional = (words, 0u32..15).prop_map(|(word, condition)| condition << 28 | word);
    prop_oneof![
        9 => conditional,
        1 => near(0xfa00_0000, 0x01ff_ffff), // blx
        1 => near(0xf55f_f000, 0x0080_0fff), // pld
    ]
}

/// The T32 halfwords or pairs of halfwords that depend on their address, and some that do not. The
/// first halfword is in the upper half.
fn instructions() -> impl Strategy<Value = Vec<u16>> {
    let narrow = prop_oneof![
        near(0x4478, 0x0087), // add rd, pc
        near(0x4678, 0x0087), // mov rd, pc
        near(0x4700, 0x00f8), // bx, blx
        Just(0x4778),         // bx pc
        near(0x4800, 0x07ff), // ldr of a literal
        near(0xa000, 0x07ff), // adr
        near(0xb100, 0x0aff), // cbz, cbnz
        near(0xd000, 0x0fff), // b<c>
        near(0xe000, 0x07ff), // b
        near(0x2000, 0x07ff), // movs
        near(0x3000, 0x07ff), // adds
        near(0x6800, 0x07ff), // ldr
        Just(0xb5f0),         // push
        Just(0xbdf0),         // pop
        near(0x4600, 0x00ff), // mov
    ];
    narrow.prop_map(|half| vec![half as u16])
}

/// B of two halfwords with a condition that is one.
fn conditional(mask: u32) -> impl Strategy<Value = u32> {
    near(0xf000_8000, mask).prop_map(|both| match both >> 23 & 7 {
        7 => both & !(1 << 25),
        _ => both,
    })
}

fn pairs() -> impl Strategy<Value = Vec<u16>> {
    let wide = prop_oneof![
        near(0xf81f_0000, 0x01e0_ffff), // ldr and its like of a literal
        near(0xf85f_0000, 0x0080_ffff), // ldr
        near(0xe95f_0000, 0x0080_ffff), // ldrd
        near(0xf20f_0000, 0x0400_7fff), // adr
        near(0xf2af_0000, 0x0400_7fff),
        conditional(0x07ff_2fff), // b<c>
        conditional(0x03c3_07ff),
        near(0xf000_9000, 0x07ff_2fff), // b
        near(0xf000_d000, 0x07ff_2fff), // bl
        near(0xf000_c000, 0x07ff_2ffe), // blx
        near(0xf8d0_0000, 0x000f_ffff), // ldr.w
        near(0xf240_0000, 0x040f_7fff), // movw
    ];
    wide.prop_map(|both| vec![(both >> 16) as u16, both as u16])
}

/// One of two halfwords, or one of one and any other.
fn displaced() -> impl Strategy<Value = Vec<u16>> {
    let second = prop_oneof![instructions(), pairs()];
    prop_oneof![
        pairs(),
        (instructions(), second).prop_map(|(first, second)| [first, second].concat()),
    ]
}

pub fn at(registers: &Registers, pc: u32, thumb: bool) -> Cpu {
    let registers = Registers {
        pc,
        thumb,
        ..registers.clone()
    };
    Cpu {
        registers,
        monitor: None,
    }
}

/// What is there before, with the instructions at the site and the code in the slot.
pub fn before(bytes: &[u8], relocated: &Relocated) -> Memory {
    let mut memory = Memory::default();
    memory.write(relocated.site.get(), bytes);
    memory.write(relocated.code.start(), relocated.code.bytes());
    memory
}

/// Executes the slot until it is left, and tells in how many steps.
pub fn leave(cpu: &mut Cpu, memory: &mut Memory, relocated: &Relocated) -> u32 {
    let slot = relocated.code.start()..relocated.code.here();
    for steps in 0..400 {
        if !slot.contains(&cpu.registers.pc.into()) {
            return steps;
        }
        cpu.step(memory);
    }
    panic!("no end: {relocated:?}");
}

/// Executes the displaced instructions at their site.
pub fn execute(cpu: &mut Cpu, memory: &mut Memory, relocated: &Relocated) {
    let start = cpu.registers.pc;
    let thumb = cpu.registers.thumb;
    cpu.step(memory);
    let second = start.wrapping_add(2);
    if relocated.second.is_some() && cpu.registers.pc == second && cpu.registers.thumb == thumb {
        cpu.step(memory);
    }
}

fn same(
    bytes: &[u8],
    set: InstructionSet,
    registers: &Registers,
    (address, slot): (u32, u32),
) -> Result<(), TestCaseError> {
    let thumb = set == InstructionSet::T32;
    let relocated = match relocate(&site(set, address, bytes), Gva::new(slot.into())) {
        Ok(relocated) => relocated,
        Err(why) => {
            prop_assert!(expected(why), "{:x?}: {}", bytes, why);
            return Ok(());
        }
    };
    let start = before(bytes, &relocated);
    let (mut one, mut other) = (start.clone(), start.clone());
    let (mut original, mut moved) = (at(registers, address, thumb), at(registers, slot, thumb));
    execute(&mut original, &mut one, &relocated);
    let slot = relocated.code.start()..relocated.code.here();
    if slot.contains(&original.registers.pc.into()) {
        return Ok(()); // It branches into the slot.
    }
    leave(&mut moved, &mut other, &relocated);
    prop_assert_eq!(
        original.registers,
        moved.registers,
        "{:x?} {:?}",
        bytes,
        relocated
    );
    prop_assert_eq!(one.difference(&other, |_| false), None, "{:x?}", bytes);
    Ok(())
}

/// What may be refused of these; the test of each reason is elsewhere.
fn expected(why: Refused) -> bool {
    use Refused::{Exception, Exclusive, IntoSite, NeedsRegister, Unknown};
    matches!(
        why,
        Unknown | NeedsRegister | IntoSite | Exception | Exclusive
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 4_000, ..ProptestConfig::default()
    })]

    #[test]
    fn an_a32_slot_does_what_its_instruction_does(
        word in words(), registers in registers(), places in places(3, 0x1f0_0000),
    ) {
        same(&word.to_le_bytes(), InstructionSet::A32, &registers, places)?;
    }

    #[test]
    fn a_t32_slot_does_what_its_instructions_do(
        halves in displaced(), registers in registers(), places in places(1, 0xf0_0000),
    ) {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        same(&bytes, InstructionSet::T32, &registers, places)?;
    }
}
