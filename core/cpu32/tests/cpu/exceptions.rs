//! Exceptions and interrupts, by the tables of DDI 0406C B1.8 and the registers of B4.1.

use crate::board::{Board, HERE, identity};
use hanok_cpu32::{
    Exception, Fault, FaultStatus, Interrupt, Lines, Mode, Registers, SystemRegister, VirtualCpu,
    sctlr,
};

const FAULT: Fault = Fault {
    status: FaultStatus::TranslationSecond,
    domain: 0xb,
};

const DATA: Exception = Exception::DataAbort {
    address: 0x1234,
    fault: FAULT,
    write: true,
};
const PREFETCH: Exception = Exception::PrefetchAbort {
    address: 0x5678,
    fault: FAULT,
};

/// Exception, mode, vector, LR in A32 and in T32 (by the distance from the instruction, or from the
/// next one for interrupts), and what is masked beyond I.
const TABLE: [(Exception, Mode, u32, u32, u32, u32); 6] = [
    (Exception::Undefined, Mode::Undefined, 0x04, 4, 2, 0),
    (Exception::SupervisorCall, Mode::Supervisor, 0x08, 4, 2, 0),
    (PREFETCH, Mode::Abort, 0x0c, 4, 4, 0x100),
    (DATA, Mode::Abort, 0x10, 8, 8, 0x100),
    (Exception::Irq, Mode::Irq, 0x18, 4, 4, 0x100),
    (Exception::Fiq, Mode::Fiq, 0x1c, 4, 4, 0x140),
];

#[test]
fn an_exception_goes_where_the_tables_say() {
    for (exception, mode, vector, a32, t32, masked) in TABLE {
        for (thumb, link) in [(false, a32), (true, t32)] {
            let mut board = Board::in_mode(Mode::System);
            board.registers.general[0] = 0x8000_0010;
            // MSR CPSR_cxsf, R0: a program with nothing masked.
            let _ = board.a32(0xe12f_f000);
            board.registers.psr.set_thumb(thumb);
            board.registers.pc = HERE;
            let before = board.psr().into_bits();
            assert_eq!(before & !0x20, 0x8000_0010);
            board.cpu.take(&mut board.registers, exception);
            let after = 0x8000_0080 | masked | u32::from(mode.into_bits());
            assert_eq!(board.psr().into_bits(), after, "{exception:?}");
            assert_eq!(board.cpu.mode(), mode);
            assert_eq!(board.spsr(), Some(before), "{exception:?}");
            assert_eq!(board.r(14), HERE + link, "{exception:?} {thumb}");
            assert_eq!(board.registers.pc, vector);
        }
    }
}

#[test]
fn what_is_masked_already_stays_masked() {
    let mut board = Board::in_mode(Mode::Supervisor);
    assert_eq!(board.psr().into_bits() & 0x1c0, 0x1c0);
    board
        .cpu
        .take(&mut board.registers, Exception::SupervisorCall);
    assert_eq!(board.psr().into_bits() & 0x1c0, 0x1c0);
}

#[test]
fn the_handler_s_state_is_what_sctlr_says() {
    let mut board = Board::in_mode(Mode::Supervisor);
    let _ = board.mcr((0, 1, 0, 0), sctlr::TE | sctlr::EE | sctlr::V);
    board.cpu.take(&mut board.registers, Exception::Irq);
    assert!(board.psr().thumb() && board.psr().big_endian());
    assert_eq!(board.registers.pc, 0xffff_0018);
    // The address of the vectors moves without V; its low five bits are zero.
    let mut board = Board::in_mode(Mode::Supervisor);
    let _ = board.mcr((0, 12, 0, 0), 0x4000_001f);
    board.cpu.take(&mut board.registers, Exception::Undefined);
    assert_eq!(board.registers.pc, 0x4000_0004);
    assert!(!board.psr().thumb() && !board.psr().big_endian());
}

#[test]
fn an_it_block_is_saved_and_left() {
    for (exception, saved) in [
        (Exception::Irq, 0x05),
        // An SVC's SPSR is that of the instruction after it.
        (Exception::SupervisorCall, 0x0a),
    ] {
        let mut board = Board::in_mode(Mode::System);
        board.registers.psr = board
            .registers
            .psr
            .with_thumb(true)
            .with_it_high(0x05 >> 2)
            .with_it_low(0x05 & 3);
        board.cpu.take(&mut board.registers, exception);
        assert_eq!(board.psr().it(), 0);
        assert_eq!(board.cpu.spsr().map(|spsr| spsr.it()), Some(saved));
    }
}

#[test]
fn a_data_abort_fills_its_registers_only() {
    let mut board = Board::in_mode(Mode::User);
    board.cpu.take(&mut board.registers, DATA);
    // WnR, domain, FS of a page's translation fault.
    assert_eq!(board.system(SystemRegister::Dfsr), 1 << 11 | 0xb0 | 0b00111);
    assert_eq!(board.system(SystemRegister::Dfar), 0x1234);
    assert_eq!(board.system(SystemRegister::Ifsr), 0);
    assert_eq!(board.system(SystemRegister::Ifar), 0);
}

#[test]
fn a_prefetch_abort_fills_its_registers_only() {
    let mut board = Board::in_mode(Mode::User);
    board.cpu.take(&mut board.registers, PREFETCH);
    assert_eq!(board.system(SystemRegister::Ifsr), 0b00111);
    assert_eq!(board.system(SystemRegister::Ifar), 0x5678);
    assert_eq!(board.system(SystemRegister::Dfsr), 0);
    assert_eq!(board.system(SystemRegister::Dfar), 0);
}

/// The statuses of B3.13.3, and whether the domain is valid.
const STATUSES: [(FaultStatus, u32, bool); 15] = [
    (FaultStatus::Alignment, 0b00001, false),
    (FaultStatus::CacheMaintenance, 0b00100, false),
    (FaultStatus::ExternalOnWalkFirst, 0b01100, false),
    (FaultStatus::ExternalOnWalkSecond, 0b01110, true),
    (FaultStatus::TranslationFirst, 0b00101, false),
    (FaultStatus::TranslationSecond, 0b00111, true),
    (FaultStatus::AccessFlagFirst, 0b00011, true),
    (FaultStatus::AccessFlagSecond, 0b00110, true),
    (FaultStatus::DomainFirst, 0b01001, true),
    (FaultStatus::DomainSecond, 0b01011, true),
    (FaultStatus::PermissionFirst, 0b01101, true),
    (FaultStatus::PermissionSecond, 0b01111, true),
    (FaultStatus::Debug, 0b00010, false),
    (FaultStatus::External, 0b01000, false),
    (FaultStatus::AsynchronousExternal, 0b10110, false),
];

#[test]
fn every_fault_has_its_status() {
    for (status, fs, has_domain) in STATUSES {
        let mut board = Board::in_mode(Mode::User);
        let fault = Fault { status, domain: 3 };
        let exception = Exception::DataAbort {
            address: 0x40,
            fault,
            write: false,
        };
        board.cpu.take(&mut board.registers, exception);
        let domain = if has_domain { 3 << 4 } else { 0 };
        let wanted = (fs & 0x10) << 6 | fs & 0xf | domain;
        assert_eq!(board.system(SystemRegister::Dfsr), wanted, "{status:?}");
    }
}

#[test]
fn an_asynchronous_abort_has_no_address() {
    let mut board = Board::in_mode(Mode::User);
    let exception = Exception::DataAbort {
        address: 0x40,
        fault: Fault::without_domain(FaultStatus::AsynchronousExternal),
        write: false,
    };
    board.cpu.take(&mut board.registers, exception);
    assert_eq!(board.system(SystemRegister::Dfar), 0);
}

#[test]
fn an_interrupt_waits_until_it_is_not_masked() {
    let both = Lines {
        irq: true,
        fiq: true,
    };
    let irq = Lines { irq: true, ..both };
    for (lines, psr, wanted) in [
        (Lines::default(), 0x1f, None),
        (both, 0x1f, Some(Interrupt::Fiq)),
        (both, 0x5f, Some(Interrupt::Irq)),
        (both, 0x9f, Some(Interrupt::Fiq)),
        (both, 0xdf, None),
        (Lines { fiq: false, ..irq }, 0x5f, Some(Interrupt::Irq)),
        (Lines { fiq: false, ..irq }, 0x9f, None),
    ] {
        let mut board = Board::in_mode(Mode::System);
        board.registers.general[0] = psr;
        let _ = board.a32(0xe121_f000);
        board.registers.pc = HERE;
        board.cpu.set_lines(lines);
        assert_eq!(board.cpu.deliverable(), wanted, "{lines:?} {psr:x}");
        let before = board.clone();
        assert_eq!(board.cpu.deliver(&mut board.registers), wanted);
        match wanted {
            Some(Interrupt::Irq) => assert_eq!(board.registers.pc, 0x18),
            Some(Interrupt::Fiq) => assert_eq!(board.registers.pc, 0x1c),
            None => assert_eq!(board, before),
        }
    }
}

#[test]
fn a_reset_leaves_nothing_of_the_guest() {
    let mut board = Board::in_mode(Mode::Fiq);
    let _ = board.mcr((0, 1, 0, 0), sctlr::M | sctlr::V | sctlr::TE);
    let _ = board.mcr((0, 13, 0, 4), 5);
    board.cpu.reset(&mut board.registers);
    let fresh = Board::new();
    assert_eq!(board.cpu, fresh.cpu);
    assert_eq!(board.registers.general, [0; 15]);
    assert_eq!(board.registers.pc, 0);
    assert_eq!(board.psr().into_bits(), 0x1d3);
    assert_eq!(board.system(SystemRegister::Sctlr), 0x00c5_0078);
}

#[test]
fn a_new_virtual_cpu_is_one_after_a_reset() {
    let fresh = VirtualCpu::new(identity());
    let mut reset = fresh.clone();
    reset.reset(&mut Registers::default());
    assert_eq!(fresh, reset);
    let masks = fresh.masks();
    assert!(masks.aborts && masks.irqs && masks.fiqs);
}

#[test]
fn linux_begins_in_supervisor_mode_with_its_three_arguments() {
    for (entry, thumb) in [(0x4000_8000, false), (0x4000_8001, true)] {
        let mut board = Board::in_mode(Mode::User);
        let arguments = [0, u32::MAX, 0x4800_0000];
        board.cpu.boot(&mut board.registers, entry, arguments);
        assert_eq!(board.psr().into_bits(), 0x1d3 | u32::from(thumb) << 5);
        assert_eq!(board.registers.pc, 0x4000_8000);
        assert_eq!(board.registers.general[..3], arguments);
        let off = sctlr::M | sctlr::C | sctlr::I;
        assert_eq!(board.system(SystemRegister::Sctlr) & off, 0);
    }
}
