//! Registers of CP15 and CP14.

use crate::board::{Board, HERE, cp15};
use hanok_cpu32::{
    Lines, MmuOperation, Mode, Outcome, RegimeChange, SystemRegister, Vector, sctlr,
};

const UNDEFINED: Outcome = Outcome::Taken(Vector::Undefined);

fn changed(regime: RegimeChange) -> Outcome {
    Outcome::Mmu(MmuOperation::Changed(regime))
}

/// A register: opc1, CRn, CRm, opc2; which bits a guest can write; what the first write of all ones
/// means.
type Row = ((u32, u32, u32, u32), u32, Outcome);

/// DDI 0406C, B4.1.
fn table() -> Vec<Row> {
    let all = u32::MAX;
    vec![
        ((0, 2, 0, 0), all, changed(RegimeChange::Tables)),
        ((0, 2, 0, 1), all, changed(RegimeChange::Tables)),
        ((0, 2, 0, 2), 0x37, changed(RegimeChange::Tables)),
        ((0, 3, 0, 0), all, changed(RegimeChange::Domains)),
        ((0, 5, 0, 0), 0x1cff, Outcome::Done),
        ((0, 5, 0, 1), 0x140f, Outcome::Done),
        ((0, 6, 0, 0), all, Outcome::Done),
        ((0, 6, 0, 2), all, Outcome::Done),
        ((0, 7, 4, 0), all, Outcome::Done),
        ((0, 10, 2, 0), all, changed(RegimeChange::MemoryTypes)),
        ((0, 10, 2, 1), all, changed(RegimeChange::MemoryTypes)),
        ((0, 12, 0, 0), all & !0x1f, Outcome::Done),
        ((0, 13, 0, 1), all, changed(RegimeChange::Context)),
        ((0, 13, 0, 2), all, Outcome::Done),
        ((0, 13, 0, 3), all, Outcome::Done),
        ((0, 13, 0, 4), all, Outcome::Done),
        ((0, 14, 1, 0), 0x3ff, Outcome::Done),
        ((2, 0, 0, 0), 0xf, Outcome::Done),
        ((0, 1, 0, 2), 0x00f0_0000, Outcome::FloatingPoint),
        // ACTLR, ADFSR, AIFSR, FCSEIDR: nothing sticks.
        ((0, 1, 0, 1), 0, Outcome::Done),
        ((0, 5, 1, 0), 0, Outcome::Done),
        ((0, 5, 1, 1), 0, Outcome::Done),
        ((0, 13, 0, 0), 0, Outcome::Done),
    ]
}

#[test]
fn what_can_be_written_sticks_and_tells_what_follows() {
    for (name, mask, outcome) in table() {
        let mut board = Board::in_mode(Mode::Supervisor);
        assert_eq!(board.mrc(name), Some(0), "{name:?}");
        assert_eq!(board.mcr(name, u32::MAX), outcome, "{name:?}");
        assert_eq!(board.mrc(name), Some(mask), "{name:?}");
        // The same value again means nothing.
        assert_eq!(board.mcr(name, u32::MAX), Outcome::Done, "{name:?}");
        let again = if mask == 0 { Outcome::Done } else { outcome };
        assert_eq!(board.mcr(name, 0), again);
        assert_eq!(board.mrc(name), Some(0));
    }
}

#[test]
fn the_control_register_keeps_its_fixed_bits() {
    let name = (0, 1, 0, 0);
    let mut board = Board::in_mode(Mode::Supervisor);
    let outcome = board.mcr(name, u32::MAX);
    // M, A, C; Z to RR; EE; TRE, AFE, TE.
    let writable = 0x7 | 0x7800 | 1 << 25 | 0x7000_0000;
    let control = RegimeChange::Control { changed: writable };
    assert_eq!(outcome, changed(control));
    assert_eq!(board.mrc(name), Some(0x00c5_0078 | writable));
    let _ = board.mcr(name, 0);
    assert_eq!(board.mrc(name), Some(0x00c5_0078));
    let enabled = RegimeChange::Control { changed: sctlr::M };
    assert_eq!(board.mcr(name, sctlr::M), changed(enabled));
}

#[test]
fn a_program_reaches_its_thread_registers_and_barriers_only() {
    let may = |name, read| match name {
        (0, 13, 0, 2) => true,
        (0, 13, 0, 3) | (0, 9, 14, 0) => read,
        (0, 7, 5, 4) | (0, 7, 10, 4 | 5) => !read,
        _ => false,
    };
    for (crn, crm) in (0..16).flat_map(|crn| (0..16).map(move |crm| (crn, crm))) {
        for (opc1, opc2) in (0..8).flat_map(|opc1| (0..8).map(move |opc2| (opc1, opc2))) {
            let name = (opc1, crn, crm, opc2);
            for read in [true, false] {
                let mut board = Board::new();
                board.go(Mode::User);
                let outcome = board.a32(0xee00_0f10 | u32::from(read) << 20 | cp15(name));
                let allowed = outcome != UNDEFINED;
                assert_eq!(allowed, may(name, read), "{name:?} {read}");
            }
        }
    }
}

/// No access by a kernel goes wrong, and an undefined one has changed nothing but by its exception.
#[test]
fn every_name_has_an_answer() {
    for number in [10, 14, 15] {
        for bits in 0..1 << 15 {
            // opc1, read, CRn; opc2, CRm.
            let word = 0xee00_1010
                | number << 8
                | (bits & 0xff) << 16
                | (bits >> 8 & 7) << 5
                | bits >> 11 & 0xf;
            let Some(_) = hanok_decode::aarch32::sensitive_a32(word) else {
                continue;
            };
            let mut board = Board::new();
            let mut wanted = board.clone();
            if matches!(board.a32(word), Outcome::Unknown | UNDEFINED) {
                wanted
                    .cpu
                    .take(&mut wanted.registers, hanok_cpu32::Exception::Undefined);
                assert_eq!(board, wanted, "{word:#x}");
            } else {
                assert_ne!(board.cpu.mode(), Mode::Undefined, "{word:#x}");
                assert_eq!(board.registers.pc, HERE + 4, "{word:#x}");
            }
        }
    }
}

#[test]
fn what_does_not_exist_is_unknown() {
    // SCR, NSACR, MVBAR, HCR, TLB lockdown, MAIR's neighbours AMAIR, an L2 register of Cortex-A8.
    for name in [
        (0, 1, 1, 0),
        (0, 1, 1, 2),
        (0, 12, 0, 1),
        (4, 1, 1, 0),
        (0, 10, 0, 0),
        (0, 10, 3, 0),
        (1, 9, 0, 0),
    ] {
        let mut board = Board::in_mode(Mode::Supervisor);
        assert_eq!(board.mcr(name, 0), Outcome::Unknown, "{name:?}");
        let mut board = Board::in_mode(Mode::Supervisor);
        assert_eq!(board.mrc(name), None, "{name:?}");
    }
    // TTBR0 of 64 bits, which is of LPAE; CDP and LDC of CP15; CP7; MCR2; Jazelle; ThumbEE; pairs of
    // CP14 that are written, of opc1 1, of CRm 3.
    for word in [
        0xec42_1e01,
        0xec52_1e11,
        0xec52_1e03,
        0xec42_1f02,
        0xee00_0f00,
        0xed90_0f00,
        0xee00_0710,
        0xfe00_0f10,
        0xeee0_0e10,
        0xeec0_0e10,
    ] {
        let mut board = Board::in_mode(Mode::Supervisor);
        assert_eq!(board.a32(word), Outcome::Unknown, "{word:#x}");
    }
}

#[test]
fn isr_reports_what_waits_though_it_is_masked() {
    for (irq, fiq) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut board = Board::in_mode(Mode::Supervisor);
        board.cpu.set_lines(Lines { irq, fiq });
        let wanted = u32::from(irq) << 7 | u32::from(fiq) << 6;
        assert_eq!(board.mrc((0, 12, 1, 0)), Some(wanted));
    }
}

#[test]
fn performance_monitors_read_as_zero_and_ignore_writes() {
    for (crm, last) in [(12, 7), (13, 2), (14, 3)] {
        for opc2 in 0..8 {
            let mut board = Board::in_mode(Mode::Supervisor);
            let written = board.mcr((0, 9, crm, opc2), u32::MAX);
            let exists = opc2 <= last;
            assert_eq!(written == Outcome::Done, exists, "{crm} {opc2}");
            board.go(Mode::Supervisor);
            assert_eq!(board.mrc((0, 9, crm, opc2)), exists.then_some(0));
        }
    }
}

#[test]
fn debug_reads_as_zero_and_ignores_writes() {
    let mut board = Board::in_mode(Mode::Supervisor);
    // MRC and MCR p14, 0, R1, c0, c2, 2 (DBGDSCRext).
    assert_eq!(board.a32(0xee10_1e52), Outcome::Done);
    assert_eq!(board.r(1), 0);
    assert_eq!(board.a32(0xee00_1e52), Outcome::Done);
    // MRC p14, 0, APSR_nzcv, c0, c1, 0.
    board.registers.psr = board.registers.psr.with_n(true).with_c(true).with_q(true);
    assert_eq!(board.a32(0xee10_fe11), Outcome::Done);
    assert_eq!(board.psr().into_bits() >> 27, 1);
    // MRRC p14, 0, R1, R2, c1 (DBGDRAR).
    board.registers.general[1] = 1;
    assert_eq!(board.a32(0xec52_1e01), Outcome::Done);
    assert_eq!((board.r(1), board.r(2)), (0, 0));
}

#[test]
fn a_program_reads_debug_s_identity_only() {
    // DBGDIDR, DBGDSCRint, DBGDRAR, DBGDSAR; DBGDTRTX; DBGDSCRext; DBGDIDR written.
    for (word, outcome) in [
        (0xee10_1e10, Outcome::Done),
        (0xee10_1e11, Outcome::Done),
        (0xee11_1e10, Outcome::Done),
        (0xee12_1e10, Outcome::Done),
        (0xee00_1e15, Outcome::Done),
        (0xee10_1e52, UNDEFINED),
        (0xee00_1e10, UNDEFINED),
    ] {
        let mut board = Board::in_mode(Mode::User);
        assert_eq!(board.a32(word), outcome, "{word:#x}");
    }
}

#[test]
fn the_caller_gives_translations_and_a_program_s_thread_register() {
    let mut board = Board::in_mode(Mode::Supervisor);
    board.cpu.set_par(0x1234_5000);
    board.cpu.set_tpidrurw(0x77);
    assert_eq!(board.mrc((0, 7, 4, 0)), Some(0x1234_5000));
    assert_eq!(board.mrc((0, 13, 0, 2)), Some(0x77));
    assert_eq!(board.system(SystemRegister::Tpidrurw), 0x77);
}
