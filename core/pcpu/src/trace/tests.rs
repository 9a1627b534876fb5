//! What the board traces changes while it runs.

use crate::begin_all;
use crate::fake::FakeBoard;
use hanok_abi::trace::class;
use hanok_hal::Backend;
use hanok_hal::fake::Settings;
use hanok_trace::Choice;
use hanok_types::{GicVersion, VcpuId};
use std::vec;

fn settings() -> Settings {
    Settings {
        cpus: 2,
        this_cpu: || 0,
        pause: || {},
        asleep: || {},
        lists: 4,
    }
}

fn board(vms: &[vec::Vec<u8>]) -> FakeBoard {
    let mut fake = FakeBoard::with_trace(settings(), vms, GicVersion::V2);
    begin_all(fake.board);
    fake.pcpus[0].schedule();
    fake
}

fn records(fake: &FakeBoard, class: u32) -> bool {
    fake.pcpus[0].local.traced & class != 0
}

/// What a pCPU does at a kick: by the fast path, which has ended it, and as the interrupt that it is.
fn kicked(fake: &mut FakeBoard, is_ended: bool) {
    let taken = fake.board.machine.acknowledge().expect("a kick");
    fake.board.machine.drop_priority(taken);
    if is_ended {
        fake.board.machine.end(taken);
    } else {
        fake.pcpus[0].local.taken = Some(taken);
    }
    let _ = fake.pcpus[0].interrupted();
}

#[test]
fn a_kick_takes_over_what_is_to_be_recorded() {
    for (vms, is_ended) in [
        (vec![vec![0]], true),
        (vec![vec![0]], false),
        (vec![vec![0], vec![0]], false),
    ] {
        let mut fake = board(&vms);
        while fake.board.machine.acknowledge().is_some() {}
        for classes in [class::EXITS | class::WAKES, class::SWITCHES, 0] {
            fake.board.trace(Choice { classes, vms: 1 });
            kicked(&mut fake, is_ended);
            for (_, class) in class::WORDS {
                assert_eq!(records(&fake, class), classes & class != 0);
            }
            let traces_exits = fake.board.machine.cpu(0).traces_exits;
            assert_eq!(traces_exits, classes & class::EXITS != 0);
        }
    }
}

/// An interrupt that is posted at the same time makes one kick of two, which the short way would do alone.
#[test]
fn a_choice_is_no_interrupt_alone() {
    let fake = board(&[vec![0]]);
    let requests = fake.board.vms[0].vm.requests(VcpuId::new(0));
    let _ = requests.ask_interrupts();
    fake.board.trace(Choice {
        classes: class::EXITS,
        vms: 1,
    });
    assert_eq!(requests.take_interrupts_alone(), None);
}

#[test]
fn who_asks_is_told_where_the_trace_is() {
    let fake = board(&[vec![0]]);
    fake.frame_line();
    fake.wire.send(&[0x10, 0x3d]);
    fake.wire.send(b"trace 5 18446744073709551615\n");
    for _ in 0..100 {
        let _ = fake.board.serve_console();
    }
    let sent = fake.wire.sent.lock().unwrap().clone();
    let said = std::string::String::from_utf8_lossy(&sent).into_owned();
    assert!(
        said.contains("traced 5 18446744073709551615 16384 4096"),
        "{said:?}"
    );
}
