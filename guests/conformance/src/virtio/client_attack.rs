//! An attack of a hostile client's on one of its devices.

use super::transport::Device;

/// What the device has to be after an attack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It wants a reset (DEVICE_NEEDS_RESET).
    Broken,
    /// It wants a reset once all descriptors of the request were looked at; the hypervisor's own source of random bytes looks at the
    /// first one alone.
    Walked,
    /// It goes on to serve, without a reset.
    Live,
    /// Whatever it is, a reset helps.
    Any,
}

/// An attack. An error is what the device has done wrong.
pub struct Attack {
    /// What it is called.
    pub name: &'static str,
    /// Makes it.
    pub run: fn(&mut Device, &Place) -> Result<(), &'static str>,
    /// What the device has to be then.
    pub after: After,
}

/// An attack on a device that is set up.
pub const fn attack(
    name: &'static str,
    after: After,
    run: fn(&mut Device, &Place) -> Result<(), &'static str>,
) -> Attack {
    Attack { name, run, after }
}

/// What an attack has to know of this VM.
pub struct Place {
    /// The first address behind RAM.
    pub ram_end: u64,
    /// The queue by which the device is asked for something.
    pub queue: u32,
}
