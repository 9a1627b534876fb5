use super::budgets::Kind;
use super::timeline::Who;
use super::*;
use crate::model::{Guest, INTERRUPTED, State, Task};

mod sampled;

const LINUX: i32 = 1000;
const RTOS: i32 = 2000;

fn task(number: i32) -> Task {
    let name = match number {
        0 => "idle",
        LINUX => "linux.0",
        _ => "rtos.0",
    };
    Task {
        number,
        name: name.to_owned(),
        priority: 0,
    }
}

fn switch(previous: i32, state: State, next: i32) -> Event {
    Event::Switch {
        previous: task(previous),
        state,
        next: task(next),
    }
}

fn exit(reason: u32, syndrome: u32, about: u64) -> Event {
    Event::Exit {
        vcpu: 0,
        address: 0x4000_0000,
        reason,
        syndrome,
        about,
    }
}

fn entry(instructions: u32) -> Event {
    Event::Entry {
        vcpu: 0,
        address: 0x4000_0000,
        instructions,
    }
}

fn wake(number: i32) -> Event {
    Event::Waking {
        task: task(number),
        cpu: 0,
    }
}

fn interrupt(number: u32) -> [Event; 2] {
    let name = format!("interrupt {number}");
    let handled = true;
    [
        Event::InterruptEntry { number, name },
        Event::InterruptExit { number, handled },
    ]
}

/// Records of microseconds, tasks and events.
fn records(all: Vec<(u64, i32, Event)>) -> Vec<Record> {
    let record = |(at, task, event)| Record {
        at: 5_000_000_000 + at * 1000,
        task,
        in_interrupt: false,
        event,
    };
    all.into_iter().map(record).collect()
}

fn machine(cpus: Vec<Vec<Record>>) -> Machine {
    Machine {
        name: String::new(),
        id: 1,
        place: Place::Host { guests: Vec::new() },
        tasks: [0, LINUX, RTOS]
            .map(|number| (number, task(number).name))
            .into(),
        cpus,
    }
}

fn trace(machine: Machine) -> Trace {
    Trace {
        is_cut: vec![false; machine.cpus.len()],
        machine,
        unknown: BTreeMap::new(),
        notes: Vec::new(),
    }
}

/// Two guests on one CPU, with budgets, and a CPU that idles and loses records.
fn sample() -> Trace {
    let [begins, ends] = interrupt(27);
    let one = records(vec![
        (0, LINUX, switch(0, State::Ready, LINUX)),
        (0, LINUX, entry(0)),
        (100, LINUX, exit(0x24, 0x9300_0006, 0x900_0018)),
        (104, LINUX, entry(1500)),
        (200, LINUX, exit(0x24, 0x9300_0006, 0x900_0000)),
        (206, LINUX, entry(2500)),
        (300, LINUX, exit(INTERRUPTED, 27, 0)),
        (300, LINUX, wake(RTOS)),
        (302, LINUX, begins),
        (305, LINUX, ends),
        (310, LINUX, switch(LINUX, State::Ready, RTOS)),
        (312, RTOS, entry(5000)),
        (500, RTOS, exit(1, 0x0600_0000, 0)),
        (
            503,
            RTOS,
            Event::Throttled {
                task: task(RTOS),
                count: 1,
            },
        ),
        (503, RTOS, switch(RTOS, State::Waiting, 0)),
        (603, 0, switch(0, State::Ready, LINUX)),
        (605, LINUX, entry(0)),
        (650, LINUX, wake(RTOS)),
        (700, LINUX, exit(INTERRUPTED, 1023, 0)),
        (701, LINUX, switch(LINUX, State::Waiting, RTOS)),
        (702, RTOS, entry(800)),
        (800, RTOS, exit(0x16, 0x5a00_0000, 0x8400_0000)),
        (801, RTOS, entry(100)),
        (900, RTOS, exit(1, 0x0600_0001, 0)),
        (
            902,
            RTOS,
            Event::Late {
                task: task(RTOS),
                count: 2,
            },
        ),
        (902, RTOS, switch(RTOS, State::Waiting, LINUX)),
        (904, LINUX, entry(900)),
        (1000, LINUX, Event::Words("something".to_owned())),
    ]);
    let other = records(vec![
        (250, LINUX + 1, exit(7, 0, 0)),
        (251, LINUX + 1, entry(0)),
        (750, LINUX + 1, Event::Lost { count: 1234 }),
        (750, LINUX + 1, exit(65, 0, 0)),
    ]);
    let mut machine = machine(vec![one, other]);
    machine.tasks.insert(LINUX + 1, "linux.1".to_owned());
    trace(machine)
}

fn told(files: &[(String, Trace)], options: &Options) -> String {
    let text = report(files, options).unwrap();
    assert!(
        text.lines().all(|line| line.chars().count() <= WIDTH),
        "{text}"
    );
    text
}

fn of_sample(options: &Options) -> String {
    let mut trace = sample();
    trace.unknown.insert("ftrace:print".to_owned(), 3);
    trace.notes.push(
        "the file is cut off within the ring at offset 0x1000: 4 records of CPU 1 read".to_owned(),
    );
    told(&[("trace.dat".to_owned(), trace)], options)
}

#[test]
fn a_report_has_all_that_people_ask() {
    assert_eq!(
        of_sample(&Options::default()),
        include_str!("tests/all.txt")
    );
}

#[test]
fn of_one_task_a_report_has_its_longest_waits() {
    let options = Options {
        task: Some("rtos.0".to_owned()),
        ..Options::default()
    };
    assert_eq!(of_sample(&options), include_str!("tests/task.txt"));
}

#[test]
fn a_report_of_a_part_counts_what_is_in_it() {
    let options = Options {
        from: Some(300_000),
        to: Some(700_000),
        ..Options::default()
    };
    assert_eq!(of_sample(&options), include_str!("tests/part.txt"));
}

#[test]
fn there_is_no_report_of_nobody_or_of_no_time() {
    let error = |options| {
        let files = [("trace.dat".to_owned(), sample())];
        report(&files, &options).unwrap_err()
    };
    let nobody = error(Options {
        task: Some("rtos.1".to_owned()),
        ..Options::default()
    });
    let wanted = "no task is called rtos.1; there is: linux.0, linux.1, rtos.0";
    assert_eq!(nobody.to_string(), wanted);
    let later = error(Options {
        from: Some(2_000_000),
        ..Options::default()
    });
    assert_eq!(later, ReportError::NoTime(0.001));
    let backwards = error(Options {
        from: Some(2000),
        to: Some(1000),
        ..Options::default()
    });
    assert_eq!(backwards, ReportError::NoTime(0.001));
    let empty = [("trace.dat".to_owned(), trace(machine(vec![Vec::new()])))];
    assert_eq!(report(&empty, &Options::default()), Err(ReportError::Empty));
}

#[test]
fn files_of_several_machines_have_one_clock() {
    let mut board = sample();
    board.machine.place = Place::Host {
        guests: vec![Guest {
            name: "rtos".to_owned(),
            id: 77,
            vcpus: vec![RTOS],
        }],
    };
    let mut guest = machine(vec![records(vec![
        (400, 7, wake(8)),
        (450, 7, switch(7, State::Ready, 8)),
        (460, 8, switch(8, State::Waiting, 7)),
    ])]);
    guest.id = 77;
    guest.tasks = [(7, "control".to_owned()), (8, "log\x1b[2Jger".to_owned())].into();
    guest.place = Place::Guest {
        host: 1,
        shift: 100_000,
    };
    let files = [
        ("board.dat".to_owned(), board),
        ("rtos.dat".to_owned(), trace(guest)),
    ];
    let text = told(&files, &Options::default());
    let (_, of_guest) = text
        .split_once("rtos.dat (guest rtos): 0.001000 s, 1 CPU")
        .unwrap();
    // From 5.0005 s on its clock is the board's; the first record of all is at 5 s.
    assert!(
        of_guest.contains("log[2Jger had work at 0.000500 s and ran 50.0 us later"),
        "{text}"
    );
    let beneath = "  beneath it, on the board's CPU 0, of which rtos.0 is its vCPU:\n  idle    47.0 us\n  rtos.0   3.0 us  3.0 us of it in the hypervisor\n";
    assert!(of_guest.contains(beneath), "{text}");
    // Before its first record nothing is known of it.
    assert!(of_guest.contains("55.0 %"), "{text}");
    let options = Options {
        task: Some("control".to_owned()),
        ..Options::default()
    };
    let text = told(&files, &options);
    assert!(!text.contains("board.dat"), "{text}");
    assert!(text.contains("control"), "{text}");
}

#[test]
fn names_and_lists_that_are_long_fit() {
    let mut trace = sample();
    trace.machine.tasks.insert(RTOS, "r".repeat(300));
    for number in 0..200 {
        trace
            .unknown
            .insert(format!("system:event_number_{number}"), number);
        let exit = exit(INTERRUPTED, number as u32, 0);
        let wakes_within = 305 + number / 50;
        trace.machine.cpus[0].extend(records(vec![(wakes_within, LINUX, exit)]));
    }
    trace.unknown.insert("e".repeat(300), 1000);
    trace.machine.cpus[0].sort_by_key(|record| record.at);
    let text = told(&[("t".repeat(60), trace)], &Options::default());
    assert!(text.contains("rrrrrrrrrrrrrrrrrrrrrr.. "), "{text}");
    assert!(text.contains("causes with less"), "{text}");
}

#[test]
fn numbers_are_readable() {
    use super::text::{grouped, share, time};
    assert_eq!(
        ["0", "999", "1,000", "1,234,567"],
        [0, 999, 1000, 1_234_567].map(grouped)
    );
    let times = [0, 999, 1000, 999_949, 1_234_567, 1_234_567_890].map(time);
    assert_eq!(
        times,
        [
            "0 ns", "999 ns", "1.0 us", "999.9 us", "1.235 ms", "1.235 s"
        ]
    );
    assert_eq!([share(1, 3), share(0, 0)], ["33.3 %", "-"]);
}
