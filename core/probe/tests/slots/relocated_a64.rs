//! A64: an instruction at its site and its slot do the same.

use crate::a64::{Cpu, Registers};
use crate::memory::Memory;
use hanok_probe::{InstructionSet, ItBlock, Refused, Relocated, Site, relocate};
use hanok_types::Gva;
use proptest::prelude::*;

pub fn site(at: u64, code: &[u8]) -> Site<'_> {
    Site {
        set: InstructionSet::A64,
        at: Gva::new(at),
        code,
        guarded: false,
        block: ItBlock::Outside,
        joined: false,
    }
}

pub fn registers() -> impl Strategy<Value = Registers> {
    let x = proptest::array::uniform31(prop_oneof![Just(0), any::<u64>(), 0..0x1_0000_0000u64]);
    (x, any::<u64>(), 0u32..16).prop_map(|(x, sp, nzcv)| Registers {
        x,
        sp: sp & !15,
        pc: 0,
        nzcv,
    })
}

/// A site and a slot that reach each other, in a kernel's or a program's half.
pub fn places() -> impl Strategy<Value = (u64, u64)> {
    let base = prop_oneof![
        Just(0x4000_0000u64),
        Just(0xffff_8000_0800_0000),
        Just(0xffff_ffff_f000_0000),
        any::<u64>(),
    ];
    (base, 0x200u64..0x700_0000).prop_map(|(base, distance)| {
        let site = base & !3;
        (site, site.wrapping_add(distance & !3))
    })
}

/// Words that depend on their address, with their registers and offsets at random; and some
/// that do not.
fn words() -> impl Strategy<Value = u32> {
    let near = |word: u32, bits: u32| any::<u32>().prop_map(move |any| word | any & bits);
    prop_oneof![
        near(0x1000_0000, 0x60ff_ffff), // adr
        near(0x9000_0000, 0x60ff_ffff), // adrp
        near(0x1800_0000, 0xc0ff_ffff), // ldr, ldrsw and prfm of a literal
        near(0x5400_0000, 0x00ff_ffff), // b.cond, bc.cond
        near(0x3400_0000, 0x81ff_ffff), // cbz, cbnz
        near(0x3600_0000, 0x81ff_ffff), // tbz, tbnz
        near(0x1400_0000, 0x03ff_ffff), // b
        near(0x9400_0000, 0x03ff_ffff), // bl
        near(0x1400_0000, 0x000f_ffff),
        near(0x9400_0000, 0x000f_ffff),
        near(0xd61f_0000, 0x0000_03e0), // br
        near(0xd63f_0000, 0x0000_03e0), // blr
        near(0xd65f_0000, 0x0000_03e0), // ret
        near(0x9100_0000, 0x803f_ffff), // add
        near(0xf940_0000, 0x003f_ffff), // ldr
        near(0xa900_0000, 0x003f_ffff), // stp
    ]
}

/// What is there before, with the instruction at the site and the code in the slot.
pub fn before(word: u32, relocated: &Relocated) -> Memory {
    let mut memory = Memory::default();
    memory.write(relocated.site.get(), &word.to_le_bytes());
    memory.write(relocated.code.start(), relocated.code.bytes());
    memory
}

pub fn at(registers: &Registers, pc: u64) -> Cpu {
    let registers = Registers {
        pc,
        ..registers.clone()
    };
    Cpu {
        registers,
        monitor: None,
    }
}

/// Executes the slot until it is left, and tells in how many steps.
pub fn leave(cpu: &mut Cpu, memory: &mut Memory, relocated: &Relocated) -> u32 {
    let slot = relocated.code.start()..relocated.code.here();
    for steps in 0..400 {
        if !slot.contains(&cpu.registers.pc) {
            return steps;
        }
        cpu.step(memory);
    }
    panic!("no end: {relocated:?}");
}

/// Whether an access by the instruction touches the site or the slot: then the two differ for a
/// reason that has nothing to do with the relocation.
fn touches(memory: &Memory, with: &Memory) -> bool {
    memory.difference(with, |_| false).is_some()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 4_000, ..ProptestConfig::default()
    })]

    #[test]
    fn a_slot_does_what_its_instruction_does(
        word in words(), registers in registers(), (address, slot) in places(),
    ) {
        let bytes = word.to_le_bytes();
        let relocated = match relocate(&site(address, &bytes), Gva::new(slot)) {
            Ok(relocated) => relocated,
            Err(why) => {
                prop_assert!(expected(word, why), "{:#x}: {}", word, why);
                return Ok(());
            }
        };
        let start = before(word, &relocated);
        let (mut one, mut other) = (start.clone(), start.clone());
        let (mut original, mut moved) = (at(&registers, address), at(&registers, slot));
        original.step(&mut one);
        let inside = relocated.code.start()..relocated.code.here();
        if inside.contains(&original.registers.pc) {
            return Ok(()); // It branches into the slot.
        }
        leave(&mut moved, &mut other, &relocated);
        prop_assert_eq!(original.registers, moved.registers, "{:#x} {:?}", word, relocated);
        prop_assert!(!touches(&one, &other), "{:#x}", word);
    }
}

/// What may be refused of these words.
fn expected(word: u32, why: Refused) -> bool {
    let link = word >> 5 & 31 == 30;
    match why {
        Refused::NeedsRegister => {
            word & 0x3b00_001f == 0x1800_001f || word & 0xffff_fc00 == 0xd63f_0000 && link
        }
        Refused::VectorLiteral => word & 0x3f00_0000 == 0x1c00_0000,
        Refused::TargetOutOfReach => word & 0x7c00_0000 == 0x1400_0000,
        _ => false,
    }
}
