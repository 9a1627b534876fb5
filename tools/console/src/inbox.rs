//! The queue of a run's loop. Threads put in what comes: signals before keys, and keys before the
//! board's output.
//!
//! Nothing here grows without bound. A thread that brings more than there is space for waits, and
//! so does the board behind it: its own line is full then, and it loses nothing. A signal never
//! waits.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use hanok_base::signals::{Listener, SignalResponse};

/// The number of bytes of each kind that may wait.
const ROOM: usize = 64 << 10;
/// The largest number of bytes that are given out at a time, before signals and time are checked
/// again.
pub const PIECE: usize = 4096;
/// The number of pieces from attached terminals that may wait.
const VISITS: usize = 16;

/// What the loop is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A signal for this process.
    Signal(i32),
    /// Keys of the person, or data that is piped in.
    Keys(Vec<u8>),
    /// Output of the board.
    Board(Vec<u8>),
    /// An event of an attached terminal, with its number.
    Visitor(usize, Visit),
    /// An outlet has space again, or has failed.
    Outlet,
    /// The board's line is closed, and all its output was given out.
    Closed,
    /// Nothing came in time.
    Nothing,
}

/// An event of an attached terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It has connected.
    Came,
    /// It sends these bytes.
    Said(Vec<u8>),
    /// It has gone.
    Went,
}

/// What the loop can take now, besides signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// Keys.
    pub keys: bool,
    /// Output of the board.
    pub board: bool,
    /// Events of attached terminals.
    pub visitors: bool,
}

/// The run has ended, and takes nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

#[derive(Debug, Default)]
struct State {
    signal: Option<i32>,
    keys: VecDeque<u8>,
    board: VecDeque<u8>,
    visitors: VecDeque<(usize, Visit)>,
    outlet: bool,
    board_ended: bool,
    gone: bool,
}

/// The queue of one run.
#[derive(Debug, Default)]
pub struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

/// The run with this queue, as a listener for signals.
pub fn listener(inbox: &Arc<Inbox>) -> Weak<dyn Listener> {
    let run: Weak<Inbox> = Arc::downgrade(inbox);
    run
}

impl Listener for Inbox {
    fn signal(&self, signal: i32) -> SignalResponse {
        match self.bring_signal(signal) {
            Ok(()) => SignalResponse::Taken,
            Err(Gone) => SignalResponse::Gone,
        }
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in output of the board; waits for space.
    pub fn board(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.bring(bytes, |state| &mut state.board)
    }

    /// Puts in keys; waits for space.
    pub fn keys(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.bring(bytes, |state| &mut state.keys)
    }

    fn bring(&self, bytes: &[u8], queue: fn(&mut State) -> &mut VecDeque<u8>) -> Result<(), Gone> {
        let mut state = self.lock();
        while queue(&mut state).len() >= ROOM && !state.gone {
            state = wait(&self.changed, state);
        }
        if state.gone {
            return Err(Gone);
        }
        queue(&mut state).extend(bytes);
        self.changed.notify_all();
        Ok(())
    }

    /// Puts in an event of an attached terminal; waits for space. A terminal that sends much waits
    /// for the others, and they wait for it.
    pub fn visitor(&self, number: usize, visit: Visit) -> Result<(), Gone> {
        let mut state = self.lock();
        while state.visitors.len() >= VISITS && !state.gone {
            state = wait(&self.changed, state);
        }
        if state.gone {
            return Err(Gone);
        }
        state.visitors.push_back((number, visit));
        self.changed.notify_all();
        Ok(())
    }

    /// Puts in a signal. The error means that the run has ended already.
    pub fn bring_signal(&self, signal: i32) -> Result<(), Gone> {
        let mut state = self.lock();
        if state.gone {
            return Err(Gone);
        }
        state.signal = Some(signal);
        self.changed.notify_all();
        Ok(())
    }

    /// Notes that an outlet has space again, or has failed.
    pub fn outlet(&self) {
        self.lock().outlet = true;
        self.changed.notify_all();
    }

    /// Notes that the board's line is closed.
    pub fn board_ended(&self) {
        self.lock().board_ended = true;
        self.changed.notify_all();
    }

    /// Ends the queue: it takes nothing any more, and waiting threads go on.
    pub fn close(&self) {
        let mut state = self.lock();
        state.gone = true;
        state.board.clear();
        self.changed.notify_all();
    }

    /// The next thing of those that the loop `accepts`, until a time.
    pub fn next(&self, accepts: Accepts, until: Option<Instant>) -> Incoming {
        let mut state = self.lock();
        loop {
            if let Some(incoming) = state.take(accepts) {
                self.changed.notify_all();
                return incoming;
            }
            let Some(until) = until else {
                state = wait(&self.changed, state);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Incoming::Nothing;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
    changed.wait(state).unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn take(&mut self, accepts: Accepts) -> Option<Incoming> {
        if let Some(signal) = self.signal.take() {
            return Some(Incoming::Signal(signal));
        }
        if std::mem::take(&mut self.outlet) {
            return Some(Incoming::Outlet);
        }
        if accepts.keys && !self.keys.is_empty() {
            return Some(Incoming::Keys(piece(&mut self.keys)));
        }
        if accepts.visitors
            && let Some((number, visit)) = self.visitors.pop_front()
        {
            return Some(Incoming::Visitor(number, visit));
        }
        if accepts.board && !self.board.is_empty() {
            return Some(Incoming::Board(piece(&mut self.board)));
        }
        let closed = accepts.board && self.board_ended && self.board.is_empty();
        closed.then_some(Incoming::Closed)
    }
}

fn piece(queue: &mut VecDeque<u8>) -> Vec<u8> {
    let len = queue.len().min(PIECE);
    queue.drain(..len).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    const ALL: Accepts = Accepts {
        keys: true,
        board: true,
        visitors: true,
    };
    const NO_BOARD: Accepts = Accepts {
        keys: true,
        board: false,
        visitors: false,
    };

    #[test]
    fn signals_come_before_keys_and_keys_before_the_board() {
        let inbox = Inbox::default();
        inbox.board(b"text").unwrap();
        inbox.keys(b"key").unwrap();
        inbox.bring_signal(15).unwrap();
        inbox.board_ended();
        inbox.visitor(3, Visit::Came).unwrap();
        assert_eq!(inbox.next(ALL, None), Incoming::Signal(15));
        assert_eq!(inbox.next(ALL, None), Incoming::Keys(b"key".to_vec()));
        let now = Some(Instant::now());
        assert_eq!(inbox.next(NO_BOARD, now), Incoming::Nothing);
        inbox.bring_signal(2).unwrap();
        assert_eq!(inbox.next(NO_BOARD, None), Incoming::Signal(2));
        let came = Incoming::Visitor(3, Visit::Came);
        assert_eq!(inbox.next(ALL, None), came);
        assert_eq!(inbox.next(ALL, None), Incoming::Board(b"text".to_vec()));
        assert_eq!(inbox.next(ALL, None), Incoming::Closed);
    }

    #[test]
    fn who_brings_too_much_waits_and_goes_when_nobody_takes_it() {
        let inbox = Arc::new(Inbox::default());
        let board = Arc::clone(&inbox);
        let bringer = thread::spawn(move || {
            let mut brought = 0;
            while board.board(&[b'x'; PIECE]).is_ok() {
                brought += PIECE;
            }
            brought
        });
        // The thread fills the queue, however long that takes.
        while inbox.lock().board.len() < ROOM {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(inbox.lock().board.len(), ROOM);
        inbox.close();
        assert_eq!(bringer.join().unwrap(), ROOM);
        assert_eq!(inbox.bring_signal(15), Err(Gone));
        assert_eq!(inbox.keys(b"x"), Err(Gone));
    }
}
