//! Serial ports.

/// One side of a serial line, as a device model sees the world behind it.
pub trait SerialPort {
    /// Hands one byte on; `false` where the line takes none just now (nothing is lost: the
    /// caller keeps the byte and tries again).
    fn try_send(&mut self, byte: u8) -> bool;
}

/// Keeps what was sent; takes at most `room` bytes.
#[cfg(any(test, feature = "fake"))]
#[derive(Debug, Default)]
pub struct FakeSerialPort {
    /// What was sent, oldest first.
    pub sent: std::vec::Vec<u8>,
    /// How many more bytes it takes.
    pub room: usize,
}

#[cfg(any(test, feature = "fake"))]
impl SerialPort for FakeSerialPort {
    fn try_send(&mut self, byte: u8) -> bool {
        let taken = self.room > 0;
        if taken {
            self.room -= 1;
            self.sent.push(byte);
        }
        taken
    }
}
