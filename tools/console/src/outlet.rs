//! A way out for text, behind which a thread does the writing: a pipe that nobody reads, or a
//! disk that does not answer, holds that thread up and not the loop of the run.
//!
//! The loop asks whether there is room before it takes more from the board, so that nothing is
//! lost while somebody reads, and nothing grows while nobody does. At the end an outlet has a
//! while to write what it still has; what it could not is counted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::inbox::Inbox;

/// From so many bytes on there is no room for more.
const ROOM: usize = 64 << 10;
/// Bytes that are written at a time.
const PIECE: usize = 4096;
/// So long the last bytes may stand still, before nobody is taken to read them.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same of a file: a disk takes all in the end, however much else the PC writes.
const PATIENCE_WITH_DISKS: Duration = Duration::from_secs(120);

/// What comes out goes one way of these.
type Ways = Vec<Box<dyn Write + Send>>;

#[derive(Default)]
struct State {
    /// Which way, and what.
    waiting: VecDeque<(usize, Vec<u8>)>,
    /// Bytes that are not written yet, those that are being written too.
    bytes: usize,
    ended: bool,
    failed: Option<io::Error>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    inbox: Arc<Inbox>,
}

/// One outlet; its bytes are written in the order in which they came.
pub struct Outlet {
    name: String,
    patience: Duration,
    shared: Arc<Shared>,
}

/// One of an outlet's ways.
pub struct Way {
    shared: Arc<Shared>,
    index: usize,
}

impl Outlet {
    /// An outlet of this name by these ways. `inbox` hears when it has room again.
    pub fn new(name: impl Into<String>, ways: Ways, inbox: &Arc<Inbox>) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
            inbox: Arc::clone(inbox),
        });
        let writer = Arc::clone(&shared);
        thread::spawn(move || writer.write(ways));
        Self {
            name: name.into(),
            patience: PATIENCE,
            shared,
        }
    }

    /// One whose way is a file: it is a regular one, which nobody has to read, or a pipe.
    pub fn to_file(name: impl Into<String>, file: File, inbox: &Arc<Inbox>) -> Self {
        let is_regular = file.metadata().is_ok_and(|data| data.is_file());
        let mut outlet = Self::new(name, vec![Box::new(file)], inbox);
        if is_regular {
            outlet.patience = PATIENCE_WITH_DISKS;
        }
        outlet
    }

    /// One of its ways, by its place.
    pub fn way(&self, index: usize) -> Way {
        Way {
            shared: Arc::clone(&self.shared),
            index,
        }
    }

    /// Takes `bytes` by the first way.
    pub fn push(&self, bytes: &[u8]) {
        self.shared.push(0, bytes);
    }

    /// Whether more can be taken now.
    pub fn has_room(&self) -> bool {
        self.shared.lock().bytes < ROOM
    }

    /// Why it failed, with its name, if it did; once. A reader that went away has all that it
    /// wanted: that is no failure.
    pub fn failure(&self) -> Option<String> {
        let mut state = self.shared.lock();
        let kind = state.failed.as_ref()?.kind();
        if kind == io::ErrorKind::BrokenPipe {
            return None;
        }
        // What comes behind the error is no better: that it failed stays known.
        let error = state.failed.replace(io::ErrorKind::BrokenPipe.into())?;
        Some(format!("cannot write {}: {error}", self.name))
    }

    /// Writes what is left. Gives back how many bytes nobody took.
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

    /// Its name.
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

    /// The thread: writes until it ends or fails.
    fn write(&self, mut ways: Ways) {
        while let Some((way, bytes)) = self.next() {
            let Some(way) = ways.get_mut(way) else {
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
            // A blocking write of much comes back only when all of it is written.
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

impl Write for Way {
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

    fn outlet(ways: Ways) -> Outlet {
        Outlet::new("x.log", ways, &Arc::new(Inbox::default()))
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
        // More than any socket keeps.
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
