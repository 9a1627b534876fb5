//! Every function of SMCCC and PSCI, and what is none.

use crate::fake::{ENTRY, Fixture, RAM_LEN, RAM_START};
use crate::{Action, Ending, Entry, Wait, constant_answer, function};
use hanok_abi::hypercall;
use hanok_types::VcpuId;

const WIDE: u32 = function::SMC64;
/// A value in the upper halves of 32-bit calls' arguments, which must be ignored.
const NOISE: u64 = 0xdead_beef << 32;

fn minus(code: i64) -> u64 {
    (-code) as u64
}

/// The answer to a call of vCPU 0 that goes on at once.
fn answer(vm: &mut Fixture, id: u32, arguments: [u64; 3]) -> u64 {
    let [a, b, c] = arguments;
    let pc = vm.regs[0].pc;
    let (value, action) = vm.call(0, [id.into(), a, b, c]);
    assert_eq!((action, vm.regs[0].pc), (Action::Resume, pc), "{id:#x}");
    value
}

#[test]
fn versions_and_what_never_changes() {
    let mut vm = Fixture::new(1);
    assert_eq!(answer(&mut vm, function::SMCCC_VERSION, [0; 3]), 0x1_0001);
    assert_eq!(answer(&mut vm, function::PSCI_VERSION, [0; 3]), 0x1_0001);
    assert_eq!(answer(&mut vm, function::MIGRATE_INFO_TYPE, [0; 3]), 2);
}

#[test]
fn the_function_is_in_w0() {
    let mut vm = Fixture::new(1);
    let id = u64::from(function::PSCI_VERSION) | NOISE;
    assert_eq!(vm.call(0, [id, 0, 0, 0]), (0x1_0001, Action::Resume));
}

#[test]
fn an_unknown_function_is_not_supported() {
    let mut vm = Fixture::new(2);
    let unknown = [
        0,
        1,
        0xffff_ffff,
        0x0400_0003, // A yielding call.
        0x8400_0005, // MIGRATE
        0x8400_0007, // MIGRATE_INFO_UP_CPU
        0x8400_000c, // CPU_FREEZE
        0x8400_000e, // SYSTEM_SUSPEND
        0x8400_0012, // SYSTEM_RESET2
        0x8000_8000, // SMCCC_ARCH_WORKAROUND_1
        0x8600_ff00, // A vendor's, that is not there.
        0xc600_0002,
        0x8600_0000,
        0x8600_0001,
        function::CPU_OFF | WIDE, // Without a 64-bit form.
        function::SYSTEM_OFF | WIDE,
        function::SYSTEM_RESET | WIDE,
        function::PSCI_VERSION | WIDE,
        function::PSCI_FEATURES | WIDE,
        function::SMCCC_VERSION | WIDE,
    ];
    for id in unknown {
        assert_eq!(answer(&mut vm, id, [0; 3]), minus(1), "{id:#x}");
    }
    assert!(vm.vm.lifecycle().is_running() && vm.vm.power(VcpuId::new(0)).is_on());
    assert!(vm.machine.kicked().is_empty());
}

#[test]
fn the_hypervisors_own_calls() {
    let mut vm = Fixture::new(1);
    assert_eq!(answer(&mut vm, hypercall::NULL, [7; 3]), 0);
    let yielded = vm.call(0, [hypercall::YIELD.into(), 0, 0, 0]);
    assert_eq!(yielded, (0, Action::Yield));
    assert_eq!(answer(&mut vm, hypercall::CALL_UID, [0; 3]), 0x6b6f_6e61);
    let words = [0x6b6f_6e61, 0x4b2d_6861, 0x9f0e_51b7, 0x3c27_d6a4];
    assert_eq!(vm.regs[0].x[..4], words);
    assert_eq!(answer(&mut vm, hypercall::REVISION_OF_CALLS, [0; 3]), 0);
    assert_eq!(vm.regs[0].x[1], 1);
}

#[test]
fn a_constant_answer_is_the_one_that_the_call_gives() {
    let ids = [
        hypercall::NULL,
        function::SMCCC_VERSION,
        function::PSCI_VERSION,
        function::MIGRATE_INFO_TYPE,
    ];
    for id in ids {
        let given = answer(&mut Fixture::new(2), id, [3, 1, 4]);
        assert_eq!(constant_answer(id).map(|value| value as u64), Some(given));
    }
    let changing = [function::PSCI_FEATURES, function::CPU_ON, hypercall::YIELD];
    assert!(changing.into_iter().all(|id| constant_answer(id).is_none()));
}

#[test]
fn only_x0_changes() {
    let mut vm = Fixture::new(2);
    for (n, x) in vm.regs[0].x.iter_mut().enumerate() {
        *x = n as u64 + 100;
    }
    let before = vm.regs[0];
    answer(&mut vm, function::PSCI_FEATURES, [101, 102, 103]);
    vm.regs[0].x[0] = before.x[0];
    assert_eq!(vm.regs[0], before);
}

#[test]
fn features_are_those_that_are_there() {
    let mut vm = Fixture::new(1);
    let there = [
        function::PSCI_VERSION,
        function::CPU_SUSPEND,
        function::CPU_SUSPEND | WIDE,
        function::CPU_OFF,
        function::CPU_ON,
        function::CPU_ON | WIDE,
        function::AFFINITY_INFO,
        function::AFFINITY_INFO | WIDE,
        function::MIGRATE_INFO_TYPE,
        function::SYSTEM_OFF,
        function::SYSTEM_RESET,
        function::PSCI_FEATURES,
        function::SMCCC_VERSION,
    ];
    for id in there {
        let features = [u64::from(id) | NOISE, 0, 0];
        assert_eq!(
            answer(&mut vm, function::PSCI_FEATURES, features),
            0,
            "{id:#x}"
        );
    }
    for id in [
        0,
        0x8400_0005,
        0x8400_000e,
        function::CPU_OFF | WIDE,
        function::PSCI_VERSION | WIDE,
    ] {
        let features = [id.into(), 0, 0];
        assert_eq!(
            answer(&mut vm, function::PSCI_FEATURES, features),
            minus(1),
            "{id:#x}"
        );
    }
    for (id, expected) in [
        (function::SMCCC_VERSION, 0),
        (0x8000_0001, 0),
        (0x8000_8000, minus(1)),
    ] {
        let arguments = [u64::from(id) | NOISE, 0, 0];
        assert_eq!(
            answer(&mut vm, function::SMCCC_ARCH_FEATURES, arguments),
            expected
        );
    }
}

#[test]
fn cpu_on_goes_through_its_states() {
    let mut vm = Fixture::new(3);
    let target = VcpuId::new(2);
    let on = [2, ENTRY + 4, 0x1234_5678_9abc];
    let info = [2, 0, 0];
    assert_eq!(answer(&mut vm, function::AFFINITY_INFO | WIDE, info), 1);
    assert_eq!(answer(&mut vm, function::CPU_ON | WIDE, on), 0);
    assert_eq!(vm.machine.kicked(), [2]);
    assert_eq!(answer(&mut vm, function::AFFINITY_INFO | WIDE, info), 2);
    assert_eq!(
        answer(&mut vm, function::CPU_ON | WIDE, on),
        minus(5),
        "on pending"
    );
    assert!(vm.machine.kicked().is_empty(), "nobody is started twice");

    let entry = Entry {
        pc: ENTRY + 4,
        argument: 0x1234_5678_9abc,
    };
    assert_eq!(vm.vm.power(target).take_start(), Some(entry));
    assert!(vm.vm.lifecycle().enter().is_made());
    assert_eq!(answer(&mut vm, function::AFFINITY_INFO | WIDE, info), 0);
    assert_eq!(
        answer(&mut vm, function::CPU_ON | WIDE, on),
        minus(4),
        "already on"
    );

    assert_eq!(
        vm.call(2, [function::CPU_OFF.into(), 0, 0, 0]).1,
        Action::Reconsider
    );
    assert_eq!(answer(&mut vm, function::AFFINITY_INFO | WIDE, info), 1);
    assert_eq!(answer(&mut vm, function::CPU_ON | WIDE, on), 0);
}

#[test]
fn cpu_on_of_itself_is_already_on() {
    let mut vm = Fixture::new(1);
    assert_eq!(answer(&mut vm, function::CPU_ON, [0, ENTRY, 0]), minus(4));
}

#[test]
fn a_32_bit_cpu_on_ignores_upper_halves() {
    let mut vm = Fixture::new(2);
    let on = [1 | NOISE, ENTRY | NOISE, 5 | NOISE];
    assert_eq!(answer(&mut vm, function::CPU_ON, on), 0);
    let entry = Entry {
        pc: ENTRY,
        argument: 5,
    };
    assert_eq!(vm.vm.power(VcpuId::new(1)).take_start(), Some(entry));
    // A 64-bit one has no upper half, and no bit beside the affinity may be set.
    for target in [1 | 1 << 31, 1 | 1 << 24, 1 | 1 << 32] {
        let info = [target, 0, 0];
        assert_eq!(
            answer(&mut vm, function::AFFINITY_INFO | WIDE, info),
            minus(2)
        );
    }
}

#[test]
fn cpu_on_refuses_targets_and_entries_that_are_not_there() {
    let mut vm = Fixture::new(2);
    let stray = [24, 31, 32, 40, 63].map(|bit| 1 << bit | 1);
    let absent = [2, 8, 0xff, 0x100, 0x101, 1 << 16, u64::MAX];
    for target in absent.into_iter().chain(stray) {
        let on = [target, ENTRY, 0];
        assert_eq!(
            answer(&mut vm, function::CPU_ON | WIDE, on),
            minus(2),
            "{target:#x}"
        );
    }
    for entry in [
        0,
        0x0900_0000,
        RAM_START - 4,
        RAM_START + RAM_LEN,
        ENTRY + 1,
        ENTRY + 2,
        !3,
    ] {
        let on = [1, entry, 0];
        assert_eq!(
            answer(&mut vm, function::CPU_ON | WIDE, on),
            minus(9),
            "{entry:#x}"
        );
    }
    assert!(vm.vm.power(VcpuId::new(1)).is_off());
    assert!(vm.machine.kicked().is_empty());
    assert_eq!(
        answer(
            &mut vm,
            function::CPU_ON | WIDE,
            [1, RAM_START + RAM_LEN - 4, 0]
        ),
        0
    );
}

#[test]
fn affinity_levels_above_0_have_number_0_alone() {
    let mut vm = Fixture::new(2);
    for (target, level, expected) in [
        (1, 0, 1),
        (2, 0, minus(2)),
        (1, 1, 0),
        (0xff, 1, 0),
        (0x100, 1, minus(2)),
        (0x1ff, 2, 0),
        (1 << 16, 2, minus(2)),
        (0xff_ffff, 3, 0),
        (1 << 32, 3, minus(2)),
        (0, 4, minus(2)),
        (0, u64::MAX, minus(2)),
    ] {
        let info = [target, level, 0];
        let value = answer(&mut vm, function::AFFINITY_INFO | WIDE, info);
        assert_eq!(value, expected, "{target:#x} at level {level}");
    }
    assert_eq!(
        answer(&mut vm, function::AFFINITY_INFO, [1 | NOISE, NOISE, 0]),
        1
    );
}

#[test]
fn suspend_sleeps_and_has_succeeded_then() {
    let mut vm = Fixture::new(1);
    // Stand-by, a state id, and power down, which may be stood by instead.
    for state in [0, 0xffff, 1 << 16, NOISE] {
        let call = [function::CPU_SUSPEND.into(), state, 0, 0];
        assert_eq!(
            vm.call(0, call),
            (0, Action::Block(Wait::Interrupt)),
            "{state:#x}"
        );
    }
    assert_eq!(
        vm.call(0, [(function::CPU_SUSPEND | WIDE).into(), 0, 0, 0]),
        (0, Action::Block(Wait::Interrupt))
    );
    for state in [1 << 17, 1 << 24, 1 << 31] {
        assert_eq!(
            answer(&mut vm, function::CPU_SUSPEND, [state, 0, 0]),
            minus(2),
            "{state:#x}"
        );
    }
    assert!(vm.vm.power(VcpuId::new(0)).is_on());
}

#[test]
fn the_system_ends_by_the_first_wish() {
    for (id, ending) in [
        (function::SYSTEM_OFF, Ending::Off),
        (function::SYSTEM_RESET, Ending::Reset),
    ] {
        let mut vm = Fixture::new(2);
        vm.vm
            .power(VcpuId::new(1))
            .start(Entry {
                pc: ENTRY,
                argument: 0,
            })
            .unwrap();
        vm.come_in(1);
        assert_eq!(vm.call(1, [id.into(), 0, 0, 0]).1, Action::Reconsider);
        assert_eq!(vm.machine.kicked(), [0, 1], "all have to leave");
        assert!(!vm.vm.lifecycle().is_running());
        let other = if id == function::SYSTEM_OFF {
            id + 1
        } else {
            id - 1
        };
        assert_eq!(vm.call(0, [other.into(), 0, 0, 0]).1, Action::Reconsider);
        assert!(vm.machine.kicked().is_empty(), "a second wish is ignored");
        assert_eq!(vm.vm.lifecycle().leave(), (1, Some(ending)));
        assert_eq!(vm.vm.lifecycle().leave(), (0, Some(ending)));
        assert_eq!(vm.vm.stop_reason(), None);
    }
}
