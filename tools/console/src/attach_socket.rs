//! The socket by which other terminals attach to a run: `hanok attach` and `hanok list` find it.
//!
//! It is a UNIX socket in a folder that only its owner may enter, so that whoever reaches it may do
//! what the person who started the run may do. No link is followed on the way: the folder is opened
//! once, without following links, and everything in it is named relative to that. Sockets that
//! killed runs left behind are removed when the folder is next searched.
//!
//! Whoever connects is told in a line of JSON what runs ([`Running`]). One that answers with
//! [`STAY`] is a terminal: from there on both sides speak as on the board's framed line, where keys
//! (0x3f) are whole lines for the hypervisor's prompt, and 0x3e says that they are carried out. What
//! comes on the report channel (0x3d) are requests, of which each terminal gets its own answers
//! (`session/reports.rs`).

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::inbox::{Inbox, PIECE, Visit};
use hanok_base::ui;

/// The largest number of terminals at the same time.
pub const MOST: usize = 16;
/// The line by which a terminal says that it stays.
pub const STAY: &str = "attach\n";
/// The longest time to wait for a peer that connects.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest size of the first line in bytes.
const HEADER: u64 = 16 << 10;
/// The name of the folder.
const FOLDER: &str = "hanok-runs";
/// The suffix of the sockets' names.
const END: &str = ".sock";

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInfo {
    /// The version of the protocol.
    pub version: u32,
    /// The name of the description.
    pub system: String,
    /// The number of the process that runs it.
    pub process: u32,
    /// The names of the VMs, in the description's order.
    pub vms: Vec<String>,
    /// The file of the description, as an absolute path.
    pub description: Option<PathBuf>,
    /// When the run began, in seconds since 1970.
    pub began: u64,
    /// The board's memory, if it can be read.
    pub memory: Option<BoardMemory>,
}

/// The memory of a board, which is a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardMemory {
    /// The file, while the run lasts.
    pub path: PathBuf,
    /// The board's address of its first byte.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The version of the protocol that this program speaks.
pub const VERSION: u32 = 3;

impl RunInfo {
    /// The information about this process.
    pub fn new(system: &str, vms: &[String]) -> Self {
        Self {
            version: VERSION,
            // It becomes part of a file's name.
            system: system.chars().map(plain).take(40).collect(),
            process: std::process::id(),
            vms: vms.to_vec(),
            description: None,
            began: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            memory: None,
        }
    }

    /// When the run began; `None` where that is no time.
    pub fn began(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_secs(self.began))
    }

    /// The same, of a system that the file `path` describes.
    pub fn described_by(self, path: &Path) -> Self {
        Self {
            description: fs::canonicalize(path).ok(),
            ..self
        }
    }

    /// A name that differs from that of another run of the same system.
    pub fn name(&self) -> String {
        format!("{}-{}", self.system, self.process)
    }
}

fn plain(character: char) -> char {
    match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '.' | '-' => character,
        _ => '-',
    }
}

/// The folder of sockets, which only this user may enter.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens the folder of sockets in `parent`. If it does not exist, it is made if `make` is set.
    pub fn open(parent: &Path, make: bool) -> Result<Option<Self>> {
        let path = parent.join(FOLDER);
        let name = || format!("the folder {} for sockets", path.display());
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The user or this program chose the parent: links on the way to it are theirs.
        let outer = openat(
            CWD,
            parent,
            OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        );
        let outer = match outer {
            Err(Errno::NOENT) if !make => return Ok(None),
            outer => outer.with_context(name)?,
        };
        if make {
            match mkdirat(&outer, FOLDER, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error).with_context(name),
            }
        }
        let handle = match openat(&outer, FOLDER, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            handle => handle.with_context(name)?,
        };
        let state = fstat(&handle)?;
        let own = state.st_uid == rustix::process::geteuid().as_raw();
        ensure!(own, "{} belongs to somebody else", name());
        ensure!(
            state.st_mode & 0o077 == 0,
            "{} is open to others (it must have mode 0700)",
            name()
        );
        Ok(Some(Self { handle, path }))
    }

    /// A path to a file in it, short enough for a socket, and through no link of a file system.
    fn place(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.handle.as_raw_fd()))
    }

    /// Connects to the sockets in it. Sockets that no process listens at are removed.
    pub fn runs(&self) -> Vec<(RunInfo, UnixStream)> {
        let mut runs = Vec::new();
        for entry in fs::read_dir(self.place("."))
            .into_iter()
            .flatten()
            .flatten()
        {
            let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
            let name = entry.file_name();
            let Some(name) = name
                .to_str()
                .filter(|name| is_socket && name.ends_with(END))
            else {
                continue;
            };
            match UnixStream::connect(self.place(name)) {
                Ok(stream) => runs.extend(introduced(stream)),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                    let _ = fs::remove_file(self.place(name));
                }
                Err(_) => {}
            }
        }
        runs.sort_by_key(|(run, _)| run.name());
        runs
    }
}

/// What the other side says of itself.
fn introduced(stream: UnixStream) -> Option<(RunInfo, UnixStream)> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let line = first_line(&stream)?;
    stream.set_read_timeout(None).ok()?;
    Some((serde_json::from_str(&line).ok()?, stream))
}

/// Reads the first line byte by byte, so that what follows it stays in the socket.
fn first_line(stream: &UnixStream) -> Option<String> {
    let mut line = String::new();
    let bytes = stream.take(HEADER);
    BufReader::with_capacity(1, bytes)
        .read_line(&mut line)
        .ok()?;
    line.ends_with('\n').then_some(line)
}

/// The socket of a run. It is removed when this is dropped.
pub struct AttachSocket {
    folder: Folder,
    file: String,
    listener: Option<UnixListener>,
    running: RunInfo,
    waiting: Arc<Mutex<HashMap<usize, UnixStream>>>,
}

impl AttachSocket {
    /// Opens the socket in this folder.
    pub fn open(folder: Folder, running: RunInfo) -> Result<Self> {
        let file = format!("{}{END}", running.name());
        let place = folder.place(&file);
        let what = || format!("the socket {}", folder.path.join(&file).display());
        // A socket with this process's number belongs to a process that has ended.
        match fs::remove_file(&place) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(what);
            }
            _ => {}
        }
        let listener = UnixListener::bind(&place).with_context(what)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o600)).with_context(what)?;
        Ok(Self {
            folder,
            file,
            listener: Some(listener),
            running,
            waiting: Arc::default(),
        })
    }

    /// Accepts terminals, and tells `inbox` of them.
    pub fn listen(&mut self, inbox: &Arc<Inbox>) {
        let Some(listener) = self.listener.take() else {
            return;
        };
        let (waiting, inbox) = (Arc::clone(&self.waiting), Arc::clone(inbox));
        let header = serde_json::to_string(&self.running).unwrap_or_default() + "\n";
        thread::spawn(move || {
            let there = Arc::new(());
            for number in 0.. {
                let Ok((stream, _)) = listener.accept() else {
                    // No more files can be opened now; perhaps later.
                    thread::sleep(Duration::from_millis(100));
                    continue;
                };
                if Arc::strong_count(&there) > MOST {
                    continue;
                }
                let guest = Peer {
                    number,
                    waiting: Arc::clone(&waiting),
                    inbox: Arc::clone(&inbox),
                    _one: Arc::clone(&there),
                };
                let header = header.clone();
                thread::spawn(move || guest.receive(stream, &header));
            }
        });
    }

    /// The connection of the terminal `number` that came.
    pub fn take(&self, number: usize) -> Option<UnixStream> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&number)
    }
}

impl Drop for AttachSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.folder.place(&self.file));
    }
}

/// A peer that has connected.
struct Peer {
    number: usize,
    waiting: Arc<Mutex<HashMap<usize, UnixStream>>>,
    inbox: Arc<Inbox>,
    /// Counts the connections while it exists.
    _one: Arc<()>,
}

impl Peer {
    fn receive(&self, mut stream: UnixStream, header: &str) {
        let greeted = stream
            .set_write_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| stream.write_all(header.as_bytes()));
        if greeted.is_err() || first_line(&stream).as_deref() != Some(STAY) {
            return;
        }
        let lasting = stream
            .set_write_timeout(None)
            .and_then(|()| stream.set_read_timeout(None))
            .and_then(|()| stream.try_clone());
        let Ok(ours) = lasting else { return };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(self.number, ours);
        drop(waiting);
        let tell = |visit| self.inbox.visitor(self.number, visit);
        if tell(Visit::Came).is_err() {
            return;
        }
        let mut buffer = [0; PIECE];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            let bytes = buffer.get(..count).unwrap_or_default();
            if tell(Visit::Said(bytes.to_vec())).is_err() {
                return;
            }
        }
        let _ = tell(Visit::Went);
    }
}

/// The folders in which sockets may be: the session's own, or that of cargo's output.
pub fn places(target: &Path) -> Vec<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let session = session.filter(|path| path.is_absolute());
    session.into_iter().chain([target.to_owned()]).collect()
}

/// The socket of a run. Where none can be made, the user is told, and the run goes on without.
pub fn of_run(target: &Path, running: &RunInfo) -> Option<AttachSocket> {
    let mut why = None;
    for place in places(target) {
        let folder = Folder::open(&place, true);
        let attach_socket = folder.and_then(|folder| match folder {
            Some(folder) => AttachSocket::open(folder, running.clone()),
            None => bail!("{} is not there", place.display()),
        });
        match attach_socket {
            Ok(attach_socket) => return Some(attach_socket),
            Err(error) => why = Some(why.unwrap_or(error)),
        }
    }
    if let Some(error) = why {
        eprintln!(
            "{}",
            ui::dim(&format!("No other terminal can attach: {error:#}"))
        );
    }
    None
}

/// What runs now, and a connection to each. A folder that is not safe is named, and skipped.
pub fn runs(target: &Path) -> Vec<(RunInfo, UnixStream)> {
    let mut all = Vec::new();
    for place in places(target) {
        match Folder::open(&place, false) {
            Ok(folder) => all.extend(folder.iter().flat_map(Folder::runs)),
            Err(error) => eprintln!("{}", ui::dim(&format!("Not looked at: {error:#}"))),
        }
    }
    all
}

#[cfg(test)]
mod tests;
