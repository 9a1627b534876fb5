//! Reports over a framed line.

use super::{Next, Report, Reporting};
use crate::begin_all;
use crate::fake::{FakeBoard, FakePromise};
use hanok_hal::fake::{Settings, Wire};
use hanok_hal::sync::atomic::Ordering;
use hanok_types::GicVersion;
use hanok_vm::Clock;
use std::format;
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
            // The line may stop between both bytes.
            0x10 => speaker = bytes.next().unwrap_or(0),
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
    for _ in 0..2_000 {
        let _ = fake.board.serve_console();
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
    let _ = fake.board.serve_console();
    let lines = ask(&fake, "report 2\n");
    assert_eq!(
        lines.iter().filter(|line| line.starts_with("end")).count(),
        1
    );
    assert_eq!(lines.last().unwrap(), "end 2");
}

/// On a line that takes eight bytes between two interrupts, nothing but the interrupts that the board wants, and the
/// instants that it asks for, is needed.
#[test]
fn a_report_goes_on_where_the_line_is_full() {
    let fake = board();
    let room = |bytes| *fake.wire.room.lock().unwrap() = Some(bytes);
    room(8);
    fake.wire.send(&REQUEST);
    fake.wire.send(b"report 7\n");
    let mut reporting = Reporting::GoesOn;
    for exit in 0..10_000 {
        let writable = fake.wire.called_when_writable.load(Ordering::SeqCst);
        let received = !fake.wire.typed.lock().unwrap().is_empty();
        if !received && !writable && reporting != Reporting::GoesOn {
            break;
        }
        room(8);
        if exit % 3 == 0 {
            // Bytes of others wait as well.
            fake.board.say(format_args!("a line"));
        }
        reporting = fake.board.serve_console();
        if reported(&fake.wire)
            .last()
            .is_some_and(|line| line == "end 7")
        {
            return;
        }
    }
    panic!("it stands still: {:?}", reported(&fake.wire));
}

/// Another request comes while a report is under way: that is said to its end.
#[test]
fn a_request_ends_no_report() {
    let fake = board();
    fake.wire.send(&REQUEST);
    fake.wire.send(b"report 8\n");
    for _ in 0..9 {
        let _ = fake.board.serve_console();
    }
    let lines = ask(&fake, "exploit\n");
    assert!(lines.iter().any(|line| line == "unknown request"));
    assert_eq!(lines.last().unwrap(), "end 8");
}

/// Turns that were written over have no line: an exit passes over a few of them.
#[test]
fn an_exit_passes_over_few_steps() {
    let fake = board();
    let first = Report {
        number: 1,
        turns: 0,
        next: Next::Turns(0, 1_000, 1_200),
    };
    let mut left = Some(first);
    let mut exits = 0;
    while let Some(report) = left
        && let Next::Turns(0, turn, _) = report.next
    {
        assert!(turn <= 1_000 + exits * 8, "{report:?}");
        exits += 1;
        fake.board.report(&mut left);
    }
    assert_eq!(exits, 26);
}

/// Another answer may come at any time of a report, also between both halves of a vCPU's line: each line stays whole.
#[test]
fn another_answer_is_no_part_of_a_line() {
    for exits in 1..60 {
        let fake = board();
        fake.wire.send(&REQUEST);
        fake.wire.send(b"report 5\n");
        for _ in 0..exits {
            let _ = fake.board.serve_console();
        }
        fake.board.tell(format_args!("changed"));
        let lines = ask(&fake, "");
        let lines: Vec<_> = reported(&fake.wire).into_iter().chain(lines).collect();
        let vcpus: Vec<_> = lines
            .iter()
            .filter(|line| line.starts_with("vcpu "))
            .collect();
        let unique: std::collections::BTreeSet<_> = vcpus.iter().collect();
        assert_eq!(unique.len(), 3, "{exits}: {lines:?}");
        assert!(vcpus.iter().all(|line| line.split(' ').count() == 19));
        assert!(lines.iter().any(|line| line == "changed"));
        assert!(lines.iter().any(|line| line == "end 5"));
    }
}

/// Lets the first CPU run until the board has answered.
fn answered(fake: &mut FakeBoard, request: &str) -> String {
    let before = reported(&fake.wire).len();
    fake.wire.send(&REQUEST);
    fake.wire.send(request.as_bytes());
    for _ in 0..4_000 {
        let _ = fake.board.serve_console();
        fake.board.machine.advance(7);
        fake.pcpus[0].schedule();
        if let Some(line) = reported(&fake.wire).get(before) {
            return line.clone();
        }
    }
    panic!("no answer to {request}");
}

#[test]
fn a_person_changes_an_interface() {
    let mut fake = board();
    // A tick of the fake counter is a nanosecond.
    let frequency = fake.board.counter_frequency();
    let nanos = |ticks: u64| ticks * 1_000_000_000 / frequency;
    let change = |vm, period, budget| {
        format!(
            "change {vm} 0 {} {} {}\n",
            nanos(period),
            nanos(budget),
            nanos(period)
        )
    };
    let line = answered(&mut fake, &change(0, 10_000, 8_000));
    assert!(line.starts_with("changed 0 0 "), "{line}");
    // What is promised counts before it takes effect.
    let line = answered(&mut fake, &change(1, 10_000, 3_000));
    assert!(line.starts_with("refused 1 0 overload "), "{line}");
    let lines = ask(&fake, "report 7\n");
    let own = lines
        .iter()
        .find(|line| line.starts_with("vcpu 0 0 "))
        .unwrap();
    assert!(own.contains(" periodic 10000 8000 10000 "), "{own}");
    for (request, answer) in [
        ("change 0 0 0 0 0\n", "refused 0 0 invalid 0 0 0"),
        (
            "change 0 0 18446744073709551615 1 1\n",
            "refused 0 0 invalid 0 0 0",
        ),
        ("change 9 0 1 1 1\n", "refused 9 0 invalid 0 0 0"),
        (
            "change 0 9 10000 5000 10000\n",
            "refused 0 9 not-allowed 0 0 0",
        ),
        (
            "change 2 0 10000 5000 10000\n",
            "refused 2 0 not-allowed 0 0 0",
        ),
        ("weight 0 0 5 50\n", "refused 0 0 not-allowed 0 0 0"),
    ] {
        assert_eq!(answered(&mut fake, request), answer, "{request}");
    }
}

/// A change that comes before the last one of the same vCPU has taken effect is made after it, unless that is far away.
#[test]
fn a_person_s_change_waits_for_the_one_before() {
    let mut fake = board();
    let change = |period: u64, budget: u64| {
        let [period, budget] = [period, budget].map(|ticks| ticks * 1_000);
        format!("change 0 0 {period} {budget} {period}\n")
    };
    let mut last = 0;
    for budget in [4_000, 3_500, 2_000] {
        let line = answered(&mut fake, &change(10_000, budget));
        let at = line
            .strip_prefix("changed 0 0 ")
            .map(|at| at.parse::<u64>());
        let at = at.unwrap_or_else(|| panic!("{line}")).unwrap();
        assert!(at >= last + 10_000, "{line}, and before {last}");
        last = at;
    }
    for (period, answer) in [
        (900_000, "changed 0 0 "),
        (10_000, "changed 0 0 "),
        (10_000, "refused 0 0 busy "),
    ] {
        let line = answered(&mut fake, &change(period, 2_000));
        assert!(line.starts_with(answer), "{line}");
    }
}

#[test]
fn numbers_are_written_as_the_library_does() {
    let mut all = vec![0, 1, 9, 10, 99, 100, u64::MAX, u64::MAX - 1, 1 << 32];
    for power in 0..20 {
        let ten = 10_u64.pow(power);
        all.extend([ten - 1, ten, ten + 1, ten.saturating_mul(7)]);
    }
    let expected: String = all.iter().map(|number| format!(" {number}")).collect();
    assert_eq!(format!("{}", super::Numbers(&all)), expected);
}
