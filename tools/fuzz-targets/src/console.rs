//! Targets for the board's serial line, which the VMs, the hypervisor and the person at the keys
//! share.

use crate::bytes::Bytes;
use hanok_console::demux::{Channel, Demux, Piece, Receiver};
use hanok_console::outbox::Outbox;
use hanok_console::prompt::{Prompt, PromptRequest};
use hanok_hal::fake::FakeSerialPort;
use hanok_types::{MAX_VMS, VmId};
use hanok_vm::{Buffers, Command, Input, Multiplexer, Name, PortQueues, Said};
use std::time::Instant;

const VMS: usize = 3;
const VM_NAMES: [&str; VMS] = ["linux", "rtos", "rtos-b"];

type Board<'b> = Multiplexer<'b, FakeSerialPort>;

fn vm(number: u8) -> VmId {
    VmId::new(number % MAX_VMS as u8)
}

/// What the board keeps, of as many VMs as there can be.
struct Kept {
    said: Box<Said>,
    guests: Vec<PortQueues>,
    names: [Name; VMS],
}

impl Kept {
    fn new() -> Self {
        Self {
            said: Box::new(Said::new()),
            guests: (0..MAX_VMS).map(|_| PortQueues::new()).collect(),
            names: VM_NAMES.map(|name| name.try_into().expect("a short name")),
        }
    }
}

fn board(kept: &mut Kept, framed: bool) -> Board<'_> {
    let buffers = Buffers {
        said: &mut kept.said,
        guests: &mut kept.guests,
    };
    Multiplexer::new(FakeSerialPort::default(), framed, &kept.names, buffers)
}

/// Accepted bytes come out once, in order and under their sender's name, whatever guests print and
/// however the line stalls; and input reaches its receiver, all of it where the other end keeps the
/// protocol.
pub fn console(data: &[u8]) {
    let mut input = Bytes(data);
    let mut kept = Kept::new();
    match input.byte() % 4 {
        0 => output(&mut input, &mut board(&mut kept, true)),
        1 => anything(&mut input, &mut kept),
        2 => conversation(&mut input, &mut board(&mut kept, true)),
        _ => prompt(&mut input, &mut board(&mut kept, true)),
    }
}

fn output(input: &mut Bytes<'_>, board: &mut Board<'_>) {
    let mut taken = [const { Vec::new() }; MAX_VMS];
    let mut lines = 0_u32;
    while !input.is_empty() {
        match input.byte() {
            0..=199 => {
                let (who, byte) = (vm(input.byte()), input.byte());
                if board.try_send(who, byte).is_ok() {
                    taken[who.index()].push(byte);
                }
            }
            200..=239 => board.port().room = usize::from(input.byte() % 16),
            240..=250 => {
                board.say(format_args!("line {lines}"));
                lines += 1;
            }
            _ => board.port().room = usize::MAX,
        }
    }
    board.port().room = usize::MAX;
    board.flush_blocking();
    assert!(!board.pending());
    let mut said = [const { Vec::new() }; MAX_VMS];
    let mut log = Vec::new();
    for piece in Demux::framed().feed(&board.port().sent) {
        match piece {
            Piece::Text(Channel::Vm(vm), text) => said[vm].extend(text),
            Piece::Text(Channel::Log, text) => {
                assert_eq!(text.last(), Some(&b'\n'), "nobody gets into a line");
                log.extend(text);
            }
            Piece::Text(Channel::Report, _) => panic!("nobody asked"),
            Piece::KeysGoTo(receiver) => assert_eq!(receiver, Receiver::Vm(0)),
            Piece::Consumed(_) => panic!("nothing was consumed"),
        }
    }
    assert_eq!(said, taken);
    let text = String::from_utf8(log).expect("text");
    let mut expected = 0;
    for line in text.lines() {
        let lost = line.strip_suffix(" lines of the hypervisor's were lost");
        match lost.map(|count| count.parse::<u32>().expect("a count")) {
            Some(lost) => expected += lost,
            None => {
                assert_eq!(line, format!("line {expected}"));
                expected += 1;
            }
        }
    }
    assert_eq!(expected, lines);
}

/// Without any rules: everything has some answer, and no VM that is not there gets anything.
fn anything(input: &mut Bytes<'_>, kept: &mut Kept) {
    let framed = input.flag();
    let mut board = board(kept, framed);
    while !input.is_empty() {
        match input.byte() {
            0..=199 => match board.received(input.byte()) {
                Input::None | Input::Request(_) => {}
                Input::Vm(vm) => assert!(vm.index() < VMS && board.has_input(vm)),
                Input::Command(command) => carry_out(&mut board, command),
            },
            200..=209 => board.report(format_args!("answer {}", input.byte())),
            210..=219 => _ = board.try_send(vm(input.byte()), input.byte()),
            220..=239 => board.port().room = usize::from(input.byte()),
            240..=249 => drop(board.take_input(vm(input.byte()))),
            _ => board.command_done(),
        }
        assert!(board.attached().index() < VMS);
    }
    board.port().room = usize::MAX;
    board.flush_blocking();
}

fn carry_out(board: &mut Board<'_>, command: Command) {
    if command == Command::Quit {
        return;
    }
    board.say(format_args!("done: {command:?}"));
    board.command_done();
}

/// Any keys at the prompt on the PC: what the prompt sends to the board for a command, the board
/// reads as one.
fn prompt(input: &mut Bytes<'_>, board: &mut Board<'_>) {
    let mut prompt = Prompt::new(&VM_NAMES.map(str::to_owned));
    board.port().room = usize::MAX;
    while !input.is_empty() {
        let asked = prompt.feed(input.byte());
        match asked {
            PromptRequest::Command(line) => {
                let typed = [b"\x1d", line.as_bytes(), b"\r"].concat();
                let asks = |byte| matches!(board.received(byte), Input::Command(_));
                let asked: Vec<bool> = typed.into_iter().map(asks).collect();
                assert!(asked.ends_with(&[true]), "{line:?}");
                board.command_done();
                board.received(0x03);
                let _ = board.drain();
                board.port().sent.clear();
            }
            PromptRequest::Attach(vm) => assert!(vm < VMS),
            PromptRequest::Say(lines) | PromptRequest::Answer(lines) => assert!(!lines.is_empty()),
            PromptRequest::Nothing
            | PromptRequest::Redraw
            | PromptRequest::Leave
            | PromptRequest::Literal => {}
        }
        let (_, cursor) = prompt.visible(80);
        assert!(cursor < 80, "the cursor has a column");
    }
}

/// The two ends together: a script writes to VMs, somebody types, VMs read now and then. Nothing is
/// dropped, everything comes in order, and no end waits for ever.
fn conversation(input: &mut Bytes<'_>, board: &mut Board<'_>) {
    let (mut demux, mut outbox) = (Demux::framed(), Outbox::new(true, VMS));
    let now = Instant::now();
    let mut given: [Vec<u8>; VMS] = Default::default();
    let mut got: [Vec<u8>; VMS] = Default::default();
    board.port().room = usize::MAX;
    let mut exchange = |board: &mut Board<'_>, outbox: &mut Outbox| {
        loop {
            let _ = board.drain();
            for piece in demux.feed(&std::mem::take(&mut board.port().sent)) {
                match piece {
                    Piece::KeysGoTo(receiver) => outbox.keys_go_to(receiver),
                    Piece::Consumed(vm) => outbox.consumed(vm),
                    Piece::Text(..) => {}
                }
            }
            let line = outbox.take(now);
            for byte in &line {
                if let Input::Command(command) = board.received(*byte) {
                    carry_out(board, command);
                    board.command_done();
                }
            }
            if line.is_empty() {
                break;
            }
        }
    };
    exchange(board, &mut outbox);
    while !input.is_empty() {
        let (what, which, count) = (input.byte(), input.byte(), input.byte());
        let vm = usize::from(which) % VMS;
        match what % 4 {
            0 => {
                let text = vec![which; usize::from(count) * 8];
                given[vm].extend(&text);
                outbox.send(vm, &text);
            }
            // To the prompt and back, without an effect on others.
            1 => outbox.keys([&b"\x1dlist\r\x03"[..], b"\x1dattach rtos\r", b"\x1d\r"][vm]),
            2 => {
                let fetched = (0..count).map_while(|_| board.take_input(VmId::new(vm as u8)));
                got[vm].extend(fetched);
            }
            _ => exchange(board, &mut outbox),
        }
    }
    // At the end every VM reads, so that nothing blocks the line any more.
    let mut left = true;
    while left {
        exchange(board, &mut outbox);
        left = false;
        for (number, got) in (0..).zip(&mut got) {
            while let Some(byte) = board.take_input(VmId::new(number)) {
                got.push(byte);
                left = true;
            }
        }
    }
    let lengths = |all: &[Vec<u8>; VMS]| all.each_ref().map(Vec::len);
    assert_eq!(lengths(&got), lengths(&given));
    assert!(got == given, "other bytes");
    assert!((0..VMS as u8).all(|number| board.dropped_input(VmId::new(number)) == 0));
    assert!(!board.prompt_is_open());
}
