//! Reports over a framed line.

use crate::begin_all;
use crate::fake::{FakeBoard, FakePromise};
use hanok_hal::fake::{Settings, Wire};
use hanok_types::GicVersion;
use std::string::String;
use std::vec;
use std::vec::Vec;

const REQUEST: [u8; 2] = [0x10, 0x3d];

fn settings() -> Settings {
    Settings {
        cpus: 2,
        this_cpu: || 0,
        pause: || {},
        asleep: || {},
        lists: 4,
    }
}

/// The text that the board said on the channel of reports.
fn reported(wire: &Wire) -> Vec<String> {
    let sent = wire.sent.lock().unwrap().clone();
    let (mut text, mut speaker) = (Vec::new(), 0);
    let mut bytes = sent.into_iter();
    while let Some(byte) = bytes.next() {
        match byte {
            0x10 => speaker = bytes.next().unwrap(),
            byte if speaker == REQUEST[1] => text.push(byte),
            _ => {}
        }
    }
    let text = String::from_utf8(text).unwrap();
    text.lines().map(String::from).collect()
}

/// A board with two VMs on its first CPU, of which the first one is promised time, and one on the second.
fn board() -> FakeBoard {
    let vms = [vec![0], vec![0], vec![1]];
    let promise = |vm, budget| FakePromise {
        cpu: 0,
        vm,
        period: 10_000,
        budget,
    };
    let promises = [promise(0, 3_000), promise(1, 2_000)];
    let mut fake = FakeBoard::with_promises(settings(), &vms, GicVersion::V2, &promises);
    fake.frame_line();
    begin_all(fake.board);
    fake.pcpus[0].schedule();
    fake
}

fn ask(fake: &FakeBoard, request: &str) -> Vec<String> {
    let before = reported(&fake.wire).len();
    fake.wire.send(&REQUEST);
    fake.wire.send(request.as_bytes());
    // Each interrupt of the serial port does a part.
    for _ in 0..200 {
        fake.board.serve_console();
    }
    reported(&fake.wire).split_off(before)
}

#[test]
fn a_report_says_all_there_is() {
    let fake = board();
    let lines = ask(&fake, "report 41\n");
    let of = |word: &str| {
        let lines = lines
            .iter()
            .filter(|line| line.split(' ').next() == Some(word));
        lines.cloned().collect::<Vec<_>>()
    };
    let [first] = &of("board")[..] else {
        panic!("{lines:?}");
    };
    let fields: Vec<_> = first.split(' ').collect();
    assert_eq!(fields[3..], ["2", "3", "41"], "{first}");
    assert_eq!(of("vm"), ["vm 0 vm0 41", "vm 1 vm1 41", "vm 2 vm2 41"]);
    let vcpus = of("vcpu");
    assert!(
        vcpus[0].starts_with("vcpu 0 0 0 - runs periodic 10000 3000 10000 10000 0 "),
        "{vcpus:?}"
    );
    assert!(
        vcpus[2].starts_with("vcpu 2 0 1 - off turn 0 0 0 0 0 "),
        "{vcpus:?}"
    );
    assert_eq!(vcpus[0].split(' ').count(), 19);
    let cores = of("core");
    assert!(
        cores[0].starts_with("core 0 deadline idle ") || cores[0].starts_with("core 0 turns - ")
    );
    assert_eq!(cores.len(), 2);
    assert_eq!(lines.last().unwrap(), "end 41");
    assert!(lines.iter().all(|line| line.ends_with(" 41")), "{lines:?}");
}

#[test]
fn each_request_has_an_answer() {
    let fake = board();
    assert_eq!(ask(&fake, "exploit\n"), ["unknown request"]);
    // A report that is not complete makes room for the next one.
    fake.wire.send(&REQUEST);
    fake.wire.send(b"report 1\n");
    fake.board.serve_console();
    let lines = ask(&fake, "report 2\n");
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("end")).count(),
        1
    );
    assert_eq!(lines.last().unwrap(), "end 2");
}
