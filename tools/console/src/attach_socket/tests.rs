use std::os::unix::fs::{MetadataExt, symlink};

use super::*;
use crate::inbox::{Accepts, Incoming};

const ALL: Accepts = Accepts {
    keys: true,
    board: true,
    visitors: true,
};

fn running() -> RunInfo {
    let running = RunInfo::new("a demo/x", &["linux".to_owned()]);
    RunInfo {
        memory: None,
        began: 1,
        ..running
    }
}

fn attach_socket(parent: &Path) -> AttachSocket {
    let folder = Folder::open(parent, true).unwrap().unwrap();
    AttachSocket::open(folder, running()).unwrap()
}

fn runs_in(parent: &Path) -> Vec<(RunInfo, UnixStream)> {
    let folder = Folder::open(parent, false).unwrap();
    folder.map_or(Vec::new(), |folder| folder.runs())
}

#[test]
fn a_terminal_finds_a_run_and_speaks_with_it() {
    let dir = tempfile::tempdir().unwrap();
    assert!(runs_in(dir.path()).is_empty(), "there is not even a folder");
    let mut attach_socket = attach_socket(dir.path());
    let inbox = Arc::new(Inbox::default());
    attach_socket.listen(&inbox);
    let (found, mut stream) = runs_in(dir.path()).pop().unwrap();
    assert_eq!(found, running());
    assert_eq!(found.system, "a-demo-x");
    stream.write_all(STAY.as_bytes()).unwrap();
    let Incoming::Visitor(number, Visit::Came) = inbox.next(ALL, None) else {
        panic!("nobody came");
    };
    let mut theirs = attach_socket.take(number).unwrap();
    theirs.write_all(b"x").unwrap();
    let mut byte = [0];
    stream.read_exact(&mut byte).unwrap();
    assert_eq!(&byte, b"x", "nothing of it went with the first line");
    stream.write_all(b"keys").unwrap();
    let said = Incoming::Visitor(number, Visit::Said(b"keys".to_vec()));
    assert_eq!(inbox.next(ALL, None), said);
    drop(stream);
    drop(theirs);
    let went = Incoming::Visitor(number, Visit::Went);
    assert_eq!(inbox.next(ALL, None), went);
    drop(attach_socket);
    assert_eq!(fs::read_dir(dir.path().join(FOLDER)).unwrap().count(), 0);
}

#[test]
fn nobody_else_comes_in() {
    let dir = tempfile::tempdir().unwrap();
    let attach_socket = attach_socket(dir.path());
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o777;
    let folder = dir.path().join(FOLDER);
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join(&attach_socket.file)), 0o600);
    drop(attach_socket);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let why = Folder::open(dir.path(), true).unwrap_err().to_string();
    assert!(why.contains("open to others"), "{why}");
}

#[test]
fn no_link_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (outer, trap) = (dir.path().join("outer"), dir.path().join("trap"));
    fs::create_dir(&outer).unwrap();
    fs::create_dir(&trap).unwrap();
    symlink(&trap, outer.join(FOLDER)).unwrap();
    Folder::open(&outer, true).unwrap_err();
    Folder::open(&outer, false).unwrap_err();
    assert_eq!(fs::read_dir(&trap).unwrap().count(), 0);
    // Nor is a link followed in the place of the socket: it is removed, and its target stays.
    let folder = dir.path().join(FOLDER);
    let attach_socket = attach_socket(dir.path());
    let file = folder.join(&attach_socket.file);
    drop(attach_socket);
    fs::write(trap.join("kept"), "x").unwrap();
    symlink(trap.join("kept"), &file).unwrap();
    let attach_socket = self::attach_socket(dir.path());
    assert!(fs::symlink_metadata(&file).unwrap().file_type().is_socket());
    drop(attach_socket);
    assert_eq!(fs::read_to_string(trap.join("kept")).unwrap(), "x");
}

#[test]
fn what_a_killed_run_left_behind_goes_and_all_else_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut alive = attach_socket(dir.path());
    alive.listen(&Arc::new(Inbox::default()));
    let folder = dir.path().join(FOLDER);
    // Nothing listens once the listener is dropped; the file stays.
    drop(UnixListener::bind(folder.join("dead-1.sock")).unwrap());
    fs::write(folder.join("file.sock"), "").unwrap();
    symlink("/nowhere", folder.join("link.sock")).unwrap();
    assert_eq!(runs_in(dir.path()).len(), 1);
    let names = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [alive.file.as_str(), "file.sock", "link.sock"]);
}

#[test]
fn who_says_nothing_or_something_else_is_no_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let mut attach_socket = attach_socket(dir.path());
    let inbox = Arc::new(Inbox::default());
    attach_socket.listen(&inbox);
    let (_, silent) = runs_in(dir.path()).pop().unwrap();
    drop(silent);
    let (_, mut other) = runs_in(dir.path()).pop().unwrap();
    other.write_all(&[b'x'; 20 << 10]).ok();
    let (_, mut stream) = runs_in(dir.path()).pop().unwrap();
    stream.write_all(STAY.as_bytes()).unwrap();
    assert!(matches!(
        inbox.next(ALL, None),
        Incoming::Visitor(_, Visit::Came)
    ));
}
