use super::*;

const LINUX: (u8, u8) = (0, 0);
const RTOS: (u8, u8) = (1, 0);

fn head() -> Head {
    Head {
        rings: 1,
        records: 1024,
        frequency: 1_000_000_000,
        is_64_bit: true,
        chosen: [0, 0],
        vms: vec!["linux".to_owned(), "rtos".to_owned()],
    }
}

fn raw(stamp: u64, kind: Kind, (vm, vcpu): (u8, u8), [extra, a, b]: [u64; 3]) -> Raw {
    let what = Raw::what(kind, vm, vcpu) | extra << 32;
    Raw { stamp, what, a, b }
}

fn board(records: Vec<Raw>) -> Machine {
    let mut recording = Recording::new(head());
    recording.add(vec![Taken { records, lost: 0 }]);
    recording.board()
}

/// Each event as a person would say it.
fn lines(machine: &Machine) -> Vec<String> {
    let line = |record: &Record| {
        let at = record.at;
        match &record.event {
            Event::Switch {
                previous,
                state,
                next,
            } => format!("{at} {} {state:?} -> {}", previous.name, next.name),
            Event::Waking { task, .. } => format!("{at} {} wakes", task.name),
            Event::InterruptEntry { number, .. } => format!("{at} interrupt {number}"),
            Event::InterruptExit { number, .. } => format!("{at} end of {number}"),
            Event::Entry { instructions, .. } => format!("{at} entry after {instructions}"),
            Event::Exit { reason, about, .. } => format!("{at} exit {reason} {about:#x}"),
            Event::Throttled { task, count } => format!("{at} {} throttled {count}", task.name),
            Event::Late { task, count } => format!("{at} {} late {count}", task.name),
            Event::Lost { count } => format!("{at} lost {count}"),
            Event::Words(words) => format!("{at} {words}"),
        }
    };
    machine.cpus[0].iter().map(line).collect()
}

const NOBODY: (u8, u8) = (0xff, 0);

#[test]
fn vcpus_are_the_tasks_of_the_board() {
    let machine = board(vec![
        raw(10, Kind::SwitchIn, LINUX, [0, 3, 0]),
        raw(10, Kind::Enter, LINUX, [0, 0x4000, 0]),
        raw(20, Kind::Interrupted, LINUX, [27, 0x4000, 0]),
        raw(30, Kind::SwitchOut, LINUX, [0, 1, 0]),
        raw(30, Kind::SwitchIn, RTOS, [0, 21, 0]),
        raw(30, Kind::Decision, RTOS, [0, 100, 0]),
        raw(31, Kind::Enter, RTOS, [0, 0x8000, 250]),
        raw(40, Kind::Exit, RTOS, [0x5800_0000, 0x8004, 0x84]),
        raw(50, Kind::SwitchOut, RTOS, [0, 0, 0]),
        raw(50, Kind::SwitchIn, LINUX, [0, 3, 0]),
        raw(60, Kind::Idle, NOBODY, [0, 0, 0]),
        raw(70, Kind::SwitchIn, RTOS, [0, 65, 0]),
    ]);
    let wanted = [
        "10 idle Ready -> linux.0",
        "10 entry after 0",
        "20 exit 64 0x0",
        "20 interrupt 27",
        "30 end of 27",
        "30 linux.0 Ready -> rtos.0",
        "31 entry after 250",
        "40 exit 22 0x84",
        "50 rtos.0 Waiting -> linux.0",
        "60 linux.0 Waiting -> idle",
        "65 rtos.0 wakes",
        "70 idle Ready -> rtos.0",
    ];
    assert_eq!(lines(&machine), wanted);
    let names: Vec<_> = machine.tasks.values().collect();
    assert_eq!(names, ["idle", "linux.0", "rtos.0"]);
    assert_eq!(machine.cpus[0][3].task, 1000);
}

#[test]
fn budgets_and_broken_promises_are_told_when_their_counts_rise() {
    let out = |stamp, throttled: u64, late: u64| {
        let counts = throttled << 32 | late;
        raw(stamp, Kind::SwitchOut, RTOS, [0, 1, counts])
    };
    let machine = board(vec![
        // What was before the recording is no news.
        out(1, 7, 2),
        out(2, 7, 2),
        out(3, 8, 2),
        out(4, 8, 5),
        raw(5, Kind::SwitchOut, RTOS, [0, u64::MAX, u64::MAX]),
        out(6, 9, 9),
    ]);
    let wanted = ["3 rtos.0 throttled 1", "4 rtos.0 late 3"];
    assert_eq!(lines(&machine), wanted);
}

#[test]
fn lost_records_are_told_where_they_are_missing() {
    let mut recording = Recording::new(head());
    let interrupt = |stamp| raw(stamp, Kind::Interrupt, NOBODY, [0, 33, 0]);
    for (records, lost) in [
        (vec![interrupt(5)], 0),
        (vec![interrupt(9), interrupt(11)], 7),
        (vec![], 2),
        (vec![interrupt(20)], 1),
        (vec![], 4),
    ] {
        recording.add(vec![Taken { records, lost }]);
    }
    assert_eq!(recording.lost(), 14);
    let wanted = [
        "5 interrupt 33",
        "9 lost 7",
        "9 interrupt 33",
        "11 end of 33",
        "11 interrupt 33",
        "20 lost 2",
        "20 lost 1",
        "20 interrupt 33",
        "20 lost 4",
    ];
    assert_eq!(lines(&recording.board()), wanted);
}

#[test]
fn who_leaves_its_guest_was_running_even_if_no_switch_was_recorded() {
    let machine = board(vec![
        raw(5, Kind::Interrupted, RTOS, [1023, 0x8000, 0]),
        raw(6, Kind::Wake, LINUX, [0; 3]),
        raw(7, Kind::Start, LINUX, [0; 3]),
        raw(8, Kind::Interrupt, NOBODY, [0, 33, 0]),
        // Nothing that this version knows.
        raw(9, Kind::Chosen, NOBODY, [0, 31, 1]),
        Raw {
            stamp: 10,
            what: 0x77,
            a: 0,
            b: 0,
        },
        raw(11, Kind::Enter, (9, 9), [0; 3]),
    ]);
    let wanted = [
        "5 idle Ready -> rtos.0",
        "5 exit 64 0x0",
        "6 linux.0 wakes",
        "7 linux.0 is started",
        "8 interrupt 33",
        "9 end of 33",
        "9 records classes 0x1f of VMs 0x1",
        "11 rtos.0 Ready -> vm9.9",
        "11 entry after 0",
    ];
    assert_eq!(lines(&machine), wanted);
}

/// The machine of several rings.
fn boards(rings: Vec<Vec<Raw>>) -> Machine {
    let head = Head {
        rings: rings.len(),
        ..head()
    };
    let mut recording = Recording::new(head);
    let taken = rings.into_iter();
    recording.add(taken.map(|records| Taken { records, lost: 0 }).collect());
    recording.board()
}

#[test]
fn where_one_vm_is_recorded_the_others_time_is_not_its_own() {
    let machine = board(vec![
        raw(10, Kind::SwitchIn, RTOS, [0, 0, 0]),
        raw(20, Kind::SwitchOut, RTOS, [0, 1, 0]),
        // Meanwhile there is another one, which nobody wants to see.
        raw(50, Kind::SwitchIn, RTOS, [0, 15, 0]),
        raw(50, Kind::Decision, RTOS, [0, 100, 0]),
        raw(60, Kind::SwitchOut, RTOS, [0, 0, 0]),
        raw(90, Kind::Idle, NOBODY, [0, 0, 0]),
        raw(95, Kind::SwitchIn, RTOS, [0, 92, 0]),
        raw(99, Kind::SwitchOut, RTOS, [0, 0, 0]),
    ]);
    let wanted = [
        "10 idle Ready -> rtos.0",
        "20 rtos.0 Ready -> idle",
        "50 idle Ready -> rtos.0",
        "60 rtos.0 Waiting -> idle",
        "92 rtos.0 wakes",
        "95 idle Ready -> rtos.0",
        "99 rtos.0 Waiting -> idle",
    ];
    assert_eq!(lines(&machine), wanted);
}

#[test]
fn what_a_turn_tells_is_told_once_on_whichever_cpu_it_was() {
    let out = |stamp, throttled: u64| raw(stamp, Kind::SwitchOut, RTOS, [0, 1, throttled << 32]);
    let machine = boards(vec![
        vec![out(10, 10), out(30, 12)],
        vec![out(20, 11), out(40, 13)],
    ]);
    let told = |cpu: usize| {
        let throttled = machine.cpus[cpu]
            .iter()
            .filter_map(|record| match record.event {
                Event::Throttled { count, .. } => Some((record.at, count)),
                _ => None,
            });
        throttled.collect::<Vec<_>>()
    };
    assert_eq!((told(0), told(1)), (vec![(30, 1)], vec![(20, 1), (40, 1)]));
}

#[test]
fn interrupts_alone_are_no_exits() {
    let machine = board(vec![
        raw(1, Kind::Chosen, NOBODY, [0, class::INTERRUPTS.into(), 1]),
        raw(5, Kind::Interrupted, RTOS, [27, 0x8000, 0]),
        raw(9, Kind::Interrupted, RTOS, [1023, 0x8000, 0]),
    ]);
    let wanted = [
        "1 records classes 0x8 of VMs 0x1",
        "5 interrupt 27",
        "9 end of 27",
    ];
    assert_eq!(lines(&machine), wanted);
}

#[test]
fn another_s_choice_is_noticed() {
    let chosen = |stamp, classes, vms| raw(stamp, Kind::Chosen, NOBODY, [0, classes, vms]);
    let recording = |records| {
        let mut recording = Recording::new(head());
        recording.add(vec![Taken { records, lost: 0 }]);
        recording
    };
    // What was before one's own choice does not matter, and one may choose the same again.
    let own = recording(vec![chosen(1, 9, 9), chosen(2, 5, 7), chosen(3, 5, 7)]);
    assert_eq!(own.disturbed([5, 7]), None);
    assert_eq!((own.duration(), own.latest()), (2, 3));
    let other = recording(vec![chosen(2, 5, 7), chosen(3, 5, 6), chosen(4, 5, 7)]);
    assert_eq!(other.disturbed([5, 7]), Some(3));
    // Damaged stamps are no panic.
    assert_eq!(
        recording(vec![chosen(9, 0, 0), chosen(2, 0, 0)]).duration(),
        0
    );
}

#[test]
fn the_end_of_a_recording_is_kept() {
    let mut recording = Recording::new(head());
    let records = [10, 20, 30, 40].map(|stamp| raw(stamp, Kind::Wake, RTOS, [0; 3]));
    for (part, lost) in [
        (&records[..1], 0),
        (&records[1..2], 5),
        (&records[2..3], 7),
        (&records[3..], 9),
    ] {
        let records = part.to_vec();
        recording.add(vec![Taken { records, lost }]);
    }
    // What was lost before what is kept is dropped with the rest.
    recording.keep_last(15);
    assert_eq!((recording.len(), recording.duration()), (2, 10));
    assert_eq!(
        (recording.lost(), recording.rings[0].gaps.clone()),
        (9, vec![(1, 9)])
    );
    recording.keep_last(1_000);
    assert_eq!(recording.len(), 2);
}
