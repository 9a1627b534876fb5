//! What all kinds of devices have in common, and one type for a device of any kind.
//!
//! A closed set is an enum: [`Device`] has an arm for each kind, and its methods go to the arm's
//! [`Model`]. A new kind is a file with a model, an arm here, and a `DeviceKind`.

use crate::{Access, EmptyTransports, Flash, Pl011, Pl031, Unknown};
use hanok_config::DeviceKind;
use hanok_hal::SerialPort;

/// What a model may ask of the world around it while an access is served.
pub trait World: SerialPort {
    /// Whole seconds of a clock that never steps back.
    fn seconds(&self) -> u64;
}

/// What others are to be told after an access, beside the level of the interrupt line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notice {
    /// Nothing.
    #[default]
    None,
    /// The line behind the serial port: how the port stands now.
    Serial {
        /// Whether the port has handed on all received bytes, and has room for further ones.
        room: bool,
        /// Whether bytes to be sent wait for the line.
        waiting: bool,
    },
    /// Those who watch the time: when [`Model::due`] says may have changed.
    Time,
}

/// A kind of device as a state machine. What is not overridden here is of a device without an
/// interrupt line, a soft timer, or anybody to tell.
pub(crate) trait Model {
    /// Serves a load or store at `offset`; a load's value, zero for a store.
    fn access(&mut self, offset: u64, access: Access, world: &mut impl World) -> u64;

    /// Back to the state after a reset. What was counted goes on.
    fn reset(&mut self) {}

    /// The level of the interrupt line.
    fn level(&self) -> bool {
        false
    }

    /// Does what is due at second `now` of the clock of [`World::seconds`].
    fn pass_time(&mut self, _now: u64) {}

    /// When [`Self::pass_time`] next changes the interrupt line; `None`: never by itself.
    fn due(&self) -> Option<u64> {
        None
    }

    /// What others are to be told after an access.
    fn notice(&self) -> Notice {
        Notice::None
    }

    /// Bytes of the registers of one device, where several of them stand one after the other in
    /// the slot's region, and answer alike. No access reaches over two.
    fn stride(&self) -> Option<u64> {
        None
    }

    /// How many accesses went to registers that are not there.
    fn unknown(&self) -> Unknown;
}

/// A device of any kind.
#[derive(Clone, Debug)]
pub enum Device {
    /// The PL011 serial port.
    Pl011(Pl011),
    /// The PL031 real-time clock.
    Pl031(Pl031),
    /// Transports of virtio-mmio with no device behind them.
    EmptyTransports(EmptyTransports),
    /// Flash that reads as erased.
    Flash(Flash),
}

/// The value of `$body`, in which `$model` is the model of `$device`, whatever its kind.
macro_rules! by_kind {
    ($device:expr, $model:ident => $body:expr) => {
        match $device {
            Device::Pl011($model) => $body,
            Device::Pl031($model) => $body,
            Device::EmptyTransports($model) => $body,
            Device::Flash($model) => $body,
        }
    };
}

impl Device {
    /// A device after a reset. `epoch_seconds` is the time of day, in seconds since 1970, at
    /// second zero of [`World::seconds`].
    #[inline(never)]
    pub fn new(kind: DeviceKind, epoch_seconds: u32) -> Self {
        match kind {
            DeviceKind::Pl011 => Self::Pl011(Pl011::new()),
            DeviceKind::Pl031 => Self::Pl031(Pl031::new(epoch_seconds)),
            DeviceKind::EmptyTransports => Self::EmptyTransports(EmptyTransports::new()),
            DeviceKind::Flash => Self::Flash(Flash::new()),
        }
    }

    /// Serves a load or store at `offset`; a load's value, zero for a store.
    #[inline]
    pub fn access(&mut self, offset: u64, access: Access, world: &mut impl World) -> u64 {
        by_kind!(self, model => Model::access(model, offset, access, world))
    }

    /// Back to the state after a reset. What was counted goes on.
    pub fn reset(&mut self) {
        by_kind!(self, model => Model::reset(model));
    }

    /// The level of the interrupt line.
    #[inline]
    pub fn level(&self) -> bool {
        by_kind!(self, model => Model::level(model))
    }

    /// Does what is due at second `now` of the clock of [`World::seconds`].
    pub fn pass_time(&mut self, now: u64) {
        by_kind!(self, model => Model::pass_time(model, now));
    }

    /// When [`Self::pass_time`] next changes the interrupt line; `None`: never by itself.
    pub fn due(&self) -> Option<u64> {
        by_kind!(self, model => Model::due(model))
    }

    /// What others are to be told after an access.
    #[inline]
    pub fn notice(&self) -> Notice {
        by_kind!(self, model => Model::notice(model))
    }

    /// Bytes of the registers of one device, where the slot's region has several.
    pub(crate) fn stride(&self) -> Option<u64> {
        by_kind!(self, model => Model::stride(model))
    }

    /// How many accesses went to registers that are not there.
    pub fn unknown(&self) -> Unknown {
        by_kind!(self, model => Model::unknown(model))
    }
}
