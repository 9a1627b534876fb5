//! The serial line of the fake board.

use crate::{HostLine, LineFull, ReceiveInterrupt, SerialPort};
use std::collections::VecDeque;
use std::string::String;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The other end of a [`FakeLine`].
#[derive(Clone, Debug, Default)]
pub struct Wire {
    /// The bytes that the board sent, oldest first.
    pub sent: Arc<Mutex<Vec<u8>>>,
    /// The bytes on their way to the board.
    pub typed: Arc<Mutex<VecDeque<u8>>>,
    /// Whether the board wants to be interrupted when it can send.
    pub called_when_writable: Arc<AtomicBool>,
    /// Whether the board does not want to be interrupted by received bytes.
    pub deaf: Arc<AtomicBool>,
    /// How many bytes the line still takes; `None` if it is never full.
    pub room: Arc<Mutex<Option<usize>>>,
}

impl Wire {
    /// Sends bytes to the board. The caller raises the interrupt of the serial port.
    pub fn send(&self, bytes: &[u8]) {
        lock(&self.typed).extend(bytes);
    }

    /// The text that the board has sent.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.sent)).into_owned()
    }
}

/// The board's serial line.
#[derive(Debug)]
pub struct FakeLine(pub Wire);

impl SerialPort for FakeLine {
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        if let Some(room) = &mut *lock(&self.0.room) {
            *room = room.checked_sub(1).ok_or(LineFull)?;
        }
        lock(&self.0.sent).push(byte);
        Ok(())
    }
}

impl HostLine for FakeLine {
    fn acknowledge(&mut self) -> ReceiveInterrupt {
        if lock(&self.0.typed).is_empty() {
            ReceiveInterrupt::Idle
        } else {
            ReceiveInterrupt::Pending
        }
    }

    fn acknowledge_in_vain(&mut self) {}

    fn receive(&mut self) -> Option<u8> {
        lock(&self.0.typed).pop_front()
    }

    fn interrupt_when_received(&mut self, on: bool) {
        self.0.deaf.store(!on, Ordering::SeqCst);
    }

    fn interrupt_when_writable(&mut self, on: bool) {
        self.0.called_when_writable.store(on, Ordering::SeqCst);
    }
}
