//! The engine's thread: bytes of the board in, requests and keys out.
//!
//! A thread of its own reads, and one writes: a line whose other end takes nothing holds up nobody but
//! itself. What waits for it is bounded, as requests wait for answers, and keys for the VM's room.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use hanok_console::demux::{Channel, Demux, Piece};
use hanok_console::outbox::Outbox;
use hanok_console::report_lines::ReportLines;

use crate::engine::Engine;
use crate::line::Ways;
use crate::state::{Command, Shared, Speaker, Status};

/// The largest number of VMs of a board.
const MOST_VMS: usize = 64;
/// The number of pieces that may wait for the line.
const PIECES: usize = 64;

/// What comes to the engine.
enum Event {
    Came(Vec<u8>),
    Ended,
    Asked(Command),
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A board itself.
    Board,
    /// A run, which has a board.
    Run,
}

/// Starts the engine upon a line.
pub fn start(
    ways: Ways,
    peer: Peer,
    interval: Duration,
    (shared, commands): (Shared, Receiver<Command>),
) {
    let (tell, events) = channel();
    let of_commands = tell.clone();
    thread::spawn(move || {
        for command in commands {
            if of_commands.send(Event::Asked(command)).is_err() {
                return;
            }
        }
    });
    let Ways { from, to } = ways;
    thread::spawn(move || read(from, &tell));
    let (line, pieces) = sync_channel(PIECES);
    thread::spawn(move || write(to, pieces));
    let mut engine = Engine::new(shared.clone(), interval, peer == Peer::Run, Instant::now());
    let secret = (peer == Peer::Board).then(number).flatten();
    engine.number_from(secret.unwrap_or(0));
    let outbox = match peer {
        Peer::Board => Outbox::new(true, MOST_VMS),
        Peer::Run => Outbox::to_run(MOST_VMS),
    };
    let link = Link {
        engine,
        outbox,
        demux: Demux::framed(),
        line,
        overheard: secret.map(|_| ReportLines::default()),
        shared,
    };
    thread::spawn(move || link.serve(&events));
}

/// A number that no guest knows, after which reports are numbered; the board takes those of 32 bits.
fn number() -> Option<u64> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).ok()?;
    Some(u64::from(u32::from_le_bytes(bytes) >> 1))
}

fn read(mut from: impl Read, tell: &Sender<Event>) {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer) {
            Ok(count @ 1..) => {
                let bytes = buffer.get(..count).unwrap_or_default().to_vec();
                if tell.send(Event::Came(bytes)).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
        }
    }
    let _ = tell.send(Event::Ended);
}

fn write(mut to: impl Write, pieces: Receiver<Vec<u8>>) {
    for piece in pieces {
        if to.write_all(&piece).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

struct Link {
    engine: Engine,
    outbox: Outbox,
    demux: Demux,
    line: SyncSender<Vec<u8>>,
    /// What is said before the board names who speaks. It names nobody twice: where the report channel spoke last,
    /// who comes then hears answers that are nobody's, and knows them by the number that it chose.
    overheard: Option<ReportLines>,
    shared: Shared,
}

impl Link {
    fn serve(mut self, events: &Receiver<Event>) {
        loop {
            let now = Instant::now();
            self.engine.overdue(now);
            if let Some(request) = self.engine.ask(now) {
                self.outbox.request(request);
            }
            let bytes = self.outbox.take(now);
            if !bytes.is_empty() {
                let _ = self.line.try_send(bytes);
            }
            let wait = self.engine.wake().saturating_duration_since(now);
            match events.recv_timeout(wait) {
                Ok(Event::Came(bytes)) => self.came(&bytes),
                Ok(Event::Asked(Command::Change(number, change))) => {
                    self.engine.change(number, change);
                }
                Ok(Event::Asked(Command::Keys(vm, bytes))) => {
                    self.outbox.send(vm as usize, &bytes);
                }
                Ok(Event::Asked(Command::Quit)) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(Event::Ended) => return self.ended(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn came(&mut self, mut bytes: &[u8]) {
        while let (false, Some((first, rest))) = (self.demux.is_named(), bytes.split_first()) {
            self.comes(&[*first]);
            self.overhear(*first);
            bytes = rest;
        }
        self.comes(bytes);
    }

    /// Looks whether a byte ends a line of the report that is asked for: so the report channel speaks.
    fn overhear(&mut self, byte: u8) {
        let Some(lines) = &mut self.overheard else {
            return;
        };
        if let Some(line) = lines.feed(byte)
            && self.engine.overheard(&line, Instant::now())
        {
            self.demux.name(Channel::Report);
        }
    }

    fn comes(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        for piece in self.demux.feed(bytes) {
            match piece {
                Piece::Text(Channel::Report, text) => self.engine.heard(&text, now),
                Piece::Text(Channel::Log, text) => self.said(Speaker::Hypervisor, &text),
                Piece::Text(Channel::Vm(vm), text) => {
                    self.outbox.vm_spoke();
                    self.said(Speaker::Vm(u32::try_from(vm).unwrap_or(0)), &text);
                }
                Piece::KeysGoTo(receiver) => self.outbox.keys_go_to(receiver),
                Piece::Consumed(vm) => self.outbox.consumed(vm),
            }
        }
    }

    fn said(&self, who: Speaker, text: &[u8]) {
        self.shared.update(|state| state.log.add(who, text));
    }

    fn ended(&self) {
        self.shared.update(|state| {
            state.status = Status::Gone("the line to the board has ended".to_owned());
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::fake::{FakeBoard, Manner};

    /// A board whose report channel spoke last, so that it names nobody: what it says of `number`, the request's own.
    fn unnamed(answer: impl Fn(u64) -> u64 + Send + 'static) -> Shared {
        let (mut board, ours) = UnixStream::pair().unwrap();
        let (shared, commands) = Shared::new("x");
        let ways = Ways::of(ours).unwrap();
        let interval = Duration::from_millis(20);
        start(ways, Peer::Board, interval, (shared.clone(), commands));
        thread::spawn(move || {
            let (mut demux, mut lines) = (Demux::framed(), ReportLines::default());
            let (mut fake, mut buffer) = (FakeBoard::new(Manner::Good), [0; 256]);
            while let Ok(count @ 1..) = board.read(&mut buffer) {
                for piece in demux.feed(&buffer[..count]) {
                    let Piece::Text(Channel::Report, text) = piece else {
                        continue;
                    };
                    for line in text.iter().filter_map(|byte| lines.feed(*byte)) {
                        let number = line.rsplit(' ').next().and_then(|word| word.parse().ok());
                        let text = fake.answer(&format!("report {}", answer(number.unwrap())));
                        // The rest of a line that began before.
                        board.write_all(b"17 4\n").unwrap();
                        board.write_all(text.as_bytes()).unwrap();
                    }
                }
            }
        });
        shared
    }

    #[test]
    fn who_comes_late_knows_answers_by_their_number() {
        let shared = unnamed(|number| number);
        let rates = |state: &crate::state::State| (state.view.between > 0).then_some(());
        assert!(shared.wait(Duration::from_secs(60), rates).is_some());
        assert_eq!(shared.lock().view.vcpus.len(), 8);
    }

    /// A guest that spoke last does not know the number: what it says is no report.
    #[test]
    fn a_guest_s_text_is_no_report() {
        let shared = unnamed(|number| number ^ 1 << 20);
        let silent = |state: &crate::state::State| match state.status {
            Status::Live => Some(false),
            Status::Silent(_) => Some(true),
            _ => None,
        };
        assert_eq!(shared.wait(Duration::from_secs(60), silent), Some(true));
        assert!(shared.lock().view.vcpus.is_empty());
    }
}
