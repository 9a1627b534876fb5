use super::*;
use crate::model::{Event, Guest, INTERRUPTED, Place, Record, State, Task};
use crate::report::{Options, report};
use crate::trace_dat::written;
use proptest::prelude::*;

fn task() -> impl Strategy<Value = Task> {
    (any::<i32>(), "[a-zé.]{0,7}", any::<i32>()).prop_map(|(number, name, priority)| Task {
        number,
        name,
        priority,
    })
}

fn state() -> impl Strategy<Value = State> {
    prop::sample::select(vec![
        State::Ready,
        State::Waiting,
        State::Stopped,
        State::Ended,
    ])
}

fn event() -> impl Strategy<Value = Event> {
    let number = any::<u32>;
    prop_oneof![
        (task(), state(), task()).prop_map(|(previous, state, next)| Event::Switch {
            previous,
            state,
            next,
        }),
        (task(), number()).prop_map(|(task, cpu)| Event::Waking { task, cpu }),
        (number(), "[a-z ]{0,20}")
            .prop_map(|(number, name)| Event::InterruptEntry { number, name }),
        (number(), any::<bool>())
            .prop_map(|(number, handled)| Event::InterruptExit { number, handled }),
        (number(), any::<u64>(), number()).prop_map(|(vcpu, address, instructions)| {
            Event::Entry {
                vcpu,
                address,
                instructions,
            }
        }),
        (number(), any::<u64>(), number(), number(), any::<u64>()).prop_map(
            |(vcpu, address, reason, syndrome, about)| Event::Exit {
                vcpu,
                address,
                reason,
                syndrome,
                about,
            }
        ),
        (task(), number()).prop_map(|(task, count)| Event::Throttled { task, count }),
        (task(), number()).prop_map(|(task, count)| Event::Late { task, count }),
        any::<u64>().prop_map(|count| Event::Lost { count }),
        "[a-z ]{0,300}".prop_map(Event::Words),
    ]
}

/// Records, each so long after the one before. Some gaps are longer than the head of an event can tell.
fn records() -> impl Strategy<Value = Vec<Record>> {
    let gap = prop_oneof![0..3_u64, 0..1_000_000_u64, 0..1_u64 << 40];
    let one = (gap, any::<i32>(), any::<bool>(), event());
    prop::collection::vec(one, 0..120).prop_map(|all| {
        let mut at = 0;
        let record = |(gap, task, in_interrupt, event)| {
            at += gap;
            Record {
                at,
                task,
                in_interrupt,
                event,
            }
        };
        all.into_iter().map(record).collect()
    })
}

fn place() -> impl Strategy<Value = Place> {
    let vcpus = prop::collection::vec(any::<i32>(), 0..4);
    let guest =
        ("[a-z]{0,9}", any::<u64>(), vcpus).prop_map(|(name, id, vcpus)| Guest { name, id, vcpus });
    prop_oneof![
        prop::collection::vec(guest, 0..3).prop_map(|guests| Place::Host { guests }),
        (any::<u64>(), any::<i64>()).prop_map(|(host, shift)| Place::Guest { host, shift }),
    ]
}

fn machine() -> impl Strategy<Value = Machine> {
    let names = prop::collection::btree_map(any::<i32>(), "[a-z.0-9]{1,30}", 0..9);
    let cpus = prop::collection::vec(records(), 1..4);
    (any::<u64>(), place(), names, cpus).prop_map(|(id, mut place, tasks, cpus)| {
        if let Place::Guest { shift, .. } = &mut place {
            // A guest without CPUs has no shift in its file.
            *shift = if cpus.is_empty() { 0 } else { *shift };
        }
        Machine {
            name: String::new(),
            id,
            place,
            tasks,
            cpus,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn what_was_written_is_read(machine in machine()) {
        let trace = read(&written(&machine).unwrap()).unwrap();
        prop_assert_eq!(trace.machine, machine);
        prop_assert!(trace.notes.is_empty());
        prop_assert!(trace.unknown.is_empty());
    }
}

fn named(number: i32, name: &str) -> Task {
    Task {
        number,
        name: name.to_owned(),
        priority: 0,
    }
}

/// Two CPUs, of which the second one has two pages.
fn sample() -> Machine {
    let (one, other) = (named(1000, "linux.0"), named(2000, "rtos.0"));
    let cpu = |count: u64| {
        let record = |index: u64| Record {
            at: 1000 + 7 * index,
            task: 1000,
            in_interrupt: false,
            event: match index % 3 {
                0 => Event::Switch {
                    previous: one.clone(),
                    state: State::Waiting,
                    next: other.clone(),
                },
                1 => Event::Exit {
                    vcpu: 0,
                    address: index,
                    reason: INTERRUPTED,
                    syndrome: 27,
                    about: 0,
                },
                _ => Event::Words(format!("number {index}")),
            },
        };
        (0..count).map(record).collect()
    };
    Machine {
        name: String::new(),
        id: 1,
        place: Place::Host { guests: Vec::new() },
        tasks: [(1000, "linux.0".to_owned()), (2000, "rtos.0".to_owned())].into(),
        cpus: vec![cpu(30), cpu(100)],
    }
}

#[test]
fn a_file_that_is_cut_off_has_what_it_has() {
    let whole = sample();
    let file = written(&whole).unwrap();
    let mut most = 0;
    for end in 0..file.len() {
        match read(&file[..end]) {
            Err(ReadError::CutOff { at, end: found, .. }) => {
                assert_eq!(most, 0, "{end}");
                assert!(at <= end && found == end, "{end}");
            }
            Err(error) => panic!("{end}: {error}"),
            Ok(trace) => {
                for (read, all) in trace.machine.cpus.iter().zip(&whole.cpus) {
                    assert!(all.starts_with(read), "{end}");
                }
                let count = trace.machine.cpus.iter().map(Vec::len).sum();
                assert!(count >= most, "{end}");
                most = count;
                assert_eq!(trace.is_cut, [end < file.len() - 8192, true], "{end}");
                let wanted = format!("{} records of CPU 1 read", trace.machine.cpus[1].len());
                assert!(trace.notes.last().unwrap().ends_with(&wanted), "{end}");
            }
        }
    }
    assert_eq!(most, 130);
}

/// Random numbers, each the same in each run.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    *state >> 33
}

#[test]
fn whatever_a_damaged_file_has_is_read_or_refused() {
    let file = written(&sample()).unwrap();
    let mut seed = 1;
    let (mut read_ones, mut noted) = (0, 0);
    for _ in 0..4000 {
        let mut file = file.clone();
        for _ in 0..=random(&mut seed) % 4 {
            let at = random(&mut seed) as usize % file.len();
            file[at] = match random(&mut seed) % 3 {
                0 => 0xff,
                1 => file[at] ^ 1 << (random(&mut seed) % 8),
                _ => random(&mut seed) as u8,
            };
        }
        if let Ok(trace) = read(&file) {
            read_ones += 1;
            noted += usize::from(!trace.notes.is_empty());
            for cpu in &trace.machine.cpus {
                assert!(cpu.is_sorted_by_key(|record| record.at));
            }
            let files = [("damaged".to_owned(), trace)];
            let text = report(&files, &Options::default());
            // A damaged file may have no event that is known.
            let text = text.unwrap_or_default();
            let long = text.lines().find(|line| line.chars().count() > 100);
            assert_eq!(long, None);
        }
    }
    assert!(read_ones > 1000 && noted > 100, "{read_ones}, {noted}");
}

/// The file with these bytes in place of those.
fn changed(file: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = file.windows(from.len()).position(|some| some == from);
    let mut file = file.to_vec();
    file.splice(at.unwrap()..at.unwrap() + from.len(), to.iter().copied());
    file
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let file = written(&sample()).unwrap();
    let error = |file: &[u8]| read(file).unwrap_err();
    assert_eq!(error(b"PK\x03\x04 and so on"), ReadError::NoTrace);
    let newer = error(&changed(&file, b"tracing6", b"tracing7"));
    assert!(newer.to_string().contains("--file-version 6"));
    let other = error(&changed(&file, b"tracing6", b"tracing5"));
    assert_eq!(other, ReadError::Version("5".to_owned()));
    let big = error(&changed(&file, b"6\0\x00\x08", b"6\0\x01\x08"));
    assert_eq!(big, ReadError::BigEndian);
    let latency = error(&changed(&file, b"flyrecord\0", b"latency  \0"));
    assert!(matches!(latency, ReadError::Latency(_)));
    let claim = u64::MAX.to_le_bytes();
    let long = changed(
        &file,
        b"header_page\0",
        b"header_page\0\xff\xff\xff\xff\xff\xff\xff\xff",
    );
    assert!(matches!(
        error(&long),
        ReadError::CutOff { what: "layout", .. }
    ));
    let many = changed(
        &file,
        b"\x02\0\0\0options  \0",
        b"\xff\xff\xff\xffoptions  \0",
    );
    assert!(matches!(
        error(&many),
        ReadError::CutOff { what: STEPS, .. } | ReadError::Damaged { .. }
    ));
    let rings = file
        .windows(10)
        .position(|some| some == b"flyrecord\0")
        .unwrap()
        + 10;
    let mut beyond = file.clone();
    beyond[rings + 8..rings + 16].copy_from_slice(&claim);
    assert!(error(&beyond).to_string().contains("beyond all memory"));
    let mut twice = file.clone();
    twice.copy_within(rings..rings + 16, rings + 16);
    assert!(error(&twice).to_string().contains("share a place"));
}

const STEPS: &str = "list of rings";

/// A file that Linux' own tracing has the formats of: offsets, sizes and names are other ones than those of this crate.
fn of_linux(pages: &[u8]) -> Vec<u8> {
    const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
    let format = |name: &str, id: u16, fields: &str| {
        let text = format!("name: {name}\nID: {id}\nformat:\n{COMMON}{fields}\nprint fmt: \"\"\n");
        [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
    };
    let wakeup = format(
        "sched_wakeup",
        315,
        "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n",
    );
    let exit = format(
        "kvm_exit",
        400,
        "\tfield:int ret;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:unsigned int esr_ec;\toffset:12;\tsize:4;\tsigned:0;\n\tfield:unsigned long vcpu_pc;\toffset:16;\tsize:8;\tsigned:0;\n",
    );
    let print = format(
        "print",
        5,
        "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n",
    );
    let page = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    let mut file = b"\x17\x08\x44tracing6\0\x00\x08\x00\x10\0\0header_page\0".to_vec();
    file.extend((page.len() as u64).to_le_bytes());
    file.extend(page.bytes());
    file.extend(b"header_event\0\0\0\0\0\0\0\0\0");
    file.extend(1_u32.to_le_bytes());
    file.extend(print);
    file.extend(2_u32.to_le_bytes());
    for (system, format) in [("sched", wakeup), ("kvm", exit)] {
        file.extend(system.bytes().chain([0, 1, 0, 0, 0]));
        file.extend(format);
    }
    file.extend([0; 8]);
    file.extend(b"\x05\0\0\0\0\0\0\x007 sh\n\x01\0\0\0options  \0\x04\0\x14\0\0\0local global [mono]\0\0\0flyrecord\0");
    let start = (file.len() + 16).next_multiple_of(4096);
    file.extend((start as u64).to_le_bytes());
    file.extend((pages.len() as u64).to_le_bytes());
    file.resize(start, 0);
    file.extend(pages);
    file
}

/// An event's head: its type and the time since the one before; and what follows it.
fn raw(kind: u32, delta: u32, rest: &[u8]) -> Vec<u8> {
    [&(kind | delta << 5).to_le_bytes(), rest].concat()
}

fn page(stamp: u64, commit: u64, events: &[u8]) -> Vec<u8> {
    let mut page = [
        &stamp.to_le_bytes()[..],
        &(commit | events.len() as u64).to_le_bytes(),
        events,
    ]
    .concat();
    if commit & 1 << 30 != 0 {
        page.extend(42_u64.to_le_bytes());
    }
    page.resize(4096, 0);
    page
}

#[test]
fn all_that_a_page_of_linux_can_have_is_read() {
    let mut wakeup = vec![0x3b, 1, 8, 0, 7, 0, 0, 0];
    wakeup.extend(b"sh\0garbage......");
    wakeup.extend([7, 0, 0, 0, 0x78, 0, 0, 0, 3, 0, 0, 0]);
    let exit = |ret: u8| {
        let mut exit = vec![0x90, 1, 0, 0, 7, 0, 0, 0, ret, 0, 0, 0, 0x24, 0, 0, 0];
        exit.extend(0xffff_8000_u64.to_le_bytes());
        exit
    };
    let print = [5, 0, 0, 0, 7, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let long = [&28_u32.to_le_bytes(), &exit(0)[..]].concat();
    let events = [
        raw(9, 5, &wakeup),
        raw(30, 1, &2_u32.to_le_bytes()),
        raw(6, 3, &exit(2)),
        // A record that was taken back.
        raw(29, 10, &[8, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]),
        raw(0, 1, &long),
        raw(4, 0, &print),
        // The rest of the page.
        raw(29, 0, &[9; 64]),
    ]
    .concat();
    let later = (3 << 59 | 5_u64 << 40, 7_u32 << 13);
    let stamp = raw(31, 9, &later.1.to_le_bytes());
    let second = [stamp, raw(6, 2, &exit(1))].concat();
    let flags = 1 << 31 | 1 << 30;
    let pages = [page(1000, 0, &events), page(later.0, flags, &second)].concat();
    let trace = read(&of_linux(&pages)).unwrap();
    assert!(trace.notes.is_empty(), "{:?}", trace.notes);
    let shown = |record: &Record| (record.at, record.in_interrupt, record.event.clone());
    let exit = |reason, syndrome| Event::Exit {
        vcpu: 0,
        address: 0xffff_8000,
        reason,
        syndrome,
        about: 0,
    };
    let waking = Event::Waking {
        task: Task {
            number: 7,
            name: "sh".to_owned(),
            priority: 0x78,
        },
        cpu: 3,
    };
    let found: Vec<_> = trace.machine.cpus[0].iter().map(shown).collect();
    let extended = 1005 + (2 << 27) + 1;
    let wanted = [
        (1005, true, waking),
        (extended + 3, false, exit(0x24, 0x24 << 26)),
        (extended + 14, false, exit(INTERRUPTED, 1020)),
        (later.0, false, Event::Lost { count: 42 }),
        (3 << 59 | 7 << 40 | 11, false, exit(65, 0)),
    ];
    assert_eq!(found, wanted);
    assert_eq!(trace.unknown, [("ftrace:print".to_owned(), 1)].into());
    assert_eq!(trace.machine.tasks, [(7, "sh".to_owned())].into());
}

#[test]
fn a_damaged_page_does_not_take_those_behind_it_away() {
    let exit = [
        0x90_u8, 1, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0, 0x24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    let good = [raw(6, 1, &exit), raw(6, 1, &exit)].concat();
    // The second event goes on behind the page's events, the second page's first one is too short.
    let long = [raw(6, 1, &exit), raw(7, 1, &exit)].concat();
    let short = [raw(5, 1, &exit[..20]), raw(6, 1, &exit)].concat();
    let pages = [page(10, 0, &long), page(20, 0, &short), page(30, 0, &good)].concat();
    let trace = read(&of_linux(&pages)).unwrap();
    let found: Vec<_> = trace.machine.cpus[0]
        .iter()
        .map(|record| (record.at, matches!(record.event, Event::Lost { .. })))
        .collect();
    assert_eq!(
        found,
        [
            (11, false),
            (11, true),
            (11, true),
            (31, false),
            (32, false)
        ]
    );
    let [note] = &trace.notes[..] else {
        panic!("{:?}", trace.notes)
    };
    assert!(
        note.contains("damaged pages of a ring: 2, the first at offset 0x1000"),
        "{note}"
    );
    assert!(note.ends_with("5 records of CPU 0 read"), "{note}");
}

#[test]
fn clocks_that_count_no_nanoseconds_are_told() {
    let file = changed(
        &of_linux(&[]),
        b"\x14\0\0\0local global [mono]",
        b"\x09\0\0\0[uptime]",
    );
    assert!(read(&file).unwrap().notes[0].contains("the clock uptime"));
}

#[test]
fn fields_have_the_sign_and_the_place_that_the_format_says() {
    let format = "name: some\nID: 9\nformat:\n\tfield:short small;\toffset:2;\tsize:2;\tsigned:1;\n\tfield:unsigned short large;\toffset:2;\tsize:2;\tsigned:0;\n\tfield:char * name;\toffset:4;\tsize:9;\tsigned:0;\n\tfield:__data_loc char[] words;\toffset:0;\tsize:4;\tsigned:0;\n\tfield:int behind;\toffset:6;\tsize:4;\tsigned:1;\n";
    let some = description::Description::parsed("of", format).unwrap();
    let payload = [5, 0, 0xfe, 0xff, b'h', b'i', 0, 1];
    assert_eq!(some.number(&payload, "small"), Some(-2_i64 as u64));
    assert_eq!(some.number(&payload, "large"), Some(0xfffe));
    assert_eq!(some.number(&payload, "name"), None);
    assert_eq!(some.number(&payload, "behind"), None);
    assert_eq!(some.number(&payload, "nothing"), None);
    // It says that it goes on for longer than the event has.
    assert_eq!(some.text(&payload, "words"), None);
    let payload = [5, 0, 2, 0, b'h', b'i', 0, 1];
    assert_eq!(some.text(&payload, "words"), Some("i".to_owned()));
    for no_format in ["", "name: some\n", "ID: 9\n", "name: some\nID: 70000\n"] {
        assert!(description::Description::parsed("of", no_format).is_none());
    }
}
