//! A directory by 9P2000.L: each operation against a real one, and clients that break every rule.

use crate::common::Chance;
use hanok_driver_linux::directory::{Directory, MOST_FIDS};
use hanok_driver_linux::words::Words;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use tempfile::TempDir;

const ROOM: usize = 120 << 10;
const NOT_FOUND: u32 = 2;
const BAD_FID: u32 = 9;
const CROSSES: u32 = 18;
const INVALID: u32 = 22;
const READ_ONLY: u32 = 30;
const LINK: u32 = 40;

/// A client's side, written down anew from the protocol.
struct Client(Directory);

impl Client {
    fn new(path: &Path, read_only: bool) -> Self {
        let words = Words::new("test".to_owned());
        let mut client = Self(Directory::open(path, "tag", read_only, words).unwrap());
        let version = client
            .ask(100, &[&word(1 << 20), &text("9P2000.L")])
            .unwrap();
        assert_eq!(
            version,
            [&word(ROOM as u32)[..], &text("9P2000.L")].concat()
        );
        let (uid, none) = (rustix::process::getuid().as_raw(), word(u32::MAX));
        client
            .ask(104, &[&word(0), &none, &text(""), &text(""), &word(uid)])
            .unwrap();
        client
    }

    /// The content of the answer, or the error's number.
    fn ask(&mut self, kind: u8, parts: &[&[u8]]) -> Result<Vec<u8>, u32> {
        let content = parts.concat();
        let size = word(7 + content.len() as u32);
        let asked = [&size[..], &[kind], &[5, 0], &content].concat();
        let told = self.0.answer(&asked, ROOM).expect("it is answered");
        let (head, content) = told.split_at(7);
        assert_eq!(head[..4], word(told.len() as u32));
        assert_eq!(head[5..], [5, 0], "the tag");
        match head[4] {
            7 => Err(u32::from_le_bytes(content.try_into().unwrap())),
            answer => {
                assert_eq!(answer, kind + 1);
                Ok(content.to_vec())
            }
        }
    }

    fn walk(&mut self, from: u32, to: u32, names: &[&str]) -> Result<Vec<u8>, u32> {
        let names_of: Vec<u8> = names.iter().flat_map(|name| text(name)).collect();
        let count = (names.len() as u16).to_le_bytes();
        self.ask(110, &[&word(from), &word(to), &count, &names_of])
    }

    fn open(&mut self, fid: u32, flags: u32) -> Result<Vec<u8>, u32> {
        self.ask(12, &[&word(fid), &word(flags)])
    }

    fn create(&mut self, fid: u32, name: &str) -> Result<Vec<u8>, u32> {
        let gid = word(rustix::process::getgid().as_raw());
        self.ask(14, &[&word(fid), &text(name), &word(2), &word(0o640), &gid])
    }

    fn read(&mut self, fid: u32, at: u64, count: u32) -> Result<Vec<u8>, u32> {
        let told = self.ask(116, &[&word(fid), &at.to_le_bytes(), &word(count)])?;
        let (len, bytes) = told.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_le_bytes(*len) as usize, bytes.len());
        Ok(bytes.to_vec())
    }

    fn write(&mut self, fid: u32, at: u64, bytes: &[u8]) -> Result<Vec<u8>, u32> {
        let count = word(bytes.len() as u32);
        self.ask(118, &[&word(fid), &at.to_le_bytes(), &count, bytes])
    }

    /// The names of an opened directory, by as many requests as it takes.
    fn list(&mut self, fid: u32, count: u32) -> Vec<String> {
        let (mut names, mut offset) = (Vec::new(), 0_u64);
        loop {
            let told = self.ask(40, &[&word(fid), &offset.to_le_bytes(), &word(count)]);
            let told = told.unwrap();
            let mut rest = &told[4..];
            if rest.is_empty() {
                return names;
            }
            while !rest.is_empty() {
                offset = u64::from_le_bytes(rest[13..21].try_into().unwrap());
                let len = usize::from(u16::from_le_bytes([rest[22], rest[23]]));
                names.push(String::from_utf8(rest[24..24 + len].to_vec()).unwrap());
                rest = &rest[24 + len..];
            }
        }
    }
}

fn word(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_le_bytes(), text.as_bytes()].concat()
}

/// A directory to serve, in another one with a file that is none of the client's.
fn made() -> (TempDir, std::path::PathBuf) {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(outer.path().join("secret"), "secret").unwrap();
    (outer, root)
}

#[test]
fn what_is_done_is_done_in_the_directory() {
    let (_outer, root) = made();
    let mut client = Client::new(&root, false);
    let gid = word(rustix::process::getgid().as_raw());
    client
        .ask(72, &[&word(0), &text("d"), &word(0o750), &gid])
        .unwrap();
    assert_eq!(client.walk(0, 1, &["d"]).unwrap().len(), 2 + 13);
    client.walk(1, 2, &[]).unwrap();
    client.create(2, "a").unwrap();
    let data = Chance(3).bytes(200_000);
    for (at, part) in (0..).step_by(50_000).zip(data.chunks(50_000)) {
        assert_eq!(client.write(2, at, part).unwrap(), word(50_000));
    }
    assert_eq!(fs::read(root.join("d/a")).unwrap(), data);
    let mode = fs::metadata(root.join("d/a")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    // A read has as much as a message, however much is asked for.
    let read = client.read(2, 100, u32::MAX).unwrap();
    assert_eq!(read, data[100..100 + ROOM - 11]);
    // Rename, link, symbolic link, readlink.
    let names =
        |one: &str, other: &str| [word(1).to_vec(), text(one), word(0).to_vec(), text(other)];
    let parts = names("a", "b");
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    client.ask(74, &parts).unwrap();
    client.ask(70, &[&word(1), &word(2), &text("c")]).unwrap();
    client
        .ask(16, &[&word(1), &text("l"), &text("/etc/hostname"), &gid])
        .unwrap();
    client.walk(1, 3, &["l"]).unwrap();
    assert_eq!(client.ask(22, &[&word(3)]).unwrap(), text("/etc/hostname"));
    assert_eq!(fs::metadata(root.join("d/c")).unwrap().nlink(), 2);
    // Its length and times: what is not named stays.
    let zero = 0_u64.to_le_bytes();
    let set = |valid: u32, size: u64| {
        [word(2), word(valid), word(0o600), word(0), word(0)]
            .concat()
            .into_iter()
            .chain(size.to_le_bytes())
            .chain(77_u64.to_le_bytes())
            .chain(zero)
            .chain(zero)
            .chain(zero)
            .collect::<Vec<u8>>()
    };
    client.ask(26, &[&set(8 | 1 | 0x10 | 0x80, 10)]).unwrap();
    let found = fs::metadata(root.join("b")).unwrap();
    assert_eq!(
        (found.len(), found.mode() & 0o777, found.atime()),
        (10, 0o600, 77)
    );
    // What getattr says is what Linux says.
    let told = client
        .ask(24, &[&word(2), &u64::MAX.to_le_bytes()])
        .unwrap();
    assert_eq!(told[13..21], found.ino().to_le_bytes());
    assert_eq!(told[21..25], word(found.mode()));
    assert_eq!(told[49..57], 10_u64.to_le_bytes());
    // Unlink, and a directory that is not empty.
    let flags = word(0x200);
    assert_eq!(client.ask(76, &[&word(0), &text("d"), &flags]), Err(39));
    for name in ["c", "l"] {
        client.ask(76, &[&word(1), &text(name), &word(0)]).unwrap();
    }
    client.ask(76, &[&word(0), &text("d"), &flags]).unwrap();
    assert!(!root.join("d").exists());
}

#[test]
fn a_directory_is_listed_by_parts() {
    let (_outer, root) = made();
    for number in 0..500 {
        fs::write(root.join(format!("file-{number}")), "").unwrap();
    }
    let mut client = Client::new(&root, true);
    client.walk(0, 1, &[]).unwrap();
    client.open(1, 0).unwrap();
    for count in [300, 4096, u32::MAX] {
        let mut names = client.list(1, count);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 502, "{count}");
    }
}

#[test]
fn nothing_leads_out() {
    let (outer, root) = made();
    symlink(outer.path(), root.join("up")).unwrap();
    symlink("../secret", root.join("secret")).unwrap();
    symlink("/proc/self/root", root.join("proc")).unwrap();
    let mut client = Client::new(&root, false);
    for name in [
        "..",
        ".",
        "",
        "a/b",
        "/",
        "../secret",
        "a\0b",
        "/etc/passwd",
    ] {
        assert_eq!(client.walk(0, 1, &[name]), Err(INVALID), "{name:?}");
        assert_eq!(client.create(0, name), Err(INVALID), "{name:?}");
    }
    // A link is named, and is not followed.
    for name in ["up", "secret", "proc"] {
        let number = 10;
        client.walk(0, number, &[name]).unwrap();
        assert!(client.open(number, 0).is_err(), "{name}");
        assert!(client.create(number, "x").is_err(), "{name}");
        assert_eq!(
            client.walk(number, 11, &["secret"]).unwrap_err(),
            20,
            "{name}"
        );
        client.ask(120, &[&word(number)]).unwrap();
        // The first is found, and the second is not: a part of the way, and no number.
        assert_eq!(client.walk(0, 12, &[name, "secret"]).unwrap()[..2], [1, 0]);
        assert_eq!(client.open(12, 0), Err(BAD_FID));
    }
    assert!([CROSSES, LINK].iter().all(|number| *number != 0));
    // The directory was moved elsewhere: its number still is for it alone.
    fs::create_dir(root.join("d")).unwrap();
    client.walk(0, 20, &["d"]).unwrap();
    fs::rename(root.join("d"), outer.path().join("d")).unwrap();
    assert_eq!(client.walk(20, 21, &[".."]), Err(INVALID));
    assert_eq!(fs::read(outer.path().join("secret")).unwrap(), b"secret");
    // A device's node is not made, and a pipe is not opened.
    let device = [
        word(0).to_vec(),
        text("n"),
        word(0o020_600).to_vec(),
        vec![0; 12],
    ];
    let device: Vec<&[u8]> = device.iter().map(Vec::as_slice).collect();
    assert_eq!(client.ask(18, &device), Err(1));
    let gid = rustix::process::getgid().as_raw();
    let pipe = [
        word(0).to_vec(),
        text("p"),
        word(0o010_600).to_vec(),
        vec![0; 8],
        word(gid).to_vec(),
    ];
    let pipe: Vec<&[u8]> = pipe.iter().map(Vec::as_slice).collect();
    client.ask(18, &pipe).unwrap();
    client.walk(0, 30, &["p"]).unwrap();
    assert_eq!(client.open(30, 0), Err(6));
}

#[test]
fn a_directory_that_is_only_read_stays_as_it_is() {
    let (_outer, root) = made();
    fs::write(root.join("a"), "text").unwrap();
    let mut client = Client::new(&root, true);
    client.walk(0, 1, &["a"]).unwrap();
    for flags in [1, 2, 0o1000, 0o1001] {
        assert_eq!(client.open(1, flags), Err(READ_ONLY), "{flags:o}");
    }
    client.open(1, 0).unwrap();
    assert_eq!(client.read(1, 0, 100).unwrap(), b"text");
    for kind in [14, 16, 18, 26, 70, 72, 74, 76, 118] {
        assert_eq!(client.ask(kind, &[&[0; 64]]), Err(READ_ONLY), "{kind}");
    }
    assert_eq!(fs::read(root.join("a")).unwrap(), b"text");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
}

#[test]
fn numbers_are_used_once_and_have_an_end() {
    let (_outer, root) = made();
    let mut client = Client::new(&root, false);
    client.walk(0, 1, &[]).unwrap();
    assert_eq!(client.walk(0, 1, &[]), Err(INVALID));
    assert_eq!(client.walk(0, u32::MAX, &[]), Err(INVALID));
    assert_eq!(client.walk(7, 8, &[]), Err(BAD_FID));
    assert_eq!(client.walk(0, 2, &["none"]), Err(NOT_FOUND));
    assert_eq!(client.ask(120, &[&word(2)]), Err(BAD_FID));
    assert_eq!(client.read(1, 0, 10), Err(BAD_FID), "it is not opened");
    assert_eq!(client.walk(0, 2, &[""; 17]), Err(INVALID));
    client.walk(1, 1, &[]).unwrap();
    let mut given = 2;
    while client.walk(0, 100 + given, &[]).is_ok() {
        given += 1;
        assert!(given as usize <= MOST_FIDS, "there is an end");
        if given > 200 {
            break;
        }
    }
    // A new session knows nothing of the old one.
    client.ask(100, &[&word(8192), &text("9P2000.L")]).unwrap();
    assert_eq!(client.walk(0, 9, &[]), Err(BAD_FID));
    let other = client.ask(100, &[&word(8192), &text("9P2000.u")]).unwrap();
    assert_eq!(other[4..], text("unknown"));
    assert_eq!(
        client.ask(100, &[&word(100), &text("9P2000.L")]),
        Err(INVALID)
    );
}

#[test]
fn messages_by_chance_are_answered() {
    let (outer, root) = made();
    for seed in 1..=300 {
        let mut chance = Chance(seed);
        let mut client = Client::new(&root, seed % 4 == 0);
        let names = ["a", "b", "..", "a/b", "", "long-name", "."];
        for _ in 0..100 {
            let kind = match chance.below(8) {
                0 => chance.next() as u8 & 0x7f,
                _ => [
                    12, 14, 16, 18, 24, 26, 40, 70, 72, 74, 76, 110, 116, 118, 120,
                ][chance.below(15) as usize],
            };
            // Numbers near the truth, names and rubbish, cut off anywhere.
            let mut content = Vec::new();
            for _ in 0..chance.below(8) {
                match chance.below(4) {
                    0 => content.extend(word(chance.below(6) as u32)),
                    1 => content.extend(text(names[chance.below(7) as usize])),
                    2 => content.extend((chance.below(3) as u16).to_le_bytes()),
                    _ => {
                        let count = chance.below(12) as usize;
                        content.extend(chance.bytes(count));
                    }
                }
            }
            let size = match chance.below(16) {
                0 => chance.next() as u32,
                _ => 7 + content.len() as u32,
            };
            let asked = [&word(size)[..], &[kind], &[1, 0], &content].concat();
            let cut = match chance.below(16) {
                0 => chance.below(asked.len() as u64) as usize,
                _ => asked.len(),
            };
            let room = match chance.below(8) {
                0 => chance.below(40) as usize,
                _ => 4096,
            };
            if let Some(told) = client.0.answer(&asked[..cut], room) {
                assert!(told.len() <= room && told.len() >= 7);
                assert_eq!(told[..4], word(told.len() as u32));
            }
        }
    }
    let outside: Vec<_> = fs::read_dir(outer.path()).unwrap().collect();
    assert_eq!(outside.len(), 2, "the directory, and the file beside it");
    assert_eq!(fs::read(outer.path().join("secret")).unwrap(), b"secret");
}
