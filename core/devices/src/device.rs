//! The interface of all kinds of devices, and a type that holds a device of any kind.
//!
//! The set of kinds is closed, so it is an enum: [`Device`] has an arm for each kind, and its
//! methods call the arm's [`Model`]. A new kind needs a file with a model, an arm here, and a
//! `DeviceKind`.

use crate::virtio::SharedDevice;
use crate::{
    Access, Bells, Channel, EmptyTransports, Flash, FwCfg, Nor, Pl011, Pl031, Schedule,
    ScheduleRegisters, Unknown,
};
use hanok_config::DeviceKind;
use hanok_hal::SerialPort;
use hanok_hal::sync::atomic::AtomicU32;

/// The surroundings that a model may use while it serves an access.
pub trait World: SerialPort {
    /// The time of a clock that never steps back, in whole seconds.
    fn seconds(&self) -> u64;

    /// The registers of [`Schedule`] of the vCPU that makes the access.
    fn schedule(&mut self) -> &mut ScheduleRegisters;
}

/// Who is to be told what after an access. The level of the interrupt line is not part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notice {
    /// No other part has to be notified.
    #[default]
    None,
    /// The serial line behind a port has to be notified of the port's state.
    Serial {
        /// Whether the port has handed on all received bytes, and has room for further ones.
        room: bool,
        /// Whether bytes wait to be sent.
        waiting: bool,
    },
    /// Peers on a channel have to be told, once the device's lock is dropped.
    Bells(Bells),
    /// The VM's alarms have to be notified that [`Model::due`] may have changed.
    Time,
}

/// A kind of device as a state machine. The default methods are those of a device that has no interrupt
/// line, no soft timer, and nothing to notify others of.
pub(crate) trait Model {
    /// Serves a load or store at `offset`. The answer is the value of a load, or zero for a store.
    fn access(&mut self, offset: u64, access: Access, world: &mut impl World) -> u64;

    /// Resets the device. Its counters keep their values.
    fn reset(&mut self) {}

    /// The level of the interrupt line.
    fn level(&self) -> bool {
        false
    }

    /// Lets the device do what is due by second `now` of the clock of [`World::seconds`].
    fn pass_time(&mut self, _now: u64) {}

    /// The second at which [`Self::pass_time`] next changes the interrupt line; `None` if it does
    /// not.
    fn due(&self) -> Option<u64> {
        None
    }

    /// Who is to be told what after an access.
    fn notice(&self) -> Notice {
        Notice::None
    }

    /// The size of one device's registers in bytes, if the slot's region has several such devices,
    /// one after the other, that all answer alike. No access reaches over two of them.
    fn stride(&self) -> Option<u64> {
        None
    }

    /// The counts of accesses to registers that do not exist.
    fn unknown(&self) -> Unknown;
}

/// A device of any kind.
#[derive(Clone, Debug)]
pub enum Device {
    /// The PL011 serial port.
    Pl011(Pl011),
    /// The PL031 real-time clock.
    Pl031(Pl031),
    /// The virtio-mmio transports, which have no device behind them.
    EmptyTransports(EmptyTransports),
    /// Flash that reads as erased.
    Flash(Flash),
    /// The calls by which a guest takes part in the scheduling of its vCPUs.
    Schedule(Schedule),
    /// An end of a channel between VMs.
    Channel(Channel),
    /// Flash that takes commands.
    Nor(Nor),
    /// The firmware's configuration.
    FwCfg(FwCfg),
    /// A virtio device.
    Virtio(Virtio),
    /// A virtio device of another VM, which this one serves.
    BackEnd(BackEnd),
}

/// What a device has that is not in its slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behind {
    /// The record of a device that two VMs share, or that the hypervisor serves.
    pub shared: Option<&'static SharedDevice>,
    /// What a [`Nor`] keeps its contents in.
    pub memory: &'static [AtomicU32],
}

/// A VM's own side of a virtio device.
#[derive(Clone, Debug)]
pub struct Virtio(pub &'static SharedDevice);

impl Model for Virtio {
    fn access(&mut self, offset: u64, access: Access, _world: &mut impl World) -> u64 {
        self.0.access_by(false, offset, access).value
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn level(&self) -> bool {
        self.0.lines().client
    }

    fn unknown(&self) -> Unknown {
        self.0.unknown()
    }
}

/// A driver VM's side of it.
#[derive(Clone, Debug)]
pub struct BackEnd(pub &'static SharedDevice);

impl Model for BackEnd {
    fn access(&mut self, offset: u64, access: Access, _world: &mut impl World) -> u64 {
        self.0.access_by(true, offset, access).value
    }

    fn reset(&mut self) {
        self.0.reset_back_end();
    }

    fn level(&self) -> bool {
        self.0.lines().driver
    }

    fn unknown(&self) -> Unknown {
        self.0.unknown_of_back_end()
    }
}

/// Evaluates `$body` with `$model` as the model of `$device`, whatever its kind.
macro_rules! by_kind {
    ($device:expr, $model:ident => $body:expr) => {
        match $device {
            Device::Pl011($model) => $body,
            Device::Pl031($model) => $body,
            Device::EmptyTransports($model) => $body,
            Device::Flash($model) => $body,
            Device::Schedule($model) => $body,
            Device::Virtio($model) => $body,
            Device::BackEnd($model) => $body,
            Device::Nor($model) => $body,
            Device::FwCfg($model) => $body,
            Device::Channel($model) => $body,
        }
    };
}

impl Device {
    /// A device of `kind` after a reset. `epoch_seconds` is the time of day, in seconds since 1970,
    /// at second zero of [`World::seconds`]; without the record that it needs in `behind`, a device is not there.
    #[inline(never)]
    pub fn new(kind: DeviceKind, epoch_seconds: u32, behind: Behind) -> Self {
        let Behind { shared, memory } = behind;
        match (kind, shared) {
            (DeviceKind::Virtio(_), Some(shared)) => return Self::Virtio(Virtio(shared)),
            (DeviceKind::BackEnd, Some(shared)) => return Self::BackEnd(BackEnd(shared)),
            _ => {}
        }
        match kind {
            DeviceKind::Pl011 => Self::Pl011(Pl011::new()),
            DeviceKind::Pl031 => Self::Pl031(Pl031::new(epoch_seconds)),
            DeviceKind::EmptyTransports | DeviceKind::Virtio(_) | DeviceKind::BackEnd => {
                Self::EmptyTransports(EmptyTransports::new())
            }
            DeviceKind::Flash => Self::Flash(Flash::new()),
            DeviceKind::Schedule => Self::Schedule(Schedule::default()),
            DeviceKind::Nor => Self::Nor(Nor::new(memory)),
            DeviceKind::FwCfg => Self::FwCfg(FwCfg::new()),
            DeviceKind::Channel => Self::Channel(Channel::default()),
        }
    }

    /// Serves a load or store at `offset`. The answer is the value of a load, or zero for a store.
    #[inline]
    pub fn access(&mut self, offset: u64, access: Access, world: &mut impl World) -> u64 {
        by_kind!(self, model => Model::access(model, offset, access, world))
    }

    /// Resets the device. Its counters keep their values.
    pub fn reset(&mut self) {
        by_kind!(self, model => Model::reset(model));
    }

    /// The level of the interrupt line.
    #[inline]
    pub fn level(&self) -> bool {
        by_kind!(self, model => Model::level(model))
    }

    /// Lets the device do what is due by second `now` of the clock of [`World::seconds`].
    pub fn pass_time(&mut self, now: u64) {
        by_kind!(self, model => Model::pass_time(model, now));
    }

    /// The second at which [`Self::pass_time`] next changes the interrupt line; `None` if it does
    /// not.
    pub fn due(&self) -> Option<u64> {
        by_kind!(self, model => Model::due(model))
    }

    /// Who is to be told what after an access.
    #[inline]
    pub fn notice(&self) -> Notice {
        by_kind!(self, model => Model::notice(model))
    }

    /// The size of one device's registers in bytes, if the slot's region has several devices.
    pub(crate) fn stride(&self) -> Option<u64> {
        by_kind!(self, model => Model::stride(model))
    }

    /// The counts of accesses to registers that do not exist.
    pub fn unknown(&self) -> Unknown {
        by_kind!(self, model => Model::unknown(model))
    }
}
