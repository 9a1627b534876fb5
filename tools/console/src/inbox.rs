//! What reaches the loop of a run, by threads that only carry: signals before keys, and keys
//! before what the board says.
//!
//! Nothing here grows without bound. Who brings more than there is room for waits, and with him
//! the board: its own line is full then, and it loses nothing. A signal never waits.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use hanok_base::signals::{Heard, Listener};

/// Bytes of each kind that may wait.
const ROOM: usize = 64 << 10;
/// Bytes that are given out at a time: so many at most are decided on before signals and time
/// are looked at again.
pub const PIECE: usize = 4096;
/// What of terminals that are attached may wait: so many times a piece at most.
const VISITS: usize = 16;

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A signal for this process.
    Signal(i32),
    /// Keys of the person, or what is piped in.
    Keys(Vec<u8>),
    /// What the board says.
    Board(Vec<u8>),
    /// Of a terminal that is attached, by its number.
    Visitor(usize, Visit),
    /// An outlet has room again, or failed.
    Outlet,
    /// The board's line is closed, and all that it said was given out.
    Closed,
    /// Nothing came in time.
    Nothing,
}

/// What a terminal that is attached does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visit {
    /// It is there.
    Came,
    /// It sends this.
    Said(Vec<u8>),
    /// It went.
    Went,
}

/// What the loop can take now besides signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takes {
    /// Keys.
    pub keys: bool,
    /// What the board says.
    pub board: bool,
    /// What terminals that are attached send.
    pub visitors: bool,
}

/// Nobody takes anything any more.
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

/// The run whose queue it is, as one that hears of signals.
pub fn listener(inbox: &Arc<Inbox>) -> Weak<dyn Listener> {
    let run: Weak<Inbox> = Arc::downgrade(inbox);
    run
}

impl Listener for Inbox {
    fn signal(&self, signal: i32) -> Heard {
        match self.bring_signal(signal) {
            Ok(()) => Heard::Taken,
            Err(Gone) => Heard::Gone,
        }
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings what the board said; waits for room.
    pub fn board(&self, bytes: &[u8]) -> Result<(), Gone> {
        self.bring(bytes, |state| &mut state.board)
    }

    /// Brings keys; waits for room.
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

    /// Brings what a terminal that is attached does; waits for room. Who sends much waits for the
    /// others, and they for him.
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

    /// Brings a signal. It is [`Gone`]'s where the run has ended already.
    pub fn bring_signal(&self, signal: i32) -> Result<(), Gone> {
        let mut state = self.lock();
        if state.gone {
            return Err(Gone);
        }
        state.signal = Some(signal);
        self.changed.notify_all();
        Ok(())
    }

    /// An outlet has room again, or failed.
    pub fn outlet(&self) {
        self.lock().outlet = true;
        self.changed.notify_all();
    }

    /// The board's line is closed.
    pub fn board_ended(&self) {
        self.lock().board_ended = true;
        self.changed.notify_all();
    }

    /// From here on nobody takes anything: who waits goes.
    pub fn close(&self) {
        let mut state = self.lock();
        state.gone = true;
        state.board.clear();
        self.changed.notify_all();
    }

    /// What comes next of what the loop `takes`, until a time.
    pub fn next(&self, takes: Takes, until: Option<Instant>) -> Incoming {
        let mut state = self.lock();
        loop {
            if let Some(incoming) = state.take(takes) {
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
    fn take(&mut self, takes: Takes) -> Option<Incoming> {
        if let Some(signal) = self.signal.take() {
            return Some(Incoming::Signal(signal));
        }
        if std::mem::take(&mut self.outlet) {
            return Some(Incoming::Outlet);
        }
        if takes.keys && !self.keys.is_empty() {
            return Some(Incoming::Keys(piece(&mut self.keys)));
        }
        if takes.visitors
            && let Some((number, visit)) = self.visitors.pop_front()
        {
            return Some(Incoming::Visitor(number, visit));
        }
        if takes.board && !self.board.is_empty() {
            return Some(Incoming::Board(piece(&mut self.board)));
        }
        let closed = takes.board && self.board_ended && self.board.is_empty();
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

    const ALL: Takes = Takes {
        keys: true,
        board: true,
        visitors: true,
    };
    const NO_BOARD: Takes = Takes {
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
        // The bringer fills the queue, however long that takes it.
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
