//! Bytes of several speakers on one serial port: who speaks, and where a line begins.

use super::Channel;
use hanok_hal::SerialPort;
use heapless::Deque;

pub(super) const DLE: u8 = 0x10;

/// The port and what stands on it.
#[derive(Debug)]
pub(super) struct Line<P> {
    pub(super) port: P,
    pub(super) framed: bool,
    speaking: Option<Channel>,
    /// Bytes between texts that the port has not taken yet.
    between: Deque<u8, 4>,
    /// In plain form, whether the line is at its beginning.
    at_start: bool,
}

impl<P: SerialPort> Line<P> {
    pub(super) fn new(port: P, framed: bool) -> Self {
        Self {
            port,
            framed,
            speaking: None,
            between: Deque::new(),
            at_start: true,
        }
    }

    /// Sends what an earlier byte left over; `false` where some is left still.
    pub(super) fn flush(&mut self) -> bool {
        while let Some(byte) = self.between.front() {
            if !self.port.try_send(*byte) {
                return false;
            }
            self.between.pop_front();
        }
        true
    }

    /// Whether [`Self::flush`] has something to do.
    pub(super) fn is_waiting(&self) -> bool {
        !self.between.is_empty()
    }

    /// Takes one byte of `channel`'s text; `false` where the port takes none now. What was
    /// taken is on the port, but for the second half of a doubled byte, which may wait.
    pub(super) fn try_send(&mut self, channel: Channel, byte: u8) -> bool {
        if !self.flush() {
            return false;
        }
        let former = self.speaking.replace(channel);
        if former != Some(channel) && !self.change_over(channel) {
            return false;
        }
        let taken = if self.framed && byte == DLE {
            self.send_both([DLE, DLE]);
            true
        } else {
            self.port.try_send(byte)
        };
        if taken {
            self.at_start = byte == b'\n';
        }
        taken
    }

    /// Sends an announcement of the protocol's; `false` where it was not taken.
    pub(super) fn try_announce(&mut self, code: u8) -> bool {
        let ready = self.flush();
        if ready {
            self.send_both([DLE, code]);
        }
        ready
    }

    /// What stands between two speakers: framed, the new one's name; in plain form, the
    /// hypervisor begins on a line of its own. Whether all of it is out.
    fn change_over(&mut self, channel: Channel) -> bool {
        if self.framed {
            self.send_both([DLE, channel.code()])
        } else if channel == Channel::Hypervisor && !self.at_start {
            self.at_start = true;
            self.send_both(*b"\r\n")
        } else {
            true
        }
    }

    fn send_both(&mut self, bytes: [u8; 2]) -> bool {
        for byte in bytes {
            // Never full: it was empty before.
            let _ = self.between.push_back(byte);
        }
        self.flush()
    }
}
