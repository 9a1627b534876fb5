//! Images that are not as they must be: each is refused with the reason, or gives errors for the requests that it cannot serve.

use crate::common::{Asked, Bench, header, open};
use hanok_driver_linux::image::{self, Format};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

const MIB: u64 = 1 << 20;

fn refusal(path: &std::path::Path, format: Format) -> String {
    open(path, format, false)
        .expect_err("it is refused")
        .to_string()
}

#[test]
fn an_image_has_one_disk_that_writes_or_several_that_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let other = dir.path().join("b");
    image::create(&path, MIB).unwrap();
    // Another name of the same file.
    fs::hard_link(&path, &other).unwrap();
    for format in [Format::Raw, Format::Qcow2] {
        let one = open(&path, format, false).unwrap();
        assert_eq!(refusal(&other, format), "it is another disk's already");
        assert!(open(&other, format, true).is_err());
        drop(one);
        let _one = open(&path, format, true).unwrap();
        let _two = open(&other, format, true).unwrap();
        assert!(open(&other, format, false).is_err());
    }
}

#[test]
fn a_raw_image_that_became_shorter_has_errors_behind_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    File::create(&path).unwrap().set_len(MIB).unwrap();
    let mut disk = open(&path, Format::Raw, false).unwrap();
    OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(MIB / 2)
        .unwrap();
    let mut bench = Bench::new();
    let mut state = |sector| {
        let read = vec![header(0, sector)];
        *bench
            .ask(
                &mut disk,
                &Asked {
                    read,
                    write: vec![512, 1],
                },
            )
            .bytes
            .last()
            .unwrap()
    };
    assert_eq!(state(1023), 0);
    assert_eq!(state(1024), 1);
    assert_eq!(state(0), 0);
}

#[test]
fn a_qcow2_image_whose_end_is_missing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    image::create(&path, 8 * MIB).unwrap();
    let mut disk = open(&path, Format::Qcow2, false).unwrap();
    let mut bench = Bench::new();
    for sector in [0, 5000, 9000] {
        let read = vec![header(1, sector), vec![7; 4096]];
        assert_eq!(
            bench
                .ask(
                    &mut disk,
                    &Asked {
                        read,
                        write: vec![1]
                    }
                )
                .bytes,
            [0]
        );
    }
    drop(disk);
    let whole = fs::read(&path).unwrap();
    assert!(open(&path, Format::Qcow2, false).is_ok());
    let clusters = whole.len().div_ceil(65536);
    for keep in 0..clusters {
        fs::write(&path, &whole[..keep * 65536]).unwrap();
        let why = refusal(&path, Format::Qcow2);
        assert!(
            why.contains("end is missing") || keep == 0,
            "{keep} of {clusters}: {why}"
        );
    }
}

#[test]
fn what_is_no_image_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let damaged = |offset: u64, bytes: &[u8]| {
        let _ = fs::remove_file(&path);
        image::create(&path, MIB).unwrap();
        OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(bytes, offset)
            .unwrap();
        refusal(&path, Format::Qcow2)
    };
    assert_eq!(damaged(0, b"X"), "it is no qcow2 image");
    assert!(damaged(4, &9_u32.to_be_bytes()).contains("version"));
    assert!(damaged(72, &1_u64.to_be_bytes()).contains("qemu-img check"));
    assert!(damaged(72, &2_u64.to_be_bytes()).contains("qemu-img check"));
    assert!(damaged(20, &77_u32.to_be_bytes()).contains("header is damaged"));
    assert!(damaged(56, &u32::MAX.to_be_bytes()).contains("header is damaged"));
    assert!(damaged(48, &u64::MAX.to_be_bytes()).contains("end is missing"));
    fs::write(&path, "").unwrap();
    assert_eq!(refusal(&path, Format::Raw), "it has not even one sector");
    assert_eq!(refusal(&path, Format::Qcow2), "it is no qcow2 image");
    fs::remove_file(&path).unwrap();
    assert!(refusal(&path, Format::Raw).contains("No such file"));
}

/// A qcow2 image may name another file, of which the rest is: it could be any file of the VM's.
#[test]
fn an_image_that_names_another_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (path, secret) = (dir.path().join("a"), dir.path().join("secret"));
    fs::write(&secret, vec![1; 4096]).unwrap();
    image::create(&path, MIB).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let name = secret.display().to_string();
    // The offset and the length of the name of a backing file, and the name, at the end of the header's cluster.
    file.write_all_at(&60000_u64.to_be_bytes(), 8).unwrap();
    file.write_all_at(&(name.len() as u32).to_be_bytes(), 16)
        .unwrap();
    file.write_all_at(name.as_bytes(), 60000).unwrap();
    drop(file);
    assert!(open(&path, Format::Qcow2, false).is_err());
}

/// Headers and tables by chance: no panic, and no request without an end.
#[test]
fn damage_by_chance_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    image::create(&path, MIB).unwrap();
    let mut disk = open(&path, Format::Qcow2, false).unwrap();
    let read = vec![header(1, 100), vec![7; 4096]];
    Bench::new().ask(
        &mut disk,
        &Asked {
            read,
            write: vec![1],
        },
    );
    drop(disk);
    let whole = fs::read(&path).unwrap();
    let mut chance = crate::common::Chance(77);
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..1 + chance.below(4) {
            // The header, or the first bytes of a cluster, where tables begin.
            let at = match chance.below(2) {
                0 => chance.below(112),
                _ => chance.below(bytes.len() as u64 >> 16 << 16) & !0xffff | chance.below(64),
            };
            bytes[at as usize] ^= 1 << chance.below(8);
        }
        fs::write(&path, &bytes).unwrap();
        let Ok(mut disk) = open(&path, Format::Qcow2, false) else {
            continue;
        };
        let mut bench = Bench::new();
        for sector in [0, 100, 2000] {
            let read = vec![header(0, sector)];
            bench.ask(
                &mut disk,
                &Asked {
                    read,
                    write: vec![4096, 1],
                },
            );
            let read = vec![header(1, sector), vec![8; 4096]];
            bench.ask(
                &mut disk,
                &Asked {
                    read,
                    write: vec![1],
                },
            );
        }
    }
}

#[test]
fn sizes_are_whole_sectors() {
    assert_eq!(image::size("64M"), Some(64 * MIB));
    assert_eq!(image::size("4G"), Some(4096 * MIB));
    assert_eq!(image::size("1024"), Some(1024));
    for wrong in [
        "",
        "M",
        "0",
        "-1",
        "+5K",
        "1000",
        "64MB",
        "64m",
        "99999999999999999999",
        "99999999T",
    ] {
        assert_eq!(image::size(wrong), None, "{wrong}");
    }
}
