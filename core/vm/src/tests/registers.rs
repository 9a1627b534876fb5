//! Every trapped system register, read and written.

use super::{read, write};
use crate::fake::Fixture;
use crate::{Action, GuestFault, SystemRegister};
use crate::{Exit, id_register};
use hanok_decode::SysReg;

const UNDEFINED: Action = Action::Inject(GuestFault::Undefined);
/// What X5 holds before a read that does not change it.
const BEFORE: u64 = 0x5555_5555_5555_5555;

fn get(vm: &mut Fixture, id: SysReg) -> u64 {
    vm.regs[0].x[5] = BEFORE;
    assert_eq!(vm.handle(0, read(id)), Action::Next, "{id}");
    vm.regs[0].x[5]
}

fn set(vm: &mut Fixture, id: SysReg, value: u64) -> Action {
    vm.regs[0].x[5] = value;
    vm.handle(0, write(id))
}

fn breakpoint(n: u8, op2: u8) -> SysReg {
    SysReg::from_fields(2, 0, 0, n, op2)
}

#[test]
fn id_registers_are_the_cpu_s_with_things_hidden() {
    let mut vm = Fixture::new(1);
    for crm in 1..8 {
        for op2 in 0..8 {
            let id = SysReg::from_fields(3, 0, 0, crm, op2);
            assert_eq!(get(&mut vm, id), id_register(id, u64::MAX), "{id}");
            assert_eq!(set(&mut vm, id, 0), UNDEFINED, "{id} is read-only");
        }
    }
}

#[test]
fn what_there_is_nothing_of_reads_as_zero_and_ignores_writes() {
    let mut vm = Fixture::new(1);
    for id in [
        SysReg::ACTLR_EL1,
        SysReg::LORSA_EL1,
        SysReg::LOREA_EL1,
        SysReg::LORN_EL1,
        SysReg::LORC_EL1,
        SysReg::MDCCINT_EL1,
        SysReg::OSDLR_EL1,
        SysReg::DBGPRCR_EL1,
        SysReg::OSDTRRX_EL1,
        SysReg::OSDTRTX_EL1,
        SysReg::OSECCR_EL1,
        SysReg::DBGCLAIMCLR_EL1,
    ] {
        assert_eq!(set(&mut vm, id, u64::MAX), Action::Next, "{id}");
        assert_eq!(get(&mut vm, id), 0, "{id}");
    }
    for id in [
        SysReg::LORID_EL1,
        SysReg::MDRAR_EL1,
        SysReg::MDCCSR_EL0,
        SysReg::DBGAUTHSTATUS_EL1,
    ] {
        assert_eq!(get(&mut vm, id), 0, "{id}");
        assert_eq!(set(&mut vm, id, 0), UNDEFINED, "{id} is read-only");
    }
    assert_eq!(
        set(&mut vm, SysReg::DBGCLAIMSET_EL1, u64::MAX),
        Action::Next
    );
    assert_eq!(get(&mut vm, SysReg::DBGCLAIMSET_EL1), 0xff);
}

#[test]
fn the_os_lock_is_the_vcpu_s_own() {
    let mut vm = Fixture::new(1);
    assert_eq!(get(&mut vm, SysReg::OSLSR_EL1), 0b1010, "locked at reset");
    assert_eq!(set(&mut vm, SysReg::OSLAR_EL1, 2), Action::Next);
    assert_eq!(get(&mut vm, SysReg::OSLSR_EL1), 0b1000);
    assert_eq!(set(&mut vm, SysReg::OSLAR_EL1, 1), Action::Next);
    assert_eq!(get(&mut vm, SysReg::OSLSR_EL1), 0b1010);
    vm.regs[0].x[5] = BEFORE;
    assert_eq!(vm.handle(0, read(SysReg::OSLAR_EL1)), UNDEFINED);
    assert_eq!(vm.regs[0].x[5], BEFORE);
    assert_eq!(set(&mut vm, SysReg::OSLSR_EL1, 0), UNDEFINED);
}

#[test]
fn the_physical_timer_s_registers() {
    let mut vm = Fixture::new(1);
    vm.machine.now.set(5000);
    assert_eq!(
        set(&mut vm, SysReg::CNTP_TVAL_EL0, 0xffff_ffff_0000_0064),
        Action::Next
    );
    assert_eq!(get(&mut vm, SysReg::CNTP_CVAL_EL0), 5100);
    vm.machine.now.set(5090);
    assert_eq!(get(&mut vm, SysReg::CNTP_TVAL_EL0), 10);
    assert_eq!(set(&mut vm, SysReg::CNTP_CTL_EL0, u64::MAX), Action::Next);
    assert_eq!(
        get(&mut vm, SysReg::CNTP_CTL_EL0),
        3,
        "ISTATUS is read-only"
    );
    vm.machine.now.set(5100);
    assert_eq!(get(&mut vm, SysReg::CNTP_CTL_EL0), 7);
    assert_eq!(set(&mut vm, SysReg::CNTP_CVAL_EL0, u64::MAX), Action::Next);
    assert_eq!(get(&mut vm, SysReg::CNTP_CVAL_EL0), u64::MAX);
    assert_eq!(get(&mut vm, SysReg::CNTP_CTL_EL0), 3);
}

#[test]
fn sgi_registers_can_only_be_written() {
    let mut vm = Fixture::new(1);
    for id in [
        SysReg::ICC_SGI0R_EL1,
        SysReg::ICC_SGI1R_EL1,
        SysReg::ICC_ASGI1R_EL1,
    ] {
        assert_eq!(set(&mut vm, id, u64::MAX), Action::Next, "{id}");
        assert_eq!(vm.handle(0, read(id)), UNDEFINED, "{id}");
    }
}

/// MDSCR_EL1.SS, KDE and MDE, and TDCC, which are all that a guest has of it.
const EVENTS: u64 = 1 | 1 << 13 | 1 << 15;
const MDSCR: u64 = EVENTS | 1 << 12;

#[test]
fn of_mdscr_a_guest_has_four_bits_whatever_the_lock_is() {
    let mut vm = Fixture::new(1);
    for locked in [1, 0] {
        set(&mut vm, SysReg::OSLAR_EL1, locked);
        for value in [u64::MAX, 0].into_iter().chain((0..64).map(|bit| 1 << bit)) {
            assert_eq!(set(&mut vm, SysReg::MDSCR_EL1, value), Action::Next);
            assert_eq!(get(&mut vm, SysReg::MDSCR_EL1), value & MDSCR, "{value:#x}");
            let in_cpu = vm.machine.mdscr.get();
            assert_eq!(in_cpu & !MDSCR, 0, "HDE, INTdis or the channel's bits");
        }
    }
}

#[test]
fn a_locked_vcpu_meets_no_debug_event() {
    let mut vm = Fixture::new(1);
    for value in [1, 1 << 13, 1 << 15, EVENTS] {
        set(&mut vm, SysReg::OSLAR_EL1, 1);
        set(&mut vm, SysReg::MDSCR_EL1, value);
        assert_eq!(vm.machine.mdscr.get() & EVENTS, 0, "locked");
        set(&mut vm, SysReg::OSLAR_EL1, 0);
        assert_eq!(vm.machine.mdscr.get(), value, "unlocked");
        set(&mut vm, SysReg::OSLAR_EL1, 1);
        assert_eq!(vm.machine.mdscr.get() & EVENTS, 0, "locked again");
        assert_eq!(get(&mut vm, SysReg::MDSCR_EL1), value);
    }
}

#[test]
fn breakpoints_are_the_vcpu_s_from_its_first_use() {
    // What kernels do as they start needs none.
    let mut vm = Fixture::new(1);
    let others = (breakpoint(3, 4), 0xdead_0000);
    vm.machine.breakpoints.borrow_mut().push(others);
    for n in 0..16 {
        for op2 in 4..8 {
            assert_eq!(set(&mut vm, breakpoint(n, op2), 0), Action::Next);
            assert_eq!(get(&mut vm, breakpoint(n, op2)), 0, "another vCPU's");
        }
    }
    set(&mut vm, SysReg::MDSCR_EL1, !EVENTS);
    assert!(!vm.vcpus[0].debug.in_use);
    assert_eq!(vm.machine.breakpoints.borrow()[..], [others]);

    let events = [0, 13, 15].map(|bit| (SysReg::MDSCR_EL1, 1 << bit));
    let registers = [(0, 4), (3, 5), (0, 6), (15, 7)].map(|(n, op2)| (breakpoint(n, op2), 9));
    for (id, value) in events.into_iter().chain(registers) {
        let mut vm = Fixture::new(1);
        vm.machine.breakpoints.borrow_mut().push(others);
        assert_eq!(set(&mut vm, id, value), Action::Next, "{id}");
        assert!(vm.vcpus[0].debug.in_use);
        assert_eq!(get(&mut vm, id), value);
        assert_eq!(get(&mut vm, others.0), 0, "another vCPU's");
        assert_eq!(set(&mut vm, breakpoint(2, 4), 0x4000), Action::Next);
        assert_eq!(set(&mut vm, breakpoint(2, 4), 0), Action::Next);
        assert_eq!(get(&mut vm, breakpoint(2, 4)), 0);
    }
}

#[test]
fn there_are_as_many_breakpoints_as_the_cpu_has() {
    let mut vm = Fixture::new(1);
    // ID_AA64DFR0_EL1: six breakpoints, four watchpoints.
    vm.machine.id_register.set(5 << 12 | 3 << 20);
    for op2 in 0..8 {
        for n in 0..16 {
            let there = match op2 {
                4 | 5 => n < 6,
                6 | 7 => n < 4,
                _ => continue,
            };
            let action = if there { Action::Next } else { UNDEFINED };
            assert_eq!(set(&mut vm, breakpoint(n, op2), 1), action, "{n} {op2}");
            assert_eq!(vm.handle(0, read(breakpoint(n, op2))), action, "{n} {op2}");
        }
    }
}

/// The registers of an external debugger have no effect: OSECCR, OSDTRRX, OSDTRTX, MDCCINT, OSDLR, DBGPRCR.
#[test]
fn nothing_of_external_debug_is_kept() {
    let mut vm = Fixture::new(1);
    set(&mut vm, SysReg::MDSCR_EL1, EVENTS);
    for id in [
        SysReg::OSECCR_EL1,
        SysReg::OSDTRRX_EL1,
        SysReg::OSDTRTX_EL1,
        SysReg::MDCCINT_EL1,
        SysReg::OSDLR_EL1,
        SysReg::DBGPRCR_EL1,
    ] {
        assert_eq!(set(&mut vm, id, u64::MAX), Action::Next, "{id}");
        assert_eq!(get(&mut vm, id), 0, "{id}");
    }
}

#[test]
fn the_zero_register_takes_part() {
    let mut vm = Fixture::new(1);
    let access = |id, write| {
        Exit::SystemRegister(SystemRegister {
            id,
            register: 31,
            write,
        })
    };
    let before = vm.regs[0];
    assert_eq!(vm.handle(0, access(SysReg::OSLSR_EL1, false)), Action::Next);
    assert_eq!(vm.handle(0, access(SysReg::OSLAR_EL1, true)), Action::Next);
    assert_eq!(vm.regs[0], before);
    assert_eq!(get(&mut vm, SysReg::OSLSR_EL1), 0b1000, "zero was written");
}

/// Of all encodings, those that a guest of this fake gets something else for than undefined.
#[test]
fn everything_else_is_undefined() {
    let known = |id: SysReg| {
        let named = [
            SysReg::ACTLR_EL1,
            SysReg::LORSA_EL1,
            SysReg::LOREA_EL1,
            SysReg::LORN_EL1,
            SysReg::LORC_EL1,
            SysReg::LORID_EL1,
            SysReg::MDRAR_EL1,
            SysReg::MDCCSR_EL0,
            SysReg::MDCCINT_EL1,
            SysReg::MDSCR_EL1,
            SysReg::OSLAR_EL1,
            SysReg::OSLSR_EL1,
            SysReg::OSDLR_EL1,
            SysReg::DBGPRCR_EL1,
            SysReg::OSDTRRX_EL1,
            SysReg::OSDTRTX_EL1,
            SysReg::OSECCR_EL1,
            SysReg::DBGCLAIMSET_EL1,
            SysReg::DBGCLAIMCLR_EL1,
            SysReg::DBGAUTHSTATUS_EL1,
            SysReg::CNTP_CTL_EL0,
            SysReg::CNTP_CVAL_EL0,
            SysReg::CNTP_TVAL_EL0,
            SysReg::ICC_SGI0R_EL1,
            SysReg::ICC_SGI1R_EL1,
            SysReg::ICC_ASGI1R_EL1,
        ];
        let breakpoints = id.op0() == 2 && id.op1() == 0 && id.crn() == 0 && id.op2() >= 4;
        named.contains(&id) || id.is_feature_id() || breakpoints
    };
    let mut vm = Fixture::new(2);
    for id in (0..=u16::MAX)
        .map(SysReg::from_bits)
        .filter(|id| !known(*id))
    {
        vm.regs[0].x[5] = BEFORE;
        assert_eq!(vm.handle(0, read(id)), UNDEFINED, "{id}");
        assert_eq!(vm.handle(0, write(id)), UNDEFINED, "{id}");
        assert_eq!(vm.regs[0].x[5], BEFORE, "{id}");
    }
}
