use super::*;
use hanok_hal::LineFull;
use hanok_hal::fake::FakeSerialPort;
use proptest::prelude::*;
use std::boxed::Box;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

const A: VmId = VmId::new(0);
const B: VmId = VmId::new(1);

fn with<T>(framed: bool, test: impl FnOnce(&mut Multiplexer<'_, FakeSerialPort>) -> T) -> T {
    let (mut said, mut guests) = (Box::new(Said::new()), [const { PortQueues::new() }; 4]);
    let buffers = Buffers {
        said: &mut said,
        guests: &mut guests,
    };
    let names = ["linux", "rtos"].map(|name| heapless::String::try_from(name).unwrap());
    let port = FakeSerialPort {
        room: usize::MAX,
        ..FakeSerialPort::default()
    };
    test(&mut Multiplexer::new(port, framed, &names, buffers))
}

/// A limited number of bytes is taken at a time, and none after one that asks for a command, so that the
/// work of each exit is bounded.
#[test]
fn what_arrives_is_taken_in_parts() {
    use hanok_hal::fake::{FakeLine, Wire};
    let wire = Wire::default();
    let (mut said, mut guests) = (Box::new(Said::new()), [const { PortQueues::new() }; 4]);
    let buffers = Buffers {
        said: &mut said,
        guests: &mut guests,
    };
    let names = ["linux", "rtos"].map(|name| heapless::String::try_from(name).unwrap());
    let line = FakeLine(wire.clone());
    let mut mux = Multiplexer::new(line, true, &names, buffers);
    wire.send(b"\x10\x40ab\x10\x41cd\x10\x40ef");
    let all = |vms| Arrived {
        vms,
        ..Arrived::default()
    };
    // Two of the framing, and two for the first VM.
    assert_eq!(mux.receive(4), all(1));
    assert_eq!(mux.receive(7), all(1 << 1 | 1));
    assert_eq!(mux.receive(6), all(1));
    assert_eq!(mux.receive(6), all(0), "none is left");
    let mut given = |vm| -> Vec<u8> { core::iter::from_fn(|| mux.take_input(vm)).collect() };
    assert_eq!((given(A), given(B)), (b"abef".to_vec(), b"cd".to_vec()));
    wire.send(b"\x10\x3f\x1dlist\rx");
    let list = Arrived {
        vms: 0,
        command: Some(Command::List),
        ..Arrived::default()
    };
    assert_eq!(mux.receive(100), list);
    mux.command_done();
    assert_eq!(
        wire.typed.lock().unwrap().len(),
        1,
        "what comes after it waits"
    );
}

type Mux<'b> = Multiplexer<'b, FakeSerialPort>;

/// The bytes on the line since the last call.
fn sent(mux: &mut Mux<'_>) -> Vec<u8> {
    let _ = mux.drain();
    core::mem::take(&mut mux.port().sent)
}

fn shown(mux: &mut Mux<'_>) -> String {
    String::from_utf8_lossy(&sent(mux)).into_owned()
}

fn send(mux: &mut Mux<'_>, vm: VmId, text: &str) {
    for byte in text.bytes() {
        assert_eq!(mux.try_send(vm, byte), Ok(()));
    }
}

/// Types keys, and answers the last input that is not `None`.
fn keys(mux: &mut Mux<'_>, keys: &str) -> Input {
    let answers = keys.bytes().map(|key| mux.received(key));
    let last = answers.filter(|input| *input != Input::None).last();
    last.unwrap_or(Input::None)
}

fn input(mux: &mut Mux<'_>, vm: VmId) -> Vec<u8> {
    core::iter::from_fn(|| mux.take_input(vm)).collect()
}

#[test]
fn a_guest_cannot_speak_in_another_s_name() {
    with(true, |mux| {
        send(mux, B, "a\x10\x3f");
        mux.say(format_args!("x {}", 1));
        let line = b"\x10\x80\x10\x41a\x10\x10\x3f\x10\x3fx 1\n";
        assert_eq!(sent(mux), line);
    });
}

#[test]
fn a_full_line_loses_nothing() {
    with(true, |mux| {
        sent(mux);
        for room in [0, 1, 1] {
            mux.port().room = room;
            assert_eq!(mux.try_send(B, b'a'), Err(LineFull), "not taken");
        }
        mux.port().room = 1;
        assert_eq!(mux.try_send(B, b'a'), Ok(()));
        assert_eq!(sent(mux), b"\x10\x41a");
        mux.port().room = 1;
        assert_eq!(mux.try_send(B, 0x10), Ok(()), "its second half waits");
        assert!(mux.pending());
        mux.say(format_args!("h"));
        assert_eq!(
            mux.try_send(B, b'b'),
            Err(LineFull),
            "after the hypervisor's line"
        );
        mux.port().room = 10;
        assert_eq!(mux.try_send(B, b'b'), Ok(()));
        assert!(!mux.pending());
        assert_eq!(sent(mux), b"\x10\x10\x10\x3fh\n\x10\x41b");
    });
}

/// Whatever waits for the line is pending. Once there is room, all of it is sent, and nothing is
/// pending.
#[test]
fn text_that_waits_is_pending_until_it_is_sent() {
    for framed in [true, false] {
        with(framed, |mux| {
            sent(mux);
            assert!(!mux.pending());
            let waits: [fn(&mut Mux<'_>); 3] = [
                |mux| mux.say(format_args!("said")),
                |mux| _ = mux.received(b'\x1d'),
                |mux| _ = mux.try_send(A, 0x10),
            ];
            for (which, wait) in waits.iter().enumerate() {
                mux.port().room = 0;
                wait(mux);
                let pending = mux.pending();
                mux.port().room = usize::MAX;
                assert_eq!(pending, !sent(mux).is_empty(), "{framed} {which}");
                assert!(pending || which != 0, "{framed}");
                assert!(!mux.pending(), "{framed} {which}");
            }
        });
    }
}

#[test]
fn in_plain_form_the_hypervisor_s_lines_begin_on_a_new_line() {
    with(false, |mux| {
        send(mux, A, "$");
        mux.say(format_args!("one"));
        mux.say(format_args!("two\nthr\x1bee"));
        send(mux, A, "x");
        let lines = "$\r\nhanok: one\r\nhanok: two\r\nhanok: thr.ee\r\nx";
        assert_eq!(shown(mux), lines);
    });
}

#[test]
fn lines_without_room_are_lost_whole_and_counted() {
    with(false, |mux| {
        mux.port().room = 0;
        for line in 0..1000 {
            mux.say(format_args!("line {line:060}"));
        }
        assert!(mux.pending());
        mux.port().room = usize::MAX;
        let text = shown(mux);
        let (told, said): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.contains("lost"));
        for (at, line) in said.iter().enumerate() {
            assert_eq!(*line, format!("hanok: line {at:060}"));
        }
        let lost = 1000 - said.len();
        assert_eq!(
            told,
            [format!("hanok: {lost} lines of the hypervisor's were lost")]
        );
        assert!(said.len() > 200);
    });
}

#[test]
fn a_vm_that_is_not_attached_is_kept_and_shown_later() {
    with(false, |mux| {
        send(mux, A, "a");
        mux.port().room = 0;
        send(mux, B, "booted\n");
        assert_eq!(mux.try_send(A, b'a'), Err(LineFull), "its FIFO waits");
        mux.port().room = usize::MAX;
        assert_eq!(shown(mux), "a");
        keys(mux, "\x1datt r\r");
        assert_eq!(mux.attached(), B);
        assert_eq!(shown(mux), "\r\nhanok> att r\r\n--- rtos ---\r\nbooted\n");
        send(mux, A, &"x".repeat(5000));
        send(mux, B, "b");
        assert_eq!(shown(mux), "b");
        keys(mux, "\x1da linux\r");
        let text = shown(mux);
        assert!(
            text.ends_with(&format!("[904 bytes lost]\r\n{}", "x".repeat(4096))),
            "{text}"
        );
    });
}

#[test]
fn the_attached_vm_is_kept_back_while_somebody_types() {
    with(false, |mux| {
        keys(mux, "\x1dli");
        send(mux, A, "late");
        mux.say(format_args!("vm rtos: off"));
        keys(mux, "\x7fx\x15");
        let wanted = "hanok> li\r\x1b[Khanok: vm rtos: off\r\nhanok> li\x08 \x08x\r\x1b[Khanok> ";
        assert_eq!(shown(mux), wanted);
        keys(mux, "\x03");
        assert_eq!(shown(mux), "\r\nlate");
        assert!(!mux.prompt_is_open());
    });
    with(true, |mux| {
        keys(mux, "\x1d");
        send(mux, A, "l");
        let line = "\x10\x3fhanok> \x10\x3e\x10\x40l";
        assert_eq!(shown(mux), line, "the other end sorts it out");
    });
}

#[test]
fn commands_are_carried_out_by_the_caller() {
    with(false, |mux| {
        assert_eq!(
            keys(mux, "\x1dpause r\r"),
            Input::Command(Command::Pause(B))
        );
        mux.say(format_args!("vm rtos: paused"));
        mux.command_done();
        assert_eq!(keys(mux, "dup r\r\n"), Input::None);
        let wanted = "hanok> pause r\r\nhanok: vm rtos: paused\r\nhanok> \
            dup r\r\nhanok: no command dup: help lists them\r\nhanok> ";
        assert_eq!(shown(mux), wanted);
        assert!(mux.prompt_is_open());
        keys(mux, "h\r");
        let help = shown(mux);
        let words = "hanok: list, attach NAME, pause NAME, resume NAME, restart NAME, stop NAME, \
            dump NAME, stats [NAME], quit, help; words may be cut short\r\n";
        assert!(help.contains(words), "{help}");
        assert_eq!(keys(mux, "\r"), Input::None);
        assert!(!mux.prompt_is_open());
        mux.command_done();
        assert!(!mux.prompt_is_open(), "nothing was to be done");
    });
}

/// On a real board's terminal, what is left of a line may be nothing, or another command.
#[test]
fn a_line_that_lost_characters_is_told_and_not_carried_out() {
    with(false, |mux| {
        shown(mux);
        let too_long = std::format!("stats {}", "x".repeat(80));
        for (line, count) in [("äöü", 3), ("stop rtosü", 1), (too_long.as_str(), 6)] {
            assert!(!mux.prompt_is_open());
            assert_eq!(
                keys(mux, &std::format!("\x1d{line}\r")),
                Input::None,
                "{line}"
            );
            let text = shown(mux);
            let told =
                std::format!("hanok: not done: {count} characters of that line were dropped");
            assert!(text.contains(&told) && text.ends_with("hanok> "), "{text}");
            assert!(mux.prompt_is_open());
            // The next line is as usual.
            assert_eq!(keys(mux, "list\r"), Input::Command(Command::List));
            mux.command_done();
            keys(mux, "\x03");
            shown(mux);
        }
    });
}

#[test]
fn a_command_without_end_can_be_left() {
    with(true, |mux| {
        keys(mux, "\x1dlist\r");
        sent(mux);
        keys(mux, "x");
        assert_eq!(sent(mux), b"", "no answer yet");
        keys(mux, "\x03");
        assert_eq!(sent(mux), b"\x10\x80");
        mux.command_done();
        assert_eq!(keys(mux, "y"), Input::Vm(A));
        assert_eq!(input(mux, A), b"y");
    });
}

/// The code of a VM is that of the first one plus its number.
#[test]
fn the_other_end_is_told_which_vm_has_the_keys() {
    with(true, |mux| {
        sent(mux);
        keys(mux, "\x1dattach rtos\r");
        let line = sent(mux);
        let code = |pair: &&[u8]| pair[0] == 0x10 && pair[1] >= 0x80;
        let told = line.windows(2).rfind(code);
        assert_eq!(told, Some(&b"\x10\x81"[..]));
    });
}

#[test]
fn every_key_that_may_change_the_receiver_is_answered() {
    with(true, |mux| {
        assert_eq!(sent(mux), b"\x10\x80", "at the beginning");
        let answers = [
            ("\x1d", &b"\x10\x3fhanok> \x10\x3e"[..]),
            ("\x03", b"\n\x10\x80"),
            ("\x1d", b"hanok> \x10\x3e"),
        ];
        for (typed, line) in &answers {
            keys(mux, typed);
            assert_eq!(sent(mux), *line);
        }
        keys(mux, "xyz\r");
        assert!(sent(mux).ends_with(b"lists them\nhanok> \x10\x3e"));
        keys(mux, "\n");
        assert_eq!(sent(mux), b"\x10\x3e", "the same line's end");
        assert_eq!(keys(mux, "\x1d"), Input::Vm(A));
        assert_eq!(sent(mux), b"\n\x10\x80");
        assert_eq!(input(mux, A), b"\x1d");
        keys(mux, "\r\n\x03");
        assert_eq!(sent(mux), b"", "these are the VM's own");
    });
}

#[test]
fn input_goes_to_its_receiver() {
    with(true, |mux| {
        keys(
            mux,
            "k\x10\x41b\x10\x10\x1d\x10\x48nobody\x10\x20\x10\x3f\x1d\x10\x41c\x10\x40a",
        );
        assert!(mux.prompt_is_open());
        assert!(mux.has_input(A) && mux.has_input(B));
        assert_eq!(input(mux, A), b"ka");
        assert_eq!(input(mux, B), b"b\x10\x1dc");
        assert!(!mux.has_input(B));
    });
}

#[test]
fn a_vm_that_does_not_read_stops_nobody() {
    with(true, |mux| {
        keys(mux, "\x10\x41");
        keys(mux, &"x".repeat(2048));
        assert_eq!(mux.dropped_input(B), 0);
        sent(mux);
        keys(mux, &"x".repeat(256));
        assert_eq!(mux.dropped_input(B), 256);
        let told = b"\x10\x3fvm rtos: input lost: it does not read its serial port\n\x10\xc1";
        assert_eq!(sent(mux), told, "once");
        assert_eq!(keys(mux, "\x10\x3fk"), Input::Vm(A));
        assert_eq!(input(mux, A), b"k");
        mux.clear_input(B);
        assert_eq!(sent(mux), b"\x10\xc1".repeat(8));
    });
}

#[test]
fn ids_that_no_vm_has_do_no_harm() {
    for framed in [false, true] {
        with(framed, |mux| {
            let nobody = VmId::new(200);
            assert_eq!(mux.try_send(nobody, b'x'), Ok(()));
            assert_eq!(mux.take_input(nobody), None);
            assert!(!mux.has_input(nobody));
            mux.clear_input(nobody);
        });
    }
}

/// The framed line as a program at the other end reads it: each channel's text, and the pieces of
/// the line that each channel has at a time.
fn demultiplexed(line: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut pieces: Vec<(u8, Vec<u8>)> = vec![];
    let mut speaking = HYPERVISOR;
    let mut line = line.iter().copied();
    while let Some(mut byte) = line.next() {
        if byte == 0x10 {
            byte = line.next().expect("what DLE announces");
            match byte {
                0x10 => {}
                HYPERVISOR..=0x47 => {
                    speaking = byte;
                    continue;
                }
                0x3e | 0x80..=0x87 | 0xc0..=0xc7 => continue,
                other => panic!("code {other:#x}"),
            }
        }
        match pieces.last_mut() {
            Some((channel, text)) if *channel == speaking => text.push(byte),
            _ => pieces.push((speaking, vec![byte])),
        }
    }
    pieces
}

#[derive(Clone, Debug)]
enum Event {
    Send(u8, u8),
    Say(u8),
    Room(u8),
    Key(u8),
    Received(u8),
    Take(u8),
    Done,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let key =
        prop::sample::select(&b"\x1d\r\x03\t\x15\x7f\x1b[A acdehlopqrstu\x10\x3f\x41\x42"[..]);
    let event = prop_oneof![
        4 => (0..4_u8, any::<u8>()).prop_map(|(vm, byte)| Event::Send(vm, byte)),
        1 => any::<u8>().prop_map(Event::Say),
        1 => any::<u8>().prop_map(Event::Room),
        4 => key.prop_map(Event::Key),
        1 => any::<u8>().prop_map(Event::Received),
        1 => (0..10_u8).prop_map(Event::Take),
        1 => Just(Event::Done),
    ];
    prop::collection::vec(event, 0..400)
}

/// Whether `text` consists of whole lines, except perhaps a prompt at its end.
fn is_whole(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let last = text.rsplit(['\n', '\r']).next().unwrap_or("");
    last.is_empty() || last.trim_start_matches("\x1b[K").starts_with("hanok> ")
}

proptest! {
    #[test]
    fn whatever_comes_each_channel_keeps_its_name(framed: bool, events in events()) {
        with(framed, |mux| {
            let mut taken = [const { Vec::new() }; 4];
            for event in events {
                match event {
                    Event::Send(vm, byte) => {
                        if mux.try_send(VmId::new(vm), byte).is_ok() {
                            taken[usize::from(vm)].push(byte);
                        }
                    }
                    Event::Say(word) => mux.say(format_args!("said {word} end")),
                    Event::Room(room) => mux.port().room = room.into(),
                    Event::Key(byte) | Event::Received(byte) => drop(mux.received(byte)),
                    Event::Take(vm) => drop(mux.take_input(VmId::new(vm))),
                    Event::Done => mux.command_done(),
                }
            }
            mux.port().room = usize::MAX;
            mux.flush_blocking();
            assert!(!mux.pending());
            if !framed {
                return;
            }
            let pieces = demultiplexed(&mux.port().sent);
            for (vm, taken) in (FIRST_VM..).zip(&taken) {
                let said = pieces.iter().filter(|(channel, _)| *channel == vm);
                let said: Vec<u8> = said.flat_map(|(_, text)| text.clone()).collect();
                assert_eq!(said, *taken);
            }
            for (channel, text) in &pieces {
                assert!(*channel != HYPERVISOR || typed_at(text) || is_whole(text), "{text:?}");
            }
        });
    }
}

/// Whether the text is an echo of keys at the prompt, without the prompt itself.
fn typed_at(text: &[u8]) -> bool {
    !text.windows(4).any(|word| word == b"said")
}

/// What an exit makes of a line waits for its rest, and another answer takes its place.
#[test]
fn half_a_line_of_an_answer_is_completed_or_dropped() {
    let sent = |mux: &mut Multiplexer<'_, FakeSerialPort>| {
        while mux.send_report() != ReportPiece::Nothing {}
        assert!(!mux.has_report());
        String::from_utf8(core::mem::take(&mut mux.port().sent)).unwrap()
    };
    with(true, |mux| {
        mux.report_half(format_args!("a b"));
        assert_eq!(sent(mux), "", "it is no line yet");
        assert!(mux.report_rest(format_args!(" c")));
        assert_eq!(sent(mux), "\x10\x3da b c\n");
        mux.report_half(format_args!("a b"));
        mux.report(format_args!("changed"));
        assert!(!mux.report_rest(format_args!(" c")), "its half is gone");
        mux.report_half(format_args!("d e"));
        assert!(!mux.report_rest(format_args!(" f")), "another answer waits");
        assert_eq!(sent(mux), "changed\n");
        mux.report_half(format_args!("d e"));
        assert!(mux.report_rest(format_args!(" f")));
        assert_eq!(sent(mux), "d e f\n");
    });
}
