//! A data abort's syndrome and the instruction that made it say the same: who finishes an
//! access may believe either.

use crate::llvm::{disassemble, read};
use crate::said::{Class, Register, Said};
use hanok_decode::{Addressing, Data, Syndrome, decode_load_store};

/// ESR_EL2 of a translation fault that `said` makes, where the CPU describes it: a single
/// general register, no write-back (DDI 0487 D24.2, "ISS encoding for an exception from a Data
/// Abort", ISV).
fn syndrome(said: &Said) -> Option<u64> {
    let [Some(Register::General(register)), None, None] = said.registers else {
        return None;
    };
    let described = matches!(
        said.class,
        Class::Plain | Class::Ordered | Class::Unprivileged
    );
    let writes_back = matches!(
        said.address,
        Addressing::PreIndex { .. } | Addressing::PostIndex { .. }
    );
    if !described || writes_back {
        return None;
    }
    let iss = 1 << 24
        | u64::from(said.bytes?.ilog2()) << 22
        | u64::from(said.sign_extend) << 21
        | u64::from(register) << 16
        | u64::from(said.wide?) << 15
        | u64::from(said.class == Class::Ordered) << 14
        | u64::from(!said.load) << 6
        | 0b00_0111;
    Some(0x24 << 26 | 1 << 25 | iss)
}

/// "Load/store register" in all its forms, and the ordered ones.
fn words() -> Vec<u32> {
    let mut words = Vec::new();
    for select in 0..1u32 << 13 {
        // Size, V, the lower bit of the form, opc and bit 21, bits 11 and 10; then operands.
        let common = (select & 3) << 30
            | (select >> 2 & 1) << 26
            | (select >> 3 & 0xf) << 21
            | (select >> 7 & 3) << 10;
        let operands = (select.wrapping_mul(0x9e37_79b9) >> 8) & 0x001f_f3ff;
        // "Load/store register", literals, LDAPUR, LDAR.
        for kind in [0b111, 0b011, 0b001] {
            words.push(common | kind << 27 | operands);
        }
    }
    words
}

#[test]
fn a_syndrome_says_what_its_instruction_says() {
    let words = words();
    let texts = disassemble(&words);
    let mut compared = 0;
    for ((word, text), address) in words.iter().zip(&texts).zip((0..).step_by(4)) {
        let Some(said) = text.as_ref().and_then(|text| read(text, address)) else {
            continue;
        };
        let Some(esr) = syndrome(&said) else {
            continue;
        };
        let Syndrome::DataAbort(abort) = Syndrome::decode(esr) else {
            panic!("{esr:#x} is not a data abort");
        };
        let access = abort.access.expect("a valid syndrome");
        let decoded = decode_load_store(*word).expect("LLVM knows it");
        let transfer = decoded.transfer().expect("it can be finished");
        let Data::General(general) = transfer.data else {
            panic!("{text:?} moves no general register");
        };
        assert_eq!(access.general(), general, "{text:?}");
        assert_eq!(access.register, transfer.register, "{text:?}");
        assert_eq!(access.ordered, transfer.ordered, "{text:?}");
        assert_eq!(abort.write, !transfer.load, "{text:?}");
        compared += 1;
    }
    assert!(compared > 4_000, "{compared}");
}
