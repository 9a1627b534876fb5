//! The framing of one serial line that carries several channels.
//!
//! DLE (0x10) and 0x40: what follows is the hypervisor's own text. DLE and 0x41 + n: VM n's
//! console. DLE DLE: a byte 0x10. The hypervisor doubles every 0x10 of a guest, so a guest
//! cannot speak in the hypervisor's name. Input to the board is framed in the same way.

const DLE: u8 = 0x10;
const LOG: u8 = 0x40;
const FIRST_VM: u8 = 0x41;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The hypervisor itself.
    Log,
    /// The VM with this place in the description.
    Vm(usize),
}

/// Takes the line apart; bytes may come split at any point.
#[derive(Debug)]
pub struct Demux {
    channel: Channel,
    framed: bool,
    escaped: bool,
}

impl Demux {
    /// A framed line; before the first frame the hypervisor speaks.
    pub fn framed() -> Self {
        Self {
            channel: Channel::Log,
            framed: true,
            escaped: false,
        }
    }

    /// A line with a single guest on it and no framing: a native boot.
    pub fn plain() -> Self {
        Self {
            channel: Channel::Vm(0),
            framed: false,
            escaped: false,
        }
    }

    /// The pieces of `bytes`, each with its channel, in order.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<(Channel, Vec<u8>)> {
        if !self.framed {
            return vec![(self.channel, bytes.to_vec())];
        }
        let mut pieces: Vec<(Channel, Vec<u8>)> = Vec::new();
        for &byte in bytes {
            let Some(byte) = self.step(byte) else {
                continue;
            };
            match pieces.last_mut() {
                Some((channel, piece)) if *channel == self.channel => piece.push(byte),
                _ => pieces.push((self.channel, vec![byte])),
            }
        }
        pieces
    }

    /// A byte of text, or nothing where `byte` belongs to the framing.
    fn step(&mut self, byte: u8) -> Option<u8> {
        if !std::mem::take(&mut self.escaped) {
            self.escaped = byte == DLE;
            return (byte != DLE).then_some(byte);
        }
        match byte {
            DLE => return Some(DLE),
            LOG => self.channel = Channel::Log,
            FIRST_VM.. => self.channel = Channel::Vm(usize::from(byte - FIRST_VM)),
            // Not of the protocol (a line that lost a byte): nothing is known, nothing is shown.
            _ => {}
        }
        None
    }
}

/// `bytes` for the board, framed: every 0x10 doubled.
pub fn frame(bytes: &[u8]) -> Vec<u8> {
    let double = |&byte: &u8| std::iter::repeat_n(byte, 1 + usize::from(byte == DLE));
    bytes.iter().flat_map(double).collect()
}

/// What makes `vm` the receiver of all that follows.
pub fn select(vm: usize) -> [u8; 2] {
    let vm = u8::try_from(vm).unwrap_or(u8::MAX);
    [DLE, FIRST_VM.saturating_add(vm)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &[u8] = b"early\n\x10\x41lin\x10\x10ux\x10\x40vm a: off\n\x10\x42second";

    /// Everything each channel said.
    fn said(pieces: Vec<(Channel, Vec<u8>)>) -> [Vec<u8>; 3] {
        let mut all = [const { Vec::new() }; 3];
        for (channel, piece) in pieces {
            let at = match channel {
                Channel::Log => 0,
                Channel::Vm(vm) => vm + 1,
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
        demux.feed(b"\x10\x41");
        let pieces = demux.feed(&frame(b"\x10\x40forged"));
        assert_eq!(pieces, [(Channel::Vm(0), b"\x10\x40forged".to_vec())]);
    }

    #[test]
    fn a_plain_line_is_one_guest_s() {
        assert_eq!(
            Demux::plain().feed(b"\x10\x40x"),
            [(Channel::Vm(0), b"\x10\x40x".to_vec())]
        );
    }

    #[test]
    fn a_receiver_is_selected() {
        assert_eq!(select(2), [0x10, 0x43]);
    }
}
