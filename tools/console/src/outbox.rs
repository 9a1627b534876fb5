//! The queue of what goes to the board: each VM's bytes and a person's keys, no more of them at a
//! time than the board has space for.
//!
//! The board keeps what a VM has not read yet, and tells when it has read it. What comes beyond its
//! space is dropped, so that it waits here, for each VM separately. The board decides where a key
//! goes, and answers each key that may change that. Until then no other key is sent, so that it is
//! known whose space each key takes (`core/vm/src/console.rs` has the rules).
//!
//! Prompts of persons are handled on this PC. Their commands for the board wait here as whole
//! lines. They go to the board's own prompt one after the other, which is opened and closed for
//! each.
//!
//! In the place of a board there may be another `hanok run`, which has one (`hanok attach`): it
//! says when a line was carried out, and has space for everything else.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::demux::{self, Receiver};

/// The number of bytes of a VM that may be sent without an acknowledgement.
const ROOM: usize = 1024;
/// The number of bytes that one acknowledgement covers.
const ACKNOWLEDGED: usize = 256;
/// The longest time that a key waits for an answer, so that nobody is locked out.
const PATIENCE: Duration = Duration::from_secs(2);
/// `Ctrl-]`, which opens the prompt.
pub const ATTENTION: u8 = 0x1d;
/// `Ctrl-C`, which closes the prompt.
const LEAVE: u8 = 0x03;
/// `Ctrl-U`, which clears the prompt's line.
const EMPTY: u8 = 0x15;

/// What is known of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Board {
    /// It has said nothing yet.
    Silent,
    /// It tells where keys go, and what was consumed.
    Answers,
    /// A VM wrote before the board told that: the board never will.
    Mute,
}

/// The receiver of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Addressee {
    Keys,
    Vm(usize),
    Report,
}

#[derive(Debug, Default)]
struct VmQueue {
    waiting: VecDeque<u8>,
    unacknowledged: usize,
}

/// What waits for the board.
#[derive(Debug)]
pub struct Outbox {
    framed: bool,
    /// Whether the other end is another `hanok run`.
    remote: bool,
    keys: VecDeque<u8>,
    /// Lines for the board's prompt.
    commands: VecDeque<String>,
    /// Lines for the report channel.
    requests: VecDeque<String>,
    lanes: Vec<VmQueue>,
    /// The receiver of the line's next byte.
    selected: Option<Addressee>,
    receiver: Receiver,
    attached: usize,
    board: Board,
    /// When the last key was sent that is to be answered.
    awaiting: Option<Instant>,
}

impl Outbox {
    /// For a board with `vms` VMs; `framed` as its line is.
    pub fn new(framed: bool, vms: usize) -> Self {
        Self {
            framed,
            remote: false,
            keys: VecDeque::new(),
            commands: VecDeque::new(),
            requests: VecDeque::new(),
            lanes: (0..vms).map(|_| VmQueue::default()).collect(),
            selected: None,
            receiver: Receiver::Vm(0),
            attached: 0,
            board: Board::Silent,
            awaiting: None,
        }
    }

    /// Adds keys that a script types.
    pub fn keys(&mut self, bytes: &[u8]) {
        self.keys.extend(bytes);
    }

    /// For another `hanok run`, whose board has `vms` VMs.
    pub fn to_run(vms: usize) -> Self {
        Self {
            remote: true,
            board: Board::Mute,
            ..Self::new(true, vms)
        }
    }

    /// Adds a line that the board's prompt is to carry out.
    pub fn command(&mut self, line: String, now: Instant) {
        if self.awaiting.is_some_and(|since| now - since > PATIENCE) {
            self.awaiting = None;
        }
        self.commands.push_back(line);
    }

    /// Adds a line for the report channel. It waits for no answer and takes nobody's room; that one
    /// request is under way at a time is the caller's matter.
    pub fn request(&mut self, line: String) {
        if self.framed {
            self.requests.push_back(line);
        }
    }

    /// Whether all commands and keys were sent and answered.
    pub fn is_idle(&self) -> bool {
        self.keys.is_empty() && self.commands.is_empty() && self.awaiting.is_none()
    }

    /// Adds bytes for a VM, whichever one is attached.
    pub fn send(&mut self, vm: usize, bytes: &[u8]) {
        match self.lanes.get_mut(vm) {
            Some(lane) if self.framed => lane.waiting.extend(bytes),
            Some(_) => self.keys(bytes),
            None => {}
        }
    }

    /// The number of bytes that wait here.
    pub fn waiting(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| lane.waiting.len());
        let commands = self.commands.iter().chain(&self.requests);
        let commands = commands.map(String::len);
        lanes.sum::<usize>() + commands.sum::<usize>() + self.keys.len()
    }

    /// Notes that the board told where keys go.
    pub fn keys_go_to(&mut self, receiver: Receiver) {
        self.awaiting = None;
        if self.remote {
            return;
        }
        self.board = Board::Answers;
        self.receiver = receiver;
        if let Receiver::Vm(vm) = receiver {
            self.attached = vm;
        }
    }

    /// Notes that the board told that a VM's bytes were consumed.
    pub fn consumed(&mut self, vm: usize) {
        if let Some(lane) = self.lanes.get_mut(vm) {
            lane.unacknowledged = lane.unacknowledged.saturating_sub(ACKNOWLEDGED);
        }
    }

    /// Notes that a VM wrote something.
    pub fn vm_spoke(&mut self) {
        if self.board == Board::Silent {
            self.board = Board::Mute;
            self.awaiting = None;
        }
    }

    /// The bytes that can be sent now, as they go on the line.
    pub fn take(&mut self, now: Instant) -> Vec<u8> {
        if !self.framed {
            return self.keys.drain(..).collect();
        }
        let mut line = Vec::new();
        while let Some(request) = self.requests.pop_front() {
            for byte in request.bytes().chain([b'\n']) {
                self.put(Addressee::Report, byte, &mut line);
            }
        }
        for vm in 0..self.lanes.len() {
            while self.has_room(vm)
                && let Some(byte) = self.lanes[vm].waiting.pop_front()
            {
                self.lanes[vm].unacknowledged += 1;
                self.put(Addressee::Vm(vm), byte, &mut line);
            }
        }
        while let Some(key) = self.next_key(now) {
            self.put(Addressee::Keys, key, &mut line);
        }
        line
    }

    fn next_key(&mut self, now: Instant) -> Option<u8> {
        if self.awaiting.is_some() {
            return None;
        }
        if self.keys.is_empty() {
            let line = self.commands.pop_front()?;
            self.type_command(&line);
        }
        if self.remote {
            let key = self.keys.pop_front();
            self.awaiting = key.filter(|key| *key == b'\r').map(|_| now);
            return key;
        }
        let key = *self.keys.front()?;
        // Ctrl-] opens the prompt. At the prompt it goes to a VM.
        let for_vm = match (self.receiver, key) {
            (Receiver::Vm(_), ATTENTION) => None,
            (Receiver::Vm(vm), _) if !self.has_room(vm) => return None,
            (Receiver::Vm(vm), _) => Some(vm),
            (Receiver::Prompt, ATTENTION) => Some(self.attached),
            (Receiver::Prompt, _) => None,
        };
        if let Some(lane) = for_vm.and_then(|vm| self.lanes.get_mut(vm)) {
            lane.unacknowledged += 1;
        }
        let prompt = self.receiver == Receiver::Prompt;
        let answered = key == ATTENTION || prompt && matches!(key, b'\r' | b'\n' | LEAVE);
        if answered && self.board != Board::Mute {
            self.awaiting = Some(now);
        }
        self.keys.pop_front()
    }

    /// Adds the keys by which the board's prompt carries a line out. A prompt that a script has
    /// opened stays open.
    fn type_command(&mut self, line: &str) {
        let (before, after): (&[u8], &[u8]) = match self.receiver {
            _ if self.remote => (&[], &[]),
            Receiver::Prompt => (&[EMPTY], &[]),
            Receiver::Vm(_) => (&[ATTENTION], &[LEAVE]),
        };
        self.keys.extend(before);
        self.keys.extend(line.bytes().chain([b'\r']));
        self.keys.extend(after);
    }

    fn has_room(&self, vm: usize) -> bool {
        let lane = self.lanes.get(vm);
        self.board == Board::Mute || lane.is_none_or(|lane| lane.unacknowledged < ROOM)
    }

    fn put(&mut self, to: Addressee, byte: u8, line: &mut Vec<u8>) {
        if self.selected.replace(to) != Some(to) {
            match to {
                Addressee::Keys => line.extend(demux::KEYS),
                Addressee::Vm(vm) => line.extend(demux::select(vm)),
                Addressee::Report => line.extend(demux::REQUESTS),
            }
        }
        line.extend(demux::frame(&[byte]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox() -> Outbox {
        let mut outbox = Outbox::new(true, 2);
        outbox.keys_go_to(Receiver::Vm(0));
        outbox
    }

    fn taken(outbox: &mut Outbox) -> String {
        String::from_utf8(outbox.take(Instant::now())).unwrap()
    }

    #[test]
    fn everything_has_its_address() {
        let mut outbox = outbox();
        outbox.keys(b"k");
        outbox.send(1, b"b\x10");
        outbox.send(7, b"nobody");
        assert_eq!(taken(&mut outbox), "\x10\x41b\x10\x10\x10\x3fk");
        outbox.keys(b"l");
        assert_eq!(taken(&mut outbox), "l");
        let mut plain = Outbox::new(false, 1);
        plain.send(0, b"\x10");
        plain.keys(b"\x1dx");
        assert_eq!(taken(&mut plain), "\x10\x1dx");
    }

    #[test]
    fn no_more_is_sent_than_there_is_room_for() {
        let mut outbox = outbox();
        outbox.send(1, &[b'x'; 3000]);
        assert_eq!(taken(&mut outbox).len(), 2 + 1024);
        outbox.keys(b"others go on");
        assert!(taken(&mut outbox).ends_with("others go on"));
        outbox.consumed(1);
        assert_eq!(taken(&mut outbox).len(), 2 + 256);
        for _ in 0..20 {
            outbox.consumed(1);
        }
        assert_eq!(taken(&mut outbox).len(), 1024, "no room is made up");
    }

    #[test]
    fn keys_wait_for_the_answer_that_says_where_they_go() {
        let mut outbox = outbox();
        outbox.keys(b"a\x1dlist\r\x1dc");
        assert_eq!(taken(&mut outbox), "\x10\x3fa\x1d");
        outbox.keys_go_to(Receiver::Prompt);
        assert_eq!(taken(&mut outbox), "list\r");
        assert_eq!(taken(&mut outbox), "");
        outbox.keys_go_to(Receiver::Prompt);
        assert_eq!(taken(&mut outbox), "\x1d");
        outbox.keys_go_to(Receiver::Vm(0));
        assert_eq!(taken(&mut outbox), "c");
        assert_eq!(outbox.lanes[0].unacknowledged, 3, "a, Ctrl-], c");
    }

    #[test]
    fn commands_go_one_by_one_whatever_a_vm_does() {
        let mut outbox = outbox();
        let now = Instant::now();
        outbox.send(0, &[b'x'; 2000]);
        taken(&mut outbox);
        outbox.command("list".to_owned(), now);
        outbox.command("stats".to_owned(), now);
        assert!(!outbox.is_idle());
        assert_eq!(taken(&mut outbox), "\x10\x3f\x1d", "not after the rest");
        outbox.keys_go_to(Receiver::Prompt);
        assert_eq!(taken(&mut outbox), "list\r");
        outbox.keys_go_to(Receiver::Prompt);
        assert_eq!(taken(&mut outbox), "\x03");
        outbox.keys_go_to(Receiver::Vm(0));
        assert_eq!(taken(&mut outbox), "\x1d");
        outbox.keys_go_to(Receiver::Prompt);
        assert_eq!(taken(&mut outbox), "stats\r");
        // The answer takes too long: the next command is sent all the same.
        outbox.command("dump".to_owned(), now + PATIENCE + PATIENCE);
        assert!(taken(&mut outbox).starts_with('\x03'));
        assert_eq!(outbox.waiting(), 2000 - 1024 + "dump".len());
    }

    #[test]
    fn a_request_waits_for_nothing_and_disturbs_no_key() {
        let mut outbox = outbox();
        outbox.keys(b"\x1dlist\r");
        assert_eq!(taken(&mut outbox), "\x10\x3f\x1d");
        outbox.request("report 1".to_owned());
        assert_eq!(taken(&mut outbox), "\x10\x7f\x10\x3dreport 1\n");
        outbox.keys_go_to(Receiver::Prompt);
        assert_eq!(taken(&mut outbox), "\x10\x3flist\r");
        let mut plain = Outbox::new(false, 1);
        plain.request("report 1".to_owned());
        assert_eq!(taken(&mut plain), "", "such a line has no such channel");
    }

    #[test]
    fn a_prompt_that_a_script_has_opened_stays_open() {
        let mut outbox = outbox();
        outbox.keys_go_to(Receiver::Prompt);
        outbox.command("list".to_owned(), Instant::now());
        assert_eq!(taken(&mut outbox), "\x10\x3f\x15list\r");
        outbox.keys_go_to(Receiver::Prompt);
        assert!(outbox.is_idle());
    }

    #[test]
    fn to_another_run_all_goes_as_it_comes_and_commands_are_answered() {
        let mut outbox = Outbox::to_run(2);
        outbox.send(1, &[b'x'; 3000]);
        assert_eq!(taken(&mut outbox).len(), 2 + 3000);
        let now = Instant::now();
        outbox.command("list".to_owned(), now);
        outbox.command("quit".to_owned(), now);
        assert_eq!(taken(&mut outbox), "\x10\x3flist\r");
        assert!(!outbox.is_idle());
        outbox.keys_go_to(Receiver::Prompt);
        assert_eq!(taken(&mut outbox), "quit\r");
        outbox.keys_go_to(Receiver::Prompt);
        assert!(outbox.is_idle());
    }

    #[test]
    fn a_board_that_never_answers_is_not_waited_for() {
        let mut outbox = Outbox::new(true, 1);
        outbox.keys(&[b'x'; 2000]);
        assert_eq!(taken(&mut outbox).len(), 2 + 1024, "it may answer yet");
        outbox.vm_spoke();
        assert_eq!(taken(&mut outbox).len(), 2000 - 1024);
        outbox.keys(b"\x1dx");
        assert_eq!(taken(&mut outbox), "\x1dx");
    }
}
