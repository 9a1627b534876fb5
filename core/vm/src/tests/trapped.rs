//! Registers of a real device that the VM has for itself, each access to which is an exit.

use super::instructions_aarch32::{PC, finished};
use super::{READ, WRITE, by_word, load, store};
use crate::fake::{Fixture, config};
use crate::{Action, Destination, Exit, GuestFault};
use hanok_config::{PassThrough, Registers};
use hanok_decode::{Psr, mode};
use hanok_types::{GicVersion, Hpa, Ipa, Width, platform};
use std::vec::Vec;

/// Where the guest has the trapped device's two ranges, and the mapped device's behind them.
const FIRST: u64 = platform::PASS_THROUGH.get();
const SECOND: u64 = FIRST + 0x3000;
const MAPPED: u64 = FIRST + 0x4000;
/// Where the board has them.
const HOST: u64 = 0x1000_a000;
const HOST_SECOND: u64 = 0x1c0a_0000;

fn device(ranges: &[(u64, u64, u64)], trapped: bool) -> PassThrough {
    let range = |(ipa, host, len): &(u64, u64, u64)| Registers {
        ipa: Ipa::new(*ipa),
        host: Hpa::new(*host),
        len: *len,
    };
    PassThrough {
        name: "device@0".try_into().unwrap(),
        registers: ranges.iter().map(range).collect(),
        interrupts: Default::default(),
        trapped,
    }
}

fn vm() -> Fixture {
    let mut config = config(1);
    let trapped = [(FIRST, HOST, 0x2000), (SECOND, HOST_SECOND, 0x1000)];
    config.devices.push(device(&trapped, true)).unwrap();
    let mapped = [(MAPPED, 0x1000_f000, 0x1000)];
    config.devices.push(device(&mapped, false)).unwrap();
    Fixture::of(config, GicVersion::V2)
}

/// In Supervisor mode, with R0 at the device.
fn a32() -> Fixture {
    let mut vm = vm();
    vm.regs[0].pstate = Psr::new().with_mode(mode::SUPERVISOR).into_bits().into();
    vm.regs[0].pc = PC;
    vm.regs[0].x[0] = FIRST;
    vm
}

fn accesses(vm: &Fixture) -> Vec<(u64, Width, Option<u64>)> {
    let all = vm.machine.accesses.take();
    all.into_iter()
        .map(|(at, width, value)| (at.get(), width, value))
        .collect()
}

#[test]
fn an_access_is_carried_out_on_the_device() {
    let mut vm = vm();
    vm.regs[0].x[5] = 0x1234_5678_9abc_def0;
    for (width, bytes) in [
        (Width::Byte, 1),
        (Width::Half, 2),
        (Width::Word, 4),
        (Width::Double, 8),
    ] {
        for (ipa, host) in [
            (FIRST, HOST),
            (FIRST + 0x2000 - bytes, HOST + 0x2000 - bytes),
            (SECOND + 0x18, HOST_SECOND + 0x18),
        ] {
            assert_eq!(vm.handle(0, store(ipa, width, 5)), Action::Next);
            let [(at, how, Some(value))] = accesses(&vm)[..] else {
                panic!("{width:?} at {ipa:#x}");
            };
            assert_eq!((at, how), (host, width));
            assert_eq!(value & width.mask(), vm.regs[0].x[5] & width.mask());
            vm.machine.register.set(Some(0x5a & width.mask()));
            assert_eq!(vm.handle(0, load(ipa, width, 6)), Action::Next);
            assert_eq!(accesses(&vm), [(host, width, None)]);
            assert_eq!(vm.regs[0].x[6], 0x5a);
        }
    }
}

#[test]
fn nothing_beside_the_registers_is_reached_and_nothing_across_their_end() {
    let mut vm = vm();
    for ipa in [
        FIRST - 4,
        FIRST + 0x2000,
        FIRST + 0x2ffc,
        SECOND - 4,
        SECOND + 0x1000,
        MAPPED,
        u64::MAX - 3,
    ] {
        assert_eq!(vm.handle(0, load(ipa, Width::Word, 6)), READ, "{ipa:#x}");
        assert_eq!(vm.handle(0, store(ipa, Width::Word, 6)), WRITE, "{ipa:#x}");
    }
    for (ipa, width) in [
        (FIRST + 1, Width::Half),
        (FIRST + 2, Width::Word),
        (FIRST + 4, Width::Double),
        (FIRST + 0x1fff, Width::Half),
        (FIRST + 0x1ffe, Width::Word),
        (FIRST + 0x1ffc, Width::Double),
    ] {
        assert_eq!(vm.handle(0, load(ipa, width, 6)), READ, "{ipa:#x}");
    }
    assert_eq!(accesses(&vm), []);
    // Another VM has none of it.
    let other = Fixture::with_gic(1, GicVersion::V2);
    let found = other.vm.destination(Ipa::new(FIRST), 4);
    assert!(matches!(found, Destination::Hole), "{found:?}");
}

#[test]
fn a_device_that_does_not_answer_is_an_abort_of_the_guest_s() {
    let mut vm = vm();
    vm.machine.register.set(None);
    vm.regs[0].x[6] = 7;
    assert_eq!(vm.handle(0, load(FIRST, Width::Byte, 6)), READ);
    assert_eq!(vm.handle(0, store(FIRST, Width::Byte, 6)), WRITE);
    assert_eq!(vm.regs[0].x[6], 7);
    assert_eq!(accesses(&vm).len(), 2);
}

#[test]
fn lists_and_pairs_are_words_one_after_the_other() {
    let mut vm = a32();
    vm.machine.register.set(Some(0x77));
    // LDM R0!, {R1, R2, R3}.
    assert_eq!(
        finished(&mut vm, by_word(FIRST, false, 0xe8b0_000e)),
        Action::Resume
    );
    let words = [0, 4, 8].map(|offset| (HOST + offset, Width::Word, None));
    assert_eq!(accesses(&vm), words);
    assert_eq!(vm.regs[0].x[..4], [FIRST + 12, 0x77, 0x77, 0x77]);
    // STRD R2, R3, [R0].
    assert_eq!(
        finished(&mut vm, by_word(FIRST + 12, true, 0xe1c0_20f0)),
        Action::Resume
    );
    let words = [12, 16].map(|offset| (HOST + offset, Width::Word, Some(0x77)));
    assert_eq!(accesses(&vm), words);
    // LDM R0, {R1, R2}, not aligned: nothing of it is done.
    vm.regs[0].x[0] = FIRST + 2;
    assert_eq!(
        finished(&mut vm, by_word(FIRST + 2, false, 0xe890_0006)),
        READ
    );
    // LDREX R1, [R0]; STREX R2, R1, [R0]; SWP R1, R2, [R0].
    vm.regs[0].x[0] = FIRST;
    for (write, word) in [
        (false, 0xe190_1f9f),
        (true, 0xe180_2f91),
        (true, 0xe100_1092),
    ] {
        let refused = Action::Inject(GuestFault::UnsupportedAtomic { write });
        assert_eq!(vm.handle(0, by_word(FIRST, write, word)), refused);
    }
    assert_eq!(accesses(&vm), []);
}

#[test]
fn nothing_there_is_fetched_or_walked() {
    let mut vm = vm();
    let ipa = Ipa::new(FIRST);
    let fetched = vm.handle(0, Exit::Fetch { ipa, walk: false });
    let refused = Action::Inject(GuestFault::ExternalFetch { walk: false });
    assert_eq!(fetched, refused);
    let Exit::Data(abort) = load(FIRST, Width::Word, 6) else {
        unreachable!()
    };
    let walk = Exit::Data(crate::DataAbort {
        walk: true,
        ..abort
    });
    let refused = Action::Inject(GuestFault::ExternalData {
        write: false,
        walk: true,
    });
    assert_eq!(vm.handle(0, walk), refused);
    assert_eq!(accesses(&vm), []);
}
