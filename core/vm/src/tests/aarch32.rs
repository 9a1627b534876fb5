//! Trapped coprocessor instructions, and what AArch32 code may ask of PSCI.

use crate::exit::CoprocessorAccess;
use crate::fake::Fixture;
use crate::{Action, Exit, GuestFault, function, id_register};
use hanok_decode::{Condition, Coprocessor, CoprocessorPair, SysReg};

const UNDEFINED: Action = Action::Inject(GuestFault::Undefined);
/// A CPSR: Supervisor mode, all masked.
const SUPERVISOR: u64 = 0x1d3;

fn register(opc1: u8, crn: u8, crm: u8, opc2: u8, read: bool) -> Coprocessor {
    Coprocessor {
        condition: Condition::Unknown,
        opc1,
        opc2,
        crn,
        crm,
        register: 5,
        read,
    }
}

fn pair(opc1: u8, crm: u8, read: bool) -> CoprocessorPair {
    CoprocessorPair {
        condition: Condition::Unknown,
        opc1,
        crm,
        registers: [5, 6],
        read,
    }
}

fn get(vm: &mut Fixture, access: CoprocessorAccess) -> (Action, u64) {
    vm.regs[0].x[5] = 0x5555_5555;
    let action = vm.handle(0, Exit::Coprocessor(access));
    (action, vm.regs[0].x[5])
}

fn cp15(vm: &mut Fixture, opc1: u8, crn: u8, crm: u8, opc2: u8) -> (Action, u64) {
    let access = register(opc1, crn, crm, opc2, true);
    get(vm, CoprocessorAccess::Cp15(access))
}

#[test]
fn id_registers_are_those_of_aarch64_without_debug_and_jazelle() {
    let mut vm = Fixture::new(1);
    for (crm, opc2) in [(1, 1), (1, 4), (1, 7), (2, 0), (2, 5)] {
        let id = SysReg::from_fields(3, 0, 0, crm, opc2);
        let wanted = id_register(id, u64::MAX);
        assert_eq!(cp15(&mut vm, 0, 0, crm, opc2), (Action::Next, wanted));
        let write = CoprocessorAccess::Cp15(register(0, 0, crm, opc2, false));
        assert_eq!(get(&mut vm, write).0, UNDEFINED, "{id} is read-only");
    }
    assert_eq!(cp15(&mut vm, 0, 0, 1, 2), (Action::Next, 0), "ID_DFR0");
    let (action, pfr0) = cp15(&mut vm, 0, 0, 1, 0);
    assert_eq!((action, pfr0 >> 8 & 0xf), (Action::Next, 0), "Jazelle");
    let pfr1 = cp15(&mut vm, 0, 0, 1, 1).1;
    assert_eq!(pfr1 & 0xf0f0, 0, "Security, Virtualization");
    let mvfr0 = register(0, 7, 0, 0, true);
    let (action, value) = get(&mut vm, CoprocessorAccess::Vmrs(mvfr0));
    let wanted = id_register(SysReg::MVFR0_EL1, u64::MAX);
    assert_eq!((action, value), (Action::Next, wanted));
}

/// ID_PFR0 and ID_DFR0, of which the guest has something else than the CPU says, as all others; and
/// the registers by which a 32-bit guest sends SGIs, of 64 bits.
#[test]
fn what_is_read_only_or_write_only_changes_nothing() {
    let mut vm = Fixture::new(2);
    let ids = (1..=2).flat_map(|crm| (0..8).map(move |opc2| (crm, opc2)));
    let ids = ids.map(|(crm, opc2)| CoprocessorAccess::Cp15(register(0, 0, crm, opc2, false)));
    let sgis = (0..3).map(|opc1| CoprocessorAccess::Cp15Pair(pair(opc1, 12, true)));
    for access in ids.chain(sgis) {
        vm.regs[0].x[..8].copy_from_slice(&[0x10, 0x11, 0x12, 0x13, 0x14, 0x5555_0f02, 0, 0x17]);
        let before = vm.regs[0];
        assert_eq!(vm.handle(0, Exit::Coprocessor(access)), UNDEFINED);
        assert_eq!(vm.regs[0], before, "{access:?}");
    }
    assert!(vm.machine.kicked().is_empty());
}

/// ID_MMFR4.AC2 says whether there is an ACTLR2 beside ACTLR, and passes: so it is there, as ACTLR is.
#[test]
fn auxiliary_control_reads_as_zero_in_both_halves() {
    let mut vm = Fixture::new(1);
    for opc2 in [1, 3] {
        let write = CoprocessorAccess::Cp15(register(0, 1, 0, opc2, false));
        assert_eq!(get(&mut vm, write).0, Action::Next, "{opc2}");
        assert_eq!(cp15(&mut vm, 0, 1, 0, opc2), (Action::Next, 0), "{opc2}");
    }
}

/// The registers by their names in DDI 0406C, C12.8: CRm, opc2.
const MONITORS: [(u8, u8); 15] = [
    (12, 0), // PMCR
    (12, 1), // PMCNTENSET
    (12, 2), // PMCNTENCLR
    (12, 3), // PMOVSR
    (12, 4), // PMSWINC
    (12, 5), // PMSELR
    (12, 6), // PMCEID0
    (12, 7), // PMCEID1
    (13, 0), // PMCCNTR
    (13, 1), // PMXEVTYPER
    (13, 2), // PMXEVCNTR
    (14, 0), // PMUSERENR
    (14, 1), // PMINTENSET
    (14, 2), // PMINTENCLR
    (14, 3), // PMOVSSET
];

#[test]
fn performance_monitors_count_nothing() {
    let mut vm = Fixture::new(1);
    for (crm, opc2) in (0..16).flat_map(|crm| (0..8).map(move |opc2| (crm, opc2))) {
        let there = MONITORS.contains(&(crm, opc2));
        if (crm, opc2) == (0, 2) || (crm, opc2) == (0, 3) {
            continue; // L2CTLR and L2ECTLR have another opc1.
        }
        let wanted = if there {
            (Action::Next, 0)
        } else {
            (UNDEFINED, 0x5555_5555)
        };
        vm.regs[0].pstate = SUPERVISOR;
        assert_eq!(cp15(&mut vm, 0, 9, crm, opc2), wanted, "c{crm} {opc2}");
        let write = CoprocessorAccess::Cp15(register(0, 9, crm, opc2, false));
        assert_eq!(get(&mut vm, write).0, wanted.0, "write c{crm} {opc2}");
        vm.regs[0].pstate = SUPERVISOR & !0x1f | 0x10;
        let wanted = match (crm, opc2) {
            (14, 0) => (Action::Next, 0),
            _ => (UNDEFINED, 0x5555_5555),
        };
        assert_eq!(cp15(&mut vm, 0, 9, crm, opc2), wanted, "PL0: c{crm} {opc2}");
        assert_eq!(get(&mut vm, write).0, UNDEFINED, "PL0: write c{crm} {opc2}");
    }
}

#[test]
fn a_cluster_has_as_many_cpus_as_the_vm() {
    for (vcpus, field) in [(1, 0), (3, 2), (8, 3)] {
        let mut vm = Fixture::new(vcpus);
        let l2ctlr = cp15(&mut vm, 1, 9, 0, 2);
        assert_eq!(l2ctlr, (Action::Next, field << 24), "{vcpus} vCPUs");
    }
}

#[test]
fn what_an_implementation_adds_is_the_platform_s() {
    let mut vm = Fixture::new(2);
    let cbar = hanok_types::platform::GIC_DIST;
    let wanted = hanok_types::Address::get(cbar);
    assert_eq!(cp15(&mut vm, 4, 15, 0, 0), (Action::Next, wanted), "CBAR");
    assert_eq!(cp15(&mut vm, 1, 9, 0, 3), (Action::Next, 0), "L2ECTLR");
    let mut write = |opc1, crn, opc2| {
        let access = register(opc1, crn, 0, opc2, false);
        get(&mut vm, CoprocessorAccess::Cp15(access)).0
    };
    assert_eq!(write(4, 15, 0), UNDEFINED, "CBAR is read-only");
    assert_eq!(write(1, 9, 2), Action::Next, "L2CTLR");
    assert_eq!(write(1, 9, 3), Action::Next, "L2ECTLR");
    // Its neighbours are the board's own affair, and nothing of PL0's.
    assert_eq!(cp15(&mut vm, 4, 15, 0, 1).0, UNDEFINED);
    vm.regs[0].pstate = 0x1d0;
    for (opc1, crn, opc2) in [(4, 15, 0), (1, 9, 2), (1, 9, 3)] {
        assert_eq!(cp15(&mut vm, opc1, crn, 0, opc2).0, UNDEFINED);
    }
}

#[test]
fn the_physical_timer_is_the_core_s() {
    let mut vm = Fixture::new(1);
    (vm.regs[0].x[5], vm.regs[0].x[6]) = (0xffff_ffff_0000_1000, 7);
    let write = Exit::Coprocessor(CoprocessorAccess::Cp15Pair(pair(2, 14, false)));
    assert_eq!(vm.handle(0, write), Action::Next);
    let (action, low) = get(&mut vm, CoprocessorAccess::Cp15Pair(pair(2, 14, true)));
    assert_eq!((action, low, vm.regs[0].x[6]), (Action::Next, 0x1000, 7));
    vm.regs[0].x[5] = 1;
    let enable = register(0, 14, 2, 1, false);
    let enable = Exit::Coprocessor(CoprocessorAccess::Cp15(enable));
    assert_eq!(vm.handle(0, enable), Action::Next);
    assert_eq!(cp15(&mut vm, 0, 14, 2, 1).1 & 1, 1);
}

#[test]
fn debug_reads_as_absent_and_the_rest_is_undefined() {
    let mut vm = Fixture::new(1);
    let cp14 = |opc1, read| CoprocessorAccess::Cp14(register(opc1, 0, 0, 0, read));
    assert_eq!(get(&mut vm, cp14(0, true)), (Action::Next, 0), "DBGDIDR");
    assert_eq!(get(&mut vm, cp14(0, false)).0, Action::Next);
    let rom = CoprocessorAccess::Cp14Pair(pair(0, 1, true));
    assert_eq!(get(&mut vm, rom), (Action::Next, 0), "DBGDRAR");
    for opc1 in [1, 6, 7] {
        assert_eq!(get(&mut vm, cp14(opc1, true)).0, UNDEFINED, "opc1 {opc1}");
    }
    // An implementation's own.
    assert_eq!(cp15(&mut vm, 0, 15, 0, 1).0, UNDEFINED);
    let unknown = CoprocessorAccess::Cp15Pair(pair(0, 15, true));
    assert_eq!(get(&mut vm, unknown).0, UNDEFINED);
}

#[test]
fn any_coprocessor_access_has_an_answer() {
    let mut vm = Fixture::new(2);
    let mut undefined = 0;
    for fields in 0..1u32 << 15 {
        let part = |at: u32, bits: u32| (fields >> at & ((1 << bits) - 1)) as u8;
        let one = register(
            part(0, 3),
            part(3, 4),
            part(7, 4),
            part(11, 3),
            part(14, 1) != 0,
        );
        let two = pair(part(0, 4), part(4, 4), part(14, 1) != 0);
        for access in [
            CoprocessorAccess::Cp15(one),
            CoprocessorAccess::Cp14(one),
            CoprocessorAccess::Vmrs(one),
            CoprocessorAccess::Cp15Pair(two),
            CoprocessorAccess::Cp14Pair(two),
        ] {
            undefined += usize::from(answered(&mut vm, access));
        }
    }
    // Most encodings are no register.
    assert!(undefined > 5 << 14, "{undefined}");
}

/// Holds one access to what any may do: nothing changes but the registers that a read names, and
/// those only where it is done. Whether it is undefined.
fn answered(vm: &mut Fixture, access: CoprocessorAccess) -> bool {
    let (read, named) = match access {
        CoprocessorAccess::Cp15(one)
        | CoprocessorAccess::Cp14(one)
        | CoprocessorAccess::Vmrs(one) => (one.read, 5..6),
        CoprocessorAccess::Cp15Pair(two) | CoprocessorAccess::Cp14Pair(two) => (two.read, 5..7),
    };
    let mut before = vm.regs[0];
    before.x[..7].copy_from_slice(&[10, 11, 12, 13, 14, 0, 0]);
    vm.regs[0] = before;
    let action = vm.handle(0, Exit::Coprocessor(access));
    assert!(
        matches!(action, Action::Next | UNDEFINED),
        "{access:?}: {action:?}"
    );
    let mut after = vm.regs[0];
    if read && action == Action::Next {
        assert!(
            after.x[named.clone()].iter().all(|value| *value >> 32 == 0),
            "{access:?}"
        );
        after.x[named.clone()].copy_from_slice(&before.x[named]);
    }
    assert_eq!(after, before, "{access:?}: {action:?}");
    action == UNDEFINED
}

#[test]
fn the_part_of_the_ids_that_is_reserved_is_zero() {
    let mut vm = Fixture::new(1);
    for (crm, opc2) in [(3, 0), (3, 3), (4, 0), (7, 7)] {
        assert_eq!(cp15(&mut vm, 0, 0, crm, opc2), (Action::Next, 0));
    }
    let write = CoprocessorAccess::Cp15(register(0, 0, 4, 0, false));
    assert_eq!(get(&mut vm, write).0, UNDEFINED);
}

#[test]
fn what_is_above_a_word_is_not_written() {
    let mut vm = Fixture::new(1);
    vm.regs[0].x[5] = 0xffff_ffff_0000_0002;
    let control = register(0, 14, 2, 1, false);
    let write = Exit::Coprocessor(CoprocessorAccess::Cp15(control));
    assert_eq!(vm.handle(0, write), Action::Next);
    assert_eq!(cp15(&mut vm, 0, 14, 2, 1).1, 2);
}

#[test]
fn calls_with_64_bit_arguments_are_aarch64_s() {
    let call = |pstate: u64, id: u32, argument: u32| {
        let mut vm = Fixture::new(2);
        let regs = &mut vm.regs[0];
        regs.pstate = pstate;
        (regs.x[0], regs.x[1]) = (id.into(), argument.into());
        let action = vm.handle(0, Exit::Hypercall);
        (action, vm.regs[0].x[0] as i64)
    };
    const NOT_SUPPORTED: (Action, i64) = (Action::Resume, -1);
    let wide = [
        function::CPU_SUSPEND,
        function::CPU_ON,
        function::AFFINITY_INFO,
    ];
    for id in wide.map(|id| id | function::SMC64) {
        assert_ne!(call(0x3c5, id, 0), NOT_SUPPORTED, "{id:#x}");
        assert_eq!(call(SUPERVISOR, id, 0), NOT_SUPPORTED, "{id:#x}");
        let features = function::PSCI_FEATURES;
        assert_eq!(call(0x3c5, features, id), (Action::Resume, 0));
        assert_eq!(call(SUPERVISOR, features, id), NOT_SUPPORTED);
    }
    assert_ne!(call(SUPERVISOR, function::AFFINITY_INFO, 0), NOT_SUPPORTED);
}

#[test]
fn a_cpu_starts_in_thumb_state_only_from_aarch32() {
    let start = |pstate: u64, pc: u64| {
        let mut vm = Fixture::new(2);
        let regs = &mut vm.regs[0];
        regs.pstate = pstate;
        (regs.x[0], regs.x[1]) = (function::CPU_ON.into(), 1);
        (regs.x[2], regs.x[3]) = (pc, 0);
        vm.handle(0, Exit::Hypercall);
        vm.regs[0].x[0] as i64
    };
    const INVALID_ADDRESS: i64 = -9;
    assert_eq!(start(SUPERVISOR, 0x4000_0001), 0);
    assert_eq!(start(SUPERVISOR, 0x4000_0000), 0);
    assert_eq!(start(SUPERVISOR, 0x4000_0002), INVALID_ADDRESS);
    assert_eq!(start(0x3c5, 0x4000_0001), INVALID_ADDRESS);
}
