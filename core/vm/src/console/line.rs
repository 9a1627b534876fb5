//! Bytes of several channels on one serial port.

use super::Channel;
use hanok_hal::{LineFull, SerialPort};
use heapless::Deque;

pub(super) const DLE: u8 = 0x10;

/// The port, and the state of the line.
#[derive(Debug)]
pub(super) struct Line<P> {
    pub(super) port: P,
    pub(super) framed: bool,
    speaking: Option<Channel>,
    /// Bytes between two channels' texts that the port has not taken yet.
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

    /// Sends the bytes that an earlier call left waiting.
    pub(super) fn flush(&mut self) -> Result<(), LineFull> {
        while let Some(byte) = self.between.front() {
            self.port.try_send(*byte)?;
            self.between.pop_front();
        }
        Ok(())
    }

    /// Whether bytes wait for [`Self::flush`].
    pub(super) fn is_waiting(&self) -> bool {
        !self.between.is_empty()
    }

    /// Sends one byte of `channel`'s text. After a success it is on the port, except the second half
    /// of a doubled byte, which may wait.
    pub(super) fn try_send(&mut self, channel: Channel, byte: u8) -> Result<(), LineFull> {
        self.flush()?;
        let former = self.speaking.replace(channel);
        if former != Some(channel) {
            self.change_over(channel)?;
        }
        if self.framed && byte == DLE {
            // A byte that cannot be sent now waits, and counts as sent.
            let _ = self.send_both([DLE, DLE]);
        } else {
            self.port.try_send(byte)?;
        }
        self.at_start = byte == b'\n';
        Ok(())
    }

    /// Sends an announcement of the protocol.
    pub(super) fn try_announce(&mut self, code: u8) -> Result<(), LineFull> {
        self.flush()?;
        // A byte that cannot be sent now waits, and counts as sent.
        let _ = self.send_both([DLE, code]);
        Ok(())
    }

    /// Sends what separates the text of two channels. In framed form that is the code of the new
    /// channel; in plain form the hypervisor's text begins on a line of its own. An error means that
    /// some of it waits.
    fn change_over(&mut self, channel: Channel) -> Result<(), LineFull> {
        if self.framed {
            self.send_both([DLE, channel.code()])
        } else if channel == Channel::Hypervisor && !self.at_start {
            self.at_start = true;
            self.send_both(*b"\r\n")
        } else {
            Ok(())
        }
    }

    /// Sends two bytes. An error means that some of them wait.
    fn send_both(&mut self, bytes: [u8; 2]) -> Result<(), LineFull> {
        for byte in bytes {
            // The queue is never full here: it was empty before.
            let _ = self.between.push_back(byte);
        }
        self.flush()
    }
}
