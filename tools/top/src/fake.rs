//! A board that is none: it speaks the board's side of docs/top.md on any stream, with a few VMs that it
//! simulates as roughly as a demonstration needs. Tests drive both views with it, and
//! `cargo run -p hanok-top --example fake-board` shows them without a board.

mod cores;
mod says;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use hanok_console::demux::{self, Channel, Demux, Piece, Receiver};
use hanok_console::report_lines::ReportLines;
use hanok_system::Schedule;

use crate::line::Ways;
use crate::link::{self, Peer};
use crate::state::Shared;

pub use cores::Cores;

/// Ticks of the counter in a second.
pub const FREQUENCY: u64 = 62_500_000;
/// The most that is simulated at a time, in ticks.
const MOST: u64 = 10 * FREQUENCY;

/// What kind of board it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// It keeps the protocol.
    #[default]
    Good,
    /// It knows no report channel.
    Old,
    /// It sends half lines, huge numbers and nonsense between its answers.
    Garbled,
    /// Its last core never answers.
    Deaf,
    /// It answers no change.
    Mute,
}

/// The description of the fake board's groups.
///
/// # Panics
/// Never: it is a part of this crate.
pub fn description() -> Schedule {
    let text = include_str!("fake/system.toml");
    hanok_system::parse_schedule(Path::new("system.toml"), text, Path::new("."))
        .expect("it is sound")
}

/// A board.
pub struct FakeBoard {
    cores: Cores,
    manner: Manner,
    began: Instant,
    said: u64,
}

impl FakeBoard {
    /// A board with a few VMs.
    pub fn new(manner: Manner) -> Self {
        Self {
            cores: Cores::demo(),
            manner,
            began: Instant::now(),
            said: 0,
        }
    }

    /// Lets it run in a thread, watched at this interval as the system `name`.
    ///
    /// # Panics
    /// If the PC has no pair of sockets.
    pub fn watched(self, name: &str, interval: Duration) -> Shared {
        let (board, ours) = UnixStream::pair().expect("a pair of sockets");
        thread::spawn(move || {
            let from = board.try_clone().expect("another handle of a socket");
            self.serve(from, board)
        });
        let (shared, commands) = Shared::new(name);
        let ways = Ways::of(ours).expect("another handle of a socket");
        link::start(ways, Peer::Board, interval, (shared.clone(), commands));
        shared
    }

    /// Gives VM `vm` another name, as a board would that is not to be trusted.
    pub fn rename(&mut self, vm: usize, name: &str) {
        self.cores.rename(vm, name);
    }

    /// The board's counter.
    fn now(&self) -> u64 {
        let nanos = self.began.elapsed().as_nanos();
        u64::try_from(nanos * u128::from(FREQUENCY) / 1_000_000_000).unwrap_or(u64::MAX)
    }

    /// Lets time pass until the clock's now.
    fn advance(&mut self) {
        let now = self.now();
        let from = self.cores.now().max(now.saturating_sub(MOST));
        self.cores.advance(from, now);
    }

    /// The answer to a request.
    pub fn answer(&mut self, request: &str) -> String {
        self.advance();
        let words: Vec<_> = request.split(' ').collect();
        let numbers: Vec<u64> = words
            .iter()
            .skip(1)
            .filter_map(|word| word.parse().ok())
            .collect();
        match (words.first().copied(), numbers.as_slice()) {
            (Some("report"), [number]) => self.report(*number),
            (Some("change"), [vm, vcpu, period, budget, deadline]) => self
                .cores
                .change([*vm, *vcpu], [*period, *budget, *deadline]),
            (Some("weight"), [vm, vcpu, weight, cap]) => {
                self.cores.weight([*vm, *vcpu], *weight, *cap)
            }
            (word, _) => format!("unknown {}\n", word.unwrap_or_default()),
        }
    }

    fn report(&self, number: u64) -> String {
        let mut text = says::report(&self.cores, number);
        match self.manner {
            Manner::Garbled => {
                let huge = u64::MAX;
                let junk = format!(
                    "vcpu 0 0 0 - runs periodic\nvcpu 9999 0 0 - runs periodic 1 1 1 0 0 1 0 0 0 0 0 {number}\n\
                     exits 0 0 odd {huge} {huge} {number}\n\x1b[2J\x07core x\nran 0 0 0 \
                     9 1 {number}\nboard 0 0 0 0 {number}\nvm 0 \x1b]0;title\x07<script>alert(1)</script> \
                     {number}\n\u{fffd}{}\n",
                    "x".repeat(5000)
                );
                text = junk + &text;
            }
            Manner::Deaf => {
                let last = self.cores.count() - 1;
                let of_last = [format!("core {last} "), format!("ran {last} ")];
                let heard = |line: &&str| !of_last.iter().any(|start| line.starts_with(start));
                text = text
                    .lines()
                    .filter(heard)
                    .map(|line| line.to_owned() + "\n")
                    .collect();
            }
            Manner::Good | Manner::Old | Manner::Mute => {}
        }
        text
    }

    /// What a VM says now and then.
    fn chatter(&mut self) -> Option<(usize, String)> {
        let second = self.now() / FREQUENCY;
        if second <= self.said {
            return None;
        }
        self.said = second;
        let vm = usize::try_from(second).unwrap_or(0) % 3;
        Some((vm, format!("second {second}: all is well here\r\n")))
    }

    /// Speaks on a line until its other end is gone.
    pub fn serve(mut self, from: impl Read + Send + 'static, mut to: impl Write) -> io::Result<()> {
        let (tell, came) = channel();
        thread::spawn(move || {
            let (mut from, mut buffer) = (from, [0; 1024]);
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let bytes = buffer.get(..count).unwrap_or_default().to_vec();
                if tell.send(bytes).is_err() {
                    return;
                }
            }
        });
        let (mut demux, mut lines) = (Demux::framed(), ReportLines::default());
        to.write_all(&demux::keys_go_to(Receiver::Vm(0)))?;
        say(&mut to, Channel::Log, "a board that is none begins\n")?;
        loop {
            to.flush()?;
            let bytes = match came.recv_timeout(Duration::from_millis(200)) {
                Ok(bytes) => bytes,
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if let Some((vm, text)) = self.chatter() {
                say(&mut to, Channel::Vm(vm), &text)?;
            }
            for piece in demux.feed(&bytes) {
                match piece {
                    Piece::Text(Channel::Report, text) if self.manner != Manner::Old => {
                        for line in text.iter().filter_map(|byte| lines.feed(*byte)) {
                            if self.manner == Manner::Mute && !line.starts_with("report") {
                                continue;
                            }
                            let answer = self.answer(&line);
                            say(&mut to, Channel::Report, &answer)?;
                        }
                    }
                    Piece::Text(Channel::Vm(vm), text) => {
                        let text = String::from_utf8_lossy(&text).replace('\r', "\r\n");
                        say(&mut to, Channel::Vm(vm), &text)?;
                    }
                    _ => {}
                }
            }
        }
    }
}

fn say(to: &mut impl Write, channel: Channel, text: &str) -> io::Result<()> {
    to.write_all(&demux::of(channel))?;
    to.write_all(&demux::frame(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Heard, VcpuId, Verdict, parse};
    use crate::report::Report;
    use crate::view::View;

    fn report(board: &mut FakeBoard, number: u64) -> Report {
        let mut report = Report::default();
        for line in board.answer(&format!("report {number}")).lines() {
            match parse(line) {
                Some(Heard::Item(theirs, item)) if theirs == number => report.add(item),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert!(report.is_complete());
        report
    }

    #[test]
    fn it_keeps_the_protocol_and_its_promises() {
        let mut board = FakeBoard::new(Manner::Good);
        let mut last = report(&mut board, 1);
        // Time is moved, not waited for.
        for number in 2..6 {
            board.began -= Duration::from_millis(500);
            let new = report(&mut board, number);
            let view = View::of(Some(&last), &new);
            for vcpu in &view.vcpus {
                assert!(vcpu.used <= 1.01, "{vcpu:?}");
                assert!(vcpu.used >= vcpu.extra, "{vcpu:?}");
            }
            for core in &view.cores {
                assert!((0.0..=1.0).contains(&core.idle), "{core:?}");
            }
            last = new;
        }
    }

    #[test]
    fn it_tests_changes() {
        let mut board = FakeBoard::new(Manner::Good);
        let mut says = |request: &str| parse(board.answer(request).trim_end());
        let id = VcpuId { vm: 1, vcpu: 0 };
        let Some(Heard::Verdict(Verdict::Changed { id: theirs, .. })) =
            says("change 1 0 10000000 2000000 10000000")
        else {
            panic!("refused");
        };
        assert_eq!(theirs, id);
        for (request, word) in [
            ("change 1 0 10000000 9900000 10000000", "overload"),
            ("change 1 0 0 0 0", "invalid"),
            ("change 9 0 10 5 10", "invalid"),
            ("weight 1 0 5 0", "not-allowed"),
        ] {
            let Some(Heard::Verdict(Verdict::Refused { reason, .. })) = says(request) else {
                panic!("{request}");
            };
            assert_eq!(reason, word, "{request}");
        }
        assert!(matches!(
            says("hello"),
            Some(Heard::Verdict(Verdict::Unknown(_)))
        ));
    }
}
