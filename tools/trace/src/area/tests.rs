use super::*;
use hanok_abi::trace::Kind;
use std::os::unix::fs::FileExt;

const RECORDS: usize = 128;

/// A trace of two rings behind some other bytes, made by the words of its definition alone.
fn area() -> (File, u64) {
    let file = tempfile::tempfile().unwrap();
    let at = 8192;
    let bytes = 4096 + 2 * (8192 + RECORDS * 32);
    file.set_len(at + bytes as u64).unwrap();
    let numbers = [
        (0, u64::from_le_bytes(*b"HanokTrc")),
        (8, 1),
        (16, 2),
        (24, 128),
    ];
    let more = [(32, 62_500_000), (40, 2), (48, 64)];
    for (offset, number) in numbers.into_iter().chain(more) {
        put(&file, at + offset, number);
    }
    file.write_all_at(b"linux", at + 1024).unwrap();
    file.write_all_at(b"rt\x1bs", at + 1056).unwrap();
    (file, at)
}

fn put(file: &File, at: u64, number: u64) {
    file.write_all_at(&number.to_le_bytes(), at).unwrap();
}

/// Writes records to a ring whose stamps are their numbers.
fn write(file: &File, at: u64, ring: u64, numbers: std::ops::Range<u64>) {
    let ring = at + 4096 + ring * (8192 + RECORDS as u64 * 32);
    for number in numbers.clone() {
        let place = ring + 8192 + number % RECORDS as u64 * 32;
        put(file, place, number);
        put(file, place + 8, Kind::Wake as u64 | 1 << 8);
    }
    put(file, ring, numbers.end & 0xffff_ffff);
}

fn stamps(taken: &Taken) -> Vec<u64> {
    taken.records.iter().map(|record| record.stamp).collect()
}

#[test]
fn the_head_is_read() {
    let (file, at) = area();
    let head = Head::read(&file, at).unwrap();
    assert_eq!((head.rings, head.records), (2, RECORDS));
    assert_eq!(head.vms, ["linux", "rt?s"]);
    assert_eq!((head.is_64_bit, head.frequency), (true, 62_500_000));
    assert_eq!(head.nanoseconds(62_500_000 * 7 + 1), 7_000_000_016);
    // A century does not overflow.
    assert_eq!(
        head.nanoseconds(62_500_000 * 3_155_760_000),
        3_155_760_000_000_000_000
    );
}

#[test]
fn a_damaged_head_is_refused() {
    for (offset, number, why) in [
        (0, 0, "there is no trace at 0x2000"),
        (8, 2, "version 2, and this program reads version 1"),
        (16, 65, "65 rings"),
        (16, 0, "0 rings"),
        (24, 100, "100 records in each ring"),
        (24, 1 << 21, "2097152 records"),
        (32, 0, "0 Hz"),
        (40, 65, "65 VMs"),
    ] {
        let (file, at) = area();
        put(&file, at + offset, number);
        let error = Head::read(&file, at).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let (file, at) = area();
    file.set_len(at + 4095).unwrap();
    assert!(
        Head::read(&file, at)
            .unwrap_err()
            .to_string()
            .contains("cannot be read")
    );
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_no_panic() {
    for cut in (0..4096 + 2 * (8192 + RECORDS * 32)).step_by(97) {
        let (file, at) = area();
        write(&file, at, 0, 0..RECORDS as u64 + 9);
        write(&file, at, 1, 0..3);
        file.set_len(at + cut as u64).unwrap();
        let taken = Follower::from_oldest(file, at).and_then(|mut trace| trace.take());
        // The last ring has three records, and nothing reads what lies behind them.
        let needed = 4096 + (8192 + RECORDS * 32) + 8192 + 3 * 32;
        assert_eq!(taken.is_err(), cut < needed, "{cut}");
    }
}

#[test]
fn what_comes_is_taken_once_and_what_is_lost_is_counted() {
    let (file, at) = area();
    write(&file, at, 0, 0..5);
    let mut trace = Follower::from_now(file.try_clone().unwrap(), at).unwrap();
    let mut oldest = Follower::from_oldest(file.try_clone().unwrap(), at).unwrap();
    assert_eq!(stamps(&oldest.take().unwrap()[0]), [0, 1, 2, 3, 4]);
    assert_eq!(trace.take().unwrap(), vec![Taken::default(); 2]);
    write(&file, at, 0, 5..8);
    write(&file, at, 1, 0..2);
    let taken = trace.take().unwrap();
    assert_eq!(
        [stamps(&taken[0]), stamps(&taken[1])],
        [vec![5, 6, 7], vec![0, 1]]
    );
    assert_eq!(taken[0].lost, 0);
    // Around the end of the ring.
    write(&file, at, 0, 8..130);
    assert_eq!(
        stamps(&trace.take().unwrap()[0]),
        (8..130).collect::<Vec<_>>()
    );
    // Twice around it, and a bit: the places have the latest, but one of them may be half written.
    write(&file, at, 0, 130..400);
    let taken = trace.take().unwrap();
    assert_eq!(stamps(&taken[0]), (273..400).collect::<Vec<_>>());
    assert_eq!(taken[0].lost, 143);
}

#[test]
fn counts_that_wrap_are_no_loss() {
    let (file, at) = area();
    write(&file, at, 0, 0xffff_fff0..0xffff_fffe);
    let mut trace = Follower::from_now(file.try_clone().unwrap(), at).unwrap();
    write(&file, at, 0, 0xffff_fffe..0x1_0000_0004);
    let taken = trace.take().unwrap();
    assert_eq!(
        stamps(&taken[0]),
        (0xffff_fffe..0x1_0000_0004).collect::<Vec<_>>()
    );
    assert_eq!(taken[0].lost, 0);
}
