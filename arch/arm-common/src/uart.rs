//! The board's serial port, of either kind. Boards of 64 bits have PL011s alone so far.

use crate::ns16550::Ns16550;
use crate::pl011::Pl011;
use hanok_config::SerialKind;
use hanok_hal::{HostLine, LineFull, ReceiveInterrupt, SerialPort};
use hanok_types::Hva;

/// A serial port, which the firmware has set up, or else the hypervisor.
pub enum HostUart {
    /// A PL011.
    Pl011(Pl011),
    /// A 16550.
    Ns16550(Ns16550),
}

/// Calls either kind.
macro_rules! of_either {
    ($self:ident, $port:ident => $call:expr) => {
        match $self {
            Self::Pl011($port) => $call,
            Self::Ns16550($port) => $call,
        }
    };
}

impl HostUart {
    /// The port that [`hanok_config::SerialKind::port`] means; `None` if its address cannot be used.
    ///
    /// # Safety
    /// It is the register frame of a port of that kind, mapped as device memory for ever, and no other code
    /// drives it.
    pub unsafe fn new(port: u64) -> Option<Self> {
        if port & 1 == SerialKind::Ns16550 as u64 {
            // SAFETY: by this function's contract.
            return unsafe { Ns16550::new(Hva::new(port & !1)) }.map(Self::Ns16550);
        }
        // SAFETY: by this function's contract.
        unsafe { Pl011::new(port) }.map(Self::Pl011)
    }

    /// Enables the interrupts for received bytes, and clears those that were pending before.
    pub fn listen(&mut self) {
        of_either!(self, port => port.listen());
    }
}

impl SerialPort for HostUart {
    fn try_send(&mut self, byte: u8) -> Result<(), LineFull> {
        of_either!(self, port => port.try_send(byte))
    }
}

impl HostLine for HostUart {
    fn interrupt_when_writable(&mut self, on: bool) {
        of_either!(self, port => port.interrupt_when_writable(on));
    }

    fn interrupt_when_received(&mut self, on: bool) {
        of_either!(self, port => port.interrupt_when_received(on));
    }

    fn acknowledge(&mut self) -> ReceiveInterrupt {
        of_either!(self, port => port.acknowledge())
    }

    fn acknowledge_in_vain(&mut self) {
        of_either!(self, port => port.acknowledge_in_vain());
    }

    fn receive(&mut self) -> Option<u8> {
        of_either!(self, port => port.receive())
    }
}
