//! Targets for syndromes and for instructions that a guest had at its PC.

use crate::aarch32::load_store as aarch32_load_store;
use crate::bytes::Bytes;
use hanok_decode::{
    Data, Fault, LoadStore, Origin, Syndrome, Transfer, data_abort, decode_load_store,
    instruction_abort,
};

/// Every value of ESR_EL2 has an answer, and an abort that is passed on to the guest decodes to
/// itself.
pub fn syndrome(data: &[u8]) {
    let mut input = Bytes(data);
    while !input.is_empty() {
        let syndrome = Syndrome::decode(input.double());
        assert!(!format!("{syndrome:?}").is_empty());
        match syndrome {
            Syndrome::DataAbort(abort) => {
                let general = abort
                    .access
                    .map(|access| (access.register, access.general()));
                if let Some((register, general)) = general {
                    assert!(register < 32);
                    assert_eq!(general.stored(u64::MAX), general.width.mask());
                }
                let _ = abort.has_ipa();
                passed_on(abort.fault, abort.write);
            }
            Syndrome::InstructionAbort(abort) => {
                let _ = abort.has_ipa();
                passed_on(abort.fault, false);
            }
            Syndrome::SystemRegister(trap) => {
                assert!(trap.operand < 32);
                let _ = trap.register.name();
            }
            _ => {}
        }
    }
}

fn passed_on(fault: Fault, write: bool) {
    assert_eq!(Fault::from_code(fault.code()), fault);
    for origin in [Origin::Lower, Origin::Current] {
        let esr = data_abort(origin, fault, write).into_bits();
        match Syndrome::decode(esr) {
            Syndrome::DataAbort(abort) => {
                assert_eq!(
                    (abort.origin, abort.fault, abort.write),
                    (origin, fault, write)
                );
            }
            other => panic!("{other:?}"),
        }
        let esr = instruction_abort(origin, fault).into_bits();
        match Syndrome::decode(esr) {
            Syndrome::InstructionAbort(abort) => {
                assert_eq!((abort.origin, abort.fault), (origin, fault));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Every word decodes to nothing or to an access whose numbers are in their ranges, in each
/// instruction set.
pub fn load_store(data: &[u8]) {
    let mut input = Bytes(data);
    while !input.is_empty() {
        let word = input.word();
        aarch32_load_store(word, input.byte());
        match decode_load_store(word) {
            None => {}
            Some(LoadStore::Transfer(transfer)) => check(&transfer, &mut input),
            Some(LoadStore::Exclusive(access)) => {
                let registers = [Some(access.register), access.second, access.status];
                assert!(
                    registers
                        .into_iter()
                        .flatten()
                        .all(|register| register < 32)
                );
                assert!(access.base < 32);
            }
            Some(LoadStore::Atomic(access)) => {
                assert!(access.operand < 32 && access.target < 32 && access.base < 32);
            }
            Some(LoadStore::Structures(access)) => {
                assert!(access.first < 32 && access.base < 32);
                assert!((1..=4).contains(&access.registers));
            }
        }
    }
}

fn check(transfer: &Transfer, input: &mut Bytes<'_>) {
    let registers = [Some(transfer.register), transfer.second];
    let address = [transfer.address.base(), transfer.address.index()];
    let all = registers.into_iter().chain(address).flatten();
    assert!(all.clone().count() >= 1 && all.into_iter().all(|register| register < 32));
    assert!((1..=32).contains(&transfer.bytes()));
    let [pc, base, index] = [0; 3].map(|_: u8| input.number());
    let resolved = transfer.address.resolve(pc, base, index);
    if let Some((register, _)) = resolved.write_back {
        assert_eq!(Some(register), transfer.address.base());
    }
    if let Data::General(general) = transfer.data {
        let raw = input.double();
        let loaded = general.loaded(raw);
        assert_eq!(loaded & general.width.mask(), raw & general.width.mask());
        assert!(general.wide || loaded >> 32 == 0 || general.width.bytes() == 8);
        assert_eq!(general.stored(raw), raw & general.width.mask());
    }
}

pub(crate) fn syndrome_seeds() -> Vec<Vec<u8>> {
    let values = [
        0x9383_0007u64,
        0x9200_0006,
        0x5a00_0000,
        0x07e0_0001,
        0x6232_3016,
        0x8200_0010,
    ];
    vec![
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
    ]
}

pub(crate) fn load_store_seeds() -> Vec<Vec<u8>> {
    // STR W, LDR X post-index, LDP Q, LDRSW literal, LDAR, LDADD, LD1, STRB register.
    let words = [
        0xb900_0020u32,
        0xf840_8420,
        0xad40_0440,
        0x9800_0041,
        0x88df_fc20,
        0xb820_0041,
        0x4c40_7020,
        0x3822_6820,
    ];
    // Each is followed by the state of an IT block.
    let bytes = |word: &u32| word.to_le_bytes().into_iter().chain([0x18]);
    let mut seeds = vec![words.iter().flat_map(bytes).collect()];
    seeds.push(crate::aarch32::ACCESSES.iter().flat_map(bytes).collect());
    seeds
}
