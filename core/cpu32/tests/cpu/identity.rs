//! The registers that say what the CPU is.

use crate::board::{Board, identity};
use hanok_cpu32::{Identity, Mode, Outcome, VirtualCpu};

fn read(name: (u32, u32, u32, u32)) -> Option<u32> {
    Board::in_mode(Mode::Supervisor).mrc(name)
}

#[test]
fn each_register_is_where_the_manual_has_it() {
    let cpu = identity();
    let rows = [
        (0, 0, cpu.midr),
        (0, 1, cpu.ctr),
        (0, 2, cpu.tcmtr),
        (0, 3, cpu.tlbtr),
        (0, 4, cpu.midr),
        (0, 5, cpu.mpidr),
        (0, 6, cpu.revidr),
        (0, 7, cpu.midr),
        (1, 0, 0x31),
        (1, 1, 0x0001_0001),
        (1, 2, 0),
        (1, 3, cpu.afr0),
        (1, 4, 0x1020_1104),
        (1, 5, cpu.mmfr[1]),
        (1, 6, cpu.mmfr[2]),
        (1, 7, cpu.mmfr[3]),
        (2, 0, cpu.isar[0]),
        (2, 1, cpu.isar[1]),
        (2, 2, cpu.isar[2]),
        (2, 3, 0x0111_2131),
        (2, 4, cpu.isar[4]),
        (2, 5, cpu.isar[5]),
        (2, 6, 0),
        (2, 7, 0),
        (3, 0, 0),
        (7, 7, 0),
    ];
    for (crm, opc2, value) in rows {
        assert_eq!(read((0, 0, crm, opc2)), Some(value), "{crm} {opc2}");
    }
    // What is reserved for more of them ends here.
    assert_eq!(read((0, 0, 8, 0)), None);
}

#[test]
fn none_of_them_can_be_written() {
    for (crm, opc2) in (0..8).flat_map(|crm| (0..8).map(move |opc2| (crm, opc2))) {
        let mut board = Board::in_mode(Mode::Supervisor);
        assert_eq!(board.mcr((0, 0, crm, opc2), 1), Outcome::Unknown);
    }
}

#[test]
fn csselr_chooses_the_cache() {
    let mut board = Board::in_mode(Mode::Supervisor);
    for (selected, value) in [
        (0, 0x701f_e00a),
        (1, 0x201f_e00a),
        (2, 0x711f_e07a),
        (3, 0),
        (15, 0),
    ] {
        let _ = board.mcr((2, 0, 0, 0), selected);
        assert_eq!(board.mrc((1, 0, 0, 0)), Some(value), "{selected}");
    }
    assert_eq!(read((1, 0, 0, 1)), Some(0x0a20_0023));
    assert_eq!(read((1, 0, 0, 7)), Some(0));
}

#[test]
fn what_only_some_cpus_have_is_there_if_it_is_given() {
    let (l2ctlr, l2ectlr, cbar) = ((1, 9, 0, 2), (1, 9, 0, 3), (4, 15, 0, 0));
    assert_eq!(read(l2ctlr), Some(0x0100_0000));
    assert_eq!(read(l2ectlr), Some(0));
    assert_eq!(read(cbar), Some(0x0800_0000));
    let mut board = Board::in_mode(Mode::Supervisor);
    assert_eq!(board.mcr(l2ctlr, 5), Outcome::Done);
    assert_eq!(board.mrc(l2ctlr), Some(0x0100_0000));
    for name in [l2ctlr, l2ectlr, cbar] {
        let mut board = Board::in_mode(Mode::Supervisor);
        board.cpu = VirtualCpu::new(Identity {
            l2ctlr: None,
            cbar: None,
            ..identity()
        });
        assert_eq!(board.mrc(name), None, "{name:?}");
    }
}

#[test]
fn what_the_virtual_cpu_lacks_is_not_offered() {
    let all = Identity {
        pfr: [u32::MAX; 2],
        dfr0: u32::MAX,
        mmfr: [u32::MAX; 4],
        isar: [u32::MAX; 6],
        ..Identity::default()
    };
    let offered = all.offered();
    assert_eq!(offered.pfr, [0xff, 0x0001_000f]);
    assert_eq!(offered.dfr0, 0);
    assert_eq!(offered.mmfr, [0xf0ff_fff4, u32::MAX, 0x0fff_ffff, u32::MAX]);
    assert_eq!(offered.isar[3], 0x0fff_ffff);
    assert_eq!(offered.offered(), offered);
    // VMSA of a later CPU.
    let later = Identity {
        mmfr: [8, 0, 0, 0],
        ..Identity::default()
    };
    assert_eq!(later.offered().mmfr[0], 4);
    // What a CPU does not have does not appear.
    assert_eq!(Identity::default().offered().mmfr[0], 0);
}
