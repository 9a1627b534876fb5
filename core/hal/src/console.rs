//! Serial ports.

/// The line has no room for a byte now. The caller keeps the byte and tries again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineFull;

/// The sending end of a serial line.
pub trait SerialPort {
    /// Sends `byte`, unless the line is full.
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull>;
    /// Sends `byte`, and waits for room as long as it takes. It is used for the last lines of a panic.
    fn send_blocking(&mut self, byte: u8) {
        while self.try_send(byte).is_err() {
            core::hint::spin_loop();
        }
    }
}

/// A line that records the bytes sent, and has room for at most `room` bytes.
#[cfg(any(test, feature = "fake"))]
#[derive(Debug, Default)]
pub struct FakeSerialPort {
    /// The bytes sent, oldest first.
    pub sent: std::vec::Vec<u8>,
    /// The number of bytes that the line has room for.
    pub room: usize,
}

#[cfg(any(test, feature = "fake"))]
impl SerialPort for FakeSerialPort {
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        self.room = self.room.checked_sub(1).ok_or(LineFull)?;
        self.sent.push(byte);
        Ok(())
    }
}
