//! Requests by chance, against a disk that is an array: each answer, and the whole content, also after the program was killed.

use crate::common::{Asked, Bench, Chance, header, open, segment};
use hanok_driver_linux::image::{self, Format};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SECTORS: u64 = 4096;
const READ: u32 = 0;
const WRITE: u32 = 1;
const OK: u8 = 0;
const FAILED: u8 = 1;
const UNKNOWN: u8 = 2;

fn made(format: Format) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    match format {
        Format::Raw => File::create(&path).unwrap().set_len(SECTORS * 512).unwrap(),
        Format::Qcow2 => image::create(&path, SECTORS * 512).unwrap(),
    }
    (dir, path)
}

/// Bytes in buffers of sizes by chance.
fn cut(chance: &mut Chance, bytes: &[u8], most: usize) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let last = parts.len() + 1 == most;
        let count = if last {
            rest.len()
        } else {
            1 + chance.below(rest.len() as u64) as usize
        };
        let (part, after) = rest.split_at(count);
        parts.push(part.to_vec());
        rest = after;
    }
    parts
}

fn sizes(chance: &mut Chance, count: usize, most: usize) -> Vec<usize> {
    let parts = cut(chance, &vec![0; count], most);
    parts.iter().map(Vec::len).collect()
}

/// A request, the state that the standard wants for it, and the data that a read gives. It is carried out on the model.
fn request(chance: &mut Chance, model: &mut [u8], read_only: bool) -> (Asked, u8, Option<Vec<u8>>) {
    let count = 1 + chance.below(24) as usize;
    let sector = match chance.below(8) {
        0 => SECTORS - chance.below(30),
        1 => chance.next(),
        _ => chance.below(SECTORS - 24),
    };
    let inside = sector
        .checked_add(count as u64)
        .is_some_and(|end| end <= SECTORS);
    let range = |count: usize| sector as usize * 512..(sector as usize + count) * 512;
    match chance.below(10) {
        0..=3 => {
            let data = chance.bytes(count * 512);
            let parts = [header(WRITE, sector), data.clone()].concat();
            let read = cut(chance, &parts, 8);
            let done = inside && !read_only;
            if done {
                model[range(count)].copy_from_slice(&data);
            }
            let write = vec![1];
            (Asked { read, write }, if done { OK } else { FAILED }, None)
        }
        4..=6 => {
            let write = sizes(chance, count * 512 + 1, 8);
            let read = cut(chance, &header(READ, sector), 3);
            let found = inside.then(|| model[range(count)].to_vec());
            (
                Asked { read, write },
                if inside { OK } else { FAILED },
                found,
            )
        }
        7 => {
            let (kind, flags) = ([11, 13][chance.below(2) as usize], chance.below(3) as u32);
            let read = vec![header(kind, 0), segment(sector, count as u32, flags)];
            let known = flags == 0 || flags == 1 && kind == 13;
            let done = inside && !read_only && known;
            if done {
                model[range(count)].fill(0);
            }
            (
                Asked {
                    read,
                    write: vec![1],
                },
                if done { OK } else { FAILED },
                None,
            )
        }
        8 => {
            let read = vec![header(8, 0)];
            let mut id = b"hanok-b100000".to_vec();
            id.resize(20, 0);
            (
                Asked {
                    read,
                    write: vec![20, 1],
                },
                OK,
                Some(id),
            )
        }
        _ => {
            // No bytes at all, a part of a sector, an unknown type, a header that is too short.
            let (read, write, state) = match chance.below(5) {
                0 => (vec![header(4, 0)], vec![1], OK),
                1 => (vec![header(WRITE, 0), vec![7; 100]], vec![1], FAILED),
                2 => (vec![header(READ, 0)], vec![100, 1], FAILED),
                3 => (vec![header(99, 0)], vec![1], UNKNOWN),
                _ => (vec![vec![0; 15]], vec![1], FAILED),
            };
            (Asked { read, write }, state, None)
        }
    }
}

fn run(format: Format, seed: u64) {
    let (dir, path) = made(format);
    let mut chance = Chance(seed);
    let mut model = vec![0; SECTORS as usize * 512];
    let mut disk = open(&path, format, false).unwrap();
    let mut bench = Bench::by(seed);
    for round in 0..300 {
        let (asked, state, data) = request(&mut chance, &mut model, false);
        let told = bench.ask(&mut disk, &asked);
        let (last, found) = told.bytes.split_last().unwrap();
        assert_eq!(*last, state, "round {round}");
        assert_eq!(told.len as usize, told.bytes.len());
        if let Some(data) = data {
            assert_eq!(found, data, "round {round}");
        }
        if round % 50 == 0 {
            // What a program that is killed now leaves to the next one.
            let copy = dir.path().join("copy");
            fs::copy(&path, &copy).unwrap();
            assert_eq!(content(&copy, format), model, "round {round}");
        }
    }
    drop(disk);
    assert_eq!(content(&path, format), model);
}

/// What is on a disk.
fn content(path: &Path, format: Format) -> Vec<u8> {
    let mut disk = open(path, format, true).unwrap();
    let mut bench = Bench::new();
    let mut all = Vec::new();
    for sector in (0..SECTORS).step_by(64) {
        let read = vec![header(READ, sector)];
        let told = bench.ask(
            &mut disk,
            &Asked {
                read,
                write: vec![64 * 512, 1],
            },
        );
        let (state, bytes) = told.bytes.split_last().unwrap();
        assert_eq!(*state, OK);
        all.extend_from_slice(bytes);
    }
    all
}

#[test]
fn a_raw_image_is_what_was_written() {
    (1..=6).for_each(|seed| run(Format::Raw, seed));
}

#[test]
fn a_qcow2_image_is_what_was_written() {
    (1..=6).for_each(|seed| run(Format::Qcow2, seed));
}

#[test]
fn a_disk_that_is_only_read_stays_as_it_is() {
    let (_dir, path) = made(Format::Raw);
    let before = Chance(9).bytes(SECTORS as usize * 512);
    fs::write(&path, &before).unwrap();
    let mut disk = open(&path, Format::Raw, true).unwrap();
    assert_eq!(disk.offer().features & (1 << 5), 1 << 5, "VIRTIO_BLK_F_RO");
    let (mut bench, mut model) = (Bench::new(), before.clone());
    let mut chance = Chance(10);
    for _ in 0..300 {
        let (asked, state, data) = request(&mut chance, &mut model, true);
        let told = bench.ask(&mut disk, &asked);
        let (last, found) = told.bytes.split_last().unwrap();
        assert_eq!(*last, state);
        assert!(data.is_none_or(|data| data == found));
    }
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_batch_is_answered_in_order() {
    let (_dir, path) = made(Format::Raw);
    let mut disk = open(&path, Format::Raw, false).unwrap();
    let mut bench = Bench::new();
    for round in 0..10_u8 {
        for head in 0..16 {
            let read = vec![header(WRITE, 8 * u64::from(head)), vec![round; 512]];
            bench.give(
                head,
                &Asked {
                    read,
                    write: vec![1],
                },
            );
        }
        assert_eq!(bench.serve(&mut disk), Ok(16));
        let heads: Vec<_> = std::iter::from_fn(|| bench.answer()).collect();
        assert_eq!(heads, (0..16).map(|head| (head, 1)).collect::<Vec<_>>());
    }
}
