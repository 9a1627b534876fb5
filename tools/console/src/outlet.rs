//! An output for text, whose thread does the writing: a pipe that nobody reads, or a disk that does
//! not answer, blocks that thread and not the run's loop.
//!
//! The loop asks whether there is space before it takes more from the board. So nothing is lost
//! while somebody reads, and nothing grows while nobody does. At the end an outlet has some time to
//! write what it still has; bytes that it could not write are counted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::inbox::Inbox;

/// The number of waiting bytes from which on there is no space for more.
const ROOM: usize = 64 << 10;
/// The number of bytes that are written at a time.
const PIECE: usize = 4096;
/// How long the last bytes may make no progress before it is assumed that nobody reads them.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same of a file: a disk takes all in the end, however much else the PC writes.
const PATIENCE_WITH_DISKS: Duration = Duration::from_secs(120);

/// The writers of an outlet; each piece of output names one.
type Writers = Vec<Box<dyn Write + Send>>;

#[derive(Default)]
struct State {
    /// The index of the writer, and the bytes for it.
    waiting: VecDeque<(usize, Vec<u8>)>,
    /// The number of bytes that are not written yet, with those that are being written.
    bytes: usize,
    ended: bool,
    failed: Option<io::Error>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    inbox: Arc<Inbox>,
}

/// An output. Its bytes are written in the order in which they came.
pub struct Outlet {
    name: String,
    patience: Duration,
    shared: Arc<Shared>,
}

/// One of an outlet's writers.
pub struct OutletWriter {
    shared: Arc<Shared>,
    index: usize,
}

impl Outlet {
    /// An outlet with this name and these writers. It tells `inbox` when it has space again.
    pub fn new(name: impl Into<String>, writers: Writers, inbox: &Arc<Inbox>) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            inbox: Arc::clone(inbox),
        });
        let writer = Arc::clone(&shared);
        thread::spawn(move || writer.write(writers));
        Self {
            name: name.into(),
            patience: PATIENCE,
            shared,
        }
    }

    /// An outlet whose one writer is a file: a regular one, which nobody has to read, or a pipe.
    pub fn to_file(name: impl Into<String>, file: File, inbox: &Arc<Inbox>) -> Self {
        let is_regular = file.metadata().is_ok_and(|data| data.is_file());
        let mut outlet = Self::new(name, vec![Box::new(file)], inbox);
        if is_regular {
            outlet.patience = PATIENCE_WITH_DISKS;
        }
        outlet
    }

    /// The writer with this index.
    pub fn way(&self, index: usize) -> OutletWriter {
        OutletWriter {
            shared: Arc::clone(&self.shared),
            index,
        }
    }

    /// Adds `bytes` for the first writer.
    pub fn push(&self, bytes: &[u8]) {
        self.shared.push(0, bytes);
    }

    /// Whether it has space for more now.
    pub fn has_room(&self) -> bool {
        self.shared.lock().bytes < ROOM
    }

    /// The reason why it failed, with its name; reported once. A reader that closed the pipe has
    /// all it wanted: that is no failure.
    pub fn failure(&self) -> Option<String> {
        let mut state = self.shared.lock();
        let kind = state.failed.as_ref()?.kind();
        if kind == io::ErrorKind::BrokenPipe {
            return None;
        }
        // The error stays known, as later writes would fail, too.
        let error = state.failed.replace(io::ErrorKind::BrokenPipe.into())?;
        Some(format!("cannot write {}: {error}", self.name))
    }

    /// Writes what is left. Returns the number of bytes that could not be written.
    pub fn end(&self) -> usize {
        let mut state = self.shared.lock();
        state.ended = true;
        self.shared.changed.notify_all();
        while state.bytes > 0 {
            let before = state.bytes;
            let waited = self.shared.changed.wait_timeout(state, self.patience);
            let (now, time) = waited.unwrap_or_else(PoisonError::into_inner);
            if time.timed_out() && now.bytes == before {
                return before;
            }
            state = now;
        }
        0
    }

    /// The outlet's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, way: usize, bytes: &[u8]) {
        let mut state = self.lock();
        if state.failed.is_some() || bytes.is_empty() {
            return;
        }
        state.bytes += bytes.len();
        match state.waiting.back_mut() {
            Some((last, text)) if *last == way => text.extend(bytes),
            _ => state.waiting.push_back((way, bytes.to_vec())),
        }
        self.changed.notify_all();
    }

    fn next(&self) -> Option<(usize, Vec<u8>)> {
        let mut state = self.lock();
        loop {
            match state.waiting.pop_front() {
                Some(next) => return Some(next),
                None if state.ended => return None,
                None => {
                    let waited = self.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// The thread's function: writes until the end or a failure.
    fn write(&self, mut writers: Writers) {
        while let Some((way, bytes)) = self.next() {
            let Some(way) = writers.get_mut(way) else {
                continue;
            };
            if let Err(error) = self.write_one(way, &bytes) {
                let mut state = self.lock();
                state.failed = Some(error);
                state.waiting.clear();
                state.bytes = 0;
                self.changed.notify_all();
                drop(state);
                self.inbox.outlet();
                return;
            }
        }
    }

    fn write_one(&self, way: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // A blocking write of many bytes returns only when all are written.
            match way.write(rest.get(..PIECE).unwrap_or(rest)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    self.written(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        way.flush()
    }

    fn written(&self, count: usize) {
        let mut state = self.lock();
        let was_full = state.bytes >= ROOM;
        state.bytes = state.bytes.saturating_sub(count);
        let has_room = state.bytes < ROOM;
        self.changed.notify_all();
        drop(state);
        if was_full && has_room {
            self.inbox.outlet();
        }
    }
}

impl Write for OutletWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.shared.push(self.index, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn outlet(writers: Writers) -> Outlet {
        Outlet::new("x.log", writers, &Arc::new(Inbox::default()))
    }

    #[test]
    fn all_is_written_in_order() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let other = ours.try_clone().unwrap();
        let outlet = outlet(vec![Box::new(ours), Box::new(other)]);
        let (mut first, mut second) = (outlet.way(0), outlet.way(1));
        first.write_all(b"a").unwrap();
        second.write_all(b"b").unwrap();
        outlet.push(b"c");
        assert_eq!(outlet.end(), 0);
        let mut text = [0; 3];
        theirs.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"abc");
    }

    #[test]
    fn what_nobody_reads_is_counted_and_holds_nobody_up() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let outlet = outlet(vec![Box::new(ours)]);
        // More than any socket buffers.
        let mut pushed = 0;
        while pushed < 64 << 20 {
            outlet.push(&[b'x'; 1 << 20]);
            pushed += 1 << 20;
        }
        assert!(!outlet.has_room());
        let left = outlet.end();
        assert!(left > 0 && left < pushed, "{left}");
    }

    #[test]
    fn a_full_disk_is_told_with_the_file_and_a_reader_that_went_is_not() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let full = outlet(vec![Box::new(full)]);
        full.push(b"x");
        full.end();
        let why = full.failure().unwrap();
        assert!(
            why.starts_with("cannot write x.log: No space left"),
            "{why}"
        );
        assert_eq!(full.failure(), None, "once");
        full.push(&[b'x'; 2 * ROOM]);
        assert!(full.has_room(), "what comes then is not kept");
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let gone = outlet(vec![Box::new(ours)]);
        gone.push(b"x");
        gone.end();
        assert_eq!(gone.failure(), None);
    }
}
