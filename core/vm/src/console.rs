//! The board's one serial line, shared by the VMs' serial ports and the hypervisor's words.
//!
//! *Plain*: for a terminal on a real board. The attached VM's bytes as they come, the
//! hypervisor's lines marked `hanok: `, each on a line of its own.
//!
//! *Framed*: for a program at the other end. Byte 0x10 (DLE) announces; DLE DLE is one byte
//! 0x10, so that no guest can speak in another's name. The same rules both ways:
//!
//! | DLE and | from the board | to the board |
//! |---|---|---|
//! | 0x40 | the hypervisor's text follows | keys of a person follow: for the attached VM or the prompt |
//! | 0x41 + n | VM n's text follows | bytes for VM n follow |
//! | 0x50 | keys go to the prompt | |
//! | 0x51 + n | keys go to VM n | |
//! | 0x61 + n | 256 bytes more of VM n's input are consumed: fetched, or dropped | |
//!
//! 0x50 and 0x51 + n come at the beginning, whenever it changes, and as the answer to each
//! key that may change it: `Ctrl-]`; at the prompt also CR, LF and `Ctrl-C`. Whoever waits for the
//! answer before sending more keys knows of each key where it went, and so how many bytes of
//! each VM's are on the way; at most 1024 of them fit for certain.

mod command;
mod editor;
mod guest;
mod line;
mod multiplexer;
mod voice;

#[cfg(test)]
mod tests;

pub use command::{Command, Names};
pub use guest::Buffers;
pub use multiplexer::{Input, Multiplexer};

use hanok_hal::SerialPort;
use hanok_types::{MAX_VMS, VmId};
use heapless::Deque;

const DLE: u8 = 0x10;
const HYPERVISOR: u8 = 0x40;
const FIRST_VM: u8 = 0x41;

/// Whose text is on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The hypervisor's.
    Hypervisor,
    /// A VM's.
    Vm(VmId),
}

impl Channel {
    fn code(self) -> u8 {
        match self {
            Self::Hypervisor => HYPERVISOR,
            Self::Vm(vm) => FIRST_VM + vm.index() as u8,
        }
    }
}

/// The line and what is on it.
#[derive(Debug)]
pub struct Console<P> {
    port: P,
    framed: bool,
    speaking: Option<Channel>,
    pending: Deque<u8, 2>,
    /// In plain form, whether the line is at its beginning: a hypervisor's line starts there.
    at_start: bool,
    listening: VmId,
    escaped: bool,
}

impl<P: SerialPort> Console<P> {
    /// The line behind `port`.
    pub fn new(port: P, framed: bool) -> Self {
        Self {
            port,
            framed,
            speaking: None,
            pending: Deque::new(),
            at_start: true,
            listening: VmId::new(0),
            escaped: false,
        }
    }

    /// The port itself.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    /// Sends what an earlier byte left over; `false` where some is left still.
    fn flush(&mut self) -> bool {
        while let Some(byte) = self.pending.front() {
            if !self.port.try_send(*byte) {
                return false;
            }
            self.pending.pop_front();
        }
        true
    }

    /// Takes one byte of `channel`'s text; `false` where the line takes none now. A byte
    /// that was taken is on the line, not in here: nobody would come to fetch the last one.
    /// (A doubled byte's two halves stay together: they may wait for the next one.)
    pub fn try_send(&mut self, channel: Channel, byte: u8) -> bool {
        if !self.flush() {
            return false;
        }
        let former = self.speaking.replace(channel);
        if self.framed && former != Some(channel) && !self.send_both(channel.code()) {
            return false;
        }
        let taken = if self.framed && byte == DLE {
            self.send_both(DLE);
            true
        } else {
            self.port.try_send(byte)
        };
        if taken {
            self.at_start = byte == b'\n';
        }
        taken
    }

    /// DLE and `byte`, now or later; whether both are out.
    fn send_both(&mut self, byte: u8) -> bool {
        // Never full: empty before.
        let _ = self.pending.push_back(DLE);
        let _ = self.pending.push_back(byte);
        self.flush()
    }

    /// Says one line of the hypervisor's own, waiting for the line however long that takes.
    pub fn say(&mut self, text: core::fmt::Arguments<'_>) {
        let mut writer = Writer(self);
        let _ = core::fmt::write(&mut writer, text);
        if self.framed {
            self.send_all("\n");
        } else {
            self.send_all("\r\n");
        }
    }

    fn send_all(&mut self, text: &str) {
        for byte in text.bytes() {
            while !self.try_send(Channel::Hypervisor, byte) {
                core::hint::spin_loop();
            }
        }
        while !self.flush() {
            core::hint::spin_loop();
        }
    }

    fn begin_line(&mut self) {
        if self.framed {
            return;
        }
        if !self.at_start && self.speaking != Some(Channel::Hypervisor) {
            self.send_all("\r\n");
        }
        if self.at_start {
            self.send_all("hanok: ");
        }
    }

    /// The VM that the next byte is for, unless it announces another.
    pub fn listening(&self) -> VmId {
        self.listening
    }

    /// Interprets a byte from the line: the VM it is for, and the byte.
    pub fn received(&mut self, byte: u8) -> Option<(VmId, u8)> {
        if !self.framed {
            return Some((self.listening, byte));
        }
        match (core::mem::take(&mut self.escaped), byte) {
            (false, DLE) => {
                self.escaped = true;
                None
            }
            (true, code) if code != DLE => {
                let vm = code.wrapping_sub(FIRST_VM);
                if usize::from(vm) < MAX_VMS {
                    self.listening = VmId::new(vm);
                }
                None
            }
            _ => Some((self.listening, byte)),
        }
    }
}

struct Writer<'a, P>(&'a mut Console<P>);

impl<P: SerialPort> core::fmt::Write for Writer<'_, P> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for line in text.split_inclusive('\n') {
            self.0.begin_line();
            self.0.send_all(line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod old_tests {
    use super::*;
    use hanok_hal::fake::FakeSerialPort;

    fn console(framed: bool) -> Console<FakeSerialPort> {
        Console::new(
            FakeSerialPort {
                room: 1000,
                ..Default::default()
            },
            framed,
        )
    }

    const VM: Channel = Channel::Vm(VmId::new(1));

    #[test]
    fn a_guest_cannot_speak_in_another_s_name() {
        let mut console = console(true);
        for byte in [b'a', DLE, HYPERVISOR] {
            assert!(console.try_send(VM, byte));
        }
        console.say(format_args!("x {}", 1));
        assert_eq!(console.port().sent, b"\x10\x42a\x10\x10\x40\x10\x40x 1\n");
    }

    #[test]
    fn a_full_line_loses_nothing() {
        let mut console = console(true);
        for room in [0, 1, 1] {
            console.port().room = room;
            assert!(!console.try_send(VM, b'a'), "not taken");
        }
        console.port().room = 1;
        assert!(console.try_send(VM, b'a'));
        assert_eq!(console.port().sent, b"\x10\x42a", "nothing waits inside");
        console.port().room = 1;
        assert!(console.try_send(VM, DLE), "its second half waits");
        assert!(!console.try_send(Channel::Hypervisor, b'h'));
        console.port().room = 10;
        assert!(console.try_send(Channel::Hypervisor, b'h'));
        assert_eq!(console.port().sent, b"\x10\x42a\x10\x10\x10\x40h");
    }

    #[test]
    fn plain_lines_of_the_hypervisor_begin_on_a_new_line() {
        let mut console = console(false);
        console.try_send(VM, b'$');
        console.say(format_args!("one"));
        console.say(format_args!("two\nthree"));
        assert_eq!(
            console.port().sent,
            b"$\r\nhanok: one\r\nhanok: two\nhanok: three\r\n"
        );
    }

    #[test]
    fn input_is_switched_by_the_same_rules() {
        let mut console = console(true);
        let got: std::vec::Vec<_> = b"a\x10\x42b\x10\x10\x10\x7fc"
            .iter()
            .filter_map(|b| console.received(*b))
            .collect();
        let (zero, one) = (VmId::new(0), VmId::new(1));
        assert_eq!(got, [(zero, b'a'), (one, b'b'), (one, DLE), (one, b'c')]);
    }
}
