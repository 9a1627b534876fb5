//! The framing of one serial line that carries several channels.
//!
//! DLE (0x10) and 0x3f: what follows is the hypervisor's own text. DLE and 0x3d: the
//! report channel's lines (docs/top.md). DLE and 0x40 + n: VM n's console. DLE DLE: a byte 0x10. The hypervisor doubles every 0x10 of a guest, so a guest
//! cannot speak in the hypervisor's name. DLE and 0x3e or 0x80 + n: keys go to the prompt, or
//! to VM n. DLE and 0xc0 + n: 256 bytes for VM n were consumed. To the board: DLE and 0x3f:
//! keys; DLE and 0x3d: a request for a report; DLE and 0x40 + n: bytes for VM n.

const DLE: u8 = 0x10;
const REPORT: u8 = 0x3d;
const KEYS_TO_PROMPT: u8 = 0x3e;
const LOG: u8 = 0x3f;
const FIRST_VM: u8 = 0x40;
const KEYS_TO_VM: u8 = 0x80;
const CONSUMED: u8 = 0xc0;

/// The source of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The hypervisor itself.
    Log,
    /// The report channel: answers of the hypervisor for programs.
    Report,
    /// The VM with this index in the description.
    Vm(usize),
}

/// The receiver of a person's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The hypervisor's prompt.
    Prompt,
    /// The attached VM.
    Vm(usize),
}

/// A piece of the board's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A text and its source.
    Text(Channel, Vec<u8>),
    /// From here on, keys go to this receiver.
    KeysGoTo(Receiver),
    /// This VM consumed 256 bytes.
    Consumed(usize),
}

/// Takes the line apart. Its bytes may be split at any point.
#[derive(Debug)]
pub struct Demux {
    channel: Channel,
    framed: bool,
    escaped: bool,
    named: bool,
}

impl Demux {
    /// For a framed line. Before the first frame the hypervisor speaks.
    pub fn framed() -> Self {
        Self {
            channel: Channel::Log,
            framed: true,
            escaped: false,
            named: false,
        }
    }

    /// For a line with a single guest and no framing: a native boot.
    pub fn plain() -> Self {
        Self {
            channel: Channel::Vm(0),
            framed: false,
            escaped: false,
            named: false,
        }
    }

    /// Whether the board has named who speaks since this was made. Who comes to a line late has missed it.
    pub const fn is_named(&self) -> bool {
        self.named
    }

    /// Takes it that `channel` speaks, until the board names another one.
    pub const fn name(&mut self, channel: Channel) {
        (self.channel, self.named) = (channel, true);
    }

    /// The pieces of `bytes`, in order.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        if !self.framed {
            return vec![Piece::Text(self.channel, bytes.to_vec())];
        }
        let mut pieces = Vec::new();
        for &byte in bytes {
            let Some(byte) = self.step(byte, &mut pieces) else {
                continue;
            };
            match pieces.last_mut() {
                Some(Piece::Text(channel, text)) if *channel == self.channel => text.push(byte),
                _ => pieces.push(Piece::Text(self.channel, vec![byte])),
            }
        }
        pieces
    }

    /// The byte of text, or `None` where `byte` belongs to the framing.
    fn step(&mut self, byte: u8, pieces: &mut Vec<Piece>) -> Option<u8> {
        if !std::mem::take(&mut self.escaped) {
            self.escaped = byte == DLE;
            return (byte != DLE).then_some(byte);
        }
        let place = |first: u8| usize::from(byte - first);
        match byte {
            DLE => return Some(DLE),
            LOG => self.name(Channel::Log),
            REPORT => self.name(Channel::Report),
            FIRST_VM..KEYS_TO_VM => self.name(Channel::Vm(place(FIRST_VM))),
            KEYS_TO_PROMPT => pieces.push(Piece::KeysGoTo(Receiver::Prompt)),
            KEYS_TO_VM..CONSUMED => {
                pieces.push(Piece::KeysGoTo(Receiver::Vm(place(KEYS_TO_VM))));
            }
            CONSUMED.. => pieces.push(Piece::Consumed(place(CONSUMED))),
            // Not of the protocol (a line that lost a byte): nothing is known, nothing is shown.
            _ => {}
        }
        None
    }
}

/// The bytes that make the person's receiver, which the board knows, the receiver of what follows.
pub const KEYS: [u8; 2] = [DLE, LOG];

/// The bytes that make the report channel the receiver of what follows. A board that does not know the
/// channel ignores its code: what follows goes to the receiver before, which is the last VM that there
/// can be. Where that is not there, the board drops it, and no VM finds requests among its keys.
pub const REQUESTS: [u8; 4] = [DLE, KEYS_TO_VM - 1, DLE, REPORT];

/// `bytes` for the board, framed: every 0x10 is doubled.
pub fn frame(bytes: &[u8]) -> Vec<u8> {
    let double = |&byte: &u8| std::iter::repeat_n(byte, 1 + usize::from(byte == DLE));
    bytes.iter().flat_map(double).collect()
}

/// The bytes that say that keys go to `receiver`.
pub fn keys_go_to(receiver: Receiver) -> [u8; 2] {
    match receiver {
        Receiver::Prompt => [DLE, KEYS_TO_PROMPT],
        Receiver::Vm(vm) => [DLE, select(vm)[1] + (KEYS_TO_VM - FIRST_VM)],
    }
}

/// The bytes that make `channel` the source of what follows.
pub fn of(channel: Channel) -> [u8; 2] {
    match channel {
        Channel::Log => [DLE, LOG],
        Channel::Report => [DLE, REPORT],
        Channel::Vm(vm) => select(vm),
    }
}

/// The bytes that make `vm` the receiver of what follows.
pub fn select(vm: usize) -> [u8; 2] {
    let vm = u8::try_from(vm).unwrap_or(u8::MAX);
    [DLE, FIRST_VM.saturating_add(vm).min(KEYS_TO_VM - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"early\n\x10\x40lin\x10\x10ux\x10\x3fvm a: off\n\x10\x41second";

    /// All text of each channel.
    fn said(pieces: Vec<Piece>) -> [Vec<u8>; 3] {
        let mut all = [const { Vec::new() }; 3];
        for piece in pieces {
            let Piece::Text(channel, piece) = piece else {
                continue;
            };
            let at = match channel {
                Channel::Log => 0,
                Channel::Vm(vm) => vm + 1,
                Channel::Report => panic!("nobody asked"),
            };
            all[at].extend(piece);
        }
        all
    }

    #[test]
    fn channels_are_told_apart_wherever_bytes_are_split() {
        let wanted = [
            b"early\nvm a: off\n".to_vec(),
            b"lin\x10ux".to_vec(),
            b"second".to_vec(),
        ];
        for first in 0..LINE.len() {
            for second in first..LINE.len() {
                let mut demux = Demux::framed();
                let mut pieces = demux.feed(&LINE[..first]);
                pieces.extend(demux.feed(&LINE[first..second]));
                pieces.extend(demux.feed(&LINE[second..]));
                assert_eq!(said(pieces), wanted, "split at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_doubled_byte_does_not_change_the_channel() {
        let mut demux = Demux::framed();
        demux.feed(b"\x10\x40");
        let pieces = demux.feed(&frame(b"\x10\x3fforged"));
        let text = b"\x10\x3fforged".to_vec();
        assert_eq!(pieces, [Piece::Text(Channel::Vm(0), text)]);
    }

    #[test]
    fn a_plain_line_is_one_guest_s() {
        assert_eq!(
            Demux::plain().feed(b"\x10\x3fx"),
            [Piece::Text(Channel::Vm(0), b"\x10\x3fx".to_vec())]
        );
    }

    #[test]
    fn announcements_come_between_texts() {
        let pieces = Demux::framed().feed(b"\x10\x40a\x10\x81b\x10\x3e\x10\xc2\x10\x20c");
        let text = |text: &[u8]| Piece::Text(Channel::Vm(0), text.to_vec());
        let wanted = [
            text(b"a"),
            Piece::KeysGoTo(Receiver::Vm(1)),
            text(b"b"),
            Piece::KeysGoTo(Receiver::Prompt),
            Piece::Consumed(2),
            text(b"c"),
        ];
        assert_eq!(pieces, wanted);
    }

    #[test]
    fn reports_have_a_channel_of_their_own() {
        let pieces = Demux::framed().feed(b"\x10\x3dend 1\n\x10\x3flog\n");
        let wanted = [
            Piece::Text(Channel::Report, b"end 1\n".to_vec()),
            Piece::Text(Channel::Log, b"log\n".to_vec()),
        ];
        assert_eq!(pieces, wanted);
        assert_eq!(of(Channel::Report), [0x10, 0x3d]);
        let heard = Demux::framed().feed(&[&REQUESTS[..], b"report 1\n"].concat());
        let asked = Piece::Text(Channel::Report, b"report 1\n".to_vec());
        assert_eq!(heard, [asked]);
    }

    #[test]
    fn a_receiver_is_selected() {
        assert_eq!(select(2), [0x10, 0x42]);
        assert_eq!(select(63), [0x10, 0x7f]);
        assert_eq!(keys_go_to(Receiver::Vm(63)), [0x10, 0xbf]);
        let pieces = Demux::framed().feed(b"\x10\x7fa\x10\xbf\x10\xff");
        let last = Piece::Text(Channel::Vm(63), b"a".to_vec());
        let wanted = [last, Piece::KeysGoTo(Receiver::Vm(63)), Piece::Consumed(63)];
        assert_eq!(pieces, wanted);
    }
}
