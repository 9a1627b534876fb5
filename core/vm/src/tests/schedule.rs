//! The device by which a guest takes part in the scheduling of its vCPUs: what is a call, and whose.

use super::{access, by_word, ignored_writes, load, store};
use crate::fake::Fixture;
use crate::{Action, Call, NoAnswer};
use hanok_abi::schedule::{ASK, DEVICE, READ, WAIT, register};
use hanok_config::DeviceKind;
use hanok_types::{Ipa, Width};

const BASE: u64 = DEVICE.0;
const CALL: u64 = BASE + register::CALL;
const ARGUMENTS: u64 = BASE + register::ARGUMENTS;
const STATUS: u64 = BASE + register::STATUS;
const VALUE: u64 = BASE + register::VALUE;
/// A store that called, of one register that the syndrome describes.
const CALLED: Action = Action::Schedule { next: true };

fn get(vm: &mut Fixture, vcpu: usize, at: u64, width: Width) -> u64 {
    assert_eq!(vm.handle(vcpu, load(at, width, 7)), Action::Next, "{at:#x}");
    vm.regs[vcpu].x[7]
}

fn put(vm: &mut Fixture, vcpu: usize, at: u64, width: Width, value: u64) -> Action {
    vm.regs[vcpu].x[7] = value;
    vm.handle(vcpu, store(at, width, 7))
}

fn taken(vm: &mut Fixture, vcpu: usize) -> Option<Call> {
    vm.vcpus[vcpu].schedule.take_call()
}

#[test]
fn a_call_is_the_registers_of_the_vcpu_that_makes_it() {
    let mut vm = Fixture::new(2);
    for (vcpu, times) in [(0, [1_u64 << 40 | 7, 2, 3]), (1, [4, 5 << 33, 6])] {
        for (at, time) in (ARGUMENTS..).step_by(8).zip(times) {
            assert_eq!(put(&mut vm, vcpu, at, Width::Word, time), Action::Next);
            assert_eq!(
                put(&mut vm, vcpu, at + 4, Width::Word, time >> 32),
                Action::Next
            );
        }
    }
    assert_eq!(put(&mut vm, 1, CALL, Width::Word, ASK.into()), CALLED);
    assert_eq!(taken(&mut vm, 0), None);
    let arguments = [4, 5 << 33, 6];
    let asked = Call {
        function: ASK,
        arguments,
    };
    assert_eq!(taken(&mut vm, 1), Some(asked));
    assert_eq!(taken(&mut vm, 1), None, "once");
    vm.vcpus[1].schedule.answer(-6, 9 << 32 | 8);
    assert_eq!(get(&mut vm, 1, STATUS, Width::Word), 0xffff_fffa);
    assert_eq!(get(&mut vm, 1, VALUE, Width::Double), 9 << 32 | 8);
    assert_eq!(get(&mut vm, 0, VALUE, Width::Double), 0);
    // A load is no call.
    assert_eq!(get(&mut vm, 1, CALL, Width::Word), ASK.into());
    assert_eq!(put(&mut vm, 0, CALL, Width::Word, WAIT.into()), CALLED);
    let first = taken(&mut vm, 0).map(|call| call.arguments);
    assert_eq!(first, Some([1 << 40 | 7, 2, 3]));
}

#[test]
fn what_is_no_register_of_32_bits_does_nothing() {
    let mut vm = Fixture::new(1);
    let magic = u64::from(register::MAGIC);
    assert_eq!(get(&mut vm, 0, BASE, Width::Word), magic);
    assert_eq!(get(&mut vm, 0, BASE, Width::Double), magic);
    for (at, width) in [
        (CALL, Width::Byte),
        (CALL, Width::Half),
        (CALL + 1, Width::Word),
        (CALL + 2, Width::Double),
        (BASE, Width::Word),
        (STATUS, Width::Word),
        (VALUE, Width::Double),
        (BASE + 0x34, Width::Word),
        (BASE + 0x40, Width::Double),
        (BASE + 0xffc, Width::Word),
    ] {
        let before = ignored_writes(&vm, DeviceKind::Schedule);
        assert_eq!(put(&mut vm, 0, at, width, u64::MAX), Action::Next);
        let ignored = ignored_writes(&vm, DeviceKind::Schedule) - before;
        assert_eq!(
            ignored,
            if width == Width::Double { 2 } else { 1 },
            "{at:#x}"
        );
        if width != Width::Word || !at.is_multiple_of(4) {
            assert_eq!(get(&mut vm, 0, at, width), 0, "{at:#x}");
        }
    }
    assert_eq!(get(&mut vm, 0, BASE, Width::Word), magic);
    // Two words, of which the second one calls.
    let wide = u64::from(READ) << 32;
    assert_eq!(put(&mut vm, 0, BASE, Width::Double, wide), CALLED);
    assert_eq!(taken(&mut vm, 0).map(|call| call.function), Some(READ));
    // Over the end of the device.
    assert_ne!(put(&mut vm, 0, BASE + 0xffd, Width::Word, 0), Action::Next);
    assert_eq!(taken(&mut vm, 0), None);
}

/// What a fast path makes of it: nothing, so that the exit that may end the vCPU's turn has all of its registers.
#[test]
fn a_fast_path_leaves_it_alone() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[7] = WAIT.into();
    for write in [true, false] {
        let ipa = Ipa::new(CALL);
        let answer = vm.guest(0).by_register(ipa, write, access(Width::Word, 7));
        assert_eq!(answer, Err(NoAnswer));
        assert_eq!(vm.guest(0).access_device(ipa, write.then_some(1)), None);
    }
    assert_eq!(taken(&mut vm, 0), None);
}

#[test]
fn instructions_of_other_forms_call_too() {
    let mut vm = Fixture::new(1);
    // STR W7, [X2], #4.
    (vm.regs[0].x[2], vm.regs[0].x[7]) = (CALL, WAIT.into());
    let exit = by_word(CALL, true, 0xb800_4447);
    assert_eq!(vm.handle(0, exit), CALLED);
    assert_eq!(vm.regs[0].x[2], CALL + 4);
    assert_eq!(taken(&mut vm, 0).map(|call| call.function), Some(WAIT));
    // STP W0, W7, [X2]: the identification, which ignores it, and the call.
    vm.regs[0].x[2] = BASE;
    let exit = by_word(BASE, true, 0x2900_1c40);
    assert_eq!(vm.handle(0, exit), Action::Resume);
    assert_eq!(taken(&mut vm, 0), None);
    assert_eq!(vm.handle(0, exit), CALLED);
    assert_eq!(taken(&mut vm, 0).map(|call| call.function), Some(WAIT));
    // STP W7, W0, [X2], at the call: the vCPU goes on at this instruction, with the second word.
    vm.regs[0].x[2] = CALL;
    let exit = by_word(CALL, true, 0x2900_0047);
    assert_eq!(vm.handle(0, exit), Action::Schedule { next: false });
    assert_eq!(taken(&mut vm, 0).map(|call| call.function), Some(WAIT));
    assert_eq!(vm.handle(0, exit), Action::Next);
}
