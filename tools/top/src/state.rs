//! What is known of the board now. The engine writes it, the views read it; neither waits for the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::change::{Change, Fate};
use crate::report::Report;
use crate::text::shown;
use crate::timeline::Timeline;
use crate::view::View;

/// The number of lines of text that are kept.
const MOST_LINES: usize = 2000;
/// The longest line in characters.
const LONGEST: usize = 400;
/// The number of changes whose outcome is kept.
const MOST_OUTCOMES: usize = 64;

/// How it stands with the board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "why")]
pub enum Status {
    /// Nothing has come yet.
    Waiting,
    /// Reports come.
    Live,
    /// The board does not answer.
    Silent(String),
    /// The board, or the way to it, is gone.
    Gone(String),
}

/// Who says a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speaker {
    /// The hypervisor.
    Hypervisor,
    /// A VM.
    Vm(u32),
}

/// A line of text that a VM or the hypervisor said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Said {
    /// Its number, from 0 on.
    pub number: u64,
    /// Who.
    pub who: Speaker,
    /// What, without what is more than text.
    pub text: String,
}

/// All that was said, as far as it is kept.
#[derive(Debug, Default)]
pub struct Log {
    lines: VecDeque<Said>,
    next: u64,
    /// The line of each speaker that is not ended.
    open: BTreeMap<Option<u32>, String>,
}

impl Log {
    /// Adds text.
    pub fn add(&mut self, who: Speaker, bytes: &[u8]) {
        let key = match who {
            Speaker::Hypervisor => None,
            Speaker::Vm(vm) => Some(vm),
        };
        let mut open = self.open.remove(&key).unwrap_or_default();
        for character in String::from_utf8_lossy(bytes).chars() {
            match character {
                '\n' => self.end(who, std::mem::take(&mut open)),
                '\r' => {}
                '\t' => open.push(' '),
                '\x08' => drop(open.pop()),
                _ if open.len() >= LONGEST => {
                    self.end(who, std::mem::take(&mut open));
                    open.push(character);
                }
                _ => open.push(character),
            }
        }
        self.open.insert(key, open);
    }

    fn end(&mut self, who: Speaker, text: String) {
        let text = shown(&without_sequences(&text));
        let number = self.next;
        self.next += 1;
        self.lines.push_back(Said { number, who, text });
        if self.lines.len() > MOST_LINES {
            self.lines.pop_front();
        }
    }

    /// The lines from number `from` on.
    pub fn since(&self, from: u64) -> impl DoubleEndedIterator<Item = &Said> {
        self.lines.iter().filter(move |said| said.number >= from)
    }

    /// The number of the next line.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The line of a speaker that is not ended, such as a prompt.
    pub fn open(&self, who: Speaker) -> String {
        let key = match who {
            Speaker::Hypervisor => None,
            Speaker::Vm(vm) => Some(vm),
        };
        let open = self.open.get(&key).map_or("", String::as_str);
        shown(&without_sequences(open))
    }
}

/// `text` without ECMA-48 control sequences: what moves or colours is no text.
fn without_sequences(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\x1b' {
            plain.push(character);
        } else if rest.next_if_eq(&'[').is_some() {
            while rest.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
        } else {
            rest.next();
        }
    }
    plain
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// How it ended; for a page, whether the board has taken it.
    #[serde(rename = "changed", serialize_with = "as_changed")]
    pub fate: Fate,
    /// What the board says, in words.
    pub words: String,
}

impl Outcome {
    /// Whether the board has taken it.
    pub const fn changed(&self) -> bool {
        matches!(self.fate, Fate::Changed(_))
    }
}

fn as_changed<S: Serializer>(fate: &Fate, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bool(matches!(fate, Fate::Changed(_)))
}

/// What a view asks the engine for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A change, by the number under which its outcome is kept.
    Change(u64, Change),
    /// Bytes for a VM.
    Keys(u32, Vec<u8>),
    /// The views have ended.
    Quit,
}

/// What is known.
#[derive(Debug)]
pub struct State {
    /// The name of what is watched.
    pub title: String,
    /// How it stands.
    pub status: Status,
    /// The latest view.
    pub view: Arc<View>,
    /// The latest report.
    pub report: Arc<Report>,
    /// Who ran when.
    pub timeline: Timeline,
    /// What was said.
    pub log: Log,
    /// The number of the board's lines that were not understood.
    pub garbled: u64,
    outcomes: BTreeMap<u64, Outcome>,
    next_change: u64,
    generation: u64,
}

/// The state that engine and views share.
#[derive(Clone)]
pub struct Shared {
    state: Arc<(Mutex<State>, Condvar)>,
    commands: Sender<Command>,
}

impl Shared {
    /// A state of which nothing is known yet, and the end at which commands come out.
    pub fn new(title: &str) -> (Self, Receiver<Command>) {
        let (commands, taken) = channel();
        let state = State {
            title: shown(title),
            status: Status::Waiting,
            view: Arc::default(),
            report: Arc::default(),
            timeline: Timeline::default(),
            log: Log::default(),
            garbled: 0,
            outcomes: BTreeMap::new(),
            next_change: 0,
            generation: 0,
        };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        (Self { state, commands }, taken)
    }

    /// The state, as long as the answer is held.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and tells those that wait for that.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.generation += 1;
        self.state.1.notify_all();
    }

    /// A number that differs after each change of the state.
    pub fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Waits until `ready` has an answer, or for as long as `most`.
    pub fn wait<T>(&self, most: Duration, ready: impl Fn(&State) -> Option<T>) -> Option<T> {
        let end = std::time::Instant::now() + most;
        let mut state = self.lock();
        loop {
            if let Some(answer) = ready(&state) {
                return Some(answer);
            }
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.state.1.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Asks for a change; the answer is the number of its outcome.
    pub fn change(&self, change: Change) -> u64 {
        let mut state = self.lock();
        let number = state.next_change;
        state.next_change += 1;
        drop(state);
        let _ = self.commands.send(Command::Change(number, change));
        number
    }

    /// Sends bytes to a VM.
    pub fn keys(&self, vm: u32, bytes: &[u8]) {
        let _ = self.commands.send(Command::Keys(vm, bytes.to_vec()));
    }

    /// Ends the engine.
    pub fn quit(&self) {
        let _ = self.commands.send(Command::Quit);
    }
}

impl State {
    /// Keeps what became of a change.
    pub fn decided(&mut self, number: u64, outcome: Outcome) {
        self.outcomes.insert(number, outcome);
        while self.outcomes.len() > MOST_OUTCOMES {
            self.outcomes.pop_first();
        }
    }

    /// What became of a change.
    pub fn outcome(&self, number: u64) -> Option<&Outcome> {
        self.outcomes.get(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_lines_of_text() {
        let mut log = Log::default();
        log.add(Speaker::Vm(0), b"one\x1b[31m red\x1b[0m\r\ntw");
        log.add(Speaker::Hypervisor, b"vm a: off\n");
        log.add(Speaker::Vm(0), b"o\n$ ");
        let texts: Vec<_> = log.since(0).map(|said| said.text.as_str()).collect();
        assert_eq!(texts, ["one red", "vm a: off", "two"]);
        assert_eq!(log.open(Speaker::Vm(0)), "$ ");
        log.add(Speaker::Vm(1), &[b'x'; 100_000]);
        log.add(Speaker::Vm(1), &b"\n".repeat(10 * MOST_LINES));
        assert_eq!(log.since(0).count(), MOST_LINES);
        assert!(log.since(0).all(|said| said.text.len() <= LONGEST));
    }
}
