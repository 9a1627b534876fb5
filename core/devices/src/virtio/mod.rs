//! Virtio devices, as far as they are the same for all: the registers by which a driver finds and sets up a
//! device, and the queues in the guest's memory by which both exchange buffers (OASIS virtio 1.2, 2 and 4.2).
//!
//! What a disk, a network or a screen *is* is not here: that is the back end's. Nothing here trusts either side. A
//! driver's addresses, indices and lengths are read once, into values of our own, and are checked before they are used;
//! memory is reached by [`GuestMemory`](hanok_hal::GuestMemory) alone, which checks each address against what the VM has.
//!
//! Kept true:
//!
//! - No access and no content of a queue panics, and each call does work that is bounded by a constant: a chain of buffers is
//!   walked one descriptor a call, and ends after [`LONGEST`] of them.
//! - A call that fails, since memory is missing or absent, has changed nothing, and can be made again.
//! - A driver that breaks a rule of the standard which a device cannot do without has a broken device until it resets it
//!   (DEVICE_NEEDS_RESET, 2.1.2); nobody else notices.

mod back_end;
mod chain;
mod entropy;
mod queue;
mod ring;
mod shared;
mod traffic;
mod transfer;
mod transport;

pub use chain::{Buffer, Chain, LONGEST};
pub use queue::{Head, Listening, Places, Queue};
pub use shared::{Backed, Lines, Served, SharedDevice};
pub use transfer::{BETWEEN, BoardMemory};
pub use transport::{Event, Identity, MAX_QUEUES, Transport};

use hanok_hal::AccessError;

/// Features of the transport and the queues that a device may offer, one bit each (virtio 1.2, 6).
pub mod feature {
    /// A buffer may be a table of descriptors.
    pub const INDIRECT: u64 = 1 << 28;
    /// Both sides say by an index when they want to be told.
    pub const EVENT_INDEX: u64 = 1 << 29;
    /// The device is as the standard says, and not as before it. Each device offers it, and each driver must accept it.
    pub const VERSION_1: u64 = 1 << 32;
    /// Those that each kind of device has for itself.
    pub const OF_DEVICES: u64 = !(((1 << 50) - 1) & !((1 << 24) - 1));
}

/// Whose memory or rule it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Of the VM that has the device.
    Client,
    /// Of the VM that serves it.
    Driver,
}

/// Why something could not be done with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Who is to blame.
    pub place: Place,
    /// What is wrong.
    pub cause: Fail,
}

/// What is wrong with a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fail {
    /// The guest's memory could not be accessed.
    Memory(AccessError),
    /// The driver has broken a rule.
    Breach(Breach),
}

impl Fault {
    /// The same, of this VM's.
    fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }
}

impl From<AccessError> for Fault {
    fn from(error: AccessError) -> Self {
        Self {
            place: Place::Client,
            cause: Fail::Memory(error),
        }
    }
}

impl From<Breach> for Fault {
    fn from(breach: Breach) -> Self {
        Self {
            place: Place::Client,
            cause: Fail::Breach(breach),
        }
    }
}

/// A rule that a driver has broken. In brackets, the section of virtio 1.2 that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// More buffers are available than the queue has places (2.7.6).
    Indices,
    /// A chain begins at a descriptor that the queue does not have (2.7.6).
    Head,
    /// A chain goes on at a descriptor that its table does not have (2.7.5).
    Next,
    /// A chain has more than [`LONGEST`] descriptors, or is a circle (2.7.5.2).
    Long,
    /// A buffer to read comes after one to write (2.7.4.2).
    Order,
    /// A buffer ends beyond the address space, or those of a chain have 4 GiB or more together (2.7.5.2).
    Length,
    /// A table of descriptors is empty, of no whole number of them, inside another one, followed by a descriptor, or the
    /// driver has not accepted that there are any (2.7.5.3.1).
    Indirect,
}
