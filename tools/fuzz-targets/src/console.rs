//! The board's serial line, shared by the VMs and the hypervisor.

use crate::bytes::Bytes;
use hanok_hal::fake::FakeSerialPort;
use hanok_types::{MAX_VMS, VmId};
use hanok_vm::{Channel, Console};

const DLE: u8 = 0x10;
const HYPERVISOR: u8 = 0x40;
/// The hypervisor's text, then each VM's.
const CHANNELS: usize = 1 + MAX_VMS;

fn vm(number: u8) -> VmId {
    VmId::new(number % MAX_VMS as u8)
}

/// What is taken comes out once, in order and under its speaker's name, whatever guests say
/// and however the line stalls; and input goes to whom it is for.
pub fn console(data: &[u8]) {
    let mut input = Bytes(data);
    if input.flag() {
        output(&mut input);
    } else {
        received(&mut input);
    }
}

fn output(input: &mut Bytes<'_>) {
    let framed = input.flag();
    let mut console = Console::new(FakeSerialPort::default(), framed);
    let mut taken: [Vec<u8>; CHANNELS] = Default::default();
    let mut plain = Vec::new();
    while !input.is_empty() {
        match input.byte() {
            0..=199 => {
                let (who, byte) = (input.byte() as usize % CHANNELS, input.byte());
                let channel = match who.checked_sub(1) {
                    None => Channel::Hypervisor,
                    Some(number) => Channel::Vm(vm(number as u8)),
                };
                if console.try_send(channel, byte) {
                    taken[who].push(byte);
                    plain.push(byte);
                }
            }
            200..=239 => console.port().room = usize::from(input.byte() % 16),
            _ => {
                console.port().room = usize::MAX;
                if framed {
                    console.say(format_args!("word"));
                    taken[0].extend(b"word\n");
                }
            }
        }
    }
    console.port().room = usize::MAX;
    assert!(console.try_send(Channel::Hypervisor, b'.'));
    taken[0].push(b'.');
    plain.push(b'.');
    match framed {
        true => assert_eq!(demultiplexed(&console.port().sent), taken),
        false => assert_eq!(console.port().sent, plain),
    }
}

/// What a program at the other end makes of it.
fn demultiplexed(line: &[u8]) -> [Vec<u8>; CHANNELS] {
    let mut channels: [Vec<u8>; CHANNELS] = Default::default();
    let mut speaking = None;
    let mut line = line.iter().copied();
    while let Some(byte) = line.next() {
        let byte = match byte {
            DLE => match line.next().expect("what DLE announces") {
                DLE => DLE,
                code => {
                    speaking = Some(usize::from(code - HYPERVISOR));
                    continue;
                }
            },
            other => other,
        };
        channels[speaking.expect("somebody speaks")].push(byte);
    }
    channels
}

fn received(input: &mut Bytes<'_>) {
    let mut console = Console::new(FakeSerialPort::default(), true);
    let (mut given, mut got) = (Vec::new(), Vec::new());
    while !input.is_empty() {
        let (to, byte) = (vm(input.byte()), input.byte());
        given.push((to, byte));
        let mut line = vec![DLE, HYPERVISOR + 1 + to.index() as u8, byte];
        if byte == DLE {
            line.push(DLE);
        }
        got.extend(line.into_iter().filter_map(|byte| console.received(byte)));
    }
    assert_eq!(got, given);
    // Without any rules: still nobody who does not exist.
    for (_, byte) in given {
        let got = console.received(byte);
        assert!(got.is_none_or(|(to, _)| to.index() < MAX_VMS));
        assert!(console.listening().index() < MAX_VMS);
    }
}
