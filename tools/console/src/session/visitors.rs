//! Terminals that are attached to this run by `hanok attach`.
//!
//! None of them can block the run, or make it grow: what one does not read in time is left out for
//! it, and it is told so. What they send is treated like a person's keys.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::attach_socket::AttachSocket;
use crate::demux::{self, Channel, Demux, Receiver};
use crate::filter::Filter;
use crate::inbox::Inbox;
use crate::modes::Modes;
use crate::outbox::Outbox;
use crate::outlet::Outlet;
use crate::report_lines::ReportLines;

/// The number of bytes of each VM's text that a new terminal is shown.
const KEPT: usize = 16 << 10;
/// The largest length in bytes of a line that asks the board for something.
const LONGEST: usize = 200;

/// All attached terminals.
pub(super) struct Visitors {
    attach_socket: Option<AttachSocket>,
    inbox: Arc<Inbox>,
    pub(super) all: Vec<Visitor>,
    /// The end of each VM's text.
    kept: Vec<VecDeque<u8>>,
    /// Whether one of them awaits an answer.
    pub(super) asked: bool,
}

pub(super) struct Visitor {
    pub(super) number: usize,
    stream: UnixStream,
    outlet: Outlet,
    /// The source of the text that it was sent last.
    speaker: Option<Channel>,
    /// The number of bytes that were left out.
    lost: usize,
    pub(super) said: Demux,
    /// The incomplete line for the board.
    line: Vec<u8>,
    /// The requests for the report channel.
    pub(super) asked: ReportLines,
}

impl Visitors {
    pub(super) fn new(
        mut attach_socket: Option<AttachSocket>,
        vms: usize,
        inbox: &Arc<Inbox>,
    ) -> Self {
        if let Some(attach_socket) = &mut attach_socket {
            attach_socket.listen(inbox);
        }
        Self {
            attach_socket,
            inbox: Arc::clone(inbox),
            all: Vec::new(),
            kept: vec![VecDeque::new(); vms],
            asked: false,
        }
    }

    /// Sends text of a VM to all.
    pub(super) fn vm(&mut self, vm: usize, bytes: &[u8]) {
        if self.attach_socket.is_none() {
            return;
        }
        if let Some(kept) = self.kept.get_mut(vm) {
            kept.extend(bytes);
            let surplus = kept.len().saturating_sub(KEPT);
            kept.drain(..surplus);
        }
        let all = self.all.iter_mut();
        all.for_each(|visitor| visitor.text(Channel::Vm(vm), bytes));
    }

    /// Sends a line of the hypervisor to all.
    pub(super) fn say(&mut self, line: &str) {
        let all = self.all.iter_mut();
        all.for_each(|visitor| visitor.line(line));
    }

    /// Sends a line of the report channel to the terminal `number`.
    pub(super) fn report(&mut self, number: usize, line: &str) {
        let mut all = self.all.iter_mut();
        if let Some(visitor) = all.find(|visitor| visitor.number == number) {
            visitor.text(Channel::Report, format!("{line}\n").as_bytes());
        }
    }

    /// Tells those that asked for something that it is done.
    pub(super) fn done(&mut self, outbox: &Outbox) {
        if outbox.is_idle() && std::mem::take(&mut self.asked) {
            let done = demux::keys_go_to(Receiver::Prompt);
            self.all
                .iter()
                .for_each(|visitor| visitor.outlet.push(&done));
        }
    }

    pub(super) fn came(&mut self, number: usize) {
        let Some(stream) = self
            .attach_socket
            .as_ref()
            .and_then(|attach_socket| attach_socket.take(number))
        else {
            return;
        };
        let Ok(way) = stream.try_clone() else { return };
        let mut visitor = Visitor {
            number,
            stream,
            outlet: Outlet::new("to a terminal", vec![Box::new(way)], &self.inbox),
            speaker: None,
            lost: 0,
            said: Demux::framed(),
            line: Vec::new(),
            asked: ReportLines::default(),
        };
        for (vm, kept) in self.kept.iter().enumerate() {
            visitor.text(Channel::Vm(vm), &earlier_text(kept));
        }
        self.all.push(visitor);
    }

    pub(super) fn went(&mut self, number: usize) {
        let gone = self.all.extract_if(.., |visitor| visitor.number == number);
        gone.for_each(|visitor| visitor.dismiss());
    }

    /// Ends the connections: terminals have a moment to read the rest.
    pub(super) fn end(&mut self) {
        self.attach_socket = None;
        for visitor in self.all.drain(..) {
            visitor.outlet.end();
            visitor.dismiss();
        }
    }
}

/// The earlier text of a VM: whole lines of it, without its questions to a terminal.
fn earlier_text(kept: &VecDeque<u8>) -> Vec<u8> {
    let bytes: Vec<u8> = kept.iter().copied().collect();
    let whole = if bytes.len() < KEPT {
        0
    } else {
        bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1)
    };
    let bytes = bytes.get(whole..).unwrap_or_default();
    Filter::default().pass(bytes, &mut Modes::default())
}

impl Visitor {
    fn text(&mut self, channel: Channel, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if !self.outlet.has_room() {
            self.lost += bytes.len();
            return;
        }
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            let note =
                format!("{lost} bytes were left out here: this terminal did not read them\n");
            self.put(Channel::Log, note.as_bytes());
        }
        self.put(channel, bytes);
    }

    fn line(&mut self, line: &str) {
        self.text(Channel::Log, format!("{line}\n").as_bytes());
    }

    fn put(&mut self, channel: Channel, bytes: &[u8]) {
        if self.speaker.replace(channel) != Some(channel) {
            self.outlet.push(&demux::of(channel));
        }
        self.outlet.push(&demux::frame(bytes));
    }

    /// Adds a byte for the prompt, and returns the line if it ends one. An overlong line is
    /// dropped.
    pub(super) fn entered(&mut self, byte: u8) -> Option<String> {
        if byte != b'\r' {
            if self.line.len() <= LONGEST {
                self.line.push(byte);
            }
            return None;
        }
        let line = std::mem::take(&mut self.line);
        let whole = line.len() < LONGEST;
        Some(if whole {
            String::from_utf8_lossy(&line).into_owned()
        } else {
            String::new()
        })
    }

    /// Writes nothing to it any more, whether or not it reads.
    fn dismiss(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        self.outlet.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor() -> (Visitor, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let way = ours.try_clone().unwrap();
        let visitor = Visitor {
            number: 0,
            stream: ours,
            outlet: Outlet::new("x", vec![Box::new(way)], &Arc::default()),
            speaker: None,
            lost: 0,
            said: Demux::framed(),
            line: Vec::new(),
            asked: ReportLines::default(),
        };
        (visitor, theirs)
    }

    #[test]
    fn what_a_terminal_does_not_read_is_left_out_and_told() {
        let (mut visitor, mut theirs) = visitor();
        let mut pushed = 0;
        // More than any socket buffers.
        while pushed < 64 << 20 {
            visitor.text(Channel::Vm(0), &[b'#'; 4096]);
            pushed += 4096;
        }
        // Once it reads, it is told how many bytes were left out, and gets the rest.
        let reader = std::thread::spawn(move || {
            let mut all = String::new();
            std::io::Read::read_to_string(&mut theirs, &mut all).unwrap();
            all
        });
        while !visitor.outlet.has_room() {
            std::thread::yield_now();
        }
        visitor.text(Channel::Vm(0), b"now");
        assert_eq!(visitor.lost, 0);
        assert_eq!(visitor.outlet.end(), 0);
        visitor.dismiss();
        let all = reader.join().unwrap();
        let notes = all
            .lines()
            .filter_map(|line| line.split_once("\x10?")?.1.split_once(" bytes"));
        let lost: usize = notes
            .map(|(number, _)| number.parse::<usize>().unwrap())
            .sum();
        let read = all.bytes().filter(|byte| *byte == b'#').count();
        assert_eq!(read + lost, pushed);
        assert!(lost > 32 << 20 && all.ends_with("\x10@now"), "{lost}");
    }

    #[test]
    fn a_line_of_a_terminal_s_is_whole_or_none() {
        let (mut visitor, _theirs) = visitor();
        let mut entered = |text: &str| {
            let lines = text.bytes().filter_map(|byte| visitor.entered(byte));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(entered("list\rsto"), ["list"]);
        assert_eq!(entered("p a\r\r"), ["stop a", ""]);
        let long = format!("list{}\rlist\r", " ".repeat(10 * LONGEST));
        assert_eq!(entered(&long), ["", "list"]);
    }

    #[test]
    fn who_comes_sees_whole_lines_and_no_questions() {
        let kept = |text: &[u8]| earlier_text(&text.iter().copied().collect());
        assert_eq!(kept(b"one\n\x1b[6ntwo"), b"one\ntwo");
        let long = [&[b'x'; KEPT - 4][..], b"\nend"].concat();
        assert_eq!(kept(&long), b"end");
    }
}
