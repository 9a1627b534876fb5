//! Rings that are not as the hypervisor makes them, and requests as no driver makes them: an end to each call, and no panic.

use crate::common::{Asked, BASE, Bench, Chance, PAGE, header, open};
use hanok_driver_linux::block::Disk;
use hanok_driver_linux::image::Format;
use std::fs::File;
use tempfile::TempDir;

fn disk() -> (TempDir, Disk) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    (dir, open(&path, Format::Raw, false).unwrap())
}

#[test]
fn memory_by_chance_is_served_to_an_end() {
    let (_dir, mut disk) = disk();
    for seed in 1..=600 {
        let mut chance = Chance(seed);
        let mut bench = Bench::by(seed);
        // Descriptors whose addresses and lengths are mostly near the truth, chains with loops among them.
        for place in 0..64 {
            let at = match chance.below(4) {
                0 => chance.next(),
                1 => BASE + PAGE - chance.below(64),
                _ => BASE + chance.below(PAGE),
            };
            let len = match chance.below(4) {
                0 => chance.next() as u32,
                1 => 16 * chance.below(64) as u32,
                _ => chance.below(8192) as u32,
            };
            let table = BASE + [0, 0x1_0000][place % 2] + 16 * (place as u64 / 2);
            bench.store(table, &at.to_le_bytes());
            bench.store(table + 8, &len.to_le_bytes());
            let flags = chance.below(8) as u16;
            let rest = [flags.to_le_bytes(), (chance.below(40) as u16).to_le_bytes()].concat();
            bench.store(table + 12, &rest);
        }
        for _ in 0..1 + chance.below(16) {
            bench.publish(chance.below(20) as u16);
        }
        if chance.below(8) == 0 {
            bench.store(BASE + 0x1002, &(chance.next() as u16).to_le_bytes());
        }
        for _ in 0..4 {
            if !matches!(bench.serve(&mut disk), Ok(count) if count <= 16) {
                break;
            }
        }
    }
}

/// One client's nonsense is no reason to end what serves the others: the ring goes on.
#[test]
fn a_request_that_is_wrong_ends_alone() {
    let (_dir, mut disk) = disk();
    for seed in 0..2 {
        let mut bench = Bench::by(seed);
        let empty = |read: Vec<Vec<u8>>, write| Asked { read, write };
        for asked in [
            empty(vec![header(0, 0)], vec![]),
            empty(vec![], vec![1]),
            empty(vec![], vec![512, 1]),
            empty(vec![vec![0; 8]; 40], vec![1]),
            empty(vec![header(11, 0)], vec![1]),
            empty(vec![header(13, 0), vec![0; 32]], vec![1]),
            empty(vec![header(8, 0)], vec![5, 1]),
        ] {
            let told = bench.ask(&mut disk, &asked);
            let state = told.bytes.last().copied();
            assert!(told.len == 0 || state == Some(1), "{told:?}");
            let good = empty(vec![header(0, 1)], vec![512, 1]);
            assert_eq!(bench.ask(&mut disk, &good).bytes.last(), Some(&0));
        }
    }
}

/// A buffer for which a slot has no room is at address 0: the data of a read, or the state.
#[test]
fn a_request_without_room_ends_alone() {
    let (_dir, mut disk) = disk();
    for seed in 0..2 {
        let mut bench = Bench::by(seed);
        let asked = Asked {
            read: vec![header(0, 0)],
            write: vec![512, 1],
        };
        for descriptor in [1, 2] {
            bench.give(0, &asked);
            bench.store(BASE + 0x1_0000 + 16 * descriptor, &0_u64.to_le_bytes());
            assert_eq!(bench.serve(&mut disk), Ok(1));
            assert_eq!(bench.answer(), Some((0, 0)));
            assert_eq!(bench.ask(&mut disk, &asked).bytes.last(), Some(&0));
        }
    }
}
