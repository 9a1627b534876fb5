use super::*;
use hanok_types::{Deadline, VcpuId, VmId};
use std::boxed::Box;
use std::vec::Vec;

const RECORDS: usize = 8;
const NAMES: [&str; 2] = ["linux", "a-name-of-thirty-two-characters!"];

fn words(count: usize) -> Words {
    // What the memory had before must not matter.
    let words: Vec<_> = (0..count).map(|_| AtomicUsize::new(!0)).collect();
    Box::leak(words.into_boxed_slice())
}

fn facts(rings: usize, records: usize) -> Facts<'static, &'static str> {
    Facts {
        rings,
        records,
        frequency: 62_500_000,
        architecture: trace::AARCH64,
        names: &NAMES,
    }
}

fn area(rings: usize) -> Area {
    let words = words(area_size(rings, RECORDS) / WORD);
    Area::lay(words, facts(rings, RECORDS)).unwrap()
}

/// The bytes of an area, as somebody sees them who has a copy of the memory.
fn bytes(area: &Area) -> Vec<u8> {
    let words = area.words.iter();
    words
        .flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes())
        .collect()
}

fn number(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(bytes[offset..offset + 8].try_into().unwrap())
}

/// The record at a place of a ring.
fn record(bytes: &[u8], ring: usize, place: usize) -> Record {
    let start = PAGE + ring * (2 * PAGE + RECORDS * 32) + 2 * PAGE + place * 32;
    Record::from_bytes(bytes[start..start + 32].try_into().unwrap())
}

fn written(bytes: &[u8], ring: usize) -> u64 {
    number(bytes, PAGE + ring * (2 * PAGE + RECORDS * 32))
}

fn everything(tracer: &Tracer) {
    let choice = Choice {
        classes: class::ALL,
        vms: u64::MAX,
    };
    tracer.choose(choice, 1, true);
}

/// Records all, and nothing over what was not taken.
fn keeping(tracer: &Tracer) {
    let choice = Choice {
        classes: class::ALL | class::KEEP,
        vms: u64::MAX,
    };
    tracer.choose(choice, 1, false);
}

fn source(vm: u8, vcpu: u8) -> Source {
    Source {
        vm: VmId::new(vm),
        vcpu: VcpuId::new(vcpu),
    }
}

#[test]
fn a_reader_finds_all_that_it_must_know_in_the_head() {
    let area = area(3);
    area.tell(Choice {
        classes: class::WAKES,
        vms: 2,
    });
    let bytes = bytes(&area);
    assert_eq!(&bytes[..8], b"HanokTrc");
    let numbers: Vec<_> = (1..9).map(|at| number(&bytes, at * 8)).collect();
    assert_eq!(numbers, [1, 3, 8, 62_500_000, 2, 64, 4, 2]);
    assert_eq!(&bytes[1024..1030], b"linux\0");
    assert_eq!(&bytes[1056..1088], NAMES[1].as_bytes());
}

#[test]
fn an_area_that_does_not_fit_is_refused() {
    let enough = area_size(2, RECORDS) / WORD;
    assert!(Area::lay(words(enough - 1), facts(2, RECORDS)).is_none());
    assert!(Area::lay(words(2 * enough), facts(2, RECORDS + 1)).is_none());
    assert!(Area::lay(words(2 * enough), facts(2, 0)).is_none());
    assert!(Area::lay(words(enough), facts(2, RECORDS)).is_some());
    assert!(area(2).tracer(1).is_some() && area(2).tracer(2).is_none());
}

#[test]
fn a_full_ring_has_the_latest_records_and_the_count_of_all() {
    let area = area(2);
    let [first, tracer] = [0, 1].map(|index| area.tracer(index).unwrap());
    everything(&tracer);
    for stamp in 2..=20 {
        let event = Event::Decision {
            until: Deadline::at(stamp * 10),
        };
        tracer.record(stamp, Some(source(1, 5)), event);
    }
    first.record(9, None, Event::Idle);
    let bytes = bytes(&area);
    assert_eq!([written(&bytes, 0), written(&bytes, 1)], [1, 20]);
    for index in 12..20_u64 {
        let stamp = index + 1;
        let wanted = Record {
            stamp,
            what: 0x0005_010b,
            a: stamp * 10,
            b: 0,
        };
        assert_eq!(record(&bytes, 1, index as usize % RECORDS), wanted);
    }
    assert_eq!(record(&bytes, 0, 0).what, 0xff0c);
}

#[test]
fn a_reader_that_keeps_loses_the_new_ones_and_is_told_how_many() {
    let area = area(1);
    let tracer = area.tracer(0).unwrap();
    let readers = PAGE + PAGE;
    keeping(&tracer);
    for stamp in 2..=12 {
        tracer.record(stamp, None, Event::Idle);
    }
    let full = bytes(&area);
    assert_eq!(written(&full, 0), 8);
    assert_eq!(number(&full, PAGE + ring::DROPPED), 4);
    assert_eq!(record(&full, 0, 7).stamp, 8);
    // It takes three, so that there is room for three.
    area.put(readers + reader::TAKEN, 3);
    for stamp in 20..=24 {
        tracer.record(stamp, None, Event::Idle);
    }
    let more = bytes(&area);
    assert_eq!(written(&more, 0), 11);
    assert_eq!(number(&more, PAGE + ring::DROPPED), 6);
    let stamps = [0, 1, 2, 3].map(|place| record(&more, 0, place).stamp);
    assert_eq!(stamps, [20, 21, 22, 4]);
    // A reader that says nonsense harms nobody but itself.
    area.put(readers + reader::TAKEN, 0xffff_fff0);
    tracer.record(30, None, Event::Idle);
    assert_eq!(written(&bytes(&area), 0), 11);
}

#[test]
fn counts_wrap_at_32_bits() {
    let area = area(1);
    let tracer = area.tracer(0).unwrap();
    area.put(PAGE + ring::WRITTEN, 0xffff_fffe);
    area.put(PAGE + PAGE + reader::TAKEN, 0xffff_fff8);
    keeping(&tracer);
    tracer.record(2, None, Event::Idle);
    tracer.record(3, None, Event::Idle);
    assert_eq!(written(&bytes(&area), 0), 0);
    assert_eq!(number(&bytes(&area), PAGE + ring::DROPPED), 1);
    area.put(PAGE + PAGE + reader::TAKEN, 0xffff_fffe);
    tracer.record(4, None, Event::Idle);
    assert_eq!(written(&bytes(&area), 0), 1);
    assert_eq!(record(&bytes(&area), 0, 0).stamp, 4);
}

#[test]
fn what_is_recorded_is_chosen_by_class_and_by_vm() {
    let area = area(1);
    let tracer = area.tracer(0).unwrap();
    assert_eq!(tracer.classes(), 0);
    let choice = Choice {
        classes: class::WAKES | 1 << 30,
        vms: 1 << 3,
    };
    tracer.choose(choice, 7, false);
    assert_eq!(tracer.classes(), class::WAKES);
    tracer.record(8, Some(source(2, 0)), Event::Wake);
    tracer.record(9, Some(source(3, 1)), Event::Block);
    tracer.record(10, None, Event::Idle);
    let exit = (Kind::Exit, source(3, 1));
    tracer.write(11, exit, [0x5600_0000, 0x4008_0000, 0x84]);
    let bytes = bytes(&area);
    let records = [0, 1, 2, 3].map(|place| record(&bytes, 0, place));
    let kinds = records.map(|record| record.kind().unwrap());
    assert_eq!(kinds, [Kind::Chosen, Kind::Block, Kind::Idle, Kind::Exit]);
    let Record { stamp, a, b, .. } = records[0];
    assert_eq!([stamp, a, b], [7, u64::from(class::WAKES), 8]);
    assert_eq!(records[3].extra(), 0x5600_0000);
    assert_eq!(records[3].vcpu(), Some((3, 1)));
    assert_eq!([records[3].a, records[3].b], [0x4008_0000, 0x84]);
}

/// Somebody reads while a pCPU writes: nothing that the rule of [`hanok_abi::trace`] calls whole is torn.
#[test]
fn what_a_reader_may_take_is_whole() {
    let area = area(1);
    let tracer = area.tracer(0).unwrap();
    everything(&tracer);
    const LAST: u64 = 20_000;
    let writer = std::thread::spawn(move || {
        for stamp in 1..LAST {
            let what = (Kind::Enter, source((stamp & 63) as u8, 0));
            tracer.write(stamp, what, [stamp, stamp, stamp]);
        }
    });
    let ring = area.words.split_at(PER_PAGE).1;
    let slots: &[Slot] = ring.split_at(2 * PER_PAGE).1.as_chunks().0.as_chunks().0;
    let load = |number: &Number| number[0].load(Ordering::Relaxed) as u64;
    let mut taken = 0;
    while taken < LAST as usize - 1 {
        let written = ring[0].load(Ordering::Acquire);
        let from = written.saturating_sub(RECORDS).max(taken);
        let copied: Vec<_> = (from..written)
            .map(|number| (number, slots[number % RECORDS].each_ref().map(load)))
            .collect();
        fence(Ordering::Acquire);
        let now = ring[0].load(Ordering::Relaxed);
        for (number, [stamp, what, a, b]) in copied {
            // The first one is that of the choice.
            if number + RECORDS > now && number > 0 {
                let wanted = number as u64;
                assert_eq!([stamp, what >> 32, a, b], [wanted; 4]);
            }
        }
        taken = written.max(taken).min(LAST as usize);
        if written == LAST as usize {
            break;
        }
    }
    writer.join().unwrap();
}

#[test]
fn an_entry_tells_who_was_entered_before() {
    let area = area(1);
    let tracer = area.tracer(0).unwrap();
    everything(&tracer);
    let (a, b) = (source(1, 0), source(2, 3));
    assert!(!tracer.knows(70, 5));
    assert_eq!(tracer.enters(a, 70, 5), Before::Unknown);
    assert!(tracer.knows(70, 5) && !tracer.knows(70, 6) && !tracer.knows(80, 5));
    assert_eq!(tracer.enters(b, 80, 6), Before::Other(a));
    assert_eq!(tracer.enters(b, 80, 7), Before::Same);
    assert_eq!(tracer.enters(a, 70, 7), Before::Other(b));
    // The pCPU slept meanwhile.
    tracer.record(9, None, Event::Idle);
    assert!(!tracer.knows(70, 7));
    assert_eq!(tracer.enters(a, 70, 7), Before::Unknown);
    everything(&tracer);
    assert_eq!(tracer.enters(a, 70, 7), Before::Unknown);
}

#[test]
fn who_was_entered_last_is_recorded_if_its_vm_is() {
    let area = area(1);
    let tracer = area.tracer(0).unwrap();
    let choice = Choice {
        classes: class::EXITS,
        vms: 1 << 2,
    };
    tracer.choose(choice, 1, true);
    assert_eq!(tracer.current(), 0);
    let _ = tracer.enters(source(1, 0), 70, 5);
    assert_eq!(tracer.current() & class::ALL, 0);
    // Also then it counts, for whoever is entered next.
    tracer.left(tracer.current(), || 900);
    assert_eq!(tracer.since_left(|| 950), 50);
    let _ = tracer.enters(source(2, 3), 80, 6);
    assert_eq!(tracer.current() & class::ALL, class::EXITS);
    tracer.left(tracer.current(), || 1000);
    assert_eq!(tracer.since_left(|| 1250), 250);
    tracer.write_current((7, class::EXITS), Kind::Exit, [0x5600_0000, 0x8000, 0x84]);
    let wanted = Record {
        stamp: 7,
        what: 0x5600_0000_0003_0201,
        a: 0x8000,
        b: 0x84,
    };
    assert_eq!(record(&bytes(&area), 0, 1), wanted);
}

#[test]
fn a_counter_that_is_not_there_is_not_read() {
    let area = area(1);
    let tracer = area.tracer(0).unwrap();
    keeping(&tracer);
    let _ = tracer.enters(source(2, 3), 80, 6);
    tracer.left(tracer.current(), || panic!("it is read"));
    assert_eq!(tracer.since_left(|| panic!("it is read")), 0);
}
